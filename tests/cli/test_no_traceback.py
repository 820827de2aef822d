"""What the system refuses, from a full disk behind standard output to a user without a home, is one
sentence and an exit code.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from saccade import cli
from saccade.data.text.cache import cache_folder
from saccade.errors import InputError
from saccade.places import user_path
from tests.cli.calls import called, one_sentence
from tests.patience import PATIENCE


def process(code: str, **streams: object) -> subprocess.CompletedProcess:
    """`saccade ...` as a shell starts it."""
    command = f"unset PYTHONUNBUFFERED; exec {sys.executable} -m saccade {code}"  # what is printed waits, as it does for most users
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **streams,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["list --json", "--help", "nonsense"])
def test_a_full_standard_output_is_one_sentence(command):
    ended = process(f"{command} > /dev/full")
    assert ended.returncode == 2
    assert one_sentence(ended.stderr)
    assert ("No space left on device" in ended.stderr) == (command != "nonsense")


def test_closed_standard_streams_do_no_harm(tmp_path):
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        ended = process(f"list {closed}", cwd=tmp_path)
        assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_a_file_never_takes_the_number_of_a_closed_stream():
    code = "import os; from saccade.cli import _open_streams; _open_streams(); os._exit(os.open(os.devnull, os.O_RDONLY))"
    ended = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -c '{code}' <&- >&- 2>&-"],
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode >= 3


LONG = "x" * 300
PLACES = {"long": LONG, "loop": "loop", "null": "a\0b", "bytes": os.fsdecode(b"\xff\xfe")}
COMMANDS = [
    ("report", "{}"),
    ("report", "results", "--out", "{}/page.html"),
    ("check", "{}"),
    ("forecast", "{}"),
    ("run", "{}.py"),
    ("sweep", "--status", "{}"),
    ("run", "first-force", "--out", "{}/x"),
    ("observe", "{}"),
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_place_that_cannot_be_is_one_sentence(tmp_path, monkeypatch, command, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.py").symlink_to("loop.py")
    code, _, err = called(*(part.format(PLACES[place]) for part in command))
    assert code == 2, err
    assert one_sentence(err.encode("utf-8", "backslashreplace").decode())


@pytest.fixture
def homeless(monkeypatch):
    """A user without a home, as in `docker run -u 1234`."""

    def nobody(number):
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_a_user_without_a_home_has_caches_for_as_long_as_the_process_lives(homeless):
    assert called("list")[0] == 0
    assert cache_folder(None).is_dir()


def test_a_home_that_nobody_has_is_one_sentence(homeless):
    for path in ("~", "~nosuchuser/text.txt"):
        with pytest.raises(InputError, match="there is no such home folder"):
            user_path(path)
    code, _, err = called("forecast", "~nosuchuser")
    assert (code, one_sentence(err)) == (2, True)


def test_too_little_memory_is_one_sentence(monkeypatch):
    for error in (
        MemoryError(),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 10 bytes."),
    ):

        def fails(arguments, error=error):
            raise error

        monkeypatch.setitem(cli._COMMANDS, "list", fails)
        code, _, err = called("list")
        assert (code, one_sentence(err), "not enough memory" in err) == (2, True, True)
