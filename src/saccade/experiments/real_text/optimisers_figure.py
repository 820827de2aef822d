"""The figure of `optimisers`: who gains on whom and who comes first, an optimiser a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saccade.observe.fits import interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_ORDERS = {"order": "distinct", "stand-ins": "as frequent", "frequency": "all tokens"}
_WINNERS = {"winner": "gains most", "favoured": "has most attention"}
_SHARES = {"separation": "distinct on common", "matched": "distinct on as frequent"}
_PANELS = (  # title, label, limits, chance, measures
    ("the frequent first? (line: chance)", "rank correlation with frequency", (-1, 1), 0.0, _ORDERS),
    ("which distinct token wins (line: chance)", "place by frequency", (0, 1.03), 0.5, _WINNERS),
    ("who gains on whom (line: chance)", "share gained on", (0, 1.03), 0.5, _SHARES),
)


def draw(record: xr.Dataset) -> Figure:
    from saccade.experiments.real_text.optimisers import measured
    from saccade.report.style import new_figure

    drawing = new_figure(width=14.0, height=4.8)
    found = {str(kind): measured(record, str(kind)) for kind in record.optimiser.values}
    for axes, (title, label, limits, chance, names) in zip(drawing.subplots(1, 3), _PANELS, strict=True):
        _by_optimiser(axes, found, names)
        axes.axhline(chance, color="black", lw=1)
        axes.set(ylim=limits, ylabel=label)
        axes.set_title(title, loc="left")
        axes.legend(fontsize=8, loc="upper left" if names is _SHARES else "lower left")
    return drawing


def _by_optimiser(axes: Any, found: dict[str, dict[str, Any]], names: dict[str, str]) -> None:
    """Mean and 95 % interval over seeds; a tick where chance would come once in forty."""
    from saccade.report.style import categorical

    for i, (name, label) in enumerate(names.items()):
        for j, measures in enumerate(found.values()):
            by_seed, chance = measures[name]
            mean, low, high = interval(by_seed)
            x = j + 0.2 * (i - (len(names) - 1) / 2)
            axes.plot([x, x], [low, high], color=categorical(i), lw=2)
            axes.plot([x], [mean], "o", color=categorical(i), ms=5, label=label if j == 0 else None)
            axes.plot([x], [chance], "_", color="black", ms=9)
    axes.set_xticks(range(len(found)), [kind.replace(" ", "\n") for kind in found], fontsize=8)
