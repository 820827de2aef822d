"""A look at a model that leaves no trace: after the block everything is bit for bit as it was before.

Kept: training and evaluation mode of every module, gradients, buffers, the state of all random generators. The look itself is in
evaluation mode, without gradients, and runs compiled parts as plain Python, so that their calls can be seen.
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
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # the user's global generator is what must not move
    accelerators = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=accelerators), torch.no_grad(), torch.compiler.set_stance("force_eager"):
            model.eval()
            yield
    finally:
        for module, training in modes.items():
            module.training = training  # not .train(): modules may override it, and children have modes of their own
        _put_back(model, buffers)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _put_back(model: nn.Module, buffers: dict[str, torch.Tensor]) -> None:
    """A forward pass may write into buffers even in evaluation mode, a cache of positions say."""
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name in buffers and buffer.shape == buffers[name].shape and not torch.equal(buffer, buffers[name]):
                buffer.copy_(buffers[name])


def unwrapped(model: nn.Module) -> nn.Module:
    """The module a user wrote, inside `torch.compile` and `DistributedDataParallel`: looking at it starts no collective call."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner
