"""Embeddings condense to one direction while attention stands still; then attention focuses,
dilutes, and a new direction opens.

The stages are found in what can be observed of a run, with `saccade.find_events`, which knows no
theory. It takes a record, or curves of your own model. Here the record is of the gradient flow on
six tokens with Zipf frequencies.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

import saccade
from saccade.measures.event import stage_bands

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)

# %% The flow, and the events that tell its stages.
chain = saccade.MarkovChain.zipf(6, stay=0.5)
model = saccade.models.Embedded(d_model=6, d_key=4) if small else saccade.models.Embedded()
run = saccade.flow(
    chain, t1=1000 if small else 5000, n_times=500 if small else 1500, model=model
).isel(seed=0)
on_frequent = run.attention.isel(token=0)
events = saccade.find_events(run)

# %% The first event of each kind, in order of time.
first = {}
for event in events:
    first.setdefault(event.name, event)
for event in first.values():
    print(f"t = {event.time:6.1f}  {event.name:16} {event.definition}")
stages = [
    "condensation",
    "attention_frozen",
    "focus_onset",
    "focus_peak",
    "dilution",
    "new_direction",
]
assert list(first)[:6] == stages, list(first)

# %% Attention must have stood still while embeddings condensed, and focus must be a preference:
# more than the token's share.
condensed = on_frequent.sel(time=slice(None, first["condensation"].time))
assert abs(condensed - chain.stationary[0]).max() < 1e-4
assert first["focus_peak"].value > chain.stationary[0] + 0.01
assert abs(float(run.loss.sel(time=first["attention_frozen"].time)) - chain.unigram_loss) < 0.02, (
    "frozen at the law of single tokens"
)

# %% Attention of every query on the frequent token, with the stages shaded.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
for number, (name, start, end) in enumerate(stage_bands(events, t1=float(run.time[-1]))):
    axes.axvspan(max(start, 1), end, color="0.93" if number % 2 else "0.85", lw=0)
    axes.text(
        (max(start, 1) * end) ** 0.5, 1.01, name, ha="center", va="bottom", fontsize=7, rotation=30
    )
for query in range(6):
    axes.semilogx(
        run.time[1:],
        on_frequent.isel(query=query)[1:],
        label=f"query {query}",
        lw=1.2 + 0.2 * query,
    )
axes.set(xlabel="t", ylabel="attention on the frequent token", xlim=(1, None), ylim=(0, 1))
axes.legend(ncols=3, fontsize=8, loc="upper left")
figure.savefig(out / "condensation_then_focus.png", dpi=150)
