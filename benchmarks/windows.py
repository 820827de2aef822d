"""A step of noise-free training on a text: how its time grows with windows and tokens, and against
plain NumPy.

The work of a step is windows x distinct tokens of a window x vocabulary. Each setting is measured
in processor time, which other processes disturb less, and in wall time; beside it a plain version
with dense products, windows x vocabulary x vocabulary.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from benchmarks.measuring import progress, publish, publish_figure

BAR = 0.060  # s, 40,000 windows of 16 tokens, 500 words, two cores
SIZES = [
    (n_windows, n_context) for n_context in (4, 16, 48) for n_windows in (2_500, 10_000, 40_000)
]
REPEATS, PLAIN_REPEATS = 15, 3
N_VOCAB = 500
TEXT = "wikitext-2" if os.environ.get("SACCADE_DATA") else "sotu"


def main() -> None:
    rows = [_measured(*size) for size in progress(SIZES, "windows")]
    publish(
        "windows",
        "a step of training on all windows of a text",
        rows,
        f"{TEXT}, {N_VOCAB} words, float32, least of {REPEATS}",
    )
    _draw(rows)


def _measured(n_windows: int, n_context: int) -> dict[str, Any]:
    import saccade
    from saccade.models.pairwise_text import TextParameters

    windows = saccade.corpus(TEXT, n_vocab=N_VOCAB).windows(n_context, n_windows=n_windows)
    model = saccade.models.PairwiseText(windows)
    point = TextParameters(
        *(0.1 * np.random.default_rng(0).standard_normal((2, windows.n_vocab, windows.n_vocab)))
    )
    model.one_pass(point, "float32")  # lays the windows out
    wall, processor = _least(lambda: model.one_pass(point, "float32"), REPEATS)
    plain = (
        _least(lambda: plain_pass(windows, *point), PLAIN_REPEATS)[1]
        if (n_windows, n_context) == (40_000, 16)
        else ""
    )
    return {
        "windows": n_windows,
        "tokens before the query": n_context,
        "distinct tokens": windows.counts.nnz,
        "step (s)": wall,
        "processor time (s)": processor,
        "plain NumPy, processor time (s)": plain,
        "bar (s)": BAR,
    }


def plain_pass(windows: Any, Y: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same gradient with dense products, some windows at a time."""
    Y, Y_dot, Z_dot = Y.astype(np.float32), np.zeros_like(Y), np.zeros_like(Z)
    for start in range(0, len(windows.query), 4096):
        own = slice(start, start + 4096)
        query, following, counts = (
            windows.query[own],
            windows.next_token[own],
            windows.counts[own].toarray().astype(np.float32),
        )
        raw = counts * np.exp(Z[query]).astype(np.float32)
        f = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        logits = f @ Y
        error = np.exp(logits - logits.max(axis=1, keepdims=True))
        error /= -error.sum(axis=1, keepdims=True)
        error[np.arange(len(query)), following] += 1
        g = error @ Y.T
        Y_dot += f.T @ error
        np.add.at(Z_dot, query, f * (g - f * np.sum(f * g, axis=1, keepdims=True)))
    return Y_dot / len(windows.query), Z_dot / len(windows.query)


def _least(work: Any, repeats: int) -> tuple[float, float]:
    """Seconds by the clock and of processors, the least of some repetitions."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    wall, processor = np.min(found, axis=0)
    return float(wall), float(processor)


def _draw(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for tone, n_context in enumerate(dict.fromkeys(row["tokens before the query"] for row in rows)):
        own = [row for row in rows if row["tokens before the query"] == n_context]
        x, y = ([row[name] for row in own] for name in ("distinct tokens", "processor time (s)"))
        axes.plot(x, y, "o", color=categorical(tone), label=f"{n_context} tokens before the query")
    last = max(rows, key=lambda row: row["distinct tokens"])
    ends = np.array([min(row["distinct tokens"] for row in rows), last["distinct tokens"]])
    axes.plot(
        ends,
        last["processor time (s)"] * ends / ends[-1],
        color="black",
        lw=1,
        label="in proportion",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="windows x distinct tokens of a window",
        ylabel="processor time of a step (s)",
    )
    axes.legend()
    publish_figure(figure, "windows")


if __name__ == "__main__":
    main()
