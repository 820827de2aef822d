"""Names complete in bash and in zsh, as for a person who types a few letters and presses Tab."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from saccade.cli import _COMMANDS, main
from saccade.experiments import EXPERIMENTS
from tests.patience import PATIENCE

ENTRY = [sys.executable, "-m", "saccade"]


def script(shell: str) -> str:
    return subprocess.run(
        [*ENTRY, "completion", shell], capture_output=True, text=True, check=True
    ).stdout


def offered_in_bash(words: list[str]) -> list[str]:
    """What Tab offers after these words."""
    asked = f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _saccade; echo "${{COMPREPLY[@]}}"'
    answer = subprocess.run(
        ["bash", "-c", f"{script('bash')}\n{asked}"], capture_output=True, text=True, check=True
    )
    return answer.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here to complete in")
def test_names_complete_in_bash():
    assert offered_in_bash(["saccade", "re"]) == ["reproduce", "report"]
    assert offered_in_bash(["saccade", "run", "first-"]) == [
        name for name in EXPERIMENTS if name.startswith("first-")
    ]
    assert offered_in_bash(["saccade", "env", "first-"]) == []


def typed_in_zsh(folder: Path, setup: str, lines: list[str]) -> list[str]:
    """Lines typed into a zsh at a terminal of its own, each with Tab at its end, as they stand
    there after it.
    """
    seen = folder / "seen"
    ready = f"zle-line-init() {{ print >> {seen} }}; zle -N zle-line-init"
    keep = f"keep() {{ print -r -- $BUFFER >> {seen}; BUFFER= }}; zle -N keep; bindkey '^X' keep"
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "HOME": str(folder)}
    zsh = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    )
    os.close(theirs)
    try:
        os.write(ours, f"{setup}; {keep}; {ready}\n".encode())
        for number, line in enumerate(lines):
            _shown_until(
                ours,
                lambda wanted=number + 1: seen.exists() and seen.read_text().count("\n") == wanted,
            )
            os.write(ours, f"{line}\t\x18".encode())
        _shown_until(ours, lambda: seen.read_text().count("\n") == len(lines) + 1)
    finally:
        zsh.kill()
        zsh.wait()
        os.close(ours)
    return seen.read_text().splitlines()[1:]


def _shown_until(terminal: int, is_done: Callable[[], bool]) -> None:
    """Read what a terminal shows, or its program waits, until something has come about."""
    end = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < end, "zsh does not answer"
        if select.select([terminal], [], [], 0.02)[0]:
            os.read(terminal, 4096)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here to complete in")
@pytest.mark.parametrize(
    "setup",
    [
        "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D",  # read at the first Tab
        "autoload -Uz compinit; compinit -u -D; source ./_saccade",
        "source ./_saccade",  # nobody has called compinit
    ],
)
def test_names_complete_in_zsh_at_the_first_tab(setup, tmp_path):
    (tmp_path / "_saccade").write_text(script("zsh"))
    (tmp_path / "results").mkdir()
    typed = [
        "saccade repr",
        "saccade run first-f",
        "saccade sweep conde",
        "saccade env first-f",
        "saccade report resu",
    ]
    assert typed_in_zsh(tmp_path, setup, typed) == [
        "saccade reproduce ",
        "saccade run first-force ",
        "saccade sweep condensation ",
        "saccade env first-f",  # it takes no experiment
        "saccade report results/",
    ]


def test_the_script_for_zsh_names_every_command_and_experiment(capsys):
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert all(name in script.split() for name in (*_COMMANDS, *EXPERIMENTS))


def test_an_unknown_shell_is_a_sentence(capsys):
    assert main(["completion", "fish"]) == 2
    assert "Known: bash, zsh" in capsys.readouterr().err
