"""Runs of experiments that many tests read: `record_of("focus-growth", seeds=1)` is computed once
in a test session.

The first caller in any process of pytest-xdist computes and saves the record; the others wait for
it and load it. Settings that are not named have their defaults. Every call loads a record of its
own, so that a test may change what it was given.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Any

import xarray as xr

from saccade.experiments import experiment
from saccade.records.store import load_record, save_record


def record_of(name: str, **settings: Any) -> xr.Dataset:
    """The record of an experiment with these settings."""
    asked = experiment(name)
    config = asked.settings(**settings)
    folder = Path(os.environ["SACCADE_TEST_RUNS"])  # one for the session: tests/conftest.py
    path = folder / f"{name}-{hashlib.sha256(repr(config).encode()).hexdigest()[:16]}.zarr"
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            save_record(asked.run(config), path)
    return load_record(path)
