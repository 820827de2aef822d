"""Help at the terminal: what there is, what to do first, and for every command an example that
works when it is pasted.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from saccade.cli import _COMMANDS, main
from saccade.experiments import experiment
from tests.cli.calls import called, strictly
from tests.cli.conftest import ANSWERS
from tests.patience import PATIENCE


def example_of(command: str, capsys: pytest.CaptureFixture) -> str:
    with contextlib.suppress(SystemExit):  # which is how the reader of flags ends after its help
        assert main([command, "--help"]) == 0
    found = re.search(
        r"^Example: (.+)$", capsys.readouterr().out, re.MULTILINE
    )  # one line: as it is pasted
    assert found is not None, command
    return found[1]


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_help_says_what_the_command_does(command, capsys):
    with contextlib.suppress(SystemExit):
        assert main([command, "--help"]) == 0
    assert re.search(r"^usage: .+\n\n[A-Z].+\.\n\nExample: ", capsys.readouterr().out)


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_help_has_an_example_of_its_own_command(command, capsys):
    assert shlex.split(example_of(command, capsys).rpartition(" && ")[2])[:2] == [
        "saccade",
        command,
    ]


def pasted(line: str, folder: Path) -> subprocess.Popen[str]:
    """A line given to a shell in an empty folder, with `saccade` and `python` of this environment."""
    commands = folder / "bin"
    commands.mkdir()
    for name, module in (("saccade", "-m saccade "), ("python", "")):
        (commands / name).write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n'
        )
        (commands / name).chmod(0o755)
    (folder / "empty").mkdir()
    environment = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}", "HOME": str(folder)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(["bash", "-c", line], cwd=folder / "empty", env=environment, **pipes)


@pytest.mark.parametrize("command", [command for command in _COMMANDS if command != "play"])
def test_the_example_works_when_it_is_pasted(command, capsys, tmp_path, monkeypatch):
    if command == "observe":
        pytest.importorskip("transformers")
    *before, last = example_of(command, capsys).split(" && ")
    monkeypatch.chdir(tmp_path)
    for part in before:
        if part.startswith("python -c "):  # here, where the libraries are loaded already
            exec(shlex.split(part)[2], {})
        elif not part.startswith("saccade "):
            subprocess.run(["bash", "-c", part], check=True)
        else:
            assert called(*shlex.split(part)[1:])[0] == 0
    if re.search("[|<>~$]", last):
        with pasted(last, tmp_path) as shell:
            _, err = shell.communicate(timeout=PATIENCE)
        assert shell.returncode == 0, err
        assert (tmp_path / ".bash_completion").stat().st_size > 0
    else:
        code, out, err = called(*shlex.split(last)[1:])
        assert (code, bool(out)) == (0, True), err


def test_the_example_of_play_serves_its_page_until_ctrl_c(capsys, tmp_path):
    with pasted(f"exec {example_of('play', capsys)}", tmp_path) as server:
        try:
            address = re.search(r"http://\S+", server.stdout.readline())[0]
            with urllib.request.urlopen(address, timeout=PATIENCE) as page:
                assert "<html" in page.read().decode()
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()  # or the block would wait for a server that Ctrl-C did not end


def test_list_shows_questions_with_answers_and_times(monkeypatch):
    monkeypatch.setattr("saccade.experiments.ANSWERS", ANSWERS)
    code, printed, _ = called("list")
    assert code == 0
    lines = printed.splitlines()[1:]  # in a pipe nothing is broken or cut
    assert [line.split()[0] for line in lines] == list(ANSWERS)
    assert "Can it? Yes: it can." in lines[0]
    assert lines[1].split() == ["joma", "Will", "it?", "No.", "2", "s"]
    code, printed, _ = called("list", "--json")
    rows = [
        {"name": name, **{key: value for key, value in stored.items() if key != "verdicts"}}
        for name, stored in ANSWERS.items()
    ]
    assert (code, strictly(printed)) == (0, rows)


def test_env_tells_the_versions_that_can_move_a_number():
    code, printed, _ = called("env", "--json")
    facts = strictly(printed)
    assert code == 0
    assert facts["version_numpy"] == np.__version__
    assert facts["python"] == sys.version.split()[0]
    code, plain, _ = called("env")
    assert code == 0
    assert plain.splitlines() == [f"{key}: {value}" for key, value in facts.items()]


def test_without_a_command_and_with_help_it_says_how_to_begin():
    for arguments in ((), ("help",), ("-h",), ("--help",)):
        code, printed, _ = called(*arguments)
        assert code == 0
        assert "saccade reproduce long-contexts" in printed


@pytest.mark.parametrize("command", [command for command in _COMMANDS if command != "run"])
def test_help_speaks_of_flags_and_not_of_types_in_python(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    printed = capsys.readouterr().out
    assert not re.search(r"None|False|\[\[|default: *\)|default: ''", printed)


def test_help_of_a_run_lists_the_settings(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", "first-force", "--help"])
    assert not stopped.value.code
    printed = capsys.readouterr().out
    assert all(
        f"--{field.name.replace('_', '-')} " in printed
        for field in fields(experiment("first-force").settings)
    )
