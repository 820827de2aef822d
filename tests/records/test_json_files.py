"""JSON is written without NaN, and read without trust."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest

from saccade import InputError
from saccade.records import json_files
from saccade.records.json_files import json_ready, read_json, write_json


def test_numbers_that_json_does_not_have_are_null_or_text_and_those_of_numpy_are_plain():
    value = {"a": (math.nan, np.float64("inf"), np.int64(3)), 7: [{"b": -math.inf}]}
    assert json_ready(value) == {"a": [None, None, 3], "7": [{"b": None}]}
    assert json_ready(value, str) == {"a": ["nan", "inf", 3], "7": [{"b": "-inf"}]}


def test_what_was_written_is_read_back(tmp_path):
    write_json(tmp_path / "a.json", {"name": "Zoë", "loss": [1.5, math.nan]})
    assert read_json(tmp_path / "a.json") == {"name": "Zoë", "loss": [1.5, None]}


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b'{"a": ', "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[]", "is not an object"),
        (b'{"a":' + b"[" * 10**5 + b"]" * 10**5 + b"}", "nested more than 64 deep"),
        (b'{"a":' + b"[" * 65 + b"]" * 65 + b"}", "nested more than 64 deep"),
        (b"1" * 10**4, "is not JSON"),
    ],
)
def test_damaged_and_hostile_files_are_refused_in_a_sentence(tmp_path, content, sentence):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=f"a.json cannot be read: it .*{sentence}|a.json cannot be read: it {sentence}"):
        read_json(tmp_path / "a.json")


def test_a_file_at_the_depth_that_is_read_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a":' + "[" * 63 + "]" * 63 + "}")
    assert list(read_json(tmp_path / "a.json")) == ["a"]


def test_files_that_are_too_large_pipes_and_missing_ones_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_MOST_BYTES", 100)
    (tmp_path / "large").write_text(json.dumps(list(range(101))))
    os.mkfifo(tmp_path / "pipe")
    for name, sentence in (("large", "more than the 100 that are read"), ("pipe", "not a regular file"), ("none", "No such file")):
        with pytest.raises(InputError, match=f"{name} cannot be read: .*{sentence}"):
            read_json(tmp_path / name, list)
