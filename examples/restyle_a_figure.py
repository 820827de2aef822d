"""Restyle a figure of a paper from its record, without a new run: other fonts, size and colours,
the same numbers.

Every experiment keeps its record in `results/NAME/record.zarr` and draws from it alone. So a figure
for your own paper needs the record and Matplotlib. Here: Fig. 4 of Scan and Snap (arXiv
2305.16380), then its loss as a black and white column figure.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import saccade
from saccade.experiments.scan_and_snap.syn_small_attention import EXPERIMENT, PUBLISHED_LOSS

small = "--small" in sys.argv
out = Path("results/examples")

# %% Once: the run. `saccade reproduce syn-small-attention` writes the same record to
# results/syn-small-attention/record.zarr.
saccade.save_record(
    EXPERIMENT.run(EXPERIMENT.settings(seeds=2 if small else 10)), out / "restyle_a_figure.zarr"
)

# %% From here on as often as you like: read the record, and draw it as the project does, in your
# style and of your size in inches.
record = saccade.load_record(out / "restyle_a_figure.zarr")
with plt.rc_context({"font.family": "serif", "axes.spines.top": False, "axes.spines.right": False}):
    whole = EXPERIMENT.figure(record, width=5.5, height=4)
    whole.savefig(out / "restyle_a_figure_whole.png", dpi=200)

# %% Or draw what you need yourself: its loss, for one column, legible in black and white.
with plt.rc_context({"font.family": "serif", "font.size": 8}):
    figure, axes = plt.subplots(figsize=(3.3, 2.4), layout="constrained")
    for (_, run), dashes, grey in zip(
        record.loss.groupby("ratio"), ("-", "--"), ("0", "0.5"), strict=True
    ):
        mean = run.squeeze("rate").mean("seed")
        axes.semilogy(
            mean.time,
            mean,
            dashes,
            color=grey,
            lw=1,
            label=rf"$\eta_Y/\eta_Z = {float(run.ratio.item()):g}$",
        )
    axes.plot(PUBLISHED_LOSS.keys(), PUBLISHED_LOSS.values(), "k+", label="published")
    axes.set(xlabel="update", ylabel="loss (nats)")
    axes.legend(frameon=False)
    figure.savefig(out / "restyle_a_figure.png", dpi=200)

# %% Both figures must show the numbers of the record, and these must be near the published ones.
drawn = [line.get_ydata() for line in axes.lines]
original = [line.get_ydata() for line in whole.axes[-1].lines]
for rate in range(2):
    truth = record.loss.isel(rate=rate).mean("seed")
    assert np.array_equal(drawn[rate], truth)
    assert np.array_equal(original[rate], truth)
steps, published = zip(*PUBLISHED_LOSS.items(), strict=True)
off = np.abs(record.loss.isel(rate=0).mean("seed").sel(time=list(steps)).values / published - 1)
print(
    f"the same {len(drawn[0])} losses in both figures; largest distance to a published one: {off.max():.0%}"
)
assert off.max() < 0.2
