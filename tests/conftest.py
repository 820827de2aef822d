"""For all tests: the same fuzzed inputs in every run, and compiled code kept out of the user's own cache."""

from __future__ import annotations

import os
import tempfile

from hypothesis import settings

settings.register_profile("saccade", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("saccade")

# Before anything imports JAX. Processes that a test starts share it, so that they do not compile the same again; processes of
# pytest-xdist do not share it, because JAX writes its cache files in place.
_compiled = tempfile.TemporaryDirectory(prefix="saccade-tests-")
os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

# Runs that many tests read (tests/experiments/default_runs.py). The first process makes the folder; those that pytest-xdist starts
# share it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _runs = tempfile.TemporaryDirectory(prefix="saccade-test-runs-")
    os.environ["SACCADE_TEST_RUNS"] = _runs.name
