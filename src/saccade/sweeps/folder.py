"""The folder of a sweep: finished runs in files named by their content, and a manifest that lists them.

| file             | what it holds                                                                                 |
|------------------|-----------------------------------------------------------------------------------------------|
| `sweep.json`     | what was asked for last: experiment, settings, axes                                           |
| `runs/HASH.npz`  | outcomes of runs that were finished together; HASH is that of its content                     |
| `manifest.jsonl` | a line for each of these files: its checksum, and which runs it holds with what came of them  |
| `lock`           | held by the one process that writes                                                           |

A file of runs appears by rename and only then gets its line, so a process killed at any moment leaves either nothing or a whole
file. Files without a line are taken up when the folder is next written to. The last line about a run counts, but a failure never
replaces a finished run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from saccade.errors import InputError
from saccade.records.json_files import parsed_json, read_json, write_json
from saccade.records.writing import clear_drafts, set_aside, whole_file
from saccade.sweeps.outcome_file import UNFINISHED, Outcome, as_bytes, read_outcomes

_DIGITS = 20  # of a file's hash in its name


class SweepFolder:
    """What is finished, by the identity of the run: `entries[run]` is its line of the manifest, `file_of[run]` its file's name."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._begun = ""  # file that is being committed
        self._read()

    def _read(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.file_of: dict[str, str] = {}
        self.checksums: dict[str, str] = {}
        for line in self._lines():
            self._take(line)

    @classmethod
    def existing(cls, path: str | Path) -> SweepFolder:
        """A folder that must hold a sweep already."""
        if not (Path(path) / "sweep.json").is_file():
            raise InputError(f"{path} is not the folder of a sweep: it has no sweep.json.")
        return cls(path)

    def asked(self) -> dict[str, Any] | None:
        """What `sweep.json` says; None if there is none."""
        if not (self.path / "sweep.json").exists():
            return None
        try:
            return read_json(self.path / "sweep.json")
        except InputError as error:
            raise InputError(f"{error} Give the whole command again.") from None

    def ask(self, what: dict[str, Any]) -> None:
        before = what
        with suppress(InputError):  # not readable: it is written again
            before = what | (self.asked() or {})
        then, now = (" of ".join(str(asked[key]) for key in ("name", "file") if asked[key]) for asked in (before, what))
        if then != now:
            raise InputError(f"{self.path} holds a sweep of {then}; give {now} a folder of its own.")
        write_json(self.path / "sweep.json", what)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write, for one process at a time; the system takes it back from a process that is killed."""
        try:
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("a+")
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}.") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"another process is at work in {self.path}; wait for it, or give another folder.") from None
            except OSError as error:
                raise InputError(f"{self.path} cannot be locked: {error.strerror or error}.") from None
            self._read()  # another process may have added to it since
            self._clear_up()
            yield

    def commit(self, outcomes: Sequence[Outcome]) -> None:
        """Write outcomes so that they are never lost again, or say why that cannot be."""
        if not outcomes:
            return
        content = as_bytes(outcomes)
        checksum = hashlib.sha256(content).hexdigest()
        file = f"{checksum[:_DIGITS]}.npz"
        if file == self._begun and file in self.checksums:  # Ctrl-C came while its line was written, and it is given again
            return
        self._begun = file
        try:
            with whole_file(self.path / "runs" / file) as whole:
                whole.write(content)
            self._add_line({"file": file, "sha256": checksum, "runs": [outcome.entry() for outcome in outcomes]})
            self._begun = ""
        except (OSError, InputError) as error:
            why = error if isinstance(error, InputError) else f"cannot write to {self.path}: {error.strerror or error}."
            raise InputError(
                f"{why} {len(self.entries)} finished runs are safe there; make room and give the same command again."
            ) from None

    def outcomes(self, runs: Iterable[str], *, as_packed: bool = False) -> Iterator[Outcome]:
        """With their records, file by file."""
        by_file: dict[str, set[str]] = {}
        for run in runs:
            by_file.setdefault(self.file_of[run], set()).add(run)
        for file, wanted in by_file.items():
            yield from read_outcomes(self.path / "runs" / file, wanted, as_packed=as_packed)

    def lost(self) -> set[str]:
        """Files of runs that are not there any more: somebody has deleted them."""
        there = {path.name for path in (self.path / "runs").glob("*.npz")}
        return set(self.file_of.values()) - there

    def present(self) -> dict[str, dict[str, Any]]:
        """Entries of the runs whose files are there."""
        lost = self.lost()
        return {run: entry for run, entry in self.entries.items() if self.file_of[run] not in lost}

    def damaged(self) -> dict[str, str]:
        """Files whose content is not what was written, with what is wrong, all read and hashed again."""
        found = {
            path.name: "it is not in the manifest" for path in (self.path / "runs").glob("*.npz") if path.name not in self.checksums
        }
        listed: dict[str, list[str]] = {}
        for run, file in self.file_of.items():
            listed.setdefault(file, []).append(run)
        for file, runs in sorted(listed.items()):
            try:
                content = (self.path / "runs" / file).read_bytes()
            except OSError as error:
                found[file] = f"cannot be read: {error.strerror or error}"
            else:
                if hashlib.sha256(content).hexdigest() != self.checksums[file]:
                    found[file] = f"its {len(content)} bytes are not those that were written"
                elif not self._is_listed_right(file, runs):
                    found[file] = "the manifest does not say what is in it"
        return found

    def _is_listed_right(self, file: str, runs: list[str]) -> bool:
        """Whether every run that the manifest finds in a file is there as it says; a run may be in a later one as well."""
        inside = {outcome.identity: outcome.entry() for outcome in read_outcomes(self.path / "runs" / file, as_packed=True)}
        return all(inside.get(run) == self.entries[run] for run in runs) and all(run in self.entries for run in inside)

    def forget(self, files: Iterable[str]) -> None:
        """Set damaged or lost files aside, so that their runs count as missing; what is damaged stays, under another name."""
        for file in files:
            path = self.path / "runs" / file
            self._add_line({"file": file, "lost": True})
            if path.exists() and not hashlib.sha256(path.read_bytes()).hexdigest().startswith(path.stem):
                set_aside(path, f"{path.stem}.damaged")
        self._clear_up()  # whole files of which only the manifest said the wrong thing are taken up again

    def _add_line(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":")) + "\n"
        self._take(line)  # first: if this is interrupted, the file is there already and is taken up again without its line
        with (self.path / "manifest.jsonl").open("ab+") as manifest:
            begun = manifest.seek(0, os.SEEK_END)
            if begun and not self._ends_whole(manifest, begun):
                text = "\n" + text  # a killed process may have left half a line
            try:
                manifest.write(text.encode())
                manifest.flush()
                os.fsync(manifest.fileno())
            except OSError:
                os.ftruncate(manifest.fileno(), begun)
                raise

    @staticmethod
    def _ends_whole(manifest: Any, size: int) -> bool:
        manifest.seek(size - 1)
        last = manifest.read(1)
        manifest.seek(size)
        return last == b"\n"

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Whole lines of the manifest. What is not one was being written by a process that was killed, or is damaged: its file
        is taken up again by its name.
        """
        try:
            with (self.path / "manifest.jsonl").open("rb") as manifest:
                for line in manifest:
                    with suppress(InputError):
                        read = parsed_json(line)
                        if _is_line(read):
                            yield read
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or error}.") from None

    def _clear_up(self) -> None:
        """After a process that was killed: take up what it finished, remove what it did not."""
        try:
            self._take_up_files()
            clear_drafts(self.path / "runs")
            clear_drafts(self.path)
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}. All finished runs are safe there.") from None

    def _take(self, line: dict[str, Any]) -> None:
        file = line["file"]
        if line.get("lost"):
            self.checksums.pop(file, None)
            for run in [run for run, of in self.file_of.items() if of == file]:
                del self.file_of[run], self.entries[run]
            return
        self.checksums[file] = line["sha256"]
        for entry in line["runs"]:
            known = self.entries.get(entry["run"])
            # Files taken up again come in any order: a run that was finished at last is not unfinished by its earlier failure.
            if known is None or known["status"] in UNFINISHED or entry["status"] not in UNFINISHED:
                self.entries[entry["run"]] = entry
                self.file_of[entry["run"]] = file

    def _take_up_files(self) -> None:
        """Give whole files that no line names their lines: their writer was killed between the two, or lines were lost."""
        for path in sorted((self.path / "runs").glob("*.npz")):
            if path.name not in self.checksums and len(path.stem) == _DIGITS:
                checksum = hashlib.sha256(path.read_bytes()).hexdigest()
                if checksum.startswith(path.stem):
                    self._add_line(
                        {"file": path.name, "sha256": checksum, "runs": [found.entry() for found in read_outcomes(path)]}
                    )


_OF_A_RUN: dict[str, Any] = {"run": str, "status": str, "reason": str, "seconds": (int, float)}


def _is_line(read: Any) -> bool:
    """Whether it has what a line of the manifest has: a damaged one may still be JSON."""
    if not isinstance(read, dict) or not isinstance(read.get("file"), str):
        return False
    entries = read.get("runs")
    return bool(read.get("lost")) or (
        isinstance(read.get("sha256"), str)
        and isinstance(entries, list)
        and all(isinstance(entry, dict) and all(isinstance(entry.get(k), v) for k, v in _OF_A_RUN.items()) for entry in entries)
    )
