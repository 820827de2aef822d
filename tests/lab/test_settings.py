"""Settings out of the range of their declaration are refused by name before anything is run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from saccade import InputError
from saccade.experiments import EXPERIMENTS, REAL_TEXT, experiment
from saccade.lab.settings import Range, check_settings
from tests.cli.calls import called, one_sentence


@dataclass(frozen=True)
class Settings:
    steps: int = 5
    first: int = 0
    sizes: tuple[int, ...] = (0, 7)
    rate: float = 0.5
    pair: tuple[float, float] = (0.5, 2.0)
    stay: Annotated[float, Range(-1, 1)] = 0.5
    shift: Annotated[int, Range(-3, 3)] = 1
    scales: Annotated[tuple[float, ...], Range(0, 1, least=2)] = (0.5, 0.1)
    n_vocab: int | None = None
    seed: int = 0
    teacher_seed: int = 1
    seeds: int | tuple[int, ...] = 3
    is_fast: bool = True
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"rate": 10**12},
        {"rate": -1},
        {"first": 0},
        {"sizes": (0, 1)},
        {"rate": -2.0},
        {"stay": -1.0},
        {"shift": -3},
        {"seeds": (2**63 - 1,)},
        {"n_vocab": np.int64(3)},
    ],
)
def test_settings_in_range_are_taken(good):
    check_settings(replace(Settings(), **good))


@pytest.mark.parametrize(
    "bad, sentence",
    [
        ({"steps": 0}, "`steps` must be a whole number of at least 1; got 0"),
        ({"steps": -1}, "`steps` must be a whole number of at least 1; got -1"),
        ({"steps": 10**30}, "`steps` must be a whole number from 1 to 1e+09"),
        ({"first": -1}, "`first` must be a whole number of at least 0; got -1"),
        ({"sizes": (0, -7)}, "`sizes` must be a whole number of at least 0; got -7"),
        ({"sizes": ()}, "`sizes` must list at least one value"),
        ({"scales": (0.5,)}, "`scales` must list at least 2 values; got 1"),
        ({"rate": math.nan}, "`rate` must be a number of at most 1e+30 in size; got nan"),
        ({"rate": -math.inf}, "`rate` must be a number of at most 1e+30 in size; got -inf"),
        ({"pair": (0.5, 1e31)}, "`pair` must be a number of at most 1e+30 in size"),
        ({"stay": 1.5}, "`stay` must be a number of at least -1, at most 1; got 1.5"),
        ({"shift": 4}, "`shift` must be a number of at least -3, at most 3; got 4"),
        ({"seed": -1}, "`seed` must be a whole number from 0 to 2**63 - 1; got -1"),
        ({"teacher_seed": 2**63}, "`teacher_seed` must be a whole number from 0 to 2**63 - 1"),
        ({"steps": 2.5}, "`steps` cannot be 2.5: it is declared as int"),
        ({"pair": np.ones(2)}, "`pair` cannot be array"),
        (
            {"names": (Path("a"),)},
            "Settings are numbers, texts, bools, Literal choices, and tuples of these",
        ),
        ({"n_vocab": 0}, "`n_vocab` must be a whole number of at least 1; got 0"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(bad, sentence):
    with pytest.raises(InputError) as refused:
        check_settings(replace(Settings(), **bad))
    assert sentence in str(refused.value)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in REAL_TEXT])
def test_the_settings_that_an_experiment_is_published_with_are_in_range(name):
    check_settings(experiment(name).settings())


@pytest.mark.parametrize(
    "call",
    [
        ("who-gains", "--ratios", "nan"),
        ("who-gains", "--ratios", "-1"),
        ("plain-descent", "--ratios", "0"),
        ("first-force", "--steps", str(10**30)),
    ],
    ids=lambda call: call[1],
)
def test_the_command_line_refuses_them_in_a_sentence(call, tmp_path):
    code, _, err = called("run", *call, "--out", tmp_path)
    assert (code, one_sentence(err)) == (2, True), err
    assert f"`{call[1][2:].replace('-', '_')}` must be" in err
    assert not any(tmp_path.iterdir())
