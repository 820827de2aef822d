"""The first force and decoder first, against descent written out window by window from Lemma 1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from saccade.theories import scan_and_snap as theory

M, W = 7, 41
RATES = {"lr_decoder": 0.8, "lr_attention": 0.05}
EVEN = [np.zeros((M, M))] * 9  # attention that does not move


@pytest.fixture(scope="module")
def windows():
    rng = np.random.default_rng(3)
    counts = rng.multinomial(5, rng.dirichlet(np.ones(M)), W).astype(float)
    query, following = rng.integers(0, M, (2, W))
    return counts, query, following, rng.dirichlet(np.ones(W))


def descended(windows, n_steps, *, lr_decoder, lr_attention, along=None):
    """Z after steps of descent on all windows, by Lemma 1; `along`: with attention in each step as
    this list says.
    """
    counts, query, following, weight = windows
    Y, Z = np.zeros((M, M)), np.zeros((M, M))
    for step in range(n_steps):
        rates, attended = (
            {"lr_decoder": lr_decoder, "lr_attention": lr_attention},
            Z if along is None else along[step],
        )
        steps = [
            theory.gradient_from_counts(
                Y, attended, counts[i], query=query[i], label=following[i], **rates
            )
            for i in range(W)
        ]
        Y = Y + sum(w * step.decoder_dot for w, step in zip(weight, steps, strict=True))
        Z = Z + sum(w * step.attention_logits_dot for w, step in zip(weight, steps, strict=True))
    return Z


def force_of(windows):
    counts, *rest = windows
    return theory.first_force(sparse.csr_array(counts), *rest)


def told(windows, steps, **settings):
    counts, *rest = windows
    options = {"queries": range(M), "dtype": np.float64, **RATES, **settings}
    return theory.decoder_first(sparse.csr_array(counts), *rest, steps=steps, **options)


def test_the_first_force_is_what_attention_does_in_its_first_steps(windows):
    rates = {"lr_decoder": 1e-7, "lr_attention": 1.0}
    for n_steps in (2, 5):
        law = theory.early_attention_logits(n_steps, force_of(windows), in_steps=True, **rates)
        np.testing.assert_allclose(
            law, descended(windows, n_steps, **rates), atol=1e-5 * np.abs(law).max()
        )


def test_the_next_order_makes_the_error_fall_with_the_square_of_the_rate(windows):
    """The rate of attention is next to nothing, so that its own effect, two orders later, is too."""

    def errors(rate):
        rates = {"lr_decoder": rate, "lr_attention": 1e-9}
        true = descended(windows, 30, **rates)
        laws = [
            theory.early_attention_logits(
                30, force_of(windows), order=order, in_steps=True, **rates
            )
            for order in (2, 3)
        ]
        return [np.linalg.norm(law - true) / np.linalg.norm(true) for law in laws]

    coarse, fine = errors(2e-2), errors(1e-2)
    assert fine[1] < 0.2 * fine[0]
    assert coarse[0] / fine[0] == pytest.approx(2, rel=0.1)


def test_the_clock_is_where_the_next_order_with_its_exponential_is_the_tolerance(windows):
    force = force_of(windows)
    time = theory.first_force_clock(force, lr_decoder=3.0, tolerance=0.04)
    first, both = (
        theory.early_attention_logits(time, force, order=order, lr_decoder=3.0, lr_attention=1.0)
        for order in (2, 3)
    )
    logit = 3.0 * time * force.logit_speed
    assert np.linalg.norm(both - first) / np.linalg.norm(first) * np.expm1(
        logit
    ) / logit == pytest.approx(0.04)
    assert theory.first_force_clock(force, lr_decoder=6.0, tolerance=0.04) == pytest.approx(
        time / 2
    )


def test_the_speed_of_the_largest_logit_counts_every_window_of_a_long_text():
    """Windows go through in blocks of 4,096: what the last three have to say must count too, as the
    heaviest ones.
    """
    rng, n_windows = np.random.default_rng(5), 4099
    counts = rng.multinomial(5, np.full(M, 1 / M), n_windows).astype(float)
    query, following = rng.integers(0, M, (2, n_windows))
    weight = np.where(np.arange(n_windows) < 4096, 0.5 / 4096, 0.5 / 3)
    feature = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    force = force_of((counts, query, following, weight))
    assert force.logit_speed == pytest.approx(
        weight @ (feature @ force.decoder_dot).max(axis=1), rel=1e-12
    )


def test_rows_of_the_force_sum_to_zero(windows):
    force = force_of(windows)
    np.testing.assert_allclose(force.force.sum(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose(force.correction.sum(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose(force.decoder_dot.sum(axis=1), 0, atol=1e-15)


def test_decoder_first_is_descent_whose_features_do_not_move(windows):
    found = told(windows, [3, 9])
    for place, step in enumerate((3, 9)):
        np.testing.assert_allclose(
            found.attention_logits[place], descended(windows, step, along=EVEN, **RATES), atol=1e-14
        )


def test_the_second_path_attends_as_the_first_one_says_and_not_as_itself_does(windows):
    """At a rate at which a joint run, in which attention hears of its own force, ends up elsewhere."""
    rates = {**RATES, "lr_attention": 3.0}
    first = [descended(windows, step, along=EVEN, **rates) for step in range(9)]
    second, joint = descended(windows, 9, along=first, **rates), descended(windows, 9, **rates)
    assert np.abs(second - joint).max() > 0.01 * np.abs(joint).max()
    np.testing.assert_allclose(told(windows, [9], **rates).second_logits[0], second, atol=1e-13)


def test_single_precision_changes_decoder_first_by_no_more_than_itself(windows):
    fine, coarse = told(windows, [9]), told(windows, [9], dtype=np.float32, with_error=False)
    np.testing.assert_allclose(
        coarse.attention_logits,
        fine.attention_logits,
        atol=1e-6 * np.abs(fine.attention_logits).max(),
    )
    assert np.isnan(coarse.error).all()


@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_decoder_first_tells_its_own_error(windows, rate):
    found = told(windows, [25], lr_attention=rate)
    joint = descended(windows, 25, lr_decoder=RATES["lr_decoder"], lr_attention=rate)
    true = np.linalg.norm(found.attention_logits[0] - joint) / np.linalg.norm(joint)
    assert found.error[0] == pytest.approx(true, rel=0.1)
