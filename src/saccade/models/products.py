"""Products of matrices in training, by oneDNN where PyTorch has it.

For float32 PyTorch's own choice is MKL, which leaves half the width of the registers of AMD's
processors unused. oneDNN, which comes with PyTorch, uses all of it: 350 x 200 times 200 x 2,000 at
250 Gflop/s on one thread of a Zen 5, where MKL has 115.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# The operator that PyTorch's compiler puts in the place of linear maps; a build without oneDNN has
# none.
_by_onednn = (
    getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if torch.backends.mkldnn.is_available()
    else None
)


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right` of matrices, not to be differentiated."""
    if (
        _by_onednn is None
        or left.dtype != torch.float32
        or left.device.type != "cpu"
        or not left.numel()
        or not right.numel()
    ):
        return left @ right
    return _by_onednn(left, right.T, None, "none", [], "")


class Linear(nn.Linear):
    """`nn.Linear`, faster within `fast_products`."""

    is_fast = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_fast:
            return super().forward(x)
        return _Linear.apply(x.reshape(-1, self.in_features), self.weight, self.bias).view(
            *x.shape[:-1], self.out_features
        )


@contextmanager
def fast_products(model: nn.Module) -> Iterator[None]:
    """Within it each `Linear` of the model is made of `product`.

    Limits: no second derivatives, no transforms of functions, no changes of the dtype.
    """
    maps = [module for module in model.modules() if isinstance(module, Linear)]
    try:
        for one in maps:
            one.is_fast = True
        yield
    finally:
        for one in maps:
            one.is_fast = False


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        made = product(rows, weight.T)
        return made if bias is None else made.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (rows, weight), (to_rows, to_weight, to_bias) = ctx.saved_tensors, ctx.needs_input_grad
        return (
            product(slope, weight) if to_rows else None,
            product(slope.T, rows) if to_weight else None,
            slope.sum(0) if to_bias else None,
        )
