"""In your own classes, attention leaves the words they share for the words that tell them apart,
frequent ones first.

The table has a row for each class and a column for each context word; `SequenceClasses.from_csv`
reads the same from a file. A class is named by the word to predict. Training is plain mini-batch
SGD, one run for each seed.
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import saccade

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)

# %% Two classes: "the" and "of" come in both, the other words in one of them.
table = [
    {"class": "purrs", "query": "it", "the": 0.3, "of": 0.2, "cat": 0.35, "milk": 0.15},
    {"class": "barks", "query": "it", "the": 0.3, "of": 0.2, "dog": 0.3, "bone": 0.2},
]
task = saccade.SequenceClasses.from_table(table)
record = saccade.train(
    task,
    steps=200,
    seeds=3 if small else 10,
    lr_attention=1.0,
    keep=("attention", "attention_logits"),
)

# %% Which assumptions of the theory these classes meet is in the record, with the numbers.
for condition in json.loads(record.attrs["assumptions"])[0]["conditions"]:
    print(f"  {'met    ' if condition['holds'] else 'not met'} {condition['name']}")

# %% Logits start at zero: above it is sought, below it is avoided. It must be so in every seed, not
# on average.
z = record.attention_logits.sel(query="it").isel(time=-1)
print(
    "mean gain:", {token: round(float(z.sel(token=token).mean()), 2) for token in task.labels[:6]}
)
assert (z.sel(token=["the", "of"]) < 0).all(), "common words must lose"
assert (z.sel(token=["cat", "milk", "dog", "bone"]) > 0).all(), "distinct words must gain"
assert (z.sel(token="cat") > z.sel(token="milk")).all(), (
    "and the frequent one more than the rare one"
)
assert (z.sel(token="dog") > z.sel(token="bone")).all()

# %% Attention of each class over time, mean over seeds.
plt.style.use("tableau-colorblind10")
figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for n, axes in enumerate(panels):
    words = [word for word in table[n] if word not in ("class", "query")]
    attention = record.attention.isel({"class": n}).sel(token=words).mean("seed")
    for word, dashes in zip(words, (":", "--", "-", "-."), strict=True):
        axes.plot(attention.time, attention.sel(token=word), dashes, label=word)
    axes.set(title=f"before '{table[n]['class']}'", xlabel="update", ylim=(0, 1))
    axes.legend()
panels[0].set_ylabel("attention")
figure.savefig(out / "your_own_classes.png", dpi=150)
