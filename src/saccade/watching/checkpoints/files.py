"""Checkpoints on disk: which there are, at which steps, and in which files their weights are (read
in `tensors.py`).

| what is in a folder                                | is                                                                        |
|----------------------------------------------------|---------------------------------------------------------------------------|
| `checkpoint-*` folders, or others with a number    | a checkpoint each, of one file or of shards                               |
| files of weights                                   | a checkpoint each                                                         |
| `model.safetensors`, `pytorch_model.bin` or shards | one checkpoint, if there is none of the above                             |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from saccade.errors import InputError
from saccade.records.json_files import read_json

_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_WHOLE = (
    "model.safetensors",
    "pytorch_model.bin",
)  # as Transformers names them, in the order of its own preference
_INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_BESIDE = (
    "optimizer",
    "scheduler",
    "rng_state",
    "training_args",
    "scaler",
)  # what trainers save beside the weights
_SHARD = re.compile(r"-\d+-of-\d+\.\w+$")
_STEP = re.compile(r"(?:step|iter|iteration|checkpoint|ckpt)s?[^0-9a-z]*(\d+)", re.IGNORECASE)
_DATE = re.compile(  # alone or with a time of day, such as 20251125_040322; not after "step"
    r"(?<!\d)(?<!step)(?<!step[-_=])(?:19|20)\d\d([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
    r"(?:[-_.T /]+(?:[01]\d|2[0-3])[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d)?)?(?!\d)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?![0-9a-z])", re.IGNORECASE)  # not the 70 of 70m
_MOST_DIGITS = 17  # of a step: more do not fit its place in an array


class UnreadableError(Exception):
    """A checkpoint that is left out, and why, in one sentence."""


class UnreachableError(UnreadableError):
    """One that could not be fetched, so that the next ones need not be tried."""


class Checkpoint(NamedTuple):
    """A step, a name for people, and where the file or folder is: asked when its turn comes, since
    it may have to be fetched.
    """

    step: int
    name: str
    place: Callable[[], Path]


def checkpoint_paths(folder: Path) -> list[Path]:
    """The checkpoints of a folder (or the one that it is, or the one file), in no particular order."""
    if folder.is_file():
        return [folder]
    try:
        children = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}.") from None
    files = [child for child in children if child.is_file() and _is_weights(child)]
    folders = [
        child for child in children if child.is_dir() and child.name.startswith("checkpoint-")
    ] or [
        child
        for child in children
        if child.is_dir()
        and re.search(r"\d", child.name)
        and (
            any((child / index).is_file() for index in _INDEX)
            or any(file.is_file() and _is_weights(file) for file in child.iterdir())
        )
    ]
    if folders and len(files) < 2:
        return folders
    if any((folder / name).is_file() for name in _INDEX) or (
        files and {file.name for file in files} <= set(_WHOLE)
    ):
        return [folder]
    if not files:
        raise InputError(
            f"{folder} holds no checkpoints: neither folders named checkpoint-* nor files ending in {', '.join(_SUFFIXES)}."
        )
    return files


def in_order(named: Iterable[tuple[str, Callable[[], Path]]]) -> tuple[list[Checkpoint], list[str]]:
    """Checkpoints by step, and sentences about those whose step cannot be told or is another's as
    well.

    If no name has a number, the order in which they are given is the time.
    """
    given = list(named)
    steps = [step_of(name) for name, _ in given]
    if all(step is None for step in steps):
        said = (
            []
            if len(given) == 1
            else ["no name of a checkpoint holds a step: time is their order, not their step."]
        )
        return [Checkpoint(step, name, place) for step, (name, place) in enumerate(given)], said
    found: dict[int, Checkpoint] = {}
    said = []
    for step, (name, place) in zip(steps, given, strict=True):
        if step is None:
            said.append(f"{name} was left out: its name has no number that can be a step.")
        elif step in found:
            said.append(f"{name} was left out: {found[step].name} is of step {step} too.")
        else:
            found[step] = Checkpoint(step, name, place)
    return [found[step] for step in sorted(found)], said


def step_of(name: str) -> int | None:
    """The number after "step", "iter" or "checkpoint" in a name, else its last number, dates and
    times of day left out; None if it has none.
    """
    stem = name.removesuffix(Path(name).suffix) if Path(name).suffix in _SUFFIXES else name
    undated = _DATE.sub("", stem)
    told = _STEP.findall(undated) or _NUMBER.findall(undated)
    return int(told[-1]) if told and len(told[-1]) <= _MOST_DIGITS else None


def listed(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def _is_weights(file: Path) -> bool:
    return (
        file.suffix in _SUFFIXES
        and not file.name.startswith(_BESIDE)
        and not _SHARD.search(file.name)
    )


def weight_files(folder: Path) -> list[Path]:
    """The files that together hold the weights of one checkpoint; empty if there are none."""
    for whole, index in zip(_WHOLE, _INDEX, strict=True):
        if (folder / whole).is_file():
            return [folder / whole]
        if (folder / index).is_file():
            return _shards(folder / index)
    other = [file for file in sorted(folder.iterdir()) if file.is_file() and _is_weights(file)]
    return other if len(other) == 1 else []


def _shards(index: Path) -> list[Path]:
    try:
        names = set(read_json(index)["weight_map"].values())
        shards = [
            index.parent / Path(name).name for name in sorted(names)
        ]  # the name alone: shards lie beside their index
    except (InputError, KeyError, TypeError, AttributeError):
        raise UnreadableError(
            f"{index.parent.name} was left out: its {index.name} is damaged."
        ) from None
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        raise UnreadableError(
            f"{index.parent.name} was left out: of its {len(shards)} files {listed(missing)} is not there."
        )
    return shards
