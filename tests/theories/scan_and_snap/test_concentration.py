"""Lemmas 10 to 12 and 18, Theorem 5, Corollary 1: a finite run stays as close to its averages as
claimed.
"""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binom

from saccade.theories.scan_and_snap import (
    class_error,
    decoder_from_heights,
    decoder_height,
    decoder_height_discrete,
    draw_count_bound,
    draw_spread,
    error_deviation_bound,
    frequency_bound,
    height_deviation_bound,
    height_ratio_bound,
    modified_decoder_dot,
    snap_time,
)

case = {"n_vocab": 199, "n_classes": 5, "lr_decoder": 0.4}
decoder_case = {"n_vocab": 199, "lr_decoder": 0.4}


def test_hoeffding_cannot_be_made_one_percent_tighter():
    """The tail of a fair coin falls as exp(-2 N ε²) and no faster: at a tiny failure probability
    nothing can be taken off.
    """
    n_context, failure_prob = 10**8, np.exp(-500.0)

    def exceeded(share):
        bound = share * frequency_bound(n_context, failure_prob=failure_prob)
        return 2 * binom.sf(np.ceil(n_context * (0.5 + bound)) - 1, n_context, 0.5)

    assert exceeded(1) <= failure_prob < exceeded(0.99)


def test_the_relative_height_bound_of_two_classes_can_be_made_root_two_tighter_and_no_more():
    """Two classes, heights still linear in the draws: |θ| is the deviation of a fair coin over its
    mean.
    """
    n_steps, failure_prob = 10**8, np.exp(-500.0)

    def exceeded(share):
        bound = share * height_ratio_bound(n_steps, n_classes=2, failure_prob=failure_prob)
        return 2 * binom.sf(np.ceil(n_steps / 2 * (1 + bound)) - 1, n_steps, 0.5)

    assert exceeded(1 / np.sqrt(2)) <= failure_prob < exceeded(0.99 / np.sqrt(2))


def test_looser_bound_on_draws_needs_about_twelve():
    for product, holds in [(11.6, False), (11.7, True)]:  # (2 + sqrt 2)^2 = 11.66
        failure_prob = 2 * np.exp(-1.0)  # ln(2/delta) = 1, so N is the product
        assert (draw_count_bound(product, failure_prob=failure_prob) < np.sqrt(product)) == holds


@pytest.mark.parametrize("n_steps", [500, 5000, 50000])
def test_height_of_any_class_is_as_near_the_average_as_its_draws_are(n_steps):
    share, spread = n_steps / 5, draw_spread(n_steps, failure_prob=0.05)
    draws = np.clip(share + spread * np.linspace(-1, 1, 41), 0, None)
    gap = np.abs(decoder_height(draws, **decoder_case) - decoder_height(share, **decoder_case))
    assert gap.max() <= height_deviation_bound(n_steps, **case, failure_prob=0.05)


def test_bound_on_the_height_is_reached_while_the_height_is_linear():
    slow = {"n_vocab": 199, "lr_decoder": 1e-4}
    spread = draw_spread(5000, failure_prob=0.05)
    gap = decoder_height(1000 + spread, **slow) - decoder_height(1000, **slow)
    assert gap == pytest.approx(
        height_deviation_bound(5000, n_classes=5, failure_prob=0.05, **slow), rel=0.01
    )


def test_output_error_deviates_at_most_as_stated_on_either_side_of_the_snap():
    onset = snap_time(**case)
    for n_steps in np.round(onset * np.array([0.5, 0.9, 3, 30, 300]) / 5) * 5:
        share, spread = n_steps / 5, min(draw_spread(n_steps, failure_prob=0.3), n_steps / 5 - 1)
        draws = share + spread * np.linspace(-1, 1, 41)
        error = class_error(decoder_height(draws, **decoder_case), n_vocab=199)
        log_ratio = np.abs(
            np.log(error / class_error(decoder_height(share, **decoder_case), n_vocab=199))
        )
        assert log_ratio.max() <= 199 / (4 * 198) * 0.4 * spread
        if share - spread >= onset / 5:
            assert log_ratio.max() <= 2 * spread / (share - spread)
            stated = error_deviation_bound(n_steps, **case, failure_prob=0.3)
            assert log_ratio.max() == pytest.approx(
                stated, rel=0.6
            )  # the order is right, not only the bound


def test_decoder_after_random_draws_is_the_one_of_theorem_5():
    rng = np.random.default_rng(4)
    feature = rng.dirichlet(np.ones(23), size=3)
    feature /= np.linalg.norm(feature, axis=1, keepdims=True)
    labels = rng.integers(3, size=150)
    decoder = np.zeros((23, 23))
    for label in labels:
        decoder += modified_decoder_dot(decoder, feature, label=label, lr_decoder=0.3)
    height = decoder_height_discrete(150, n_vocab=23, lr_decoder=0.3)[np.bincount(labels)]
    np.testing.assert_allclose(decoder, decoder_from_heights(feature, height), atol=1e-11)
    error = np.eye(3, 23) - softmax(feature @ decoder, axis=1)
    np.testing.assert_allclose(np.diag(error), class_error(height, n_vocab=23), atol=1e-12)


def test_error_deviation_bound_is_early_then_late():
    early, late = np.round(snap_time(**case) * np.array([0.5, 2.0]))
    spread = draw_spread(np.array([early, late]), failure_prob=0.1)
    bound = error_deviation_bound(np.array([early, late]), **case, failure_prob=0.1)
    np.testing.assert_allclose(bound, [0.4 * spread[0] / 3, spread[1] / np.ceil(late / 5)])
