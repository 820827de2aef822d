"""The figure of `other_chains`: when stages begin, rates beside the predicted ones, the first focus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.focus_and_dilution.stage_fits import Array
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset, rates: Array, replicated: tuple[float, ...]) -> Figure:
    """`replicated` is what the first focus is compared with, if anything."""
    from saccade.report.style import new_figure

    drawing = new_figure(width=14.0, height=4.6)
    left, middle, right = drawing.subplots(1, 3)
    _times(left, record, rates)
    _rates(middle, record, rates)
    _focus(right, record, rates, replicated)
    return drawing


def _times(axes: Any, record: xr.Dataset, c: Array) -> None:
    from saccade.report.style import COMMON, categorical

    rows = np.arange(record.sizes["chain"])[::-1]
    axes.hlines(rows, *(record.stage_time.values[:, [0, -1]].T), color=COMMON, lw=1, zorder=0)
    for i, (stage, marker) in enumerate(zip(record.stage.values, "osD^", strict=True)):
        axes.plot(record.stage_time.sel(stage=stage), rows, marker, ms=7, color=categorical(i), ls="none", label=stage)
    axes.set_yticks(rows, [f"{name}  ({rate:+.3f})" for name, rate in zip(record.chain.values, c, strict=True)], fontsize=8)
    axes.set(xscale="log", xlabel="time", ylim=(-0.6, len(rows) + 0.9))
    axes.set_title("stages (in brackets: $c$)", loc="left")
    axes.legend(fontsize=8, ncols=2, loc="upper center")


def _rates(axes: Any, record: xr.Dataset, c: Array) -> None:
    from saccade.report.style import categorical

    rows, mu_0 = np.arange(record.sizes["chain"])[::-1], theory.condensation_rate(stationary=record.law.values)
    axes.axvspan(0.995, 1.005, color="0.9")
    axes.axvline(1, color="black", lw=1)
    axes.plot(record.condensation_rate / mu_0, rows, "o", color=categorical(0), label=r"condensation, $\mu_0$")
    axes.plot(record.focus_rate / np.abs(c), rows, "s", color=categorical(1), label="focus, $|c|$")
    axes.set_yticks(rows, record.chain.values, fontsize=8)
    axes.set(xlabel="measured rate / predicted rate", xlim=(0.992, 1.008), ylim=(-0.6, len(rows) + 0.9))
    axes.set_xticks([0.995, 1.0, 1.005])
    axes.set_title("rates", loc="left")
    axes.legend(fontsize=8, ncols=2, loc="upper center")


def _focus(axes: Any, record: xr.Dataset, c: Array, replicated: tuple[float, ...]) -> None:
    from saccade.report.style import categorical

    share = float(record.law[0])
    for i, (chosen, label) in enumerate(((c > 0, "chains with $c > 0$"), (c < 0, "chains with $c < 0$"))):
        lines = axes.plot(record.focus.values[chosen].T - share, "o-", ms=4, lw=1, color=categorical(i))
        if lines:
            lines[0].set_label(f"{len(lines)} {label}")
    if replicated:
        axes.plot(np.array(replicated) - share, "x", ms=9, mew=2, color="black", label="replication")
    axes.axhline(0, color="black", lw=1)
    axes.set(xlabel="query, frequent to rare", ylabel="attention on token 0 less its share")
    axes.set_xticks(range(record.sizes["token"]))
    axes.set_title("first focus", loc="left")
    axes.legend(fontsize=8)
