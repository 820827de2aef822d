"""Two results that many tests look at: one reproduced as it is, one run with settings of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import SHORT, called

ANSWERS = {
    "first-force": {"question": "Can it?", "answer": "Yes: it can.", "verdicts": {}, "seconds": 7},
    "joma": {"question": "Will it?", "answer": "No.", "verdicts": {"x": "fails"}, "seconds": 2},
}


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory) -> tuple[Path, int, str]:
    out = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.experiments.reproduce.ANSWERS", ANSWERS)
        code, printed, _ = called("reproduce", "first-force", "--out", out)
    return out, code, printed


@pytest.fixture(scope="session")
def own(tmp_path_factory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("own")
    code, printed, err = called(*SHORT, "--json", "--out", out)
    assert (code, err) == (0, "")
    return out, printed
