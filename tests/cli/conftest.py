"""Two results that many tests look at: one reproduced as it is, one run with settings of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import SHORT, called


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory) -> tuple[Path, int, str]:
    out = tmp_path_factory.mktemp("reproduced")
    code, printed, _ = called("reproduce", "long-contexts", "--out", out)
    return out, code, printed


@pytest.fixture(scope="session")
def medium(tmp_path_factory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("medium")
    code, printed, err = called(*SHORT, "--seeds", 2, "--json", "--out", out)
    assert (code, err) == (0, "")
    return out, printed
