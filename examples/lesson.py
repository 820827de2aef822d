"""A lesson: attention leaves common words, finds the informative ones and stops moving; in another
model it then starts again.

A one-hour class with three questions and three exercises. Answer each question before you run the
cell below it. Solutions are hidden below the exercises. Every cell checks what it says: if it ends
without an error, it is true.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import saccade
from saccade.theories import scan_and_snap as theory

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)
plt.style.use("tableau-colorblind10")

# %% **1. Who is looked at?** A reader sees some words and then "it", and has to guess: purrs, or
# barks? Both kinds of sentences are full of "the". Attention starts uniform: each word counts as
# often as it occurs. **Question.** After training, which words get more attention than at first,
# which less? Of "cat" and "milk", which gains more?
PURRS = {"class": "purrs", "query": "it", "the": 0.5, "cat": 0.35, "milk": 0.15}
BARKS = {"class": "barks", "query": "it", "the": 0.5, "dog": 0.3, "bone": 0.2}


def gains(*table: dict) -> dict[str, float]:
    """Attention logits after training; they start at 0, and above 0 a word is sought. Mean over
    three runs.
    """
    task = saccade.SequenceClasses.from_table(list(table))
    run = saccade.train(task, steps=200, seeds=3, lr_attention=1.0, keep=("attention_logits",))
    z = run.attention_logits.isel(time=-1).sel(query="it").mean("seed")
    return {
        word: round(float(z.sel(token=word)), 2)
        for word in task.labels
        if word in {word for row in table for word in row}
    }


print(gained := gains(PURRS, BARKS))
assert gained["the"] < 0 < gained["milk"] < gained["cat"]

# %% **Exercise 1.** Does attention dislike the word "the" as such? Change one of the two sentences
# so that "the" gains attention. Replace `...` by your own sentences.
mine = ...

# %% Solution: a word loses attention if it does not help to predict. Here only cats come with
# "the", and all with "a".
gained = gains(
    {"class": "purrs", "query": "it", "a": 0.4, "the": 0.35, "cat": 0.25},
    {"class": "barks", "query": "it", "a": 0.4, "dog": 0.6},
)
print(gained)
assert gained["a"] < 0 < gained["cat"] < gained["the"]

# %% **2. When does it stop?** Now five classes, in the flow that the theory of Scan and Snap
# describes, for a very long time. Time runs to 1,000,000,000,000. **Question.** Draw how the
# attention of one class moves: evenly in time? In the logarithm of time?
EACH = np.hstack(
    [np.full((5, 1), 0.28), np.kron(np.eye(5), [0.1, 0.4, 0.7, 1.0])]
)  # a shared word, and four words of its own
five = saccade.SequenceClasses(EACH, n_vocab=1000, normalise=True)


def speed(lr_decoder: float) -> tuple[np.ndarray, np.ndarray]:
    """How far attention moves in each factor of time, and the times."""
    run = saccade.reduced_flow(
        five, t1=1e12, lr_decoder=lr_decoder, lr_attention=100.0, n_times=150 if small else 300
    )
    path = run.attention.isel(
        {"time": slice(1, None), "class": 0, "seed": 0}, missing_dims="ignore"
    )
    return np.abs(np.gradient(path.values, np.log(path.time.values), axis=0)).sum(
        -1
    ), path.time.values


per_log, t = speed(1.0)
snap = theory.snap_time(n_vocab=1000, n_classes=5, lr_decoder=1.0)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.semilogx(t, per_log)
axes.axvline(snap, ls=":", color="0.4")
axes.set(
    xlabel="t (steps)",
    ylabel="attention moved per ln t",
    title="It scans, and by the dotted line it has snapped",
)
figure.savefig(out / "lesson.png", dpi=150)
assert per_log[t > 100 * snap].max() < per_log.max() / 5

# %% **Exercise 2.** The dotted line stands at a constant times 1 / η_Y. Let the decoder learn four
# times as slowly. How much later has the hill fallen to half its height? Measure it with `speed`;
# `t[per_log > per_log.max() / 2].max()` is when.
slower = ...

# %% Solution: four times as late. The decoder's rate decides when, whatever the rate of attention.
slow, t_slow = speed(0.25)
ratio = t_slow[slow > slow.max() / 2].max() / t[per_log > per_log.max() / 2].max()
print(f"attention stops {ratio:.1f} times as late")
assert 3.5 < ratio < 4.5

# %% **3. And if words have embeddings?** The model of Focus and Dilution learns them too, on a
# chain in which words like to repeat. **Question.** Where does every query look first: at the most
# frequent word, or at itself? Events are found in the run, without theory.
run = saccade.flow(
    saccade.MarkovChain.zipf(6, stay=0.5),
    t1=1000,
    n_times=500,
    model=saccade.models.Embedded(d_model=6, d_key=4),
).isel(seed=0)
names = list(dict.fromkeys(event.name for event in saccade.find_events(run)))
print(*names, sep=", then ")
assert (
    names.index("condensation")
    < names.index("focus_onset")
    < names.index("focus_peak")
    < names.index("dilution")
)

# %% **Exercise 3.** A map of attention has a row for each query and a column for each word.
# Draw it at the peak of focus and at the end.
maps = ...

# %% Solution: at first one column lights up in every row; later it fades, and the rows differ.
times = [
    next(event.time for event in saccade.find_events(run) if event.name == "focus_peak"),
    float(run.time[-1]),
]
figure, panels = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
for axes, time in zip(panels, times, strict=True):
    axes.imshow(run.attention.sel(time=time, method="nearest"), vmin=0, vmax=1)
    axes.set(title=f"t = {time:.0f}", xlabel="word", ylabel="query")
peak, end = (run.attention.sel(time=time, method="nearest").isel(token=0) for time in times)
assert (peak > run.attention.isel(time=0, token=0)).all()
assert float(end.max() - end.min()) > float(peak.max() - peak.min())  # every query goes its own way
