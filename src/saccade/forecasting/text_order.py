r"""Which words of a text gain attention first: decoder first
(`theories/scan_and_snap/frozen_attention.py`) on windows of the text.

Contexts are finite windows of the text, and any token may follow any query. It leaves out what it
cannot predict:

| left out                                        | because                                                                 |
|-------------------------------------------------|-------------------------------------------------------------------------|
| words seen at most 20 times before the query    | too few for a prediction                                                |
| `<unk>` and `<other>`                           | each is many words: what they gain says nothing of any one of them      |
| words whose first change of attention is noise  | another sample of the text might give it the other sign                 |
| words that go the other way in half of the text | the same, at the last step whose sizes are told                         |
| orders on which halves of the text disagree     | who gains most is noise, though who gains is not: below .5              |
| steps where both paths order words differently  | attention has moved the decoder: rank correlation below .95             |
| sizes where both paths differ by more than 10 % | the same, earlier; who gains is still predicted, how much is not        |

The noise of a word is the standard error of its first change of attention, from leaving out each
tenth of the text in turn (jackknife). A word is kept if its interval excludes zero; the intervals
of all words and queries hold at once, with 95 %. Tenths are stretches of the text, so that windows
that overlap or tell the same story stand on one side; halves are every other tenth. Both paths need
no training, and while they are close their distance estimates the error of the forecast. It takes
the place of the decoder's own clock (`first_force_clock`), which is kept beside it: that says when
the closed form of the first force ends because the decoder's logits have left zero, and these paths
follow the decoder beyond. Steps are those of plain descent without noise, at the given rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.markov_text import OTHER
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.data.text.windows import Windows
from saccade.errors import InputError, checked_count, shortened
from saccade.measures import window_attention
from saccade.measures.fits import rank_correlation, standard_errors
from saccade.theories import scan_and_snap as theory

Array = NDArray[np.float64]
LEAST_COUNT = 20
TENTHS = 10
CONFIDENCE = 0.95
POOLED = (UNKNOWN, OTHER)
ORDER, SIZE = (
    0.95,
    0.1,
)  # rank correlation of both paths that the order needs, and their distance that sizes may have
HALVES = 0.5  # rank correlation of two halves that an order needs: what claims on text ask of a forecast (`experiments/real_text`)
# Widths of steps, in units of 1 / decoder rate: half, then a tenth of the time, at most ten; but
# never below a step of descent.
_FIRST, _GROWTH, _LARGEST = 0.5, 0.1, 10.0
_MOST = 120  # moments: with the widths above, 700 units of time


def text_order(
    windows: Windows,
    *,
    queries: int | Sequence[str | int],
    lr_decoder: float,
    lr_attention: float,
    steps: float | None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> dict[str, Any]:
    """Variables of the record, up to the last step whose order can be told, or `steps` if that is
    earlier.
    """
    rows, rates = (
        query_rows(windows, queries),
        Rates(lr_decoder, lr_attention, np.inf if steps is None else steps),
    )
    count, words = np.stack([windows.token_count(row) for row in rows]), ~pooled(windows)
    force = _force(windows, slice(None))
    # Words that gain or lose attention beyond the noise of the sample (query, token).
    known = words & (count > LEAST_COUNT)
    of_tenth = _tenths(windows)
    parts = (_force(windows, of_tenth != left_out).force for left_out in range(TENTHS))
    without = np.stack([_first_change(windows, rows, part) for part in parts])
    noise = np.sqrt((TENTHS - 1) * without.var(axis=0))
    reach = standard_errors(TENTHS, 1 - (1 - CONFIDENCE) / max(1, known.sum()))
    clear = known & (np.abs(_first_change(windows, rows, force.force)) > reach * noise)
    time, logits, second = _path(windows, rows, clear, rates, on_progress)
    size = np.linalg.norm(second, axis=(1, 2))
    error = np.linalg.norm(logits - second, axis=(1, 2)) / np.where(size > 0, size, 1.0)
    is_off = ~(error <= SIZE)  # also where steps too large have left no numbers
    sized = max(int(np.argmax(is_off)) - 1, 0) if is_off.any() else len(error) - 1
    attention = _attention(windows, rows, logits)
    halves = [
        _half(windows, rows, tenth, rates, len(time))
        for tenth in (_tenths(windows) % 2 == side for side in (0, 1))
    ]
    change, *others = (
        (path[sized] - path[0]) for path in (attention, *(half.attention for half in halves))
    )
    told = clear & np.all([np.sign(other) == np.sign(change) for other in others], axis=0)
    names = windows.token_names
    return {
        "time": time,
        "query": [names[row] for row in rows],
        "token": list(names),
        "query_weight": (
            ("query",),
            np.array([windows.weight[windows.query == row].sum() for row in rows]),
        ),
        "gain_path": (("time", "query", "token"), logits),
        "gain": (("query", "token"), logits[-1]),
        "attention_path": (("time", "query", "token"), attention),
        "told": (("query", "token"), told),
        "seen": (("query", "token"), words & (count > 0)),
        "pooled": (("token",), ~words),
        "gain_agreement": (("query",), agreement([half.logits[-1] for half in halves], told)),
        "gaining_agreement": (("query",), agreement(others, told & (change > 0))),
        "losing_agreement": (("query",), agreement(others, told & (change < 0))),
        "order_agreement": (
            ("time",),
            np.array([_order(*pair, clear) for pair in zip(logits, second, strict=True)]),
        ),
        "size_error": (("time",), error),
        "order_until": time[-1],
        "size_until": time[sized],
        "clock": theory.first_force_clock(
            force, lr_decoder=lr_decoder, tolerance=SIZE, queries=rows
        ),
        "n_windows": len(windows.query),
    }


class Rates(NamedTuple):
    """Of descent, and until which step it is asked for."""

    decoder: float
    attention: float
    end: float


class Half(NamedTuple):
    """Logits and attention (time, query, token) as half of the windows have them."""

    logits: Array
    attention: Array


def pooled(windows: Windows) -> NDArray[np.bool_]:
    """Which tokens are many words counted as one (token)."""
    return np.isin(windows.token_names, POOLED)


def agreement(two: Sequence[Array], among: NDArray[np.bool_]) -> Array:
    """Rank correlation of two repetitions among some words of each query (query); NaN for fewer
    than two words.
    """
    return np.array([_same_order(a[own], b[own]) for a, b, own in zip(*two, among, strict=True)])


def _same_order(one: Array, other: Array) -> float:
    return (
        float(np.sign(np.diff(one) * np.diff(other))[0])
        if len(one) == 2
        else rank_correlation(one, other)
    )


def query_rows(windows: Windows, queries: int | Sequence[str | int]) -> list[int]:
    """Ids of the queries: how many of the most frequent, or which. `<unk>` and `<other>` are many
    words and therefore none.
    """
    if isinstance(queries, int):
        many = pooled(windows)
        return [row for row in windows.frequent_queries.tolist() if not many[row]][
            : checked_count("queries", queries)
        ]
    number = {name: token for token, name in enumerate(windows.token_names)}
    rows = [number.get(query, -1) if isinstance(query, str) else int(query) for query in queries]
    met = set(windows.frequent_queries.tolist())
    for query, row in zip(queries, rows, strict=True):
        if row not in met:
            more = "n_tokens` (`--n-tokens" if row < 0 else "n_windows` (`--n-windows"
            raise InputError(
                f"`queries`: {shortened(query)} is too rare to be the query of any window counted; raise `{more}`)."
            )
    if not rows or len(set(rows)) < len(rows):
        listed = ", ".join(map(str, queries)) or "nothing"
        raise InputError(f"`queries` must list at least one word, each word once; got {listed}.")
    return rows


def _tenths(windows: Windows) -> NDArray[np.int64]:
    """The tenth of the text that each window is from; windows that are from no text are
    independent, in any order (window).
    """
    n = len(windows.query)
    if windows.start is None:
        return np.arange(n) % TENTHS
    return np.argsort(np.argsort(windows.start, kind="stable"), kind="stable") * TENTHS // n


def _force(windows: Windows, part: Any) -> theory.FirstForce:
    return theory.first_force(
        windows.counts[part],
        windows.query[part],
        windows.next_token[part],
        windows.weight[part] / windows.weight[part].sum(),
    )


def _first_change(windows: Windows, rows: list[int], force: Array) -> Array:
    """Change of mean attention (query, token) under a force, up to a factor: a (F - a . F)."""
    found = np.empty((len(rows), windows.n_vocab))
    for i, row in enumerate(rows):
        own = windows.query == row
        counts, weight = windows.counts[own], windows.weight[own]
        length = counts.sum(axis=1)
        found[i] = force[row] * (counts.T @ (weight / length)) - counts.T @ (
            weight * (counts @ force[row]) / length**2
        )
    return found


def _attention(windows: Windows, rows: list[int], logits: Array) -> Array:
    """Mean attention of each query (time, query, token); NaN for one that is in no window."""
    found = np.full(logits.shape, np.nan)
    for i, row in enumerate(rows):
        own = windows.query == row
        if own.any():
            found[:, i] = window_attention(windows.counts[own], windows.weight[own], logits[:, i])
    return found


def _moments(
    windows: Windows, rows: list[int], rates: Rates, *, with_error: bool
) -> Iterator[theory.Moment]:
    return theory.decoder_first_path(
        windows.counts,
        windows.query,
        windows.next_token,
        windows.weight,
        widths=_widths(rates.decoder, rates.end),
        queries=rows,
        lr_decoder=rates.decoder,
        lr_attention=rates.attention,
        with_error=with_error,
    )


def _path(
    windows: Windows,
    rows: list[int],
    clear: NDArray,
    rates: Rates,
    on_progress: Callable[[float], None],
) -> tuple[Array, Array, Array]:
    """Times and the logits of both paths, until their orders differ or the steps asked for are
    over.
    """
    found = []
    for number, moment in enumerate(_moments(windows, rows, rates, with_error=True)):
        is_lost = not (
            np.isfinite(moment.attention_logits).all() and np.isfinite(moment.second_logits).all()
        )
        if is_lost or (
            number > 2 and _order(moment.attention_logits, moment.second_logits, clear) < ORDER
        ):
            break
        found.append((moment.time, moment.attention_logits, moment.second_logits))
        on_progress((number + 1) / _MOST)
    time, logits, second = (np.array(each) for each in zip(*found, strict=True))
    return time, logits, second


def _half(
    windows: Windows, rows: list[int], part: NDArray[np.bool_], rates: Rates, n_times: int
) -> Half:
    """The forecast from half of the windows, as long as that from all."""
    half = windows.part(part)
    logits = np.stack(
        [
            moment.attention_logits
            for moment in islice(_moments(half, rows, rates, with_error=False), n_times)
        ]
    )
    return Half(logits, _attention(half, rows, logits))


def _widths(lr_decoder: float, end: float) -> Iterator[float]:
    """Widths of Euler's steps; the last moment is at `end`, if there are enough."""
    time = 0.0
    for _ in range(_MOST):
        width = max(1.0, min(max(_FIRST, _GROWTH * time * lr_decoder), _LARGEST) / lr_decoder)
        if time >= end:
            yield width  # the moment at the end is given out before this width is used
            return
        width = min(width, end - time)
        yield width
        time += width


def _order(one: Array, other: Array, told: NDArray) -> float:
    """Mean over queries of the rank correlation of two sets of logits, among the words told; 1
    before anything has moved.
    """
    scores = [rank_correlation(a[own], b[own]) for a, b, own in zip(one, other, told, strict=True)]
    known = [score for score in scores if np.isfinite(score)]
    return float(np.mean(known)) if known else 1.0
