"""Observations on disk as they are made: a file each, whole or not there, so that a killed run keeps all it has finished.

`OUT/observations/000000001000.npz` holds one observation, `about.json` beside it what they mean; together they are a record.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError
from saccade.records.schema import make_record

if TYPE_CHECKING:
    import xarray as xr

Observation = dict[str, np.ndarray]


class ObservationLog:
    """Observations by step, in memory and, if there is a folder, on disk as well."""

    def __init__(self, folder: str | Path | None, about: dict[str, Any]) -> None:
        self._folder = None if folder is None else Path(folder)
        self.about = about
        self.observations: dict[int, Observation] = {}
        if self._folder is not None:
            if self._folder.is_file():
                raise InputError(f"{self._folder} is a file; `out` must be a new folder.")
            if self._folder.exists() and any(self._folder.iterdir()):
                raise InputError(f"{self._folder} is not empty; give `out` a new folder, or None to keep all in memory.")

    def open(self) -> None:
        """Make the folder; before it nothing is written."""
        if self._folder is not None:
            try:
                (self._folder / "observations").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot write to {self._folder}: {error.strerror or error}.") from None
            self.write_about()

    def write_about(self) -> None:
        if self._folder is not None:
            _replaced(self._folder / "observations" / "about.json", json.dumps(self.about, indent=1).encode())

    def append(self, step: int, observation: Observation) -> None:
        self.observations[step] = observation
        if self._folder is not None:
            target = self._folder / "observations" / f"{step:012d}.npz"
            unfinished = target.with_suffix(".unfinished")
            with unfinished.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **observation)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(target)

    def record(self) -> xr.Dataset:
        return as_record(self.observations, self.about)


def watched(folder: str | Path) -> xr.Dataset:
    """The record of a watched run that is still going on, or was killed: every observation that was finished."""
    path = Path(folder)
    try:
        about = json.loads((path / "observations" / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{path} is not the folder of a watched run: it has no readable observations/about.json.") from None
    observations = {}
    for file in sorted((path / "observations").glob("*.npz")):
        try:
            with np.load(file, allow_pickle=False) as arrays:
                observations[int(file.stem)] = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, zipfile.BadZipFile):
            raise InputError(f"{file} is damaged; move it away to read the other observations.") from None
    if not observations:
        raise InputError(f"{path} holds no finished observation yet.")
    return as_record(observations, about)


def as_record(observations: dict[int, Observation], about: dict[str, Any]) -> xr.Dataset:
    """Observations along the axis time; a value that one observation lacks is missing there."""
    steps = sorted(observations)
    axes: dict[str, list[str]] = about["axes"]
    names = [name for name in axes if any(name in observations[step] for step in steps)]
    variables: dict[str, Any] = {}
    for name in names:
        known = [observations[step][name] for step in steps if name in observations[step]]
        shape = [max(sizes) for sizes in zip(*(values.shape for values in known), strict=True)]
        whole = np.full((len(steps), *shape), np.nan, known[0].dtype)
        for row, step in enumerate(steps):
            if name in observations[step]:
                part: Any = (row, *(slice(size) for size in observations[step][name].shape))
                whole[part] = observations[step][name]
        variables[name] = (("time", *axes[name]), whole)
    coords: dict[str, Any] = {"time": steps} | {name: (axis, values) for name, (axis, values) in about["coords"].items()}
    used = {axis for name in names for axis in axes[name]} | {"time"}
    return make_record(
        dynamics="watched training run",
        variables=variables,
        coords={name: value for name, value in coords.items() if name == "time" or value[0] in used},
        time_unit="updates",
        config=about["config"],
        wall_time=about["wall_time_s"],
        definitions={name: tuple(pair) for name, pair in about["definitions"].items()},
    )


def _replaced(path: Path, content: bytes) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)
