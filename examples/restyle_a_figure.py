"""Restyle a figure of a paper from its record, without a new run: other fonts, size and colours,
the same numbers.

Every experiment keeps its record in `results/NAME/record.zarr` and draws from it alone. So a figure
for your own paper needs the record and Matplotlib. Here: the loss of Fig. 4 of Scan and
Snap (arXiv 2305.16380), then the same as a black and white column figure.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import saccade
from saccade.experiments.scan_and_snap.published_figures import PUBLISHED_LOSS, published_figures
from saccade.panels import specs
from saccade.report.drawn import draw_panels

small = "--small" in sys.argv
out = Path("results/examples")

# %% Once: the run. `saccade reproduce published-figures` writes the same record to
# results/published-figures/record.zarr.
settings = published_figures.settings(n_queries=(1,), start_seeds=2, seeds=2 if small else 10)
result = published_figures.run(settings)
saccade.save_record(result.record, out / "restyle_a_figure.zarr")

# %% From here on as often as you like: read the record, and draw it as the project does, in your
# style and of your size in inches.
record = saccade.load_record(out / "restyle_a_figure.zarr")
with plt.rc_context({"font.family": "serif", "axes.spines.top": False, "axes.spines.right": False}):
    whole = draw_panels(specs([result.panels[-1][0:1]]), width=5.5, height=4)
    whole.savefig(out / "restyle_a_figure_whole.png", dpi=200)

# %% Or draw what you need yourself: its loss, for one column, legible in black and white.
with plt.rc_context({"font.family": "serif", "font.size": 8}):
    figure, axes = plt.subplots(figsize=(3.3, 2.4), layout="constrained")
    for ratio, dashes, grey in zip((1, 10), ("-", "--"), ("0", "0.5"), strict=True):
        mean = record.figure_4_loss.sel(speed=ratio)
        label = rf"$\eta_Y/\eta_Z = {ratio}$"
        axes.semilogy(mean.time, mean, dashes, color=grey, lw=1, label=label)
    axes.plot(PUBLISHED_LOSS.keys(), PUBLISHED_LOSS.values(), "k+", label="published")
    axes.set(xlabel="update", ylabel="loss (nats)")
    axes.legend(frameon=False)
    figure.savefig(out / "restyle_a_figure.png", dpi=200)

# %% Both figures must show the numbers of the record, and these must be near the published ones.
drawn = [line.get_ydata() for line in axes.lines]
original = [line.get_ydata() for line in whole.axes[-1].lines]
for rate in range(2):
    truth = record.figure_4_loss.isel(speed=rate)
    assert np.array_equal(drawn[rate], truth)
    assert np.array_equal(original[rate], truth)
steps, published = zip(*PUBLISHED_LOSS.items(), strict=True)
off = np.abs(record.figure_4_loss.isel(speed=0).sel(time=list(steps)).values / published - 1)
print(
    f"the same {len(drawn[0])} losses in both figures; largest distance to a published one: {off.max():.0%}"
)
assert off.max() < 0.2
