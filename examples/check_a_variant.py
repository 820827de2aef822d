"""In theory frequent distinct tokens gain more attention than rare ones: momentum keeps this order,
Adam reverses it.

Theorem 3 of Scan and Snap (arXiv 2305.16380) orders the distinct tokens of a class by frequency, in
the theory's flow. Is it true of your optimiser? Train the same task with each, and ask for the rank
correlation of gained logit and frequency.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

import saccade
from saccade.theories.scan_and_snap.statements import THEOREM_3

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)

# %% The variants: plain SGD, momentum, Adam; ten distinct tokens in each of two classes.
task = saccade.SequenceClasses.syn_small()
variants = {
    "SGD": {"steps": 200},
    "momentum .9": {"momentum": 0.9, "steps": 100},
    "Adam": {"optimiser": "adam", "lr_decoder": 0.1, "lr_attention": 0.1, "steps": 100},
}
records = {
    name: saccade.train(
        task,
        seeds=3 if small else 10,
        save=[0, settings["steps"]],
        keep=("attention_logits",),
        **settings,
    )
    for name, settings in variants.items()
}

# %% Gained logit of every distinct token (seed, class, token), rarest first, and its rank
# correlation with frequency.
order = [
    np.flatnonzero(distinct)[np.argsort(task.token_prob[n, distinct])]
    for n, distinct in enumerate(task.distinct)
]
frequency = task.token_prob[0, order[0]]
gains, agreement = {}, {}
for name, record in records.items():
    z = record.attention_logits.isel(time=-1)
    gains[name] = np.stack(
        [z.sel(query=task.query[n], token=tokens).values for n, tokens in enumerate(order)], axis=1
    )
    agreement[name] = [
        spearmanr(frequency, row).statistic for row in gains[name].reshape(-1, len(frequency))
    ]
    print(
        f"{name:12} rank correlation with frequency: {np.mean(agreement[name]):+.2f}, over runs from {min(agreement[name]):+.2f}"
    )

# %% As claims: 1 is the predicted order.
title = "rank correlation of gained logit and frequency, mean over runs"
claims = [
    saccade.lab.Case({"optimiser": name}).at_least(
        THEOREM_3,
        title,
        np.mean(agreement[name]),
        0.9,
    )
    for name in variants
]
for claim in claims:
    print(f"{claim.verdict_says:20} {claim.label}: {claim.says}")
assert [claim.verdict for claim in claims] == ["holds", "holds", "fails"]
assert max(agreement["Adam"]) < 0, "and Adam reverses it, in every run"

# %% Gain against frequency.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (name, gain), marker in zip(gains.items(), "os^", strict=True):
    mean = gain.mean(axis=(0, 1))
    axes.plot(frequency, mean / mean.max(), marker=marker, label=name)
axes.set(
    xlabel="frequency of a distinct token in its class", ylabel="gained logit, over the largest"
)
axes.axhline(0, color="0.5", lw=0.8)
axes.legend()
figure.savefig(out / "check_a_variant.png", dpi=150)
