"""Lemma 4, Theorem 2, Corollary 2: velocities of the logits, against the exact gradient and a joint
simulation.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saccade.theories.scan_and_snap import (
    attention_logits_dot,
    backprop_coefficients,
    class_coupling,
    class_drive,
    class_overlap,
    common_token_dot,
    common_tokens,
    decoder_from_heights,
    distinct_token_dot,
    distinct_tokens,
    gradient_from_counts,
    limit_attention,
    normalised_feature,
    speed,
    speed_at_height,
    symmetric_common_token_dot,
)

N_VOCAB = 61


def one_common_token(distinct_prob, *, common_prob):
    """Class n: token 0 with `common_prob`, then its own block of distinct tokens in proportion to
    `distinct_prob`.
    """
    n_classes, n_distinct = distinct_prob.shape
    prob = np.zeros((n_classes, N_VOCAB))
    prob[:, 0] = common_prob
    for n, row in enumerate(distinct_prob):
        prob[n, 1 + n * n_distinct : 1 + (n + 1) * n_distinct] = (1 - common_prob) * row / row.sum()
    return prob


def coefficients(feature):
    return backprop_coefficients(
        class_coupling(class_overlap(feature)), n_vocab=feature.shape[1]
    ).other


@pytest.fixture
def token_prob():
    return one_common_token(np.random.default_rng(0).uniform(0.2, 1, size=(3, 5)), common_prob=0.2)


def test_lemma_4_is_the_exact_gradient_of_the_decoder_of_theorem_5():
    rng = np.random.default_rng(1)
    prob, query = rng.dirichlet(np.full(N_VOCAB, 0.3), size=5), np.array([40, 41, 40, 40, 41])
    logits = rng.normal(size=(N_VOCAB, N_VOCAB))
    feature, height = normalised_feature(limit_attention(prob, logits[query])), 0.03
    decoder = decoder_from_heights(feature, height)
    rates = {"lr_decoder": 1.0, "lr_attention": 0.7}
    exact = sum(
        gradient_from_counts(
            decoder, logits, prob[n], query=query[n], label=n, **rates
        ).attention_logits_dot
        for n in range(5)
    )
    clock = {"speed": float(speed_at_height(height, n_vocab=N_VOCAB)), "lr_attention": 0.7}
    for per_step, share in ((False, 1), (True, 1 / 5)):  # a step draws one of the five classes
        predicted = attention_logits_dot(
            feature, coefficients(feature), query, per_step=per_step, **clock
        )
        np.testing.assert_allclose(predicted, share * exact[query], atol=1e-13)
    assert np.abs(exact).max() > 1e-3


def test_distinct_tokens_gain_in_proportion_to_their_squared_feature(token_prob):
    feature, query = normalised_feature(token_prob), np.array([50, 50, 50])
    other = coefficients(feature)
    velocity = attention_logits_dot(feature, other, query, speed=1.7, lr_attention=0.3)
    drive = class_drive(class_overlap(feature), other, speed=1.7)
    distinct = distinct_tokens(token_prob)
    predicted = distinct_token_dot(feature, drive, lr_attention=0.3)
    np.testing.assert_allclose(velocity[distinct], predicted[distinct], rtol=1e-12)
    assert np.all(velocity[distinct] > 0)


@pytest.mark.parametrize("query", [[50, 50, 50], [50, 51, 50], [50, 51, 52]])
def test_the_only_common_token_loses_through_every_class_of_its_query(token_prob, query):
    feature = normalised_feature(token_prob)
    other = coefficients(feature)
    velocity = attention_logits_dot(feature, other, query, speed=1.7, lr_attention=0.3)[:, 0]
    drive = class_drive(class_overlap(feature), other, speed=1.7)
    np.testing.assert_allclose(
        velocity, common_token_dot(feature[:, 0], drive, query, lr_attention=0.3), rtol=1e-12
    )
    assert np.all(velocity < 0)


def test_without_a_distinct_token_the_common_one_does_not_fall():
    prob = np.zeros((2, N_VOCAB))
    prob[0, 0], prob[1, :2] = 1.0, 0.5
    feature = normalised_feature(prob)
    velocity = attention_logits_dot(
        feature, coefficients(feature), [50, 51], speed=1.0, lr_attention=1.0
    )
    assert velocity[0, 0] == pytest.approx(
        0, abs=1e-15
    )  # the first query has only the common token
    assert velocity[1, 0] < -1e-3


def symmetric_classes():
    prob = np.zeros((3, N_VOCAB))
    prob[:, [7, 8, 9]] = [0.1, 0.2, 0.15]
    for n in range(3):
        prob[n, 10 + 4 * n : 14 + 4 * n] = np.roll([0.05, 0.1, 0.15, 0.25], n)
    return prob


def test_symmetric_common_tokens_all_fall_and_the_most_probable_falls_fastest():
    prob = symmetric_classes()
    feature, common = normalised_feature(prob), common_tokens(prob)
    other = coefficients(feature)
    velocity = attention_logits_dot(feature, other, [50] * 3, speed=1.7, lr_attention=0.3)[
        :, common
    ]
    predicted = symmetric_common_token_dot(
        feature[0, common], other=other[0, 1], n_classes=3, speed=1.7, lr_attention=0.3
    )
    np.testing.assert_allclose(velocity, np.tile(predicted, (3, 1)), rtol=1e-12)
    assert predicted.max() < 0
    assert predicted.argmin() == 1


def test_symmetry_between_classes_survives_the_flow():
    prob = symmetric_classes()

    def velocity(t, z):
        feature = normalised_feature(limit_attention(prob, np.tile(z, (3, 1))))
        gamma = float(speed(t, n_vocab=N_VOCAB, n_classes=3, lr_decoder=1.0))
        return attention_logits_dot(
            feature, coefficients(feature), [50] * 3, speed=gamma, lr_attention=1.0
        )[0]

    z = solve_ivp(velocity, (0, 100), np.zeros(N_VOCAB), rtol=1e-9, atol=1e-13).y
    matched = np.stack([np.roll(z[10 + 4 * n : 14 + 4 * n], -n, axis=0) for n in range(3)])
    assert np.ptp(matched, axis=0).max() < 1e-12
    assert np.all(np.diff(z[[7, 8, 9]]) < 0)
    assert z[10:22, -1].min() > 0.01
