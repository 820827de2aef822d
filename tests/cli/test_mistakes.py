"""Mistakes in the call: exit code 2 and one sentence, and nothing is written over."""

from __future__ import annotations

import os
import re

import pytest
from saccade.lab.protocol import Experiment

from saccade.terminal import _sentence
from tests.cli.calls import SHORT, called, one_sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("reprduce",), "command 'reprduce' is not known. Did you mean 'reproduce'?"),
        (("xyzzy",), "command 'xyzzy' is not known. Known: list"),
        (
            ("train",),
            "command 'train' is not known. Known: list",
        ),  # not `run`: letters in common are no meaning in common
        (
            ("reproduce", "everything"),
            "experiment 'everything' is not known. `saccade list` shows all.",
        ),
        (("reproduce", "scan-the-snap"), "Did you mean 'scan-then-snap'"),
        (("reproduce", "long-context"), "Did you mean 'long-contexts'"),
        (("reproduce", "wikitext"), "Did you mean 'wikitext-"),
        (("reproduce", "entropy"), "-entropy'? `saccade list` shows all."),
        (
            ("run", "long-contxts"),
            "experiment 'long-contxts' is not known. Did you mean 'long-contexts'? `saccade list` shows all.",
        ),
        (("reproduce", "published-figurs"), "Did you mean 'published-figures'"),
        (
            ("reproduce", "long-contexts", "nothing-like-it-xyz"),
            "experiment 'nothing-like-it-xyz' is not known.",
        ),
        (("run",), "`saccade run` needs an experiment first: "),
        (("run", "--seeds", "3"), "`saccade run` needs an experiment first"),
        (("run", "published-figures", "--lr-atention", "1"), "Did you mean --lr-attention?"),
        (("run", "published-figures", "--seed", "1"), "Did you mean --seeds?"),
        (
            ("run", "first-force", "--classes", "my.csv"),
            "Experiments with --classes: scan-then-snap.",
        ),
        (("list", "--jsn"), "Did you mean --json?"),
        (
            ("list", "everything"),
            "saccade: Unrecognized options: everything. See `saccade list --help`.",
        ),
        (("reproduce", "./mine.py"), "use `saccade run ./mine.py` for a file of your own"),
        (("env", "--json", "yes"), "Unrecognized options: yes"),
        (("run", "published-figures", "--out"), "--out"),
        (
            ("run", "published-figures", "--seeds", "ten"),
            "`--seeds` must be a whole number, or several of them (one seed has a comma: 7,); got 'ten'",
        ),
        (("play", "--port", "abc"), "`--port` must be a whole number; got 'abc'"),
        (
            ("run", "published-figures", "--seeds", "1.5"),
            "`--seeds` must be a whole number, or several of them (one seed has a comma: 7,); got '1.5'",
        ),
        (("run", "published-figures", "--lr-attention", "fast"), "--lr-attention"),
        (("run", "published-figures", "--ratios", "1", "fast"), "--ratios"),
    ],
)
def test_a_mistake_in_the_call_is_one_sentence_that_helps(arguments, sentence):
    code, printed, err = called(*arguments)
    assert (code, printed) == (2, "")
    assert one_sentence(err), err
    assert sentence in err


BOXED = """╭─ Unrecognized options ──────────────╮
│ Unrecognized options: --jsn         │
│ ─────────────────────────────────── │
│ Perhaps you meant:                  │
│     --json                          │
╰─────────────────────────────────────╯"""
UNBOXED = """ Unrecognized options
 -------------------------------------
  Unrecognized options: --jsn
  -------------------------------------
  Perhaps you meant:
      --json
"""


@pytest.mark.parametrize("told", [BOXED, UNBOXED])
def test_an_unknown_option_is_named_whether_or_not_boxes_can_be_drawn(told):
    assert (
        _sentence(told, "saccade list")
        == "Unrecognized options: --jsn. Did you mean --json? See `saccade list --help`."
    )


def test_an_unknown_experiment_is_told_from_at_most_three_of_the_nearest_names():
    _, _, err = called("run", "text-cycl")
    assert 4 < err.count("'") <= 8  # around what was typed, and up to three names
    assert "text-cycle" in err
    assert not any(name in err for name in ("syn-small", "scan", "focus"))


def test_classes_that_do_not_sum_to_one_are_mended_in_the_file_not_in_python(tmp_path):
    (tmp_path / "bad.csv").write_text("class,sun,moon\nday,.6,.6\nnight,0,1\n", encoding="utf-8")
    code, _, err = called(
        "run",
        "scan-then-snap",
        "--classes",
        str(tmp_path / "bad.csv"),
        "--out",
        str(tmp_path / "out"),
    )
    assert code == 2
    assert "class 'day' sums to 1.2. Divide each row by its sum" in err


@pytest.mark.parametrize("name", ["long-contexts", "published-figures"])
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lr-attention", "-1"),
        ("lr-attention", "nan"),
        ("lr-attention", "inf"),
        ("ratios", "-2"),
        ("ratios", "nan"),
        ("ratios", ""),
        ("momentum", "1"),
        ("momentum", "-0.5"),
        ("momentum", "nan"),
        ("batch", "0"),
        ("batch", "-3"),
        ("batch", "1000000000000000000"),
        ("context", "0"),
        ("context", "10000000000000000000"),
        ("seeds", "0"),
        ("seeds", "1000000000000000000"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_nothing_is_written(
    tmp_path, name, setting, value
):
    settings = [] if name == "long-contexts" else list(SHORT[2:])
    code, printed, err = called(
        "run", name, *settings, f"--{setting}", *value.split(), "--out", tmp_path
    )
    assert (code, printed) == (2, "")
    assert one_sentence(err), err
    assert re.search(setting.replace("-", "[-_]"), err), err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("setting", ["n-queries", "lr-attention", "ratios"])
@pytest.mark.parametrize("values", [[], ["1", "1"]])
def test_a_list_that_is_empty_or_says_a_value_twice_is_one_sentence(tmp_path, setting, values):
    code, _, err = called(*SHORT, f"--{setting}", *values, "--out", tmp_path)
    assert code == 2
    assert one_sentence(err), err
    assert re.search(setting.replace("-", "[-_]"), err), err


def test_an_output_folder_that_cannot_be_made_is_found_out_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(Experiment, "run", lambda *_: pytest.fail("the experiment was run first"))
    for out in (tmp_path / "file", tmp_path / "file" / "results", "/proc/no-such-place"):
        code, _, err = called("run", "published-figures", "--out", out)
        assert code == 2
        assert one_sentence(err), err
        assert f"cannot write to {out}" in err
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_disk_that_fills_up_leaves_the_earlier_result(medium, tmp_path, monkeypatch):
    from shutil import copytree

    def full(*_):
        raise OSError(28, "No space left on device")

    copytree(medium[0], tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "published-figures" / "claims.json").read_text()
    monkeypatch.setattr("saccade.report.style.save_figure", full)
    code, _, err = called(*SHORT, "--seeds", 2, "--out", tmp_path)
    assert code == 2
    assert one_sentence(err), err
    assert "No space left on device" in err
    assert (tmp_path / "published-figures" / "claims.json").read_text() == before
    assert set(os.listdir(tmp_path)) == {"published-figures", "report.html"}


def test_a_folder_whose_name_is_not_text_works_or_is_refused(tmp_path):
    code, _, err = called(
        *SHORT, "--seeds", 2, "--out", f"{tmp_path}/caf\udce9"
    )  # how Python spells a byte of Latin-1
    assert code in (0, 1) or (code == 2 and one_sentence(err)), err


def test_a_value_that_cannot_be_used_is_said_before_an_earlier_result_is_in_the_way(tmp_path):
    assert called(*SHORT, "--out", tmp_path)[0] in (0, 1)
    code, _, err = called(*SHORT, "--lr-attention", "-1", "--out", tmp_path)
    assert (code, one_sentence(err)) == (2, True)
    assert "lr_attention" in err
    assert "--replace" not in err
    code, _, err = called(*SHORT, "--lr-attention", "3", "--out", tmp_path)
    assert (code, one_sentence(err)) == (2, True)
    assert "--replace" in err
