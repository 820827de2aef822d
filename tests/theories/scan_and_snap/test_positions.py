"""A positional prior: what it makes of frequencies, against sequences token by token; fates against
Lemma 4.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.theories.scan_and_snap import (
    attention_logits_dot,
    crossing_slope,
    distance_dot,
    effective_prob,
    fate_ratio,
    gradient_from_counts,
    gradient_from_sequence,
    normalised_feature,
)

N_VOCAB = 11


def placed(rng: np.random.Generator) -> np.ndarray:
    joint = rng.uniform(size=(2, 5, 7)) * rng.integers(0, 2, size=(2, 5, 7))
    return joint / joint.sum(axis=(1, 2), keepdims=True)


def test_a_flat_prior_changes_nothing_and_a_window_hides_what_is_outside():
    joint = placed(np.random.default_rng(1))
    np.testing.assert_allclose(
        effective_prob(joint, np.full(5, 3.0)), joint.sum(axis=1), rtol=1e-12
    )
    near = effective_prob(joint, np.array([0, 0, -np.inf, -np.inf, -np.inf]))
    np.testing.assert_allclose(
        near, joint[:, :2].sum(axis=1) / joint[:, :2].sum(axis=(1, 2))[:, None], rtol=1e-12
    )


def test_counts_weighted_by_the_prior_give_the_gradient_of_a_sequence_with_places():
    """The sequence form has no prior; repeating each token e^b times, b = ln of whole numbers, is
    one.
    """
    rng = np.random.default_rng(2)
    Y, Z = rng.normal(size=(2, N_VOCAB, N_VOCAB))
    context, repeats = rng.integers(0, 7, size=6), np.array([3, 1, 2, 5, 1, 2])
    rates = {"query": 8, "label": 9, "lr_decoder": 0.7, "lr_attention": 1.3}
    joint = np.zeros((1, 6, N_VOCAB))
    joint[0, np.arange(6), context] = 1 / 6
    said = gradient_from_counts(Y, Z, effective_prob(joint, np.log(repeats))[0], **rates)
    found = gradient_from_sequence(Y, Z, np.repeat(context, repeats), **rates)
    for one, other in zip(said, found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)


def test_biases_move_as_much_as_tokens_do():
    rng = np.random.default_rng(3)
    joint, token_dot, weight = placed(rng), rng.normal(size=(2, 7)), np.array([0.3, 0.7])
    token_dot *= joint.sum(axis=1) > 0
    moved = distance_dot(joint, rng.normal(size=5), token_dot, weight)
    np.testing.assert_allclose(moved.sum(), weight @ token_dot.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("one_query", [True, False])
def test_a_common_token_stands_still_at_the_critical_ratio(one_query):
    """Token 0 is the one in question; tokens 1 and 2 are distinct and set the overlap."""
    query, rho = ([0, 0] if one_query else [0, 1]), None
    low, high = 1e-6, 1.0
    for _ in range(60):  # the overlap depends on the ratio too
        x = (low + high) / 2
        f = normalised_feature(np.array([[0.4, 0.6, 0, 0.5], [0.4 * x, 0, 0.6, 0.5]]))
        rho = f[0] @ f[1]
        moved = attention_logits_dot(f, 1 - np.eye(2), query, speed=1.0, lr_attention=1.0)[0, 0]
        low, high = (x, high) if moved > 0 else (low, x)
    np.testing.assert_allclose(f[1, 0] / f[0, 0], fate_ratio(rho, one_query=one_query), rtol=1e-6)


def test_other_axes_and_a_prior_that_hides_all_are_refused():
    joint = np.full((2, 3, 5), 1 / 15)
    for given, prior in (
        (joint.mT, [0.0, -1.0, -2.0]),
        (joint, [0.0, -1.0]),
        (joint, 3 * [-np.inf]),
    ):
        with pytest.raises(InputError, match="class, distance, token"):
            effective_prob(given, prior)


def test_at_the_crossing_slope_two_tokens_count_alike():
    slope = crossing_slope(0.3, 0.1, gap=4)
    joint = np.zeros((1, 6, 3))
    joint[0, 1, 0], joint[0, 5, 1], joint[0, :, 2] = 0.1, 0.3, 0.1
    near, far, _ = effective_prob(joint, -slope * np.arange(6))[0]
    np.testing.assert_allclose(near, far, rtol=1e-12)
