"""What is attacked: small folders of every kind that Saccade writes, and the ways that there are to
read numbers from them.

`make(name)` makes one in a folder of that name; `read(name)` gives what every reader finds there.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from saccade.cli import main
from saccade.data.text.corpus import corpus
from saccade.errors import InputError
from saccade.records.observation_log import watched
from saccade.records.store import load_record
from tests.sweeps.small_sweeps import NAME, small_arguments

RUN = ("run", NAME, "--draws", "5")
CLASSES = "class,sun,moon,sky\nday,.6,0,.4\nnight,0,.6,.4\n"
TEXT = " ".join(f"the {('cat', 'dog', 'owl')[i % 3]} number {i % 17} sat." for i in range(4000))
OBSERVE = ("observe", "weights", "--heads", "2", "--out", "observed")
BUILT_IN = "first-force"
N_STEPS = 6
CHECKPOINTS = "checkpoints"


def fill(disk: str | Path, room: int) -> None:
    """A file `ballast` that leaves so many bytes free on a disk."""
    free = os.statvfs(disk)
    with (Path(disk) / "ballast").open("ab") as ballast:
        ballast.write(bytes(max(0, free.f_bavail * free.f_frsize - room)))


def train(out: str | None, room: int | None = None, until: int | None = None) -> list[float]:
    """A short training that is watched; its losses. A line is printed after each step, so that a
    killer knows what was done.

    From the second step on the disk has only so much `room`, `until` a step.
    """
    import torch

    from saccade.watching.recorder import watch
    from tests.watching import model_zoo as zoo

    torch.manual_seed(0)
    model = zoo.HandWritten("fused")
    losses = []
    with watch(model, zoo.ids(), every=1, budget=None, out=out) as recorder:
        for step in range(N_STEPS):
            if step == 1 and room is not None:
                fill(".", room)
            if step == until:
                Path("ballast").unlink()
            recorder.step(step)
            print(f"step {step}", flush=True)
            loss = model(zoo.ids()).square().mean()
            model.zero_grad()
            loss.backward()
            with torch.no_grad():  # plain descent by hand: PyTorch's own takes seconds to load
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
            losses.append(loss.item())
    return losses


def train_with_checkpoints(room: int | None = None) -> str:
    """A short training that leaves checkpoints; its losses. From the second step on the disk has so
    much `room`.
    """
    from saccade.engines.train_text import train_text
    from tests.engines.text_runs import CORPUS, SETTINGS

    def measures(model: Any, step: int) -> dict[str, Any]:
        if step == 1 and room is not None:
            fill(".", room)
        return {}

    every = {"watch": False, "evaluate": 0, "every": 1, "steps": 8}
    record = train_text(CORPUS, **SETTINGS, **every, measures=measures, checkpoints=CHECKPOINTS)  # type: ignore[arg-type]
    return _digest(record.loss.values)


def _observed() -> str:
    from saccade.watching.checkpoints import observe_checkpoints

    record = observe_checkpoints(CHECKPOINTS, heads=2)
    if record.sizes["time"] < len(list(Path(CHECKPOINTS).iterdir())):
        raise _Refused("a checkpoint was left out")
    return _digest(
        *(values for name, values in sorted(record.variables.items()) if name != "look_seconds")
    )


def make_result() -> None:
    _done(*RUN, "--out", "result")


def make_sweep() -> None:
    _done(*small_arguments(Path("sweep"), 3), "--workers", "1")


def make_forecast() -> None:
    _write("sky.csv", CLASSES)
    _done("forecast", "sky.csv", "--out", "forecast")


def make_watched() -> None:
    train("watched")


def make_observed() -> None:
    """Of three checkpoints of weights alone, as anybody may have saved them."""
    import torch

    from tests.watching import model_zoo as zoo

    torch.manual_seed(0)
    Path("weights").mkdir(exist_ok=True)
    for step in range(3):
        torch.save(zoo.HandWritten("fused").state_dict(), f"weights/step-{step}.pt")
    _done(*OBSERVE)


def make_reproduced() -> None:
    """All experiments, if this one were all: with the page that is made from them."""
    only = {"SYNTHETIC": (BUILT_IN,), "formulas": lambda: ()}  # formulas take a minute
    with patch.multiple("saccade.experiments", **only):
        _done("reproduce", "--out", "reproduced")


def make_cache() -> None:
    _write("text.txt", TEXT)
    Path("cache").mkdir(exist_ok=True)
    _read_cache()


def _write(name: str, text: str) -> None:
    if not Path(name).exists():
        Path(name).write_text(text)


def _done(*words: str) -> None:
    if code := main([*words]):
        raise _Refused(f"{words} ended with {code}")


class _Refused(Exception):
    """A command ended with another code than 0."""


def _read_record(path: str) -> str:
    record = load_record(path)
    return _digest(
        *(values for name, values in sorted(record.variables.items())), dict(record.attrs)
    )


def steps_watched() -> dict[int, str]:
    """What was seen at each step; how long a look took is another each time, and some is seen at
    some steps only.
    """
    record = watched("watched").drop_vars("look_seconds")
    seen = {int(step): record.sel(time=step) for step in record.time}
    return {
        step: _digest(
            *(values for _, values in sorted(at.data_vars.items()) if values.notnull().any())
        )
        for step, at in seen.items()
    }


def _read_cache() -> str:
    found = corpus("text.txt", cache="cache")
    return _digest(
        found.train,
        found.valid,
        found.frequencies,
        found.bigrams.toarray(),
        found.vocabulary,
        found.encode("the owl"),
    )


def _resumed() -> str:
    _done(*small_arguments(Path("sweep"), 3), "--workers", "1")
    return _read_record("sweep/dataset.zarr")


def _printed(*words: str) -> Callable[[], str]:
    """What a command prints if it succeeds."""

    def read() -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            _done(*words)
        return out.getvalue()

    return read


def _page(source: str) -> Callable[[], str]:
    def read() -> str:
        _done("report", source, "--out", "page.html")
        return _digest(Path("page.html").read_bytes())

    return read


def _digest(*parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(np.asarray(part).tobytes() if hasattr(part, "dtype") else repr(part).encode())
    return found.hexdigest()


class Subject(NamedTuple):
    make: Callable[[], None]
    readers: dict[str, Callable[[], str]]


SUBJECTS = {
    "result": Subject(
        make_result,
        {
            "check": _printed("check", "result"),
            "report": _page("result"),
            "load_record": lambda: _read_record("result/quick/record.zarr"),
        },
    ),
    "sweep": Subject(
        make_sweep,
        {
            "check": _printed("check", "sweep"),
            "report": _page("sweep"),
            "load_record": lambda: _read_record("sweep/dataset.zarr"),
            "status": _printed("sweep", "--status", "sweep", "--json"),
            "resume": _resumed,
        },
    ),
    "watched": Subject(
        make_watched,
        {
            "check": _printed("check", "watched"),
            "report": _page("watched"),
            "load_record": lambda: _read_record("watched/record.zarr"),
            "watched": lambda: str(steps_watched()),
        },
    ),
    "forecast": Subject(
        make_forecast,
        {
            "check": _printed("check", "forecast"),
            "report": _page("forecast"),
            "load_record": lambda: _read_record("forecast/forecast/sky/record.zarr"),
        },
    ),
    "observed": Subject(
        make_observed,
        {
            "check": _printed("check", "observed"),
            "report": _page("observed"),
            "load_record": lambda: _read_record("observed/record.zarr"),
        },
    ),
    "reproduced": Subject(
        make_reproduced,
        {
            "check": _printed("check", "reproduced"),
            "report": _page("reproduced"),
            "load_record": lambda: _read_record(f"reproduced/{BUILT_IN}/record.zarr"),
        },
    ),
    CHECKPOINTS: Subject(
        lambda: print(train_with_checkpoints()),
        {
            "check": _printed("check", CHECKPOINTS),
            "resume": train_with_checkpoints,
            "observe": _observed,
        },
    ),
    "cache": Subject(make_cache, {"corpus": _read_cache}),
}


def make(name: str) -> None:
    SUBJECTS[name].make()


def read(name: str, *, resume: bool = True) -> dict[str, str | None]:
    """By reader, what it finds; None where it refuses, or says that something is damaged."""
    readers = SUBJECTS[name].readers.items()
    return {
        reader: _unless_refused(find) for reader, find in readers if resume or find is not _resumed
    }


def _unless_refused(find: Callable[[], str]) -> str | None:
    try:
        return find()
    except (InputError, _Refused):
        return None
