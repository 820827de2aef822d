"""Theorem 4 against Theorem 2: how fast the common token really falls, and what that does to the
growth bound.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saccade.theories.scan_and_snap import (
    backprop_coefficients,
    equal_overlap_coupling,
    floored_growth_bound,
    growth_bound,
    overlap_constant,
    scan_time,
    self_consistent_growth_bound,
    speed,
)

CLOCK = {"n_vocab": 1000, "n_classes": 10, "lr_decoder": 1.0}


def one_common_token_flow(times, *, n_vocab, n_classes, common_feature, lr_attention):
    """Theory's flow for one common token and one distinct token per class; returns z of the common
    token and B.
    """
    K, M = n_classes, n_vocab
    start = np.array([common_feature, np.sqrt(1 - common_feature**2)])

    def velocity(log_t, state):
        f_common, f_own = (w := start * np.exp(state[:2])) / np.linalg.norm(w)
        rho, t = f_common**2, np.exp(log_t)
        beta = backprop_coefficients(equal_overlap_coupling(rho, n_classes=K), n_vocab=M).other[
            0, 1
        ]
        drive = (
            lr_attention
            / K
            * speed(t, n_vocab=M, n_classes=K, lr_decoder=1.0)
            * (K - 1)
            * beta
            * rho
        )
        return t * np.array([-K * (1 - rho) * drive, f_own**2 * drive, drive])

    # In ln t, from so early a time that nothing has moved: B starts as t^2.
    span = np.log([1e-5 * scan_time(n_vocab=M, n_classes=K, lr_decoder=1.0), times[-1]])
    path = solve_ivp(
        velocity, span, np.zeros(3), t_eval=np.log(times), method="LSODA", rtol=1e-9, atol=1e-13
    ).y
    return path[0], path[2]


@pytest.mark.parametrize(("n_classes", "tolerance"), [(2, 0.25), (5, 0.07), (10, 0.07)])
def test_the_common_token_falls_about_classes_times_faster_than_theorem_4_assumes(
    n_classes, tolerance
):
    clock = {**CLOCK, "n_classes": n_classes}
    t = np.array([100 * scan_time(**clock)])
    z, B = one_common_token_flow(
        t, n_vocab=1000, n_classes=n_classes, common_feature=0.3, lr_attention=10.0
    )
    assert -z[0] / B[0] == pytest.approx(n_classes, rel=tolerance)


@pytest.mark.parametrize("n_classes", [2, 5, 10])
def test_self_consistent_bound_follows_the_flow_where_the_printed_one_is_several_times_too_large(
    n_classes,
):
    clock = {"n_vocab": 10**6, "n_classes": n_classes, "lr_decoder": 1.0}
    t = scan_time(**clock) * np.array([1, 10, 1e3, 1e6])
    _, B = one_common_token_flow(
        t, n_vocab=10**6, n_classes=n_classes, common_feature=0.1, lr_attention=100.0
    )
    case = {**clock, "lr_attention": 100.0}
    grown = self_consistent_growth_bound(t, **case, normaliser=10.0, distinct_concentration=0.98)
    np.testing.assert_allclose(grown, B, rtol=0.01)
    constant_normaliser = self_consistent_growth_bound(t, **case, normaliser=10.0)
    assert 1.05 < (constant_normaliser / B)[-1] < 1.4
    printed = growth_bound(t, **case, overlap_constant=overlap_constant(10.0, n_classes=n_classes))
    assert np.all(printed / B > n_classes)


@pytest.mark.parametrize("n_vocab", [100, 1000, 10**6])
@pytest.mark.parametrize("n_classes", [2, 5, 10])
@pytest.mark.parametrize(("common_feature", "tolerance"), [(0.1, 0.016), (0.3, 0.045)])
def test_floored_bound_follows_the_flow_at_any_vocabulary(
    n_vocab, n_classes, common_feature, tolerance
):
    clock = {"n_vocab": n_vocab, "n_classes": n_classes, "lr_decoder": 1.0}
    t = scan_time(**clock) * np.array([1, 10, 1e3, 1e6, 1e12])
    _, B = one_common_token_flow(
        t, n_vocab=n_vocab, n_classes=n_classes, common_feature=common_feature, lr_attention=10.0
    )
    concentration = (1 - common_feature**2) ** 2
    case = {
        **clock,
        "lr_attention": 10.0,
        "normaliser": 1 / common_feature,
        "distinct_concentration": concentration,
    }
    np.testing.assert_allclose(floored_growth_bound(t, **case), B, rtol=tolerance)


@pytest.mark.parametrize(
    ("floor", "bound"), [(0.0, self_consistent_growth_bound), (1e-3, floored_growth_bound)]
)
@pytest.mark.parametrize("concentration", [0.0, 0.7])
def test_each_bound_solves_its_own_premise(floor, bound, concentration):
    t, K, normaliser = np.geomspace(1, 1e5, 9), 10, 1.7

    def premise(s, state):
        rho = np.exp(2 * (state[0] - concentration * state[1])) / normaliser**2
        drive = 0.5 / K * speed(s, **CLOCK) * (K - 1) * rho * (rho + floor)
        return [-K * drive, drive]

    z, B = solve_ivp(
        premise, (0, t[-1]), [0.0, 0.0], t_eval=t, method="LSODA", rtol=1e-11, atol=1e-14
    ).y
    case = {
        **CLOCK,
        "lr_attention": 0.5,
        "normaliser": normaliser,
        "distinct_concentration": concentration,
    }
    np.testing.assert_allclose(bound(t, **case), B, rtol=1e-7)
    np.testing.assert_allclose(-z, K * B, rtol=1e-8)
    by_sum = bound(t, **{**case, "lr_attention": 0.05}, per_step=False)
    np.testing.assert_allclose(bound(t, **case), by_sum, rtol=1e-13)
