"""Adam's limit: signs, critical features and rates against the gradient itself; momentum's clock
against its recursion.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from saccade.errors import InputError
from saccade.theories.scan_and_snap import (
    adam_limit,
    critical_feature,
    critical_rate,
    gradient_from_counts,
    momentum_clock,
    normalised_feature,
    sign_error,
)

N_COMMON, N_DISTINCT, N_CLASSES, N_VOCAB = 3, 5, 2, 19
COMMON, OWN = np.full(N_COMMON, 0.7), np.array([0.1, 0.4, 0.6, 0.9, 1.3])


def decoder_of_signs(height: float) -> np.ndarray:
    """Columns 17 and 18 follow; tokens 0-2 are common, 3-7 and 8-12 distinct."""
    Y = np.full((N_VOCAB, N_VOCAB), -height)
    Y[:N_COMMON, 17:] = height
    Y[3:8, 17] = Y[8:13, 18] = height
    return Y


def contexts() -> np.ndarray:
    counts = np.zeros(N_VOCAB)
    counts[:8] = np.concatenate([COMMON, OWN])
    return counts


def sums(feature: np.ndarray) -> dict[str, float]:
    return {"own": feature[3:8].sum(), "shared": feature[:3].sum()}


@pytest.mark.parametrize("height", [0.01, 0.3, 2.0])
def test_the_output_error_is_that_of_a_decoder_of_signs(height):
    feature = normalised_feature(contexts())
    alpha = softmax(decoder_of_signs(height).T @ feature)
    found = sign_error(height, **sums(feature), n_vocab=N_VOCAB, n_classes=N_CLASSES)
    np.testing.assert_allclose(found.error, 1 - alpha[17], rtol=1e-12)
    np.testing.assert_allclose(found.unused_share, alpha[:17].sum() / (1 - alpha[17]), rtol=1e-12)


@pytest.mark.parametrize("height", [0.01, 0.1, 0.3, 2.0])
def test_a_distinct_token_gains_below_the_critical_feature(height):
    feature = normalised_feature(contexts())
    share = sign_error(height, **sums(feature), n_vocab=N_VOCAB, n_classes=N_CLASSES).unused_share
    exact = gradient_from_counts(
        decoder_of_signs(height),
        np.zeros((N_VOCAB, N_VOCAB)),
        contexts(),
        query=13,
        label=17,
        lr_decoder=1,
        lr_attention=1,
    ).attention_logits_dot[13, 3:8]
    assert ((feature[3:8] < critical_feature(share, **sums(feature))) == (exact > 0)).all()


def test_at_the_critical_rate_a_token_stands_still():
    feature = normalised_feature(contexts())
    rate = critical_rate(feature[7], **sums(feature), n_vocab=N_VOCAB, n_classes=N_CLASSES)
    assert 0 < rate < np.inf
    exact = gradient_from_counts(
        decoder_of_signs(rate),
        np.zeros((N_VOCAB, N_VOCAB)),
        contexts(),
        query=13,
        label=17,
        lr_decoder=1,
        lr_attention=1,
    ).attention_logits_dot[13]
    assert abs(exact[7]) < 1e-12 < abs(exact[6])


def test_a_rare_token_gains_at_every_rate_and_one_above_all_others_at_none():
    sizes = {"own": 1.5, "shared": 2.7, "n_vocab": 34, "n_classes": 2}
    assert critical_rate(0.1, **sizes) == 0
    assert critical_rate(0.7, **sizes) == np.inf


def test_adam_first_takes_steps_of_its_rate_and_then_of_equal_size():
    """Momentum .9 and memory .999: the first gradient of attention is felt at step 2, as
    (.1/.19)/sqrt(.001/.001999).
    """
    prob = np.concatenate([COMMON, OWN])
    path = adam_limit(
        prob, np.arange(8) >= 3, n_vocab=N_VOCAB, n_classes=N_CLASSES, lr=0.25, steps=2
    )
    np.testing.assert_allclose(path.height[:2], [[0] * 8, [0.25] * 8])
    np.testing.assert_array_equal(path.logits[1], 0)
    np.testing.assert_allclose(
        np.abs(path.logits[2]), 0.25 * (0.1 / 0.19) / np.sqrt(0.001 / 0.001999), rtol=1e-9
    )


def test_a_slow_adam_flattens_attention_on_distinct_tokens_while_rows_are_alike():
    prob = np.concatenate([COMMON, OWN])
    path = adam_limit(
        prob,
        np.arange(8) >= 3,
        n_vocab=N_VOCAB,
        n_classes=N_CLASSES,
        lr=0.02,
        steps=400,
        rows_alike=True,
    )
    shares = OWN * np.exp(path.logits[-1][3:])
    assert np.ptp(np.log(shares)) < 0.15 * np.ptp(np.log(OWN))


def test_momentum_moves_as_far_as_its_clock_says_under_a_constant_gradient():
    momentum, lr, velocity, place = 0.7, 0.3, 0.0, 0.0
    for _ in range(11):
        velocity = momentum * velocity + 1.0
        place += lr * velocity
    np.testing.assert_allclose(momentum_clock(11, lr=lr, momentum=momentum), place, rtol=1e-12)


def test_rows_of_tokens_whose_attention_has_grown_become_the_highest():
    prob = np.concatenate([COMMON, OWN])
    options = {"n_vocab": N_VOCAB, "n_classes": N_CLASSES, "lr": 0.05, "steps": 600}
    path, alike = (
        adam_limit(prob, np.arange(8) >= 3, rows_alike=same, **options) for same in (False, True)
    )
    assert (np.diff(path.height[-1][3:]) < 0).all()  # rarest first
    assert path.height[-1][3] > 1.2 * path.height[-1][7]
    assert np.ptp(alike.height[-1]) < 1e-12
    share, flat = (np.log(OWN) + one.logits[-1][3:] for one in (path, alike))
    assert share.argmax() == 0 < flat.argmax()


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 2.0])
def test_a_momentum_that_never_forgets_is_refused(momentum):
    with pytest.raises(InputError, match="`momentum`"):
        momentum_clock([1, 2], lr=0.1, momentum=momentum)
