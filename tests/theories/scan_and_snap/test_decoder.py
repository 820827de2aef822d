"""Lemmas 5 to 8: the height of the decoder, step by step, in continuous time, and where its two
regimes meet.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from saccade.theories.scan_and_snap import (
    class_directions,
    class_error,
    decoder_height,
    decoder_height_discrete,
    draws_to_height,
    early_decoder_height,
    late_decoder_height,
    regime_exponents,
)

vocabularies = st.integers(2, 10**6)
rates = st.floats(1e-3, 10)


@pytest.mark.parametrize(("n_vocab", "lr_decoder"), [(7, 0.3), (53, 2.0), (211, 8.0)])
def test_logits_of_a_class_stay_on_one_ray_at_the_discrete_height(n_vocab, lr_decoder):
    logits, label = np.zeros(n_vocab), 3
    height = decoder_height_discrete(200, n_vocab=n_vocab, lr_decoder=lr_decoder)
    direction = class_directions(n_classes=5, n_vocab=n_vocab)[label]
    for s in range(201):
        np.testing.assert_allclose(logits, (n_vocab - 1) * height[s] * direction, atol=1e-12)
        error = np.eye(n_vocab)[label] - softmax(logits)
        np.testing.assert_allclose(
            error, class_error(height[s], n_vocab=n_vocab) * direction, atol=1e-12
        )
        logits = logits + lr_decoder * error


def test_class_directions_have_the_scalar_products_of_lemma_5():
    n_vocab = 11
    gram = (zeta := class_directions(n_classes=3, n_vocab=n_vocab)) @ zeta.T
    np.testing.assert_allclose(np.diag(gram), 1 + 1 / (n_vocab - 1))
    np.testing.assert_allclose(gram[0, 1:], -n_vocab / (n_vocab - 1) ** 2)


@given(n_vocab=vocabularies, lr_decoder=rates, log_t=st.floats(-12, 12))
def test_continuous_height_solves_the_implicit_equation_to_rounding(n_vocab, lr_decoder, log_t):
    t = 10.0**log_t
    x = n_vocab * decoder_height(t, n_vocab=n_vocab, lr_decoder=lr_decoder)
    driven = n_vocab * lr_decoder * t
    assert (
        abs(np.expm1(x) + (n_vocab - 1) * x - driven) < 1e-13 * driven
    )  # e^x carries the rounding of x, x eps relative


@given(n_vocab=vocabularies, lr_decoder=rates)
def test_height_starts_at_zero_and_never_overflows(n_vocab, lr_decoder):
    t = np.array([0.0, 1e-300, 1e100, 1e300, 1e305])
    height = decoder_height(t, n_vocab=n_vocab, lr_decoder=lr_decoder)
    assert height[0] == pytest.approx(0, abs=1e-30)
    assert height[1] == pytest.approx(lr_decoder * 1e-300 / n_vocab, rel=1e-12)
    np.testing.assert_allclose(
        n_vocab * height[2:], np.log(n_vocab) + np.log(lr_decoder) + np.log(t[2:]), rtol=1e-14
    )


@given(n_vocab=st.integers(2, 10**5), lr_decoder=rates, log_t=st.floats(-6, 8))
def test_draws_to_height_inverts_decoder_height(n_vocab, lr_decoder, log_t):
    height = decoder_height(10.0**log_t, n_vocab=n_vocab, lr_decoder=lr_decoder)
    assert draws_to_height(height, n_vocab=n_vocab, lr_decoder=lr_decoder) == pytest.approx(
        10.0**log_t, rel=1e-12
    )


def test_early_and_late_heights_bracket_the_crossover():
    n_vocab, lr_decoder = 1000, 0.5
    early, late = 0.1 * np.log(n_vocab) / lr_decoder, 100 * np.log(n_vocab) / lr_decoder
    settings = {"n_vocab": n_vocab, "lr_decoder": lr_decoder}
    assert early_decoder_height(early, **settings) == pytest.approx(
        decoder_height(early, **settings), rel=0.01
    )
    assert late_decoder_height(late, **settings) == pytest.approx(
        decoder_height(late, **settings), rel=0.01
    )


@pytest.mark.parametrize(
    ("n_vocab", "omega_0", "omega_1"),
    [
        (10**2, 4.4e-3, 0.403),
        (10**3, 2.9e-4, 0.320),
        (10**4, 2.2e-5, 0.267),
        (10**5, 1.7e-6, 0.230),
        (10**6, 1.45e-7, 0.203),
    ],
)
def test_regimes_meet_where_measured(n_vocab, omega_0, omega_1):
    exponents = regime_exponents(n_vocab=n_vocab)
    assert exponents.omega_1 == pytest.approx(omega_1, abs=1e-3)
    assert exponents.omega_0 == pytest.approx(omega_0, rel=0.03)
    assert exponents.omega_0 == pytest.approx(
        2 / (n_vocab * np.log(n_vocab)), rel=0.03
    )  # its expansion
