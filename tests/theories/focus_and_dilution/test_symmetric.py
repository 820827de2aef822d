"""Equal rare tokens: degenerate points are critical for the whole model, and what frees them has
the predicted size.
"""

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.theories.focus_and_dilution import (
    RankOneState,
    critical_stay,
    degenerate_point,
    focus_rate,
    next_direction,
    rank_one_attention,
    rank_one_balance,
    rank_one_velocity,
    rank_one_weights,
    symmetry_hessian,
    transverse_pattern,
    transverse_rate,
    two_level_targets,
    unigram_point,
)

from .chains import two_level
from .numeric import NUMERIC, flatten, jacobian, rank_one_flow, unflatten

DIRECTIONS = {"direction": np.arange(1.0, 4.0), "key_direction": np.arange(1.0, 3.0)}
LAWS = [
    {"high": 0.6, "n_vocab": 4, "stay": 0.3, "high_attention": 0.96},
    {"high": 0.6, "n_vocab": 4, "stay": 0.9, "high_attention": 0.8},
    {"high": 0.3, "n_vocab": 7, "stay": 0.5, "high_attention": 0.999},
]
points = pytest.mark.parametrize("law", LAWS)


def chain_of(law, asymmetry=0.0):
    return two_level(law["high"], law["n_vocab"], law["stay"], asymmetry)


def reduced_hessian(state, chain):
    """Of the loss on the rank-one manifold, in the order gamma, beta, query scale, key scale."""

    def gradient(flat):
        return -flatten(rank_one_velocity(RankOneState(*unflatten(flat, state)), **chain))

    return jacobian(gradient, flatten(state))


def transverse_case(size):
    """An asymmetric chain, the direction that opens where its rank-one flow rests, and the
    symmetric point nearby.
    """
    chain, symmetric = two_level(0.6, 4, 0.3, size), two_level(0.6, 4, 0.3)
    state = resting_state(chain)
    attention = rank_one_attention(resting_state(symmetric), stationary=symmetric["stationary"])[
        0, 0
    ]
    point = degenerate_point(high=0.6, n_vocab=4, stay=0.3, high_attention=attention)
    return chain, state, next_direction(*rank_one_weights(state, **DIRECTIONS), **chain), point


def resting_state(chain):
    """Where the rank-one flow from the plateau ends."""
    gamma, beta = unigram_point(stationary=chain["stationary"])
    return rank_one_flow(
        RankOneState(gamma, beta, 1e-5, 1e-5), [100 / focus_rate(**chain)], **chain
    )[0]


@points
def test_a_degenerate_point_has_the_attention_and_the_balance_it_was_asked_for(law):
    point = degenerate_point(**law)
    attention = rank_one_attention(point.state, stationary=chain_of(law)["stationary"])[:, 0]
    np.testing.assert_allclose(
        attention[:2], [law["high_attention"], point.low_attention], rtol=1e-10
    )
    assert rank_one_balance(point.state) == pytest.approx(0, abs=1e-12)


@points
def test_a_degenerate_point_predicts_the_table_after_token_0_and_the_class_mean_after_others(law):
    state, chain = degenerate_point(**law).state, chain_of(law)
    z = np.outer(
        rank_one_attention(state, stationary=chain["stationary"]) @ state.gamma, state.beta
    )
    predicted = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(predicted[0], chain["transition"][0], rtol=1e-10)
    np.testing.assert_allclose(
        predicted[1:].mean(axis=0), chain["transition"][1:].mean(axis=0), rtol=1e-10
    )
    targets = two_level_targets(high=law["high"], n_vocab=law["n_vocab"], stay=law["stay"])
    np.testing.assert_allclose([*predicted[0, :2], *predicted[1, :2]], targets, rtol=1e-10)


@points
def test_block_of_the_hessian_is_the_predicted_one_for_every_move_that_sums_to_zero(law):
    point, n = degenerate_point(**law), law["n_vocab"]
    hessian = reduced_hessian(point.state, chain_of(law))
    moves = np.zeros((2, n - 2, len(hessian)))  # beta and gamma along each of n - 2 moves
    basis = np.linalg.svd(np.ones((1, n - 1)))[2][1:]
    moves[0, :, n + 1 : 2 * n], moves[1, :, 1:n] = basis, basis
    block = np.einsum("aip,pq,bjq->abij", moves, hessian, moves)
    expected = symmetry_hessian(point)[:, :, None, None] * np.eye(n - 2)
    np.testing.assert_allclose(block, expected, atol=NUMERIC)


@pytest.mark.parametrize(("high", "n_vocab", "value"), [(0.6, 4, 0.585), (0.4, 4, 0.346)])
def test_critical_stay_has_the_value_of_an_independent_calculation(high, n_vocab, value):
    assert critical_stay(high, n_vocab) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("high", [0.25, 0.1, 1.0])
def test_critical_stay_needs_a_frequent_token(high):
    with pytest.raises(InputError, match="`high`"):
        critical_stay(high, 4)


def test_a_degenerate_point_needs_persistence_and_focus():
    with pytest.raises(InputError, match="`stay`"):
        degenerate_point(high=0.6, n_vocab=4, stay=-0.1, high_attention=0.9)
    with pytest.raises(InputError, match="`high_attention`"):
        degenerate_point(high=0.6, n_vocab=4, stay=0.3, high_attention=0.5)


def test_asymmetry_opens_a_direction_at_a_rate_of_its_own_size_while_the_manifold_stays_flat():
    sizes, rates, predicted = [1e-4, 1e-3, 1e-2], [], []
    for size in sizes:
        chain, state, opened, point = transverse_case(size)
        rates.append(opened.rate)
        predicted.append(transverse_rate(point, asymmetry=size * np.array([1.0, 0.0, -1.0])))
        assert (
            np.linalg.eigvalsh(-reduced_hessian(state, chain))[-1] < NUMERIC
        )  # the theorem allows the square of the size
    np.testing.assert_allclose(
        rates, [9.07e-7, 9.10e-6, 1.13e-4], rtol=5e-3
    )  # by another program, from random weights
    assert np.log10(rates[1] / rates[0]) == pytest.approx(1, abs=0.05)
    misses = np.array(rates) / predicted - 1
    assert misses[0] < 1e-4
    assert np.log10(misses[1] / misses[0]) == pytest.approx(2, abs=0.05)


def test_direction_that_an_asymmetry_opens_has_the_predicted_patterns():
    _, _, opened, point = transverse_case(1e-4)
    pattern = transverse_pattern(point)
    embedding, projection = (
        pattern / np.linalg.norm(pattern),
        np.array([0.0, 1.0, 0.0, -1.0]) / np.sqrt(2),
    )
    np.testing.assert_allclose(
        np.outer(opened.embedding, opened.projection), -np.outer(embedding, projection), atol=5e-3
    )
    assert abs(opened.embedding @ embedding) > 0.9999
    assert np.abs([*opened.query, *opened.key]).max() < 1e-3  # query and key have no part in it


@points
def test_new_direction_is_orthogonal_to_the_embedding(law):
    point = degenerate_point(**law)
    pattern = transverse_pattern(point)
    assert abs(pattern @ point.state.gamma) < 1e-12 * np.linalg.norm(pattern) * np.linalg.norm(
        point.state.gamma
    )
    assert np.linalg.norm(pattern) > 1e-5
