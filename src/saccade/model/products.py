"""Products of matrices in training, by oneDNN where PyTorch has it.

For float32 PyTorch's own choice is MKL, which leaves half the width of the registers of AMD's processors unused. oneDNN, which
comes with PyTorch, uses all of it: 350 x 200 times 200 x 2,000 at 250 Gflop/s on one thread of a Zen 5, where MKL has 115.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_in_training: ContextVar[bool] = ContextVar("_in_training", default=False)
# The operator that PyTorch's compiler puts in the place of linear maps; a build without oneDNN has none.
_by_onednn = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right` of matrices, not to be differentiated."""
    if _by_onednn is None or left.dtype != torch.float32 or left.device.type != "cpu" or not left.numel() or not right.numel():
        return left @ right
    return _by_onednn(left, right.T, None, "none", [], "")


@contextmanager
def fast_products() -> Iterator[None]:
    """Within it `Linear` is made of `product`: without second derivatives, transforms of functions and changes of the dtype."""
    before = _in_training.set(True)
    try:
        yield
    finally:
        _in_training.reset(before)


class Linear(nn.Linear):
    """`nn.Linear`, faster within `fast_products`."""

    def forward(self, x: Tensor) -> Tensor:
        return _Linear.apply(x, self.weight, self.bias) if _in_training.get() else super().forward(x)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        rows = product(x.flatten(0, -2), weight.T)
        return (rows if bias is None else rows.add_(bias)).view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), wanted, rows = ctx.saved_tensors, ctx.needs_input_grad, slope.flatten(0, -2)
        to_x = product(rows, weight).view_as(x) if wanted[0] else None
        return to_x, product(rows.T, x.flatten(0, -2)) if wanted[1] else None, rows.sum(0) if wanted[2] else None
