"""What is measured along a flow, against curves and flows whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.experiments.scan_and_snap.snap_growth import (
    GAIN,
    LOSE,
    ORDER,
    against_theorem_2,
    attention_at,
    growth_of,
    leader_of,
    one_common_token,
)
from saccade.theories import scan_and_snap as theory

SHAPE = {"n_classes": 3, "common_feature": 0.3, "n_distinct": 5, "n_vocab": 211}
TASK = one_common_token(**SHAPE)


@pytest.fixture(scope="module")
def record():
    options = {"t1": 1e8, "n_times": 120, "lr_attention": 30.0, "keep": ("attention_logits",)}
    return saccade.reduced_flow(TASK, **options)


def test_classes_overlap_by_the_square_of_the_common_feature():
    overlap = theory.class_overlap(theory.normalised_feature(TASK.token_prob))
    np.testing.assert_allclose(overlap[~np.eye(3, dtype=bool)], 0.09, rtol=1e-12)


def test_leader_is_the_most_frequent_distinct_token_and_missing_without_one():
    prob = np.array([[0.5, 0.2, 0.3, 0.0], [0.5, 0.0, 0.0, 0.5]])
    assert leader_of(saccade.SequenceClasses(prob))[:2] == (1, 3)
    assert leader_of(saccade.SequenceClasses(np.array([[0.5, 0.5], [0.4, 0.6]]))) is None


def test_log_growth_is_the_integral_of_the_drive(record):
    """xi from the record's decoder logits and Theorem 1, not from the logits that log growth is
    read from.
    """
    K, M = TASK.n_classes, TASK.n_vocab
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
    measured = growth_of(record, TASK).measured
    np.testing.assert_allclose(measured[1:] - measured[0], expected[1:], rtol=0.02)


def test_attention_follows_from_log_growth_alone(record):
    found = growth_of(record, TASK)
    predicted = attention_at(found.measured, found.leader, TASK.n_classes)
    np.testing.assert_allclose(predicted, found.attention[1:], atol=2e-5)


def test_a_flow_that_goes_the_wrong_way_or_rests_contradicts_theorem_2(record):
    assert set(map(len, against_theorem_2(record, TASK).values())) == {0}
    turned = record.assign(attention_logits=-record.attention_logits)
    found = against_theorem_2(turned, TASK)
    assert found[GAIN] == [[n, 1 + 5 * n + i] for n in range(3) for i in range(5)]
    assert found[LOSE] == [[n, 0] for n in range(3)]
    overtaken = [token for row, token in sorted(found[ORDER]) if row == 0]
    assert overtaken == [1] * 4 + [2] * 3 + [3] * 2 + [4]
    still = against_theorem_2(record.assign(attention_logits=0 * record.attention_logits), TASK)
    assert [len(still[rule]) for rule in (GAIN, LOSE, ORDER)] == [15, 3, 30]


def test_exponent_of_a_power_of_the_logarithm_and_its_onset(record):
    t = np.geomspace(1e-2, 1e8, 2001)
    # exponent t/(1+t) - t/(100+t): half its peak of 9/11 at t = 140.4
    bent = np.log1p(t) - np.log1p(t / 100)
    at = growth_of(record, TASK)._replace(t=t, measured=bent)
    roots = np.roots([9 / 22, 101 * 9 / 22 - 99, 50 * 9 / 11])
    assert at.exponent(bent).max() == pytest.approx(9 / 11, rel=1e-3)
    assert at.onset == pytest.approx(roots.max(), rel=1e-3)
    assert np.isnan(at._replace(measured=np.log1p(t)).onset)


def test_a_user_s_several_queries_are_each_read_in_their_own_row():
    prob = [[0.4, 0.6, 0.0], [0.5, 0.0, 0.5]]
    task = saccade.SequenceClasses(prob, query=[3, 4], next_token=[5, 6], n_vocab=11)
    record = saccade.reduced_flow(task, t1=1e3, n_times=40, keep=("attention_logits",))
    rows = record.attention_logits.sel(query=[3, 4]).isel(time=-1, token=[0, 1, 2]).values
    assert rows[0, 2] == rows[1, 1] == 0
    found = growth_of(record, task)
    assert found.logits[-1, found.leader.token] == rows[0, 1]
    assert against_theorem_2(record, task)[LOSE] == []
