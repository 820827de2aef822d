"""Tensors that a module keeps from one pass for the next, as plain attributes: memories of
Transformer-XL, say.

They have the number of sequences of the batch they were made of, and a probe of another number
cannot be run with them. Nothing says which attributes are such memories, so what a model holds is
used in a look as it is, and only where that fails are those left out that have another shape than
before training. Where the model held some when watching began, what it was before is not known, and
the user is told their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

_SHOWN = 3  # attributes that a message names
_MISSING = object()
_Shapes = tuple[tuple[int, ...], ...]


class Memories:
    """What modules held before training, and what they hold of it now."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._before = {
            (name, attribute): _copied(value) for name, attribute, value in _attributes(model)
        }

    def new(self) -> list[str]:
        """Attributes that have tensors of other shapes than before training."""
        return [_path(name, attribute) for name, attribute, _ in self._changed()]

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """With those attributes as they were before training."""
        changed = list(self._changed())
        for name, attribute, _ in changed:
            _set(
                self._model.get_submodule(name),
                attribute,
                _copied(self._before.get((name, attribute), _MISSING)),
            )
        try:
            yield
        finally:
            for name, attribute, value in changed:
                _set(self._model.get_submodule(name), attribute, value)

    def _changed(self) -> Iterator[tuple[str, str, Any]]:
        for name, attribute, value in _attributes(self._model):
            if (shapes := _shapes(value)) and shapes != _shapes(
                self._before.get((name, attribute))
            ):
                yield name, attribute, value


def hint(model: nn.Module) -> str:
    """A sentence for a model that cannot be run and holds such tensors; nothing for others."""
    held = [
        f"`{_path(name, attribute)}` of shape {shapes[0]}"
        for name, attribute, value in _attributes(model)
        if (shapes := _shapes(value))
    ]
    if not held:
        return ""
    return (
        f" The model holds tensors as plain attributes ({', '.join(held[:_SHOWN])}). If they are left from an earlier pass, put "
        "back what a new model has there before watching begins, or give a probe of one sequence where they are of one."
    )


def _attributes(model: nn.Module) -> Iterator[tuple[str, str, Any]]:
    """Plain ones: name of the module, of the attribute, and its value."""
    own = vars(nn.Module())
    for name, module in model.named_modules():
        yield from (
            (name, attribute, value)
            for attribute, value in vars(module).items()
            if attribute not in own
        )


def _shapes(value: Any) -> _Shapes:
    """Of the tensors in it that may have an axis of sequences."""
    if isinstance(value, Tensor):
        return (tuple(value.shape),) if value.ndim > 1 else ()
    if isinstance(value, list | tuple):
        return tuple(shape for each in value for shape in _shapes(each))
    return ()


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def _set(module: nn.Module, attribute: str, value: Any) -> None:
    if value is _MISSING:
        vars(module).pop(attribute, None)
    else:
        vars(module)[attribute] = value


def _path(name: str, attribute: str) -> str:
    return f"{name}.{attribute}" if name else attribute
