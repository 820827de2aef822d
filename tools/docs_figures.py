"""The figures of the two pages on theory, from runs of Saccade: `python -m tools.docs_figures [NAME ...]`, a minute on two cores.

The same code gives the same bytes on the same machine; libraries and processors differ in last digits, so tests ask for the files
and their size, not for their bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

import saccade
from saccade.experiments import experiment
from saccade.experiments.scan_and_snap.scan_then_snap import EXPERIMENT as SCAN_THEN_SNAP
from saccade.experiments.scan_and_snap.scan_then_snap import Settings
from saccade.experiments.scan_and_snap.snap_cases import flows_of
from saccade.observe.events import find_events
from saccade.report.style import categorical, new_figure, sequential

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
WIDTH = 5.4  # inches: on a phone the letters are still 8 pixels high


def scan_and_snap_attention() -> Figure:
    """Attention of one class of Syn-Small under training with momentum, mean over ten seeds."""
    task = saccade.SequenceClasses.syn_small()
    record = saccade.train(task, steps=48, momentum=0.9, seeds=10, save=list(range(0, 49, 2)))
    attention = record.attention.isel(rate=0, missing_dims="ignore").mean("seed").isel({"class": 0})
    common = attention.isel(token=np.flatnonzero(task.common)).sum("token")
    drawing = new_figure(width=WIDTH, height=3.6)
    axes = drawing.subplots()
    axes.plot(record.time, common, color="black", lw=2, ls="--", label="10 common tokens together")
    tokens = np.flatnonzero(task.distinct[0])
    for rank, token in enumerate(tokens):  # rarest first
        label = {0: "rarest distinct token", len(tokens) - 1: "most frequent distinct token"}.get(rank)
        axes.plot(record.time, attention.isel(token=token), color=sequential(rank, len(tokens)), label=label)
    axes.set(xlabel="iteration", ylabel="attention of class 1", ylim=(0, 1), xlim=(0, 48))
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing


def scan_and_snap_growth() -> Figure:
    """Growth of the most frequent distinct token along flow (C), with the corrected theory."""
    settings = Settings(vocabularies=(), other_n_classes=(), other_common_features=())
    record = SCAN_THEN_SNAP.run(settings)
    drawing = new_figure(width=WIDTH, height=3.6)
    axes = drawing.subplots()
    for i, role in enumerate(("faster decoder", "base", "slower decoder")):
        at = flows_of(record)["rates", role]
        label = rf"flow (C), $\eta_Y$ = {at.lr_decoder:g}"
        axes.plot(at.t[::6], at.curves["log"][::6], "os^"[i], ms=3.5, color=categorical(i), label=label)
        axes.plot(at.t, at.curves["theory"], color=categorical(i), lw=1.2)
        axes.axvline(at.snap_time, color=categorical(i), ls="--", lw=1)
    axes.plot([], [], color="black", lw=1.2, label="corrected theory")
    axes.plot([], [], color="black", ls="--", lw=1, label=r"onset of snapping, $t_0$")
    axes.set(xscale="log", xlim=(0.1, None), xlabel="t (steps)", ylabel="log growth B")
    axes.set_ylim(0, None)
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing


def focus_and_dilution_cycle() -> Figure:
    """Attention on the most frequent token, and the embedding's singular values, along the flow of a Zipf chain of six tokens."""
    run = saccade.flow(saccade.MarkovChain.zipf(6, stay=0.5), t1=5000, seeds=1).isel(seed=0)
    values = saccade.measures.singular_values(run.embedding.values)
    drawing = new_figure(width=WIDTH, height=5.0)
    top, bottom = drawing.subplots(2, 1, sharex=True)
    n_queries = run.sizes["query"]
    for query in range(n_queries):  # most frequent first, and darkest
        name = {0: "most frequent query", n_queries - 1: "rarest query"}.get(query)
        color = sequential(n_queries - 1 - query, n_queries)
        top.plot(run.time, run.attention.isel(query=query, token=0), color=color, label=name)
    top.axhline(float(run.stationary[0]), color="black", lw=0.8, ls=":", label="its share of the text")
    top.set(ylabel="attention on the\nmost frequent token", ylim=(0, 1))
    drawing.legend(loc="outside lower center", ncols=3, fontsize=8)
    for rank in range(values.shape[1]):
        bottom.plot(run.time, values[:, rank], color=categorical(rank), ls=("-", "--", "-.", ":")[rank % 4])
    bottom.set(xscale="log", xlim=(1, None), xlabel="t", ylabel="singular values\nof the embedding")
    _mark_events(top, bottom, run, values)
    return drawing


def _mark_events(top: Any, bottom: Any, run: Any, values: np.ndarray) -> None:
    events = find_events(run.time, attention_on_frequent=run.attention[..., 0], embedding_singular_values=values)
    first = {name: min(one.time for one in events if one.name == name) for name in {one.name for one in events}}
    named = {"condensation": "condensed", "focus_peak": "focus", "dilution": "diluted", "new_direction": "new direction"}
    for name, label in named.items():
        for axes in (top, bottom):
            axes.axvline(first[name], color="grey", lw=0.8)
        side = "left" if name == "dilution" else "right"  # it follows the focus closely
        place = {"xy": (first[name], 0.97), "xycoords": ("data", "axes fraction"), "va": "top", "ha": side}
        bottom.annotate(f" {label} ", rotation=90, fontsize=8, **place)


def focus_and_dilution_sign() -> Figure:
    """Measured growth rate of attention, signed by the side it turns to, against the predicted c."""
    asked = experiment("focus-sign")
    rows = asked.rows(asked.run())
    drawing = new_figure(width=WIDTH, height=3.6)
    axes = drawing.subplots()
    predicted = np.array([row["c"] for row in rows])
    measured = np.array([row["rate"] * row["sign_seen"] for row in rows])
    reach = 1.1 * np.abs(predicted).max()
    axes.plot([-reach, reach], [-reach, reach], color="black", lw=0.8, label="measured = predicted")
    for i, (name, chosen) in enumerate((("turns to frequent tokens", measured > 0), ("turns away from them", measured < 0))):
        axes.plot(predicted[chosen], measured[chosen], "os"[i], color=categorical(i), ms=6, label=f"{name} ({chosen.sum()} runs)")
    axes.axhline(0, color="grey", lw=0.8)
    axes.axvline(0, color="grey", lw=0.8)
    axes.set(xlabel="predicted rate c", ylabel="measured rate,\nsigned by the side seen")
    axes.set_xscale("symlog", linthresh=1e-3)
    axes.set_yscale("symlog", linthresh=1e-3)
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing


FIGURES = (scan_and_snap_attention, scan_and_snap_growth, focus_and_dilution_cycle, focus_and_dilution_sign)


if __name__ == "__main__":
    for make in (make for make in FIGURES if make.__name__ in sys.argv[1:] or not sys.argv[1:]):
        with rc_context({"svg.hashsalt": "saccade"}):  # identifiers inside the SVG are random without it
            make().savefig(FOLDER / f"{make.__name__}.svg", metadata={"Date": None})
