"""`saccade.mark_attention(weights)`: a model's author says which tensor is attention, where it cannot be
seen from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from saccade.errors import InputError

_listeners: list[Callable[[Tensor, Tensor | None], None]] = []


def mark_attention(weights: Tensor, visible: Tensor | None = None) -> Tensor:
    """Call it in a forward pass on attention weights that you compute yourself. It returns them
    unchanged.

    | argument  | meaning                                                                                                      |
    |-----------|--------------------------------------------------------------------------------------------------------------|
    | `weights` | (sequence, head, query, key): a row sums to one, or is zero where a query sees no key                        |
    | `visible` | true where a key is visible, of a shape that broadcasts to that of the weights; default: weights above 1e-30 |

    Call it before the product with values. It does nothing unless the model is watched. These
    weights cannot be checked against what the model computes, only that they sum to one.
    """
    if _listeners and not torch.compiler.is_compiling():
        if not isinstance(weights, Tensor) or weights.ndim != 4 or not weights.is_floating_point():
            raise InputError(
                "`saccade.mark_attention` takes weights with axes (sequence, head, query, key)."
            )
        total = weights.detach().sum(dim=-1).float()
        if not bool(((total - 1).abs() < 0.01).logical_or(total == 0).all()) or bool(
            (weights.detach() < 0).any()
        ):
            raise InputError(
                "rows of the weights given to `saccade.mark_attention` must be at least 0 and sum to one, or be zero."
            )
        _listeners[-1](weights, visible)
    return weights


@contextmanager
def listening(listener: Callable[[Tensor, Tensor | None], None]) -> Iterator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.pop()
