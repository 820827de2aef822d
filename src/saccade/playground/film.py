"""A story of the playground as a GIF for slides: computed by the Python engines, drawn by
Matplotlib.

Frames are spread as on the page, most of them where attention moves. Sentences come at the times
that the story names.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.markov import MarkovChain
from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError, checked_choice
from saccade.models.embedded import Embedded
from saccade.playground.stories import stories
from saccade.records.writing import whole_file
from saccade.report.pace import pace
from saccade.runs import flow, reduced_flow
from saccade.theories.scan_and_snap import snap_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RATE, _SECONDS, _HOLD = (
    12,
    12,
    2,
)  # frames a second; seconds of the run as on the page, and of its last frame
_SIZE, _DPI = (8.0, 4.5), 100  # inches: a slide's half
_COMMON, _BY_RANK = (
    "#7f7f7f",
    ("#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#000000"),
)  # as tones.js has them
_SEEN, _OPEN = (
    0.02,
    0.5,
)  # as in theory_view.js: a change that can be seen, a direction that has opened
_UNIT = 30.0  # time until which samples of a chain lie evenly, about where the stories condense; from there on in the logarithm
_STAGES = {
    "scan-and-snap": {"start": "scanning", "onset": "snapped"},
    "focus-and-dilution": {
        "start": "condensing",
        "focused": "focus",
        "diluted": "dilution",
        "opened": "opening",
    },
}


@dataclass(frozen=True)
class _Run:
    """What a film shows: attention (time, row, token), embeddings in a plane (time, token, 2) or
    none, and named times.
    """

    time: NDArray[Any]
    attention: NDArray[Any]
    arrows: NDArray[Any] | None
    marks: dict[str, float]


def write_film(
    path: str | Path,
    story: str = "snapping",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> Path:
    """Write the film of a story to the GIF `path` and return it."""
    if Path(path).suffix.lower() != ".gif":
        raise InputError(
            f"a film is written as a GIF: its name must end in .gif; got {Path(path).name}."
        )
    told = stories()[checked_choice("story", story, list(stories()))]
    with whole_file(
        Path(path)
    ) as file:  # around the work: what cannot be written is refused before it
        file.write(_gif(told, _run(told), on_progress))
    return Path(path)


def still(story: str, share: float) -> Figure:
    """One frame of a film, at a share of its time from 0 to 1."""
    from matplotlib.figure import Figure

    told = stories()[checked_choice("story", story, list(stories()))]
    run, figure = _run(told), Figure(figsize=_SIZE, dpi=_DPI)
    places = _places(run)
    _drawing(figure, told, run)(float(places[round(share * (len(places) - 1))]))
    return figure


def _run(told: dict[str, Any]) -> _Run:
    return _scan(told) if told["model"] == "scan-and-snap" else _chain(told)


def _scan(told: dict[str, Any]) -> _Run:
    change = told["change"]
    table = [
        dict(zip(words, law, strict=True))
        for words, law in zip(told["rows"], change["law"], strict=True)
    ]
    rows = [{"class": answer, **line} for answer, line in zip(told["answers"], table, strict=True)]
    task = SequenceClasses.from_table(rows)
    record = reduced_flow(task, t1=change["end"], lr_attention=change["lrAttention"], n_times=400)
    names = [str(name) for name in record.token.values]
    columns = np.array([[names.index(word) for word in words] for words in told["rows"]])
    attention = record.attention.transpose("time", "class", "token").values
    own = np.stack([attention[:, n, places] for n, places in enumerate(columns)], axis=1)
    onset = snap_time(n_vocab=record.sizes["token"], n_classes=len(rows), lr_decoder=1.0)
    return _Run(record.time.values.astype(float), own, None, {"onset": float(onset)})


def _chain(told: dict[str, Any]) -> _Run:
    change = told["change"]
    chain = MarkovChain.lazy(change["law"][0], stay=change["stay"])
    record = flow(
        chain,
        times=_UNIT * np.expm1(np.linspace(0, np.log1p(change["end"] / _UNIT), 401)[1:]),
        lr_attention=change["lrAttention"],
        model=Embedded(d_model=8, d_key=8, init_scale=1e-3),
        keep=("attention", "embedding"),
    )
    record = record.isel(seed=0) if "seed" in record.dims else record
    time, attention = (
        record.time.values.astype(float),
        record.attention.transpose("time", "query", "token").values,
    )
    embedding = record.embedding.values
    sizes = np.linalg.svd(embedding, compute_uv=False)
    first = {
        "condensed": sizes[:, 0] > 0.5 * sizes[:, 0].max(),
        "focused": abs(attention - attention[0]).max(axis=(1, 2)) >= _SEEN,
        "opened": (sizes[:, 1] > _OPEN * sizes[:, 0]) & (sizes[:, 0] > _OPEN),
    }
    marks = {name: float(time[np.argmax(met)]) for name, met in first.items() if met.any()}
    others = attention[:, 1:, 0].mean(axis=1)
    if others[-1] < others.max() - _SEEN:
        marks["diluted"] = float(time[others.argmax()])
    # The plane of arrows.js, in which the longest embedding of each time is 1 long.
    condensed = embedding[np.argmax(sizes[:, 0] / sizes[:, 1])]
    along = np.linalg.svd(condensed)[2][0]
    along = along * np.sign(condensed[0] @ along)
    across = embedding[-1] - np.outer(embedding[-1] @ along, along)
    second = np.linalg.svd(across)[2][0]
    longest = np.linalg.norm(embedding, axis=2).max(axis=1)[:, None, None]
    axes = np.stack([along, second * np.sign(across[-1] @ second)], axis=1)
    return _Run(time, attention, embedding @ axes / longest, marks)


def _places(run: _Run) -> NDArray[Any]:
    """Where each frame lies among the samples."""
    seen = [run.attention.reshape(len(run.time), -1)] + (
        [] if run.arrows is None else [run.arrows.reshape(len(run.time), -1)]
    )
    share = np.linspace(0, 1, _RATE * _SECONDS)
    places = np.arange(len(run.time))
    return np.interp(share, pace(np.concatenate(seen, axis=1), places, places), places)


def _between(values: NDArray[Any], place: float) -> NDArray[Any]:
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def _gif(told: dict[str, Any], run: _Run, on_progress: Callable[[float], None]) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=_SIZE, dpi=_DPI)
    canvas = FigureCanvasAgg(figure)
    draw, places, frames = _drawing(figure, told, run), _places(run), []
    for at, place in enumerate(places):
        draw(float(place))
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]).quantize(64))
        on_progress((at + 1) / len(places))
    held = [1000 // _RATE] * (len(frames) - 1) + [1000 * _HOLD]
    content = io.BytesIO()
    frames[0].save(
        content,
        "gif",
        save_all=True,
        append_images=frames[1:],
        duration=held,
        loop=0,
        optimize=True,
    )
    return content.getvalue()


def _drawing(figure: Figure, told: dict[str, Any], run: _Run) -> Callable[[float], None]:
    """The parts of the film; what it gives draws them at a place among the samples."""
    grid = figure.add_gridspec(
        2, 2, height_ratios=(3, 1), left=0.08, right=0.97, top=0.84, bottom=0.09, hspace=0.35
    )
    caption = figure.text(0.03, 0.93, "", weight="bold", size=12)
    top = [figure.add_subplot(grid[0, n]) for n in range(2)]
    if run.arrows is None:
        parts = [_bars(axes, told, run, n) for n, axes in enumerate(top)]
    else:
        parts = [_map(top[0], told["rows"][0], run), _arrows(top[1], told["rows"][0], run.arrows)]
    parts.append(_hill(figure.add_subplot(grid[1, :]), told, run))

    def draw(place: float) -> None:
        now = float(_between(run.time, place))
        begun = [
            one["say"]
            for one in told["look"]
            if "visitor" not in one
            and (
                0.0
                if one["from"] == "start"
                else run.marks.get(one["from"], np.inf) * one.get("times", 1)
            )
            <= now
        ]
        caption.set_text(begun[-1])
        for part in parts:
            part(place)

    return draw


def _bars(axes: Axes, told: dict[str, Any], run: _Run, row: int) -> Callable[[float], None]:
    words, law = told["rows"][row], told["change"]["law"][row]
    common = [sum(word in other for other in told["rows"]) > 1 for word in words]
    own = sorted((at for at in range(len(words)) if not common[at]), key=lambda at: -law[at])
    bars = axes.bar(
        told["rows"][row],
        run.attention[0, row],
        color=[_COMMON if common[at] else _BY_RANK[own.index(at)] for at in range(len(words))],
    )
    axes.set(
        ylim=(0, 0.9), title=f"before “{told['answers'][row]}”", ylabel="" if row else "attention"
    )
    axes.spines[["top", "right"]].set_visible(False)

    def draw(place: float) -> None:
        for bar, height in zip(bars, _between(run.attention, place)[row], strict=True):
            bar.set_height(height)

    return draw


def _map(axes: Axes, names: list[str], run: _Run) -> Callable[[float], None]:
    image = axes.imshow(run.attention[0], vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set(
        xticks=range(len(names)),
        yticks=range(len(names)),
        xticklabels=names,
        yticklabels=names,
        title="attention of each query",
    )
    cells = [
        [axes.text(j, i, "", ha="center", va="center", size=9) for j in range(len(names))]
        for i in range(len(names))
    ]

    def draw(place: float) -> None:
        values = _between(run.attention, place)
        image.set_data(values)
        for line, row in zip(cells, values, strict=True):
            for cell, value in zip(line, row, strict=True):
                cell.set_text(f"{value:.2f}".removeprefix("0"))
                cell.set_color("black" if value > 0.55 else "white")

    return draw


def _arrows(axes: Axes, names: list[str], arrows: NDArray[Any]) -> Callable[[float], None]:
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.15, 1.15), aspect="equal", title="embeddings")
    axes.axis("off")
    axes.set_title("embeddings", y=1.0)
    axes.axhline(0, color="#999999", ls=":", lw=1)
    lines = [
        axes.plot([0, 1], [0, 0], color=colour, lw=2.5)[0]
        for colour, _ in zip(_BY_RANK, names, strict=False)
    ]
    labels = [axes.text(0, 0, name, size=9) for name in names]

    def draw(place: float) -> None:
        tips = _between(arrows, place)
        placed: list[
            tuple[float, float]
        ] = []  # names lie neither on each other nor on a longer arrow
        for line, label, (x, y) in zip(lines, labels, tips, strict=True):
            line.set_data([0, x], [0, y])
            struck = any(
                far * x > 0 and abs(far) > abs(x) + 0.05 and max(abs(y), abs(height)) < 0.1
                for far, height in tips
            )
            rows = (y - 0.14 * row for row in range(int(struck), len(tips) + 1))
            taken = [height for other, height in placed if abs(x - other) < 0.5]
            free = next(row for row in rows if all(abs(row - height) >= 0.12 for height in taken))
            placed.append((x, free))
            label.set_position((x + (0.04 if x >= 0 else -0.04), free))
            label.set_horizontalalignment("left" if x >= 0 else "right")

    return draw


def _hill(axes: Axes, told: dict[str, Any], run: _Run) -> Callable[[float], None]:
    """Attention's speed over the samples, filled until now, with the stages below."""
    from matplotlib.patches import Rectangle

    speed = abs(np.diff(run.attention, axis=0)).sum(axis=(1, 2)) / np.diff(run.time)
    x = np.arange(1, len(run.time))
    axes.fill_between(x, speed, color=_BY_RANK[0], alpha=0.15, lw=0)
    filled = axes.fill_between(x, speed, color=_BY_RANK[0], lw=0)
    window = Rectangle((0, 0), 0, 2 * speed.max(), transform=axes.transData)
    filled.set_clip_path(window)
    head = axes.axvline(0, color="black", lw=1.5)
    begins = {
        name: 0.0 if key == "start" else run.marks.get(key, np.inf)
        for key, name in _STAGES[told["model"]].items()
    }
    at = {
        name: float(np.interp(begin, run.time, np.arange(len(run.time))))
        for name, begin in begins.items()
        if begin < run.time[-1]
    }
    for place in list(at.values())[1:]:
        axes.axvline(place, color="black", ls=":", lw=1)
    label = axes.text(0, -0.1 * speed.max(), "", va="top", weight="bold")
    axes.set(
        xlim=(0, len(run.time) - 1),
        ylim=(0, 1.05 * speed.max()),
        xticks=[],
        yticks=[],
        ylabel="speed",
    )
    axes.spines[["top", "right", "left"]].set_visible(False)

    def draw(place: float) -> None:
        window.set_width(place)
        filled.set_clip_path(window)  # which copies what it is given
        stage = [name for name, begin in at.items() if begin <= place][-1]
        label.set_text(stage)
        label.set_x(at[stage])
        head.set_xdata([place, place])

    return draw
