"""The velocity of Z when query and key matrices move, against the product rule."""

from __future__ import annotations

import numpy as np

from saccade.theories import scan_and_snap as theory


def test_velocity_is_that_of_a_small_step_of_both_matrices():
    rng, tokens, width, h = np.random.default_rng(0), 5, 7, 1e-6
    U = np.linalg.qr(rng.standard_normal((width, tokens)))[0].T
    W_Q, W_K, G = (
        rng.standard_normal((width, width)),
        rng.standard_normal((width, width)),
        rng.standard_normal((tokens, tokens)),
    )

    def logits(query, key):
        return U @ query @ key.T @ U.T / np.sqrt(width)

    query = W_Q + h * U.T @ G @ U @ W_K / np.sqrt(width)
    key = W_K + h * U.T @ G.T @ U @ W_Q / np.sqrt(width)
    step = (logits(query, key) - logits(W_Q, W_K)) / h
    np.testing.assert_allclose(theory.query_key_velocity(G, U @ W_Q, U @ W_K), step, atol=1e-4)


def test_from_the_usual_start_it_is_the_papers():
    U, G = np.eye(5), np.random.default_rng(1).standard_normal((5, 5))
    np.testing.assert_allclose(theory.query_key_velocity(G, 0 * U, np.sqrt(5) * U), G, atol=1e-12)
