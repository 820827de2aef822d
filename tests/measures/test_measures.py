from __future__ import annotations

import numpy as np

from saccade.data.sequence_classes import SequenceClasses
from saccade.measures import class_attention, distinct_entropy, entropy, mass


def test_entropy_is_zero_on_one_token_and_log_n_when_even():
    np.testing.assert_allclose(
        entropy(np.array([[0, 1.0, 0], [1 / 3, 1 / 3, 1 / 3]])), [0, np.log(3)], atol=1e-15
    )


def test_attention_at_zero_logits_is_the_token_distribution():
    task = SequenceClasses.syn_small()
    np.testing.assert_allclose(
        class_attention(np.zeros(task.n_vocab), task.token_prob), task.token_prob
    )


def test_the_start_of_syn_small_has_the_published_shares():
    task = SequenceClasses.syn_small()
    np.testing.assert_allclose(mass(task.token_prob, task.common), 10 / 15.5)
    np.testing.assert_allclose(distinct_entropy(task.token_prob, task.distinct), 2.151, atol=5e-4)


def test_attention_survives_logits_beyond_the_range_of_exp():
    attention = class_attention(np.array([2000.0, 1999.0, 3000.0]), np.array([0.5, 0.5, 0.0]))
    np.testing.assert_allclose(attention, [1 / (1 + np.exp(-1)), 1 / (1 + np.e), 0])
