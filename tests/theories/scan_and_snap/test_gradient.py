"""Lemma 1: both forms of the exact gradient against central differences of the objective."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from saccade.theories.scan_and_snap import gradient_from_counts, gradient_from_sequence

N_VOCAB = 7
rates = {"lr_decoder": 0.7, "lr_attention": 1.3}


def objective(decoder, attention_logits, context, query, label):
    attention = softmax(attention_logits[query, context])
    bag = np.bincount(context, weights=attention, minlength=N_VOCAB)
    return log_softmax(decoder.T @ (bag / np.linalg.norm(bag)))[label]


def central_difference(function, matrix, step=1e-6):
    slope = np.zeros_like(matrix)
    for index in np.ndindex(matrix.shape):
        shift = np.zeros_like(matrix)
        shift[index] = step
        slope[index] = (function(matrix + shift) - function(matrix - shift)) / (2 * step)
    return slope


@pytest.fixture(params=[0, 1, 2])
def sample(request):
    rng = np.random.default_rng(request.param)
    decoder, attention_logits = rng.normal(size=(2, N_VOCAB, N_VOCAB))
    return decoder, attention_logits, rng.integers(N_VOCAB, size=11), int(rng.integers(N_VOCAB)), 2


def test_gradient_is_the_slope_of_the_objective(sample):
    Y, Z, context, query, label = sample
    exact = gradient_from_sequence(Y, Z, context, query=query, label=label, **rates)
    slope_Y = central_difference(lambda y: objective(y, Z, context, query, label), Y)
    slope_Z = central_difference(lambda z: objective(Y, z, context, query, label), Z)
    np.testing.assert_allclose(exact.decoder_dot, 0.7 * slope_Y, atol=1e-9)
    np.testing.assert_allclose(exact.attention_logits_dot, 1.3 * slope_Z, atol=1e-9)


def test_gradient_from_counts_equals_gradient_from_the_sequence(sample):
    Y, Z, context, query, label = sample
    sequence = gradient_from_sequence(Y, Z, context, query=query, label=label, **rates)
    counts = gradient_from_counts(
        Y, Z, np.bincount(context, minlength=N_VOCAB), query=query, label=label, **rates
    )
    np.testing.assert_allclose(counts.decoder_dot, sequence.decoder_dot, atol=1e-13)
    np.testing.assert_allclose(
        counts.attention_logits_dot, sequence.attention_logits_dot, atol=1e-13
    )


def test_gradient_from_probabilities_is_the_limit_of_long_contexts(sample):
    Y, Z, _, query, label = sample
    rng = np.random.default_rng(3)
    prob = rng.dirichlet(np.ones(N_VOCAB))
    limit = gradient_from_counts(Y, Z, prob, query=query, label=label, **rates).attention_logits_dot

    def mean_error(n_context):
        draws = rng.multinomial(n_context, prob, size=200)
        rows = [
            gradient_from_counts(Y, Z, row, query=query, label=label, **rates).attention_logits_dot
            for row in draws
        ]
        return np.mean([np.abs(row - limit).max() for row in rows])

    assert mean_error(10**4) / mean_error(10**6) == pytest.approx(10, rel=0.25)
