"""All 640 runs of `syn-medium-entropy` from a cold process, against the plain PyTorch way: time, memory, exactness.

Saccade does all 640 runs, imports and compilation included. The opponent's time is *scaled*: on a sample of its steps for each
of the four sizes, in a running process. It is given one thread and PyTorch's default by turns, and the faster of the two counts.
Both sides take turns too, so that a slow minute of the machine falls on both.
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.measuring import Process, fresh_process, median, progress, publish, publish_figure, seconds_of

REPEATS = 3
ASKED, AIM = 150, 500  # times faster than the opponent
N_QUERIES, RUNS_PER_SIZE, STEPS = (1, 3, 5, 10), 160, 100
SAMPLED_STEPS, WARM_UP_STEPS = 15, 2

_ALL_RUNS = """
from saccade.experiments import experiment
module = experiment("syn-medium-entropy")
module.run(module.Config())
"""
_OPPONENT = "from benchmarks.syn_medium import opponent_step_seconds; answer = opponent_step_seconds()"


def main() -> None:
    from benchmarks.exactness import errors

    opponent, cold, cached = _measured()
    scaled = {name: _scaled(opponent, name) for name in ("one thread", "default threads")}
    faster = min(scaled, key=lambda name: median(scaled[name]))
    times = {"PyTorch": scaled[faster], "Saccade, cold": _seconds(cold), "Saccade, cached": _seconds(cached)}
    peaks = {name: median(run.peak_bytes for run in runs) for name, runs in zip(times, (opponent, cold, cached), strict=True)}
    note = (
        f"PyTorch: {SAMPLED_STEPS} steps of one run for each of {N_QUERIES} query tokens, {REPEATS} times, scaled to 640 runs of "
        f"{STEPS} steps; {faster} was the faster choice. Saccade: {REPEATS} fresh processes each, wall clock of the parent; "
        "cached: with JAX's compilation cache on disk."
    )
    rows = [*_time_rows(times), _memory_row(peaks), *_error_rows(errors())]
    publish("syn_medium", "syn-medium-entropy: 640 runs from a cold process", rows, note)
    _draw(times)


def _measured() -> tuple[list[Process], list[Process], list[Process]]:
    """Fresh processes by turns: the opponent's sample, Saccade without and with a filled compilation cache."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        fresh_process(_ALL_RUNS, **cache)
        turns = [
            (fresh_process(_OPPONENT), fresh_process(_ALL_RUNS), fresh_process(_ALL_RUNS, **cache))
            for _ in progress(range(REPEATS), "syn-medium, both ways")
        ]
    opponent, cold, cached = (list(runs) for runs in zip(*turns, strict=True))
    return opponent, cold, cached


def opponent_step_seconds() -> dict[str, list[float]]:
    """Seconds of a step for each number of query tokens, for both choices of threads."""
    import torch

    default = torch.get_num_threads()
    return {
        name: [_step_seconds(n, threads) for n in N_QUERIES] for name, threads in (("one thread", 1), ("default threads", default))
    }


def _step_seconds(n_queries: int, threads: int) -> float:
    import torch

    from benchmarks.opponent import OneLayerTransformer, sampled_batches, train
    from saccade import SequenceClasses

    torch.set_num_threads(threads)
    task = SequenceClasses.syn_medium(n_queries)
    model = OneLayerTransformer(task.n_vocab)
    train(model, sampled_batches(task, steps=WARM_UP_STEPS), lr_decoder=2.0, lr_attention=1.0)
    batches = sampled_batches(task, steps=SAMPLED_STEPS)
    return seconds_of(lambda: train(model, batches, lr_decoder=2.0, lr_attention=1.0)) / SAMPLED_STEPS


def _scaled(opponent: list[Process], threads: str) -> list[float]:
    return [STEPS * RUNS_PER_SIZE * sum(run.answer[threads]) for run in opponent]


def _seconds(runs: list[Process]) -> list[float]:
    return [run.seconds for run in runs]


def _time_rows(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    rows = []
    for label, summary in (("median", median), ("least", min)):
        row: dict[str, Any] = {"quantity": f"640 runs, {label} (s)"} | {name: summary(values) for name, values in times.items()}
        rows.append(row | {"ratio, cold": row["PyTorch"] / row["Saccade, cold"], "asked": f"{ASKED} x, aim {AIM} x"})
    return rows


def _memory_row(peaks: dict[str, float]) -> dict[str, Any]:
    in_megabytes = {name: peak / 1e6 for name, peak in peaks.items()}
    ratio = peaks["PyTorch"] / peaks["Saccade, cold"]
    return {"quantity": "peak memory (MB)"} | in_megabytes | {"ratio, cold": ratio, "asked": ""}


def _error_rows(found: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    def row(label: str, which: str, measure: str) -> dict[str, Any]:
        ours, theirs = found[f"Saccade, {which}"][measure], found[f"PyTorch, {which}"][measure]
        ratio = theirs / ours if theirs else ""
        return {
            "quantity": label,
            "PyTorch": theirs,
            "Saccade, cold": ours,
            "Saccade, cached": "",
            "ratio, cold": ratio,
            "asked": "",
        }

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
    for factor, style in ((ASKED, "-"), (AIM, "--")):
        axes.axvline(median(times["PyTorch"]) / factor, color="black", ls=style, lw=1, label=f"PyTorch / {factor}")
    axes.set(xscale="log", xlabel="time of 640 runs (s)", yticks=range(len(times)), yticklabels=list(times), ylim=(-0.6, 2.6))
    axes.invert_yaxis()
    figure.legend(loc="outside right upper")
    publish_figure(figure, "syn_medium")


if __name__ == "__main__":
    main()
