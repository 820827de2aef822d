"""Observe a model without a trace: after the block everything is bit for bit as it was before.

Kept: modules and their modes, gradients, buffers, embeddings with a largest norm, plain attributes
with the tensors, arrays, lists and dictionaries in them, configurations, the state of all random
generators. The look itself is in evaluation mode, without gradients, and runs compiled parts as
plain Python, so that their calls can be seen. Limit: what a pass changes inside other objects that
a module holds stays as the pass left it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from saccade.errors import InputError


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    kept = list(_written_by_passes(model))
    values = [None if tensor is None else tensor.detach().clone() for _, _, tensor in kept]
    attributes = _Held(modes)
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # the user's global generator is what must not move
    accelerators = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with (
            torch.random.fork_rng(devices=accelerators),
            torch.no_grad(),
            torch.compiler.set_stance("force_eager"),
        ):
            for module in modes:
                module.training = (
                    False  # not .eval(): modules may override it, and merge weights say
                )
            # The same random numbers in every look, for models that draw some even now, masked
            # patches say.
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            torch.default_generator.manual_seed(
                0
            )  # `torch.manual_seed` would also seed accelerators that have not started, for good
            if torch.cuda.is_initialized():
                torch.cuda.manual_seed_all(0)
            yield
    finally:
        for module, training in modes.items():
            module.training = training
            if hasattr(module, "reshard") and hasattr(module, "unshard"):  # FSDP2
                module.reshard()  # type: ignore[operator]  # the outermost would stay gathered, and updates would pass it by
        attributes.put_back()
        # The same tensors in their places, with the values they had; buffers that the pass made go.
        known = {(id(place), name) for place, name, _ in kept}
        for place, name, _ in list(_written_by_passes(model)):
            if (id(place), name) not in known:
                del place[name]
        with torch.no_grad():
            for (place, name, was), value in zip(kept, values, strict=True):
                place[name] = was
                if was is not None and value is not None:
                    _write(was, value)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


_Place = tuple[
    dict[str, Any], str, torch.Tensor | None
]  # the dictionary of a module that holds a tensor, its name there, and it


def _written_by_passes(model: nn.Module) -> Iterator[_Place]:
    """What a forward pass may write even in evaluation mode: buffers, a cache of positions say, and
    embeddings kept to a norm.
    """
    for module in model.modules():
        yield from ((module._buffers, name, tensor) for name, tensor in module._buffers.items())
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            yield module._parameters, "weight", module.weight


_OWN = {"_parameters", "_buffers", "training"}  # of a module, seen to elsewhere


class _Held:
    """Attributes of modules, and of the lists, dictionaries, tensors, arrays and configurations in
    them, as they are now.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._dictionaries: dict[
            int, tuple[dict, dict]
        ] = {}  # by identity: the dictionary, and what it holds now
        self._sequences: dict[int, tuple[Any, list]] = {}
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._arrays: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for module in modules:
            self._keep_dictionary(vars(module))

    def _keep_dictionary(self, place: dict[Any, Any]) -> None:
        if id(place) not in self._dictionaries:
            self._dictionaries[id(place)] = place, dict(place)
            for name, value in place.items():
                if name not in _OWN:
                    self._keep(value)

    def _keep(self, value: Any) -> None:
        if isinstance(value, dict):
            self._keep_dictionary(value)
        elif isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
            self._tensors.setdefault(id(value), (value, value.detach().clone()))
        elif isinstance(value, np.ndarray):
            if value.flags.writeable and not isinstance(
                value, np.memmap
            ):  # which is a file, of all data perhaps
                self._arrays.setdefault(id(value), (value, value.copy()))
        elif isinstance(value, list | deque | set):
            if id(value) not in self._sequences:
                self._sequences[id(value)] = value, list(value)
                for each in value:
                    self._keep(each)
        elif isinstance(value, tuple):
            for each in value:
                self._keep(each)
        elif (  # configurations and caches, which passes write into; others may belong to anyone
            hasattr(value, "__dict__")
            and not isinstance(value, nn.Module | type)
            and (hasattr(value, "to_dict") or "cache" in type(value).__name__.lower())
        ):
            self._keep_dictionary(vars(value))

    @torch.no_grad()
    def put_back(self) -> None:
        for place, before in self._dictionaries.values():
            if len(place) != len(before) or any(
                place.get(name, place) is not value for name, value in before.items()
            ):
                place.clear()
                place.update(before)
        for place, entries in self._sequences.values():
            if len(place) != len(entries) or any(
                now is not then for now, then in zip(place, entries, strict=True)
            ):
                place.clear()
                (place.update if isinstance(place, set) else place.extend)(entries)
        for tensor, value in self._tensors.values():
            _write(tensor, value)
        for array, numbers in self._arrays.values():
            np.copyto(array, numbers)


def _write(tensor: torch.Tensor, value: torch.Tensor) -> None:
    if tensor.shape != value.shape:  # resized in place
        tensor.data = value
    elif not torch.equal(tensor, value):
        tensor.copy_(value)  # others may hold views of it


def is_spread(model: nn.Module) -> bool:
    """Whether each process holds a part of the weights and gathers the rest as it runs (FSDP2):
    then all must look together.

    Other ways to spread weights are refused: a look by one process alone would wait for the others
    for ever.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return False
    from torch.distributed.fsdp import (
        FSDPModule,
        FullyShardedDataParallel,
    )  # slow to import, and nothing is sharded without
    from torch.distributed.tensor import DTensor, Replicate

    spread = [parameter for parameter in model.parameters() if isinstance(parameter, DTensor)]
    is_cut_twice = any(
        sum(not isinstance(place, Replicate) for place in each.placements) > 1 for each in spread
    )
    is_gathered = any(isinstance(module, FSDPModule) for module in model.modules())
    is_older = any(isinstance(module, FullyShardedDataParallel) for module in model.modules())
    if is_older or is_cut_twice or (spread and not is_gathered):
        raise InputError(
            "this model's weights are spread over processes in a way that cannot be gathered (FSDP of the first kind, or tensor "
            "parallel); use `fully_shard`, or measure its checkpoints with `saccade.observe_checkpoints`."
        )
    return bool(spread)


def check_whole(model: nn.Module) -> None:
    """Refuse a model of which each process holds a part."""
    if is_spread(model):
        raise InputError(
            "this model's weights are spread over processes; `drive` needs whole weights."
        )


def unwrapped(model: nn.Module) -> nn.Module:
    """The module a user wrote, inside `torch.compile` and `DistributedDataParallel`: looking at it
    starts no collective call.
    """
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(
            model, nn.parallel.DistributedDataParallel | nn.DataParallel
        ):
            inner = model.module
        if inner is None:
            return model
        model = inner
