"""The bugs that `make mutants` plants can be planted, and are bugs: other code, not other layout."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import saccade
from tools.mutants import PARTS, PLANTED, concerning, drawn, failures

_PACKAGE = Path(saccade.__file__).parent
_ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("part", ["planted", *PARTS])
def test_every_slip_stands_once_in_its_file_and_is_other_code_that_still_parses(part):
    for file, old, new in PLANTED if part == "planted" else drawn(part, 12):
        text = (_PACKAGE / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old)
        assert ast.dump(ast.parse(text.replace(old, new))) != ast.dump(ast.parse(text)), (file, old)


def test_the_same_slips_are_drawn_every_time():
    assert drawn("theory", 5) == drawn("theory", 5)
    assert len(set(drawn("sweeps", 12))) == 12


def test_a_mutant_runs_the_tests_that_bear_its_name_first_and_few_in_all():
    assert (
        concerning("theories/scan_and_snap/gain.py")[0]
        == "tests/theories/scan_and_snap/test_gain.py"
    )
    assert concerning("models/reduced_pairwise.py")[0] == "tests/engines/test_flow.py"
    files = [slip.file for slip in PLANTED] + [
        slip.file for part in PARTS for slip in drawn(part, 12)
    ]
    for file in files:
        assert 1 <= len(concerning(file)) <= 3
        assert all((_ROOT / test).is_file() for test in concerning(file)), file


def test_what_pytest_says_of_a_failure_is_read(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "def test_good(): pass\ndef test_bad(): assert 0, 'FAILED - why'\ndef test_worse(): 1 / 0\n"
    )
    assert failures(tmp_path, ["test_some.py"]) == ["test_some.py::test_bad"]
    assert failures(tmp_path, ["test_some.py"], "--maxfail=0") == [
        "test_some.py::test_bad",
        "test_some.py::test_worse",
    ]
    (tmp_path / "test_none.py").write_text("import nothing_of_the_kind\n")
    assert failures(tmp_path, ["test_none.py"]) == ["test_none.py"]
