"""Saccade: test what theory says about how attention learns, and watch it learn.

Data with known statistics feeds a model. Engines move its parameters. Measures say what happened.
Theory says what should happen. An experiment asks one question and answers it with claims. The
report only shows.

The names of the stub load on first use: importing Saccade loads neither JAX nor PyTorch and changes
nothing global. More names are in `saccade.models`, `.data`, `.engines`, `.theories`, `.measures`,
`.lab`, `.panels`, `.watching` and `.report`.
"""

from __future__ import annotations

import importlib
import os
import warnings
from contextlib import suppress

from saccade.lazy import attach

__version__ = "0.1.0"
_GIVE_RECORDS = (
    *("train", "train_text", "flow", "reduced_flow", "sweep", "forecast", "load_record"),
    *("watch", "TrainerCallback", "LightningCallback", "observe_checkpoints", "experiment"),
)


def _prepare(name: str) -> None:
    if name in ("System", "Observable"):  # a user's model is written in JAX; the package itself
        importlib.import_module("jax")  # can do without
        importlib.import_module("saccade.later").tell()
    if name in _GIVE_RECORDS:  # from now on records show themselves: `record.saccade`
        importlib.import_module("saccade.report.notebook")


__getattr__, _names = attach(__name__, _prepare)
__all__ = _names


def __dir__() -> list[str]:
    return [*_names, "__version__"]


def _other_owners(folder: str) -> list[str]:
    """Other distributions installed in a folder that own files of a package `saccade`."""
    found = []
    with suppress(OSError):
        for name in os.listdir(folder):
            other, _, ending = name.rpartition(".")
            # By name first: reading what every distribution owns would take longer than the import.
            if ending != "dist-info" or not other.startswith("saccade"):
                continue
            if other != f"saccade_attention-{__version__}":
                with open(os.path.join(folder, name, "RECORD"), encoding="utf-8") as record:
                    if any(line.startswith("saccade/") for line in record):
                        found.append(other.replace("-", " "))
    return found


# An editable install has no distribution in the folder of its sources.
if _others := _other_owners(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))):
    warnings.warn(
        f"{' and '.join(_others)} also installed files into the package `saccade`, and may have "
        "replaced some of saccade-attention's: uninstall all of these, then install "
        "saccade-attention again.",
        stacklevel=2,
    )
