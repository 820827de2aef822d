"""Time of a training step and peak memory against vocabulary and classes, to 100,000 tokens and
1,000 classes.

Every token but queries and next tokens occurs in contexts: ten are common, the rest is split among
the classes, two classes to a query. From a zero start a decoder row has a column for each class and
one for all other tokens, so a step touches about tokens x (classes + 1) parameters; drawing its
batch takes a count for each context and token of its class, 128 x tokens / classes in all. These
are the theory's lines, through the corner and through 10 classes. Each point has its own process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measuring import (
    GIGABYTE,
    fresh_process,
    progress,
    publish,
    publish_figure,
    seconds_of,
)

BAR = 4.0  # GB
N_COMMON = 10
VOCABULARIES = [(n_vocab, 10) for n_vocab in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)]
CLASSES = [
    (100_000, n_classes) for n_classes in (10, 30, 100, 300, 1_000)
]  # the last one is the corner of both
_TOUCHED = 5e7  # parameters updated in the measured call: the steps are chosen for it


def main() -> None:
    points = list(dict.fromkeys(VOCABULARIES + CLASSES))
    found = {(m, k): _measured(m, k) for m, k in progress(points, "vocabulary and classes")}
    note = "batch 128, 127 context tokens, momentum 0.9, zero start, float32; after compilation, drawing of batches included"
    publish("growth", "cost of a step by vocabulary and classes", list(found.values()), note)
    _draw(found)


def _measured(n_vocab: int, n_classes: int) -> dict[str, Any]:
    process = fresh_process(
        f"from benchmarks.growth import step_seconds; answer = step_seconds({n_vocab}, {n_classes})"
    )
    return {
        "tokens": n_vocab,
        "classes": n_classes,
        "parameters": n_vocab * (n_classes + 1),
        "time of a step (s)": process.answer,
        "peak memory (GB)": process.peak_bytes / GIGABYTE,
        "bar (GB)": BAR,
    }


def step_seconds(n_vocab: int, n_classes: int) -> float:
    from saccade import train

    task = _task(n_vocab, n_classes)
    steps = int(np.clip(_TOUCHED / (n_vocab * (n_classes + 1)), 5, 400))

    def run() -> None:
        train(task, steps=steps, momentum=0.9, save=[steps], keep=())

    run()  # compiles
    return seconds_of(run) / (steps + 1)  # the last batch is looked at, too


def _task(n_vocab: int, n_classes: int) -> Any:
    from saccade import SequenceClasses

    n_queries = n_classes // 2
    n_context_tokens = n_vocab - n_queries - n_classes
    weight = np.zeros((n_classes, n_context_tokens))
    weight[:, :N_COMMON] = 1.0
    for n, tokens in enumerate(np.array_split(np.arange(N_COMMON, n_context_tokens), n_classes)):
        weight[n, tokens] = np.linspace(0.1, 1.0, len(tokens))
    query = n_context_tokens + np.arange(n_classes) // 2
    next_token = n_context_tokens + n_queries + np.arange(n_classes)
    return SequenceClasses(weight, query=query, next_token=next_token, normalise=True)


def _draw(found: dict[tuple[int, int], dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7.5), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", sharey="row")
    for column, (points, axis) in enumerate([(VOCABULARIES, "tokens"), (CLASSES, "classes")]):
        rows = [found[point] for point in points]
        _draw_time(panels[0, column], rows, axis, found)
        _draw_memory(panels[1, column], rows, axis, found)
    panels[0, 0].set(title="10 classes", ylabel="time of a step (s)")
    panels[0, 1].set(title="100,000 tokens")
    panels[1, 0].set(xlabel="vocabulary (tokens)", ylabel="peak memory (GB)")
    panels[1, 1].set(xlabel="classes")
    for line, quantity in zip(panels, ("time of a step (s)", "peak memory (GB)"), strict=True):
        values = [row[quantity] for row in found.values()]
        line[0].set(yscale="log", ylim=(0.5 * min(values), 3 * max(values)))
    panels[0, 0].legend(loc="upper left")
    panels[1, 0].legend(loc="lower right")
    publish_figure(figure, "growth")


def _draw_time(
    axes: Any, rows: list[dict[str, Any]], axis: str, found: dict[tuple[int, int], dict[str, Any]]
) -> None:
    """A step updates all parameters, and draws a count for each context and each token of its
    class.
    """
    from saccade.report.style import categorical

    x, parameters, tokens, classes = (
        np.array([row[name] for row in rows]) for name in (axis, "parameters", "tokens", "classes")
    )
    drawing, corner = found[CLASSES[0]], found[CLASSES[-1]]
    line = corner["time of a step (s)"] * parameters / corner["parameters"]
    axes.plot(x, line, color=categorical(1), label="theory: as parameters, tokens x classes")
    per_class = drawing["tokens"] / drawing["classes"]
    line = drawing["time of a step (s)"] * tokens / classes / per_class
    axes.plot(x, line, color=categorical(2), label="theory: as counts drawn, tokens / classes")
    axes.plot(
        x, [row["time of a step (s)"] for row in rows], "o", color=categorical(0), label="measured"
    )
    axes.set(xscale="log")


def _draw_memory(
    axes: Any, rows: list[dict[str, Any]], axis: str, found: dict[tuple[int, int], dict[str, Any]]
) -> None:
    from saccade.report.style import categorical

    x, parameters = (np.array([row[name] for row in rows]) for name in (axis, "parameters"))
    corner = found[CLASSES[-1]]
    line = corner["peak memory (GB)"] * parameters / corner["parameters"]
    axes.plot(x, line, color=categorical(1), ls=":", label="theory: as parameters")
    axes.plot(
        x, [row["peak memory (GB)"] for row in rows], "s", color=categorical(0), label="measured"
    )
    axes.axhline(BAR, color="black", ls="--", lw=1, label=f"bar: {BAR:g} GB")


if __name__ == "__main__":
    main()
