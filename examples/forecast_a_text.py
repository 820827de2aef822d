"""Counts of a text predict, before training, which way attention will turn, when embeddings
condense and when attention moves.

The text is that of the State of the Union addresses, which comes with `pip install '.[text]'`:
nothing is downloaded. The forecast is made of closed forms and a flow of rank one. The test is the
whole gradient flow, from the same random starts.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import saccade
from saccade.forecasting.forecast import predictions
from saccade.measures import singular_values, top_share

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)

# %% The chain of the most frequent words, the rest as one, and what is said of it.
text = saccade.corpus("sotu")
chain = text.chain(6)
seeds = 1 if small else 3
model = saccade.models.Embedded(d_model=6, d_key=4)
forecast = saccade.forecast(chain, model=model, starts=seeds)
for said in predictions(forecast)[:3]:
    print(f"{said.about}: {said.text}")

# %% Then the flow, and the same times in it: embeddings in one direction, loss at the plateau,
# query matrix three times its start.
t1 = 2 * float(forecast.focus_onset.max())
run = saccade.flow(chain, t1=t1, n_times=400, seeds=seeds, model=model)
loss_0, plateau = run.loss.isel(time=0), chain.unigram_loss
query = np.sqrt((run.query_matrix**2).sum(("width", "key_width")))
share = run.loss.copy(
    data=top_share(singular_values(run.embedding.values))
)  # of the embedding's first direction
reached = {
    "condensed_time": share >= 0.999,
    "plateau_time": run.loss <= plateau + 0.01 * (loss_0 - plateau),
    "focus_onset": query >= 3 * query.isel(time=0),
}
ratio = {}
for name, there in reached.items():
    assert there.any("time").all(), f"{name} must come"
    measured = run.time.values[there.argmax("time").values]
    ratio[name] = forecast[name].values / measured
    print(f"{name}: forecast {forecast[name].values.round(0)}, flow {measured.round(0)}")

# %% Times must be right within a tenth, and the side must be right for every query of every run.
moved = run.attention.isel(token=0) - chain.stationary[0]
side = np.sign(moved.isel(time=-1))
print(
    f"side of the first move: forecast {int(forecast.focus_sign)}, flow {np.unique(side).astype(int)}"
)
assert all(abs(np.log(values)).max() < np.log(1.1) for values in ratio.values())
assert abs(moved.isel(time=-1)).max("query").min() > 1e-3, (
    "attention must have moved, not only rounding"
)
assert (side == forecast.focus_sign).all()

# %% The loss and the size of the query matrix, with the forecast times of the first start.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(run.time, run.loss.isel(seed=0) / loss_0[0], label="loss, over its start")
axes.plot(
    run.time, (query / query.isel(time=0)).isel(seed=0), "--", label="query matrix, over its start"
)
for name, style in (("plateau_time", ":"), ("focus_onset", "-.")):
    axes.axvline(
        float(forecast[name][0]), color="0.4", ls=style, label=f"forecast: {name.replace('_', ' ')}"
    )
axes.set(xlabel="t (steps of gradient descent at rate 1)", ylim=(0, 3.2), ylabel="relative size")
axes.legend(loc="center right")
figure.savefig(out / "forecast_a_text.png", dpi=150)
