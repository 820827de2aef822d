r"""One pass of the pairwise model over windows of a text: the loss and its descent direction, from
sparse counts.

For one window, with counts N, query q and next token n [tian2023, Lemma 1, in counts]:

$$a_l \propto N_l e^{z_{ql}}, \quad r = a\ (+\ e_q), \quad f = r/|r|, \quad \epsilon = e_n - \mathrm{softmax}(Y^\top f),
  \quad g = Y\epsilon,$$
$$\dot Y = f \epsilon^\top, \qquad \dot z_q = f \circ (g - f\,(f\cdot g)) \quad \text{without the } e_q.$$

A window reads only the rows of Y that its tokens name, so the work is windows x distinct tokens x
vocabulary, twice: for the logits, and for the sums $\sum f_l \epsilon$ over the windows of each
pair (query, token). Those sums give both gradients: added up over queries they are $\dot Y$, and
$\sum f_l g_l$ is row l of Y times the sum of its pair, so g is never formed for a window. Windows
are sorted by query and cut into parts that fit a core's cache; parts are spread over threads, in an
order that does not depend on how many there are, and with it no bit of the result. Large arrays
live in a workspace that each thread reuses: asking the system for fresh memory in every part took a
quarter of the time. Sums in float32 are made by compiled code where it was built
(`rows_kernel.py`); without it $\dot Y$ is the same to the last bit and $\dot z$ to rounding. Not
here: what a window is (`data/text/windows.py`), the model as a System (`pairwise_text.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.sparse._sparsetools import csr_matvecs

from saccade.data.text.windows import Windows
from saccade.models.rows_kernel import compiled
from saccade.processes import cores

Array = NDArray[np.floating]
_PART = 1024  # windows; half and twice as many cost up to a tenth more (benchmarks/windows.py)
_SAFE = 60.0  # exponents below it sum to less than 1e30: no overflow in float32
_SAFE_DOUBLE = 300.0  # squares of exponentials below it stay under 1e270: no overflow in float64
_GROUPS = 8  # of parts, each added up by itself: a fixed number, so that sums do not depend on the machine


class Options(NamedTuple):
    """Variants of the model, as in `Pairwise`."""

    normalise: bool = True
    residual: bool = False


class Pass(NamedTuple):
    """Loss in nats, and minus its gradient by decoder and attention logits (both token x token)."""

    loss: float
    decoder: NDArray[np.float64]
    attention: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """Some windows, sorted by query. An entry is a window with one of its tokens; a pair, a query
    with a token.

    | name          | axes         | meaning                                              |
    |---------------|--------------|------------------------------------------------------|
    | `count`       | entry        | how often the token stands in the window             |
    | `token`       | entry        | entries stand window after window                    |
    | `first`       | window (+ 1) | where the entries of each window begin               |
    | `row`         | entry        | its window                                           |
    | `pair`        | entry        | its pair                                             |
    | `order`       | entry        | entries sorted by pair                               |
    | `order_row`   | entry        | windows in that order                                |
    | `pair_first`  | pair (+ 1)   | where the entries of each pair begin in that order   |
    | `pair_place`  | pair         | query * n_vocab + token                              |
    | `rows_of`     | token, pair  | 1 where the pair is the token's, sparse              |
    """

    query: NDArray[np.int64]
    next_token: NDArray[np.int64]
    weight: Array
    count: Array
    token: NDArray[np.int32]
    first: NDArray[np.int32]
    row: NDArray[np.int32]
    pair: NDArray[np.int64]
    order: NDArray[np.int64]
    order_row: NDArray[np.int32]
    pair_first: NDArray[np.int32]
    pair_place: NDArray[np.int64]
    rows_of: sparse.csr_array

    @property
    def pair_token(self) -> NDArray[np.int64]:
        return self.pair_place % self.rows_of.shape[0]


class Workspace:
    """Memory for the large arrays of one part, each with the vocabulary as its second axis."""

    def __init__(self, parts: list[Part], dtype: DTypeLike) -> None:
        n_vocab = parts[0].rows_of.shape[0]
        n_windows, n_pairs = (
            max(len(getattr(part, name)) for part in parts) for name in ("query", "pair_place")
        )
        self.logits, self.error = np.empty((2, n_windows, n_vocab), dtype)
        self.sums, self.decoder_rows = np.empty((2, n_pairs, n_vocab), dtype)


@dataclass(frozen=True, eq=False)
class Layout:
    """What `one_pass` goes over: groups of parts, their products with Y in `dtype`. `spare`:
    workspaces no thread is using.
    """

    groups: list[list[Part]]
    options: Options
    dtype: DTypeLike
    spare: list[Workspace] = field(default_factory=list)

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        try:
            found = self.spare.pop()
        except IndexError:
            found = Workspace([part for group in self.groups for part in group], self.dtype)
        yield found
        self.spare.append(found)


def laid_out(windows: Windows, options: Options, dtype: DTypeLike) -> Layout:
    order = np.argsort(windows.query, kind="stable")
    counts = windows.counts[order]
    if options.residual:  # the query's own row is read too; as a token that may have the count 0
        query = windows.query[order]
        row = np.arange(len(query))
        entries = counts.tocoo()
        data, rows, tokens = (
            np.concatenate(two)
            for two in ((entries.data, 0.0 * row), (entries.row, row), (entries.col, query))
        )
        counts = sparse.coo_array((data, (rows, tokens)), shape=counts.shape).tocsr()
    parts = [_part(windows, counts, order, own, dtype) for own in _cuts(windows.query[order])]
    return Layout([parts[i::_GROUPS] for i in range(min(_GROUPS, len(parts)))], options, dtype)


def _cuts(query: NDArray[np.int64]) -> list[slice]:
    """At most `_PART` sorted windows each. Frequent queries have parts of their own, which have at
    most one pair a token.
    """
    edges = np.flatnonzero(np.diff(query, prepend=-1, append=-1))
    frequent = np.diff(edges) >= _PART // 2
    ends = np.unique(np.concatenate([edges[[0, -1]], edges[:-1][frequent], edges[1:][frequent]]))
    n_parts = -(-np.diff(ends) // _PART)
    cut = np.concatenate(
        [
            np.linspace(ends[i], ends[i + 1], n + 1).round().astype(int)[:-1]
            for i, n in enumerate(n_parts)
        ]
    )
    return [slice(*two) for two in pairwise(np.append(cut, ends[-1]).tolist())]


def _part(
    windows: Windows,
    sorted_counts: sparse.csr_array,
    order: NDArray[np.intp],
    own: slice,
    dtype: DTypeLike,
) -> Part:
    counts, query = sorted_counts[own], windows.query[order[own]]
    n_windows, n_vocab = counts.shape
    row = np.repeat(np.arange(n_windows, dtype=np.int32), np.diff(counts.indptr))
    pair_place, pair, size = np.unique(
        query[row] * n_vocab + counts.indices, return_inverse=True, return_counts=True
    )
    n_pairs, by_pair = len(pair_place), np.argsort(pair, kind="stable")
    ones = np.ones(n_pairs, dtype)
    return Part(
        query=query,
        next_token=windows.next_token[order[own]],
        weight=windows.weight[order[own]],
        count=counts.data.astype(float),
        token=counts.indices.astype(np.int32),
        first=counts.indptr.astype(np.int32),
        row=row,
        pair=pair,
        order=by_pair,
        order_row=row[by_pair],
        pair_first=np.append(0, np.cumsum(size)).astype(np.int32),
        pair_place=pair_place,
        rows_of=sparse.coo_array(
            (ones, (pair_place % n_vocab, np.arange(n_pairs))), shape=(n_vocab, n_pairs)
        ).tocsr(),
    )


def one_pass(layout: Layout, decoder: Any, attention: Any) -> Pass:
    """Loss and downhill. Products with Y are computed in the dtype of the layout; attention, and
    sums over groups, in float64.
    """
    groups = layout.groups
    Y, z = (
        np.ascontiguousarray(decoder, layout.dtype),
        np.ascontiguousarray(attention, float).ravel(),
    )
    largest = float(np.abs(Y).max(initial=0.0))

    def added(group: list[Part]) -> tuple[float, Array, list[Array]]:
        loss, Y_dot, z_dots = 0.0, np.zeros_like(Y), []
        with layout.workspace() as workspace:
            for part in group:
                part_loss, z_dot = _of_part(part, layout.options, Y, z, largest, workspace, Y_dot)
                loss += part_loss
                z_dots.append(z_dot)
        return loss, Y_dot, z_dots

    if len(groups) == 1:
        found = [added(groups[0])]
    else:
        with ThreadPoolExecutor(min(len(groups), cores())) as pool:
            found = list(pool.map(added, groups))
    decoder_dot, attention_dot = np.zeros(Y.shape), np.zeros(len(z))
    for group, (_, Y_dot, z_dots) in zip(groups, found, strict=True):
        decoder_dot += Y_dot
        for part, z_dot in zip(group, z_dots, strict=True):
            attention_dot[part.pair_place] += z_dot
    return Pass(sum(loss for loss, *_ in found), decoder_dot, attention_dot.reshape(Y.shape))


def _of_part(
    part: Part,
    options: Options,
    Y: Array,
    z: Array,
    largest: float,
    workspace: Workspace,
    Y_dot: Array,
) -> tuple[float, Array]:
    """Loss, and downhill for z (pair); that for Y is added to `Y_dot`. `largest` is the largest
    entry of Y.
    """
    n_windows, n_pairs = len(part.query), len(part.pair_place)
    row, starts = part.row, part.first[:-1]
    attention = _attention(part, z)
    if options.residual or not options.normalise:
        attention /= np.add.reduceat(attention, starts)[row]
    own = part.token == part.query[row] if options.residual else 0.0
    raw = attention + own if options.residual else attention
    norm = np.sqrt(np.add.reduceat(raw * raw, starts)) if options.normalise else np.ones(n_windows)
    feature = raw / norm[row]
    f = feature.astype(Y.dtype)
    logits, error = workspace.logits[:n_windows], workspace.error[:n_windows]
    _product(f, part.token, part.first, Y, out=logits)
    reach = largest * max(
        2.0, np.sqrt(np.diff(part.first).max())
    )  # |f|_1 <= sqrt(its tokens) |f|_2; without the norm, 1 or 2
    loss, along, scale = _error(part, logits, unshifted=reach < _SAFE, out=error)
    gained = _gained(part, f[part.order] * scale[part.order_row], error, Y, workspace, Y_dot)
    pull: Array
    if not options.residual:
        pull = feature * (feature if options.normalise else 1.0) * along[row]
    else:
        g_query = scale * np.vecdot(error, Y[part.query])
        pull = _pull_with_query(part, options, g_query, attention, feature, own, norm, along)
    return loss, gained - np.bincount(part.pair, pull, n_pairs)


def _gained(
    part: Part, values: Array, error: Array, Y: Array, workspace: Workspace, Y_dot: Array
) -> Array:
    """Of each pair, the sum of its rows of `error`, times its row of Y; the sums are added to
    `Y_dot`. `values`: sorted by pair.
    """
    n_pairs, by_pair = len(part.pair_place), compiled("pairs") if Y.dtype == np.float32 else None
    if by_pair is not None:
        gained = np.empty(n_pairs)
        arrays = (
            part.pair_first,
            part.order_row,
            values,
            error,
            part.pair_token,
            Y,
            Y_dot,
            workspace.sums,
            gained,
        )
        by_pair(n_pairs, len(Y), *(array.ctypes.data for array in arrays))
        return gained
    sums, Y_rows = workspace.sums[:n_pairs], workspace.decoder_rows[:n_pairs]
    _product(values, part.order_row, part.pair_first, error, out=sums)
    _add_product(part.rows_of.data, part.rows_of.indices, part.rows_of.indptr, sums, to=Y_dot)
    return np.vecdot(
        sums, np.take(Y, part.pair_token, axis=0, out=Y_rows, mode="clip")
    )  # without `mode`, take makes a copy


def _product(values: Array, column: NDArray, first: NDArray, dense: Array, *, out: Array) -> None:
    """A sparse matrix (values and columns, row after row, each from `first`) times a dense one,
    both in C order.
    """
    product = compiled("product") if out.dtype == np.float32 else None
    if product is not None:
        product(
            len(out),
            dense.shape[1],
            *(array.ctypes.data for array in (first, column, values, dense, out)),
        )
    else:
        out.fill(0)
        _add_product(values, column, first, dense, to=out)


def _add_product(
    values: Array, column: NDArray, first: NDArray, dense: Array, *, to: Array
) -> None:
    """SciPy's operator `@` calls the same function, with memory of its own for the result."""
    csr_matvecs(
        len(to), len(dense), dense.shape[1], first, column, values, dense.ravel(), to.ravel()
    )


def _attention(part: Part, z: Array) -> Array:
    """Of each window over its tokens (entry), up to a factor for each window."""
    sought = z[part.pair_place]
    if np.abs(sought).max(initial=0.0) < _SAFE_DOUBLE:
        return part.count * np.exp(sought)[part.pair]
    of_entry = np.where(part.count > 0, sought[part.pair], -np.inf)
    return part.count * np.exp(of_entry - np.maximum.reduceat(of_entry, part.first[:-1])[part.row])


def _error(part: Part, logits: Array, unshifted: bool, out: Array) -> tuple[float, Array, Array]:
    """Loss; and of each window f . g, and what `out` is to be multiplied by to be e_n -
    softmax(logits) times its weight.

    `unshifted`: no exponential can overflow as it is.
    """
    window, weight = np.arange(len(logits)), part.weight.astype(logits.dtype)
    top = np.zeros(1, logits.dtype) if unshifted else logits.max(axis=1)
    error = np.exp(logits if unshifted else logits - top[:, None], out=out)
    total = np.vecdot(
        error, np.ones(error.shape[1], error.dtype)
    )  # row by row: NumPy's `@` would start threads beside ours
    at_next = logits[window, part.next_token]
    along = weight * (at_next - np.vecdot(error, logits) / total)
    error[window, part.next_token] -= total
    loss = float(np.sum(part.weight * (np.log(total) + top - at_next), dtype=float))
    return loss, along, -weight / total


def _pull_with_query(
    part: Part,
    options: Options,
    g_query: Array,
    attention: Array,
    feature: Array,
    own: Any,
    norm: Array,
    along: Array,
) -> Array:
    """What softmax and norm take off f * g where the query is added: r = a + e_q, so that a = |r| f
    - e_q (entry).
    """
    row = part.row
    if not options.normalise:
        return own * g_query[row] + attention * (along - g_query)[row]
    f_query = np.add.reduceat(feature * own, part.first[:-1])
    shared = (f_query * along - g_query) / norm
    return own * (g_query / norm)[row] + attention * (feature * (along / norm)[row] + shared[row])
