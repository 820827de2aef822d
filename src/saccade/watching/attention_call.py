"""One attention computation of a model, in the form in which everything else reads it: weights of
some query rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

BYTES_PER_BLOCK = 2**21  # of weights in float32: as many query rows at a time as fit, at least one


@dataclass(frozen=True)
class AttentionCall:
    """One attention computation of the model. Axes of weights, scores and what is visible: batch,
    head, query, key; a row of weights sums to one, or is zero if it sees no key. Keys after the
    last one that any of the rows sees may be cut off.
    """

    kind: str
    n_batch: int
    n_heads: int
    n_queries: int
    n_keys: int
    rows: Callable[
        [int, int, torch.dtype], Tensor
    ]  # weights of query rows start to stop, computed in that type
    # Relative error of those rows times the values, against the output; None if weights were
    # dropped at random in between.
    reproduced: Callable[[int, int, torch.dtype], float | None]
    dtype: torch.dtype = torch.float64  # of the model's output: what it may round away
    visible: Callable[[int, int], Tensor] | None = (
        None  # keys that the mask leaves to query rows start to stop; None: not known
    )
    scores: Callable[[int, int, torch.dtype], Tensor] | None = (
        None  # what the softmax takes: masked keys far below; None: not known
    )
    from_scores: bool = False  # `rows` is nothing but the softmax of `scores`
    n_null: int = 0  # columns after the keys that take attention and give nothing: learned sinks
    layer: str = "?"  # name of the module that computed it

    @property
    def n_bytes(self) -> int:
        """Of all its weights in float32."""
        return 4 * self.n_batch * self.n_heads * self.n_queries * self.n_keys

    def weights_and_scores(
        self, start: int, stop: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """Of query rows start to stop, with products of queries and keys taken once."""
        scores = None if self.scores is None else self.scores(start, stop, dtype)
        if scores is None or not self.from_scores:
            return self.rows(start, stop, dtype), scores
        return softmax(scores), scores


def given_weights(kind: str, weights: Tensor) -> AttentionCall:
    """Weights (batch, head, query, key) that are there as a whole; there is nothing to compute
    again, and nothing to compare.
    """
    n_batch, n_heads, n_queries, n_keys = weights.shape

    def rows(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return weights[:, :, start:stop].to(dtype)

    return AttentionCall(
        kind, n_batch, n_heads, n_queries, n_keys, rows, lambda start, stop, dtype: 0.0
    )


def softmax(scores: Tensor) -> Tensor:
    """A row that sees no key is NaN after the softmax; the kernels give it no weight at all. What
    is NaN before it stays so.
    """
    return without_blind_rows(
        torch.softmax(scores, dim=-1), lambda: (scores == -torch.inf).all(dim=-1, keepdim=True)
    )


def without_blind_rows(weights: Tensor, are_blind: Callable[[], Tensor]) -> Tensor:
    """With 0 in the rows that see no key; asked for only if something is NaN."""
    return weights.masked_fill(are_blind(), 0.0) if bool(weights.sum().isnan()) else weights


def relative_error(ours: Tensor, made: Tensor) -> float:
    size = made.abs().max().double().clamp_min(torch.finfo(torch.float64).tiny)
    return float((ours.double() - made.double()).abs().max() / size)
