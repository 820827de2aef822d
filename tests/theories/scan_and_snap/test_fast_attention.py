"""Fast attention under plain descent: its equation against the one with memory, and closed forms
against both.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import exprel

from saccade.errors import InputError
from saccade.theories import scan_and_snap as theory

SHAPE = {"overlap": 0.04, "n_vocab": 1009, "n_classes": 5}
RATES = {"lr_decoder": 1.0, "lr_attention": 10.0}


def with_memory(t, overlap, n_vocab, n_classes):
    """Gap of K classes that share one token, by the equation with memory."""
    prob = np.column_stack(
        [np.full(n_classes, overlap**0.5), (1 - overlap) ** 0.5 * np.eye(n_classes)]
    )
    options = {
        "token_prob": prob / prob.sum(axis=1, keepdims=True),
        "query": n_classes * [0],
        "n_vocab": n_vocab,
    }
    z = theory.plain_attention_logits(
        np.append(0, t), class_weight=n_classes * [1 / n_classes], **options, **RATES
    )[1:, 0]
    return z[:, 1] - z[:, 0]


@pytest.mark.parametrize(
    ("n_classes", "overlap", "n_vocab"),
    [(3, 0.03, 2003), (11, 0.04, 1009), (5, 0.3, 1009), (5, 0.2, 41)],
)
def test_fast_attention_grows_as_with_memory_before_and_after_the_snap(n_classes, overlap, n_vocab):
    """The last three are beyond the closed form, the last two beyond the snap."""
    shape = {"overlap": overlap, "n_vocab": n_vocab, "n_classes": n_classes}
    t = np.geomspace(
        100 * theory.snap_time(n_vocab=n_vocab, n_classes=n_classes, lr_decoder=1.0), 1e14, 150
    )
    law, gap = theory.fast_plain_growth(t, **shape, **RATES), with_memory(t, **shape)
    np.testing.assert_allclose(law.rate[1:-1], np.gradient(gap, np.log(t))[1:-1], rtol=0.02)
    np.testing.assert_allclose(law.gap, gap, rtol=0.03)
    np.testing.assert_allclose(np.gradient(law.gap, np.log(t))[1:-1], law.rate[1:-1], rtol=1e-3)


def test_the_closed_form_is_the_limit_of_weak_coupling():
    t = np.geomspace(1e6, 1e9, 7)
    for n_vocab, off in ((10**4, 0.03), (10**6, 3e-4)):
        shape = SHAPE | {"n_vocab": n_vocab}
        closed = theory.fast_plain_growth_rate(np.log(n_vocab * t / 5), **shape)
        np.testing.assert_allclose(
            theory.fast_plain_growth(t, **shape, **(RATES | {"lr_attention": 100.0})).rate,
            closed,
            rtol=off,
        )


def test_the_closed_form_is_off_by_up_to_twice_what_it_leaves_out():
    """Few tokens make classes learn of each other, many classes make the overlap fall."""
    for n_classes, overlap, n_vocab in (
        (11, 0.04, 1009),
        (5, 0.05, 1009),
        (19, 0.03, 1009),
        (2, 0.04, 199),
        (3, 0.03, 199),
    ):
        shape = {"overlap": overlap, "n_vocab": n_vocab, "n_classes": n_classes}
        t = np.geomspace(1e6, 1e12, 30)
        height, law = np.log(n_vocab * t / n_classes), theory.fast_plain_growth(t, **shape, **RATES)
        left_out = height * (2 * overlap * law.gap + (exprel(overlap * height) - 1) / n_vocab)
        off, small = 1 - law.rate / theory.fast_plain_growth_rate(height, **shape), left_out <= 0.11
        assert (off[small] <= 0.2).all()
        np.testing.assert_allclose((off / left_out)[left_out < 0.2], 1.6, atol=0.4)


@pytest.mark.parametrize(
    ("n_classes", "overlap", "n_vocab"),
    [(2, 0.04, 199), (4, 0.1, 151), (11, 0.05, 503), (5, 0.3, 10007)],
)
def test_the_early_coupling_is_off_by_what_its_domain_names(n_classes, overlap, n_vocab):
    t, K = np.geomspace(1e5, 1e10, 11), n_classes
    height = np.log(n_vocab * t / K)
    exact = theory.plain_coupling(
        t,
        overlap=overlap * (1 - np.eye(K)),
        class_weight=np.full(K, 1 / K),
        n_vocab=n_vocab,
        lr_decoder=1.0,
    )
    off = (
        theory.early_plain_coupling(height, overlap, n_vocab=n_vocab)
        * exact.own[:, 0]
        / exact.other[:, 0, 1]
        - 1
    )
    said = (
        (K - 1) * np.expm1(overlap * height) + height * (exprel(overlap * height) - 1)
    ) / n_vocab
    np.testing.assert_allclose(off[said < 0.3], said[said < 0.3], rtol=0.25)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (
            lambda: theory.fast_plain_growth([0.0, 1.0], **SHAPE, **RATES),
            r"`t` must be finite, and later than 5\.21",
        ),
        (lambda: theory.fast_plain_growth([1e3, np.inf], **SHAPE, **RATES), "`t` must be finite"),
        (
            lambda: theory.fast_plain_growth([1e3], **(SHAPE | {"overlap": 0.0}), **RATES),
            "`overlap`",
        ),
        (
            lambda: theory.fast_plain_growth([1e3], **(SHAPE | {"n_vocab": 5}), **RATES),
            "more tokens than classes",
        ),
        (lambda: theory.slowest_plain_growth(**(SHAPE | {"overlap": 0.0})), "`overlap`"),
        (lambda: theory.plain_snap_height(0.0, n_vocab=10, n_classes=2), "`overlap`"),
        (lambda: with_memory([5.0, 3.0], 0.1, 10, 2), "`t` must be increasing times"),
        (lambda: with_memory([1.0], 0.1, 2, 3), "`n_vocab` must be at least"),
        (lambda: theory.turning_height(np.eye(2), 7, lr_decoder=1.0, lr_attention=1.0), "`token`"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(call, named):
    with pytest.raises(InputError, match=named):
        call()


def test_fast_growth_is_the_gap_that_runs_ahead_of_its_own_mean_by_the_coupling():
    """x' = D' + D/L is what x - (mean of x over L) = D says."""
    L = np.linspace(1e-3, 60, 60001)
    ahead = 4 * theory.early_plain_coupling(L, 0.04, n_vocab=1009)
    rate = theory.fast_plain_growth_rate(L, **SHAPE)
    np.testing.assert_allclose(rate[1:-1], (np.gradient(ahead, L) + ahead / L)[1:-1], rtol=1e-4)


def test_the_slowest_growth_is_the_minimum():
    L = np.linspace(1, 60, 200001)
    rate = theory.fast_plain_growth_rate(L, **SHAPE)
    slowest = theory.slowest_plain_growth(**SHAPE)
    assert slowest.rate == pytest.approx(rate.min(), rel=1e-8)
    assert slowest.log_height == pytest.approx(L[rate.argmin()], rel=1e-3)
    assert slowest.rate == pytest.approx(6.2173 * 4 * 0.04 / 1009, rel=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_late_growth_is_the_derivative_of_what_it_runs_ahead_by(n_classes):
    """x' L = D + L D' rho', rho' = -2 rho (1 - rho) x', where wrong answers of other classes and
    unused ones keep one margin.
    """
    rho, h, others = 0.1, 1e-6, n_classes - 1

    def ahead(overlap):
        # Of many unused tokens none gets any error, so the logit of another class's must stand
        # still: -q + rho (1 - (K-2) q) = 0.
        q = overlap / (1 + (others - 1) * overlap)
        return np.log((1 + others * q**2) / (1 - others * q) ** 2)

    expected = ahead(rho) / (1 + 2 * rho * (1 - rho) * (ahead(rho + h) - ahead(rho - h)) / (2 * h))
    assert theory.late_plain_growth_rate(rho, n_classes=n_classes) == pytest.approx(
        expected, rel=1e-6
    )
    assert theory.late_plain_growth_rate(1e-6, n_classes=5) == pytest.approx(8e-6, rel=1e-4)
