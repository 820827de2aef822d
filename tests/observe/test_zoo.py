"""A sample of `make zoo`: architectures of Transformers end as the table in the docs says, and a defect would show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from saccade.observe import softmax_trail  # noqa: E402
from tools import zoo  # noqa: E402

TABLE = Path(__file__).parents[2] / "docs" / "models.md"
pytestmark = pytest.mark.filterwarnings("ignore")  # what other people's models warn of


def outcomes() -> dict[str, str]:
    return dict(re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", TABLE.read_text("utf-8"), flags=re.MULTILINE))


def test_the_table_has_no_defect_and_is_of_most_architectures():
    found = outcomes()
    assert set(found.values()) <= {"equal", "seen", "refused"}
    assert sum(outcome == "equal" for outcome in found.values()) > 200
    assert set(zoo.SAMPLE) <= set(found)


@pytest.mark.parametrize("name", zoo.SAMPLE)
def test_a_type_ends_as_the_table_says(name):
    if transformers.__version__ not in TABLE.read_text("utf-8"):
        pytest.skip("the table is of another version of Transformers")
    assert zoo.tried(name).outcome == outcomes()[name]


def test_numbers_that_differ_are_told(monkeypatch):
    real = softmax_trail._call
    monkeypatch.setattr(zoo, "KERNELS", ("eager",))

    def shifted(known, used, *rest):
        call = real(known, used, *rest)
        return softmax_trail.replace(call, rows=lambda start, stop, dtype: call.rows(start, stop, dtype).roll(1, -1))

    monkeypatch.setattr(softmax_trail, "_call", shifted)
    assert zoo.tried("gpt2").outcome == "different"


def test_an_error_that_is_no_sentence_is_told(monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("saccade.observe.observer.look", broken)
    assert zoo.tried("gpt2").outcome == "traceback"
