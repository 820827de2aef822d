"""Who wins among distinct tokens: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from saccade.experiments.scan_and_snap.relative_gain import (
    EXPERIMENT,
    flow_leads,
    order_correlation,
)
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("relative-gain")


def claims_of(record, words=""):
    return [
        claim for claim in EXPERIMENT.claims(record) if words in claim.title and not claim.breaks
    ]


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    counts = [
        sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS, OUTSIDE)
    ]
    assert counts == [9, 4, 2]


def test_the_lead_over_a_common_token_breaks_the_relation(record):
    claims = list(EXPERIMENT.claims(record))
    (control,) = (
        claim for claim in claims if claim.breaks == "both tokens are distinct, of one class"
    )
    assert (control.title, control.verdict) == (claims[0].title, FAILS)


def test_rank_correlation_is_spearmans():
    values = np.random.default_rng(0).normal(size=(5, 7))
    expected = [spearmanr(row, np.arange(7)).statistic for row in values]
    np.testing.assert_allclose(order_correlation(values), expected, atol=1e-12)


def test_frequent_distinct_tokens_gain_attention_faster_than_rare_ones(record):
    for c in flow_leads(record):
        assert np.all(np.diff(c.prob) > 0)
        assert np.all(np.diff(c.logits[1:], axis=1) > 0)


def test_rare_tokens_gaining_faster_would_confirm_the_public_summary(record):
    """Each distinct token gets the logit of its mirror image in frequency."""
    z = record.flow_logits.copy(deep=True)
    for n in range(3):
        own = slice(1 + 5 * n, 6 + 5 * n)
        z[:, n, own] = z[:, n, own].values[:, ::-1]
    (order,) = claims_of(record.assign(flow_logits=z), "rank correlation of attention gained")
    assert order.verdict == FAILS
    assert order.measured == pytest.approx(order.relation.printed, abs=order.relation.within)


def test_a_logit_one_part_in_a_million_off_breaks_the_relation_but_not_the_order(record):
    z = record.flow_logits.copy(deep=True)
    z[:, 1, 9] *= 1 + 1e-6
    claims = claims_of(record.assign(flow_logits=z))
    assert [claim.verdict for claim in claims[:4]] == [FAILS, FAILS, HOLDS, HOLDS]
    assert claims[-2].verdict == HOLDS


def test_growth_beyond_the_bounds_is_seen(record):
    (bounds,) = claims_of(record.assign(flow_logits=0.5 * record.flow_logits), "bounds")
    assert bounds.verdict == FAILS


def test_one_disordered_seed_is_seen(record):
    z = record.sgd_logits.copy(deep=True)
    z[3, 0, 10:20] = z[3, 0, 10:20].values[::-1]
    last = claims_of(record.assign(sgd_logits=z))[-1]
    assert (last.verdict, last.measured) == (FAILS, 1)


def test_descent_that_does_not_lag_or_lags_more_is_seen(record):
    more = record.descent_logits.copy(deep=True)
    more[:, :, :, 10:29] += 0.05
    claims = claims_of(record.assign(descent_logits=more), "lag")
    assert [claim.verdict for claim in claims] == [FAILS, OUTSIDE, FAILS, OUTSIDE, FAILS]


def test_the_table_shows_how_much_of_the_growth_is_missing_and_the_figure_has_three_panels(record):
    rows = EXPERIMENT.rows(record)
    assert len({tuple(row) for row in rows}) == 1
    least = {
        case: min(
            row["growth_share"]
            for row in rows
            if row["case"] == case and row["growth_share"] is not None
        )
        for case in {row["case"] for row in rows if row["case"].startswith("descent")}
    }
    assert (
        least["descent, ratio 100"]
        > 0.9
        > least["descent, ratio 10"]
        > 0.5
        > least["descent, ratio 1"]
    )
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_attention_of_the_flow_is_what_theorem_3_makes_of_the_most_frequent_token(record):
    told, seen = record.told_attention.values, record.flow_attention.values
    distinct = np.isfinite(told[0])
    assert distinct.sum() == 15  # five of each class; of common tokens it says nothing
    assert np.abs(told - seen)[:, distinct].max() < 1e-8
    np.testing.assert_allclose(seen.sum(axis=-1), 1)
