"""The embedded model's flow in C: the same path as SciPy's with JAX's gradient and Jacobian, and no
harm where it cannot go.
"""

from __future__ import annotations

import ctypes
import json

import jax
import numpy as np
import pytest

from saccade import flow
from saccade.data.markov import MarkovChain
from saccade.model import embedded, flow_kernel
from saccade.model.embedded import Embedded, invariants, weights_of

CHAIN = MarkovChain.zipf(5, stay=0.4)
CASES = {
    "sizes that need padding": {"d_model": 7, "d_key": 3, "init_scale": 0.3},
    "sizes that need none": {"d_model": 8, "d_key": 4, "init_scale": 0.3},
    "attention at another rate and scale": {
        "lr_attention": 5.0,
        "lr_decoder": 0.5,
        "logit_scale": 3.0,
        "scaled": True,
        "init_scale": 0.2,
    },
    "attention at rest": {"lr_attention": 0.0, "init_scale": 0.3},
    "stiff": {"init_scale": 5.0},
}
UNKNOWNS = ("embedding", "query_matrix", "key_matrix", "projection", "loss")


@pytest.fixture(autouse=True)
def kernel(built):
    with built(flow_kernel):
        yield


def method_of(record) -> str:
    return json.loads(record.attrs["config"])["solver"]["method"]


@pytest.mark.parametrize("case", CASES)
def test_the_path_is_that_of_scipy(case):
    asked = {"t1": 100.0, "n_times": 30}
    ours, scipys = (
        flow(Embedded(CHAIN, **CASES[case]), **asked, method=method) for method in ("auto", "LSODA")
    )
    assert (method_of(ours), method_of(scipys)) == (flow_kernel.METHOD, "LSODA")
    for name in UNKNOWNS:
        np.testing.assert_allclose(
            ours[name].values, scipys[name].values, rtol=0, atol=2e-7, err_msg=name
        )


def test_a_hundred_times_the_tolerance_moves_the_path_by_little_and_a_ten_thousandth_by_less():
    model, asked = Embedded(CHAIN, init_scale=0.1), {"t1": 500.0, "n_times": 40}
    exact, fine, coarse = (
        flow(model, **asked, rtol=rtol, atol=rtol / 100).embedding.values
        for rtol in (1e-12, 1e-9, 1e-6)
    )
    gaps = [np.abs(path - exact).max() for path in (fine, coarse)]
    assert gaps[0] < 1e-6
    assert gaps[1] < 1e-3
    assert gaps[0] < gaps[1] / 50


@pytest.mark.parametrize("n_tokens", [13, 32])
def test_both_invariants_are_held_with_more_tokens(n_tokens):
    record = flow(MarkovChain.zipf(n_tokens, stay=0.5), t1=2000.0, n_times=60).isel(seed=0)
    assert method_of(record) == flow_kernel.METHOD
    for matrix in invariants(weights_of(record)):
        assert np.abs(matrix - matrix[0]).max() < 1e-8


def test_a_flow_that_is_too_stiff_is_followed_by_scipy(monkeypatch):
    monkeypatch.setattr(flow_kernel, "_MOST_EVALUATIONS", 100)
    record = flow(Embedded(CHAIN, init_scale=0.3), t1=50.0, n_times=5)
    assert method_of(record) == "LSODA"
    assert record.stop_reason.values == "finished"


@pytest.mark.parametrize("why", ["no library", "no attention logits"])
def test_where_it_cannot_be_scipy_follows_the_flow(why, monkeypatch):
    if why == "no library":
        monkeypatch.setattr(flow_kernel, "_library", lambda: None)
    record = flow(
        Embedded(CHAIN, init_scale=0.3, logit_scale=0.0 if why == "no attention logits" else 1.0),
        t1=50.0,
        n_times=5,
    )
    assert method_of(record) == "LSODA"


def test_each_step_counts_a_velocity_and_a_derivative_at_least(monkeypatch):
    made = []

    class Kept(flow_kernel._Progress):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(flow_kernel, "_Progress", Kept)
    record = flow(MarkovChain.zipf(6, stay=0.5), t1=500.0, n_times=3)
    counted = json.loads(record.attrs["config"])["solver"]["n_evaluations"]
    assert made[0].n_steps > 10
    assert counted >= 2 * made[0].n_steps


def test_progress_is_told_and_ends_at_one():
    told: list[float] = []
    flow(MarkovChain.zipf(6, stay=0.5), t1=5000.0, n_times=3, seeds=2, on_progress=told.append)
    assert len(told) > 10
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_velocity_and_its_derivative_along_a_direction_are_those_of_jax():
    """Newton's method would lead to the right path with a wrong derivative too, only later."""
    rng, chain = np.random.default_rng(3), MarkovChain.random(np.arange(1, 9) / 36, seed=1)
    setting = embedded.Setting(chain.stationary, chain.transition, 1.0, 0.7, 1.3)
    point, direction = (
        embedded.Weights(
            *(rng.normal(0, 0.5, size) for size in ((8, 12), (12, 4), (12, 4), (12, 8)))
        )
        for _ in "ab"
    )
    with jax.enable_x64(True):
        expected = jax.jvp(
            lambda weights: embedded.velocity(weights, setting), (point,), (direction,)
        )
    library, so_far = flow_kernel._library(), flow_kernel._Progress()
    library.saccade_flow_derivative.argtypes, library.saccade_flow_derivative.restype = (
        [ctypes.c_void_p] * 4,
        None,
    )
    start, along = (
        np.concatenate([part.ravel() for part in weights]) for weights in (point, direction)
    )
    rates = setting.lr_decoder, setting.lr_attention * setting.phi_scale
    tables = (part.ctypes.data for part in (setting.stationary, setting.transition, start))
    problem = flow_kernel._Problem(8, 8, 12, 4, *rates, 1e-8, 1e-10, *tables)
    begun = library.saccade_flow_begin(ctypes.byref(problem), ctypes.byref(so_far))
    found = np.empty_like(start), np.empty_like(start)
    library.saccade_flow_derivative(begun, along.ctypes.data, *(part.ctypes.data for part in found))
    library.saccade_flow_end(begun)
    for ours, jaxs in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            ours, np.concatenate([np.ravel(part) for part in jaxs]), rtol=0, atol=1e-13
        )
