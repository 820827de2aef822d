"""The model with token embeddings: the pairwise form of its weights, entry by entry as the
definition says.
"""

from __future__ import annotations

import numpy as np

from saccade.models.token_embedded import Weights, pair


def test_the_pairwise_form_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    n_vocab, d, d_key = 5, 7, 3
    U, W_Q, W_K, W_V, W_Y = (
        rng.normal(size=shape)
        for shape in ((n_vocab, d), (d, d_key), (d, d_key), (d, d), (n_vocab, d))
    )
    Y, Z = pair(Weights(U, W_Q, W_K, W_V, W_Y))
    for i in range(n_vocab):
        for j in range(n_vocab):
            assert np.isclose(
                Z[i, j],
                sum((U[i] @ W_Q[:, k]) * (U[j] @ W_K[:, k]) for k in range(d_key)) / np.sqrt(d),
            )
            assert np.isclose(Y[i, j], sum((W_V @ U[i])[k] * W_Y[j, k] for k in range(d)))
