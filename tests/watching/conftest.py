"""Checkpoints that several files of tests look at or damage. PyTorch is imported on use: without it
those files skip themselves.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    from tests.watching.checkpoint_runs import watched_runs

    return watched_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def own_run():
    from tests.watching.checkpoint_runs import own_states

    return own_states()


@pytest.fixture
def folder(runs, tmp_path) -> Path:
    """The GPT-2 checkpoints, to be damaged."""
    return Path(shutil.copytree(runs["gpt2"][0], tmp_path / "run"))
