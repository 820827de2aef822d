"""The settings that made a record come back as they were, and nothing else does."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Literal

import pytest
import xarray as xr

from saccade import InputError
from saccade.experiments import EXPERIMENTS, NEED_TORCH, experiment
from saccade.records.schema import settings_of, with_settings


@dataclass(frozen=True)
class Settings:
    steps: int = 5
    rate: float = 0.5
    name: str = "inf"
    is_fast: bool = True
    n_vocab: int | None = None
    seeds: int | tuple[int, ...] = 3
    pair: tuple[float, float] = (0.5, math.inf)
    probes: tuple[tuple[str, ...], ...] = (("a",), ())
    optimiser: Literal["sgd", "adam"] = "sgd"


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"rate": -math.inf},
        {"rate": 2, "seeds": (5, 7)},
        {"n_vocab": 11, "probes": ()},
        {"optimiser": "adam"},
    ],
)
def test_settings_come_back_as_they_were(changed):
    settings = replace(Settings(), **changed)
    record = with_settings(xr.Dataset(), settings)
    assert settings_of(record, Settings) == settings
    assert (
        settings_of(json.loads(json.dumps(record.attrs)), Settings) == settings
    )  # from about.json


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_settings_of_every_experiment_come_back(name):
    if name in NEED_TORCH:
        pytest.importorskip("torch")
    kind = experiment(name).settings
    assert settings_of(with_settings(xr.Dataset(), kind()), kind) == kind()


@pytest.mark.parametrize(
    "stored, sentence",
    [
        ({"steps": "many"}, "`steps` cannot be 'many'"),
        ({"steps": True}, "`steps` cannot be True"),
        ({"rate": "fast"}, "`rate` cannot be 'fast'"),
        ({"pair": [1.0]}, r"`pair` cannot be \[1.0\]"),
        ({"seeds": [1, "two"]}, "`seeds` cannot be 'two'"),
        (
            {"optimiser": "lion"},
            r"`optimiser` cannot be 'lion': it is declared as Literal\['sgd', 'adam'\]",
        ),
        ({"epochs": 3}, "not settings of the experiment: 'epochs'"),
    ],
)
def test_settings_that_an_experiment_cannot_have_are_refused(stored, sentence):
    with pytest.raises(InputError, match=sentence):
        settings_of({"settings": json.dumps(stored)}, Settings)


def test_a_record_without_settings_says_so():
    with pytest.raises(InputError, match="does not say which settings made it"):
        settings_of(xr.Dataset(), Settings)
