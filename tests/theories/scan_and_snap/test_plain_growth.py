"""How attention grows under plain descent: closed forms against their equations, and the equations
against each other.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import softmax

from saccade.theories import scan_and_snap as theory

SHAPE = {"overlap": 0.04, "n_vocab": 1009, "n_classes": 5}
PROB = np.array([[0.3, 0.3, 0.4, 0.0, 0.0], [0.3, 0.0, 0.0, 0.2, 0.5]])
OPTIONS = {
    "token_prob": PROB,
    "query": [7, 7],
    "class_weight": [0.5, 0.5],
    "n_vocab": 23,
    "lr_decoder": 0.9,
}


def test_with_attention_nearly_at_rest_logits_are_the_integral_of_lemma_4_with_the_plain_coupling():
    t, rate = np.append(0.0, np.geomspace(0.01, 300, 600)), 1e-7
    z = theory.plain_attention_logits(t, lr_attention=rate, **OPTIONS)
    f = theory.normalised_feature(PROB)
    coupling = theory.plain_coupling(
        t[1:], overlap=theory.class_overlap(f), class_weight=[0.5, 0.5], n_vocab=23, lr_decoder=0.9
    ).other
    dot = [
        theory.attention_logits_dot(f, beta, [7, 7], speed=1.0, lr_attention=rate)
        for beta in coupling
    ]
    expected = np.trapezoid(np.concatenate([np.zeros((1, 2, 5)), dot]), t, axis=0)
    np.testing.assert_allclose(z[-1], expected, rtol=1e-3, atol=1e-13)


def test_fast_attention_is_held_back_by_what_the_decoder_remembers():
    """The exact decoder, one vector for each token, along the same path: without memory logits are
    several times as large.
    """
    t1, rate, M = 300.0, 20.0, OPTIONS["n_vocab"]

    def velocity(_t, flat):
        Y, z = flat[:-5].reshape(5, M), flat[-5:]
        f = theory.normalised_feature(PROB * np.exp(z))
        error = np.eye(M)[:2] - softmax(f @ Y, axis=1)
        g = error @ Y.T
        pushed = f * (g - f * np.sum(f * g, axis=1, keepdims=True))
        return np.concatenate([(0.9 * 0.5 * f.T @ error).ravel(), rate * 0.5 * pushed.sum(axis=0)])

    exact = solve_ivp(
        velocity, (0, t1), np.zeros(5 * M + 5), method="LSODA", rtol=1e-8, atol=1e-11
    ).y[-5:, -1]
    found = theory.plain_attention_logits([0.0, t1], lr_attention=rate, **OPTIONS)[-1, 0]
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_each_query_has_the_logits_of_its_own_classes():
    apart = theory.plain_attention_logits(
        [0.0, 50.0], lr_attention=1.0, **(OPTIONS | {"query": [7, 3]})
    )[-1]
    assert apart[0, 3] == apart[1, 1] == 0
    assert apart[0, 1] > 0 > apart[0, 0]


def test_slow_growth_is_the_integral_of_the_early_coupling():
    t = np.geomspace(1e3, 1e9, 4001)
    L = np.log(1009 * t / 5)
    grown = theory.slow_plain_growth(t, **SHAPE, lr_decoder=1.0, lr_attention=0.3)
    drive = 0.3 * 4 * 0.04 * L * theory.early_plain_coupling(L, 0.04, n_vocab=1009)
    np.testing.assert_allclose(np.gradient(grown, np.log(t))[1:-1], drive[1:-1], rtol=1e-4)
