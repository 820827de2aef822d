"""Attention in the long-context limit, distinct and common tokens, and the algebra of E and E'
(Lemmas 13 to 17).
"""

import numpy as np
import pytest

from saccade.theories.scan_and_snap import (
    class_coupling,
    class_overlap,
    common_tokens,
    distinct_tokens,
    limit_attention,
    normalised_feature,
)

token_prob = np.array(
    [[0.5, 0.3, 0.2, 0.0, 0.0], [0.4, 0.0, 0.0, 0.6, 0.0], [0.0, 0.0, 0.3, 0.0, 0.7]]
)


def random_feature(n_classes, n_tokens, *, concentration, seed):
    return normalised_feature(
        np.random.default_rng(seed).dirichlet(np.full(n_tokens, concentration), size=n_classes)
    )


def test_attention_reweights_probability_by_the_exponential_of_the_logit():
    logits = np.log(np.array([[1.0, 2, 3, 4, 5]] * 3))
    expected = token_prob * [1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        limit_attention(token_prob, logits), expected / expected.sum(1, keepdims=True), rtol=1e-15
    )


def test_attention_ignores_the_logits_of_tokens_the_class_never_shows():
    logits = np.array([[1.0, -2, 3, 5000, -5000]] * 3)
    attention = limit_attention(token_prob, logits)
    assert np.all(attention[0, 3:] == 0)
    np.testing.assert_allclose(
        attention[0, :3],
        token_prob[0, :3] * np.exp([1, -2, 3]) / (token_prob[0, :3] @ np.exp([1, -2, 3])),
    )
    np.testing.assert_allclose(attention.sum(axis=1), 1)


def test_a_token_is_distinct_in_the_one_class_that_has_it_and_common_otherwise():
    np.testing.assert_array_equal(common_tokens(token_prob), [True, False, True, False, False])
    np.testing.assert_array_equal(
        np.argwhere(distinct_tokens(token_prob)), [[0, 1], [1, 3], [2, 4]]
    )


def test_overlap_is_the_cosine_between_classes():
    overlap = class_overlap(normalised_feature(token_prob))
    assert overlap[0, 1] == pytest.approx(0.2 / np.sqrt(0.38 * 0.52))
    assert overlap[1, 2] == 0
    np.testing.assert_array_equal(np.diag(overlap), 0)


def test_coupling_is_one_minus_the_inverse_and_the_notation_list_has_its_sign_wrong():
    overlap = class_overlap(random_feature(5, 41, concentration=0.3, seed=0))
    inverse = np.linalg.inv(np.eye(5) + overlap)
    np.testing.assert_allclose(class_coupling(overlap), np.eye(5) - inverse, atol=1e-14)
    np.testing.assert_allclose(
        class_coupling(overlap, as_printed=True), inverse - np.eye(5), atol=1e-14
    )
