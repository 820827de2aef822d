"""A timeline drawn by Matplotlib, for print: the panel of `timeline.py` in the colours of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from saccade.report.style import Powers, categorical

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# By the place of a state in `STATES` of measures/timeline.py, as in web/chart_timeline.js.
COLOURS = (
    "#e4e4e4",
    "#b5b5b5",
    categorical(5),
    "#000000",
    *(categorical(place) for place in (1, 0, 3, 4, 2)),
)
_STRIPES: dict[str, Any] = {"facecolor": "none", "edgecolor": "white", "hatch": "||||", "lw": 0}
_TICKS: dict[str, Any] = {"color": "#777777", "marker": "|", "ls": "", "markersize": 6}
_MOST_LABELS = 24  # rows that can have a label each; of more, the first of each group has


def draw_timeline(axes: Axes, spec: dict[str, Any], letters: float) -> None:
    rows, end = spec["rows"], spec["end"]
    for place, row in enumerate(rows):
        ends = [step for step, _ in row["pieces"][1:]] + [end]
        for (start, state), stop in zip(row["pieces"], ends, strict=True):
            if state >= 0:
                axes.barh(
                    place + 0.5, stop - start, left=start, height=0.94, color=COLOURS[state], lw=0
                )
        if row["still"] is not None:
            axes.barh(
                place + 0.5,
                end - row["still"],
                left=row["still"],
                height=1.0,
                color="white",
                alpha=0.6,
                lw=0,
            )
        axes.vlines(row["takes"], place + 0.08, place + 0.92, color="black", lw=1.4)
    for start, stop in spec["unseen"]:
        axes.axvspan(start, stop, **_STRIPES)
    if spec["unseen"]:
        axes.plot(
            spec["steps"],
            np.full(len(spec["steps"]), 1.015),
            **_TICKS,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )
    axes.set_xscale("symlog", linthresh=1, linscale=0.3)
    axes.xaxis.set_major_formatter(Powers())
    axes.set(xlim=(spec["x"]["min"], spec["x"]["max"]), ylim=(len(rows), 0))
    named = [(place, row["name"]) for place, row in enumerate(rows)]
    if len(rows) > _MOST_LABELS:
        named = [(place, row["group"]) for place, row in enumerate(rows) if row["first"]]
        named = named[:: max(1, len(named) // _MOST_LABELS + 1)]
    axes.set_yticks(
        [place + 0.5 for place, _ in named],
        [name for _, name in named],
        fontsize=0.85 * letters,
        parse_math=False,
    )
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, spec, letters)


def _legend(axes: Axes, spec: dict[str, Any], letters: float) -> None:
    seen = np.unique(
        [state for row in spec["rows"] for _, state in row["pieces"] if state >= 0]
    ).astype(int)
    handles: list[Any] = [
        Patch(color=COLOURS[state], label=spec["states"][state]) for state in seen
    ]
    if any(row["still"] is not None for row in spec["rows"]):
        handles.append(
            Patch(facecolor="#dbe7ef", edgecolor=categorical(0), label="pale: frozen", lw=0.5)
        )
    if any(row["takes"] for row in spec["rows"]):
        handles.append(
            Line2D(
                [],
                [],
                color="black",
                lw=1.4,
                marker="|",
                ls="",
                markersize=9,
                label="takes its place",
            )
        )
    if spec["unseen"]:
        handles.append(Line2D([], [], **_TICKS, label="observed"))
        handles.append(Patch(**_STRIPES | {"facecolor": "#777777"}, label="striped: not observed"))
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, -0.18),
        ncols=2,
        fontsize=0.85 * letters,
        frameon=False,
        handlelength=1.2,
    )
