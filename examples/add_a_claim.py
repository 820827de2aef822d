"""Turn your own conjecture into a claim with a verdict: of three about one record, one holds, one
fails, one is not tested.

A claim says what was measured and what is needed, and which assumptions it makes. The last matters:
a statement about long contexts is neither confirmed nor refuted by a run with short ones. Claims
that are saved with a record appear in its report.
"""

import sys
from pathlib import Path

import numpy as np

import saccade

small = "--small" in sys.argv
out = Path("results/examples")

# %% One record: decoder as fast as attention, and ten times faster.
task = saccade.SequenceClasses.syn_small()
context = 127
record = saccade.train(
    task,
    lr_decoder=[1, 10],
    lr_attention=1,
    steps=48,
    momentum=0.9,
    context=context,
    seeds=3 if small else 10,
)
on_common = (
    record.attention.sel(token=np.flatnonzero(task.common)).sum("token").mean(("seed", "class"))
)
slow, fast = on_common.isel(time=-1).values

# %% What is tested: a theorem of a paper (`saccade.theories.scan_and_snap.statements` has them all),
# or a statement of your own.
start = saccade.Statement(
    "mine", "start", "Before training the model guesses", formula=("Y(0) = 0",)
)
rates = saccade.Statement(
    "mine", "conjecture 1", "Attention left on common tokens does not depend on the decoder's rate"
)
limit = saccade.Statement(
    "mine", "conjecture 2", "In long contexts attention goes as in the population flow"
)
case = saccade.lab.Case({"context": context})

# %% First, what must be so from a start of zeros: every token is as likely as any other, in every
# run.
first_losses = record.loss.isel(time=0)
guessing = case.near(
    start,
    "loss before training, against the log of the vocabulary",
    first_losses,
    np.log(task.n_vocab),
    within=1e-5,
)

# %% Second, a conjecture that is wrong.
same = case.near(
    rates,
    "attention on common tokens, fast decoder against slow",
    fast,
    slow,
    within=0.02,
)

# %% Third, a statement that this run cannot test: it is about contexts so long that sampling does
# not matter.
population = saccade.train(task, batch=np.inf, context=np.inf, steps=48, momentum=0.9)
long = saccade.theories.Condition("context tokens", context, ">=", 10_000)
untested = case.but(given=[long]).near(
    limit,
    "attention on common tokens, against the flow",
    slow,
    float(population.attention[0, -1, 0, :10].sum()),
    within=0.001,
)

# %% Verdicts follow from the numbers; `saccade report results/examples/add_a_claim.zarr` shows them
# as a page.
claims = [guessing, same, untested]
for claim in claims:
    print(f"{claim.verdict_says:50} {claim.title}: {claim.says}")
saccade.save_record(record, out / "add_a_claim.zarr", claims=claims)
assert [claim.verdict for claim in claims] == ["holds", "fails", "assumptions not met"]
