"""Windows of a text: what stands in them, and that samples share nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import saccade
from saccade.errors import InputError


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Tokens of which each stands once, so that a window can be found again by its tokens."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "train.txt").write_text(" ".join(f"w{i}" for i in range(1000)))
    (folder / "valid.txt").write_text("w1 w2")
    return saccade.corpus(folder, cache=folder / "cache")


def place(text, token):
    return int(text.vocabulary[token].removeprefix("w"))


def test_a_window_is_the_tokens_before_a_query_and_the_token_after_it(text):
    windows = text.windows(5, n_windows=None)
    assert len(windows.query) == (1000 - 7) // 7 + 1
    for row in range(len(windows.query)):
        before = sorted(place(text, token) for token in windows.counts[[row]].indices)
        query = place(text, windows.query[row])
        assert before == list(range(query - 5, query))
        assert place(text, windows.next_token[row]) == query + 1
        assert windows.start[row] == query - 5
    np.testing.assert_allclose(windows.weight.sum(), 1)


def test_samples_share_no_token_of_the_text(text):
    one, other = (text.windows(5, n_windows=60, seed=3, sample=sample) for sample in (0, 1))
    assert not set(one.query) & set(other.query)
    assert not np.any((one.counts.sum(axis=0) > 0) & (other.counts.sum(axis=0) > 0))
    assert set(text.windows(5, n_windows=60, seed=3).query) == set(one.query)


def test_a_stride_of_one_reads_every_position(text):
    assert sorted(
        place(text, query) for query in text.windows(5, n_windows=None, stride=1).query
    ) == list(range(5, 999))


def test_under_a_prior_a_token_counts_by_its_distance_from_the_query_the_nearest_first(text):
    prior = [-0.2, 0.3, -1.0, -0.5, -2.0]
    plain, weighted = text.windows(5, n_windows=None), text.windows(5, n_windows=None, prior=prior)
    np.testing.assert_array_equal(plain.query, weighted.query)
    for row, query in enumerate(weighted.query):
        tokens = weighted.counts[[row]].indices
        distance = np.array([place(text, query) - place(text, token) for token in tokens])
        assert sorted(distance) == [1, 2, 3, 4, 5]
        np.testing.assert_allclose(
            weighted.counts[[row]].data, np.exp(np.array(prior)[distance - 1] - 0.3), rtol=1e-14
        )
    level = text.windows(5, n_windows=None, prior=[3.0] * 5)
    assert abs(level.counts - plain.counts).max() == 0
    with pytest.raises(InputError, match="each of the 5 positions of a context; got 4"):
        text.windows(5, n_windows=None, prior=[0.0, 1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="prior"):
        text.windows(5, n_windows=None, prior=[0.0, 1.0, 2.0, 3.0, math.nan])


def test_windows_nobody_counted_are_as_many_as_the_text_has(text):
    assert set(text.windows(5).query) == set(text.windows(5, n_windows=None).query)
    assert len(text.windows().query) == (1000 - 18) // 18 + 1


def test_a_long_text_gives_forty_thousand_windows_unless_told_otherwise(text, monkeypatch):
    from saccade.data.text import windows

    monkeypatch.setattr(windows, "_USUAL", 37)
    one, other = (set(text.windows(5, sample=sample).query) for sample in (0, 1))
    assert len(one) == len(other) == 37
    assert not one & other


def test_more_windows_than_the_text_has_are_refused(text):
    with pytest.raises(
        InputError,
        match=r"too short: it has 142 windows with 5 .* `n_windows` asks for 40,000\. Lower `n_windows`",
    ):
        text.windows(5, n_windows=40_000)
    with pytest.raises(InputError, match="100 go to the samples before sample 1, which takes 100"):
        text.windows(5, n_windows=100, sample=1)
    with pytest.raises(InputError, match="n_windows"):
        text.windows(5, n_windows="all")


def test_endless_contexts_of_classes_are_the_classes():
    classes = saccade.SequenceClasses.syn_small()
    windows = saccade.data.Windows.of_classes(classes, n_context=math.inf)
    np.testing.assert_array_equal(windows.counts.toarray(), classes.token_prob)
    np.testing.assert_array_equal(windows.weight, classes.class_weight)


def test_drawn_contexts_have_their_length_and_the_law_of_their_class():
    classes = saccade.SequenceClasses.syn_small()
    windows = saccade.data.Windows.of_classes(classes, n_context=13, n_windows=20_000)
    assert set(windows.counts.sum(axis=1)) == {13}
    for n in range(classes.n_classes):
        mine = windows.next_token == classes.next_token[n]
        np.testing.assert_allclose(
            windows.counts[mine].mean(axis=0) / 13, classes.token_prob[n], atol=0.004
        )
