"""Ctrl-C: one sentence, exit code 130, and what was finished before stays as it was."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from saccade import cli
from tests.cli.calls import QUICK, finished, one_sentence, started
from tests.patience import PATIENCE


def interrupted(out: Path, *settings: str) -> tuple[int, str]:
    """Start a run of hours, press Ctrl-C once it is under way; exit code and standard error."""
    process = started("-m", "saccade", "run", QUICK, "--pause", "6000", *settings, "--out", out)
    try:
        deadline = time.monotonic() + PATIENCE
        while not list(out.glob(".quick.*.unfinished")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "did not begin"
            time.sleep(0.01)
        time.sleep(1.5)  # past the imports, into compiling or running
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        return process.returncode, err
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_ends_with_130_one_sentence_and_the_earlier_result_intact(own, tmp_path):
    from shutil import copytree

    copytree(own[0], tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, err = interrupted(tmp_path, "--replace")
    assert code == 130
    assert one_sentence(err), err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert set(os.listdir(tmp_path)) == {"quick", "report.html"}


def test_ctrl_c_stops_a_run_of_hours(tmp_path):
    code, err = interrupted(tmp_path)
    assert code == 130
    assert one_sentence(err), err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "module", ["tyro", "rich.table", "saccade.experiments", "scipy", "matplotlib"]
)
def test_ctrl_c_while_anything_is_being_imported_is_one_sentence(module, tmp_path):
    code = """
import sys
from importlib.abc import MetaPathFinder

interrupted, *arguments = sys.argv[1:]

class CtrlC(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == interrupted:
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
sys.argv[1:] = arguments
from saccade.cli import entry
entry()
"""
    command = (
        ["list"]
        if module in ("tyro", "rich.table")
        else ["run", "first-force", "--out", tmp_path / "results"]
    )
    ended, _, err = finished("-c", code, module, *command)
    assert (ended, one_sentence(err)) == (130, True), err


def test_ctrl_c_while_garbage_is_collected_is_not_lost():
    code = """
import gc, os, signal, time, weakref
from saccade.cli import answer_ctrl_c

class Garbage:
    pass

def pressed(_):
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(100))  # the answer is given here, where it would be lost

answer_ctrl_c()
garbage = Garbage()
garbage.itself, seen = garbage, weakref.ref(garbage, pressed)
del garbage
try:
    gc.collect()
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert finished("-c", code) == (0, "interrupted\n", "")


def test_a_second_ctrl_c_that_comes_while_the_first_one_waits_in_a_callback_waits_too(monkeypatch):
    waiting = []
    monkeypatch.setattr(
        cli.threading,
        "Timer",
        lambda *arguments: SimpleNamespace(start=lambda: waiting.append(arguments)),
    )

    def asleep():
        cli._answer_ctrl_c(signal.SIGINT, sys._getframe())

    def _xla_gc_callback():
        asleep()

    _xla_gc_callback()
    assert len(waiting) == 1
    with pytest.raises(KeyboardInterrupt):
        asleep()
