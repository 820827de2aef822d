"""Stage II: the linear attention flow against the whole flow, and what it makes of attention."""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    alignment,
    attention_logits,
    focus_logits,
    focus_onset,
    focus_rate,
    focus_sign,
    focus_slope,
    focus_strength,
    linear_attention,
    unigram_point,
    unigram_weights,
)

from .chains import CHAINS, D_KEY, D_MODEL, irreversible
from .numeric import weight_flow

chains = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
DIRECTION = np.random.default_rng(3).normal(size=D_MODEL)
ALPHA = DIRECTION / np.linalg.norm(DIRECTION)


def small_attention(scale, seed=7):
    return scale * np.random.default_rng(seed).normal(size=(2, D_MODEL, D_KEY))


def from_the_plateau(chain, scale, times, **settings):
    """The whole flow from the unigram point with a small random query and key."""
    W0, _, _, W1 = unigram_weights(stationary=chain["stationary"], direction=DIRECTION, d_key=D_KEY)
    return weight_flow([W0, *small_attention(scale), W1], times, **chain, **settings)


def test_linear_attention_solves_the_linear_flow():
    WQ, WK = small_attention(1.0)
    t, step, rate = np.array([0.0, 2.0, 5.0]), 1e-4, -0.3
    now, ahead, behind = (
        linear_attention(t + shift, WQ, WK, direction=DIRECTION, rate=rate)
        for shift in (0, step, -step)
    )
    across = rate * np.outer(ALPHA, ALPHA)
    np.testing.assert_allclose(
        (ahead.query - behind.query) / (2 * step), across @ now.key, atol=1e-8
    )
    np.testing.assert_allclose((ahead.key - behind.key) / (2 * step), across @ now.query, atol=1e-8)
    np.testing.assert_allclose(now.query[0], WQ, rtol=1e-14)


@pytest.mark.parametrize("rates", [{}, {"phi_scale": 0.3}, {"lr_attention": 4.0}])
def test_strength_of_attention_along_the_flow_is_the_predicted_one(rates):
    chain = irreversible()
    rate, scale = focus_rate(**chain, **rates), 1e-4
    times = np.linspace(0, 2 / abs(rate), 5)
    phi_scale = rates.get("phi_scale", 1.0)
    gamma = unigram_point(stationary=chain["stationary"]).gamma
    strength = focus_strength(
        times, *small_attention(scale), direction=DIRECTION, rate=rate, phi_scale=phi_scale
    )
    for weights, predicted in zip(
        from_the_plateau(chain, scale, times, **rates), focus_logits(strength, gamma=gamma)
    ):
        measured = attention_logits(*weights[:3], phi_scale=phi_scale)
        np.testing.assert_allclose(measured, predicted, rtol=1e-4, atol=1e-14)


@chains
def test_attention_logits_align_with_the_law_by_the_sign_of_the_rate(chain):
    pi, rate = chain["stationary"], focus_rate(**chain)
    W0, WQ, WK, _ = from_the_plateau(chain, 1e-5, [6 / abs(rate)])[0]
    cosine = alignment(attention_logits(W0, WQ, WK), np.outer(pi, pi))
    assert focus_sign(**chain) * cosine > 0.9999


@pytest.mark.parametrize("sign", [1, -1])
def test_strength_grows_at_twice_the_rate_to_the_sign_of_the_rate(sign):
    WQ, WK = small_attention(1.0)
    rate, t = sign * 0.2, np.array([60.0, 61.0])
    strength = focus_strength(t, WQ, WK, direction=DIRECTION, rate=rate)
    mode = ALPHA @ WQ + sign * (ALPHA @ WK)
    np.testing.assert_allclose(strength, sign * mode @ mode / 4 * np.exp(0.4 * t), rtol=1e-9)


@pytest.mark.parametrize("rate", [0.05, -0.05])
def test_onset_is_when_the_linear_query_has_tripled(rate):
    WQ, WK = small_attention(1.0)
    onset = focus_onset(WQ, WK, direction=DIRECTION, rate=rate)
    query = linear_attention(onset, WQ, WK, direction=DIRECTION, rate=rate).query
    assert np.linalg.norm(query) == pytest.approx(3 * np.linalg.norm(WQ), rel=1e-12)
    assert onset > 0
    longer = focus_onset(WQ, WK, direction=DIRECTION, rate=rate, growth=3000.0)
    assert longer - onset == pytest.approx(np.log(1000) * focus_slope(rate=rate), rel=0.02)


def test_alignment_is_a_cosine_over_the_axes_of_the_pattern():
    pattern = np.array([[3.0, 0.0], [0.0, 4.0]])
    stack = np.stack([2 * pattern, -pattern, pattern[::-1]])
    np.testing.assert_allclose(alignment(stack, pattern), [1, -1, 0], atol=1e-15)
