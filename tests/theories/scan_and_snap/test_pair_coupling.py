"""The coupling of plain descent for any overlaps: against a dense decoder, the reduction for equal
overlaps, and its own limits.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import softmax

from saccade.theories import scan_and_snap as theory

WEIGHT = np.array([0.5, 0.3, 0.2])
FEATURE = theory.normalised_feature(
    [[0.5, 0.3, 0, 0.7, 0, 0, 0], [0.5, 0.3, 0.4, 0, 0.9, 0, 0], [0.5, 0, 0.4, 0, 0, 1.1, 0]]
)
OVERLAP = theory.class_overlap(FEATURE)


def test_couplings_are_those_of_a_dense_decoder_that_follows_eq_7():
    n_vocab, rate, t = 11, 0.7, np.array([0.3, 5.0, 200.0])

    def velocity(_, flat):
        Y = flat.reshape(7, n_vocab)
        error = np.eye(3, n_vocab) - softmax(FEATURE @ Y, axis=1)
        return rate * np.einsum("n,nl,nj->lj", WEIGHT, FEATURE, error).ravel()

    path = solve_ivp(velocity, (0, t[-1]), np.zeros(7 * n_vocab), t_eval=t, rtol=1e-10, atol=1e-13)
    found = theory.plain_coupling(
        t, overlap=OVERLAP, class_weight=WEIGHT, n_vocab=n_vocab, lr_decoder=rate
    )
    for i, flat in enumerate(path.y.T):
        Y = flat.reshape(7, n_vocab)
        error = np.eye(3, n_vocab) - softmax(FEATURE @ Y, axis=1)
        shares = np.linalg.lstsq(FEATURE.T, Y @ error.T, rcond=None)[0].T
        np.testing.assert_allclose(found.own[i], np.diag(shares), rtol=1e-6)
        np.testing.assert_allclose(
            found.other[i] + np.diag(found.own[i]),
            -shares + 2 * np.diag(np.diag(shares)),
            rtol=1e-6,
        )
        np.testing.assert_allclose(found.error[i], np.diag(error), rtol=1e-6)


def test_equal_overlaps_give_the_three_numbers_of_the_reduction():
    t, K, rho = np.geomspace(1, 1e5, 7), 4, 0.2
    equal = theory.plain_backprop(t, overlap=rho, n_vocab=101, n_classes=K, lr_decoder=0.7)
    every = theory.plain_coupling(
        t,
        overlap=rho * (1 - np.eye(K)),
        class_weight=np.full(K, 1 / K),
        n_vocab=101,
        lr_decoder=0.7,
    )
    np.testing.assert_allclose(every.own, np.repeat(equal.own[:, None], K, axis=1), rtol=1e-7)
    np.testing.assert_allclose(every.other[:, 2, 3], equal.other, rtol=1e-7)


def test_early_closed_form_is_approached_as_the_vocabulary_grows():
    def gap(n_vocab):
        overlap, t = 0.02 * (1 - np.eye(3)), 3e3
        found = theory.plain_coupling(
            [t], overlap=overlap, class_weight=np.full(3, 1 / 3), n_vocab=n_vocab, lr_decoder=1.0
        )
        height = np.log(n_vocab * t / 3)
        return abs(
            found.other[0, 0, 1]
            / found.own[0, 0]
            / theory.early_plain_coupling(height, 0.02, n_vocab=n_vocab)
            - 1
        )

    assert gap(10**6) < 0.5 * gap(10**3) < 0.05


def test_in_the_end_classes_couple_more_than_theorem_1_says():
    options = {"class_weight": WEIGHT, "n_vocab": 10**6, "lr_decoder": 1.0}
    found = theory.plain_coupling([1e290], overlap=OVERLAP, **options)
    limit = theory.late_plain_coupling(OVERLAP)
    pairs = ~np.eye(3, dtype=bool)
    assert limit[pairs].min() > 0
    np.testing.assert_allclose(
        (found.other[0] / found.own[0][:, None])[pairs], limit[pairs], rtol=0.1
    )
    small = theory.late_plain_coupling(1e-4 * (1 - np.eye(3)))
    assert small[0, 1] / theory.class_coupling(1e-4 * (1 - np.eye(3)))[0, 1] == pytest.approx(
        2, rel=1e-3
    )


def test_at_the_height_of_the_snap_classes_and_other_tokens_share_the_error():
    L = theory.plain_snap_height(0.3, n_vocab=1000, n_classes=5)
    assert 5 * np.exp(0.3 * L) == pytest.approx(1000)
