"""The faster the decoder, up to five times as fast as attention, the more attention common tokens
keep: a phase diagram.

`saccade.sweep` runs an experiment over a grid of its settings, on all cores, and gives one dataset.
If it is killed, the same call does only what is missing. As a command: saccade sweep
./examples/common_mass.py --over lr_attention=0.25,0.5,1 --over ratio=1..5:log8
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import saccade
from saccade.experiments import experiment

small = "--small" in sys.argv
name = str(Path(__file__).with_name("common_mass.py"))
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)

# %% The grid: attention rate, and decoder rate over it; all else as published, but for fewer seeds.
# It ends at 5 because beyond it the order was seen to break: at attention rate 1, .542 at a ratio
# of 7.2 and .537 at 10.
n = 2 if small else 8
over = {"lr_attention": np.geomspace(0.25, 1, n).tolist(), "ratio": np.geomspace(1, 5, n).tolist()}
settings = {
    "config": experiment(name).settings(seeds=2 if small else 5),
    "workers": 1 if small else None,
}
dataset = saccade.sweep(name, over, out=out / "phase_diagram", show="common_mass", **settings)
common = dataset.common_mass.transpose("lr_attention", "ratio")

# %% The same call again computes nothing: runs are known by their settings and by the code behind
# their numbers.
again = saccade.sweep(name, over, out=out / "phase_diagram", show="common_mass", **settings)
assert common.identical(again.common_mass.transpose("lr_attention", "ratio"))

# %% The claim, row by row; and the other way with the attention rate, column by column.
print(common.to_pandas().round(3))
assert (dataset.status == "finished").all()
assert (common.diff("ratio") > 0).all(), (
    "a faster decoder must leave more attention on common tokens"
)
assert (common.diff("lr_attention") < 0).all(), "and a faster attention less"

# %% The map, on [0, 1] as a share should be. `figure.png` in the sweep's folder is one that is
# drawn without asking.
figure, axes = plt.subplots(figsize=(5, 3.8), layout="constrained")
image = axes.pcolormesh(common.ratio, common.lr_attention, common, cmap="cividis", vmin=0, vmax=1)
axes.clabel(
    axes.contour(
        common.ratio, common.lr_attention, common, levels=np.arange(0.3, 0.7, 0.03), colors="white"
    )
)
axes.set(
    xscale="log", yscale="log", xlabel="decoder rate over attention rate", ylabel="attention rate"
)
axes.set_xticks([1, 2, 5], ["1", "2", "5"], minor=False)
axes.set_yticks([0.25, 0.5, 1], ["0.25", "0.5", "1"], minor=False)
axes.minorticks_off()
figure.colorbar(image, label="attention left on common tokens")
figure.savefig(out / "phase_diagram.png", dpi=150)
