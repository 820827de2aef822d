"""How many runs, or which: a count, a list, and one chosen seed, as they are typed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from saccade.terminal import flags


@dataclass(frozen=True)
class Settings:
    seeds: int | tuple[int, ...] = 3
    """number of runs, or a list of seeds"""


def read(*words, default=3):
    return flags(
        list(words), "", "saccade run x", config=(Settings, Settings(default), "")
    ).config.seeds


@pytest.mark.parametrize(
    ("typed", "seeds"),
    [
        ("7", 7),
        ("7,", (7,)),
        ("4 7", (4, 7)),
        ("4,7", (4, 7)),
        ("4, 7", (4, 7)),
        ("-1", -1),
        (f"{2**60},", (2**60,)),
    ],
)
def test_a_comma_makes_a_list_of_one_number(typed, seeds):
    assert read("--seeds", *typed.split()) == seeds


def test_the_help_shows_how_one_seed_is_typed(capsys):
    with pytest.raises(SystemExit):
        read("--help", default=(7,))
    told = capsys.readouterr().out
    assert "COUNT|SEED,|SEED SEED ..." in told
    assert "(default: 7,)" in told
