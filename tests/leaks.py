"""What a module of tests must not leave behind: sockets, pipes, event loops, child processes, and garbage that was never closed.

Warnings are errors here, and an unclosed socket or file warns when it is collected, which may be in another test long after. So
garbage is collected at the end of every module, and what was left open fails the module that opened it.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
import zarr

# Not files: one that nobody holds warns when it is collected, and one that is mapped into memory is open as long as its array.
_KINDS = ("socket:", "pipe:", "anon_inode:[event")  # the last are event loops


def open_descriptors() -> set[str]:
    """Sockets, pipes and event loops of this process; none where the system does not list them."""
    found = set()
    for entry in _listed("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:  # the one that listed the others
            continue
        if target.startswith(_KINDS):
            found.add(f"descriptor {entry}: {target}")
    return found


def child_processes() -> set[str]:
    """Processes that this one started and that are still there, also those that ended and were not waited for."""
    found = set()
    for thread in _listed("/proc/self/task"):
        try:
            children = Path(f"/proc/self/task/{thread}/children").read_text().split()
        except OSError:  # a thread that has ended
            continue
        found |= {f"process {child}: {_command(child)}" for child in children}
    return found


def collected() -> set[str]:
    """What the garbage collector had to close: the warnings of a collection."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    return {str(warning.message) for warning in caught if issubclass(warning.category, ResourceWarning)}


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_open(long_lived: None) -> Iterator[None]:
    before = open_descriptors() | child_processes()
    yield
    left = collected() | (open_descriptors() | child_processes()) - before
    assert not left, f"left open by this module: {sorted(left)}"


@pytest.fixture(scope="session")
def long_lived() -> None:
    """What libraries keep for as long as the process lives is started before the first module: Zarr's event loop, the process with
    which `multiprocessing` cleans up after others."""
    zarr.create_array(zarr.storage.MemoryStore(), shape=(1,), dtype=float)
    resource_tracker.ensure_running()


def _listed(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _command(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""
