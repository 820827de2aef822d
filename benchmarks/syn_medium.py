"""All 640 runs of `syn-medium-entropy` from a cold process, against two opponents in PyTorch: time, memory, exactness.

Saccade does all 640 runs, imports included. Once as installed, and once without its C code, as where there was no compiler. The
opponents (`opponent.py`) are a careful loop and one as the paper's public code writes it. Their times are *scaled*: from a sample
of steps for each of the four sizes, in a running process. Each is given one thread and PyTorch's default by turns, and the faster
of the two counts. All take turns, so that a slow minute of the machine falls on all.
"""

from __future__ import annotations

from typing import Any

from benchmarks.measuring import Process, fresh_process, median, progress, publish, publish_figure, seconds_of

REPEATS = 3
ASKED, BAR = 150, 3.0  # times faster than the careful opponent; seconds
OPPONENTS = {"PyTorch, careful": False, "PyTorch, as published": True}
N_QUERIES, RUNS_PER_SIZE, STEPS = (1, 3, 5, 10), 160, 100
SAMPLED_STEPS, WARM_UP_STEPS = 15, 2

_ALL_RUNS = """
from saccade.experiments import experiment
experiment("syn-medium-entropy").run()
import os
answer = sum(os.times()[:2])
"""
_WITHOUT_C = "from saccade.dynamics import descent_kernel; descent_kernel._library = lambda: None\n" + _ALL_RUNS
_OPPONENT = "from benchmarks.syn_medium import opponent_step_seconds; answer = opponent_step_seconds({all_queries})"


def main() -> None:
    from benchmarks.exactness import errors

    runs = _measured()
    times = {name: _scaled(found) if name in OPPONENTS else [run.seconds for run in found] for name, found in runs.items()}
    note = (
        f"PyTorch: {SAMPLED_STEPS} steps of one run for each of {N_QUERIES} query tokens, {REPEATS} times, scaled to 640 runs of "
        f"{STEPS} steps, with one thread or with the default, whichever is faster. Saccade: {REPEATS} fresh processes each, wall "
        "clock of the parent."
    )
    rows = [*_time_rows(times), _processor_row(runs), _memory_row(runs), *_error_rows(errors())]
    publish("syn_medium", "syn-medium-entropy: 640 runs from a cold process", rows, note)
    _draw(times)


def _measured() -> dict[str, list[Process]]:
    """Fresh processes by turns."""
    codes = {name: _OPPONENT.format(all_queries=all_queries) for name, all_queries in OPPONENTS.items()}
    codes |= {"Saccade": _ALL_RUNS, "Saccade without C": _WITHOUT_C}
    found: dict[str, list[Process]] = {name: [] for name in codes}
    for _ in progress(range(REPEATS), "syn-medium, four ways"):
        for name, code in codes.items():
            found[name].append(fresh_process(code))
    return found


def opponent_step_seconds(all_queries: bool) -> list[list[float]]:
    """Seconds of a step for each number of query tokens, for one thread and for as many as PyTorch takes."""
    import torch

    return [[_step_seconds(n, threads, all_queries) for n in N_QUERIES] for threads in (1, torch.get_num_threads())]


def _step_seconds(n_queries: int, threads: int, all_queries: bool) -> float:
    import torch

    from benchmarks.opponent import OneLayerTransformer, sampled_batches, train
    from saccade import SequenceClasses

    torch.set_num_threads(threads)
    task = SequenceClasses.syn_medium(n_queries)
    model = OneLayerTransformer(task.n_vocab, all_queries)
    train(model, sampled_batches(task, steps=WARM_UP_STEPS), lr_decoder=2.0, lr_attention=1.0)
    batches = sampled_batches(task, steps=SAMPLED_STEPS)
    return seconds_of(lambda: train(model, batches, lr_decoder=2.0, lr_attention=1.0)) / SAMPLED_STEPS


def _scaled(found: list[Process]) -> list[float]:
    """Of the faster choice of threads."""
    by_threads = zip(*[[STEPS * RUNS_PER_SIZE * sum(steps) for steps in run.answer] for run in found], strict=True)
    return list(min(by_threads, key=median))


def _time_rows(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    rows = []
    for label, summary in (("median", median), ("least", min)):
        row: dict[str, Any] = {"quantity": f"640 runs, {label} (s)"} | {name: summary(values) for name, values in times.items()}
        rows.append(row | {"bar": f"{BAR:g} s, {ASKED} x"})
        ratios = {name: row[name] / row["Saccade"] for name in times}
        rows.append({"quantity": f"times Saccade's, {label}"} | ratios | {"bar": ""})
    return rows


def _processor_row(runs: dict[str, list[Process]]) -> dict[str, Any]:
    of = {name: "" if name in OPPONENTS else median(run.answer for run in found) for name, found in runs.items()}
    return {"quantity": "processor time (s)"} | of | {"bar": ""}


def _memory_row(runs: dict[str, list[Process]]) -> dict[str, Any]:
    of = {name: median(run.peak_bytes for run in found) / 1e6 for name, found in runs.items()}
    return {"quantity": "peak memory (MB)"} | of | {"bar": ""}


def _error_rows(found: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    def row(label: str, which: str, measure: str) -> dict[str, Any]:
        ours, theirs = found[f"Saccade, {which}"][measure], found[f"PyTorch, {which}"][measure]
        shown = {"PyTorch, careful": theirs, "PyTorch, as published": "", "Saccade": ours, "Saccade without C": ""}
        return {"quantity": label} | shown | {"bar": ""}

    return [
        row("float32: error of attention logits", "float32", "attention_logits"),
        row("float32: error of entropy (nats)", "float32", "entropy"),
        row("float64: attention logits from PyTorch's", "float64", "attention_logits"),
    ]


def _draw(times: dict[str, list[float]]) -> None:
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    figure = Figure(figsize=(7, 2.8), layout="constrained")
    axes = figure.subplots()
    for row, (name, values) in enumerate(times.items()):
        axes.plot(values, [row] * len(values), "o", color=categorical(row), alpha=0.7, label=name)
    axes.axvline(median(times["PyTorch, careful"]) / ASKED, color="black", lw=1, label=f"careful PyTorch / {ASKED}")
    axes.axvline(BAR, color="black", ls="--", lw=1, label=f"{BAR:g} s")
    axes.set(xscale="log", xlabel="time of 640 runs (s)", yticks=range(len(times)), yticklabels=list(times), ylim=(-0.6, 3.6))
    axes.invert_yaxis()
    figure.legend(loc="outside right upper")
    publish_figure(figure, "syn_medium")


if __name__ == "__main__":
    main()
