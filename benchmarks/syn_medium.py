"""All 640 runs of `published-figures` from a cold process, against two opponents in PyTorch: time,
memory, exactness.

Saccade does the runs, imports included, of 1, 3 and 10 seeds: 64, 192 and 640 runs. Once as
installed, and once without its C code, as where there was no compiler. The opponents
(`opponent.py`) are a careful loop and one as the paper's public code writes it. Their times are
*scaled*: from a sample of steps for each of the four sizes, in a running process. Each is given one
thread and PyTorch's default by turns, and the faster of the two counts. All take turns, so that a
slow minute of the machine falls on all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measuring import (
    Process,
    fresh_process,
    median,
    progress,
    publish,
    publish_figure,
    seconds_of,
)

REPEATS = 3
ASKED, BAR = 150, 3.0  # times faster than the careful opponent; seconds
OPPONENTS = {"PyTorch, careful": False, "PyTorch, as published": True}
N_QUERIES, RUNS_PER_SIZE, STEPS = (1, 3, 5, 10), 160, 100
RUNS_PER_SEED, FEWER_SEEDS, ALL_SEEDS = 64, (1, 3), 10
SAMPLED_STEPS, WARM_UP_STEPS = 15, 2

_RUNS = """
from saccade.experiments import experiment
asked = experiment("published-figures")
record = asked.run(asked.settings(seeds={seeds})).record
import os
answer = sum(os.times()[:2]), record.entropy.values.ravel().tolist()
"""
_WAYS = {
    "Saccade": _RUNS,
    "Saccade without C": "from saccade.engines import descent_kernel; descent_kernel._library = lambda: None\n"
    + _RUNS,
}
_OPPONENT = "from benchmarks.syn_medium import opponent_step_seconds; answer = opponent_step_seconds({all_queries})"


def main() -> None:
    runs = _measured()
    fewer = {
        way: [fresh_process(code.format(seeds=seeds)).seconds for seeds in FEWER_SEEDS]
        for way, code in _WAYS.items()
    }
    from benchmarks.exactness import (
        errors,
        same_bits,
    )  # PyTorch, which need not be in memory before

    times = {
        name: _scaled(found) if name in OPPONENTS else [run.seconds for run in found]
        for name, found in runs.items()
    }
    note = (
        f"PyTorch: {SAMPLED_STEPS} steps of one run for each of {N_QUERIES} query tokens, {REPEATS} times, scaled to 640 runs of "
        f"{STEPS} steps, with one thread or with the default, whichever is faster. Saccade: {REPEATS} fresh processes, one "
        "without C, wall clock of the parent."
    )
    rows = [
        *_time_rows(times),
        _processor_row(runs),
        _memory_row(runs),
        *_error_rows(errors()),
        *_agreement_rows(runs, same_bits()),
    ]
    publish("syn_medium", "published-figures: 640 runs from a cold process", rows, note)
    _draw(times, fewer)


def _measured() -> dict[str, list[Process]]:
    """Fresh processes by turns."""
    codes = {
        name: _OPPONENT.format(all_queries=all_queries) for name, all_queries in OPPONENTS.items()
    }
    codes |= {way: code.format(seeds=ALL_SEEDS) for way, code in _WAYS.items()}
    found: dict[str, list[Process]] = {name: [] for name in codes}
    for turn in progress(range(REPEATS), "syn-medium, four ways"):
        for name, code in codes.items():
            if turn == 0 or name != "Saccade without C":
                found[name].append(fresh_process(code))
    return found


def opponent_step_seconds(all_queries: bool) -> list[list[float]]:
    """Seconds of a step for each number of query tokens, for one thread and for as many as PyTorch
    takes.
    """
    import torch

    return [
        [_step_seconds(n, threads, all_queries) for n in N_QUERIES]
        for threads in (1, torch.get_num_threads())
    ]


def _step_seconds(n_queries: int, threads: int, all_queries: bool) -> float:
    import torch

    from benchmarks.opponent import OneLayerTransformer, sampled_batches, train
    from saccade import SequenceClasses

    torch.set_num_threads(threads)
    task = SequenceClasses.syn_medium(n_queries)
    model = OneLayerTransformer(task.n_vocab, all_queries)
    train(model, sampled_batches(task, steps=WARM_UP_STEPS), lr_decoder=2.0, lr_attention=1.0)
    batches = sampled_batches(task, steps=SAMPLED_STEPS)
    return (
        seconds_of(lambda: train(model, batches, lr_decoder=2.0, lr_attention=1.0)) / SAMPLED_STEPS
    )


def _scaled(found: list[Process]) -> list[float]:
    """Of the faster choice of threads."""
    by_threads = zip(
        *[[STEPS * RUNS_PER_SIZE * sum(steps) for steps in run.answer] for run in found],
        strict=True,
    )
    return list(min(by_threads, key=median))


def _time_rows(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    rows = []
    for label, summary in (("median", median), ("least", min)):
        row: dict[str, Any] = {"quantity": f"640 runs, {label} (s)"} | {
            name: summary(values) for name, values in times.items()
        }
        ratios = {name: row[name] / row["Saccade"] for name in times}
        rows += [
            row | {"bar": f"{BAR:g} s"},
            {"quantity": f"times Saccade's, {label}"} | ratios | {"bar": f"{ASKED} times"},
        ]
    return rows


def _row(quantity: str, bar: str = "", **of: Any) -> dict[str, Any]:
    """A line of the table; of some ways nothing is known."""
    return (
        {"quantity": quantity}
        | {name: of.get(name, "") for name in (*OPPONENTS, *_WAYS)}
        | {"bar": bar}
    )


def _processor_row(runs: dict[str, list[Process]]) -> dict[str, Any]:
    return _row(
        "processor time (s)", **{way: median(run.answer[0] for run in runs[way]) for way in _WAYS}
    )


def _memory_row(runs: dict[str, list[Process]]) -> dict[str, Any]:
    return _row(
        "peak memory (MB)",
        **{name: median(run.peak_bytes for run in found) / 1e6 for name, found in runs.items()},
    )


def _error_rows(found: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    def row(label: str, which: str, measure: str) -> dict[str, Any]:
        ours, theirs = found[f"Saccade, {which}"][measure], found[f"PyTorch, {which}"][measure]
        return _row(label, **{"PyTorch, careful": theirs, "Saccade": ours})

    return [
        row("float32: error of attention logits", "float32", "attention_logits"),
        row("float32: error of entropy (nats)", "float32", "entropy"),
        row("float64: attention logits from PyTorch's", "float64", "attention_logits"),
    ]


def _agreement_rows(runs: dict[str, list[Process]], same: bool) -> list[dict[str, Any]]:
    ours, other = (np.array(runs[way][0].answer[1]) for way in _WAYS)
    gap = float(np.abs(ours - other).max())
    return [
        _row("entropies of the 640 runs: with C less without", "1e-5", **{"Saccade": gap}),
        _row("same bits on 1, 2 and 5 threads", "yes", **{"Saccade": "yes" if same else "no"}),
    ]


def _draw(times: dict[str, list[float]], fewer: dict[str, list[float]]) -> None:
    """Opponents train one run after the other, so theirs grow in proportion; ours have the start of
    the process to pay for.
    """
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots()
    runs = RUNS_PER_SEED * np.array([*FEWER_SEEDS, ALL_SEEDS])
    for tone, (name, values) in enumerate(times.items()):
        whole = median(values)
        if name in OPPONENTS:
            axes.plot(
                runs,
                whole * runs / runs[-1],
                "--",
                color=categorical(tone),
                label=f"{name} (in proportion)",
            )
        else:
            axes.plot(
                runs,
                [*fewer[name], whole],
                "-",
                color=categorical(tone),
                label=f"{name}, from a cold start",
            )
            axes.plot(runs[:-1], fewer[name], "o", color=categorical(tone))
        axes.plot([runs[-1]] * len(values), values, "o", color=categorical(tone))
    axes.plot(runs[-1], BAR, "_", color="black", ms=16, label=f"bar: {BAR:g} s")
    axes.plot(
        runs[-1],
        median(times["PyTorch, careful"]) / ASKED,
        "x",
        color="black",
        ms=8,
        label=f"careful PyTorch / {ASKED}",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="runs of 100 steps",
        ylabel="time (s)",
        xticks=runs,
        xticklabels=runs,
    )
    axes.minorticks_off()
    figure.legend(loc="outside right upper")
    publish_figure(figure, "syn_medium")


if __name__ == "__main__":
    main()
