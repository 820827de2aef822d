"""Who gained on whom: against counting by hand, and no better than chance where there is nothing to
find.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from saccade.errors import InputError
from saccade.experiments.real_text import token_fates as fates
from saccade.experiments.real_text.token_groups import N_NEXT, STRATUM, Text, TokenGroups
from saccade.measures.fits import separation

N_TOKENS = 211


@pytest.fixture
def groups():
    """Two queries; twelve distinct tokens of two next tokens each, thirty common ones."""
    rng = np.random.default_rng(5)
    frequency = rng.dirichlet(np.ones(N_TOKENS), size=2)
    own, common = np.full((2, N_TOKENS), -1), np.zeros((2, N_TOKENS), bool)
    for query in range(2):
        chosen = rng.permutation(N_TOKENS)
        own[query, chosen[:7]], own[query, chosen[7:12]] = 0, 1
        common[query, chosen[12:42]] = True
    return TokenGroups(np.array([3, 5]), frequency, own, np.where(own >= 0, frequency, 0.0), common)


def noise(seeds=3, seed=0):
    return np.random.default_rng(seed).normal(size=(seeds, 2, N_TOKENS))


def test_the_share_of_common_tokens_gained_on_is_the_separation_of_both_groups(groups):
    gain = noise()
    by_hand = [
        np.mean([separation(g[q][groups.distinct[q]], g[q][groups.common[q]]) for q in range(2)])
        for g in gain
    ]
    np.testing.assert_allclose(fates.share_outgained(gain, groups), by_hand)


def test_the_matched_share_compares_with_tokens_of_the_same_stratum_only(groups):
    gain, strata, shares = noise(seeds=1), groups.strata, []
    for query, token in zip(*np.nonzero(groups.distinct), strict=True):
        alike = (strata[query] == strata[query, token]) & ~groups.distinct[query]
        shares.append(np.mean(gain[0, query, token] > gain[0, query, alike]))
    assert fates.share_outgained(gain, groups, matched=True)[0] == pytest.approx(np.mean(shares))


def test_a_gain_that_follows_frequency_alone_separates_groups_but_not_equally_frequent_tokens():
    """The confound: distinct tokens are frequent here, so the plain share is 1; within strata it is
    near 1/2.
    """
    frequency = np.linspace(2.0, 1.0, 400)[None] / 600
    own = np.full((1, 400), -1)
    own[0, :200:2] = 0
    common = np.zeros((1, 400), bool)
    common[0, 200:] = True
    groups = TokenGroups(np.array([0]), frequency, own, np.where(own >= 0, frequency, 0.0), common)
    gain = frequency[None]
    assert fates.share_outgained(gain, groups)[0] == 1
    assert fates.share_outgained(gain, groups, matched=True)[0] == pytest.approx(
        0.5, abs=1 / STRATUM + 1e-9
    )


def test_noise_stays_below_what_chance_allows_and_a_real_gain_does_not(groups):
    gains = [noise(1, seed) for seed in range(40)]
    passed = [
        fates.share_outgained(gain, groups, matched=True)[0]
        > fates.share_by_chance(gain, groups, matched=True)
        for gain in gains
    ]
    assert sum(passed) <= 5  # one in forty is expected
    lifted = noise() + 2.0 * groups.distinct
    assert (
        fates.share_outgained(lifted, groups) > fates.share_by_chance(lifted, groups, matched=False)
    ).all()
    assert (
        fates.share_outgained(lifted, groups, matched=True)
        > fates.share_by_chance(lifted, groups, matched=True)
    ).all()


def test_the_order_among_distinct_tokens_is_spearmans_mean_over_next_tokens(groups):
    gain, found = noise(seeds=2), []
    for of_seed in gain:
        rho = []
        for query in range(2):
            for number in range(2):
                at = groups.own[query] == number
                rho.append(
                    stats.spearmanr(of_seed[query, at], groups.frequency[query, at]).statistic
                )
        found.append(np.mean(rho))
    order = fates.frequency_order(gain, groups)
    np.testing.assert_allclose(order, found)
    assert fates.frequency_order(groups.frequency[None], groups)[0] == pytest.approx(1)


def test_repetitions_with_more_noise_agree_less_in_every_unit(groups):
    signal = np.random.default_rng(3).normal(size=(2, N_TOKENS))
    calm, wild = (signal + size * noise(seeds=4) for size in (0.01, 3.0))
    for measure, chance in (
        (fates.gain_agreement, 0),
        (fates.order_agreement, 0),
        (fates.pair_agreement, 0.5),
    ):
        assert measure(calm, groups) > 0.95
        assert chance - 0.15 < measure(wild, groups) < 0.7
    assert fates.pair_agreement(calm, groups, matched=True) > 0.95
    assert fates.frequency_following(groups.frequency[None], groups)[0] == pytest.approx(1)


def test_groups_come_from_the_counts_of_the_text():
    text = Text("sotu", 300, 3, 7)
    found, corpus = text.groups, text.corpus
    assert "<unk>" not in [corpus.vocabulary[number] for number in text.queries]
    assert not (found.distinct & found.common).any()
    for row, query in enumerate(found.queries):
        law = corpus.context_law(int(query), window=7, n_next=N_NEXT)
        np.testing.assert_array_equal(found.distinct[row], law.distinct().any(axis=0))
        np.testing.assert_array_equal(found.common[row], law.common())
        for token in np.flatnonzero(found.distinct[row]):
            assert found.own_share[row, token] == law.context[found.own[row, token], token]
    assert found.frequency.sum(axis=1) == pytest.approx(1)


def test_strata_hold_equally_frequent_tokens(groups):
    for strata, frequency in zip(groups.strata, groups.frequency, strict=True):
        assert np.bincount(strata)[:-1].tolist() == [STRATUM] * (N_TOKENS // STRATUM)
        assert frequency[strata == 0].min() >= frequency[strata == 1].max()


def test_a_text_without_distinct_tokens_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "even.txt"
    path.write_text("a b " * 400, encoding="utf-8")
    with pytest.raises(InputError, match="distinct"):
        assert Text(str(path), 500, 1, 3).groups
