"""The figure of `next_direction`: growth beside the predicted slope, patterns against patterns, errors of the linear flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=11.5, height=8.8)
    (growth, patterns), (errors, powers) = drawing.subplots(2, 2)
    _growth(growth, record.sel(law="zipf-6"))
    _patterns(patterns, record)
    _errors(errors, record.sel(law="zipf-6"))
    _powers(powers, record)
    return drawing


def _growth(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    t = record.time.values
    for i, k in enumerate(record.opening.values):
        values = record.singular_values.values[:, i]
        axes.plot(t, values, color=categorical(i), label=f"direction {k}")
        at, rate = float(record.opening_time[i]), float(record.opening_predicted_rate[i])
        size = float(np.interp(at, t, values))
        axes.plot(at, size, "o", ms=6, color=categorical(i))
        near = np.linspace(at - 4 / rate, at + 3 / rate, 20)
        axes.plot(near, size * np.exp(rate * (near - at)), "--", color="black", lw=1.2, label="slope $s_1(B)$" if i == 0 else None)
    axes.set(
        xscale="log", yscale="log", xlabel="time", ylabel="singular values of the embedding", xlim=(10, t[-1]), ylim=(1e-5, 10)
    )
    axes.set_title("directions open one after another", loc="left")
    axes.legend(fontsize=8, loc="upper left")


def _patterns(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    axes.axline((0, 0), slope=1, color="black", lw=1)
    for law, marker in zip(record.law.values, "so"):
        for i, k in enumerate(record.opening.values):
            one = record.sel(law=law, opening=k)
            if not np.isfinite(one.opening_time):
                continue
            still = (law, k) not in _moving(record)
            fill = categorical(i) if still else "none"
            style = {"color": categorical(i), "mfc": fill, "ms": 5, "ls": "none"}
            axes.plot(one.opening_predicted, one.opening_measured, marker, **style, label=f"{law}, direction {k}")
    axes.set(xlabel="component predicted by $B$", ylabel="component in the run")
    axes.set_title("what opens, in all four matrices", loc="left")
    axes.legend(fontsize=8, loc="upper left")


def _moving(record: xr.Dataset) -> list[tuple[str, int]]:
    from saccade.experiments.focus_and_dilution.next_direction import STILL

    drift = record.opening_drift
    return [(law, int(k)) for law in record.law.values for k in record.opening.values if drift.sel(law=law, opening=k) > STILL]


def _errors(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    scales = record.scale.values
    for i, point in enumerate(record.point.values):
        at = record.sel(point=point)
        mu = _fastest(at)
        for j, scale in enumerate(scales):
            one = at.sel(scale=scale).isel(sample=slice(1, None))  # there is no error at the start
            style = {"color": categorical(i), "alpha": 1 - 0.75 * j / len(scales), "label": f"{point}, {scale:g}"}
            axes.plot(mu * one.departure_time, one.departure_error, **style)
    axes.set(yscale="log", xlabel=r"time, $\mu t$ (e-folds)", ylabel="|flow - linear flow|")
    axes.set_title("error of the linear flow, for each displacement", loc="left")
    axes.legend(fontsize=7, loc="lower right", ncols=2)


def _powers(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    scales = record.scale.values
    for i, (point, order) in enumerate(zip(record.point.values, (3, 2))):
        for law, marker in zip(record.law.values, "so"):
            error = record.departure_error_at.sel(law=law, point=point).values
            axes.plot(scales, error, marker, color=categorical(i), mfc="none", label=f"{point}, {law}")
            label = f"power {order}" if marker == "s" else None
            axes.plot(
                scales, error[0] * (scales / scales[0]) ** order, "-" if order == 2 else "--", color="black", lw=1, label=label
            )
    axes.set(xscale="log", yscale="log", xlabel="displacement", ylabel="|flow - linear flow| after three e-folds")
    axes.set_title("how it depends on the displacement", loc="left")
    axes.legend(fontsize=8, loc="lower right")


def _fastest(at: xr.Dataset) -> float:
    """mu, from the late growth of the linear flow."""
    size, t = at.departure_size.values[0], at.departure_time.values
    return float(np.log(size[-1] / size[-2]) / (t[-1] - t[-2]))
