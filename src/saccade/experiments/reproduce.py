"""Run an experiment, check its claims and write all that belongs to it, or nothing."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saccade.data.text.sources import found_source
from saccade.errors import InputError
from saccade.experiments import experiment, finding_of, own_file
from saccade.lab.experiment import Experiment, Progress, silent
from saccade.lab.outcome import Outcome
from saccade.records.json_files import write_json
from saccade.records.store import result_folder, save_record
from saccade.records.writing import write_csv
from saccade.report.style import save_figure


def reproduce(
    name: str,
    out: str | Path = "results",
    config: Any = None,
    command: str = "",
    on_progress: Progress = silent,
    replace: bool = False,
) -> Outcome:
    """Run experiment `name`, or the one in a Python file of one's own, and write OUT/NAME: claims, tables, figure, panels, record.

    The folder appears whole when everything is written. An earlier result with other settings is replaced only if `replace`.
    """
    asked = experiment(name)
    settings, folder = asked.settings() if config is None else config, Path(out) / asked.name
    with (
        _own_mistakes(own := own_file(name)),
        result_folder(folder, settings, replace=replace) as unfinished,
    ):  # before the work: a wrong place is found out at once
        _find_texts(settings)
        record = asked.run(settings, on_progress)
        if asked.full is not None:
            record.attrs["size"] = "quick" if settings == asked.settings() else "full" if settings == asked.full else "own"
        if own:
            record.attrs["file"] = own  # so that `saccade verify --repair` finds it
        outcome = Outcome(asked.name, finding_of(name), folder, record, list(asked.claims(record)))
        _write(unfinished, asked, outcome, command or f"saccade {'run' if own else 'reproduce'} {name}")
    return outcome


@contextmanager
def _own_mistakes(file: str) -> Iterator[None]:
    """A mistake in a user's own file is a sentence with its line; one of Saccade's stays a traceback."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if file and frame.filename == file]
        if not lines and not file:
            raise
        where = f"{file}, line {lines[-1]}" if lines else f"what {file} gives cannot be used"
        raise InputError(f"{where}: {type(error).__name__}: {error}") from error


def _find_texts(config: Any) -> None:
    """Find, or fetch, the texts an experiment names before its processes start: a missing one is one sentence then."""
    for name in (*getattr(config, "texts", ()), getattr(config, "text", "")):
        if name:
            found_source(name)


def _write(folder: Path, asked: Experiment, outcome: Outcome, command: str) -> None:
    record = outcome.record
    save_record(record, folder / "record.zarr")
    write_json(folder / "claims.json", [claim.as_dict() for claim in outcome.claims])
    write_csv(folder / "table.csv", asked.rows(record))
    for name, (columns, extra_rows) in (asked.files(record) if asked.files is not None else {}).items():
        write_csv(folder / name, extra_rows, columns)
    write_json(folder / "panels.json", asked.specs(record))
    save_figure(asked.figure(record), folder / "figure")
    attributes = {name: value for name, value in record.attrs.items() if name != "assumptions"}  # long, and in the record
    about = {"statement": outcome.finding, "caption": asked.caption_of(record), "command": command, **attributes}
    write_json(folder / "about.json", about)
