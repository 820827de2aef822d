"""The figures of the docs, from runs of Saccade: `python -m tools.docs_figures [NAME ...]`, three
minutes on two cores.

The same code gives the same bytes on the same machine; libraries and processors differ in last
digits, so tests ask for the files and their size, not for their bytes.
"""

from __future__ import annotations

import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

import saccade
from saccade.experiments import experiment
from saccade.experiments.focus_and_dilution.published_run import probe_attention
from saccade.experiments.scan_and_snap.snap_growth import growth_of, one_common_token
from saccade.lab.experiment import Result
from saccade.measures import cosines
from saccade.measures.events import find_events
from saccade.models.embedded import weights_of
from saccade.panels import specs
from saccade.playground.film import still
from saccade.report.drawn import draw_panels
from saccade.report.drawn_timeline import draw_timeline
from saccade.report.style import categorical, sequential
from saccade.report.timeline import shown_timelines
from saccade.theories import focus_and_dilution as theory

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "figures"
WIDTH = 5.4  # inches: on a phone the letters are still 8 pixels high


def induction_heads() -> Figure:
    """The watched model of `examples/induction_heads.py`: attention of one head on one sequence at
    four steps, and the timeline of all heads.
    """
    record = runpy.run_path(str(ROOT / "examples" / "induction_heads.py"))["trained"](400)
    maps = record.attention_map.isel(sequence=0, layer=1, head=1)
    drawing = Figure(figsize=(7.2, 4.0), layout="constrained")
    top, bottom = drawing.subfigures(2, 1, height_ratios=(1.15, 1))
    for axes, step in zip(top.subplots(1, 4), (0, 49, 111, 400), strict=True):
        axes.imshow(maps.sel(time=step), vmin=0, vmax=1, cmap="viridis")
        axes.set_title(f"step {step}", fontsize=10)
        axes.set(xticks=[], yticks=[])
    top.suptitle("attention of layer 1 head 1: queries down, keys across", fontsize=10)
    axes = bottom.subplots()
    [[panel]], _ = shown_timelines(record)
    draw_timeline(axes, panel, 10)
    handles = axes.get_legend().legend_handles
    axes.get_legend().remove()
    bottom.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    axes.set_xlabel("step (logarithmic)", fontsize=9)
    return drawing


def scan_and_snap_attention() -> Figure:
    """Attention of one class of Syn-Small under training with momentum, mean over ten seeds."""
    task = saccade.SequenceClasses.syn_small()
    record = saccade.train(task, steps=48, momentum=0.9, seeds=10, save=list(range(0, 49, 2)))
    attention = record.attention.isel(rate=0, missing_dims="ignore").mean("seed").isel({"class": 0})
    common = attention.isel(token=np.flatnonzero(task.common)).sum("token")
    drawing = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = drawing.subplots()
    axes.plot(record.time, common, color="black", lw=2, ls="--", label="10 common tokens together")
    tokens = np.flatnonzero(task.distinct[0])
    for rank, token in enumerate(tokens):  # rarest first
        label = {0: "rarest distinct token", len(tokens) - 1: "most frequent distinct token"}.get(
            rank
        )
        axes.plot(
            record.time,
            attention.isel(token=token),
            color=sequential(rank, len(tokens)),
            label=label,
        )
    axes.set(xlabel="iteration", ylabel="attention of class 1", ylim=(0, 1), xlim=(0, 48))
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing


def scan_and_snap_growth() -> Figure:
    """Growth of the most frequent distinct token along flow (C), with the corrected theory."""
    task = one_common_token(n_classes=5, common_feature=0.2, n_distinct=4, n_vocab=1000)
    rest = {"lr_attention": 100.0, "t1": 1e12, "n_times": 200, "keep": ("attention_logits",)}
    drawing = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = drawing.subplots()
    for i, rate in enumerate((10.0, 1.0, 0.1)):
        at = growth_of(saccade.reduced_flow(task, lr_decoder=rate, **rest), task)
        label = rf"flow (C), $\eta_Y$ = {rate:g}"
        axes.plot(at.t[::6], at.measured[::6], "os^"[i], ms=3.5, color=categorical(i), label=label)
        axes.plot(at.t, at.predicted, color=categorical(i), lw=1.2)
        axes.axvline(at.theory.snap_time, color=categorical(i), ls="--", lw=1)
    axes.plot([], [], color="black", lw=1.2, label="corrected theory")
    axes.plot([], [], color="black", ls="--", lw=1, label=r"onset of snapping, $t_0$")
    axes.set(xscale="log", xlim=(0.1, None), xlabel="t (steps)", ylabel="log growth B")
    axes.set_ylim(0, None)
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing


def plain_descent() -> Figure:
    """Printed theory, corrected theory and plain descent side by side, and how fast each still
    grows.
    """
    return draw_panels([[panel] for panel in _rows("plain-descent")[0]], WIDTH, 7.0)


def first_force_text() -> Figure:
    """Both predictions of the first movement of attention on a text, with ceiling and frequency."""
    asked = experiment("text-forecast")
    found = asked.run(asked.settings(texts=("sotu",), steps=(2, 3, 5, 50)))
    return draw_panels([specs(found.panels)[0]], WIDTH, 3.6)


def focus_and_dilution_cycle() -> Figure:
    """Attention on the most frequent token, and the embedding's singular values, along the flow of
    a Zipf chain of six tokens.
    """
    run = saccade.flow(saccade.MarkovChain.zipf(6, stay=0.5), t1=5000, seeds=1).isel(seed=0)
    values = saccade.measures.singular_values(run.embedding.values)
    drawing = Figure(figsize=(WIDTH, 5.0), layout="constrained")
    top, bottom = drawing.subplots(2, 1, sharex=True)
    n_queries = run.sizes["query"]
    for query in range(n_queries):  # most frequent first, and darkest
        name = {0: "most frequent query", n_queries - 1: "rarest query"}.get(query)
        color = sequential(n_queries - 1 - query, n_queries)
        top.plot(run.time, run.attention.isel(query=query, token=0), color=color, label=name)
    top.axhline(
        float(run.stationary[0]), color="black", lw=0.8, ls=":", label="its share of the text"
    )
    top.set(ylabel="attention on the\nmost frequent token", ylim=(0, 1))
    drawing.legend(loc="outside lower center", ncols=3, fontsize=8)
    for rank in range(values.shape[1]):
        bottom.plot(
            run.time, values[:, rank], color=categorical(rank), ls=("-", "--", "-.", ":")[rank % 4]
        )
    bottom.set(xscale="log", xlim=(1, None), xlabel="t", ylabel="singular values\nof the embedding")
    _mark_events(top, bottom, run, values)
    return drawing


def _mark_events(top: Any, bottom: Any, run: Any, values: np.ndarray) -> None:
    events = find_events(
        run.time, attention_on_frequent=run.attention[..., 0], embedding_singular_values=values
    )
    first = {
        name: min(one.time for one in events if one.name == name)
        for name in {one.name for one in events}
    }
    named = {
        "condensation": "condensed",
        "focus_peak": "focus",
        "dilution": "diluted",
        "new_direction": "new direction",
    }
    for name, label in named.items():
        for axes in (top, bottom):
            axes.axvline(first[name], color="grey", lw=0.8)
        side = {"focus_peak": "right", "condensation": "center"}.get(
            name, "left"
        )  # the one follows the other closely
        place = {
            "xy": (first[name], 1.02),
            "xycoords": ("data", "axes fraction"),
            "va": "bottom",
            "ha": side,
        }
        top.annotate(label, fontsize=8, **place)  # above all curves


def focus_and_dilution_maps() -> Figure:
    """The paper's own experiment, one seed: attention in a context with every token once, and
    cosines of the embeddings.
    """
    steps = {0: "start", 200: "focus", 350: "dilution", 1500: "end"}
    model = saccade.models.Embedded(d_model=256, d_key=256, init_scale=1 / 256)
    run = saccade.train(
        saccade.MarkovChain.paper(0.8),
        steps=max(steps),
        lr_decoder=1.5e-4,
        lr_attention=1.5e-4,
        batch=np.inf,
        context=19,
        sequences=100_000,
        seeds=1,
        save=list(steps),
        model=model,
    ).isel(seed=0)
    attention, drawing = (
        probe_attention(weights_of(run)),
        Figure(figsize=(WIDTH, 3.2), layout="constrained"),
    )
    top, bottom = drawing.subplots(2, len(steps), sharex=True, sharey=True)
    for place, (step, label) in enumerate(steps.items()):
        looked = top[place].imshow(attention[place], vmin=0, vmax=1, cmap="viridis")
        alike = bottom[place].imshow(
            cosines(run.embedding.values[place]), vmin=-1, vmax=1, cmap="PRGn"
        )
        top[place].set_title(f"{label}\nstep {step}", fontsize=9)
        bottom[place].set(xlabel="token", xticks=range(4), yticks=range(4))
    top[0].set_ylabel("query")
    bottom[0].set_ylabel("token")
    drawing.colorbar(looked, ax=top, ticks=[0, 1]).set_label("attention")
    drawing.colorbar(alike, ax=bottom, ticks=[-1, 0, 1]).set_label("cosine of\nembeddings")
    return drawing


def focus_and_dilution_sign() -> Figure:
    """Measured growth rate of attention, signed by the side it turns to, against the predicted c."""
    points = experiment("focus").run().panels[0][0].lines[1:]
    drawing = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = drawing.subplots()
    predicted = np.concatenate([line.x for line in points])
    measured = np.concatenate([line.y for line in points])
    reach = 1.1 * np.abs(predicted).max()
    axes.plot([-reach, reach], [-reach, reach], color="black", lw=0.8, label="measured = predicted")
    for i, (name, chosen) in enumerate(
        (("turns to frequent tokens", measured > 0), ("turns away from them", measured < 0))
    ):
        axes.plot(
            predicted[chosen],
            measured[chosen],
            "os"[i],
            color=categorical(i),
            ms=6,
            label=f"{name} ({chosen.sum()} runs)",
        )
    axes.axhline(0, color="grey", lw=0.8)
    axes.axvline(0, color="grey", lw=0.8)
    axes.set(xlabel="predicted rate c", ylabel="measured rate,\nsigned by the side seen")
    axes.set_xscale("symlog", linthresh=1e-3)
    axes.set_yscale("symlog", linthresh=1e-3)
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing


def focus_and_dilution_parting() -> Figure:
    """Equal rare tokens at the paper's stay: their spread along the first direction with the rate
    that theory gives, and the second direction.
    """
    law = {"high": 0.75, "n_vocab": 4}
    rate = theory.parting_rate(theory.stall_point(stay=0.8, **law))
    chain, model = (
        saccade.MarkovChain.two_level(4, 0.75, stay=0.8),
        saccade.models.Embedded(init_scale=1e-4),
    )
    run = saccade.flow(chain, t1=1500, n_times=500, model=model, seeds=1).isel(
        seed=0, time=slice(1, None)
    )
    _, sizes, directions = np.linalg.svd(run.embedding.values, full_matrices=False)
    along = np.einsum("tiw,tw->ti", run.embedding.values, directions[:, 0])
    spread, time = along[:, 1:].std(axis=1), run.time.values
    parted = int(np.argmax((spread > 0.1) & (time > 50)))
    near = np.linspace(time[parted] - 6 / rate, time[parted], 20)
    drawing = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = drawing.subplots()
    axes.plot(time, spread, color=categorical(0), label="spread of the equal tokens")
    label = f"rate {rate:.4f}, from the chain alone"
    axes.plot(
        near, 0.15 * np.exp(rate * (near - time[parted])), color="black", ls="--", lw=1, label=label
    )
    axes.plot(
        time,
        sizes[:, 1] / sizes[:, 0],
        color=categorical(1),
        label="second direction over the first",
    )
    axes.set(yscale="log", ylim=(1e-5, 2), xlim=(0, 1250), xlabel="t", ylabel="size")
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing


def when_it_breaks() -> Figure:
    return _as_reproduced("when-it-breaks")


def late_snap() -> Figure:
    return draw_panels([[_rows("plain-descent")[1][0]]])


def who_gains() -> Figure:
    return _as_reproduced("who-gains")


def reparameterisation() -> Figure:
    return _as_reproduced("reparameterisation")


def four_stages() -> Figure:
    return draw_panels([[_rows("plain-descent")[1][1]]])


def positional_prior() -> Figure:
    return _as_reproduced("positional-prior")


def adam() -> Figure:
    return _as_reproduced("adam")


def joint_laws() -> Figure:
    return draw_panels([_rows("joma")[0]])


def layers_in_turn() -> Figure:
    return draw_panels([_rows("joma")[1]])


def rank_collapse_clock() -> Figure:
    """Loss of three initial scales on one clock, and the direction of W_V over time."""
    first_row = specs(experiment("escape").run().panels)[0]
    return draw_panels([[panel] for panel in first_row[:2]], WIDTH, 6.4)


def rank_collapse_opening() -> Figure:
    """How attention opens for three initial scales, and with what rank."""
    (drawn,) = specs(experiment("rank-collapse").run().panels)
    return draw_panels([[panel] for panel in drawn[:2]], WIDTH, 6.4)


def story_snapping() -> Figure:
    """Attention as it snaps, from the playground's story."""
    return still("snapping", 0.6)


def story_focus() -> Figure:
    """Attention as it focuses."""
    return still("focus", 0.48)


def story_dilution() -> Figure:
    """Attention after dilution: the diagonal has lit."""
    return still("dilution", 1.0)


def _as_reproduced(name: str) -> Figure:
    """The figure of an experiment, as `saccade reproduce` draws it."""
    return draw_panels(_rows(name))


@cache
def _rows(name: str) -> list[list[dict[str, Any]]]:
    """Its rows of panels, from one run."""
    asked = experiment(name)
    found = asked.run()
    return specs(found.panels) if isinstance(found, Result) else asked.specs(found)


FIGURES = (
    induction_heads,
    scan_and_snap_attention,
    scan_and_snap_growth,
    first_force_text,
    plain_descent,
    focus_and_dilution_cycle,
    focus_and_dilution_maps,
    focus_and_dilution_sign,
    focus_and_dilution_parting,
    when_it_breaks,
    late_snap,
    who_gains,
    reparameterisation,
    four_stages,
    positional_prior,
    adam,
    joint_laws,
    layers_in_turn,
    rank_collapse_clock,
    rank_collapse_opening,
    story_snapping,
    story_focus,
    story_dilution,
)


if __name__ == "__main__":
    for make in (make for make in FIGURES if make.__name__ in sys.argv[1:] or not sys.argv[1:]):
        with rc_context(
            {"svg.hashsalt": "saccade"}
        ):  # identifiers inside the SVG are random without it
            make().savefig(FOLDER / f"{make.__name__}.svg", metadata={"Date": None})
