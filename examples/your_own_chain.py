"""The transition table alone predicts, before any training, whether attention first turns to the
frequent token or away.

Two chains of three words with nearly the same frequencies. In one, words repeat; in the other, they
avoid themselves. The sign rule of Focus and Dilution (arXiv 2605.01199) is one formula; the
gradient flow of the model with embeddings is the test. The rule is about the first visible move, of
all queries alike; later every query goes its own way.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import saccade
from saccade.theories import focus_and_dilution as theory

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)

# %% A row holds what follows its word. `MarkovChain.from_csv` and `from_text` read a table and a
# text.
words = ("the", "cat", "sat")
chains = {
    "words repeat": saccade.MarkovChain(
        np.array([[0.8, 0.12, 0.08], [0.3, 0.6, 0.1], [0.3, 0.15, 0.55]]), token_names=words
    ),
    "words avoid themselves": saccade.MarkovChain(
        np.array([[0.52, 0.28, 0.2], [0.7, 0.1, 0.2], [0.7, 0.25, 0.05]]), token_names=words
    ),
}

# %% For each chain: the prediction, then the flow until attention has visibly moved.
plt.style.use("tableau-colorblind10")
figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
predicted, measured = [], []
model = saccade.models.Embedded(d_model=4, d_key=4)
for axes, (name, chain) in zip(panels, chains.items(), strict=True):
    law = {"stationary": chain.stationary, "transition": chain.transition}
    sign, rate = theory.focus_sign(**law), theory.focus_rate(**law)
    record = saccade.flow(
        chain, t1=20 / abs(rate), n_times=200, seeds=1 if small else 3, model=model
    )
    moved = record.attention.isel(token=0) - chain.stationary[0]
    first = np.abs(moved).max("query") > 0.01
    seen = [
        np.sign(run.isel(time=int(when.argmax("time"))).values)
        for run, when in zip(moved, first, strict=True)
    ]
    predicted.append(sign)
    measured.append({int(side) for side in np.ravel(seen)})
    print(
        f"{name}: law {chain.stationary.round(2)}, c = {rate:+.4f}; all queries of all runs first move to sides {measured[-1]}"
    )
    assert first.any("time").all(), "attention must have moved in every run"
    for query, dashes in enumerate(("-", "--", ":")):
        curve = record.attention.isel(seed=0, query=query, token=0)
        axes.plot(curve.time, curve, dashes, label=f"query '{words[query]}'")
    axes.axvline(
        float(record.time[int(first[0].argmax("time"))]),
        color="0.5",
        ls=":",
        lw=0.8,
        label="first visible move",
    )
    axes.axhline(chain.stationary[0], color="0.5", lw=0.8, label="its share of the text")
    axes.set(title=f"{name}, c = {rate:+.4f}", xlabel="t", ylim=(0, 1))
panels[0].set_ylabel("attention on 'the'")
panels[0].legend()
figure.savefig(out / "your_own_chain.png", dpi=150)

# %% Every query of every run goes to the predicted side, and the two chains to different ones.
assert measured == [{predicted[0]}, {predicted[1]}]
assert predicted == [1, -1]
