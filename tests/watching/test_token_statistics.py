from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy.special import digamma

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError
from saccade.watching import token_statistics
from saccade.watching.token_statistics import (
    LARGEST_SCATTER,
    LEAST_COUNT,
    TokenStatistics,
    entropy_of_samples,
    frequency_deciles,
)

DISTINCT, COMMON = 0.5, 0.1  # as in attention_statistics.py, which needs PyTorch


def zipf(n):
    law = 1 / np.arange(1, n + 1)
    return law / law.sum()


def informative(statistics, ids):
    return np.stack(list(statistics.informative_by_sequence(ids)))


def told(statistics, key, query):
    return informative(statistics, [[key, query]])[0, 1, 0]


def of_pairs(rng, law, keys, n_each):
    """Documents (key, query, next): each key comes `n_each` times with the query 0, and the next
    token ignores it.
    """
    key = np.repeat(keys, n_each)
    return np.column_stack(
        [key, np.zeros_like(key), 1 + rng.choice(len(law), size=len(key), p=law)]
    )


def test_h_n_is_the_mean_over_all_choices_of_n_samples():
    counts = np.array([5, 3, 1, 1, 1])
    outcomes = np.repeat(np.arange(len(counts)), counts)
    for size in (2, 3, 5, 7, 11):
        chosen = [np.bincount(choice) for choice in itertools.combinations(outcomes, size)]
        estimates = [digamma(size) - (c * digamma(np.maximum(c, 1))).sum() / size for c in chosen]
        np.testing.assert_allclose(
            entropy_of_samples(counts, np.array([size]))[0], np.mean(estimates), rtol=1e-12
        )


def test_h_n_of_many_counts_is_the_series_and_rises_to_the_entropy():
    law = zipf(13)
    sizes = np.array([1, 2, 17, 5000])
    h_n, _ = entropy_of_samples(np.round(law * 10**8).astype(int), sizes)
    v = np.arange(1, 17)
    np.testing.assert_allclose(
        h_n[:3],
        [0, (law * (1 - law)).sum(), (law[:, None] * (1 - law[:, None]) ** v / v).sum()],
        rtol=1e-6,
    )
    np.testing.assert_allclose(h_n[3], -(law * np.log(law)).sum(), rtol=1e-6)


def counted_by_hand(documents, window, query, key):
    """N and one less H_N over H_N, straight from the definitions; the sums as Zhang wrote them."""
    alone, together = {}, {}
    for document in documents:
        for t in range(len(document) - 1):
            if document[t] == query:
                following = document[t + 1]
                alone[following] = alone.get(following, 0) + 1
                if key in document[max(0, t - window) : t]:
                    together[following] = together.get(following, 0) + 1
    size = sum(together.values())

    def h(counts):
        total = sum(counts.values())
        terms = (
            n / total * math.prod((total - n - j + 1) / (total - j) for j in range(1, v + 1)) / v
            for n in counts.values()
            for v in range(1, size)
            if v <= total - n
        )
        return sum(terms)

    return size, 1 - h(together) / h(alone)


def test_pairs_are_counted_once_a_window_and_within_documents():
    rng, window, n_vocab = np.random.default_rng(0), 3, 5
    documents = [
        rng.choice(n_vocab, size=n, p=[0.5, 0.2, 0.15, 0.1, 0.05]) for n in (1, 2, 211, 307, 89)
    ]
    documents[2][1::2] = documents[2][:-1:2]  # so that some keys tell
    found = TokenStatistics.count(documents, window=window)
    n_known = 0
    for query, key in itertools.product(range(n_vocab), repeat=2):
        size, expected = counted_by_hand(
            [document.tolist() for document in documents], window, query, key
        )
        value = told(found, key, query)
        n_known += not np.isnan(value)
        assert np.isnan(value) or size >= LEAST_COUNT
        assert np.isnan(value) or value == pytest.approx(np.clip(expected, 0, 1), abs=1e-6)
    assert n_known >= 5
    assert not np.isnan(told(found, 0, 0))  # an earlier copy of the query is a key like any other


@pytest.mark.parametrize(
    "law",
    [
        np.full(2, 1 / 2),
        np.full(31, 1 / 31),
        np.array([0.8, 0.2]),
        zipf(47),
        zipf(5003),
        np.append(0.5, np.full(199, 0.5 / 199)),
    ],
    ids=["coin", "even", "skewed coin", "zipf", "long zipf", "one of many"],
)
def test_keys_that_are_independent_of_the_next_token_come_out_near_zero_however_rare(law):
    sizes = np.arange(LEAST_COUNT, 1000)
    h_n, variance = entropy_of_samples(np.round(law * 10**7).astype(int), sizes)
    smallest = int(sizes[(np.sqrt(variance / sizes) / h_n <= 0.95 * LARGEST_SCATTER).argmax()])
    keys = np.arange(
        6000, 6000 + min(401, 2**16 // smallest)
    )  # no more occurrences of the query than are used
    found = TokenStatistics.count(of_pairs(np.random.default_rng(1), law, keys, smallest))
    values = informative(found, np.column_stack([keys, np.zeros_like(keys)]))[:, 1, 0]
    known = values[~np.isnan(values)]
    assert len(known) > 0.9 * len(keys)
    assert known.max() < DISTINCT
    assert (known > COMMON).mean() < 0.1
    # Cutting at 0 leaves the upper half of the scatter: the root mean square is then at most the
    # standard deviation over root two.
    assert np.sqrt((known**2).mean()) < 0.08 / np.sqrt(2)


def test_a_key_that_fixes_the_next_token_comes_out_at_one_and_too_rare_a_pair_is_unknown():
    rng = np.random.default_rng(3)
    independent = of_pairs(rng, np.full(7, 1 / 7), np.arange(10, 17), 101)
    enough, too_few = (
        np.tile([key, 0, 4], (n, 1)) for key, n in ((20, LEAST_COUNT), (21, LEAST_COUNT - 1))
    )
    found = TokenStatistics.count(np.concatenate([independent, enough, too_few]))
    assert told(found, 20, 0) == 1
    assert np.isnan(told(found, 21, 0))


def test_a_skewed_query_is_unknown_where_chance_alone_would_make_its_next_token_look_fixed():
    rng = np.random.default_rng(5)
    keys = np.arange(10, 111)
    documents = of_pairs(rng, np.array([0.95, 0.05]), keys, LEAST_COUNT)
    fixed_by_chance = [len(set(documents[documents[:, 0] == key, 2])) == 1 for key in keys]
    assert sum(fixed_by_chance) > 5
    assert np.isnan(
        informative(TokenStatistics.count(documents), np.column_stack([keys, np.zeros_like(keys)]))[
            :, 1, 0
        ]
    ).all()


def sequences_of(task, rng, n_sequences, n_context):
    kind = rng.choice(task.n_classes, size=n_sequences, p=task.class_weight)
    context = np.stack(
        [rng.choice(task.n_vocab, size=n_context, p=task.token_prob[n]) for n in kind]
    )
    return kind, np.column_stack([context, task.query[kind], task.next_token[kind]])


def test_distinct_tokens_of_scan_and_snap_come_out_distinct_and_common_ones_common():
    task, rng = SequenceClasses.syn_medium(2), np.random.default_rng(6)
    _, text = sequences_of(task, rng, 4001, n_context=23)
    kind, probe = sequences_of(task, rng, 29, n_context=23)
    value = informative(TokenStatistics.count(text), probe)[:, 23, :23]
    context = probe[:, :23]
    distinct = np.take_along_axis(task.distinct[kind], context, axis=1)
    assert distinct.any()
    assert not np.isnan(value).any()
    assert (value[distinct] >= DISTINCT).all()
    assert (value[task.common[context]] <= COMMON).all()


def test_where_a_query_has_one_next_token_there_is_nothing_to_tell():
    task, rng = SequenceClasses.syn_small(), np.random.default_rng(7)
    _, text = sequences_of(task, rng, 503, n_context=11)
    assert np.isnan(informative(TokenStatistics.count(text), text[:3])[:, 11]).all()


def test_later_keys_and_tokens_outside_the_vocabulary_are_unknown_and_the_query_tells_nothing_of_itself():
    ids = np.random.default_rng(8).choice(
        5, size=(4001, 3)
    )  # at the start of each document there is no key
    found = informative(TokenStatistics.count(ids, window=1), [[1, 3, -100, 0, 7, 2]])[0]
    known = ~np.isnan(found)
    assert not np.triu(known, 1).any()
    assert not known[[2, 4]].any()
    assert not known[:, [2, 4]].any()
    np.testing.assert_allclose(np.diag(found)[[0, 1, 3, 5]], 0, atol=1e-12)
    assert known[5, [0, 1, 3]].all()


def test_deciles_hold_a_tenth_of_the_text_each_and_rise_with_frequency():
    counts = np.round(zipf(5003) * 10**6).astype(int)
    shuffled = np.random.default_rng(9).permutation(np.append(counts, np.zeros(7, int)))
    decile = frequency_deciles(shuffled)
    share = np.array([shuffled[decile == number].sum() for number in range(10)]) / shuffled.sum()
    np.testing.assert_allclose(share, 0.1, atol=0.07)
    assert ((decile == -1) == (shuffled == 0)).all()
    by_frequency = np.lexsort((-np.arange(len(shuffled)), shuffled))
    assert (np.diff(decile[by_frequency]) >= 0).all()


@pytest.mark.parametrize(
    "counts, expected",
    [
        (np.full(20, 3), np.repeat(np.arange(9, -1, -1), 2)),
        (
            [10**6, *[1] * 9],
            np.arange(9, -1, -1),
        ),  # one token is nearly all of the text, and none of the deciles is empty
        ([1, 2, 3], [7, 8, 9]),
        ([0, 5, 0], [-1, 9, -1]),
    ],
)
def test_no_decile_is_empty_if_there_are_ten_tokens(counts, expected):
    np.testing.assert_array_equal(frequency_deciles(np.array(counts)), expected)


def test_frequency_is_the_share_of_the_text_and_the_vocabulary_covers_the_probe():
    found = TokenStatistics.count([[2, 2], [0], [], [2]], probe_ids=[[4, -100]])
    np.testing.assert_array_equal(found.frequency, [0.25, 0, 0.75, 0, 0])
    assert TokenStatistics.count([1, 1, 0]).n_vocab == 2
    assert TokenStatistics.count(np.array([1, 1, 0]), n_vocab=7).n_vocab == 7


def test_of_a_very_frequent_query_evenly_spaced_occurrences_are_used(monkeypatch):
    monkeypatch.setattr(token_statistics, "_MOST_KEYS", 500 * 7)
    ids = np.tile(
        [3, 0, 1, 4, 0, 2], 5003
    )  # 3 or 4 two places before the next token, which it fixes
    found = TokenStatistics.count(ids, window=7)
    at = found.text.occurrences(0, 500)
    assert len(at) == 500
    assert np.diff(at).min() > 0
    assert at[-1] > 0.99 * len(ids)
    assert told(TokenStatistics.count(ids, window=1), 3, 0) == 1
    assert told(found, 3, 0) == pytest.approx(0, abs=0.01)  # both are in every longer window


def test_memory_is_bounded_whatever_the_text():
    rng = np.random.default_rng(10)
    found = TokenStatistics.count(
        rng.choice(1009, size=600_011, p=np.append(0.5, np.full(1008, 0.5 / 1008)))
    )
    tracemalloc.start()
    informative(found, rng.choice(1009, size=(2, 31)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * token_statistics._MOST_KEYS


@pytest.mark.parametrize(
    "ids", [[], [[]], [0.5, 1.0], [[1, 2], [3.5]], [0, -100], "text", [[[1]]], [2**40], [[1], "a"]]
)
def test_what_is_not_token_ids_is_refused(ids):
    with pytest.raises(InputError, match="`ids`"):
        TokenStatistics.count(ids)


def test_a_probe_or_vocabulary_that_does_not_fit_is_refused():
    found = TokenStatistics.count([0, 1, 2])
    with pytest.raises(InputError, match="hold token 2"):
        TokenStatistics.count([0, 1, 2], n_vocab=2)
    with pytest.raises(InputError, match="window"):
        TokenStatistics.count([0, 1, 2], window=0)
    for probe in ([1, 2], [[]], [[0.5]]):
        with pytest.raises(InputError, match="`ids`"):
            informative(found, probe)
