"""Runs in one compiled call: each has the record that it has alone, in its own order and with its
own settings.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.experiments import EXPERIMENTS, experiment

SMALL = {"steps": 7, "batch": 17, "context": 11}
# Seeds and rates that overlap, differ in number and stand in another order.
CONFIGS = {
    "syn-small-attention": [
        {"batch": 17, "context": 11} | own
        for own in (
            {"ratios": (1.0, 5.0), "seeds": (3, 1)},
            {"ratios": (5.0,), "lr_attention": 0.5, "seeds": 2},
        )
    ],
    "adam-subsets": [
        SMALL | own for own in ({"lrs": (0.5, 0.1), "seeds": (3, 1)}, {"lrs": (0.1,), "seeds": 2})
    ],
    "syn-medium-entropy": [
        SMALL | {"n_queries": (1, 3)} | own
        for own in (
            {"lr_attention": (2.0, 0.5), "ratios": (1.0, 3.0, 5.0), "seeds": (3, 1)},
            {"lr_attention": (0.5,), "ratios": (3.0,), "seeds": 1},
        )
    ],
}


def assert_alike(found: xr.Dataset, alone: xr.Dataset) -> None:
    assert list(found.variables) == list(alone.variables)
    assert found.attrs.keys() == alone.attrs.keys()
    assert all(
        found.attrs[name] == alone.attrs[name] for name in alone.attrs if name != "wall_time_s"
    )
    for name, variable in alone.variables.items():
        assert found[name].dims == variable.dims
        assert found[name].dtype == variable.dtype
        assert found[name].attrs == variable.attrs
        if variable.dtype.kind == "f":
            np.testing.assert_allclose(
                found[name].values, variable.values, rtol=1e-5, atol=1e-6, err_msg=str(name)
            )
        else:
            np.testing.assert_array_equal(found[name].values, variable.values)


@pytest.mark.parametrize("name", CONFIGS)
def test_together_equals_one_by_one(name: str) -> None:
    asked = experiment(name)
    configs = [asked.settings(**settings) for settings in CONFIGS[name]]
    found = asked.run_together(configs)
    assert len(found) == len(configs)
    for record, config in zip(found, configs, strict=True):
        assert_alike(record, asked.run(config))
        assert record.attrs["settings"] == json.dumps(config.__dict__)


def test_every_experiment_that_runs_together_is_looked_at_here() -> None:
    able = {name for name in EXPERIMENTS if experiment(name).together is not None}
    assert able == set(CONFIGS)
    for name in able:
        assert set(experiment(name).free) <= set(experiment(name).settings.__dataclass_fields__)


def test_a_run_that_diverges_leaves_the_others_as_they_are() -> None:
    asked = experiment("syn-medium-entropy")
    calm = asked.settings(**SMALL, n_queries=(1,), lr_attention=(0.5,), ratios=(1.0,), seeds=(1,))
    wild = replace(calm, lr_attention=(1e12,), seeds=(2,))
    found = asked.run_together([wild, calm])
    assert found[0].stop_reason.item() == "diverged"
    assert_alike(found[1], asked.run(calm))


@pytest.mark.parametrize("name", CONFIGS)
def test_other_settings_must_agree(name: str) -> None:
    asked = experiment(name)
    with pytest.raises(InputError, match="batch"):
        asked.run_together([asked.settings(batch=16), asked.settings(batch=17)])
    with pytest.raises(InputError, match="at least one"):
        asked.run_together([])
