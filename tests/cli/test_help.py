"""Help at the terminal: every command's example works when pasted, and names complete."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.cli import _COMMANDS, main
from saccade.experiments import EXPERIMENTS

ENTRY = [sys.executable, "-m", "saccade.cli"]
# Run to the end here; the others need a folder of checkpoints, a browser's patience, a text, or minutes.
QUICK = ("list", "run", "report", "completion", "env", "verify")


def example_of(command: str, capsys: pytest.CaptureFixture) -> str:
    with contextlib.suppress(SystemExit):  # which is how the reader of flags ends after its help
        assert main([command, "--help"]) == 0
    found = re.search(r"Example: (.+?)\n\n", capsys.readouterr().out, re.DOTALL)
    assert found is not None, command
    return " ".join(found[1].split())


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_help_has_an_example_of_its_own_command(command, capsys):
    assert shlex.split(example_of(command, capsys))[:2] == ["saccade", command]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    assert main(["reproduce", "growth-figures", "--out", str(folder / "results")]) == 0
    return folder


@pytest.mark.parametrize("command", QUICK)
def test_the_example_works_when_it_is_pasted(command, capsys, results, monkeypatch):
    monkeypatch.chdir(results)
    words = shlex.split(example_of(command, capsys).partition(" >> ")[0])
    assert main(words[1:]) == 0


def completed(words: list[str], shell: str) -> list[str]:
    """What Tab offers after these words."""
    script = subprocess.run([*ENTRY, "completion", shell], capture_output=True, text=True, check=True).stdout
    asked = f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _saccade; echo "${{COMPREPLY[@]}}"'
    answer = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    return answer.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here to complete in")
def test_names_complete_in_bash():
    assert completed(["saccade", "re"], "bash") == ["reproduce", "report"]
    assert completed(["saccade", "run", "syn-"], "bash") == [name for name in EXPERIMENTS if name.startswith("syn-")]
    assert completed(["saccade", "env", "syn-"], "bash") == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here to complete in")
def test_the_script_for_zsh_is_one_that_zsh_can_read():
    script = subprocess.run([*ENTRY, "completion", "zsh"], capture_output=True, text=True, check=True).stdout
    subprocess.run(["zsh", "-n"], input=script, text=True, check=True, env=os.environ)


def test_the_script_for_zsh_names_every_command_and_experiment(capsys):
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert all(name in script.split() for name in (*_COMMANDS, *EXPERIMENTS))


def test_an_unknown_shell_is_a_sentence(capsys):
    assert main(["completion", "fish"]) == 2
    assert "Known: bash, zsh" in capsys.readouterr().err
