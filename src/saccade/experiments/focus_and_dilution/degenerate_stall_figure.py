"""The figure of `degenerate_stall`: stall and escape, escape times, rates at the critical points, the critical stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=11.5, height=8.8)
    (curves, times), (rates, diagram) = drawing.subplots(2, 2)
    _curves(curves, record)
    _times(times, record)
    _rates(rates, record)
    _diagram(diagram, record)
    return drawing


def _curves(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical, sequential

    n = record.sizes["curve"] - 2
    looks = [{"color": sequential(i, n)} for i in range(n)] + [{"color": "black"}, {"color": categorical(1), "ls": "--"}]
    for name, look in zip(record.curve.values, looks, strict=True):
        one = record.sel(curve=name)
        axes.plot(one.curve_time, one.curve_ratio, **look, label=name)
    axes.set(xscale="log", yscale="log", xlabel="time", ylabel="$s_2 / s_1$ of the embedding", ylim=(1e-3, 1.2))
    axes.set_title(f"stall and escape, start {record.init_scale.values[0]:g}", loc="left")
    axes.legend(fontsize=8, loc="lower left")


def _times(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    asymmetry = record.asymmetry.values
    for i, scale in enumerate(record.init_scale.values):
        times = record.escape_time.sel(init_scale=scale).values
        axes.plot(asymmetry, times, "o", color=categorical(i), label=f"start {scale:g}")
        scaled = np.exp(np.mean(np.log(times * asymmetry)))
        axes.plot(asymmetry, scaled / asymmetry, "--", color=categorical(i), lw=1, label="~ 1 / asymmetry")
    axes.set(xscale="log", yscale="log", xlabel="asymmetry of the low tokens", ylabel="escape time")
    axes.set_xticks(asymmetry, [f"{value:g}" for value in asymmetry])
    axes.set_xticks([], minor=True)
    axes.set_title("when the flow leaves", loc="left")
    axes.legend(fontsize=8, loc="upper right")


def _rates(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    asymmetry = record.point_asymmetry.values
    for i, (kind, point) in enumerate((("transverse", "symmetric"), ("transverse", "perturbed"), ("tangential", "symmetric"))):
        values = record[kind].sel(point=point).values
        axes.plot(asymmetry, values, "o", color=categorical(i), label=f"{kind}, {point} point")
        order, smallest = (1 if kind == "transverse" else 2), int(np.argmin(asymmetry))
        line = values[smallest] * (asymmetry / asymmetry[smallest]) ** order
        axes.plot(asymmetry, line, "-", color=categorical(i), lw=1, label=f"power {order}")
    axes.plot(asymmetry, record.transverse_predicted, ":", color="black", lw=2, label="theory, perturbed point")
    axes.set(xscale="log", yscale="log", xlabel="asymmetry of the low tokens", ylabel="growth rate")
    axes.set_title("rates at the critical points", loc="left")
    axes.legend(fontsize=8, loc="lower right")


def _diagram(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import sequential

    masses = record.mass.values
    for i, n in enumerate(record.tokens.values):
        color = sequential(i, record.sizes["tokens"])
        fine = np.linspace(max(masses[0] - 0.05, 1 / n + 0.005), masses[-1] + 0.04, 80)
        axes.plot(fine, [theory.critical_stay(float(mass), int(n)) for mass in fine], color=color, label=f"{n} tokens")
        axes.plot(masses, record.critical_stay.sel(tokens=n).mean("nearness"), "o", color=color)
    axes.set(xlabel="mass of the frequent token", ylabel="critical stay", ylim=(0, 1))
    axes.set_title("above it equal tokens part by themselves", loc="left")
    axes.legend(fontsize=8, loc="lower right")
