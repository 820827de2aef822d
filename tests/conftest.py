"""For all tests: the same fuzzed inputs in every run, compiled code kept out of the user's own
cache, and nothing left open.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.compiled_code import forget_old_code, keep_compiled_code
from tests.leaks import long_lived, nothing_is_left_open

__all__ = ["long_lived", "nothing_is_left_open"]  # fixtures of all tests

settings.register_profile("saccade", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("saccade")


def _folder(name: str) -> str:
    """For as long as this process lives."""
    made = tempfile.mkdtemp(prefix=name)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


# Compiled code stays out of the user's own cache. Processes that a test starts share a folder, so
# that they do not compile the same again; each process of pytest-xdist has another for them, since
# JAX writes these files in place.
os.environ["JAX_COMPILATION_CACHE_DIR"] = _folder("saccade-tests-")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
keep_compiled_code(os.environ["JAX_COMPILATION_CACHE_DIR"])

# Runs that many tests read (tests/experiments/default_runs.py). The first process makes the folder;
# those that pytest-xdist starts share it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["SACCADE_TEST_RUNS"] = _folder("saccade-test-runs-")
    forget_old_code()

# A shell that starts the tests in the background makes them ignore Ctrl-C, and processes that they
# start would do so too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_WAITING = (
    "playground",
    "report",
)  # for a browser: one for each folder, in one process, beside others that compute
_LONGEST = ("experiments", "sweeps", "examples")


def _folder_of(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).parts[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders that wait, then those with the longest files, so that no process gets one of them
    when the others are done.
    """
    first = (*_WAITING, *_LONGEST)
    items.sort(
        key=lambda item: (
            first.index(folder) if (folder := _folder_of(item.path)) in first else len(first)
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests of a file run in one process; those of a folder that waits for a browser too."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            folder = _folder_of(config.rootpath / file)
            return folder if folder in _WAITING else file

    return Scheduling(config, log)
