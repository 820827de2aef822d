"""Find what is damaged or missing in a sweep's folder, and rerun just that, to the same bits.

Results are written again only when every run is there that was there before, and only by the same
code from the same settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from saccade.errors import InputError
from saccade.records.checksums import damaged_files
from saccade.records.writing import CHECKSUMS
from saccade.sweeps.asked import FILE, Asked
from saccade.sweeps.folder import SweepFolder
from saccade.sweeps.outcome_file import UNFINISHED, Outcome
from saccade.sweeps.sweep import Means, do, missing, write_results
from saccade.sweeps.units import units_of


@dataclass(frozen=True)
class Damage:
    """Damaged files, as named from the folder, with what is wrong; the runs that were in them; runs
    that are not there at all.
    """

    files: dict[str, str]
    runs: list[str]
    n_files: int
    missing: list[str] = field(default_factory=list)
    has_results: bool = True
    under_way: bool = False  # a process is at work there: only files of runs were looked at

    @property
    def is_whole(self) -> bool:
        return not self.files and not self.missing and self.has_results and not self.under_way


def damage(folder: SweepFolder) -> Damage:
    """Read and hash everything again: the description, files of runs, and the results made of them.
    Nothing is loaded or run.

    Beside a process that writes there only files of runs that have their line are looked at: the
    rest may change at any moment.
    """
    while True:
        before, is_written = _state(folder.path), folder.is_being_written()
        found = _damage(folder)
        if found.is_whole or (
            not is_written and not folder.is_being_written() and _state(folder.path) == before
        ):
            return found
        if is_written and folder.is_being_written():
            runs = {
                file: wrong
                for file, wrong in found.files.items()
                if Path(file).name in folder.checksums
            }
            return replace(found, files=runs, under_way=True)
        folder = SweepFolder(folder.path)  # it began or ended meanwhile


def _state(path: Path) -> list[tuple[int, int, int]]:
    """What changes whenever something is written to a folder."""
    files = [path / name for name in (FILE, "manifest.jsonl", CHECKSUMS) if (path / name).exists()]
    return [
        (found.st_ino, found.st_size, found.st_mtime_ns)
        for found in (file.stat() for file in files)
    ]


def _damage(folder: SweepFolder) -> Damage:
    files, absent = folder.damaged(), []
    runs = [run for run, file in folder.file_of.items() if f"runs/{file}" in files]
    try:
        absent = [run for run in Asked.read(folder.path).identities() if run not in folder.entries]
    except InputError as error:
        files[FILE] = str(error)
    has_results = (folder.path / CHECKSUMS).exists()
    files |= (
        {file: f"it {wrong}" for file, wrong in damaged_files(folder.path).items()}
        if has_results
        else {}
    )
    return Damage(files, runs, len(folder.checksums), absent, has_results)


def repair(
    folder: SweepFolder,
    means: Means,
    file: str = "",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> Damage:
    """Set damaged files aside, run again what was in them and what is missing, and write the
    results again.

    `file`: where the runs come from, if that is a file of the user's own.
    """
    with folder.writing():
        found = _damage(folder)
        if found.is_whole:
            return found
        asked = Asked.read(folder.path)
        grid = asked.grid(file)
        before, file_of = dict(folder.entries), dict(folder.file_of)
        folder.forget([Path(name).name for name in found.files if name.startswith("runs/")])
        units = units_of(grid, missing(grid, folder), means.time_limit)
        reasons: list[str] = []

        def is_kept(outcome: Outcome) -> bool:
            """A run that was finished, or may have been, is not replaced by a failure."""
            kept = (
                outcome.status not in UNFINISHED
                or before.get(outcome.identity, {}).get("status") in UNFINISHED
            )
            reasons.extend([] if kept else [outcome.reason])
            return kept

        do(units, folder, means, on_progress, is_kept=is_kept)
        if reasons:
            raise InputError(
                f"{len(reasons)} runs did not finish ({reasons[0]}); all others are there, and the results are left as they were."
            )
        write_results(grid, folder, asked.show)
    strangers = [
        run
        for run in found.runs
        if run not in folder.entries and file_of[run] not in folder.checksums
    ]
    if strangers:
        raise InputError(
            f"{len(strangers)} damaged runs belong to an earlier sweep in {folder.path}, of other settings or other code; "
            "give that command again to have them back."
        )
    return found
