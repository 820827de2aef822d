"""How many runs, or which: a count, a list, and one chosen seed, as they are typed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from saccade.cli import main
from saccade.experiments import EXPERIMENTS, experiment
from saccade.records.store import load_record
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


def test_one_chosen_seed_is_run(tmp_path):
    small = (
        "--n-queries",
        "1",
        "--ratios",
        "1",
        "--lr-attention",
        "0.5",
        "1",
        "--steps",
        "2",
        "--batch",
        "1",
        "--context",
        "5",
    )
    main(["run", "published-figures", *small, "--seeds", "7,", "--out", str(tmp_path)])
    assert load_record(tmp_path / "published-figures" / "record.zarr").seed.values.tolist() == [7]


def test_every_experiment_with_seeds_takes_them_so():
    kinds = {
        name: experiment(name).settings.__dataclass_fields__.get("seeds") for name in EXPERIMENTS
    }
    assert {field.type for field in kinds.values() if field is not None} == {
        "int | tuple[int, ...]"
    }
