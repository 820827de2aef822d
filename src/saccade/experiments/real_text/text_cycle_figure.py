"""The figure of `text_cycle`: a column for each text, with attention, directions, heat-maps of a probe, and the first move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.real_text.text_cycle_claims import Cycle, cycle_of, probe_focus
from saccade.observe.measures import entropy, top_share

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

STAGES = ("start", "focus", "dilution", "end")


def described(record: xr.Dataset) -> str:
    names = " and ".join(
        f"{text} ({record.frequent.sel(text=text).item()!r} is its most frequent token)" for text in record.text.values
    )
    return (
        f"A column for each text: {names}. First row: attention of queries, dark for rare ones, on the most frequent token in an "
        "endless context; dotted: the token's share. All go to it, then they part. Second row: the embedding is of one direction "
        "until a second opens; the entropy of attention falls, rises and falls. Third row: attention of each probe word (row) on "
        "a context of all of them once (columns), most frequent first: at the start, where all are most on one word, where "
        "attention is most spread after that, and at the end. Fourth row: the rate c that theory has for each vocabulary, and to "
        "which side attention first moved in short runs: up to the most frequent token, down away from it, a cross not at all; the "
        "rule asks for up where c > 0. Grey: attention is faster than condensation, where the rule does not apply."
    )


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    texts = [str(text) for text in record.text.values]
    drawing = new_figure(width=7.0 * len(texts), height=14.5)
    for column, text in zip(drawing.subfigures(1, len(texts), squeeze=False)[0], texts, strict=True):
        attention, directions, maps, sides = column.subfigures(4, 1, height_ratios=(1.15, 1, 0.85, 1))
        run = cycle_of(record, text)
        _attention(attention.subplots(), run, record.sel(text=text))
        _directions(directions.subplots(), run, record.sel(text=text))
        _heat_maps(maps, run, [str(word) for word in record.probe_word.sel(text=text).values if word])
        _sides(sides.subplots(), record.sel(text=text))
    return drawing


def _attention(axes: Any, run: Cycle, record: xr.Dataset) -> None:
    from saccade.report.style import sequential

    words = [word for word in record.query_word.values if word]
    for i, word in enumerate(words):
        axes.plot(run.step[1:], run.on_frequent[1:, i], color=sequential(i, len(words)), lw=1.3, label=word)
    axes.axhline(record.share.item(), ls=":", color="black", lw=1)
    axes.set(xscale="log", xlabel="updates", ylim=(0, 1.03), ylabel=f"attention on {record.frequent.item()!r}")
    axes.set_title(f"{record.text.item()}: focus, then dilution", loc="left")
    axes.legend(fontsize=8, loc="upper left", ncols=2)


def _directions(axes: Any, run: Cycle, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    spread = record.entropy.isel(seed=0).values[: len(run.step), : run.on_frequent.shape[1]].mean(axis=1)
    curves = {
        "share of the embedding's first direction": top_share(run.values),
        "second singular value / first": run.ratio,
        "entropy of attention / its start": spread / spread[0],
        "|WQ| / its largest": run.query_norm / run.query_norm.max(),
    }
    for i, (label, curve) in enumerate(curves.items()):
        axes.plot(run.step[1:], curve[1:], color=categorical(i), label=label)
    axes.set(xscale="log", xlabel="updates", ylim=(0, 1.03))
    axes.set_title("directions, entropy and size", loc="left")
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def stage_looks(run: Cycle) -> list[int]:
    """Looks at the start, at the joint focus of the probe, where its attention is most spread after that, and at the end."""
    focus, _ = probe_focus(run)
    spread = focus + int(entropy(run.probe[focus:]).mean(axis=1).argmax())
    return [0, focus, spread, len(run.step) - 1]


def _heat_maps(part: Any, run: Cycle, words: list[str]) -> None:
    places = range(len(words))
    panels = part.subplots(1, len(STAGES), sharey=True)
    for axes, stage, look in zip(panels, STAGES, stage_looks(run), strict=True):
        image = axes.imshow(run.probe[look], vmin=0, vmax=1, cmap="viridis")
        axes.set_xticks(places, words, rotation=90, fontsize=8)
        axes.set_yticks(places, words, fontsize=8)
        axes.set_title(f"{stage}, {run.step[look]:.0f}", fontsize=9)
    part.colorbar(image, ax=list(panels), label="probe attention", shrink=0.8)


def _sides(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import COMMON, categorical

    sizes = record["size"].values
    rate = record.focus_rate.sel(optimiser="sgd").isel(side_seed=0)
    axes.plot(sizes, rate, color="black", lw=1, label="c")
    axes.axhline(0, color="black", lw=0.6)
    for shift, (optimiser, colour) in zip((0.87, 1.15), (("sgd", categorical(0)), ("adam", categorical(1))), strict=True):
        runs = record.sel(optimiser=optimiser)
        for seed in range(record.sizes["side_seed"]):
            for size, level, side in zip(sizes, rate.values, runs.side.values[:, seed], strict=True):
                marker = "^" if side > 0 else "v" if side < 0 else "x"
                axes.plot(size * shift * 1.06**seed, level, marker, color=colour, ms=7, alpha=0.7)
    fast = np.abs(rate.values) >= record.condensation_rate.sel(optimiser="sgd").values[:, 0]
    axes.plot(sizes[fast], rate.values[fast], "o", ms=24, color=COMMON, alpha=0.5, zorder=0, ls="none")
    for name, colour in (("plain descent", categorical(0)), ("Adam", categorical(1))):
        axes.plot([], [], "^", color=colour, label=f"{name}: first move, up or down")
    axes.set(xscale="log", xlabel="vocabulary (tokens)", ylabel="focus rate c (1/time)")
    axes.set_yscale("symlog", linthresh=0.01)
    axes.margins(y=0.2)
    axes.set_title("the side of the first move", loc="left")
    axes.legend(fontsize=8, loc="upper left")
