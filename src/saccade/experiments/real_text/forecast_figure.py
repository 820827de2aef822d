"""The figure of `forecast`: predicted against measured gains, scores of all forecasters, and the stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.real_text.forecast_resampling import resampled
from saccade.experiments.real_text.forecast_scores import FORECASTERS, score_draws
from saccade.experiments.real_text.forecast_stages import EVENTS, stage_scores

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_WAYS = {"endless": "classes,\nendless", "short": "classes,\nshort", "sgd": "text,\nSGD", "adam": "text,\nAdam"}
_WORDS = 5  # queries whose attention is drawn: those that move most
_LINEAR = 0.03  # gains below it are on a linear scale


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=16.0, height=7.6)
    above, below = drawing.subplots(2, 4)
    _cloud(above[0], record, "endless", "the classes, endless contexts")
    _cloud(above[1], record, "sgd", "the text")
    _scores(above[2], record, "distinct order", "order of distinct tokens (line: chance)")
    _scores(above[3], record, "other sign", "sign of tokens not distinct")
    _scores(below[3], record, "token order", "order of all tokens (line: chance)")
    above[0].legend(fontsize=8, loc="upper left")
    below[3].legend(fontsize=8, loc="upper right", ncols=2)
    _events(below[0], record)
    _attention(below[1], record, "sgd")
    _attention(below[2], record, "adam")
    return drawing


def _cloud(axes: Any, record: xr.Dataset, way: str, title: str) -> None:
    """Every token of every query: mean gain over seeds against the gain predicted."""
    from saccade.report.style import COMMON, categorical

    last, seen = record.isel(time=-1), record["attention_start"].values > 0
    measured, guess = last["measured_gain"].sel(way=way).mean("seed").values, last["predicted_gain"].values
    for name, colour, size in (("not distinct", COMMON, 3), ("distinct", categorical(1), 4)):
        member = seen & (record["distinct"].values == (name == "distinct"))
        axes.plot(guess[member], measured[member], "o", ms=size, color=colour, label=name, alpha=0.8)
    reach = np.abs(guess[seen]).max()
    axes.plot([-reach, reach], [-reach, reach], color="black", lw=0.8)
    axes.axhline(0, color="black", lw=0.5)
    ticks = (-1.0, -0.1, 0.0, 0.1, 1.0)
    axes.set_xscale("symlog", linthresh=_LINEAR)
    axes.set_yscale("symlog", linthresh=_LINEAR)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set(xlabel="gain predicted", ylabel="gain measured, mean over seeds")
    axes.set_title(f"trained on {title}", loc="left")


def _scores(axes: Any, record: xr.Dataset, name: str, title: str) -> None:
    """One score of every forecaster in every way of training: mean and 95 % interval over queries and tokens."""
    from saccade.report.style import categorical

    for i, forecaster in enumerate(FORECASTERS):
        for j, way in enumerate(_WAYS):
            mean, low, high = resampled(score_draws(record, way, forecaster, name))
            x = j + 0.17 * (i - (len(FORECASTERS) - 1) / 2)
            axes.plot([x, x], [low, high], color=categorical(2 + i), lw=2)
            axes.plot([x], [mean], "o", ms=5, color=categorical(2 + i), label=forecaster if j == 0 else None)
    is_share = name == "other sign"
    if not is_share:
        axes.axhline(0.0, color="black", lw=0.8)
    axes.set_xticks(range(len(_WAYS)), _WAYS.values(), fontsize=8)
    axes.set(ylim=(0, 1.02) if is_share else (-1, 1.02), ylabel="share predicted" if is_share else "rank correlation")
    axes.set_title(title, loc="left")


def _events(axes: Any, record: xr.Dataset) -> None:
    """Measured times of every seed against the predicted ones; the band is a factor of two."""
    from saccade.report.style import COMMON, categorical

    found, ends = stage_scores(record, "sgd"), []
    for i, (name, what) in enumerate(EVENTS.items()):
        guess = np.median(record[f"predicted_{name}"].values)
        axes.plot(np.full(record.sizes["seed"], guess), found[name], "o", color=categorical(i), label=what)
        ends += [guess, *found[name][np.isfinite(found[name])]]
    ends_of = np.array([min(ends) / 3, max(ends) * 3])
    axes.plot(ends_of, ends_of, color="black", lw=0.8)
    axes.fill_between(ends_of, ends_of / 2, ends_of * 2, color=COMMON, alpha=0.4, lw=0)
    axes.set(xscale="log", yscale="log", xlabel="update predicted", ylabel="update measured", xlim=ends_of, ylim=ends_of)
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_minor_formatter("")
    axes.set_title("stages on text, SGD (band: factor 2)", loc="left")
    axes.legend(fontsize=8, loc="lower right")


def _attention(axes: Any, record: xr.Dataset, optimiser: str) -> None:
    """Attention on the most frequent token, first seed; dashed: the forecast, which is one for SGD."""
    from saccade.report.style import COMMON, categorical

    run, share = record.sel(optimiser=optimiser).isel(seed=0), float(record["word_share"].max())
    curves = run["on_frequent"].transpose("look", "word").values
    words = np.argsort(-np.abs(np.nan_to_num(curves) - share).max(axis=0), kind="stable")[:_WORDS]
    for colour, i in enumerate(words):
        axes.plot(run["look_step"].values, curves[:, i], color=categorical(colour), label=_plain(str(record["word"].values[i])))
        if optimiser == "sgd":
            inside = record["stage_time"].values <= np.nanmax(run["look_step"].values)
            guess = record["predicted_on_frequent"].values[inside, i]
            axes.plot(record["stage_time"].values[inside], guess, color=categorical(colour), ls="--", lw=1)
    axes.axhline(share, color=COMMON, lw=0.8)
    frequent = _plain(str(record["word"].values[int(record["word_share"].values.argmax())]))
    axes.set(ylim=(0, 1), xlabel="updates", ylabel=f"attention on {frequent}")
    axes.set_title("SGD (dashed: forecast)" if optimiser == "sgd" else "Adam", loc="left")
    axes.legend(fontsize=8, title="query", title_fontsize=8, loc="upper right" if optimiser == "sgd" else "center right")


def _plain(name: str) -> str:
    """No mathematics between dollar signs."""
    return name.replace("$", r"\$")
