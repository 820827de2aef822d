"""Where a number comes from: versions and machine, as plain text values."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("saccade", "jax", "jaxlib", "optax", "numpy", "scipy", "xarray", "zarr", "matplotlib", "torch")


@cache
def provenance() -> dict[str, str]:
    """Versions of everything that can move a number, and the machine's kind."""
    versions = {f"version_{name}": found for name in _PACKAGES if (found := _version(name))}
    machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": str(os.cpu_count())}
    return machine | versions


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
