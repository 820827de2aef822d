"""First order in 1/length: against exact sums over powers of P and, for two tokens, over all
contexts of a length.
"""

from __future__ import annotations

import numpy as np

from saccade import MarkovChain
from saccade.theories import focus_and_dilution as theory


def law(chain):
    return {"stationary": chain.stationary, "transition": chain.transition}


def test_frequencies_of_a_lazy_chain_spread_as_if_there_were_fewer_tokens():
    chain = MarkovChain.lazy([0.5, 0.3, 0.2], 0.6)
    pi = chain.stationary
    expected = 1.6 / 0.4 * (np.diag(pi) - np.outer(pi, pi))
    np.testing.assert_allclose(theory.frequency_covariance(**law(chain)), expected, atol=1e-14)


def test_mean_and_covariance_of_frequencies_follow_from_powers_of_the_table():
    """A chain that is not reversible, from a uniform first token; what is left at length s is of
    order 1/s.
    """
    chain, s = MarkovChain.random([0.5, 0.3, 0.15, 0.05], 3), 4000
    pi, P = chain.stationary, chain.transition
    powers = [np.eye(4)]
    for _ in range(s - 1):
        powers.append(powers[-1] @ P)
    laws, later = np.full(4, 1 / 4) @ np.array(powers), np.cumsum(powers, axis=0)
    joint = sum(laws[t][:, None] * powers[s - 1 - t] for t in range(s))  # visits to j, and i last
    excess = joint.T / laws[-1][:, None] - s * pi
    np.testing.assert_allclose(theory.frequency_excess(**law(chain)), excess, atol=1e-12)
    pairs = sum(laws[t][:, None] * later[s - 1 - t] for t in range(s))
    second = (pairs + pairs.T - np.diag(laws.sum(axis=0))) / s
    mean = laws.sum(axis=0)
    covariance = second - (np.outer(mean, pi) + np.outer(pi, mean)) + s * np.outer(pi, pi)
    np.testing.assert_allclose(theory.frequency_covariance(**law(chain)), covariance, atol=5 / s)


def test_at_the_stationary_law_contexts_give_the_population_gradient():
    chain, rng = MarkovChain.metropolis([0.6, 0.3, 0.1]), np.random.default_rng(5)
    W0, WQ, WK, W1 = (rng.normal(size=shape) for shape in ((3, 5), (5, 2), (5, 2), (5, 3)))
    population = theory.composite_gradients(W0, WQ, WK, W1, **law(chain))
    contexts = theory.context_gradients(
        W0 @ W1,
        W0 @ WQ @ WK.T @ W0.T,
        frequencies=np.tile(chain.stationary, (3, 1)),
        last_token=np.arange(3),
        transition=chain.transition,
    )
    np.testing.assert_allclose(
        np.tensordot(chain.stationary, contexts, 1), np.stack(population), atol=1e-14
    )


def expected_gradient(matrices, P, s):
    """Over all contexts of two tokens: the law of (how often token 0 came, last token), step by
    step.
    """
    seen = np.zeros((s + 1, 2))
    seen[1, 0] = seen[0, 1] = 0.5
    for _ in range(s - 1):
        moved = seen @ P
        seen = np.stack([np.append(0.0, moved[:-1, 0]), moved[:, 1]], axis=1)
    share = np.arange(s + 1) / s
    both = np.repeat(np.stack([share, 1 - share], axis=1), 2, axis=0)
    last = np.tile([0, 1], s + 1)
    found = theory.context_gradients(*matrices, frequencies=both, last_token=last, transition=P)
    return np.tensordot(seen.ravel(), found, 1)


def test_the_gap_of_the_expected_gradient_is_the_predicted_matrix_over_the_length():
    chain, rng = MarkovChain(np.array([[0.7, 0.3], [0.5, 0.5]])), np.random.default_rng(7)
    matrices = rng.normal(size=(2, 2, 2))
    every = theory.context_gradients(
        *matrices,
        frequencies=np.tile(chain.stationary, (2, 1)),
        last_token=[0, 1],
        transition=chain.transition,
    )
    limit = np.tensordot(chain.stationary, every, 1)
    short, long = (
        s * (expected_gradient(matrices, chain.transition, s) - limit) for s in (400, 800)
    )
    bias = theory.gradient_bias(*matrices, **law(chain))
    assert np.linalg.norm(bias) > 0.1
    np.testing.assert_allclose(
        2 * long - short, bias, atol=1e-4 * np.linalg.norm(bias)
    )  # the next order removed
    assert np.linalg.norm(short - bias) / np.linalg.norm(long - bias) > 1.9
