r"""What attention does while it is too weak to affect the decoder: the papers' fast decoder, on any
text. Ours.

With attention held even, the decoder's loss is convex, and its descent is that of multinomial
regression from the normalised counts f: it does not need attention's path. The force on attention
along it is known, and adds up to a forecast of z, "decoder first":

$$Y_{k+1} = Y_k + \eta_Y\,\mathrm{E}[f\,\epsilon^\top], \quad \epsilon = e_n - \mathrm{softmax}(Y_k^\top f), \qquad
  z_{m,k+1} = z_{mk} + \eta_Z\,\mathrm{E}[1(q = m)\; f\circ(g - f\,(f\cdot g))], \quad g = Y_k\epsilon.$$

Its first terms in k are those of `early_attention.py`, which end when the decoder's logits leave
zero; this ends when attention has moved enough to change f. How far that has come is asked of a
second path, whose windows are attended to as the first one says:

$$f_l \propto N_l e^{z_{ql}}, \qquad \text{error}_k = |z'_k - z_k| \,/\, |z'_k|.$$

This is one step of Picard's iteration; while the error is small it is the true one, up to its
square. Nothing here is a joint run, in which attention would hear of its own force. NumPy and SciPy
only, and no code shared with the engines.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

__all__ = ["DecoderFirst", "Moment", "decoder_first", "decoder_first_path"]

_ROWS = 1024  # windows at once: their logits fit a core's cache


class Moment(NamedTuple):
    """One time of decoder first: logits (query, token) along both paths, and the loss of the
    decoder.
    """

    time: float
    attention_logits: NDArray[np.float64]
    second_logits: NDArray[np.float64]
    loss: float


class DecoderFirst(NamedTuple):
    """`attention_logits` (step, query, token) of the queries asked for, and the same along the
    second path, which tells the error; `loss` (step) of the decoder.
    """

    steps: NDArray[np.int64]
    attention_logits: NDArray[np.float64]
    second_logits: NDArray[np.float64]
    loss: NDArray[np.float64]

    @property
    def error(self) -> NDArray[np.float64]:
        """|z' - z| / |z'| of all queries together (step); 0 where nothing has moved, NaN if the
        second path was not asked for.
        """
        size = np.linalg.norm(self.second_logits, axis=(1, 2))
        return np.linalg.norm(self.second_logits - self.attention_logits, axis=(1, 2)) / np.where(
            size > 0, size, 1.0
        )


def decoder_first(
    counts: sparse.csr_array,
    query: ArrayLike,
    next_token: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    steps: Sequence[int],
    queries: Sequence[int],
    lr_decoder: float,
    lr_attention: float,
    with_error: bool = True,
    dtype: DTypeLike = np.float32,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> DecoderFirst:
    """z at these steps of descent, and how far it can be trusted; without `with_error` it costs
    half, and the error is NaN.

    Ours.

    | ours        | theirs                     | axes          |
    |-------------|----------------------------|---------------|
    | counts      | N_l                        | window, token |
    | query       | q                          | window        |
    | next_token  | n                          | window        |
    | weight      | share of windows           | window        |
    | steps       | k                          | step          |
    | queries     | m                          | query         |
    | with_error  | also the second path, z'   |               |
    | dtype       | of the products with Y     |               |
    | on_progress | called with the share done |               |
    """
    asked = sorted({int(step) for step in steps})
    path = decoder_first_path(
        counts,
        query,
        next_token,
        weight,
        widths=itertools.repeat(1.0),
        queries=queries,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
        with_error=with_error,
        dtype=dtype,
    )
    found = []
    for step, moment in zip(range(asked[-1] + 1), path, strict=False):
        if step in asked:
            found.append(moment[1:])
        on_progress((step + 1) / (asked[-1] + 1))
    return DecoderFirst(np.array(asked), *(np.array(each) for each in zip(*found, strict=True)))


def decoder_first_path(
    counts: sparse.csr_array,
    query: ArrayLike,
    next_token: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    widths: Iterable[float],
    queries: Sequence[int],
    lr_decoder: float,
    lr_attention: float,
    with_error: bool = True,
    dtype: DTypeLike = np.float32,
) -> Iterator[Moment]:
    """The same one moment after the other, from time 0, by Euler's steps of any widths: each counts
    as so many steps of descent.

    Ours.

    | ours       | theirs                     | axes          |
    |------------|----------------------------|---------------|
    | counts     | N_l                        | window, token |
    | query      | q                          | window        |
    | next_token | n                          | window        |
    | weight     | share of windows           | window        |
    | widths     | in steps of descent        | step          |
    | queries    | m                          | query         |
    | with_error | also the second path, z'   |               |
    | dtype      | of the products with Y     |               |
    """
    blocks = _blocks(counts, np.asarray(query), np.asarray(next_token), weight)
    M, rows, time, even = (
        counts.shape[1],
        np.asarray(queries),
        0.0,
        np.zeros((counts.shape[1],) * 2),
    )
    (Y, z), (Y_second, z_second) = ((np.zeros((M, M)), np.zeros((M, M))) for _ in range(2))
    for width in widths:
        loss, Y_dot, z_dot = _velocity(blocks, Y, even, dtype)
        yield Moment(
            time, z[rows], z_second[rows] if with_error else np.full_like(z[rows], np.nan), loss
        )
        if with_error:
            _, second_Y_dot, second_z_dot = _velocity(blocks, Y_second, z, dtype)
            Y_second, z_second = (
                Y_second + width * lr_decoder * second_Y_dot,
                z_second + width * lr_attention * second_z_dot,
            )
        Y, z, time = Y + width * lr_decoder * Y_dot, z + width * lr_attention * z_dot, time + width


@dataclass(frozen=True, eq=False)
class _Block:
    """Some windows, those of one query side by side.

    A pair is a query with a token: `places` has query * M + token of each, `pair` the pair of each
    entry. `rows` is 1 where a pair belongs to a row of the decoder (token, pair).
    """

    counts: sparse.csr_array
    row: NDArray[np.intp]
    next_token: NDArray[np.int64]
    weight: NDArray[np.float64]
    pair: NDArray[np.intp]
    places: NDArray[np.int64]
    rows: sparse.csr_array

    @cached_property
    def _order(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Entries sorted by pair, and where each pair begins."""
        return np.argsort(self.pair, kind="stable"), np.append(
            0, np.cumsum(np.bincount(self.pair, minlength=len(self.places)))
        )

    def by_pair(self, values: NDArray) -> sparse.csr_array:
        """Values of the entries as (pair, window)."""
        order, first = self._order
        return sparse.csr_array(
            (values[order], self.row[order], first), shape=(len(self.places), len(self.weight))
        )


def _blocks(
    counts: sparse.csr_array, query: NDArray, next_token: NDArray, weight: ArrayLike | None
) -> list[_Block]:
    n_windows, M = counts.shape
    share = np.full(n_windows, 1 / n_windows) if weight is None else np.asarray(weight, float)
    order = np.argsort(query, kind="stable")
    found = []
    for start in range(0, n_windows, _ROWS):
        mine = order[start : start + _ROWS]
        own = sparse.csr_array(counts[mine], dtype=float)
        row = np.repeat(np.arange(len(mine)), np.diff(own.indptr))
        places, pair = np.unique(query[mine][row] * M + own.indices, return_inverse=True)
        ones = np.ones(len(places), np.float32), (places % M, np.arange(len(places)))
        rows = sparse.csr_array(ones, shape=(M, len(places)))
        found.append(_Block(own, row, next_token[mine], share[mine], pair, places, rows))
    return found


def _velocity(
    blocks: list[_Block], Y: NDArray, z: NDArray, dtype: DTypeLike
) -> tuple[float, NDArray, NDArray]:
    """Loss, and velocities of decoder and attention at rate 1, with attention as `z` says."""
    loss, Y_dot, z_dot, decoder = 0.0, np.zeros(Y.shape), np.zeros(Y.size), Y.astype(dtype)
    for block in blocks:
        feature = _feature(block, z.ravel())
        logits = feature.astype(dtype) @ decoder
        surprise, error = _error(block, logits)
        loss += surprise
        sums = (
            block.by_pair(feature.data.astype(dtype)) @ error
        )  # what each pair adds to its row of the decoder
        token = block.places % len(Y)
        Y_dot += block.rows @ sums
        along = np.vecdot(error, logits)
        taken = np.bincount(block.pair, feature.data**2 * along[block.row], len(block.places))
        z_dot[block.places] += np.vecdot(sums, decoder[token]) - taken
    return loss, Y_dot, z_dot.reshape(Y.shape)


def _feature(block: _Block, z: NDArray) -> sparse.csr_array:
    """Attention of each window over its tokens, divided by its length."""
    counts = block.counts
    sought = z[block.places][block.pair]
    most = np.maximum.reduceat(
        sought, counts.indptr[:-1]
    )  # of each window: where logits are huge, some have none of the largest
    raw = counts.data * np.exp(sought - most[block.row])
    length = np.sqrt(np.bincount(block.row, raw**2, counts.shape[0]))
    return sparse.csr_array(
        (raw / length[block.row], counts.indices, counts.indptr), shape=counts.shape
    )


def _error(block: _Block, logits: NDArray) -> tuple[float, NDArray]:
    """Loss, and e_n - softmax times the share of each window."""
    top = logits.max(axis=1, keepdims=True)
    chance = np.exp(logits - top)
    total = chance.sum(axis=1, keepdims=True)
    chance *= (-block.weight[:, None] / total).astype(logits.dtype)
    window = np.arange(len(logits))
    chance[window, block.next_token] += block.weight.astype(logits.dtype)
    surprise = np.log(total[:, 0]) + top[:, 0] - logits[window, block.next_token]
    return float(block.weight @ surprise), chance
