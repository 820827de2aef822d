"""JSON is written without NaN, and read without trust."""

from __future__ import annotations

import json
import math
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from saccade import InputError
from saccade.records import json_files
from saccade.records.json_files import (
    json_ready,
    parsed_json,
    read_json,
    read_sealed,
    write_json,
    write_sealed,
)


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
        (b'{"a": 1, "a": 2}', "has the key 'a' twice"),
    ],
)
def test_damaged_and_hostile_files_are_refused_in_a_sentence(tmp_path, content, sentence):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(
        InputError,
        match=f"a.json cannot be read: it .*{sentence}|a.json cannot be read: it {sentence}",
    ):
        read_json(tmp_path / "a.json")


def test_what_is_said_twice_is_found_at_once_among_many_fields():
    fields = ",".join(f'"{number}":0' for number in range(10**5))
    begun = time.process_time()
    with pytest.raises(InputError, match="has the key '99999' twice"):
        parsed_json(f'{{{fields},"99999":1}}')
    assert time.process_time() - begun < 10  # s; minutes if every field is looked for among all


def test_a_file_at_the_depth_that_is_read_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a":' + "[" * 63 + "]" * 63 + "}")
    assert list(read_json(tmp_path / "a.json")) == ["a"]


def test_files_that_are_too_large_pipes_and_missing_ones_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "MOST_BYTES", 100)
    (tmp_path / "large").write_text(json.dumps(list(range(101))))
    os.mkfifo(tmp_path / "pipe")
    for name, sentence in (
        ("large", "more than the 100 bytes that are read"),
        ("pipe", "not a regular file"),
        ("none", "No such file"),
    ):
        with pytest.raises(InputError, match=f"{name} cannot be read: .*{sentence}"):
            read_json(tmp_path / name, list)


def test_a_text_of_nothing_but_lists_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_MOST_PARTS", 100)
    (tmp_path / "a.json").write_text("[" + "[]," * 100 + "[]]")
    with pytest.raises(InputError, match="more than 100 lists and objects"):
        read_json(tmp_path / "a.json", list)


SHAPE = {"name": str, "runs": [{"seconds": (int, float)}], "of": {str: [str]}}
FITS = {
    "name": "a",
    "runs": [{"seconds": 1}, {"seconds": 0.5, "more": None}],
    "of": {"x": ["y"]},
    "more": 1,
}


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({}, ""),
        ({"name": 3}, "it['name'] is not text"),
        ({"runs": {}}, "it['runs'] is not a list"),
        ({"runs": [{}]}, "it['runs'][0] does not say 'seconds'"),
        (
            {"runs": [{"seconds": True}]},
            "it['runs'][0]['seconds'] is not a whole number or a number",
        ),
        ({"of": {"x": "y"}}, "it['of']['x'] is not a list"),
    ],
)
def test_only_the_shape_that_is_asked_for_is_read(tmp_path, changed, sentence):
    write_json(tmp_path / "a.json", FITS | changed)
    if not sentence:
        assert read_json(tmp_path / "a.json", SHAPE) == FITS
        return
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_json(tmp_path / "a.json", SHAPE)


def test_a_text_of_nothing_but_short_texts_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_MOST_ITEMS", 100)
    (tmp_path / "a.json").write_text(json.dumps(["ab"] * 101))
    assert len(read_json(tmp_path / "a.json", list)) == 101
    (tmp_path / "a.json").write_text(json.dumps(["ab"] * 102))
    with pytest.raises(InputError, match="it has more than 100 items"):
        read_json(tmp_path / "a.json", list)
    monkeypatch.setattr(json_files, "_MOST_FIELDS", 10)
    for n_fields in (10, 11):
        (tmp_path / "a.json").write_text(
            json.dumps({str(number): "" for number in range(n_fields)})
        )
    with pytest.raises(InputError, match="it has more than 10 fields"):
        read_json(tmp_path / "a.json")


def test_what_could_not_be_read_back_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "MOST_BYTES", 100)
    with pytest.raises(
        InputError, match=r"a\.json cannot be written: it has more than the 100 bytes that are read"
    ):
        write_sealed(tmp_path / "a.json", {"a": "b" * 101})
    assert not (tmp_path / "a.json").exists()


def test_json_is_read_by_one_reader():
    source = Path(json_files.__file__).parents[1]
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"json\.loads?\(", path.read_text())
    }
    assert found == {"records/json_files.py"}


def test_every_flipped_bit_of_a_sealed_file_is_found(tmp_path):
    path, value = (
        tmp_path / "a.json",
        {"name": "Zoë", "loss": [0.30000000000000004, None], "sha256": "own"},
    )
    write_sealed(path, value)
    with pytest.raises(InputError, match="has the key 'sha256' twice"):
        read_json(path)
    assert read_sealed(path) == value
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
            )
            with pytest.raises(InputError, match="it is not what was written"):
                read_sealed(path)
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match="it is not what was written"):
        read_sealed(path)
