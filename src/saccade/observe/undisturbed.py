"""A look at a model that leaves no trace: after the block everything is bit for bit as it was before.

Kept: training and evaluation mode of every module, gradients, buffers, embeddings with a largest norm, the state of all random
generators. The look itself is in evaluation mode, without gradients, and runs compiled parts as plain Python, so that their calls
can be seen. Limit: a buffer that a pass gives another shape stays as the pass left it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    kept = {name: tensor.detach().clone() for name, tensor in _written_by_passes(model)}
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # the user's global generator is what must not move
    accelerators = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=accelerators), torch.no_grad(), torch.compiler.set_stance("force_eager"):
            model.eval()
            yield
    finally:
        for module, training in modes.items():
            module.training = training  # not .train(): modules may override it, and children have modes of their own
        _put_back(model, kept)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _written_by_passes(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """What a forward pass may write even in evaluation mode: buffers, a cache of positions say, and embeddings kept to a norm."""
    yield from model.named_buffers()
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            yield f"{name}.weight", module.weight


def _put_back(model: nn.Module, kept: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in _written_by_passes(model):
            if name in kept and tensor.shape == kept[name].shape and not torch.equal(tensor, kept[name]):
                tensor.copy_(kept[name])


def unwrapped(model: nn.Module) -> nn.Module:
    """The module a user wrote, inside `torch.compile` and `DistributedDataParallel`: looking at it starts no collective call."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner
