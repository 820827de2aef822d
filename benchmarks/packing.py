"""How many runs should share a pack: time of syn-medium training by runs per pack. Where
`_BYTES_PER_PACK` comes from.

A pack's decoder blocks should stay in a core's second-level cache; more runs in a pack save
overhead until they do not fit. Two seeds with the 16 pairs of rates: 32 runs for each number of
query tokens, compiled beforehand.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

from benchmarks.measuring import interleaved, median, publish, publish_figure

REPEATS = 2
RUNS_PER_PACK = (1, 2, 4, 8, 16)
N_QUERIES = (1, 10)
SEEDS = 2


def main() -> None:
    jobs = {
        (n, runs): lambda n=n, runs=runs: _train(n, runs)
        for n in N_QUERIES
        for runs in RUNS_PER_PACK
    }
    times = interleaved(jobs, REPEATS, "runs per pack")
    rows = [_row(n, runs, seconds) for (n, runs), seconds in times.items()]
    publish(
        "packing",
        "syn-medium: time of a run by runs per pack",
        rows,
        f"medians of {REPEATS}, by turns; *: Saccade's choice",
    )
    _draw(rows)


def _train(n_queries: int, runs_per_pack: int) -> None:
    from saccade.engines import descent_scan

    with mock.patch.object(descent_scan, "_runs_per_pack", return_value=runs_per_pack):
        train_grid(n_queries)


def train_grid(n_queries: int) -> None:
    """The 16 pairs of rates of `published-figures`, with two seeds."""
    from saccade import SequenceClasses, train
    from saccade.engines import descent_kernel
    from saccade.models import Pairwise

    lr_attention, ratio = (
        grid.ravel() for grid in np.meshgrid([0.5, 1.0, 2.0, 3.0], [1.0, 2.0, 5.0, 10.0])
    )
    rates = {"lr_decoder": lr_attention * ratio, "lr_attention": lr_attention}
    task, model = SequenceClasses.syn_medium(n_queries), Pairwise(init="uniform")
    with mock.patch.object(
        descent_kernel, "_library", return_value=None
    ):  # it has no packs and compiles nothing
        train(task, **rates, steps=100, momentum=0.9, seeds=SEEDS, save=[100], model=model)


def _row(n_queries: int, runs_per_pack: int, seconds: list[float]) -> dict[str, Any]:
    from saccade import SequenceClasses
    from saccade.engines import descent_scan
    from saccade.models import Pairwise

    blocks = Pairwise(init="uniform").blocks(SequenceClasses.syn_medium(n_queries))
    return {
        "query tokens": n_queries,
        "runs per pack": runs_per_pack,
        "decoder blocks (kB)": 4
        * blocks.token_prob.size
        * len(blocks.columns)
        * runs_per_pack
        / 1e3,
        "time of a run (ms)": 1e3 * median(seconds) / (16 * SEEDS),
        "chosen": "*"
        if runs_per_pack == 2 ** int(np.log2(descent_scan._runs_per_pack(blocks)))
        else "",
    }


def _draw(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    from saccade.engines import descent_scan
    from saccade.report.style import sequential

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for i, n in enumerate(N_QUERIES):
        mine = [row for row in rows if row["query tokens"] == n]
        x, y = (
            [row[name] for row in mine] for name in ("decoder blocks (kB)", "time of a run (ms)")
        )
        axes.plot(
            x,
            y,
            "o:",
            color=sequential(i, len(N_QUERIES)),
            label=f"{n} quer{'y' if n == 1 else 'ies'}",
        )
    axes.axvline(
        descent_scan._BYTES_PER_PACK / 1e3,
        color="black",
        ls="--",
        lw=1,
        label="chosen: _BYTES_PER_PACK",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="decoder blocks of a pack (kB)",
        ylabel="time of a run of 100 steps (ms)",
    )
    figure.legend(loc="outside right upper")
    publish_figure(figure, "packing")


if __name__ == "__main__":
    main()
