"""Compile time and run time of the training scan by XLA's options: where the options in
`_compiled_scan` come from.

Two seeds with the 16 pairs of rates for each number of query tokens. Each compilation is of a scan
never seen before, in one process; times are of the processor, all threads together, because both
cores are busy in the 640 runs.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

from benchmarks.measuring import progress, publish, publish_figure
from benchmarks.packing import N_QUERIES, SEEDS, train_grid

RUNS = 16 * SEEDS
OPTIONS = {
    "none": {},
    "older fusion emitters": {"xla_cpu_use_fusion_emitters": False},
    "optimisation level 1": {"xla_backend_optimization_level": 1},
    "both": {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1},
}


def main() -> None:
    cases = [(name, n) for name in OPTIONS for n in N_QUERIES]
    rows = [_row(*case, *_cpu_seconds(*case)) for case in progress(cases, "compiler options")]
    rows += [_total(name, rows) for name in OPTIONS]
    publish(
        "compilation",
        "syn-medium: compile and run by compiler options",
        rows,
        "processor time; single-threaded kernels",
    )
    _draw(rows)


def _cpu_seconds(name: str, n_queries: int) -> tuple[float, float]:
    """Of compiling, and of 32 runs."""
    import jax

    from saccade.engines import descent_scan

    options = {"xla_cpu_multi_thread_eigen": False} | OPTIONS[name]
    scan = jax.jit(
        descent_scan._scan,
        static_argnames=("model", "optimiser", "one_stream", "population_only"),
        compiler_options=options,
    )
    with mock.patch.object(descent_scan, "_compiled_scan", return_value=scan):
        jax.clear_caches()
        started = time.process_time()
        train_grid(n_queries)
        compiled = time.process_time()
        train_grid(n_queries)
        run = time.process_time() - compiled
    return compiled - started - run, run


def _row(name: str, n_queries: int, compiling: float, running: float) -> dict[str, Any]:
    return {
        "options": name,
        "query tokens": n_queries,
        "compile (CPU s)": compiling,
        "run, 160 runs (CPU s)": running * 160 / RUNS,
        "both (CPU s)": compiling + running * 160 / RUNS,
    }


def _total(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    mine = [row for row in rows if row["options"] == name]
    sums = {
        quantity: sum(row[quantity] for row in mine)
        for quantity in mine[0]
        if quantity.endswith("(CPU s)")
    }
    return {"options": name, "query tokens": "all"} | sums


def _draw(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(OPTIONS):
        mine = [row for row in rows if row["options"] == name and row["query tokens"] != "all"]
        x, y = (
            [row[quantity] for row in mine]
            for quantity in ("compile (CPU s)", "run, 160 runs (CPU s)")
        )
        axes.plot(x, y, "o", color=categorical(i), label=name)
        if i == 0:
            for row, a, b in zip(mine, x, y, strict=True):
                axes.annotate(
                    f"query tokens: {row['query tokens']}",
                    (a, b),
                    xytext=(6, 6),
                    textcoords="offset points",
                    fontsize=8,
                )
    axes.set(xlabel="compiling (CPU s)", ylabel="160 runs (CPU s)", xlim=(0, None), ylim=(0, None))
    figure.legend(loc="outside right upper")
    publish_figure(figure, "compilation")


if __name__ == "__main__":
    main()
