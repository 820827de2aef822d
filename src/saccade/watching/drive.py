r"""What drives attention in anybody's model: $F_h = -\partial L/\partial(W_Q W_K^\top)$ of every
head, from a few backward passes.

With all query weights at zero, attention is uniform whatever the keys are, and $-\partial
L/\partial W_Q = F W_K$ holds exactly. So blocks of basis vectors in the place of $W_K$ read F off
the gradient: width / head width passes for all heads at once, whatever kernel computes attention.
Near that point, $\dot W_Q = F W_K$ and $\dot W_K = F^\top W_Q$ [chen2025, Proposition 3]: a head
opens along the top singular pair of its F, at the rate of its singular value.

Left out: biases of queries and keys (taken as zero), and the motion of F itself, which is why a
forecast is good only once F has settled. Refused: queries and keys that are rotated (RoPE) or
normalised, where no single matrix drives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from saccade.errors import InputError, checked_kind, checked_number
from saccade.watching.attention_weights import HeadWeights, attention_weights
from saccade.watching.undisturbed import check_whole, undisturbed, unwrapped

Array = NDArray[np.float64]
_BILINEAR = 1e-2  # relative error of -dL/dW_Q = F W_K at random keys above which they are not plain; float32 leaves 1e-5
_SETTLED = 0.25  # largest change of F, relative and per e-folding of the fastest head; fixed before its trial on held-out tasks


@dataclass(frozen=True)
class AttentionDrive:
    """F of every head, and what it says. Arrays have the axes (layer, head, ...).

    | field       | meaning                                                                                                     |
    |-------------|-------------------------------------------------------------------------------------------------------------|
    | `layers`    | names of the attention modules                                                                              |
    | `matrix`    | F: input of the queries by input of the keys                                                                |
    | `rate`      | s1, largest singular value: growth per step at learning rate 1                                              |
    | `gap`       | s2 / s1: near 0 the head opens with rank one, near 1 with more                                              |
    | `query_to`  | u1, what of the input the queries will read                                                                 |
    | `key_to`    | v1, what of the input they will look for                                                                    |
    | `amplitude` | norm of (u1 W_Q + v1 W_K) / 2 now: what has to grow                                                         |
    | `opened`    | relative error of -dL/dW_Q = F W_K at the model's own weights: near 0 attention is uniform and F applies;   |
    |             | near 1 or beyond the head is open, and F says nothing about it                                              |
    """

    layers: tuple[str, ...]
    matrix: Array
    rate: Array
    gap: Array
    query_to: Array
    key_to: Array
    amplitude: Array
    opened: Array

    limits: ClassVar[str] = (
        "F is that of now, with uniform attention: at step 0 the other weights have not settled, and forecasts fail. Compare two "
        "of them with `moved` before you trust one. It is about plain gradient descent: under Adam query weights grow linearly in "
        "time, and neither order nor time are forecast. Where several query heads share a key, its rate is theirs together, not "
        "each one's."
    )

    def wait(self, lr: float, level: float = 0.2, momentum: float = 0.0) -> Array:
        """Steps of gradient descent until the amplitude of each head reaches `level`: ln(level /
        amplitude) / (lr s1).

        NaN for a head that is there already.
        """
        step = checked_number("lr", lr, low=0.0, open_low=True) / (
            1 - checked_number("momentum", momentum, low=0.0, high=0.999)
        )
        with np.errstate(divide="ignore"):
            wait = np.log(
                checked_number("level", level, low=0.0, open_low=True) / self.amplitude
            ) / (step * self.rate)
        return np.where(self.amplitude < level, wait, np.nan)

    def first(self, lr: float = 1.0, level: float = 0.2) -> tuple[str, int]:
        """Layer and head that open first, of those that are not open yet."""
        wait = self.wait(lr, level)
        if np.isnan(wait).all():
            raise InputError(
                f"all heads have an amplitude of {level:g} or more, so all are open already; pass a higher `level`."
            )
        layer, head = np.unravel_index(np.nanargmin(wait), self.rate.shape)
        return self.layers[layer], int(head)

    def moved(self, before: AttentionDrive, steps: float, lr: float) -> float:
        """Relative change of F of the fastest head since an earlier one, per e-folding of that
        head.
        """
        at = np.unravel_index(np.nanargmax(self.rate), self.rate.shape)
        change = np.linalg.norm(self.matrix[at] - before.matrix[at]) / np.linalg.norm(
            self.matrix[at]
        )
        return float(change / (steps * lr * self.rate[at]))

    def settled(self, before: AttentionDrive, steps: float, lr: float) -> bool:
        """Whether F moves slowly enough for a forecast."""
        return self.moved(before, steps, lr) < _SETTLED

    def __str__(self) -> str:
        rows = [
            f"{name}, head {h}: rate {self.rate[i, h]:.3g}, s2/s1 {self.gap[i, h]:.2g}, amplitude {self.amplitude[i, h]:.2g}"
            f"{', open' if self.opened[i, h] > 0.5 else ''}"
            for i, name in enumerate(self.layers)
            for h in range(self.rate.shape[1])
            if np.isfinite(self.rate[i, h])
        ]
        return "\n".join([*rows, self.limits])


def attention_drive(
    model: nn.Module, loss: Callable[[nn.Module, Any], Tensor], batch: Any
) -> AttentionDrive:
    """Predict which head of a model opens first, in which direction and how fast: F of every head
    at uniform attention.

    | argument | meaning                                                                                                        |
    |----------|----------------------------------------------------------------------------------------------------------------|
    | `model`  | any module whose query and key weights have known names; if not, the error lists its matrices                |
    | `loss`   | `loss(model, batch)`, the training loss as one number; it is called width / head width times, and twice more   |
    | `batch`  | what it is called with: a large one, since F of a small one is noisy                                           |

    Modes, weights, gradients and random generators are left as they were. Dropout is off. The
    result's `limits` says what it cannot predict: nothing at step 0, nothing under Adam.
    """
    inner = unwrapped(checked_kind("model", model, nn.Module))
    check_whole(inner)
    heads, unread = attention_weights(inner)
    if not heads:
        raise InputError(f"`model` has no attention whose weights can be read: {' '.join(unread)}")
    if not callable(loss):
        raise InputError(
            "`loss` must be a function of the model and the batch that gives one number."
        )
    with undisturbed(inner), torch.enable_grad():
        reading = _Reading(inner, list(heads.values()), lambda: loss(inner, batch))
        now = [
            _Now(each.query.detach().clone(), each.key.detach().clone()) for each in heads.values()
        ]
        slopes = reading.slopes()
        with reading.kept():
            drives = reading.drives()
    found = []
    for F, (query, key), slope in zip(drives, now, slopes, strict=True):
        U, s, Vt = np.linalg.svd(F.numpy())
        u, v = U[:, :, 0], Vt[:, 0]
        Q, K = query.to("cpu", torch.float64).numpy(), _for_queries(key, F).numpy()
        amplitude = (
            np.linalg.norm(np.einsum("hki,hi->hk", Q, u) + np.einsum("hki,hi->hk", K, v), axis=1)
            / 2
        )
        gap = (
            np.divide(s[:, 1], s[:, 0], out=np.full(len(s), np.nan), where=s[:, 0] > 0)
            if s.shape[1] > 1
            else 0 * s[:, 0]
        )
        found.append((F.numpy(), s[:, 0], gap, u, v, amplitude, _mismatch(slope, F, key).numpy()))
    return AttentionDrive(tuple(heads), *(_filled(parts) for parts in zip(*found, strict=True)))


class _Now(NamedTuple):
    """Weights of one module as they are."""

    query: Tensor
    key: Tensor


class _Reading:
    """Gradients of query weights by head, at weights that are put in their place for a while."""

    def __init__(
        self, model: nn.Module, heads: list[HeadWeights], loss: Callable[[], Tensor]
    ) -> None:
        self._heads, self._loss = heads, loss
        self._parameters = {p.untyped_storage().data_ptr(): p for p in model.parameters()}
        views = [view for each in heads for view in (each.query, each.key)]
        if any(view.untyped_storage().data_ptr() not in self._parameters for view in views):
            raise InputError(
                "query or key weights are computed from other parameters: their gradients cannot be read by head."
            )
        self._owners = {id(owner): owner for owner in map(self._owner, views)}
        biases: dict[int, nn.Parameter] = {}  # by the weight of the same map
        for module in model.modules():
            for weight, bias_name in (
                ("weight", "bias"),
                ("in_proj_weight", "in_proj_bias"),
                ("q_proj_weight", "in_proj_bias"),
            ):
                pair = module._parameters.get(weight), module._parameters.get(bias_name)
                if pair[0] is not None and pair[1] is not None:
                    biases[id(pair[0])] = pair[1]
        found = [
            (biases.get(id(self._owner(each.query))), self._outputs(each.query)) for each in heads
        ]
        self._query_biases = [(bias, rows) for bias, rows in found if bias is not None]

    def _owner(self, view: Tensor) -> nn.Parameter:
        return self._parameters[view.untyped_storage().data_ptr()]

    def _outputs(self, view: Tensor) -> Tensor:
        """Which outputs of the parameter the rows of a view are."""
        owner = self._owner(view)
        stride = owner.stride(0) if view.stride(2) == owner.stride(1) else owner.stride(1)
        heads, rows = (np.arange(n) * view.stride(axis) for axis, n in enumerate(view.shape[:2]))
        begin = int(view.storage_offset()) - int(owner.storage_offset())
        return torch.as_tensor(
            ((heads[:, None] + rows + begin) // int(stride)).ravel(), device=view.device
        )

    @contextmanager
    def kept(self) -> Iterator[None]:
        """All that `drives` writes is put back, bit for bit."""
        written = [*self._owners.values(), *(bias for bias, _ in self._query_biases)]
        values = [each.detach().clone() for each in written]
        try:
            yield
        finally:
            for each, value in zip(written, values, strict=True):
                each.data.copy_(value)

    def slopes(self) -> list[Tensor]:
        """-dL/dW_Q of every module, (head, width of a head, width in), in float64 on the CPU."""
        owners = list(self._owners.values())
        wanted = [owner.requires_grad for owner in owners]
        for owner in owners:
            owner.requires_grad_(True)
        try:
            value = self._loss()
            if not isinstance(value, Tensor) or value.numel() != 1 or not value.isfinite().all():
                raise InputError("`loss` must give one finite number, as a tensor.")
            found = dict(
                zip(
                    self._owners,
                    torch.autograd.grad(value.sum(), owners, allow_unused=True),
                    strict=True,
                )
            )
        finally:
            for owner, before in zip(owners, wanted, strict=True):
                owner.requires_grad_(before)
        parts = [
            self._in_place_of(each.query, found[id(self._owner(each.query))])
            for each in self._heads
        ]
        return [-part.to("cpu", torch.float64) for part in parts]

    def _in_place_of(self, view: Tensor, slope: Tensor | None) -> Tensor:
        """The part of a parameter's gradient that belongs to a view of it."""
        owner = self._owner(view)
        whole = torch.zeros_like(owner) if slope is None else torch.empty_like(owner).copy_(slope)
        return whole.as_strided(
            view.shape, view.stride(), view.storage_offset() - owner.storage_offset()
        )

    @torch.no_grad()
    def _put(self, keys: Callable[[Tensor], Tensor]) -> None:
        """No queries, and these keys. A bias of the keys shifts all logits of a query alike, and so
        changes nothing.

        Through `.data`, which autograd does not count: a loss whose backward pass is still to come
        must not notice.
        """
        for each in self._heads:
            each.query.data.zero_()
            each.key.data.copy_(keys(each.key))
        for bias, rows in self._query_biases:
            bias.data.index_fill_(0, rows, 0.0)

    def drives(self) -> list[Tensor]:
        """F of every module (head, width in, width in), checked at random keys."""
        width, block = (
            max(e.key.shape[2] for e in self._heads),
            min(e.key.shape[1] for e in self._heads),
        )
        found = [
            torch.zeros(
                e.query.shape[0],
                e.query.shape[2],
                e.key.shape[2],
                dtype=torch.float64,
                device="cpu",
            )
            for e in self._heads
        ]
        for begin in range(0, width, block):
            self._put(lambda key, begin=begin: _basis(key, begin, block))  # type: ignore[misc]
            for F, slope in zip(found, self.slopes(), strict=True):
                columns = F[:, :, begin : begin + block]
                columns.copy_(slope[:, : columns.shape[2]].mT)
        drawn = torch.Generator().manual_seed(0)
        self._put(lambda key: torch.randn(key.shape, generator=drawn, device="cpu"))
        for each, F, slope in zip(self._heads, found, self.slopes(), strict=True):
            if not _mismatch(slope, F, each.key).max() < _BILINEAR:
                raise InputError(
                    "queries and keys of this model are rotated (RoPE) or normalised: no single matrix drives them."
                )
        return found


def _basis(key: Tensor, begin: int, block: int) -> Tensor:
    """Keys whose first `block` outputs read inputs `begin` and on, one each; the rest read nothing."""
    keys = torch.zeros_like(key)
    for row in range(min(block, key.shape[2] - begin)):
        keys[:, row, begin + row] = 1.0
    return keys


def _mismatch(slope: Tensor, F: Tensor, key: Tensor) -> Tensor:
    """|-dL/dW_Q - F W_K| over |F W_K| for each head; 0 where both vanish."""
    told = _for_queries(key, F) @ F.mT
    return (slope - told).flatten(1).norm(dim=1) / told.flatten(1).norm(dim=1).clamp_min(1e-30)


def _for_queries(key: Tensor, F: Tensor) -> Tensor:
    """Keys of each query head, in float64 on the CPU; a key may serve several."""
    return key.detach().to("cpu", torch.float64).repeat_interleave(len(F) // len(key), dim=0)


def _filled(parts: Sequence[Array]) -> Array:
    whole = np.full((len(parts), *np.max([part.shape for part in parts], axis=0)), np.nan)
    for place, part in enumerate(parts):
        whole[place][tuple(slice(size) for size in part.shape)] = part
    return whole
