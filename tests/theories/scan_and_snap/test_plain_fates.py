"""Who falls under plain descent: the law for small logits against its equation and against plain
descent with memory.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saccade.theories import scan_and_snap as theory

# Three common tokens; two distinct ones in class 1, three lighter ones in class 2.
UNEQUAL = np.array(
    [[0.1, 0.1, 0.05, 0.3, 0.45, 0.0, 0.0, 0.0], [0.3, 0.3, 0.15, 0.0, 0.0, 0.05, 0.08, 0.12]]
)
ALIKE = np.array([[0.2, 0.2, 0.25, 0.35, 0.0, 0.0], [0.2, 0.2, 0.0, 0.0, 0.25, 0.35]])


def push_and_memory(prob):
    """Class by class, as the module's equation has it."""
    f = theory.normalised_feature(prob)
    C = sum(np.diag(row**2) - np.outer(row**2, row**2) for row in f)
    return sum(f[n] * (f[n] * (f[n] @ f[1 - n]) - f[1 - n]) for n in (0, 1)), C


def test_the_resting_lead_is_the_closed_form_of_two_classes():
    f = theory.normalised_feature(UNEQUAL)
    share, rho, n_distinct = (f[:, :3] ** 2).sum(axis=1), f[0] @ f[1], np.array([2, 3])
    expected = rho * (1 / share - (n_distinct / share).sum() / 8)
    lead = theory.resting_lead(UNEQUAL)
    np.testing.assert_allclose(lead[3:5], expected[0], rtol=1e-9)
    np.testing.assert_allclose(lead[5:], expected[1], rtol=1e-9)
    assert expected[0] > 0 > expected[1]
    assert lead.sum() == pytest.approx(0, abs=1e-9)


def test_in_classes_alike_distinct_tokens_lead_and_never_turn():
    lead = theory.resting_lead(ALIKE)
    assert (lead[2:] > 0).all()
    assert (lead[:2] < 0).all()
    assert np.isnan(theory.turning_height(ALIKE, 5, lr_decoder=1.0, lr_attention=1.0))


def test_a_coupling_twice_as_strong_doubles_the_lead():
    np.testing.assert_allclose(
        theory.resting_lead(UNEQUAL, 2 * np.ones((2, 2))),
        2 * theory.resting_lead(UNEQUAL),
        rtol=1e-12,
    )


def test_small_logits_solve_their_equation():
    b, C = push_and_memory(UNEQUAL)
    rate, last = 0.7, 12.0

    def velocity(L, flat):
        z, mean = np.split(flat, 2)
        return np.concatenate([rate * L * (b / 23 - C @ (z - mean)), (z - mean) / L])

    first = 1e-4
    start = np.concatenate([rate * b / 23 * first**2 / 2, rate * b / 23 * first**2 / 6])
    exact = solve_ivp(velocity, (first, last), start, method="LSODA", rtol=1e-10, atol=1e-16).y[
        :8, -1
    ]
    found = theory.linear_plain_logits(
        last, token_prob=UNEQUAL, n_vocab=23, lr_decoder=1.0, lr_attention=rate
    )[0]
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-9)


def test_at_its_turning_height_a_token_is_back_at_its_start_and_the_height_goes_as_the_root_of_the_ratio():
    slow, fast = (
        theory.turning_height(UNEQUAL, 7, lr_decoder=1.0, lr_attention=rate) for rate in (0.25, 1.0)
    )
    assert slow == pytest.approx(2 * fast, rel=1e-9)
    options = {"token_prob": UNEQUAL, "n_vocab": 23, "lr_decoder": 1.0, "lr_attention": 1.0}
    before, at, after = theory.linear_plain_logits([0.9 * fast, fast, 1.1 * fast], **options)[:, 7]
    assert before > 0 > after
    assert abs(at) < 1e-6 * before


def test_tokens_turn_where_plain_descent_with_memory_turns_them():
    """Attention so slow that the decoder has learnt its task long before."""
    M, rate = 53, 0.005
    height = theory.turning_height(UNEQUAL, 7, lr_decoder=1.0, lr_attention=rate)
    t = np.append(0.0, np.exp(np.linspace(0.5, 1.5, 200) * height) * 2 / M)
    options = {
        "query": [0, 0],
        "class_weight": [0.5, 0.5],
        "n_vocab": M,
        "lr_decoder": 1.0,
        "lr_attention": rate,
    }
    z = theory.plain_attention_logits(t, token_prob=UNEQUAL, **options)[1:, 0, 7]
    found = np.log(M * t[1:] / 2)[np.argmax(z < 0)]
    assert z.min() < 0 < z.max()
    assert found == pytest.approx(height, rel=0.1)


def test_the_stable_rate_is_two_over_the_fastest_pull_back():
    sent = (
        theory.plain_coupling(
            np.geomspace(0.1, 1e4, 4000),
            overlap=theory.class_overlap(theory.normalised_feature(ALIKE)),
            class_weight=[0.5, 0.5],
            n_vocab=23,
            lr_decoder=1.0,
        )
        .own[:, 0]
        .max()
    )
    _, C = push_and_memory(ALIKE)
    found = theory.stable_attention_rate(ALIKE, [0.5, 0.5], n_vocab=23)
    assert found == pytest.approx(2 / (0.5 * sent * np.linalg.eigvalsh(C)[-1]), rel=1e-3)
