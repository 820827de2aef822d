"""The bugs that `make mutants` plants can be planted, and are bugs: other code, not other layout."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import saccade
from tools.mutants import PARTS, PLANTED, drawn

_PACKAGE = Path(saccade.__file__).parent


@pytest.mark.parametrize("mutants", [PLANTED, *(drawn(part, 12) for part in PARTS)], ids=["planted", *PARTS])
def test_every_slip_stands_once_in_its_file_and_is_other_code_that_still_parses(mutants):
    for file, old, new, _ in mutants:
        text = (_PACKAGE / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old)
        assert ast.dump(ast.parse(text.replace(old, new))) != ast.dump(ast.parse(text)), (file, old)


def test_the_same_slips_are_drawn_every_time():
    assert drawn("theory", 5) == drawn("theory", 5)
    assert len(set(drawn("sweeps", 12))) == 12
