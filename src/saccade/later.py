"""JAX, Optax and xarray, loaded at their first use.

    from saccade.later import Array, jax, jnp

They cost most of a second. A run that C and NumPy do alone needs no JAX, and xarray only for its
record, so that it loads while other runs go on. `Array` is a name for annotations only.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["Array", "flatten_util", "jax", "jnp", "optax", "tell", "tree", "xr"]

T = TypeVar("T", bound=type)
_unknown: list[tuple[type, list[str], list[str]]] = []  # dataclasses that JAX has yet to be told of
_telling = threading.Lock()


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # tools that look at every global of a module need not load it
            raise AttributeError(name)
        module = importlib.import_module(self.__name__)
        tell()
        self.__dict__.update(vars(module))  # from now on as fast as the module itself
        return getattr(module, name)


if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
    import xarray as xr
    from jax import Array, flatten_util
else:
    jax, jnp, flatten_util, optax, xr = map(
        _Later, ("jax", "jax.numpy", "jax.flatten_util", "optax", "xarray")
    )
    Array = Any


def tree(data_fields: list[str], meta_fields: list[str]) -> Callable[[T], T]:
    """A dataclass that JAX can take apart: `jax.tree_util.register_dataclass`, put off until JAX is
    there.
    """

    def known(kind: T) -> T:
        _unknown.append((kind, data_fields, meta_fields))
        tell()
        return kind

    return known


def tell() -> None:
    """Registers what is not yet registered, if JAX is there, be it loaded by us or by the user."""
    if not _unknown or "jax" not in sys.modules:
        return
    with _telling:  # another thread must not go on before all is told
        register = importlib.import_module("jax.tree_util").register_dataclass
        while _unknown:
            register(*_unknown[-1])
            _unknown.pop()
