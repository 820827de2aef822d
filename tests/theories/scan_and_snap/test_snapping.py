"""Theorem 4: the growth bound as printed, normalised and self-consistent, its asymptotes, and the
published figures.
"""

import numpy as np
import pytest

from saccade.theories.scan_and_snap import (
    early_growth_bound,
    growth_bound,
    growth_exponent,
    growth_factor_bounds,
    late_growth_bound,
    late_growth_time,
    overlap_constant,
    scan_time,
    snap_time,
    very_late_growth_bound,
)

CLOCK = {"n_vocab": 1000, "n_classes": 10, "lr_decoder": 1.0}
CASE = {**CLOCK, "lr_attention": 0.5, "overlap_constant": 0.3}


def test_printed_bound_is_off_by_a_quarter_of_the_log_of_its_constant_even_at_zero():
    t = np.array([0.0, 1.0, 1e3, 1e12])
    difference = growth_bound(t, **CASE, as_printed=True) - growth_bound(t, **CASE)
    np.testing.assert_allclose(difference, 0.25 * np.log(0.3), atol=1e-13)
    assert growth_bound(0.0, **CASE) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("time", "exact", "early", "late"),
    [
        (0.5, 1.192, 1.196, 1.624),
        (1, 1.499, 1.542, 1.665),
        (2.6396, 1.680, 2.027, 1.717),
        (26.396, 1.820, 3.178, 1.822),
    ],
)
def test_asymptotes_have_the_published_values(time, exact, early, late):
    t = time * scan_time(**CLOCK)
    assert growth_bound(t, **CASE, as_printed=True) == pytest.approx(exact, abs=6e-4)
    assert early_growth_bound(t, **CASE, as_printed=True) == pytest.approx(early, abs=6e-4)
    assert late_growth_bound(t, **CASE, as_printed=True) == pytest.approx(late, abs=6e-4)


def test_growth_is_logarithmic_before_the_onset_and_doubly_logarithmic_after():
    early, late = (
        np.array([0.01, 0.1, 0.3]) * scan_time(**CLOCK),
        np.array([20, 1e3, 1e10]) * snap_time(**CLOCK),
    )
    np.testing.assert_allclose(
        early_growth_bound(early, **CASE), growth_bound(early, **CASE), rtol=0.01
    )
    np.testing.assert_allclose(
        late_growth_bound(late, **CASE), growth_bound(late, **CASE), rtol=2e-3
    )
    assert very_late_growth_bound(1e200, **CASE) == pytest.approx(
        growth_bound(1e200, **CASE), abs=1e-7
    )


def test_local_exponent_is_the_slope_of_the_bound_and_goes_from_one_half_to_nothing():
    t = np.geomspace(1e-2, 1e9, 23)
    step = 1e-5
    slope = (growth_bound(t * np.exp(step), **CASE) - growth_bound(t * np.exp(-step), **CASE)) / (
        2 * step
    )
    np.testing.assert_allclose(growth_exponent(t, **CASE), slope, rtol=1e-5)
    scanning = growth_exponent(np.geomspace(1, 1e3, 200), **CASE)
    assert 0.45 < scanning.max() < 0.5
    assert growth_exponent(1e100, **CASE) * 2 * np.log(1000 * 1e100 / 10) == pytest.approx(
        1, abs=1e-5
    )


@pytest.mark.parametrize(
    ("ratio", "n_vocab", "end", "at_snap", "at_end"),
    [
        (10, 100, 5, 0.556, [0.620, 0.671, 0.713, 0.749, 0.783]),
        (1, 10**4, 50, 1.403, [1.408, 1.450, 1.481, 1.509, 1.533]),
    ],
)
def test_figure_9_is_reproduced_and_the_height_at_the_snap_depends_on_the_rates_only_by_their_ratio(
    ratio, n_vocab, end, at_snap, at_end
):
    for lr_attention, expected in zip([0.5, 1, 2, 4, 8], at_end, strict=True):
        clock = {"n_vocab": n_vocab, "n_classes": 1, "lr_decoder": ratio * lr_attention}
        case = {**clock, "lr_attention": lr_attention, "overlap_constant": 1.0}
        assert growth_bound(snap_time(**clock), **case) == pytest.approx(at_snap, abs=5.5e-4)
        assert growth_bound(end, **case) == pytest.approx(expected, abs=5.5e-4)


def test_scanning_bound_on_the_growth_factor_is_the_power_law_of_the_paper():
    normaliser, feature, t = 1.4, 0.6, 3.0
    constant = overlap_constant(normaliser, n_classes=10)
    bound = early_growth_bound(
        t, **{**CASE, "n_vocab": 10**9, "overlap_constant": constant}, as_printed=True
    )
    printed = ((normaliser**4 + 2 * 1.0 * 0.5 * t**2) / 10) ** (0.5 * feature**2)
    assert growth_factor_bounds(bound, initial_feature=feature).lower == pytest.approx(
        printed, rel=1e-8
    )


def test_very_late_form_starts_where_its_logarithm_matches_the_constant():
    case = {
        "n_vocab": 10**6,
        "n_classes": 3,
        "lr_decoder": 2.0,
        "lr_attention": 0.01,
        "overlap_constant": 0.7,
    }
    t = late_growth_time(**case)
    assert late_growth_bound(t, **case) == pytest.approx(0.25 * np.log(2), rel=1e-5)
