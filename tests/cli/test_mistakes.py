"""Mistakes in the call: exit code 2 and one sentence, and nothing is written over."""

from __future__ import annotations

import os
import re

import pytest

from saccade.lab.experiment import Experiment
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
        (("reproduce", "context"), "-contexts'"),
        (("reproduce", "entropy"), "-entropy'? `saccade list` shows all."),
        (
            ("run", "first-forse"),
            "experiment 'first-forse' is not known. Did you mean 'first-force' or",
        ),
        (
            ("reproduce", "first-force", "nothing-like-it-xyz"),
            "experiment 'nothing-like-it-xyz' is not known.",
        ),
        (("run",), "`saccade run` needs an experiment first: "),
        (("run", "--seeds", "3"), "`saccade run` needs an experiment first"),
        (("run", "first-force", "--lr-atention", "1"), "Did you mean --lr-attention?"),
        (("list", "--jsn"), "Did you mean --json?"),
        (
            ("list", "everything"),
            "saccade: Unrecognized options: everything. See `saccade list --help`.",
        ),
        (("reproduce", "./mine.py"), "use `saccade run ./mine.py` for a file of your own"),
        (("env", "--json", "yes"), "Unrecognized options: yes"),
        (("run", "first-force", "--out"), "--out"),
        (("play", "--port", "abc"), "`--port` must be a whole number; got 'abc'"),
        (("run", "first-force", "--seed", "1.5"), "`--seed` must be a whole number; got '1.5'"),
        (
            ("run", "first-force", "--lr-attention", "fast"),
            "`--lr-attention` must be a number; got 'fast'",
        ),
        (("run", "reparameterisation", "--widths", "1", "wide"), "--widths"),
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
    assert not any(name in err for name in ("scan", "focus"))


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


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lr-decoder", "-1"),
        ("lr-decoder", "nan"),
        ("lr-decoder", "inf"),
        ("lr-decoder", ""),
        ("overlap", "nan"),
        ("seed", "-1"),
        ("seed", "1000000000000000000000"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_nothing_is_written(tmp_path, setting, value):
    code, printed, err = called(*SHORT, f"--{setting}", *value.split(), "--out", tmp_path)
    assert (code, printed) == (2, "")
    assert one_sentence(err), err
    assert re.search(setting.replace("-", "[-_]"), err), err
    assert os.listdir(tmp_path) == []


def test_an_output_folder_that_cannot_be_made_is_found_out_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(Experiment, "run", lambda *_: pytest.fail("the experiment was run first"))
    for out in (tmp_path / "file", tmp_path / "file" / "results", "/proc/no-such-place"):
        code, _, err = called("run", "first-force", "--out", out)
        assert code == 2
        assert one_sentence(err), err
        assert f"cannot write to {out}" in err
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_disk_that_fills_up_leaves_the_earlier_result(own, tmp_path, monkeypatch):
    from shutil import copytree

    def full(*_):
        raise OSError(28, "No space left on device")

    copytree(own[0], tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "quick" / "claims.json").read_text()
    monkeypatch.setattr("saccade.report.style.save_figure", full)
    code, _, err = called(*SHORT, "--out", tmp_path)
    assert code == 2
    assert one_sentence(err), err
    assert "No space left on device" in err
    assert (tmp_path / "quick" / "claims.json").read_text() == before
    assert set(os.listdir(tmp_path)) == {"quick", "report.html"}


def test_a_folder_whose_name_is_not_text_works_or_is_refused(tmp_path):
    code, _, err = called(
        *SHORT, "--out", f"{tmp_path}/caf\udce9"
    )  # how Python spells a byte of Latin-1
    assert code in (0, 1) or (code == 2 and one_sentence(err)), err


def test_a_value_that_cannot_be_used_is_said_before_an_earlier_result_is_in_the_way(reproduced):
    asked = ("run", "first-force", "--out", reproduced[0])
    code, _, err = called(*asked, "--lr-attention", "nan")
    assert (code, one_sentence(err)) == (2, True)
    assert "lr_attention" in err
    assert "--replace" not in err
    code, _, err = called(*asked, "--lr-attention", "3")
    assert (code, one_sentence(err)) == (2, True)
    assert "--replace" in err
