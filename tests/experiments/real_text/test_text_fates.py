"""Fates on real text: a small run from end to end, and every claim able to hold and to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.real_text.text_fates import EXPERIMENT, Settings, look_of
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE
from saccade.lab.panel import DASHES
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        sizes = {
            "n_vocab": 199,
            "queries": 3,
            "window": 11,
            "repetitions": 2,
            "n_windows": 499,
            "looks": (2, 5, 11),
            "early": 5,
        }
        ordinary = {"looks_ordinary": (2, 3, 5), "early_ordinary": 3, "batch_ordinary": 7}
        return record_of("text-fates", text="sotu", **sizes, **ordinary)


def with_gain(record, first, last):
    """The same gains (query, token) in every model and repetition, one at the early look, another
    at the end.
    """
    gain = record.gain.copy(data=np.broadcast_to(first, record.gain.shape).copy())
    gain[{"look": -1}] = last
    return record.assign(gain=gain)


def by_title(record):
    found = {}
    for claim in EXPERIMENT.claims(record):
        found.setdefault((claim.statement.number, claim.agrees), set()).add(claim.verdict)
    return found


def test_a_row_of_scores_keeps_its_sum_and_samples_of_the_text_differ(record):
    assert list(record.model.values) == ["theorem", "query added", "ordinary"]
    np.testing.assert_allclose(record.gain.mean("token"), 0, atol=1e-6)
    assert (record.gain.isel(look=0) == 0).all()
    apart = np.abs(record.gain.isel(repetition=0) - record.gain.isel(repetition=1)).max(
        ["query", "token"]
    )
    assert (apart.isel(look=-1) > 1e-4).all()
    assert [look_of(record, model, "first") for model in ("theorem", "ordinary")] == [2, 2]


def test_questions_hold_and_theorems_agree_where_tokens_move_as_expected(record):
    groups = TokenGroups.of_record(record)
    losing = 10.0 * groups.distinct - groups.frequency + 0.5 * groups.distinct * groups.own_share
    winning = groups.frequency + 10.0 * groups.distinct * (1 + groups.own_share)
    found = by_title(with_gain(record, losing, winning))
    assert (
        found["fates on text", True]
        == found["winners on text", True]
        == found["distinct tokens on text", True]
        == {HOLDS}
    )
    assert (
        found["Theorem 2(b)", True]
        == found["Theorem 2(a)", True]
        == found["Theorem 3", True]
        == {OUTSIDE}
    )


def test_questions_fail_where_the_opposite_happens_and_theorems_are_never_failed(record):
    groups = TokenGroups.of_record(record)
    losing = 10.0 * groups.distinct * (1 + groups.own_share)
    found = by_title(with_gain(record, groups.frequency - losing, -groups.frequency - losing))
    assert (
        found["fates on text", False]
        == found["winners on text", False]
        == found["distinct tokens on text", False]
        == {FAILS}
    )
    assert (
        found["Theorem 2(b)", False]
        == found["Theorem 2(a)", False]
        == found["Theorem 3", False]
        == {OUTSIDE}
    )


def test_repetitions_that_do_not_agree_tell_nothing(record):
    noise = np.random.default_rng(0).normal(size=record.gain.shape)
    verdicts = {
        claim.verdict
        for claim in EXPERIMENT.claims(record.assign(gain=record.gain.copy(data=noise)))
    }
    assert verdicts == {CANNOT_TELL, OUTSIDE}


@pytest.mark.parametrize(("second", "agreement"), [(1, 1), (-1, {0.0: -1, 0.5: 0})])
def test_the_ceiling_of_every_score_is_how_far_its_own_repetitions_agree(record, second, agreement):
    """Two repetitions alike, then the second the reverse of the first: -1 for a correlation, no
    pair in the same order for a share. Chance is 0 for a correlation and 1/2 for a share of pairs.
    """
    gain = np.random.default_rng(0).normal(size=record.gain.shape)
    gain[:, 1] = second * gain[:, 0]
    found = list(EXPERIMENT.claims(record.assign(gain=record.gain.copy(data=gain))))
    for claim in found:
        (ceiling,) = claim.ceilings
        assert ceiling.chance == (0.5 if "share of pairs" in claim.title else 0.0)
        assert ceiling.agreement == pytest.approx(
            agreement if second == 1 else agreement[ceiling.chance]
        )
    assert len(found) == 3 * 2 * 4


def test_a_share_that_two_samples_do_not_share_cannot_be_told_and_one_that_they_deny_fails(record):
    """Half of the pairs in the same order is no agreement at all: shares count from one half, not
    from nothing.
    """
    groups, rng = TokenGroups.of_record(record), np.random.default_rng(0)
    gain = rng.normal(size=record.gain.shape) + 2.0 * groups.distinct
    gain[:, 1] = rng.permuted(gain[:, 1], axis=-1)
    shares = [
        claim
        for claim in EXPERIMENT.claims(record.assign(gain=record.gain.copy(data=gain)))
        if "equally" in claim.title
    ]
    assert {claim.verdict for claim in shares} == {CANNOT_TELL}
    assert all(claim.ceilings[0].enough(claim._judged.bounds) for claim in shares)


def test_intervals_end_where_scores_do(record):
    groups, sign = TokenGroups.of_record(record), np.array([1, 0.2])[:, None, None]
    noise = np.random.default_rng(0).normal(size=record.gain.shape)
    is_frequent = groups.frequency > groups.frequency.mean(axis=1, keepdims=True)
    made = record.gain.copy(data=noise + 10 * sign[:, None] * np.where(is_frequent, 1, -1))
    ends = [
        (claim.measured, "share" in claim.title)
        for claim in EXPERIMENT.claims(record.assign(gain=made))
    ]
    known = [(found, is_share) for found, is_share in ends if np.isfinite(found.low)]
    assert known
    assert all((0 if is_share else -1) <= found.low <= found.high <= 1 for found, is_share in known)


def test_the_ceiling_is_drawn_on_both_sides(record):
    frequency, distinct = EXPERIMENT.panels(record)[0]
    for panel, even in ((frequency, 0), (distinct, 0.5)):
        dashed = [line for line in panel.lines if line.style == DASHES]
        assert len(dashed) == 2 * 3
        for above, below in zip(dashed[::2], dashed[1::2], strict=True):
            np.testing.assert_allclose(np.asarray(above.y) + below.y, 2 * even)


def test_table_files_and_figure_have_every_model(record):
    assert len(EXPERIMENT.rows(record)) == 3 * 4 * 3
    columns, tokens = EXPERIMENT.files(record)["distinct_tokens.csv"]
    assert len(tokens) == TokenGroups.of_record(record).distinct.sum()
    assert set(tokens[0]) == set(columns)
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="repetitions"):
        EXPERIMENT.run(Settings(text="sotu", repetitions=0))
