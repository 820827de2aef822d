"""Contexts of text and their limit: counts against loops, distances against closed forms, gradients
and descent against engines.
"""

from __future__ import annotations

import math
from itertools import pairwise

import jax
import numpy as np
import pytest
import xarray as xr

pytest.importorskip("tokenizers")

import saccade
from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.corpus import Corpus, corpus
from saccade.errors import InputError
from saccade.experiments.real_text import context_length as asked
from saccade.experiments.real_text import finite_contexts as finite
from saccade.experiments.real_text.context_length import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.model.pairwise import Pairwise, Parameters, Rows, forward, gradients
from saccade.records.schema import with_settings
from tests.experiments.default_runs import record_of

LONGEST = 29


@pytest.fixture(scope="module")
def text() -> Corpus:
    return corpus("sotu", n_vocab=211)


@pytest.fixture(scope="module")
def classes(text: Corpus) -> SequenceClasses:
    return text.classes(["the", "of"], window=LONGEST, n_next=3, n_tokens=101)


def pairs_of(text: Corpus, classes: SequenceClasses) -> list[tuple[int, int]]:
    names = classes.token_names
    tokens = zip(classes.query, classes.next_token, strict=True)
    return [(text.id_of(names[query]), text.id_of(names[following])) for query, following in tokens]


def test_the_law_at_the_classes_own_length_is_theirs(
    text: Corpus, classes: SequenceClasses
) -> None:
    np.testing.assert_allclose(
        finite.law_at(text, classes, LONGEST), classes.token_prob, atol=1e-15
    )


def test_the_law_at_length_one_is_what_stands_before_the_query(
    text: Corpus, classes: SequenceClasses
) -> None:
    ids, law = np.asarray(text.train), finite.law_at(text, classes, 1)
    kept = [
        text.id_of(name) for name in np.array(classes.token_names)[classes.token_prob.any(axis=0)]
    ]
    for n, (query, following) in enumerate(pairs_of(text, classes)):
        places = np.flatnonzero((ids[1:-1] == query) & (ids[2:] == following))
        before = np.bincount(ids[places], minlength=text.n_vocab)[kept]
        np.testing.assert_allclose(
            law[n, : len(kept)], before / before.sum(), atol=1e-3
        )  # the text is a ring, this is not


def test_places_are_in_their_part_and_have_the_pair(text: Corpus, classes: SequenceClasses) -> None:
    between = finite.part_of_text(len(text.train), 2, 5)
    rng = np.random.default_rng(1)
    found = finite.drawn_places(
        text, classes, between=between, longest=LONGEST, n_windows=17, rng=rng
    )
    for places, (query, following) in zip(found, pairs_of(text, classes), strict=True):
        assert places.min() >= between[0] + LONGEST
        assert places.max() < between[1] - 1
        assert len(set(places.tolist())) == 17
        assert (text.train[places] == query).all()
        assert (text.train[places + 1] == following).all()


def test_parts_cover_the_text_once() -> None:
    parts = [finite.part_of_text(103, part, 5) for part in range(5)]
    assert (parts[0][0], parts[-1][1]) == (0, 103)
    assert all(end == start for (_, end), (start, _) in pairwise(parts))


def test_counts_of_windows_agree_with_a_loop(text: Corpus, classes: SequenceClasses) -> None:
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
    classes: SequenceClasses,
) -> None:
    blocks = Pairwise().blocks(classes)
    like = np.zeros((*blocks.token_prob.shape, 4001))
    like[:, 0] = 53
    drawn = finite.independent_counts(blocks, like, np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 53).all()
    np.testing.assert_allclose(finite.share_error(drawn, blocks), 53**-0.5, rtol=0.02)


@pytest.fixture(scope="module")
def state(classes: SequenceClasses) -> Parameters:
    """Random, so that nothing is zero."""
    rng, zero = (
        np.random.default_rng(5),
        Pairwise().initial(Pairwise().blocks(classes), np.random.default_rng(0), np.float64),
    )
    return Parameters(*(Rows(*(rng.normal(size=part.shape) for part in rows)) for rows in zero))


def test_an_infinite_context_has_no_distance(classes: SequenceClasses, state: Parameters) -> None:
    blocks = Pairwise().blocks(classes)
    exact = np.repeat(Pairwise().population(blocks), 3, axis=2) * 1e6
    for error in (
        finite.share_error(exact, blocks),
        finite.attention_error(exact, state, blocks),
        finite.gradient_error(exact, state, blocks),
    ):
        np.testing.assert_allclose(error, 0, atol=1e-12)


def test_distance_of_attention_from_its_definition(
    classes: SequenceClasses, state: Parameters
) -> None:
    blocks = Pairwise().blocks(classes)
    counts = finite.independent_counts(
        blocks, np.full((*blocks.token_prob.shape, 2), 1.0), np.random.default_rng(0)
    )
    logits = blocks.class_slots(*state.attention)
    limit = blocks.token_prob * np.exp(logits)
    limit /= limit.sum(axis=1, keepdims=True)
    for n in range(classes.n_classes):
        gaps = []
        for row in range(2):
            sequence = np.repeat(np.arange(counts.shape[1]), counts[n, :, row].astype(int))
            weights = np.exp(logits[n, sequence])
            attention = np.bincount(sequence, weights / weights.sum(), minlength=counts.shape[1])
            gaps.append(((attention - limit[n]) ** 2).sum())
        expected = np.sqrt(np.mean(gaps)) / np.linalg.norm(limit[n])
        assert finite.attention_error(counts, state, blocks)[n] == pytest.approx(
            expected, rel=1e-12
        )


def test_the_spread_of_the_gradient_follows_from_its_derivative(
    classes: SequenceClasses, state: Parameters
) -> None:
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


def test_gradients_of_single_contexts_add_up_to_the_models(
    classes: SequenceClasses, state: Parameters
) -> None:
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


def test_descent_in_the_limit_is_the_engines(classes: SequenceClasses) -> None:
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


def test_windows_that_are_the_law_teach_what_the_limit_teaches(classes: SequenceClasses) -> None:
    blocks = Pairwise().blocks(classes)
    bank = np.repeat(Pairwise().population(blocks), 5, axis=2)
    picks = np.random.default_rng(0).integers(5, size=(7, classes.n_classes, 3))
    ours, limit = (
        finite.descended(bank, picks, classes, blocks, (5.0, 2.0)),
        finite.in_the_limit(7, classes, blocks, (5.0, 2.0)),
    )
    np.testing.assert_allclose(
        finite.limit_attention(ours, blocks), finite.limit_attention(limit, blocks), atol=1e-12
    )


def share_record(difference: float, noise: float) -> xr.Dataset:
    """Two classes of one query that differ by a vector of this length in every part, over a common
    share of length one.
    """
    rng, n_parts, n_tokens = np.random.default_rng(0), 11, 5003
    share = noise * rng.normal(size=(1, n_parts, 2, n_tokens)) / np.sqrt(n_tokens)
    share[:, :, :, 0] += 1
    share[:, :, 1, 1] += difference
    axes = ("length", "part", "class", "token")
    return xr.Dataset({"mean_share": (axes, share), "class_query": ("class", [3, 3])})


def test_contrast_is_the_distance_of_laws_without_the_noise_of_counts() -> None:
    assert asked.contrast(share_record(0.2, 0.0))[0] == pytest.approx(
        0.2 / np.sqrt(1 + 0.2**2 / 2), rel=1e-12
    )
    assert asked.contrast(share_record(0.2, 0.3))[0] == pytest.approx(0.2, rel=0.1)
    assert abs(asked.contrast(share_record(0.0, 0.3))[0]) < 0.05


def test_classes_of_different_queries_have_no_contrast() -> None:
    record = share_record(0.2, 0.0).assign(class_query=("class", [3, 5]))
    assert np.isnan(asked.contrast(record)).all()


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    sizes = {
        "n_vocab": 211,
        "n_tokens": 101,
        "lengths": (11, 29, 61),
        "queries": 2,
        "n_next": 3,
        "n_windows": 13,
        "parts": 3,
    }
    return record_of("context-length", text="sotu", **sizes, early=3, steps=7, batch=2)


def test_a_small_run_has_every_distance_at_every_length(record: xr.Dataset) -> None:
    for name in asked.DISTANCES:
        assert dict(record[name].sizes) == {"length": 3, "source": 2, "part": 3, "class": 6}
        assert (record[name] > 0).all()
    rows = EXPERIMENT.rows(record)
    assert {row["length"] for row in rows if row["measure"] == "worth"} == {11, 29, 61}
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_shares_of_independent_draws_fall_with_slope_a_half_even_in_a_small_run(
    record: xr.Dataset,
) -> None:
    assert asked.powers(record, "shares", "independent").mean() == pytest.approx(-0.5, abs=0.1)


def power_law(text: float, independent: float = -0.5) -> xr.Dataset:
    """Every distance a power of the length, what is learned a quarter of a power steeper."""
    lengths, powers = np.array([32.0, 128.0, 512.0, 1024.0]), np.array([independent, text])
    axes = ("length", "source", "part", "class")
    curve = lengths[:, None, None, None] ** powers[:, None, None] * np.ones((4, 2, 3, 5))
    variables = dict.fromkeys(("shares", "attention", "gradient"), (axes, curve))
    variables["learned"] = (axes, curve * lengths[:, None, None, None] ** -0.25)
    variables["exceeded"] = (
        axes,
        np.where(powers[:, None, None] > -0.45, 0.2, 0.0) * np.ones((4, 2, 3, 5)),
    )
    coords = {"length": lengths.astype(int), "source": list(asked.SOURCES)}
    return with_settings(xr.Dataset(variables, coords), Settings())


def test_text_that_is_as_independent_as_the_theory_has_it_confirms_every_claim() -> None:
    assert {claim.verdict for claim in EXPERIMENT.claims(power_law(-0.5))} == {HOLDS}


def test_slower_text_refutes_the_data_model_and_is_outside_the_lemmas_which_assume_it() -> None:
    claims = list(EXPERIMENT.claims(power_law(-0.1)))
    assert [claim.title for claim in claims if claim.verdict == FAILS] == [
        "independent draws that one token of text is worth"
    ]
    outside = [claim for claim in claims if claim.verdict == OUTSIDE]
    assert [claim.agrees for claim in outside] == [False] * 5
    assert {claim.case["contexts"] for claim in outside} == {"windows of text"}


def test_a_control_off_its_slope_is_seen() -> None:
    draws = [
        claim
        for claim in EXPERIMENT.claims(power_law(-0.5, -0.3))
        if claim.case.get("contexts") == "independent draws"
    ]
    assert [claim.verdict for claim in draws] == [FAILS, FAILS, FAILS, HOLDS, FAILS]


def test_a_gradient_that_is_not_linear_in_the_shares_says_nothing_of_text() -> None:
    record = power_law(-0.1)
    bent = record.assign(
        gradient=record["gradient"] * np.array([1.3, 1.1, 1.0, 1.0])[:, None, None, None]
    )
    of_text = [
        claim
        for claim in EXPERIMENT.claims(bent)
        if claim.label.endswith("text)") and "gradient" in claim.title
    ]
    assert [claim.verdict for claim in of_text] == [OUTSIDE]


def test_worth_is_the_ratio_of_squared_distances() -> None:
    np.testing.assert_allclose(asked.worth(power_law(-0.4))[:, -1], 1024**-0.2)


@pytest.mark.parametrize("lengths", [(32,), (64, 32), (32, 32)])
def test_lengths_must_be_two_or_more_in_order(lengths: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="lengths"):
        EXPERIMENT.run(Settings(text="sotu", lengths=lengths))


def test_a_text_too_short_for_its_parts_is_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        EXPERIMENT.run(Settings(text="sotu", lengths=(32, 10**6)))
