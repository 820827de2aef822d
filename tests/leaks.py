"""What a module of tests must not leave behind: sockets, pipes, event loops, child processes, and
garbage that was never closed.

Warnings are errors here, and an unclosed socket or file warns when it is collected, which may be in
another test long after. So garbage is collected at the end of every module, and what was left open
fails the module that opened it.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
import zarr

from tests.patience import ANSWER

# Not files: one that nobody holds warns when it is collected, and one that is mapped into memory is
# open as long as its array.
_KINDS = ("socket:", "pipe:", "anon_inode:[event")  # the last are event loops


def open_descriptors() -> dict[str, str]:
    """Sockets, pipes and event loops of this process; none where the system does not list them."""
    found = {}
    for number in _listed("/proc/self/fd"):
        with suppress(OSError):  # the one that listed the others is closed by now
            target = os.readlink(f"/proc/self/fd/{number}")
            if target.startswith(_KINDS):
                found[f"descriptor {number} {target}"] = target
    return found


def child_processes() -> dict[str, str]:
    """Processes that this one started, with their commands, until they have ended and were waited
    for.

    From the parents of all processes: the system's list of our children leaves some out while
    others come and go.
    """
    found = {}
    for number in filter(str.isdigit, _listed("/proc")):
        with suppress(OSError):  # one that has ended
            if Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1] == str(
                os.getpid()
            ):
                found[f"process {number}"] = (
                    Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ")
                )
    return found


def collected() -> list[str]:
    """What the garbage collector had to close: the warnings of a collection."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    gc.freeze()  # what is left is in use: later collections need not look at it, which with all libraries takes half a second
    return [
        str(warning.message) for warning in caught if issubclass(warning.category, ResourceWarning)
    ]


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_open(long_lived: None) -> Iterator[None]:
    before = open_descriptors() | child_processes()
    yield
    unclosed = collected()
    assert unclosed == []
    end = time.monotonic() + ANSWER
    while left := {
        name: what
        for name, what in (open_descriptors() | child_processes()).items()
        if name not in before | _SHARED
    }:
        assert time.monotonic() < end, f"left open by this module: {left}"
        time.sleep(0.02)


_SHARED: dict[str, str] = {}  # what fixtures of a whole folder have opened, and close themselves


@contextmanager
def shared() -> Iterator[None]:
    """What is opened here lives longer than the module whose test asked first: a browser for all
    tests of a folder.
    """
    before = open_descriptors() | child_processes()
    yield
    _SHARED.update(
        {
            name: what
            for name, what in (open_descriptors() | child_processes()).items()
            if name not in before
        }
    )


def outlives_its_module(process: int, descriptor: int) -> None:
    """A process that waits for the next module, and the descriptor that it is spoken to through."""
    _SHARED[f"process {process}"] = "kept"
    with suppress(OSError):  # a system that does not list them
        _SHARED[f"descriptor {descriptor} {os.readlink(f'/proc/self/fd/{descriptor}')}"] = "kept"


@pytest.fixture(scope="session")
def long_lived() -> None:
    """What libraries keep for as long as the process lives is started before the first module:
    Zarr's event loop, the process with which `multiprocessing` cleans up after others.
    """
    zarr.create_array(zarr.storage.MemoryStore(), shape=(1,), dtype=float)
    resource_tracker.ensure_running()


def _listed(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []
