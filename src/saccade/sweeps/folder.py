"""The folder of a sweep: finished runs in files named by their content, and a manifest that lists
them.

| file             | what it holds                                                                                 |
|------------------|-----------------------------------------------------------------------------------------------|
| `sweep.json`     | what was asked for last: experiment, settings, axes                                           |
| `runs/HASH.npz`  | outcomes of runs that were finished together; HASH is that of its content                     |
| `manifest.jsonl` | a line for each of these files: its checksum, and which runs it holds with what came of them; |
|                  | each line carries a checksum of itself                                                        |
| `checksums.json` | of the results that are made of them: dataset, summary, figure                                |
| `lock`           | held by the one process that writes                                                           |

A file of runs appears by rename and only then gets its line, so a process killed at any moment
leaves either nothing or a whole file. Files without a line are taken up when the folder is next
written to. The last line about a run counts, but a failure never replaces a finished run.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from saccade.errors import InputError
from saccade.records.checksums import file_hash
from saccade.records.json_files import MOST_BYTES, misfit, parsed_json, regular_file
from saccade.records.writing import below, clear_drafts, flush, make_folder, set_aside, whole_file
from saccade.sweeps.outcome_file import UNFINISHED, Outcome, as_bytes, read_outcomes

_DIGITS = 20  # of a file's hash in its name
_FORM = rf"[0-9a-f]{{{_DIGITS}}}\.npz"  # of these names, the only ones that are ever touched
_N_CHECK = len('{"check":"0123456789abcdef",')
_GLANCE = 1.0  # s that a writer waits for those who only ask whether one is at work
_OF_A_RUN = {"run": str, "status": str, "reason": str, "seconds": (int, float)}
_LINE = {"sha256": str, "runs": [_OF_A_RUN]}  # or "lost" instead of both


class SweepFolder:
    """What is finished, by the identity of the run: `entries[run]` is its line of the manifest,
    `file_of[run]` its file's name.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._begun = ""  # file that is being committed
        self._read()

    def _read(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.file_of: dict[str, str] = {}
        self.checksums: dict[str, str] = {}
        self.n_unreadable = 0  # lines of the manifest
        self._ends_torn = False
        for line in self._lines():
            self._take(line)

    @classmethod
    def existing(cls, path: str | Path) -> SweepFolder:
        """A folder that must hold a sweep already."""
        if not is_sweep(Path(path)):
            raise InputError(f"{path} is not the folder of a sweep: it has no sweep.json.")
        return cls(path)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write, for one process at a time; the system takes it back from a process
        that is killed.
        """
        try:
            make_folder(self.path / "runs")
            if (self.path / "runs").is_symlink():
                raise InputError(
                    f"cannot write to {self.path / 'runs'}: it is a symbolic link; name another folder."
                )
            lock = open(self.path / "lock", "a+", opener=_not_through_a_link)  # noqa: SIM115  # closed below
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}.") from None
        with lock:
            end = time.monotonic() + _GLANCE
            while not _is_locked(lock, fcntl.LOCK_EX, self.path):
                if time.monotonic() > end:
                    raise InputError(
                        f"another process is using {self.path}; wait for it, or use another folder."
                    )
                time.sleep(_GLANCE / 20)
            self._read()  # another process may have added to it since
            self._clear_up()
            yield

    def is_being_written(self) -> bool:
        """Whether a process has the right to write now."""
        try:
            with open(self.path / "lock", opener=_not_through_a_link) as lock:
                return not _is_locked(lock, fcntl.LOCK_SH, self.path)
        except (
            OSError,
            InputError,
        ):  # nobody has ever written, or locks are not for those who only read
            return False

    def commit(self, outcomes: Sequence[Outcome]) -> None:
        """Write outcomes so that they are never lost again, or say why that cannot be."""
        if not outcomes:
            return
        content = as_bytes(outcomes)
        checksum = hashlib.sha256(content).hexdigest()
        file = f"{checksum[:_DIGITS]}.npz"
        if (
            file == self._begun and file in self.checksums
        ):  # Ctrl-C came before its outcomes were let go, and they are given again
            return
        self._begun = file
        try:
            with whole_file(self.path / "runs" / file) as whole:
                whole.write(content)
            self._add_line(
                {
                    "file": file,
                    "sha256": checksum,
                    "runs": [outcome.entry() for outcome in outcomes],
                }
            )
        except (OSError, InputError) as error:
            why = (
                error
                if isinstance(error, InputError)
                else f"cannot write to {self.path}: {error.strerror or error}."
            )
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
        return set(self.file_of.values()).difference(_run_names(self.path))

    def unlisted(self) -> list[str]:
        """Files of runs that no line tells of: lines were lost, or a process was killed before it
        wrote one.
        """
        return [name for name in _run_names(self.path) if name not in self.checksums]

    def present(self) -> dict[str, dict[str, Any]]:
        """Entries of the runs whose files are there."""
        lost = self.lost()
        return {run: entry for run, entry in self.entries.items() if self.file_of[run] not in lost}

    def damaged(self) -> dict[str, str]:
        """Files of runs whose content is not what was written, with what is wrong, all read and
        hashed again; and the manifest.
        """
        found = {f"runs/{name}": "it is not in the manifest" for name in self.unlisted()}
        if self.n_unreadable:
            found["manifest.jsonl"] = f"{self.n_unreadable} of its lines cannot be read"
        listed = {
            f"runs/{file}": self.checksums[file] for file in sorted(set(self.file_of.values()))
        }
        for file, checksum in listed.items():
            try:
                if file_hash(self.path / file) != checksum:
                    found[file] = "it is not what was written"
            except FileNotFoundError:
                found[file] = "it is lost"
            except (OSError, InputError) as error:
                found[file] = f"it cannot be read: {getattr(error, 'strerror', error)}"
        return found

    def forget(self, files: Iterable[str]) -> None:
        """Set damaged or lost files aside, so that their runs count as missing; what is damaged
        stays, under another name.
        """
        for file in files:
            path = self.path / "runs" / file
            self._add_line({"file": file, "lost": True})
            is_whole = False
            with suppress(OSError, InputError):
                is_whole = file_hash(path).startswith(path.stem)
            if os.path.lexists(path) and not is_whole:
                set_aside(path, f"{path.stem}.damaged")
        self._clear_up()  # whole files of which only the manifest said the wrong thing are taken up again

    def _add_line(self, line: dict[str, Any]) -> None:
        text = _written(line)
        self._take(
            line
        )  # first: if this is interrupted, the file is there already and is taken up again without its line
        with open(self.path / "manifest.jsonl", "ab+", opener=_not_through_a_link) as manifest:
            begun = manifest.seek(0, os.SEEK_END)
            if begun:  # a killed process may have left half a line
                manifest.seek(begun - 1)
                text = text if manifest.read(1) == b"\n" else "\n" + text
            try:
                manifest.write(text.encode())
                manifest.flush()
                os.fsync(manifest.fileno())
                if not begun:
                    flush(self.path)
            except OSError:
                os.ftruncate(manifest.fileno(), begun)
                raise

    def _lines(self, *, as_written: bool = False) -> Iterator[Any]:
        """Whole lines of the manifest. Others are counted; the files that they told of are taken up
        again by their names.
        """
        self.n_unreadable = 0
        if not (self.path / "manifest.jsonl").is_file():
            return
        try:
            with regular_file(self.path / "manifest.jsonl") as manifest:
                while text := manifest.readline(MOST_BYTES):  # in pieces, if that is no line
                    line = _line(text)
                    if line is not None:
                        yield text if as_written else line
                    elif (
                        text.endswith(b"\n") or _line(text[:-1]) is not None
                    ):  # the second: only its end is not what was written
                        self.n_unreadable += 1
                    else:
                        self._ends_torn = True  # of a process that was killed
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or error}.") from None

    def _clear_up(self) -> None:
        """After a process that was killed: take up what it finished, remove what it did not, and
        lines that nobody can read.
        """
        try:
            if self.n_unreadable or self._ends_torn:
                with whole_file(self.path / "manifest.jsonl") as manifest:
                    manifest.writelines(self._lines(as_written=True))
            # Whole files that no line names: their writer was killed between the two, or lines
            # were lost.
            for name in self.unlisted():
                path = self.path / "runs" / name
                if (checksum := file_hash(path)).startswith(path.stem):
                    runs = [found.entry() for found in read_outcomes(path)]
                    self._add_line({"file": name, "sha256": checksum, "runs": runs})
            clear_drafts(self.path / "runs")
            clear_drafts(self.path)
        except OSError as error:
            raise InputError(
                f"cannot write to {self.path}: {error.strerror or error}. All finished runs are safe there."
            ) from None

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
            # Files taken up again come in any order: a run that was finished at last is not
            # unfinished by its earlier failure.
            if known is None or known["status"] in UNFINISHED or entry["status"] not in UNFINISHED:
                self.entries[entry["run"]] = entry
                self.file_of[entry["run"]] = file


def _is_locked(lock: IO[str], how: int, path: Path) -> bool:
    """Whether a lock could be had, without waiting for it."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        raise InputError(f"{path} cannot be locked: {error.strerror or error}.") from None


def _not_through_a_link(path: str, flags: int) -> int:
    """A folder from a stranger must not lead to a file elsewhere that is then written to, nor to a
    pipe that nobody writes to.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a file", path)


def is_sweep(folder: Path) -> bool:
    """Also of one that has lost its description."""
    return (folder / "sweep.json").is_file() or bool(_run_names(folder))


def sweeps_below(folder: Path) -> set[Path]:
    """Not in hidden folders, which are drafts."""
    names = [*below(folder, [])]
    found = {path.parent for path in names if path.name == "sweep.json"}
    found |= {
        path.parents[1] for path in names if path.parent.name == "runs" and path.suffix == ".npz"
    }
    return {
        path
        for path in found
        if is_sweep(path)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _run_names(folder: Path) -> list[str]:
    """Names alone: making and sorting 100,000 paths takes longer than all else that is done with
    them.
    """
    try:
        with os.scandir(folder / "runs") as found:
            return sorted(
                file.name for file in found if re.fullmatch(_FORM, file.name) and file.is_file()
            )
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
            return []
        raise


def _written(line: dict[str, Any]) -> str:
    """A line of the manifest as text, with a checksum of all that follows it."""
    body = json.dumps(line, separators=(",", ":"))[1:]
    return f'{{"check":"{_check(body.encode())}",{body}\n'


def _check(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def _line(text: bytes) -> dict[str, Any] | None:
    """What a line of the manifest says; None if it is not as `_written` gives it."""
    body = text[_N_CHECK:].removesuffix(b"\n")
    if text[:_N_CHECK] != b'{"check":"%s",' % _check(body).encode():
        return None
    try:
        read = parsed_json(b"{" + body)
    except InputError:
        return None
    is_file = re.fullmatch(_FORM, str(read.get("file")))  # none leads out of the folder
    is_line = read.get("lost") is True or not misfit(read, _LINE)
    return read if is_file and is_line else None
