r"""Which words of a text gain attention first: decoder first (`theory/scan_and_snap/frozen_attention.py`) on windows of the text.

Contexts are finite windows of the text, and any token may follow any query. It leaves out what it cannot predict:

| left out                                        | because                                                                 |
|-------------------------------------------------|-------------------------------------------------------------------------|
| words seen at most 20 times before the query    | too few for a prediction                                                |
| words whose first change of attention is noise  | another sample of the text might give it the other sign                 |
| steps where both paths order words differently  | attention has moved the decoder: rank correlation below .95             |
| sizes where both paths differ by more than 10 % | the same, earlier; who gains is still predicted, how much is not        |

The noise of a word is the standard error of its first change of attention, from leaving out each tenth of the windows in turn
(jackknife). A word is kept if its interval excludes zero; the intervals of all words and queries hold at once, with 95 %.
Both paths need no training, and while they are close their distance estimates the error of the forecast. Steps are
those of plain descent without noise, at the given rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.markov_text import OTHER
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.data.text.windows import Windows
from saccade.errors import InputError, checked_count, shortened
from saccade.observe.fits import rank_correlation, standard_errors
from saccade.observe.measures import window_attention
from saccade.theory import scan_and_snap as theory

Array = NDArray[np.float64]
LEAST_COUNT = 20
TENTHS = 10
CONFIDENCE = 0.95
ORDER, SIZE = 0.95, 0.1  # rank correlation of both paths that the order needs, and their distance that sizes may have
# Widths of steps, in units of 1 / decoder rate: half, then a tenth of the time, at most ten; but never below a step of descent.
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
    """Variables of the record, up to the last step whose order can be told, or `steps` if that is earlier."""
    rows = query_rows(windows, queries)
    count = np.stack([windows.token_count(row) for row in rows])
    told = _clear(windows, rows, count > LEAST_COUNT)
    time, logits, second = _path(windows, rows, told, lr_decoder, lr_attention, steps, on_progress)
    order = np.array([_order(*pair, told) for pair in zip(logits, second, strict=True)])
    error = _distance(logits, second)
    sized = int(np.argmax(error > SIZE)) - 1 if (error > SIZE).any() else len(error) - 1
    own = [windows.query == row for row in rows]
    attention = [window_attention(windows.counts[mine], windows.weight[mine], logits[:, i]) for i, mine in enumerate(own)]
    names = windows.token_names
    return {
        "time": time,
        "query": [names[row] for row in rows],
        "token": list(names),
        "query_weight": (("query",), np.array([windows.weight[mine].sum() for mine in own])),
        "gain_path": (("time", "query", "token"), logits),
        "gain": (("query", "token"), logits[-1]),
        "attention_path": (("time", "query", "token"), np.stack(attention, axis=1)),
        "told": (("query", "token"), told),
        "seen": (("query", "token"), count > 0),
        "order_agreement": (("time",), order),
        "size_error": (("time",), error),
        "order_until": time[-1],
        "size_until": time[max(sized, 0)],
        "n_windows": len(windows.query),
    }


def query_rows(windows: Windows, queries: int | Sequence[str | int]) -> list[int]:
    """Ids of the queries: how many of the most frequent, or which. `<unk>` and `<other>` are many words and therefore none."""
    if isinstance(queries, int):
        words = [row for row in windows.frequent_queries.tolist() if windows.token_names[row] not in (UNKNOWN, OTHER)]
        return words[: checked_count("queries", queries)]
    number = {name: token for token, name in enumerate(windows.token_names)}
    rows = [query if isinstance(query, int) else number.get(query, -1) for query in queries]
    met = set(windows.frequent_queries.tolist())
    for query, row in zip(queries, rows, strict=True):
        if row not in met:
            raise InputError(f"`queries`: {shortened(query)} is not the query of any window; raise `n_tokens` if the word is rare.")
    return rows


def _clear(windows: Windows, rows: list[int], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the known words (query, token) gain or lose attention beyond the noise of the sample."""
    tenth = np.arange(len(windows.query)) % TENTHS  # windows come in random order
    without = np.stack([_first_change(windows, rows, tenth != left_out) for left_out in range(TENTHS)])
    error = np.sqrt((TENTHS - 1) * without.var(axis=0))
    reach = standard_errors(TENTHS, 1 - (1 - CONFIDENCE) / max(1, known.sum()))
    return known & (np.abs(_first_change(windows, rows, slice(None))) > reach * error)


def _first_change(windows: Windows, rows: list[int], part: Any) -> Array:
    """Change of mean attention (query, token) under the first force of some of the windows, up to a factor: a (F - a . F)."""
    force = theory.first_force(windows.counts[part], windows.query[part], windows.next_token[part]).force[rows]
    found = np.empty_like(force)
    for i, row in enumerate(rows):
        own = windows.query == row
        counts, weight = windows.counts[own], windows.weight[own]
        length = counts.sum(axis=1)
        found[i] = force[i] * (counts.T @ (weight / length)) - counts.T @ (weight * (counts @ force[i]) / length**2)
    return found


def _path(
    windows: Windows, rows: list[int], told: NDArray, lr_decoder: float, lr_attention: float, steps: float | None, on_progress: Any
) -> tuple[Array, Array, Array]:
    """Times and the logits of both paths, until their orders differ or `steps` are over."""
    end = np.inf if steps is None else steps
    moments = theory.decoder_first_path(
        windows.counts,
        windows.query,
        windows.next_token,
        windows.weight,
        widths=_widths(lr_decoder, end),
        queries=rows,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
    )
    found = []
    for number, moment in enumerate(moments):
        if number > 2 and _order(moment.attention_logits, moment.second_logits, told) < ORDER:
            break
        found.append((moment.time, moment.attention_logits, moment.second_logits))
        on_progress((number + 1) / _MOST)
    time, logits, second = (np.array(each) for each in zip(*found, strict=True))
    return time, logits, second


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
    """Mean over queries of the rank correlation of two sets of logits, among the words told; 1 before anything has moved."""
    scores = [rank_correlation(a[own], b[own]) for a, b, own in zip(one, other, told, strict=True)]
    known = [score for score in scores if np.isfinite(score)]
    return float(np.mean(known)) if known else 1.0


def _distance(one: Array, other: Array) -> Array:
    size = np.linalg.norm(other, axis=(1, 2))
    return np.linalg.norm(one - other, axis=(1, 2)) / np.where(size > 0, size, 1.0)
