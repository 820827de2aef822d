"""The figure of `text-fates`: how groups of tokens moved, who gained on whom, and who came first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.real_text.spread import interval
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.experiments.real_text.token_runs import GROUPS, MODELS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_SHARES = {
    "separation": "distinct against\ncommon",
    "matched": "distinct against\nas frequent",
    "common matched": "as frequent against\ncommon",
}
_ORDERS = {
    "order": "distinct,\nby gain",
    "stand-ins": "as frequent,\nby gain",
    "order in time": "distinct,\nby time",
    "frequency": "all tokens,\nby gain",
}


def draw(record: xr.Dataset) -> Figure:
    from saccade.experiments.real_text.text_fates import measured
    from saccade.report.style import new_figure

    drawing = new_figure(width=13.5, height=8.0)
    above, below = drawing.subplots(2, 3)
    models = [str(model) for model in record.model.values]
    for axes, model in zip(above, models, strict=True):
        curves(axes, record.sel(model=model), MODELS[model])
    above[0].legend(fontsize=9, loc="best")
    found = {model: measured(record, model) for model in models}
    intervals(below[0], {model: found[model] for model in models}, _SHARES)
    below[0].axhline(0.5, color="black", lw=1)
    below[0].set(ylim=(0, 1), ylabel="share gained on")
    below[0].set_title("who gains on whom (line: chance)", loc="left")
    intervals(below[1], {model: found[model] for model in models}, _ORDERS)
    below[1].axhline(0, color="black", lw=1)
    below[1].set(ylim=(-1, 1), ylabel="rank correlation with frequency")
    below[1].set_title("the frequent first? (line: chance)", loc="left")
    below[1].legend(fontsize=8, loc="lower right")
    _cloud(below[2], record)
    return drawing


def curves(axes: Any, record: xr.Dataset, title: str) -> None:
    """Mean change of score of each group over time: mean over seeds, and their range."""
    for name in GROUPS:
        change = record[f"change_{name}"].transpose("seed", "time").values
        steps = record["time"].values[1:]
        axes.plot(steps, change.mean(axis=0)[1:], color=_colour(name), label=name)
        axes.fill_between(steps, change.min(axis=0)[1:], change.max(axis=0)[1:], color=_colour(name), alpha=0.25, lw=0)
    axes.axhline(0, color="black", lw=0.8)
    axes.set(xscale="log", xlabel="updates", ylabel="mean change of score")
    axes.set_title(title, loc="left")


def _colour(group: str) -> str:
    from saccade.report.style import COMMON, categorical

    return {"distinct": categorical(1), "common": categorical(0), "other": COMMON}[group]


def intervals(axes: Any, found: dict[str, dict[str, Any]], names: dict[str, str]) -> None:
    """Mean and 95 % interval over seeds of each measure, a colour for each model; a tick where chance would come once in forty."""
    from saccade.report.style import categorical

    for i, (model, measures) in enumerate(found.items()):
        for j, name in enumerate(names):
            by_seed, chance = measures[name]
            mean, low, high = interval(by_seed)
            x = j + 0.2 * (i - (len(found) - 1) / 2)
            axes.plot([x, x], [low, high], color=categorical(2 + i), lw=2)
            axes.plot([x], [mean], "o", color=categorical(2 + i), ms=5, label=model if j == 0 else None)
            axes.plot([x], [chance], "_", color="black", ms=10)
    axes.set_xticks(range(len(names)), names.values(), fontsize=8)
    axes.set_xlim(-0.5, len(names) - 0.5)


def _cloud(axes: Any, record: xr.Dataset) -> None:
    """Every token of the query with most distinct tokens, in the theorem's model."""
    groups = TokenGroups.of_record(record)
    query = int(groups.distinct.sum(axis=1).argmax())
    gain = record["gain"].isel(model=0, query=query).mean("seed").values
    for name in reversed(GROUPS):
        member = getattr(groups, name)[query]
        axes.plot(groups.frequency[query, member], gain[member], "o", ms=3.5, color=_colour(name), label=name)
    axes.axhline(0, color="black", lw=0.8)
    reach = max(float(np.abs(gain).max()), 1e-10)  # a short run may move no score of this query
    axes.set(xscale="log", xlabel="frequency before the query", ylabel="change of score", ylim=(-1.05 * reach, 1.05 * reach))
    axes.set_yscale("symlog", linthresh=reach / 100)
    decade = 10.0 ** np.floor(np.log10(reach))
    axes.set_yticks([-decade, -decade / 10, 0, decade / 10, decade])
    axes.set_title(f"tokens before {str(record['query'].values[query])!r}, theorem", loc="left")
