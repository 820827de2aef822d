"""What is measured along a flow, against curves and flows whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.snap_growth import (
    entropy_at,
    exponent,
    fates,
    growth,
    leader,
    one_common_token,
    onset,
)
from saccade.theory import scan_and_snap as theory
from tests.experiments.default_runs import record_of

TASK = {"n_classes": 3, "common_feature": 0.3, "n_distinct": 5, "n_vocab": 211}


@pytest.fixture(scope="module")
def record():
    task = one_common_token(**TASK)
    return saccade.reduced_flow(
        task, t1=1e8, n_times=120, lr_attention=30.0, keep=("attention_logits",)
    )


def test_classes_overlap_by_the_square_of_the_common_feature():
    overlap = theory.class_overlap(theory.normalised_feature(one_common_token(**TASK).token_prob))
    np.testing.assert_allclose(overlap[~np.eye(3, dtype=bool)], 0.09, rtol=1e-12)


def test_leader_is_the_most_frequent_distinct_token_and_missing_without_one():
    assert leader(np.array([[0.5, 0.2, 0.3, 0.0], [0.5, 0.0, 0.0, 0.5]]))[:2] == (1, 3)
    assert leader(np.array([[0.5, 0.5], [0.4, 0.6]])) is None


def test_log_growth_is_the_integral_of_the_drive(record):
    """xi from the record's decoder logits and Theorem 1, not from the logits that log growth is
    read from.
    """
    K, M = TASK["n_classes"], TASK["n_vocab"]
    attention = theory.limit_attention(
        record.token_prob.values, record.attention_logits.values[:, [0] * K]
    )
    height = record.own_logit.values[:, 0] / (M - 1)
    speed = theory.speed_at_height(height, n_vocab=M)
    drive = []
    for at, gamma in zip(attention, speed, strict=True):
        overlap = theory.class_overlap(theory.normalised_feature(at))
        other = theory.backprop_coefficients(theory.class_coupling(overlap), n_vocab=M).other
        drive.append(theory.class_drive(overlap, other, speed=gamma)[0])
    t = record.time.values[1:]
    in_log_time = t * 30.0 / K * np.array(drive)[1:]
    expected = np.append(
        0.0, np.cumsum(0.5 * (in_log_time[1:] + in_log_time[:-1]) * np.diff(np.log(t)))
    )
    measured = growth(record).log_growth[1:]
    np.testing.assert_allclose(measured[1:] - measured[0], expected[1:], rtol=0.02)


def test_entropy_follows_from_log_growth_alone(record):
    found = growth(record)
    predicted = entropy_at(found.log_growth, record.token_prob.values)
    np.testing.assert_allclose(predicted, found.distinct_entropy, atol=2e-5)


def test_fates_of_the_theory_s_flow(record):
    assert fates(record)[:3] == ([], [], [])
    assert fates(record).gain_error < 1e-7


def test_fates_notice_what_theory_forbids(record):
    turned = record.assign(attention_logits=-record.attention_logits)
    found = fates(turned)
    assert found.falling_distinct == [(n, 1 + 5 * n + i) for n in range(3) for i in range(5)]
    assert found.rising_common == [(0, 0)]
    assert sorted(found.out_of_order)[:10] == [(0, 1)] * 4 + [(0, 2)] * 3 + [(0, 3)] * 2 + [(0, 4)]
    assert len(found.out_of_order) == 3 * 10
    assert found.gain_error > 0.1


def test_exponent_of_a_power_of_the_logarithm_and_its_onset():
    t = np.geomspace(1e-2, 1e8, 2001)
    bent = np.log1p(t) - np.log1p(
        t / 100
    )  # exponent t/(1+t) - t/(100+t): half its peak of 9/11 at t = 140.4
    peak = 9 / 11
    roots = np.roots([peak / 2, 101 * peak / 2 - 99, 50 * peak])
    assert exponent(bent, t).max() == pytest.approx(peak, rel=1e-3)
    assert onset(bent, t) == pytest.approx(roots.max(), rel=1e-3)
    assert np.isnan(onset(np.log1p(t), t))


def test_a_user_s_several_queries_are_each_read_in_their_own_row():
    prob = [[0.4, 0.6, 0.0], [0.5, 0.0, 0.5]]
    task = saccade.SequenceClasses(prob, query=[3, 4], next_token=[5, 6], n_vocab=11)
    record = saccade.reduced_flow(task, t1=1e3, n_times=40, keep=("attention_logits",))
    rows = record.attention_logits.sel(query=[3, 4]).isel(time=-1, token=[0, 1, 2]).values
    assert isinstance(record, xr.Dataset)
    assert rows[0, 2] == rows[1, 1] == 0
    assert growth(record).top_logit[-1] == rows[0, 1]
    assert fates(record).rising_common == []


def test_bars_of_attention_are_whole_and_near_those_of_theory():
    base = record_of("scan-then-snap").isel(case=0)
    np.testing.assert_allclose(base.attention.sum("own_token"), 1)
    assert base.own_token.values.tolist() == ["common", "d1", "d2", "d3", "d4"]
    assert np.abs(base.attention - base.theory_attention).max() < 0.01
    assert (
        float(base.attention[0, 0] - base.attention[-1, 0]) > 0.08
    )  # the common token has lost what there was to lose
