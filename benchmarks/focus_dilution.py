"""The population flow of Focus and Dilution: six tokens to t = 5000, ten seeds of it, and how time
grows with the vocabulary.

The opponent is what one writes first: the closed-form gradient in NumPy, SciPy's LSODA with the
same tolerances and no Jacobian.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

from benchmarks.measuring import fresh_process, progress, publish, publish_figure, seconds_of

T_END = 5000.0
RTOL, ATOL = 1e-10, 1e-12
TOKENS = (4, 8, 16, 32, 64)
BARS = {"one seed": 0.8, "ten seeds": 5.0, 64: 15.0}  # s, in a running process
DRIFT_BAR = 1e-8


def main() -> None:
    process = fresh_process("from benchmarks.focus_dilution import timed; answer = timed()")
    one, without, ten, drift, plain, plain_drift, gap = process.answer
    rows = [
        {
            "what": "one seed",
            "saccade (s)": one,
            "without C (s)": without,
            "bar (s)": BARS["one seed"],
            "plain SciPy and NumPy (s)": plain,
            "ratio": plain / one,
        },
        {"what": "ten seeds", "saccade (s)": ten, "bar (s)": BARS["ten seeds"]},
    ]
    note = f"embeddings of ours and of the plain one differ by at most {gap:.1e}"
    publish("focus_dilution", "zipf(6) to t = 5000, in a running process", rows, note)
    rows = [_row(n) for n in progress(TOKENS, "flow by tokens")]
    publish("focus_dilution_tokens", "zipf(n) to t = 5000 by tokens, width 8", rows)
    _draw(rows)
    largest = max(drift, *(row["drift of invariants"] for row in rows))
    rows = [{"drift": largest, "plain SciPy and NumPy": plain_drift, "bar": DRIFT_BAR}]
    publish(
        "focus_dilution_invariants",
        f"largest change of an invariant, {min(TOKENS)} to {max(TOKENS)} tokens",
        rows,
    )


def timed() -> tuple[float, ...]:
    """Seconds of one seed, with C and without, and of ten, largest drift of an invariant, and the
    same of the opponent with its distance to us.
    """
    import saccade
    from saccade.models import flow_kernel
    from saccade.models.embedded import weights_of

    chain = saccade.MarkovChain.zipf(6, stay=0.5)
    saccade.flow(chain, t1=10.0)
    records: list[Any] = []
    one = seconds_of(lambda: records.append(saccade.flow(chain, t1=T_END)))
    ten = seconds_of(lambda: saccade.flow(chain, t1=T_END, seeds=10))
    with mock.patch.object(
        flow_kernel, "_library", return_value=None
    ):  # as where there was no compiler
        saccade.flow(chain, t1=10.0)
        without = seconds_of(lambda: saccade.flow(chain, t1=T_END))
    weights = weights_of(records[0].isel(seed=0))
    paths: list[Any] = []
    plain = seconds_of(
        lambda: paths.append(
            _plain_flow(chain, [part[0] for part in weights], records[0].time.values)
        )
    )
    gap = np.abs(paths[0][0] - weights.embedding).max()
    return one, without, ten, _drift(weights), plain, _drift(type(weights)(*paths[0])), float(gap)


def _drift(weights: Any) -> float:
    from saccade.models.embedded import invariants

    return max(float(np.abs(matrix - matrix[0]).max()) for matrix in invariants(weights))


def _plain_flow(chain: Any, start: list[np.ndarray], times: np.ndarray) -> list[np.ndarray]:
    """The four matrices at `times`."""
    from scipy.integrate import solve_ivp

    pi, P = chain.stationary, chain.transition
    shapes = [matrix.shape for matrix in start]
    ends = np.cumsum([matrix.size for matrix in start])

    def unpacked(y: np.ndarray) -> list[np.ndarray]:
        return [
            part.reshape(*y.shape[1:], *shape)
            for part, shape in zip(np.split(y, ends[:-1]), shapes, strict=True)
        ]

    def downhill(t: float, y: np.ndarray) -> np.ndarray:
        embedding, query, key, projection = unpacked(y)
        score = pi * np.exp(embedding @ query @ key.T @ embedding.T)
        attention = score / score.sum(axis=1, keepdims=True)
        decoder = embedding @ projection
        odds = np.exp(attention @ decoder)
        error = pi[:, None] * (odds / odds.sum(axis=1, keepdims=True) - P)
        d_decoder = attention.T @ error
        d_attention = error @ decoder.T
        d_score = attention * (d_attention - (attention * d_attention).sum(axis=1, keepdims=True))
        to_query, to_key = d_score @ embedding @ key, d_score.T @ embedding @ query
        slopes = (
            d_decoder @ projection.T + to_query @ query.T + to_key @ key.T,
            embedding.T @ to_query,
            embedding.T @ to_key,
            embedding.T @ d_decoder,
        )
        return -np.concatenate([slope.ravel() for slope in slopes])

    y0 = np.concatenate([matrix.ravel() for matrix in start])
    solved = solve_ivp(
        downhill, (0.0, times[-1]), y0, method="LSODA", t_eval=times, rtol=RTOL, atol=ATOL
    )
    return [
        part.reshape(-1, *shape)
        for part, shape in zip(np.split(solved.y.T, ends[:-1], axis=1), shapes, strict=True)
    ]


def _row(n_tokens: int) -> dict[str, Any]:
    process = fresh_process(
        f"from benchmarks.focus_dilution import follow; answer = follow({n_tokens})"
    )
    seconds, unknowns, evaluations, drift = process.answer
    return {
        "tokens": n_tokens,
        "unknowns": unknowns,
        "evaluations": evaluations,
        "running (s)": seconds,
        "cold (s)": process.seconds,
        "bar (s)": BARS.get(n_tokens, ""),
        "drift of invariants": drift,
    }


def follow(n_tokens: int) -> tuple[float, int, int, float]:
    """Seconds of a flow in a running process, its unknowns, its evaluations of the velocity and the
    drift of its invariants.
    """
    import json

    import saccade
    from saccade.models.embedded import weights_of

    chain = saccade.MarkovChain.zipf(n_tokens, stay=0.5)
    saccade.flow(chain, t1=1.0, n_times=100)
    records: list[Any] = []
    seconds = seconds_of(lambda: records.append(saccade.flow(chain, t1=T_END, n_times=100)))
    solver = json.loads(records[0].attrs["config"])["solver"]
    return (
        seconds,
        solver["n_unknowns"],
        solver["n_evaluations"],
        _drift(weights_of(records[0].isel(seed=0))),
    )


def _draw(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    tokens = np.array([row["tokens"] for row in rows])
    for i, (quantity, label) in enumerate(
        {"running (s)": "in a running process", "cold (s)": "from a cold start"}.items()
    ):
        axes.plot(tokens, [row[quantity] for row in rows], "o-", color=categorical(i), label=label)
    work = np.array([row["evaluations"] * row["tokens"] ** 2 for row in rows], dtype=float)
    axes.plot(
        tokens,
        rows[-1]["running (s)"] * work / work[-1],
        ls="--",
        color="black",
        lw=1,
        label="evaluations x tokens$^2$",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="tokens",
        ylabel="time to t = 5000 (s)",
        xticks=tokens,
        xticklabels=tokens,
    )
    axes.minorticks_off()
    axes.legend()
    publish_figure(figure, "focus_dilution_tokens")


if __name__ == "__main__":
    main()
