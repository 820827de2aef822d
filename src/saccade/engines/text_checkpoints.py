"""Checkpoints of a training run on text; a resumed run ends with bit-identical weights.

`FOLDER/checkpoint-000000000512/` holds the weights before update 512 (`model.safetensors`, as
`observe_checkpoints` reads them); while it is the newest also the optimiser's memory (`state.pt`,
read as tensors and plain containers only) and the record so far. It is written beside its place and
moved there whole. Batches and dropout have addresses (`training_batches.py`), so no state of a
generator needs to be kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from saccade.errors import InputError, shortened
from saccade.identity import computation, digest
from saccade.places import user_cache
from saccade.records.checksums import damage, seal, sealed_folder
from saccade.records.json_files import json_ready, read_json, write_json
from saccade.records.store import load_record, save_record
from saccade.records.writing import draft_file

if TYPE_CHECKING:
    import xarray as xr

_KEPT = ("model.safetensors", "settings.json")  # of a checkpoint that is not the newest
_MOST_APART = 1000  # steps between checkpoints: what a killed run loses at most


class Resumed(NamedTuple):
    """Where a run was: the step whose update comes next, and what had been seen until then, that
    step included.
    """

    step: int
    record: xr.Dataset


def resumed_from(resumable: bool, *run: Any) -> Path | None:
    """A folder in the user's cache that is named by all that a run is made of; None for one that is
    not to be resumed.

    A run that is finished is read from there, not trained again. Other code has folders of its own;
    to train with the same code again, delete `~/.cache/saccade/training`.
    """
    cache = user_cache("training") if resumable else None
    return None if cache is None else cache / digest([computation(), repr(run)])[:16]


def checkpoint_steps(looks: np.ndarray) -> set[int]:
    """Of the steps that are looked at: the first, those twice as late as the one before or
    `_MOST_APART` later, and the last.
    """
    chosen = [int(looks[0])]
    for step in looks.tolist():
        if step >= min(max(1, 2 * chosen[-1]), chosen[-1] + _MOST_APART):
            chosen.append(step)
    return {*chosen, int(looks[-1])}


class Checkpoints:
    """The checkpoints of one run in `folder`; `settings` is what must be the same to go on with it."""

    def __init__(self, folder: str | Path, settings: Mapping[str, Any], *, resume: bool) -> None:
        self._folder = Path(folder)
        self._settings = json_ready(settings, str)
        if self._folder.is_file():
            raise InputError(f"{self._folder} is a file; `checkpoints` must be a folder.")
        if not resume and any(self._folder.glob("checkpoint-*")):
            raise InputError(
                f"{self._folder} already holds a run: resume it with `resume=True`, or give `checkpoints` a new folder."
            )

    def resumed(self, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> Resumed | None:
        """The newest checkpoint, with `model` and `optimiser` put into its state; None if there is
        none.
        """
        found = sorted(path.parent for path in self._folder.glob("checkpoint-*/state.pt"))
        if not found and any(self._folder.glob("checkpoint-*")):
            raise InputError(
                f"{self._folder} holds checkpoints, but no state.pt to resume from; give `checkpoints` a new folder."
            )
        return self._restored(found[-1], model, optimiser) if found else None

    def save(
        self,
        step: int,
        model: torch.nn.Module,
        optimiser: torch.optim.Optimizer,
        record: xr.Dataset,
    ) -> None:
        """Whole or not at all; an `InputError` if it cannot be written."""
        path = self._folder / f"checkpoint-{step:012d}"
        with sealed_folder(path) as folder:
            from safetensors import SafetensorError
            from safetensors.torch import save_model

            try:
                save_model(model, str(folder / "model.safetensors"))  # knows of tied tables
                with draft_file(folder, "state.pt") as file:
                    torch.save({"step": step, "optimiser": optimiser.state_dict()}, file)
            except (SafetensorError, RuntimeError) as error:  # how they say that the disk is full
                raise InputError(f"cannot write to {folder.parent}: {shortened(error)}.") from None
            save_record(record, folder / "record.zarr")
            write_json(folder / "settings.json", self._settings)
        # Of older checkpoints only the weights stay.
        for older in self._folder.glob("checkpoint-*"):
            if (
                older != path and (older / "state.pt").exists() and not damage(older)
            ):  # a damaged one stays as it is, to be seen
                seal(
                    older, [name for name in _KEPT if (older / name).exists()]
                )  # first, so that what goes is not missed
                shutil.rmtree(older / "record.zarr", ignore_errors=True)
                with suppress(OSError):
                    (older / "state.pt").unlink()  # last: while it is there, this is done again

    def _restored(
        self, path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer
    ) -> Resumed:
        from safetensors.torch import load_model

        from saccade.watching.checkpoints.tensors import UnreadableError, read_pickle

        wrong = damage(path)
        if wrong:
            raise InputError(
                f"{path} cannot be read ({wrong}); move it away to start from the beginning."
            )
        try:
            before = read_json(path / "settings.json")
            for name, now in self._settings.items():
                then = before.get(name)
                if then != now:
                    raise InputError(
                        f"{self._folder} holds another run: its `{name}` was {shortened(then)}, now it is {shortened(now)}; "
                        "give `checkpoints` a new folder."
                    )
            load_model(model, str(path / "model.safetensors"))
            state = read_pickle(path / "state.pt")
            optimiser.load_state_dict(state["optimiser"])
            return Resumed(int(state["step"]), load_record(path / "record.zarr"))
        except InputError:
            raise
        except UnreadableError as error:
            raise InputError(f"{error} Move {path} away to start from the beginning.") from None
        except Exception as error:  # damaged files fail in any way: SafetensorError, EOFError, RuntimeError, KeyError, ...
            raise InputError(
                f"{path} cannot be read ({shortened(error)}); move it away to start from the beginning."
            ) from None


def continued(earlier: xr.Dataset, later: xr.Dataset, step: int) -> xr.Dataset:
    """One record from two: looks up to `step` from the first, those after it from the second, what
    has no time from the second.
    """
    import xarray as xr

    changed = [
        str(axis)
        for axis, size in earlier.sizes.items()
        if axis != "time" and later.sizes.get(axis, size) != size
    ]
    if changed:
        raise InputError(
            f"the measurements have other sizes than in the run to be resumed, along {', '.join(changed)}."
        )
    constant = {name: later[name] for name in later.data_vars if "time" not in later[name].dims}
    before = earlier.sel(time=earlier["time"] <= step).drop_vars(list(constant), errors="ignore")
    after = later.sel(time=later["time"] > step).drop_vars(list(constant))
    whole = xr.concat(
        [before, after],
        dim="time",
        data_vars="all",
        coords="minimal",
        compat="override",
        combine_attrs="override",
    )
    whole.attrs = later.attrs | {
        "wall_time_s": round(earlier.attrs["wall_time_s"] + later.attrs["wall_time_s"], 3)
    }
    return whole.assign(constant)
