"""The figure of `focus_sign`: rates with the sign that is seen, and the tilt of every query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.focus_and_dilution.stage_fits import Array

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset, rates: Array, signs: Array) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=13.0, height=5.2)
    left, right = drawing.subplots(1, 2)
    _rates(left, record, rates, signs)
    _tilts(right, record, rates)
    return drawing


def _families(record: xr.Dataset) -> list[str]:
    return [str(name).split(",")[0].split()[0] for name in record.chain.values]


def _rates(axes: Any, record: xr.Dataset, c: Array, seen: Array) -> None:
    from saccade.report.style import categorical

    families = _families(record)
    for i, family in enumerate(dict.fromkeys(families)):
        for start, style in (("unigram", {"marker": "o", "ms": 6}), ("random", {"marker": "o", "ms": 12, "mfc": "none"})):
            own = [k for k, name in enumerate(families) if name == family and record.start.values[k] == start]
            label = family if start == "unigram" else None
            axes.plot(c[own], seen[own] * record.rate.values[own], ls="none", color=categorical(i), label=label, **style)
    ends = np.array([c.min(), c.max()]) * 1.15
    axes.plot(ends, ends, color="black", lw=1, zorder=0)
    axes.axhline(0, color="black", lw=0.5)
    axes.axvline(0, color="black", lw=0.5)
    axes.set(xlabel="predicted rate $c$", ylabel="measured rate, with the sign in which attention turns")
    axes.set_title("rate and sign", loc="left")
    axes.legend(fontsize=9, loc="upper left")


def _tilts(axes: Any, record: xr.Dataset, c: Array) -> None:
    from saccade.report.style import sequential

    rows = [i for i in np.argsort(c) if record.start.values[i] == "unigram"]
    for height, i in enumerate(rows):
        n = int(record.n_tokens.values[i])
        tilt = record.tilt.values[i, :n]
        colours = [sequential(query, n) for query in range(n)]
        axes.scatter(np.sign(tilt) * np.abs(tilt / np.abs(tilt).max()) ** 0.5, np.full(n, height), color=colours, s=22)
    axes.axvline(0, color="black", lw=1)
    axes.set_yticks(range(len(rows)), [f"{record.chain.values[i]}  ($c$ = {c[i]:.2g})" for i in rows], fontsize=8)
    axes.set(xlabel="tilt to token 0, root of its share of the largest (light: frequent queries)", xlim=(-1.1, 1.1))
    axes.set_title("which way queries turn", loc="left")
