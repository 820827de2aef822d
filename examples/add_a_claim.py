"""A conjecture of your own becomes a claim with a verdict: of three about one record one holds, one fails, one is not tested.

A claim says what was predicted, what was measured, how near counts, and which assumptions it needs. The last matters: a statement
about long contexts is neither confirmed nor refuted by a run with short ones.
"""

import sys

import numpy as np

import saccade

small = "--small" in sys.argv

# %% One record: decoder as fast as attention, and ten times faster.
task = saccade.SequenceClasses.syn_small()
context = 127
record = saccade.train(task, lr_decoder=[1, 10], lr_attention=1, steps=48, momentum=0.9, context=context, seeds=3 if small else 10)
on_common = record.attention.sel(token=np.flatnonzero(task.common)).sum("token").mean(("seed", "class"))
slow, fast = on_common.isel(time=-1).values
spread = float(record.loss.isel(rate=0, time=0).std("seed"))

# %% First, what must be so from a start of zeros: every token is as likely as any other.
guessing = saccade.Claim(
    statement="before training the model guesses: its loss is the log of the vocabulary",
    source="Y(0) = 0",
    predicted=float(np.log(task.n_vocab)),
    measured=float(record.loss.isel(rate=0, time=0).mean()),
    tolerance=1e-5 + spread,
)

# %% Second, a conjecture that is wrong. We know it by now, so `fails` is what we expect and the claim guards it.
same = saccade.Claim(
    statement="attention left on common tokens does not depend on the decoder's rate",
    source="a conjecture of mine",
    predicted=float(slow),
    measured=float(fast),
    tolerance=0.02,
    expected="fails",
)

# %% Third, a statement that this run cannot test: it is about contexts so long that sampling does not matter.
limit = saccade.Claim(
    statement="in long contexts attention on common tokens goes as in the population flow",
    source="a conjecture of mine",
    predicted=float(saccade.train(task, batch=np.inf, context=np.inf, steps=48, momentum=0.9).attention[0, -1, 0, :10].sum()),
    measured=float(slow),
    tolerance=0.001,
    assumptions={"context of at least 10,000 tokens": context >= 10_000},
    expected="outside its assumptions",
)

# %% Verdicts follow from the numbers. `claims(record)` of an experiment returns such a list, and `saccade reproduce` prints it.
for claim in (guessing, same, limit):
    print(f"{claim.verdict:24} {claim.statement}: predicted {claim.predicted:.4f}, measured {claim.measured:.4f}")
assert [claim.verdict for claim in (guessing, same, limit)] == ["holds", "fails", "outside its assumptions"]
assert all(claim.as_expected for claim in (guessing, same, limit))
