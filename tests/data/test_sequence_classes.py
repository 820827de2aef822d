"""The presets are the published ones, what is derived from P(l|n) is right, and bad classes are
refused with a lesson.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from saccade import InputError, SequenceClasses

THREE_CLASSES = np.array(
    [[0.5, 0.5, 0, 0, 0], [0.25, 0, 0.75, 0, 0], [0.125, 0, 0, 0.375, 0.5]]
)  # token 0 is common


def test_syn_small_has_the_published_probabilities():
    task = SequenceClasses.syn_small()
    rising = np.arange(1, 11) / 10 / 15.5
    for n in range(2):
        assert task.token_prob[n, :10] == pytest.approx(1 / 15.5, rel=1e-14)  # .0645, common
        assert task.token_prob[n, 10 + 10 * n : 20 + 10 * n] == pytest.approx(
            rising, rel=1e-14
        )  # .0065 ... .0645
        assert task.token_prob[n].sum() == pytest.approx(1, rel=1e-14)
        assert np.count_nonzero(task.token_prob[n]) == 20


def test_syn_small_counts_queries_and_next_tokens_in_its_vocabulary_of_34():
    task = SequenceClasses.syn_small()
    assert (task.n_vocab, task.n_classes, task.name) == (34, 2, "syn-small")
    assert task.query.tolist() == [30, 31]
    assert task.next_token.tolist() == [32, 33]
    assert task.class_weight.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("n_queries", "n_vocab"), [(1, 33), (3, 79), (5, 125), (10, 240)])
def test_syn_medium_has_two_classes_a_query_and_the_published_vocabulary(n_queries, n_vocab):
    task = SequenceClasses.syn_medium(n_queries)
    n_context_tokens = 10 + 20 * n_queries
    assert (task.n_vocab, task.n_classes, task.name) == (
        n_vocab,
        2 * n_queries,
        f"syn-medium-{n_queries}",
    )
    assert task.query.tolist() == [n_context_tokens + n // 2 for n in range(2 * n_queries)]
    assert task.next_token.tolist() == list(range(n_context_tokens + n_queries, n_vocab))
    for n in range(2 * n_queries):
        expected = np.zeros(n_vocab)
        expected[:10] = 1 / 15.5
        expected[10 + 10 * n : 20 + 10 * n] = np.arange(1, 11) / 155
        assert task.token_prob[n] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("n_queries", [0, -1, 1.5, math.nan, "3", True])
def test_syn_medium_refuses_what_is_not_a_count_of_queries(n_queries):
    with pytest.raises(InputError, match="`n_queries` must be a whole number of at least 1; got"):
        SequenceClasses.syn_medium(n_queries)


def test_a_preset_asked_for_with_a_whole_float_has_the_same_name():
    assert SequenceClasses.syn_medium(3.0).name == "syn-medium-3"


def test_tokens_of_one_class_are_distinct_and_tokens_of_several_are_common():
    task = SequenceClasses(THREE_CLASSES)
    assert task.classes_of_token.tolist() == [3, 1, 1, 1, 1, 0, 0, 0, 0]
    assert np.flatnonzero(task.common).tolist() == [0]
    assert [np.flatnonzero(row).tolist() for row in task.distinct] == [[1], [2], [3, 4]]


def test_by_default_one_new_query_then_new_next_tokens_and_equal_weights():
    task = SequenceClasses(THREE_CLASSES)
    assert task.query.tolist() == [5, 5, 5]
    assert task.next_token.tolist() == [6, 7, 8]
    assert task.n_vocab == 9
    assert task.class_weight == pytest.approx([1 / 3] * 3)
    assert task.labels == tuple("012345678")
    assert np.array_equal(task.token_prob[:, :5], THREE_CLASSES)
    assert not task.token_prob[:, 5:].any()


def test_new_next_tokens_follow_the_given_queries():
    assert SequenceClasses(THREE_CLASSES, query=[2, 11, 2]).next_token.tolist() == [12, 13, 14]
    assert SequenceClasses(THREE_CLASSES, query=[0, 1, 2]).next_token.tolist() == [5, 6, 7]


def test_a_larger_vocabulary_is_filled_up_with_tokens_that_never_occur():
    task = SequenceClasses(THREE_CLASSES, n_vocab=13)
    assert task.token_prob.shape == (3, 13)
    assert not task.token_prob[:, 5:].any()


def test_class_weights_are_rescaled_to_sum_to_one():
    assert SequenceClasses(THREE_CLASSES, class_weight=[1, 2, 5]).class_weight == pytest.approx(
        [1 / 8, 2 / 8, 5 / 8]
    )


def test_arrays_are_read_only_and_the_callers_stay_as_they_were():
    given = THREE_CLASSES.copy()
    query, weight = np.array([0, 1, 2]), np.array([2.0, 3.0, 5.0])
    task = SequenceClasses(given, query=query, class_weight=weight)
    for name in ("token_prob", "query", "next_token", "class_weight"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(task, name)[...] = 0
    given[0, 0], query[0], weight[0] = 7, 7, 7  # still writable, and not seen by the task
    assert (task.token_prob[0, 0], task.query[0], task.class_weight[0]) == (0.5, 0, 0.2)


def test_normalise_rescales_each_class_by_itself():
    task = SequenceClasses([[1, 3, 0], [0, 2, 5]], normalise=True)
    assert task.token_prob[:, :3] == pytest.approx(np.array([[1 / 4, 3 / 4, 0], [0, 2 / 7, 5 / 7]]))


def test_six_typed_decimals_are_near_enough_to_one_and_then_made_exact():
    task = SequenceClasses([[0.333333, 0.333333, 0.333333]])
    assert task.token_prob.sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300, 8e307])
def test_normalise_works_at_any_scale(scale):
    task = SequenceClasses([[scale, 2 * scale]], normalise=True, class_weight=[scale])
    assert task.token_prob[0, :2] == pytest.approx(
        [1 / 3, 2 / 3], rel=1e-3
    )  # 1e-320 has three digits
    assert task.class_weight == pytest.approx([1])


@pytest.mark.parametrize(
    ("token_prob", "sentence"),
    [
        (
            [[0.5, 0.5], [1.5, -0.5]],
            "`token_prob` must not be negative; class 1 gives token 1 -0.5",
        ),
        (
            [[0.5, 0.5], [0.5, 0.25]],
            r"`token_prob` must sum to 1 .* class 1 sums to 0.75. Divide each row by its sum",
        ),
        (
            [[0.5, 0.5], [0.0, 0.0]],
            "`token_prob` must give every class at least one token; class 1 has none",
        ),
        ([[0.5, math.nan]], "`token_prob` must be finite; it contains NaN or infinity"),
        (
            [["half", "half"]],
            r"`token_prob` must be an array of numbers with 2 axes; got \[\['half', 'half'\]\]",
        ),
        ([[0.5, 0.5], [1.0]], "`token_prob` must be an array of numbers with 2 axes"),
        ([[1j, 1]], "`token_prob` must be an array of numbers"),
        ([[10**400, 1]], "`token_prob` must be"),
        ([0.5, 0.5], r"`token_prob` must have 2 axes; got an array of shape \(2,\)"),
        (
            np.full((2, 3, 5), 0.2),
            r"`token_prob` must have 2 axes; got an array of shape \(2, 3, 5\)",
        ),
        ([[], []], r"`token_prob` needs at least one class and one token; its shape is \(2, 0\)"),
        (
            np.empty((0, 3)),
            r"`token_prob` needs at least one class and one token; its shape is \(0, 3\)",
        ),
        (None, "`token_prob` must"),
    ],
)
def test_token_probabilities_that_cannot_be_used_are_refused(token_prob, sentence):
    with pytest.raises(InputError, match=sentence):
        SequenceClasses(token_prob)


def test_normalise_does_not_excuse_negative_or_empty_classes():
    with pytest.raises(InputError, match="must not be negative"):
        SequenceClasses([[2, -1]], normalise=True)
    with pytest.raises(InputError, match="class 0 has none"):
        SequenceClasses([[0, 0]], normalise=True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"query": [0, 1]}, "`query` must have one token for each of the 3 classes; got 2"),
        ({"query": [0, 1, -1]}, "`query` must hold token ids: whole numbers from 0 on; got"),
        ({"query": [0, 1, 2**40]}, "`query` must hold token ids"),
        ({"query": [0, 1, 10**400]}, "`query` must"),
        ({"query": [0, 1, math.nan]}, "`query` must be finite"),
        ({"query": ["a", "b", "c"]}, "`query` must be an array of numbers"),
        ({"query": [[0, 1, 2]]}, r"`query` must have 1 axes; got an array of shape \(1, 3\)"),
        (
            {"next_token": [6, 7]},
            "`next_token` must have one token for each of the 3 classes; got 2",
        ),
        ({"next_token": [6, 7, 6]}, "`next_token` must be different for every class"),
        ({"next_token": [6, 7, 8.5]}, "`next_token` must hold token ids"),
        ({"n_vocab": 8}, "`n_vocab` is 8, but the named tokens need a vocabulary of at least 9"),
        ({"n_vocab": 11.5}, "`n_vocab` must be a whole number of at least 1; got 11.5"),
        ({"n_vocab": 10**400}, "`n_vocab` must"),
        (
            {"class_weight": [1, 2]},
            "`class_weight` must have one weight for each of the 3 classes; got 2",
        ),
        (
            {"class_weight": [1, 2, 0]},
            "`class_weight` must be positive: leave out a class that is never drawn",
        ),
        ({"class_weight": [1, 2, math.nan]}, "`class_weight` must be finite"),
        ({"class_weight": 1.0}, "`class_weight` must have 1 axes"),
        (
            {"token_names": ("a", "b")},
            "`token_names` must name all 9 tokens of the vocabulary; got 2",
        ),
        ({"token_names": 9}, "`token_names` must"),
    ],
)
def test_ids_weights_and_names_that_cannot_be_used_are_refused(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        SequenceClasses(THREE_CLASSES, **arguments)


def test_token_names_may_come_as_an_array():
    assert SequenceClasses([[1.0]], token_names=np.array(["x", "q", "n"])).labels == ("x", "q", "n")


@pytest.mark.parametrize(
    "arguments", [{"n_vocab": 10**15}, {"query": [2**31]}, {"next_token": [2**31]}]
)
def test_a_vocabulary_beyond_any_memory_is_refused_before_it_is_tried(arguments, monkeypatch):
    def out_of_memory(*_args, **_kwargs):
        raise MemoryError("a vocabulary this large was about to be allocated")

    monkeypatch.setattr(
        np, "pad", out_of_memory
    )  # else 2**31 tokens may in fact be granted, 17 GB of them
    name = next(iter(arguments))
    with pytest.raises(InputError, match=f"`{name}`|`n_vocab`"):
        SequenceClasses([[1.0]], **arguments)


def test_a_vocabulary_of_one_token_has_nothing_to_predict():
    with pytest.raises(
        InputError,
        match="`n_vocab` must be at least 2: with a single token there is nothing to predict",
    ):
        SequenceClasses([[1.0]], query=[0], next_token=[0])
