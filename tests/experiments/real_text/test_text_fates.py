"""Fates on real text: a small run from end to end, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.real_text.text_fates import EXPERIMENT, MEASURES, MORE, Settings
from saccade.experiments.real_text.token_fates import separation_share
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.experiments.real_text.token_runs import Text
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.processes.cores", lambda: 1)  # starting processes would take longer than the runs
        sizes = {"n_vocab": 499, "queries": 3, "window": 11, "steps": 5, "seeds": 2}
        return record_of("text-fates", text="sotu", **sizes, batch_theorem=31, batch_ordinary=7)


def with_gain(record, gain):
    """The same gains in every model and seed, and passed in their order; attention has moved accordingly."""
    groups = TokenGroups.of_record(record)
    passed = np.where(groups.distinct, -gain, np.nan)
    whole = np.broadcast_to(gain, record.gain.shape)
    way = np.sign(gain[groups.distinct].mean() - gain[groups.common].mean())
    ramp = np.exp(0.1 * np.linspace(0, 1, record.sizes["time"]))
    masses = {
        name: record[name].copy(data=np.broadcast_to(ramp**power, record[name].shape))
        for name, power in (("mass_distinct", way), ("mass_common", -way))
    }
    return record.assign(
        gain=(record.gain.dims, whole), passed=(record.passed.dims, np.broadcast_to(passed, record.passed.shape)), **masses
    )


def test_all_models_start_alike_in_attention_and_move_by_group(record):
    assert list(record.model.values) == ["theorem", "query added", "ordinary"]
    np.testing.assert_allclose(record.gain.mean("token"), 0, atol=1e-6)  # a row of Z keeps its sum
    for group in ("distinct", "common", "other"):
        assert (record[f"change_{group}"].isel(time=0) == 0).all()
    masses = record.mass_distinct + record.mass_common + record.mass_other
    np.testing.assert_allclose(masses, 1, atol=1e-6)


def test_the_change_of_a_group_is_the_mean_of_its_gains(record):
    groups = TokenGroups.of_record(record)
    member = groups.distinct
    expected = record.gain.values[:, :, member].mean(axis=2)
    np.testing.assert_allclose(record.change_distinct.isel(time=-1), expected, atol=1e-6)


def test_claims_hold_if_distinct_tokens_gain_by_their_frequency_and_common_ones_lose(record):
    groups = TokenGroups.of_record(record)
    as_predicted = np.where(groups.distinct, 1 + groups.own_share, 0) - np.where(groups.common, 1.0, 0)
    claims = EXPERIMENT.claims(with_gain(record, as_predicted))
    assert {claim.verdict for claim in claims} == {HOLDS}


def test_claims_fail_if_the_opposite_happens(record):
    groups = TokenGroups.of_record(record)
    opposite = -np.where(groups.distinct, 1 + groups.own_share, 0) + np.where(groups.common, 1.0, 0)
    claims = EXPERIMENT.claims(with_gain(record, opposite))
    assert {claim.verdict for claim in claims} == {FAILS}


def test_claims_fail_if_attention_only_follows_frequency(record):
    groups = TokenGroups.of_record(record)
    claims = EXPERIMENT.claims(with_gain(record, groups.frequency))
    failed = {claim.title for claim in claims if claim.verdict == FAILS}
    assert MEASURES["separation"] in failed


def test_the_second_count_tells_more_next_tokens_apart_on_the_same_runs(record):
    """Its rows are those of an experiment that had sixteen next tokens from the start."""
    text = Text("sotu", n_vocab=499, n_queries=3, window=11, n_next=16)
    counted, kept = text.groups(), TokenGroups.of_record(record, MORE)
    np.testing.assert_array_equal(kept.own, counted.own)
    np.testing.assert_array_equal(kept.common, counted.common)
    by_seed = separation_share(record.gain.sel(model="theorem").values, counted).by_seed
    words = {"model": "theorem", "next tokens": 16, "measure": MEASURES["separation"]}
    (row,) = [row for row in EXPERIMENT.rows(record) if words.items() <= row.items()]
    assert row["mean"] == pytest.approx(by_seed.mean(), nan_ok=True)


def test_table_files_and_figure_have_every_model(record):
    rows = EXPERIMENT.rows(record)
    assert [row["next tokens"] for row in rows].count(4) == 3 * len(MEASURES)
    assert [row["next tokens"] for row in rows].count(16) == 3 * 6
    columns, tokens = EXPERIMENT.files(record)["distinct_tokens.csv"]
    assert len(tokens) == TokenGroups.of_record(record).distinct.sum()
    assert set(tokens[0]) == set(columns)
    assert len(EXPERIMENT.figure(record).axes) == 6


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="seeds"):
        EXPERIMENT.run(Settings(text="sotu", seeds=0))
