"""What of a sweep's folder is damaged, and running just that again, in the same company, so that it comes out to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from saccade.errors import InputError
from saccade.records.checksums import damage as record_damage
from saccade.sweeps.folder import SweepFolder
from saccade.sweeps.outcome_file import companies
from saccade.sweeps.sweep import Means, asked_grid, do, write_results
from saccade.sweeps.units import unit_of


@dataclass(frozen=True)
class Damage:
    """Damaged files, as named from the folder, with what is wrong; and the runs that were in them."""

    files: dict[str, str]
    runs: list[str]
    n_files: int


def damage(folder: SweepFolder) -> Damage:
    """Read and hash everything again: files of runs, and the dataset made of them."""
    files = {f"runs/{file}": wrong for file, wrong in folder.damaged().items()}
    runs = [run for run, file in folder.file_of.items() if f"runs/{file}" in files]
    dataset = folder.path / "dataset.zarr"
    wrong = record_damage(dataset) if dataset.exists() else ""
    return Damage(files | ({dataset.name: wrong} if wrong else {}), runs, len(folder.checksums) + dataset.exists())


def repair(folder: SweepFolder, means: Means, on_progress: Callable[[float], None] = lambda fraction: None) -> Damage:
    """Set damaged files aside, run again what was in them, and write the results again."""
    grid, show = asked_grid(folder)
    with folder.writing():
        found = damage(folder)
        configs = {run.identity: run.config for run in grid.runs}
        file_of = dict(folder.file_of)
        entries = {run: folder.entries[run] for run in found.runs if run in configs}
        folder.forget([Path(file).name for file in found.files if file.startswith("runs/")])
        together = companies([entry for run, entry in entries.items() if run not in folder.entries]).values()
        units = [unit_of(grid.name, {run: configs[run] for run in runs}, grid.keep, means.time_limit) for runs in together]
        do(units, folder, means, on_progress)
        write_results(grid, folder, show)
    strangers = [run for run in found.runs if run not in configs and file_of[run] not in folder.checksums]
    if strangers:
        raise InputError(
            f"{len(strangers)} damaged runs belong to an earlier sweep in {folder.path}, of other settings or other code; "
            "give that command again to have them back."
        )
    return found
