"""Run an experiment, check its claims and write all that belongs to it, or nothing."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.text.sources import found_source
from saccade.errors import InputError
from saccade.experiments import (
    ANSWERS,
    SYNTHETIC,
    experiment,
    heading_of,
    own_file,
    seconds_of,
)
from saccade.identity import computation, user_files
from saccade.lab.experiment import Experiment, Progress, silent
from saccade.lab.outcome import Outcome
from saccade.processes import LostProcessError, Worker, computed, cores
from saccade.records.store import OtherResultError, check_same_settings, result_folder
from saccade.records.writing import clear_drafts


def reproduce(
    name: str,
    out: str | Path = "results",
    config: Any = None,
    command: str = "",
    on_progress: Progress = silent,
    replace: bool = False,
) -> Outcome:
    """Run experiment `name`, or the one in a Python file of one's own, and write OUT/NAME: claims,
    tables, figure, panels, record.

    The folder appears whole when everything is written. An earlier result with other settings is
    replaced only if `replace`.
    """
    asked = experiment(name)
    own = own_file(name)
    settings = asked.settings() if config is None else config
    folder = Path(out) / asked.name
    with _own_mistakes(own):
        files = user_files(settings, own)  # before the work, while they are what will be used
    with (
        _own_mistakes(own),
        _values_first(asked, settings),
        # before the work: a wrong place is found out at once
        result_folder(
            folder,
            settings,
            file=own,
            files=files,
            replace=replace,
        ) as unfinished,
    ):
        parts = computation() | files
        result = asked.run(settings, on_progress)
        if asked.full is not None:
            sizes = {"quick": asked.settings(), "full": asked.full}
            size = next((name for name, one in sizes.items() if one == settings), "own")
            result.record.attrs["size"] = size
        result.record.attrs["computation"] = json.dumps(parts)
        if own:
            result.record.attrs["file"] = own  # so that `saccade check --repair` finds it
        is_default = settings == asked.settings() and asked.name in ANSWERS
        stored = ANSWERS[asked.name]["verdicts"] if is_default else None
        outcome = Outcome(asked.name, result.answer, folder, result.record, result.claims, stored)
        by = command or f"saccade {'run' if own else 'reproduce'} {name}"
        about = {
            "title": asked.question,
            "statement": result.answer,
            "command": by,
        }
        result.write(unfinished, about | heading_of(name))
    return outcome


class _StartedError(Exception):
    """An experiment has begun its work."""


@contextmanager
def _values_first(asked: Experiment, settings: Any) -> Iterator[None]:
    """Where results of other settings are in the way, settings that cannot be run are refused
    first: experiments look at them before they first report progress.
    """

    def started(fraction: float) -> None:
        raise _StartedError

    try:
        yield
    except OtherResultError:
        if (
            asked.name in SYNTHETIC
        ):  # which begin at once; others may read a text, or train, before they report
            with suppress(_StartedError):
                asked.run(settings, started)
        raise


class Job(NamedTuple):
    """One of several experiments: its name, its settings (None: the default) and the command that
    asks for just this one.
    """

    name: str
    config: Any
    command: str


def reproduce_all(
    jobs: Sequence[Job], out: Path, on_progress: Callable[..., None] = silent, replace: bool = False
) -> Iterator[Outcome]:
    """Several experiments, as they finish: at once, one to a core, the longest first. If any is on
    text and there are fewer than cores, one after the other: those on text spread their own runs
    over all cores. `on_progress` is told the fraction and what is under way.
    """
    several = len(jobs) > 1 and (all(job.name in SYNTHETIC for job in jobs) or len(jobs) >= cores())
    at_once = cores() if several else 1
    if at_once == 1:
        for job in jobs:
            yield reproduce(
                job.name,
                out,
                job.config,
                job.command,
                partial(on_progress, label=job.name),
                replace,
            )
        return
    for job in jobs:  # before the work of minutes
        in_the_way = not replace and (out / job.name).exists()
        if job.name in SYNTHETIC and not in_the_way:
            continue  # nothing to look at: the processes load the experiments, here it would only delay them
        settings = experiment(job.name).settings() if job.config is None else job.config
        if in_the_way:
            check_same_settings(out / job.name, settings)
        _find_texts(settings)
    in_turn = sorted(jobs, key=lambda job: -seconds_of(job.name))
    try:
        with closing(computed(partial(_in_process, out, replace), in_turn, at_once)) as coming:
            for done, outcome in enumerate(coming, 1):
                on_progress(
                    done / len(jobs),
                    label=f"{done} of {len(jobs)} experiments; the report comes last",
                )
                yield outcome
    finally:
        if out.is_dir():
            clear_drafts(out)  # of processes that were ended with their work half done


def _in_process(out: Path, replace: bool, worker: Worker, job: Job) -> Outcome:
    try:
        return worker.answer(reproduce, job.name, out, job.config, job.command, silent, replace)
    except LostProcessError as lost:
        raise InputError(f"{job.name} was lost: {lost}.") from None


@contextmanager
def _own_mistakes(file: str) -> Iterator[None]:
    """A mistake in a user's own file is a sentence with its line; one of Saccade's stays a
    traceback.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if file and frame.filename == file
        ]
        if not lines and not file:
            raise
        where = f"{file}, line {lines[-1]}" if lines else f"what {file} gives cannot be used"
        raise InputError(f"{where}: {type(error).__name__}: {error}") from error


def _find_texts(config: Any) -> None:
    """Find, or fetch, the texts an experiment names before its processes start: a missing one is
    one sentence then.
    """
    for name in (*getattr(config, "texts", ()), getattr(config, "text", "")):
        if name:
            found_source(name)
