"""What becomes of attention: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saccade.experiments.scan_and_snap import attention_fates
from saccade.experiments.scan_and_snap.fates import finite_context, lemma_4, published_tasks, theorem_2
from saccade.records.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.store import load_record, save_record


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """As `saccade reproduce` makes it, read back from disk."""
    path = tmp_path_factory.mktemp("fates") / "record.zarr"
    save_record(attention_fates.run(attention_fates.Config()), path)
    return load_record(path)


def verdicts(claims):
    return [claim.verdict for claim in claims]


def test_every_verdict_is_the_expected_one(record):
    claims = attention_fates.claims(record)
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert [verdicts(claims).count(verdict) for verdict in (HOLDS, FAILS, OUTSIDE)] == [22, 3, 2]


def test_rare_distinct_tokens_fall_when_contexts_are_short_and_none_when_they_are_long(record):
    share = finite_context.falling(record)
    assert np.all(np.diff(share.mean(axis=1)) < 0)  # the longer, the fewer
    assert np.all(np.diff(share, axis=1) <= 0)  # the rarer, the more often
    assert share[0, :3].min() > 0.9
    assert share[-1].max() == 0


def test_short_contexts_are_outside_the_assumption_of_theorem_2(record):
    by_length = dict(zip(record.length.values.tolist(), verdicts(finite_context.claims(record)), strict=False))
    assert by_length == {32: OUTSIDE, 128: OUTSIDE, 512: HOLDS, 2048: HOLDS}


def test_one_distinct_token_that_falls_for_a_moment_is_seen(record):
    z = record.one_common.copy(deep=True)
    z[200, 0, 3] = z[199, 0, 3] - 1e-9
    sign, formula, common_sign, _ = theorem_2.claims(record.assign(one_common=z))[:4]
    assert (sign.verdict, sign.measured) == (FAILS, 1)
    assert (formula.verdict, common_sign.verdict) == (FAILS, HOLDS)


def test_a_speed_half_a_percent_off_is_seen(record):
    claims = theorem_2.claims(record.assign(one_common=1.005 * record.one_common, several_common=1.005 * record.several_common))
    assert sum(claim.verdict == FAILS for claim in claims) == 3  # the formulas; signs, order and symmetry stay


def test_common_tokens_in_the_wrong_order_and_broken_symmetry_are_seen(record):
    z = record.several_common.copy(deep=True)
    z[:, [0, 2]] = z[:, [2, 0]].values
    z[:, 3] += 1e-9
    falling, symmetric, ordered, formula = theorem_2.claims(record.assign(several_common=z))[4:]
    assert falling.verdict == HOLDS
    assert {symmetric.verdict, ordered.verdict, formula.verdict} == {FAILS}


def test_joint_descent_three_times_as_fast_would_confirm_the_printed_lemma(record):
    printed, corrected, gap = lemma_4.claims(record)
    assert 2 < printed.predicted / corrected.predicted < 3  # less than K = 3, since the drive falls with the common token
    faster = printed.predicted / printed.measured * record.descent_logits
    printed, corrected, gap = lemma_4.claims(record.assign(descent_logits=faster))
    assert verdicts([printed, corrected, gap]) == [HOLDS, FAILS, FAILS]


def test_a_vocabulary_of_thirty_would_confirm_the_printed_number(record, monkeypatch):
    monkeypatch.setitem(published_tasks.PUBLISHED_LOSS, 0, np.log(30))
    *_, printed, corrected = published_tasks.claims(record)
    assert verdicts([printed, corrected]) == [HOLDS, FAILS]


def test_falling_tokens_at_length_512_make_the_claim_fail(record):
    z = record.finite_logits.copy(deep=True)
    z.loc[{"length": 512, "rank": 2}] = -0.1
    claims = finite_context.claims(record.assign(finite_logits=z))
    assert verdicts(claims)[:4] == [OUTSIDE, OUTSIDE, FAILS, HOLDS]


def test_classes_that_overlap_too_much_are_outside_assumption_2(record):
    settings = attention_fates.Config()
    strong = replace(settings, overlap=0.4, t1=100.0, descent_steps=20, descent_seeds=1, lengths=(16,), steps=3, seeds=2)
    claims = attention_fates.claims(attention_fates.run(strong))
    by_theorem = [claim.verdict for claim in claims if "Theorem 2(b)" in claim.source or "Corollary 2" in claim.source]
    assert set(by_theorem) == {OUTSIDE}


def test_the_table_holds_every_panel_and_the_figure_draws_from_the_record_alone(record):
    rows = attention_fates.table(record)
    assert {tuple(row) for row in rows} == {("case", "token", "quantity", "predicted", "measured")}
    cases = {row["case"] for row in rows}
    assert {"SGD, T = 32", "syn-medium-10", "flow (C), one common token", "joint descent, Lemma 4 as printed"} <= cases
    flow = [row for row in rows if row["case"].startswith("flow")]
    np.testing.assert_allclose([row["measured"] for row in flow], [row["predicted"] for row in flow], rtol=1e-6)
    assert len(attention_fates.figure(record).axes) == 5
