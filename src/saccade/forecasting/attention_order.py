r"""The Scan-and-Snap side of a forecast: which tokens gain attention, which lose it, in what order
and by when.

The path is the population flow of the pairwise model on the classes, at the rates given: plain
gradient descent without its noise. [tian2023] proves signs and order under assumptions that real
data rarely meet; the flow needs none of them but the class model itself. The times of scanning and
snapping are closed forms, in the time of each query's own draws: a class that comes every 1/P(n)
steps has $t_0' = \ln M / (\eta_Y P(n))$ and $t_0 = 2(1+\omega_1)\,t_0'$ [tian2023, Lemma 9, with
1/P(n) for K].

A token is *distinct* for a query if one of the query's classes alone shows it, as in the paper. A
query with a single class is compared with all other classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade import runs as laboratory
from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError
from saccade.measures import class_attention
from saccade.measures.fits import half_way_time
from saccade.theories import scan_and_snap as theory

Array = NDArray[np.float64]
# Times the middle one of the queries' snaps: by then attention has made most of its way, and goes
# on as ln ln t. In text, where classes differ little, the flow becomes stiff as it goes on and
# costs as much as the steps it stands for; so not the latest snap.
_BEYOND = 2.0
_N_TIMES = 120
_TIE = 1e-9  # probabilities read from a file count as equal
# Of P(token | class). The flow holds about ten arrays of this size, 1 GB in all, and takes minutes.
_MOST_ENTRIES = 10_000_000
_LEAST_VOCABULARY = 4  # below it the exponent of the late regime does not exist


class Clock(NamedTuple):
    """Closed-form times of each query (query), in steps."""

    scan: Array
    snap: Array


def attention_order(
    classes: SequenceClasses,
    *,
    lr_decoder: float,
    lr_attention: float,
    steps: float | None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> dict[str, Any]:
    """Variables of the record."""
    n_entries = classes.token_prob.size
    if n_entries > _MOST_ENTRIES:
        raise InputError(
            f"{classes.n_classes:,} classes over {classes.n_vocab:,} tokens are too many for a "
            f"forecast: their table of {n_entries:,} probabilities takes {n_entries * 8e-9:.1f} GB, "
            f"and at most {_MOST_ENTRIES:,} are possible. Each class adds the token it predicts to "
            "the vocabulary, so leave out or join rare classes."
        )
    times = clock(classes, lr_decoder=lr_decoder)
    horizon = float(_BEYOND * np.median(times.snap) if steps is None else steps)
    path = laboratory.flow(
        classes,
        t1=horizon,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
        n_times=_N_TIMES,
        rtol=1e-6,
        atol=1e-8,
        keep=("attention_logits",),
        on_progress=on_progress,
    )
    queries, shown = np.unique(classes.query), np.flatnonzero(classes.token_prob.any(axis=0))
    logits = path.attention_logits.values[:, :, shown]
    attention = np.stack(
        [
            _mean_attention(classes, query, logits[:, row], shown)
            for row, query in enumerate(queries)
        ],
        axis=1,
    )
    time = path.time.values
    return {
        "time": time,
        "query": _named(classes, queries),
        "token": _named(classes, shown),
        "query_weight": (
            ("query",),
            np.array([classes.class_weight[classes.query == query].sum() for query in queries]),
        ),
        "gain_path": (("time", "query", "token"), logits),
        "gain": (("query", "token"), logits[-1]),
        "attention_path": (("time", "query", "token"), attention),
        "attention_start": (("query", "token"), attention[0]),
        "attention_end": (("query", "token"), attention[-1]),
        "distinct": (
            ("query", "token"),
            np.stack([distinct_tokens(classes, query)[shown] for query in queries]),
        ),
        "half_way_time": (
            ("query",),
            np.array([half_way_time(time, attention[:, row]) for row in range(len(queries))]),
        ),
        "scan_time": (("query",), times.scan),
        "snap_time": (("query",), times.snap),
    }


def clock(classes: SequenceClasses, *, lr_decoder: float) -> Clock:
    """Of each query's most frequent class, the first of its classes to scan and to snap."""
    weight = np.array(
        [classes.class_weight[classes.query == query].max() for query in np.unique(classes.query)]
    )
    n_vocab = max(classes.n_vocab, _LEAST_VOCABULARY)
    each = {"n_vocab": n_vocab, "n_classes": 1, "lr_decoder": lr_decoder}
    return Clock(theory.scan_time(**each) / weight, theory.snap_time(**each) / weight)  # type: ignore[arg-type]


def distinct_tokens(classes: SequenceClasses, query: int) -> NDArray[np.bool_]:
    """Tokens that one class of the query shows alone (token)."""
    mine = classes.query == query
    rivals = classes.token_prob[mine] if mine.sum() > 1 else classes.token_prob
    best = classes.token_prob[mine].max(axis=0)
    others = rivals.sum(axis=0) - best
    return (best > 0) & (others <= _TIE * best)


def _mean_attention(
    classes: SequenceClasses, query: int, logits: Array, shown: NDArray[np.int64]
) -> Array:
    """Attention of a query on each token shown (time, token), mean over its classes by their
    weight, contexts infinitely long.
    """
    mine = np.flatnonzero(classes.query == query)
    weight = classes.class_weight[mine] / classes.class_weight[mine].sum()
    parts = (
        w * class_attention(logits, classes.token_prob[n, shown])
        for w, n in zip(weight, mine, strict=True)
    )
    return np.sum(list(parts), axis=0)


def _named(classes: SequenceClasses, tokens: NDArray[np.int64]) -> list[str]:
    return [classes.labels[token] for token in tokens]
