"""Flows at times of one's own: the same path, samples where something happens, and mistakes that
are named.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import saccade
from saccade.errors import InputError


class Step(saccade.System):
    """x' = x^2 (1 - x): rests near zero for a time 1/x(0), then falls to one within a few units."""

    seeds = None

    def start(self, rng):
        return {"x": np.array(1e-4)}

    def loss(self, parameters):
        return jnp.sum((1 - parameters["x"]) ** 2)

    def velocity(self, parameters):
        x = parameters["x"]
        return {"x": x**2 * (1 - x)}


def passed(x):
    """When x(t) from 1e-4 reaches a value: -1/x + ln(x / (1 - x)), less the same at the start."""
    return -1 / x + np.log(x / (1 - x)) + 1e4 - np.log(1e-4 / (1 - 1e-4))


def test_a_record_has_zero_and_the_times_that_were_asked_for():
    times = [3.0, 5.0, 11.0]
    record = saccade.flow(Step(), times=times)
    assert record.time.values.tolist() == [0.0, *times]
    assert saccade.flow(Step(), times=[0.0, 2.0]).time.values.tolist() == [0.0, 2.0]


def test_the_path_does_not_depend_on_when_it_is_recorded():
    logarithmic = saccade.flow(Step(), t1=2e4, n_times=50, rtol=1e-10, atol=1e-13)
    again = saccade.flow(Step(), times=logarithmic.time.values[1:], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(again.parameter_x, logarithmic.parameter_x, rtol=1e-9)


def test_samples_around_the_predicted_instant_see_what_log_spaced_ones_miss():
    instant = passed(0.5)
    exact = {"rtol": 1e-11, "atol": 1e-15}
    around = saccade.flow(
        Step(), times=saccade.engines.times_around(instant, until=2e4, n_times=60), **exact
    )
    logarithmic = saccade.flow(Step(), t1=2e4, n_times=len(around.time), **exact)

    def inside(record):
        return int(((record.parameter_x > 0.2) & (record.parameter_x < 0.8)).sum())

    assert inside(logarithmic) <= 1
    assert inside(around) > 30
    middle = float(np.interp(0.5, around.parameter_x, around.time))
    assert middle == pytest.approx(instant, abs=1e-3)


def test_times_crowd_around_every_instant_and_end_where_they_should():
    times = saccade.engines.times_around(100.0, 700.0, until=1000.0, n_times=20, closest=0.5)
    assert (np.diff(times) > 0).all()
    assert times[-1] == 1000.0
    assert times[0] > 0
    for instant in (100.0, 700.0):
        assert instant in times
        assert np.sort(np.abs(times - instant))[1:3] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    "times", [[], [1.0, 1.0], [2.0, 1.0], [-1.0, 2.0], [0.0], [1.0, np.nan], "now", 3.0]
)
def test_times_that_cannot_be_are_refused(times):
    with pytest.raises(InputError, match="times"):
        saccade.flow(Step(), times=times)


def test_times_go_without_an_end_and_a_count():
    with pytest.raises(InputError, match="leave out `t1` and `n_times`"):
        saccade.flow(Step(), times=[1.0], t1=2.0)
    with pytest.raises(InputError, match="instants"):
        saccade.engines.times_around(5.0, until=1.0)
