"""The figure of focus-dilution-cycle: what grows, what is learnt, where attention goes, where embeddings lie, stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.focus_and_dilution.embedded_events import (
    attention_on_frequent,
    embedding_values,
    events_of,
    frequent_token,
    optimal_loss,
    query_key_values,
)
from saccade.observe.events import Event, stage_bands
from saccade.observe.measures import entropy

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_MOST_CURVES = 6  # as many as there are colours that can be told apart
_MOST_MAPS = 7
_EARLY = 1.15  # times the first peak: peaks of other queries up to here belong to the first focus
_MOST_LABELLED_TOKENS = 8  # cells of a larger map have no room for a number
_TINTS = {"condensation": "#dbe9f6", "frozen": "#f4f4f4", "focus": "#fbe3cf", "dilution": "#d8efe6"}
_CYCLE_TINTS = ("#ececec", "#f8f8f8")
_MARKS = {"focus_peak": "^", "dilution": "v"}
_LEAST_LOSS = 1e-3  # of the loss at the start: below it are no more steps, only the approach to the optimum
_INCHES_A_LETTER = 0.07  # of the names of stages
_DECADES = 3.2  # of time are shown, so that the stages after condensation have room


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    run = record.isel(seed=0, time=np.isfinite(record.loss.values[0]))
    events = events_of(record)
    bands = stage_bands(events, float(record.time[-1]))
    drawing: Any = new_figure(width=13.0, height=15.0)
    growth, attention, maps, state = drawing.subfigures(4, 1, height_ratios=(3.6, 3.8, 2.4, 4.0))
    values, loss = growth.subplots(1, 2)
    _singular_value_panel(values, run)
    _loss_panel(loss, run)
    wide = attention.subplots()
    _attention_panel(wide, run, events)
    _maps(maps, run, bands)
    plane, spread, norms = state.subplots(1, 3)
    _plane_panel(plane, run, bands)
    _curves(spread, run, entropy(run.attention.values), "entropy of attention (nats)", "entropy of each query's attention")
    _curves(norms, run, np.linalg.norm(run.embedding.values, axis=-1), "norm of the embedding", "norm of each token's embedding")
    for axes, inches in ((values, 5.8), (loss, 5.8), (wide, 12.3), (spread, 0.0), (norms, 0.0)):
        _stages(axes, run, bands, inches)
    return drawing


def _shown(run: xr.Dataset) -> list[int]:
    """Tokens whose curves are drawn, most frequent first: all, or evenly spaced ones if there are too many to tell apart."""
    order = np.argsort(-run.stationary.values, kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(len(order), _MOST_CURVES)).round().astype(int))
    return [int(order[place]) for place in places]


def _singular_value_panel(axes: Any, run: xr.Dataset) -> None:
    from saccade.report.style import COMMON, categorical

    t, embedding, query_key = run.time.values, embedding_values(run), query_key_values(run)
    for k in range(min(embedding.shape[1], _MOST_CURVES)):
        axes.plot(t, embedding[:, k], color=categorical(k), label=rf"$s_{k + 1}(W_0)$")
    for k in range(min(query_key.shape[1], 2)):
        axes.plot(t, query_key[:, k], "--", color=("black", COMMON)[k], label=rf"$s_{k + 1}(W_Q W_K^\top)$")
    axes.set(yscale="log", ylabel="singular value")
    axes.set_ylim(axes.get_ylim()[0] / 50, None)  # room for the legend
    axes.set_title("directions open one by one", loc="left", pad=16)
    axes.legend(loc="lower center", fontsize=8, ncols=4)


def _loss_panel(axes: Any, run: xr.Dataset) -> None:
    excess = run.loss.values - optimal_loss(run)
    axes.plot(run.time.values, np.where(excess > 0, excess, np.nan), color="black")
    axes.set(yscale="log", ylabel="loss above the optimum (nats)")
    axes.set_ylim(max(axes.get_ylim()[0], excess[0] * _LEAST_LOSS), None)
    axes.set_title("the loss falls in steps", loc="left", pad=16)


def _attention_panel(axes: Any, run: xr.Dataset, events: list[Event]) -> None:
    frequent = frequent_token(run)
    low_share = run.stationary.values[frequent] < 0.45  # then there is room above the frozen stretch, otherwise below it
    _attention_curves(axes, run, events)
    for name, mark in _MARKS.items():
        axes.plot([], [], mark, color="white", mec="black", label=name.replace("_", " "))
    axes.set(ylim=(-0.03, 1.03), ylabel=f"attention on token {frequent}")
    axes.set_title(f"attention on the most frequent token{_of_all(run)}", loc="left", pad=16)
    axes.legend(loc="upper left" if low_share else "lower left", fontsize=9)
    if any(event.name == "focus_peak" for event in events):
        _first_focus(axes.inset_axes((0.19, 0.55 if low_share else 0.08, 0.28, 0.38)), run, events)


def _attention_curves(axes: Any, run: xr.Dataset, events: list[Event]) -> None:
    from saccade.report.style import categorical

    curves, shares = attention_on_frequent(run), run.stationary.values
    for i, query in enumerate(_shown(run)):
        axes.plot(
            run.time.values, curves[:, query], color=categorical(i), lw=1.6, label=f"query {query}, share {shares[query]:.2g}"
        )
        for event in events:
            if event.query == query and event.name in _MARKS:
                axes.plot(event.time, event.value, _MARKS[event.name], color=categorical(i), mec="black", mew=0.6, ms=7, zorder=3)
    axes.axhline(shares.max(), color="black", ls=":", lw=1)


def _first_focus(axes: Any, run: xr.Dataset, events: list[Event]) -> None:
    """The first focus once more, larger: it is short and small against what follows."""
    _attention_curves(axes, run, events)
    peaks = [event for event in events if event.name == "focus_peak"]
    first, share = peaks[0].time, run.stationary.values.max()
    height = max(peak.value for peak in peaks if peak.time <= _EARLY * first) - share
    axes.set(xlim=(first / _EARLY, first * _EARLY), ylim=sorted((share - 0.6 * height, share + 1.4 * height)))
    axes.set_title("first focus", fontsize=8, pad=2)
    axes.tick_params(labelsize=7)


def _of_all(run: xr.Dataset) -> str:
    n_all, n_shown = run.sizes["token"], len(_shown(run))
    return "" if n_shown == n_all else f" ({n_shown} of {n_all} queries)"


def _maps(figure: Any, run: xr.Dataset, bands: list[tuple[str, float, float]]) -> None:
    """Attention where stages meet. The onset of focus is left out: nothing is to be seen of it yet."""
    boundaries = [(end, f"end of {name}") for name, _, end in bands[:-1] if name != "frozen"]
    boundaries.append((bands[-1][2], "end of the run"))
    places = np.unique(np.linspace(0, len(boundaries) - 1, min(len(boundaries), _MOST_MAPS)).round().astype(int))
    grid = np.atleast_1d(figure.subplots(1, len(places)))
    for axes, (when, name) in zip(grid, [boundaries[place] for place in places], strict=True):
        i = int(np.abs(run.time.values - when).argmin())
        image = _map(axes, run.attention.values[i])
        axes.set_title(f"{name}\nt = {run.time.values[i]:.0f}", fontsize=9)
    grid[0].set_ylabel("query")
    figure.colorbar(image, ax=list(grid), label="attention", shrink=0.9, pad=0.01)


def _map(axes: Any, attention: NDArray[np.float64]) -> Any:
    image = axes.imshow(attention, vmin=0, vmax=1, cmap="viridis", aspect="equal")
    axes.set_xlabel("token")
    axes.locator_params(integer=True)
    if len(attention) <= _MOST_LABELLED_TOKENS:
        axes.set(xticks=range(len(attention)), yticks=range(len(attention)))
        for (query, token), share in np.ndenumerate(attention):
            number = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
            axes.text(
                token,
                query,
                number,
                ha="center",
                va="center",
                fontsize=6 + 6 / len(attention),
                color="black" if share > 0.6 else "white",
            )
    return image


def _plane_panel(axes: Any, run: xr.Dataset, bands: list[tuple[str, float, float]]) -> None:
    """Not centred: the origin, where all start, is a place of its own."""
    from saccade.report.style import categorical

    rows = run.embedding.values.reshape(-1, run.sizes["width"])
    plane = np.linalg.svd(rows, full_matrices=False)[2][:2]
    path = np.zeros((*run.embedding.shape[:2], 2))
    path[..., : len(plane)] = run.embedding.values @ plane.T
    at = np.searchsorted(run.time.values, [end for _, _, end in bands[:-1] if end <= run.time.values[-1]])
    for i, token in enumerate(_shown(run)):
        axes.plot(*path[:, token].T, color=categorical(i), lw=1.4, label=f"token {token}")
        axes.plot(*path[at, token].T, "o", color=categorical(i), ms=4)
        axes.plot(*path[-1, token], "s", color=categorical(i), mec="black", mew=0.8, ms=8)
    axes.axhline(0, color="black", lw=0.5)
    axes.axvline(0, color="black", lw=0.5)
    axes.set(xlabel="first component", ylabel="second component")
    axes.set_title("paths of the embeddings", loc="left")
    axes.legend(loc="best", fontsize=8)


def _curves(axes: Any, run: xr.Dataset, values: NDArray[np.float64], label: str, title: str) -> None:
    from saccade.report.style import categorical

    for i, token in enumerate(_shown(run)):
        axes.plot(run.time.values, values[:, token], color=categorical(i))
    axes.set(ylabel=label, ylim=(0, 1.05 * values.max()))
    axes.set_title(title, loc="left")


def _stages(axes: Any, run: xr.Dataset, bands: list[tuple[str, float, float]], inches: float) -> None:
    """Shade every stage, and name it above a panel that is some `inches` wide: a cycle by its number where room is short."""
    first, last = run.time.values[-1] / 10**_DECADES, run.time.values[-1]
    axes.set(xscale="log", xlim=(first, last), xlabel="$t$")
    for name, start, end in bands:
        low, high = max(start, first), min(end, last)
        if low >= high:
            continue
        number = int(name.split()[1]) if name.startswith("cycle") else 0
        axes.axvspan(low, high, color=_TINTS.get(name, _CYCLE_TINTS[number % 2]), lw=0, zorder=0)
        room = inches * np.log(high / low) / np.log(last / first)
        label = next((text for text in (name, name.removeprefix("cycle ")) if len(text) * _INCHES_A_LETTER < room), "")
        axes.text(np.sqrt(low * high), 1.015, label, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=8)
