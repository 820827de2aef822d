"""The figure of `condensation`: growth beside the predicted slope, directions beside the predicted ones, end of the stage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.focus_and_dilution import stage_fits as fits
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_COSINES = {
    "embedding_cosine": ("embedding with $\\pi$", "o"),
    "projection_cosine": ("projection with $\\pi - 1/d$", "s"),
    "direction_cosine": ("width with $\\alpha$", "^"),
}


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=14.0, height=4.6)
    growth, directions, ends = drawing.subplots(1, 3)
    laws = fits.chains(json.loads(record.attrs["settings"])["stays"])
    _growth(growth, record, {law: chain.stationary for law, chain in laws.items()})
    _directions(directions, record)
    _ends(ends, record, {law: theory.condensation_slope(stationary=chain.stationary) for law, chain in laws.items()})
    return drawing


def _growth(axes: Any, record: xr.Dataset, laws: dict[str, Any]) -> None:
    from saccade.report.style import sequential

    for (law, pi), style in zip(laws.items(), ("-", "--"), strict=True):
        size, rate = theory.embedding_norm(stationary=pi), theory.condensation_rate(stationary=pi)
        for j, scale in enumerate(record.init_scale.values):
            at = record.sel(law=law, init_scale=scale)
            label = f"start {scale:g}" if style == "-" else None
            colour = sequential(j, record.sizes["init_scale"])
            axes.plot(rate * at.curve_time, at.curve / size, style, color=colour, label=label)
    guide = np.array([3.0, 8.0])
    axes.plot(guide, 3e-6 * np.exp(guide - guide[0]), ":", color="black", lw=2, label=r"slope $\mu_0$")
    axes.set(yscale="log", xlabel=r"$\mu_0 t$", ylabel="first singular value / norm at the unigram point")
    axes.set_title("growth (dashed: zipf-6)", loc="left")
    axes.legend(fontsize=8, loc="lower right")


def _directions(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    for i, (name, (label, marker)) in enumerate(_COSINES.items()):
        for law, filled in zip(record.law.values, (True, False), strict=True):
            missing = np.maximum(1 - record[name].sel(law=law).values, 1e-16)
            x = np.repeat(record.init_scale.values, missing.shape[1]) * (1.25 if not filled else 0.8)
            face = categorical(i) if filled else "none"
            axes.plot(x, missing.ravel(), marker, ms=5, mec=categorical(i), mfc=face, ls="none", label=label if filled else None)
    axes.axhline(1e-4, color="black", lw=1)
    axes.set(xscale="log", yscale="log", xlabel="size of the start", ylabel="1 - |cos|, at the end of stage I")
    axes.invert_xaxis()
    axes.set_title("directions (empty: zipf-6)", loc="left")
    axes.legend(fontsize=8, loc="lower left")


def _ends(axes: Any, record: xr.Dataset, slopes: dict[str, float]) -> None:
    from saccade.report.style import categorical

    folds = np.log(1 / record.init_scale.values)
    for i, (law, slope) in enumerate(slopes.items()):
        ends = record.end_time.sel(law=law).values
        found = np.mean([fits.slope(folds, ends[:, seed]) for seed in range(ends.shape[1])])
        axes.plot(np.repeat(folds, ends.shape[1]), ends.ravel(), "o", ms=4, color=categorical(i))
        predicted = ends.mean() + slope * (folds - folds.mean())
        axes.plot(folds, predicted, color=categorical(i), label=rf"{law}: $1/\mu_0$ = {slope:.4g}, measured {found:.4g}")
    axes.set(xlabel="ln(1 / size of the start)", ylabel="end of stage I", ylim=(0, None))
    axes.set_title("end of the stage", loc="left")
    axes.legend(fontsize=8, loc="upper left")
