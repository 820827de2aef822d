"""Lemma 9: the speed of attention rises, peaks before scanning ends, and decays; its integral is a
square.
"""

import numpy as np
import pytest

from saccade.theories.scan_and_snap import (
    class_error,
    decoder_height,
    early_speed,
    late_speed,
    regime_exponents,
    scan_time,
    snap_time,
    speed,
    speed_peak,
)

settings = {"n_vocab": 1000, "n_classes": 7, "lr_decoder": 0.6}


def test_speed_is_height_times_error():
    t = np.geomspace(1e-3, 1e6, 31)
    height = decoder_height(t / 7, n_vocab=1000, lr_decoder=0.6)
    printed = 999**2 * height / (999 + np.exp(1000 * height))  # eq. 85 as it stands
    np.testing.assert_allclose(speed(t, **settings), printed, rtol=1e-13)
    np.testing.assert_allclose(
        speed(t, **settings), 999 * height * class_error(height, n_vocab=1000), rtol=1e-13
    )


@pytest.mark.parametrize(
    ("n_vocab", "x_star", "value"), [(1000, 5.4205, 4.416), (10**4, 7.360, 6.360)]
)
def test_peak_comes_before_scanning_ends(n_vocab, x_star, value):
    case = {"n_vocab": n_vocab, "n_classes": 3, "lr_decoder": 0.5}
    peak = speed_peak(**case)
    assert peak.value == pytest.approx(value, abs=1e-3)
    assert n_vocab * decoder_height(
        peak.time / 3, n_vocab=n_vocab, lr_decoder=0.5
    ) == pytest.approx(x_star, abs=5e-4)
    assert peak.time / scan_time(**case) == pytest.approx(0.816, abs=1e-3)


def test_onset_times_scale_with_classes_and_inverse_rate():
    assert scan_time(**settings) == pytest.approx(7 * np.log(1000) / 0.6)
    for lr_decoder, expected in [
        (0.5, 365),
        (1, 182),
        (2, 91),
        (5, 36),
    ]:  # the dotted lines of Fig. 3
        assert snap_time(n_vocab=1000, n_classes=10, lr_decoder=lr_decoder) == pytest.approx(
            expected, abs=0.5
        )


def test_snapping_starts_where_the_exponential_overtakes():
    height = decoder_height(snap_time(**settings) / 7, n_vocab=1000, lr_decoder=0.6)
    omega_1 = regime_exponents(n_vocab=1000).omega_1
    assert 1000 * height == pytest.approx((1 + omega_1) * np.log(1000), rel=1e-3)


def test_early_speed_holds_until_scanning_ends():
    t = scan_time(**settings) * np.array([0.01, 0.1, 0.5, 1])
    ratio = speed(t, **settings) / early_speed(t, n_classes=7, lr_decoder=0.6)
    np.testing.assert_allclose(ratio, [0.998, 0.997, 0.962, 0.584], atol=1e-3)


def test_late_speed_needs_the_vocabulary_in_its_logarithm():
    t = snap_time(**settings) * np.array([1, 2, 5, 20, 100])
    np.testing.assert_allclose(
        speed(t, **settings) / late_speed(t, **settings), [1.67, 1.29, 1.11, 1.03, 1.005], atol=5e-3
    )
    printed = speed(t, **settings) / late_speed(t, **settings, as_printed=True)
    np.testing.assert_allclose(printed, [5.65, 3.77, 2.81, 2.23, 1.93], atol=5e-3)
