"""At full size every attack is another one, and can be made again; in CI it is always the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHOWN = (
    "from tests.attack.seed import REPEAT, randomness; print(REPEAT, randomness('flips').random())"
)


def shown(**given: str) -> str:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith("SACCADE_ATTACK")
    }
    asked = [sys.executable, "-c", SHOWN]
    return subprocess.run(
        asked, capture_output=True, text=True, check=True, cwd=ROOT, env=clean | given
    ).stdout


def test_full_attacks_draw_another_seed_each_time_and_repeat_one_that_is_given():
    first, second = (shown(SACCADE_ATTACK="full") for _ in range(2))
    assert first != second
    seed = first.split()[0].partition("=")[2]
    assert shown(SACCADE_ATTACK="full", SACCADE_ATTACK_SEED=seed) == first
    assert shown() == shown(SACCADE_ATTACK_SEED="0")


def test_the_seed_is_printed_before_the_first_attack():
    """With as many processes as `make attack` has: all of them draw from the same one."""
    asked = [
        sys.executable,
        "-m",
        "pytest",
        "tests/attack/test_flips.py",
        "-n",
        "2",
        "--collect-only",
    ]
    environment = os.environ | {"SACCADE_ATTACK": "full", "SACCADE_ATTACK_SEED": "0123abcd"}
    printed = subprocess.run(
        asked, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    ).stdout
    assert printed.startswith("SACCADE_ATTACK_SEED=0123abcd repeats these attacks")
