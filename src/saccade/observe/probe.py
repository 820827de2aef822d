"""The probe: a fixed batch that is looked at again and again, how to run the model on it, and what is known of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import InputError, shortened
from saccade.observe.attention_statistics import ProbeTokens
from saccade.observe.token_statistics import TokenStatistics


class Probe:
    """A batch as the model takes it: a tensor, a tuple of arguments or a mapping of named ones (as tokenizers give)."""

    def __init__(self, batch: Any) -> None:
        self._args: tuple[Any, ...]
        self._named: dict[str, Any]
        if isinstance(batch, Tensor):
            self._args, self._named = (batch,), {}
        elif isinstance(batch, Mapping):
            self._args, self._named = (), {str(name): value for name, value in batch.items()}
        elif isinstance(batch, list | tuple):
            self._args, self._named = tuple(batch), {}
        else:
            raise InputError(f"the probe must be a tensor, a tuple of arguments or named ones; got {shortened(batch)}.")
        tensors = [value for value in (*self._args, *self._named.values()) if isinstance(value, Tensor) and value.ndim > 0]
        if not tensors:
            raise InputError("the probe holds no tensor; it must be a batch that the model can be called with.")
        if any(tensor.numel() == 0 for tensor in tensors):
            raise InputError("the probe is empty; it must hold at least one sequence of at least one token.")
        self.n_batch = len(tensors[0])
        self._given = self._ids()
        self.ids = None if self._given is None else self._given.clamp_min(0)  # below zero is padding
        self.n_positions = 0 if self.ids is None else self.ids.shape[1]

    def run(self, model: nn.Module, **more: Any) -> Any:
        """The model's answer, called as it is with the probe: another call may mean another mask."""
        named = self._named | more
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        return model(*_moved(self._args, device), **_moved(named, device))

    def first(self) -> Probe:
        """The first sequence alone."""

        def cut(value: Any) -> Any:
            return value[:1] if isinstance(value, Tensor) and value.ndim > 0 and len(value) == self.n_batch else value

        named = {name: cut(value) for name, value in self._named.items()}
        return Probe(named if named else tuple(cut(value) for value in self._args))

    def tokens(self, counted: TokenStatistics | None) -> ProbeTokens | None:
        """What is known of the probe's tokens; None if it holds no token ids."""
        if self.ids is None:
            return None
        is_token = self._is_token()
        decile = informative = None
        if counted is not None:
            decile = torch.as_tensor(counted.decile)[self.ids]
            informative = torch.as_tensor(counted.informative(self.ids.cpu().numpy()))
        return ProbeTokens(is_token, self._document_starts(is_token), decile, informative)

    def documents(self) -> list[Any]:
        """Token ids of each sequence without padding."""
        return [row[kept].numpy() for row, kept in zip(self.ids, self._is_token(), strict=True)] if self.ids is not None else []

    def _is_token(self) -> Tensor:
        """False on padding: what the attention mask says, and ids below zero."""
        mask = self._named.get("attention_mask")
        whole = torch.as_tensor(self._given) >= 0
        return whole if mask is None or mask.ndim != 2 else whole & mask.bool().cpu()

    def _ids(self) -> Tensor | None:
        named = self._named.get("input_ids")
        candidates = [named] if named is not None else list(self._args[:1])
        whole = [
            c for c in candidates if isinstance(c, Tensor) and c.ndim == 2 and not c.is_floating_point() and c.dtype != torch.bool
        ]
        return whole[0].detach().cpu().long() if whole else None

    def _document_starts(self, is_token: Tensor) -> Tensor:
        """Where each token's document starts: at its last position 0 if the batch has `position_ids`, else at the first token."""
        positions = torch.arange(is_token.shape[1]).expand_as(is_token)
        packed = self._named.get("position_ids")
        if packed is not None and packed.shape == is_token.shape:
            return (positions - packed.cpu()).clamp_min(0)
        return is_token.cpu().int().argmax(dim=1, keepdim=True).expand_as(positions)


def _moved(values: Any, device: torch.device) -> Any:
    if isinstance(values, Mapping):
        return {name: _moved(value, device) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(_moved(value, device) for value in values)
    return values.to(device) if isinstance(values, Tensor) else values
