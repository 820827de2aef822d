"""Observations on disk as they are made: a file each, whole or not there, so that a killed run
keeps all it has finished.

`OUT/observations/000000001000.HASH.npz` holds one observation, named by its step and its content.
`about.json` beside them lists them, says what they mean and whether the run has ended, and carries
its own checksum; together they are a record. What is on disk is not held in memory as well, but for
some megabytes: a record reads one observation after the other, and its large arrays, maps over
hundreds of observations, lie in a file without a name that goes with them. What cannot be written,
on a full disk say, is held in memory and tried again with the next one; where that would take too
much memory, every second of those held is lost, and listed.

A run that was stopped goes on in the same folder (`resume`). Where it goes back to an earlier step,
observations from there on are superseded: their files stay, `superseded` in the config lists them,
and the record is of the run that went on.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import math
import os
import re
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError
from saccade.records.checksums import damage, file_hash
from saccade.records.expansion import RATIO, check_archive, check_expansion
from saccade.records.json_files import read_sealed, regular_file, write_sealed
from saccade.records.schema import make_record
from saccade.records.writing import CHECKSUMS, flush, make_folder, whole_file

if TYPE_CHECKING:
    import xarray as xr

Observation = dict[str, np.ndarray]
OBSERVATIONS = "observations"
_NAME = re.compile(r"(\d{12,18})\.([0-9a-f]{16})\.npz")
_ABOUT = {
    "axes": {str: [str]},
    "coords": {str: list},
    "definitions": {str: [str]},
    "config": dict,
    "wall_time_s": (int, float),
    "observations": [str],
    "ended": bool,
}
_REPEATED = (
    "identity",
    "label",
    "every",
    "budget",
    "check",
)  # of the config: what a run that goes on says anew
_OTHERS = "; `saccade.load_record(folder, whole=False)` reads the other observations."
_MOST_HELD = 2**28  # bytes of observations that wait to be written; one is held whatever its size
_MOST_KEPT = (
    2**24
)  # bytes of written observations that are kept as well: of a small model, reading them again takes a quarter of closing
_LARGE = 2**26  # bytes: larger arrays of a record are laid on disk, if there is a folder
_MOST_IN_MEMORY = 2**30  # bytes of one that is held in memory instead, if the disk is full


class ObservationLog:
    """Observations by step: on disk if there is a folder and room, else in memory.

    `resume`: go on with the run in the folder, if there is one. It must have the same `identity` in
    its config.
    """

    def __init__(
        self, folder: str | Path | None, about: dict[str, Any], *, resume: bool = False
    ) -> None:
        self._folder = None if folder is None else Path(folder)
        self.about = about
        self.observations: dict[int, Observation | Path] = {}
        self._kept: dict[Path, Observation] = {}  # of those on disk, the first ones
        self._is_taken = False  # whether the folder is this run's
        self._lock: int | None = None  # held as long as this process may write there
        self.is_resumed = False
        if self._folder is not None:
            if self._folder.exists() and not self._folder.is_dir():
                raise InputError(f"{self._folder} is a file; `out` must be a new folder.")
            if resume and (self._folder / OBSERVATIONS).is_dir():
                self._resume(self._folder)
            else:
                self._check_is_empty()

    def _resume(self, folder: Path) -> None:
        self._hold(folder)
        try:
            if not any((folder / OBSERVATIONS).iterdir()):  # killed before it had said anything
                self._is_taken = True
                return
            earlier = read_sealed(folder / OBSERVATIONS / "about.json", _ABOUT)
            if wrong := _damaged_observations(folder, earlier):
                raise InputError(
                    f"the run in {folder} cannot go on: {wrong}; give `out` a new folder."
                )
            then, now = earlier["config"].get("identity"), self.about["config"].get("identity", {})
            if not isinstance(then, dict) or (
                other := [name for name, value in now.items() if then.get(name) != value]
            ):
                of = (
                    "of another version of Saccade"
                    if not isinstance(then, dict)
                    else f"with another {', '.join(other)}"
                )
                raise InputError(f"{folder} holds a watched run {of}; give `out` a new folder.")
        except InputError:
            self.release()
            raise
        self.observations.update(_observations(folder, earlier))
        self.about["coords"] |= earlier["coords"]
        self.about["axes"] |= earlier["axes"]
        self.about["definitions"] |= earlier["definitions"]
        self.about["wall_time_s"] += earlier["wall_time_s"]
        self.about["config"] |= {
            name: value for name, value in earlier["config"].items() if name not in _REPEATED
        }
        self.is_resumed = self._is_taken = True

    def go_on_from(self, step: int) -> None:
        """A resumed run goes on at this step. Said on disk before anything new is there: the two
        must never be mixed.
        """
        later = [each for each in self.observations if each >= step]
        gone = [
            look.name for each in later if isinstance(look := self.observations.pop(each), Path)
        ]
        config = self.about["config"]
        config["superseded"] = config.get("superseded", []) + gone
        config["resumed"] = [*config.get("resumed", []), step]
        config["thinned"] = [each for each in config.get("thinned", []) if each < step]
        self.save()
        if self._folder is not None:
            (self._folder / CHECKSUMS).unlink(
                missing_ok=True
            )  # the record and its page, which are written anew, are of a part only

    def append(self, step: int, observation: Observation) -> None:
        self.observations[step] = observation
        while (
            self._folder is not None
            and len(held := self._held()) > 1
            and sum(map(_size, held.values())) > _MOST_HELD
        ):
            lost = list(held)[
                -2::-2
            ]  # all but the last of each pair: what is left covers the same time
            for each in lost:
                del self.observations[each]
            self.about["config"].setdefault("lost", []).extend(reversed(lost))

    def arrays(self, step: int) -> Observation:
        return _arrays(self.observations[step])

    def extend(self, step: int, more: Observation) -> None:
        """Add arrays to an observation. Its file stays until the new one is listed."""
        old = self.observations[step]
        self.append(step, self.arrays(step) | more)
        self.save()
        if isinstance(old, Path) and old != self.observations[step]:
            old.unlink(missing_ok=True)

    def save(self, *, ended: bool = False) -> None:
        """Write what is not on disk yet, the smallest first; an `InputError` if the folder cannot
        be written to.

        `ended`: the run is over, and its record is written and has its checksums.
        """
        if self._folder is None:
            return
        self._take()
        try:
            for step, observation in sorted(self._held().items(), key=lambda one: _size(one[1])):
                self.observations[step] = file = self._written(step, observation)
                if sum(map(_size, self._kept.values())) + _size(observation) <= _MOST_KEPT:
                    self._kept[file] = observation
        finally:
            listed = [
                look.name
                for look in self.observations.values()
                if isinstance(look, Path) and look.exists()
            ]
            write_sealed(
                self._folder / OBSERVATIONS / "about.json",
                self.about | {"observations": listed, "ended": ended},
            )

    def _take(self) -> None:
        """Make the folder this run's own, once. Of two runs that found it empty only one can make
        the folder in it.
        """
        if self._folder is None or (self._is_taken and (self._folder / OBSERVATIONS).is_dir()):
            return
        try:
            make_folder(self._folder)
            self._check_is_empty()
            (self._folder / OBSERVATIONS).mkdir()
            self._hold(self._folder)
            self._is_taken = True
            write_sealed(
                self._folder / OBSERVATIONS / "about.json",
                self.about | {"observations": [], "ended": False},
            )
            flush(self._folder)
        except FileExistsError:
            raise self._not_empty() from None
        except (OSError, InputError) as error:
            if (
                self._is_taken
            ):  # but nothing could be written: the next try, or the next run, finds it as it was
                self._is_taken = False
                with suppress(OSError):
                    (self._folder / OBSERVATIONS).rmdir()
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"cannot write to {self._folder}: {error.strerror or error}."
            ) from None

    def _hold(self, folder: Path) -> None:
        """One process writes there. A second log of the same process takes over: a notebook's cell
        that runs again, say.
        """
        other = _holders.get(folder.resolve())
        if other is not None:
            other._is_taken, self._lock, other._lock = False, other._lock, None
        else:
            self._lock = os.open(folder / OBSERVATIONS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                raise InputError(
                    f"the run in {folder} is still going on in another process."
                ) from None
            except OSError:  # a file system without locks
                pass
        _holders[folder.resolve()] = self

    def release(self) -> None:
        """Let other processes go on with the run."""
        if self._lock is not None and self._folder is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(
                    self._lock, fcntl.LOCK_UN
                )  # closing alone leaves it to processes forked meanwhile: a loader's workers
            os.close(self._lock)
            self._lock = None
            _holders.pop(self._folder.resolve(), None)

    def _check_is_empty(self) -> None:
        if self._folder is not None and self._folder.exists() and any(self._folder.iterdir()):
            raise self._not_empty()

    def _not_empty(self) -> InputError:
        going_on = (
            "pass `resume=True` to go on with the run in it, or "
            if (self._folder or Path()).joinpath(OBSERVATIONS).is_dir()
            else ""
        )
        return InputError(
            f"{self._folder} is not empty; {going_on}give `out` a new folder, or None to keep everything in memory."
        )

    def _held(self) -> dict[int, Observation]:
        """What is in memory."""
        return {
            step: look for step, look in self.observations.items() if not isinstance(look, Path)
        }

    def _written(self, step: int, observation: Observation) -> Path:
        assert self._folder is not None
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **observation)
        if (
            _size(observation) > RATIO * content.tell()
        ):  # packed so tightly it would be taken for a bomb when it is read
            content = io.BytesIO()
            np.savez(content, allow_pickle=False, **observation)
        checksum = hashlib.sha256(content.getbuffer()).hexdigest()
        target = self._folder / OBSERVATIONS / f"{step:012d}.{checksum[:16]}.npz"
        with whole_file(target) as file:
            file.write(content.getbuffer())
        return target

    def record(self) -> xr.Dataset:
        return as_record(
            {
                step: (self._kept.get(look, look) if isinstance(look, Path) else look)
                for step, look in self.observations.items()
            },
            self.about,
            self._folder,
        )


_holders: dict[Path, ObservationLog] = {}  # by folder: the log of this process that writes there


def _size(observation: Observation) -> int:
    return sum(values.nbytes for values in observation.values())


def watched(folder: str | Path, *, whole: bool = True) -> xr.Dataset:
    """The record of a watched run that is still running, or was killed: all finished observations.

    `whole=False` leaves out what is damaged or lost, and lists it as `left_out` in the record's
    config, instead of refusing.
    """
    path = Path(folder)
    try:
        about = read_sealed(path / OBSERVATIONS / "about.json", _ABOUT)
    except InputError as error:
        raise InputError(f"{path} is not the folder of a watched run: {error}") from None
    observations = _observations(path, about)
    there = {file.name for file in observations.values()}
    lost = [name for name in about["observations"] if name not in there]
    if lost and whole:
        raise InputError(f"{path / OBSERVATIONS / lost[0]} is lost{_OTHERS}")
    if not whole:
        lost += [file.name for file in observations.values() if _is_damaged(file)]
        observations = {step: file for step, file in observations.items() if file.name not in lost}
        about["config"]["left_out"] = lost
    if not observations:
        raise InputError(f"{path} holds no finished observation yet.")
    try:
        return as_record(observations, about, path)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} cannot be read: its about.json does not describe its observations ({error})."
        ) from None


def is_of_a_watched_run(path: Path) -> bool:
    """By its name: one observation is enough, if all else is lost."""
    return path.parent.name == OBSERVATIONS and (
        path.name == "about.json" or _NAME.fullmatch(path.name) is not None
    )


def unfinished(folder: Path) -> str:
    """What there is of a watched run that has not ended, in words; nothing of one that has, or that
    is damaged.
    """
    about = read_sealed(folder / OBSERVATIONS / "about.json", _ABOUT)
    if about["ended"]:
        return ""
    steps = sorted(_observations(folder, about))
    seen = (
        f"{len(steps)} observations, from step {steps[0]} to {steps[-1]}"
        if steps
        else "no observation yet"
    )
    return f"a watched run that is still running or was killed: {seen}; `saccade report` and `saccade.load_record` read them"


def watched_damage(folder: Path) -> str:
    """What is wrong with the folder of a watched run, in words; nothing if all is well, also if the
    run has not ended.
    """
    try:
        about = read_sealed(folder / OBSERVATIONS / "about.json", _ABOUT)
    except InputError as error:
        return str(error).removesuffix(".")
    wrong = _damaged_observations(folder, about)
    return (
        damage(folder) if not wrong and (about["ended"] or (folder / CHECKSUMS).exists()) else wrong
    )


def _damaged_observations(folder: Path, about: dict[str, Any]) -> str:
    observations = _observations(folder, about)
    there = {file.name for file in observations.values()}
    wrong = [
        f"{OBSERVATIONS}/{name} is lost" for name in about["observations"] if name not in there
    ]
    wrong += [
        f"{OBSERVATIONS}/{file.name} is not what was written"
        for file in observations.values()
        if _is_damaged(file)
    ]
    return f"{wrong[0]}{f' and {len(wrong) - 1} more' if len(wrong) > 1 else ''}" if wrong else ""


def _observations(folder: Path, about: dict[str, Any]) -> dict[int, Path]:
    """Files of observations by step: those that are listed, and what a killed run finished after it
    wrote the list.
    """
    listed, superseded = set(about["observations"]), set(about["config"].get("superseded", ()))
    files = sorted(
        (folder / OBSERVATIONS).glob("*.npz"), key=lambda file: (file.name in listed, file.name)
    )
    current = (file for file in files if file.name in listed or file.name not in superseded)
    return {int(found[1]): file for file in current if (found := _NAME.fullmatch(file.name))}


def _is_damaged(observation: Path) -> bool:
    """Whether its content is not what its name says."""
    try:
        return not file_hash(observation).startswith(observation.name.split(".")[1])
    except (OSError, InputError):
        return True


def as_record(
    observations: Mapping[int, Observation | Path], about: dict[str, Any], folder: Path | None
) -> xr.Dataset:
    """Observations along the axis time; a value that one observation lacks is missing there."""
    steps = sorted(observations)
    axes: dict[str, list[str]] = about["axes"]
    empty = {step: _empty(observations[step]) for step in steps}
    shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    for name in (name for name in axes if any(name in empty[step] for step in steps)):
        known = [empty[step][name] for step in steps if name in empty[step]]
        shape = (max(sizes) for sizes in zip(*(values.shape for values in known), strict=True))
        shapes[name] = (len(steps), *shape), known[0].dtype
    shapes = _with_common_axes(shapes, axes)
    n_stored = sum(
        look.stat().st_size if isinstance(look, Path) else _size(look)
        for look in observations.values()
    )
    check_expansion(
        folder or "the record",
        sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes.values()),
        n_stored,
    )
    variables = {name: _room(shape, dtype, folder) for name, (shape, dtype) in shapes.items()}
    for row, step in enumerate(steps):
        for name, values in _arrays(observations[step]).items():
            if name in variables:
                place: Any = (row, *(slice(size) for size in values.shape))
                variables[name][place] = values
    coords: dict[str, Any] = {"time": steps} | {
        name: (axis, values) for name, (axis, values) in about["coords"].items()
    }
    used = {axis for name in variables for axis in axes[name]} | {"time"}
    return make_record(
        dynamics="watched training run",
        variables={name: (("time", *axes[name]), values) for name, values in variables.items()},
        coords={
            name: value for name, value in coords.items() if name == "time" or value[0] in used
        },
        time_unit="updates",
        config=about["config"],
        wall_time=about["wall_time_s"],
        definitions={name: tuple(pair) for name, pair in about["definitions"].items()},
    )


def empty_record(about: Mapping[str, Any], why: str) -> xr.Dataset:
    """A record of the same variables with no observation in it; the attribute `empty` says why."""
    axes: dict[str, list[str]] = about["axes"]
    record = make_record(
        dynamics="watched training run",
        variables={
            name: (("time", *of), np.empty((0,) * (1 + len(of)), np.float32))
            for name, of in axes.items()
        },
        coords={"time": np.empty(0, int)},
        time_unit="updates",
        config=about["config"],
        wall_time=about["wall_time_s"],
        definitions={name: tuple(pair) for name, pair in about["definitions"].items()},
    )
    return record.assign_attrs(empty=why)


def _with_common_axes(
    shapes: dict[str, tuple[tuple[int, ...], np.dtype]], axes: Mapping[str, list[str]]
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Every axis as long as its longest use: a layer with more heads than the others may lack what
    they have.
    """
    longest: dict[str, int] = {}
    for name, (shape, _) in shapes.items():
        for axis, size in zip(axes[name], shape[1:], strict=True):
            longest[axis] = max(size, longest.get(axis, 0))
    return {
        name: ((shape[0], *(longest[axis] for axis in axes[name])), dtype)
        for name, (shape, dtype) in shapes.items()
    }


def _arrays(observation: Observation | Path) -> Observation:
    if not isinstance(observation, Path):
        return observation
    try:
        with regular_file(observation) as file:
            content = file.read()  # once: what is verified is what is used
        if not hashlib.sha256(content).hexdigest().startswith(observation.name.split(".")[1]):
            raise _damaged(observation)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (InputError, MemoryError):
        raise
    except Exception:  # what a damaged archive raises is of a dozen kinds
        raise _damaged(observation) from None


def _empty(observation: Observation | Path) -> Observation:
    """Arrays of the same shapes and types that hold nothing; of a file its heads are read alone."""
    if not isinstance(observation, Path):
        return {name: _of_shape(values.shape, values.dtype) for name, values in observation.items()}
    found = {}
    try:
        check_archive(observation, observation)
        with zipfile.ZipFile(observation) as archive:
            for member in archive.infolist():
                with archive.open(member) as file:
                    np.lib.format.read_magic(file)
                    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                    if file.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
                        raise ValueError("its head does not fit its numbers")
                found[member.filename.removesuffix(".npy")] = _of_shape(shape, dtype)
    except (InputError, MemoryError):
        raise
    except Exception:  # what a damaged archive raises is of a dozen kinds
        raise _damaged(observation) from None
    return found


def _of_shape(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), shape)


def _damaged(file: Path) -> InputError:
    return InputError(f"{file} is damaged{_OTHERS}")


def _room(shape: tuple[int, ...], dtype: np.dtype, folder: Path | None) -> np.ndarray:
    """An array of missing values: in memory, or, if it is large, in a file without a name in
    `folder`.
    """
    n_bytes = math.prod(shape) * dtype.itemsize
    room = (
        np.empty(shape, dtype)
        if folder is None or n_bytes < _LARGE
        else _on_disk(shape, dtype, n_bytes, folder)
    )
    room[...] = np.nan
    return room


def _on_disk(shape: tuple[int, ...], dtype: np.dtype, n_bytes: int, folder: Path) -> np.ndarray:
    """In memory all the same where the disk is full or cannot say so before it is written to: a
    mapped file on a full disk would end the process, as would an array larger than memory.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.memmap(file, dtype, "r+", shape=shape)
    except (OSError, AttributeError):
        if n_bytes > _MOST_IN_MEMORY:
            raise InputError(f"{folder} has no room for {n_bytes:,} bytes of a record.") from None
        return np.empty(shape, dtype)
