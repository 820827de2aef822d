"""What all attacks share: how large they are, and calls in processes of their own, as an ordinary
user, that are given a time.

`make attack` sets SACCADE_ATTACK=full. Without it the same attacks are made, only fewer of them,
and from one seed (`seed.py`).
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.reduction import DupFd
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from saccade.cli import entry
from tests.attack.seed import IS_FULL
from tests.patience import PATIENCE

NOBODY = 65534  # who attacks, if we are root
_KEEP_CAPABILITIES, _AMBIENT, _RAISE, _VERSION_3, _READ_ALL = (
    8,
    47,
    2,
    0x20080522,
    2,
)  # numbers of Linux


@dataclass(frozen=True)
class Sizes:
    lines: int  # fuzzed command lines
    flips: int  # bits, spread over the subjects
    kills: int  # spread over what is killed
    forgeries: int  # of each subject
    disks: int  # how much room is left on a full disk: so many sizes
    thorough: bool  # whether every file is attacked, and every bomb is tried on it
    patience: float  # s after which what still computes is interrupted


SMALL, FULL = Sizes(20, 15, 7, 1, 1, False, 0.3), Sizes(520, 200, 35, 40, 6, True, 3.0)
SIZES = FULL if IS_FULL else SMALL
GIGABYTE = 2**30
FUSE = (
    4 * GIGABYTE
)  # memory of those who are handed bombs: what goes off is seen, and harms nobody else


@dataclass(frozen=True)
class Answer:
    """What came of a call: negative codes are signals, None is a call that had to be ended."""

    code: int | None
    out: str
    err: str
    seconds: float
    value: Any = None
    peak: int | None = None  # bytes that its memory grew by at most; None of a call that was ended

    @property
    def is_small(self) -> bool:
        """Whether it was done in a gigabyte."""
        return self.peak is not None and self.peak < GIGABYTE

    @property
    def mistakes(self) -> list[str]:
        """What no command may do, whatever it is given."""
        found = {
            "it hung": self.code is None,
            f"it ended with code {self.code}": self.code not in (None, 0, 1, 2, 130),
            "a traceback": "Traceback" in self.out + self.err,
            "a refusal without a sentence": self.code == 2 and "saccade: " not in self.err,
        }
        return [mistake for mistake, made in found.items() if made]


@dataclass(frozen=True)
class Arena:
    """A folder that an ordinary user may write to, and processes of that user which are forked from
    one that has loaded all.
    """

    folder: Path
    _forks: Any = field(default_factory=lambda: multiprocessing.get_context("forkserver"))

    def command(self, *words: object, **options: Any) -> Answer:
        return self.call(command, [str(word) for word in words], **options)

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        where: Path | None = None,
        interrupt: float | None = None,
        kill: float | None = None,
        memory: int = 0,
        user: int = NOBODY,
        home: bool = True,
    ) -> Answer:
        """`function(*arguments)` in the folder `where`. `interrupt`, `kill`: after so many seconds;
        `memory`: bytes it may have; `home`: whether it is told of a home folder.
        """
        limits = (str(where or self.folder), str(self.folder) if home else None, memory, user)
        reader, writer = multiprocessing.Pipe(duplex=False)
        with reader, TemporaryFile(dir=self.folder) as out, TemporaryFile(dir=self.folder) as err:
            files = [DupFd(stream.fileno()) for stream in (out, err)]
            process = self._forks.Process(
                target=_child, args=(function, arguments, files, writer, limits)
            )
            process.start()
            writer.close()
            reader.recv()  # it is about to begin; an EOFError here: the attack was never made
            begun = time.monotonic()
            code = _ended(process, interrupt, kill)
            seconds, told = time.monotonic() - begun, {}
            with suppress(EOFError):
                while True:
                    told |= reader.recv()
            return Answer(code, *map(_text, (out, err)), seconds, **told)

    @contextmanager
    def scene(self, *sources: Path) -> Iterator[Path]:
        """A new folder of the ordinary user, with copies of these."""
        place = Path(tempfile.mkdtemp(prefix="scene-", dir=self.folder))
        try:
            for source in sources:
                copied(source, place / source.name)
            given_away(place)
            yield place
            wait_until_deserted(place)
        finally:
            shutil.rmtree(place)


@contextmanager
def new_arena() -> Iterator[Arena]:
    arena = Arena(Path(tempfile.mkdtemp(prefix="saccade-attack-")))
    given_away(arena.folder)
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.attack.loaded"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        arena.call(os.getpid)  # the first call starts the process that others are forked from
    try:
        yield arena
    finally:
        shutil.rmtree(arena.folder)


def copied(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
    given_away(target)


def given_away(folder: Path) -> None:
    """A folder with all that is in it to the ordinary user."""
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        folder.chmod(0o755)


def _ended(process: Any, interrupt: float | None, kill: float | None) -> int | None:
    """The exit code of a process, which is interrupted or killed after so many seconds; None if it
    would not end.
    """
    for patience, sent in ((kill, signal.SIGKILL), (interrupt, signal.SIGINT)):
        if patience is not None:
            _wait(process, patience)
            _send(process, sent)
    _wait(process, PATIENCE)
    code = process.exitcode
    if code is None:
        _send(process, signal.SIGUSR1)  # it says where it is
        process.join(1)
        process.kill()
        process.join()
    process.close()
    return code


def _send(process: Any, sent: int) -> None:
    """A signal to a process that may end at this very moment: its parent, the fork server, buries
    it before we hear of it.
    """
    if process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(process.pid, sent)


def _wait(process: Any, seconds: float) -> None:
    """Until it ends, or has had so many seconds: those for which it was ready and others had the
    processors do not count.
    """
    begun, starved = time.monotonic(), _starved(process.pid)
    while (
        process.is_alive()
        and (left := seconds - (time.monotonic() - begun) + _starved(process.pid) - starved) > 0
    ):
        process.join(left)


def _starved(pid: int) -> float:
    """Seconds that a process waited for a processor; of its threads and its children the one counts
    that waited longest.
    """
    waits = [0.0]
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError, IndexError):  # it has ended, or the system does not count
            waits.append(int((thread / "schedstat").read_text().split()[1]) / 1e9)
            waits += [_starved(int(child)) for child in (thread / "children").read_text().split()]
    return max(waits)


def wait_until_deserted(folder: Path) -> None:
    """Until no process works there: those of a sweep end with the one that started them, however
    that ended.
    """
    end = time.monotonic() + PATIENCE
    while left := [process for process in Path("/proc").glob("[0-9]*") if _is_in(process, folder)]:
        assert time.monotonic() < end, (
            f"still running: {[(process / 'cmdline').read_text() for process in left]}"
        )
        time.sleep(0.05)


def _is_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(folder)
    except OSError:  # it has ended, or is another's
        return False


def _text(stream: Any) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")


def command(words: list[str]) -> None:
    """`saccade` with these words, in this process."""
    sys.argv = ["saccade", *words]
    entry()


def _child(
    function: Callable[..., Any], arguments: Any, files: Any, writer: Any, limits: Any
) -> None:
    where, home, memory, user = limits
    for number, file in enumerate(files, start=1):
        os.dup2(file.detach(), number)
    sys.stdout, sys.stderr = (
        open(number, "w", buffering=1, closefd=False, errors=errors)  # noqa: SIM115
        for number, errors in ((1, "strict"), (2, "backslashreplace"))
    )
    os.environ |= {"HF_HUB_OFFLINE": "1", "TMPDIR": home or where}
    os.environ.pop("XDG_CACHE_HOME", None)
    os.environ.pop("HOME") if home is None else os.environ.update(HOME=home)
    tempfile.tempdir = None
    sys.modules["jax"].config.update(
        "jax_compilation_cache_dir", None if home is None else f"{home}/.cache/jax"
    )
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if os.getuid() == 0:
        _become_ordinary(user)
    os.chdir(where)
    faulthandler.register(signal.SIGUSR1)
    before = _memory("VmRSS")
    writer.send(None)
    try:
        writer.send({"value": function(*arguments)})
    except SystemExit:
        raise
    except BaseException:  # as the interpreter would
        traceback.print_exc()
        sys.exit(1)
    finally:
        writer.send({"peak": _memory("VmHWM") - before})


def _memory(kind: str) -> int:
    """Bytes of this process: `VmRSS` now, `VmHWM` at most. A fork begins with what it shares."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(kind))


def _become_ordinary(user: int) -> None:
    """Somebody who may write only what is theirs. They may read everything, since root's Python
    often lies where only root can.
    """
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    header, each = struct.pack("=Ii", _VERSION_3, 0), 1 << _READ_ALL
    system.capset(header, struct.pack("=6I", each, each, each, 0, 0, 0))
    system.prctl(_AMBIENT, _RAISE, _READ_ALL, 0, 0)  # for processes that this one starts
