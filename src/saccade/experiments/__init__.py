"""All questions: the registry, as data. Listing it imports no experiment.

A question is one file with one function under `@experiment` (`lab/experiment.py`). To add one, add
the file and its name here. Your own file needs neither: `saccade run ./mine.py`.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from saccade.errors import InputError, checked_choice
from saccade.records.json_files import read_json
from saccade.theories.papers import PAPERS

QUESTIONS = {  # part -> names; a name is a file and a function: scan_then_snap.py, scan_then_snap
    "scan_and_snap": (
        "published-figures",
        "adam",
        "long-contexts",
        "decoder",
        "coupling",
        "who-gains",
        "scan-then-snap",
        "plain-descent",
        "when-it-breaks",
        "reparameterisation",
        "first-force",
        "positional-prior",
        "joma",
    ),
    "focus_and_dilution": (
        "markov-contexts",
        "saddle",
        "condensation",
        "focus",
        "dilution",
        "next-direction",
        "symmetric-escape",
        "cycle",
        "published-run",
    ),
    "rank_collapse": ("escape", "rank-collapse", "first-head"),
    "real_text": (
        "text-entropy",
        "text-fates",
        "text-forecast",
        "text-optimisers",
        "text-cycle",
        "text-cycle-published",
        "context-length",
    ),
}
EXPERIMENTS = {name: part for part, names in QUESTIONS.items() for name in names}
NEED_TORCH = (*QUESTIONS["real_text"], "first-head")  # with the extras `torch` and `text`
REAL_TEXT = {name: part for name, part in EXPERIMENTS.items() if name in NEED_TORCH}
SYNTHETIC = {name: part for name, part in EXPERIMENTS.items() if name not in NEED_TORCH}
_PARTS = {paper.part: paper.theory for paper in PAPERS} | {"real_text": "Real text"}

# What the default settings gave: question, answer, verdicts and seconds of each.
STORED_ANSWERS = Path(__file__).with_name("answers.json")
ANSWERS: dict[str, dict[str, Any]] = read_json(STORED_ANSWERS)


def experiment(name: str) -> Any:
    """The experiment of that name, or the one in a Python file of the user's; an unknown name is an
    error that suggests the nearest.
    """
    if name.endswith(".py"):
        path = Path(own_file(name))
        return _own(path, path.read_bytes())  # by its content: an edited file is another experiment
    return getattr(importlib.import_module(module_of(name)), name.replace("-", "_"))


def own_file(name: str) -> str:
    """The whole path of a user's own file, which means the same from any folder; nothing for the
    name of an experiment.
    """
    if not name.endswith(".py"):
        return ""
    path = Path(os.path.realpath(name))  # unlike `resolve`, it does not trip over a loop of links
    if not path.is_file():
        raise InputError(
            f"there is no file {path}; give a Python file that defines an experiment, "
            "or a name that `saccade list` shows."
        )
    return str(path)


def module_of(name: str) -> str:
    """The module of an experiment, or the path of a user's own file."""
    if name.endswith(".py"):
        return own_file(name)
    if name not in EXPERIMENTS and Path(f"{name}.py").is_file():
        raise InputError(
            f"experiment {name!r} is not known; to run your own file, give its name with the "
            f"ending: ./{name}.py."
        )
    checked_choice("experiment", name, EXPERIMENTS, "saccade list")
    return f"saccade.experiments.{EXPERIMENTS[name]}.{name.replace('-', '_')}"


def heading_of(name: str) -> dict[str, Any]:
    """Where a report shows an experiment: its part and its place there; a user's own come last."""
    if name not in EXPERIMENTS:
        return {"part": "Your own", "place": len(EXPERIMENTS)}
    return {"part": _PARTS[EXPERIMENTS[name]], "place": list(EXPERIMENTS).index(name)}


def seconds_of(name: str) -> int:
    """How long the default settings take on two cores, in seconds."""
    return int(ANSWERS.get(name, {}).get("seconds", 10))


def with_setting(setting: str) -> list[str]:
    """Synthetic experiments that have a setting of that name. Imports them all."""
    return [
        name
        for name in SYNTHETIC
        if setting in (field.name for field in fields(experiment(name).settings))
    ]


def formulas() -> Iterator[Any]:
    """Every formula of the papers that is checked by calculus alone."""
    for part in ("scan_and_snap", "focus_and_dilution", "rank_collapse"):
        for several in importlib.import_module(f"saccade.experiments.{part}.formulas").FORMULAS:
            yield from several()


def _beside(path: Path, error: Exception) -> str:
    """Why a module next to a user's file is not found: a change of it would not be noticed."""
    missing = path
    if isinstance(error, ModuleNotFoundError):
        missing = path.parent / (error.name or "").partition(".")[0]
    if missing == path or not (missing.is_dir() or missing.with_suffix(".py").is_file()):
        return ""
    return (
        f". An experiment is one file: put what it needs of {missing.name} into it, "
        f"or install {missing.name} as a package."
    )


@cache
def _own(path: Path, source: bytes) -> Any:
    """The experiment of a file. Its module is named by its path, which no other module can have."""
    from saccade.lab.experiment import Experiment  # only for own files: listing loads no JAX

    # listed, so that the types of its settings can be looked up
    module = sys.modules[str(path)] = ModuleType(str(path))
    module.__file__ = str(path)
    try:
        exec(compile(source, path, "exec"), vars(module))
    except Exception as error:
        del sys.modules[str(path)]
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        where = f", line {lines[-1]}," if lines else ""
        why = f"{type(error).__name__}: {error}{_beside(path, error)}"
        raise InputError(f"{path}{where} cannot be loaded: {why}") from error
    defined = [one for one in vars(module).values() if isinstance(one, Experiment)]
    if len(defined) != 1:
        raise InputError(
            f"{path} must define one experiment, a function under @saccade.experiment(NAME); "
            f"it defines {len(defined) or 'none'}."
        )
    (found,) = defined
    if not re.fullmatch(r"\w[\w.-]*", found.name):
        raise InputError(
            f"{path}: the name of an experiment must be usable as a folder name, such as "
            f"two-tokens; got {found.name!r}."
        )
    if found.name in EXPERIMENTS:
        raise InputError(
            f"{path}: {found.name} is the name of one of Saccade's experiments; give yours another."
        )
    return found
