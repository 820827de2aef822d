"""The gradient flow to t = 1e12: 10 classes in a vocabulary of 1,000, and how time grows with
classes.

Two tasks of 1,000 tokens: `few`, 10 distinct tokens a class and the rest of the vocabulary never in
a context; `all`, every token but queries and next tokens in contexts. Each is a process of its own:
its time from start to exit less one flow, and of a second flow of the same task, which finds
everything compiled.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.measuring import fresh_process, progress, publish, publish_figure, seconds_of

BAR = 10.0  # s
T_END = 1e12
N_VOCAB, N_COMMON = 1000, 10
CLASSES = (2, 5, 10, 20, 50)
DYNAMICS = ("flow", "reduced_flow")


def main() -> None:
    few = [
        _row(name, "few", n_classes)
        for n_classes in progress(CLASSES, "flow by classes")
        for name in DYNAMICS
    ]
    publish("flow_classes", "gradient flow to t = 1e12 by classes, 10 distinct tokens a class", few)
    _draw(few)
    rows = [row for row in few if row["classes"] == 10] + [
        _row(name, "all", 10) for name in DYNAMICS
    ]
    for row in rows:
        row["bar (s)"] = BAR if row["dynamics"] == "flow" else ""
    note = "cold: a process with imports and compilation"
    publish("flow_time", "gradient flow to t = 1e12, 10 classes, 1,000 tokens", rows, note)


def _row(dynamics: str, contexts: str, n_classes: int) -> dict[str, Any]:
    call = f"follow({dynamics!r}, {contexts!r}, {n_classes})"
    process = fresh_process(f"from benchmarks.flow_time import follow; answer = {call}")
    settings, again = process.answer
    return {
        "dynamics": dynamics,
        "tokens in contexts": contexts,
        "classes": n_classes,
        "unknowns": settings["n_unknowns"],
        "solver": settings["method"],
        "evaluations": settings["n_evaluations"],
        "cold (s)": process.seconds - again,
        "compiled (s)": again,
    }


def follow(dynamics: str, contexts: str, n_classes: int) -> tuple[dict[str, Any], float]:
    """The solver's account of the flow, and the seconds of a second one."""
    import saccade

    task = _task(
        n_classes,
        n_distinct=10 if contexts == "few" else (N_VOCAB - N_COMMON - 2 * n_classes) // n_classes,
    )
    record = getattr(saccade, dynamics)(task, t1=T_END)
    if record.stop_reason != "finished":
        raise RuntimeError(
            f"{dynamics} with {n_classes} classes: {record.stop_reason.item()} at t = {record.stop_time.item():g}"
        )
    return json.loads(record.attrs["config"])["solver"], seconds_of(
        lambda: getattr(saccade, dynamics)(task, t1=T_END)
    )


def _task(n_classes: int, n_distinct: int) -> Any:
    """Each class has its own query; the vocabulary is 1,000 tokens, or as many as the classes need."""
    from saccade import SequenceClasses

    n_context_tokens = N_COMMON + n_classes * n_distinct
    weight = np.zeros((n_classes, n_context_tokens))
    weight[:, :N_COMMON] = 1.0
    for n in range(n_classes):
        weight[n, N_COMMON + n * n_distinct :][:n_distinct] = np.linspace(0.1, 1.0, n_distinct)
    query, next_token = (
        n_context_tokens + np.arange(n_classes),
        n_context_tokens + n_classes + np.arange(n_classes),
    )
    n_vocab = max(N_VOCAB, n_context_tokens + 2 * n_classes)
    return SequenceClasses(
        weight, query=query, next_token=next_token, n_vocab=n_vocab, normalise=True
    )


def _draw(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    figure = Figure(figsize=(6, 5.4), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(DYNAMICS):
        mine = [row for row in rows if row["dynamics"] == name]
        for quantity, fill in (("cold (s)", "none"), ("compiled (s)", categorical(i))):
            seconds = [row[quantity] for row in mine]
            axes.plot(
                CLASSES,
                seconds,
                "o",
                color=categorical(i),
                mfc=fill,
                label=f"{name}, {quantity.split()[0]}",
            )
    whole = [row for row in rows if row["dynamics"] == "flow"]
    work = np.array([row["unknowns"] * row["evaluations"] for row in whole])
    line = whole[-1]["compiled (s)"] * work / work[-1]
    axes.plot(CLASSES, line, color=categorical(0), label="flow, theory: unknowns x evaluations")
    axes.axhline(BAR, color="black", ls="--", lw=1, label=f"bar for 10 classes: {BAR:g} s")
    low = 0.5 * min(row["compiled (s)"] for row in rows)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="classes",
        ylabel="time to t = 1e12 (s)",
        ylim=(low, None),
    )
    axes.set(xticks=CLASSES, xticklabels=CLASSES)
    axes.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2)
    publish_figure(figure, "flow_classes")


if __name__ == "__main__":
    main()
