"""What becomes of attention: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.scan_and_snap import attention_fates, flow_fates
from saccade.experiments.scan_and_snap.attention_fates import EXPERIMENT, Settings, falling
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("attention-fates")


def verdicts(claims):
    return [claim.verdict for claim in claims]


def along_flow(record):
    """Claims on Theorem 2 and Corollary 2, without Lemma 4 before them and the control after them."""
    return list(flow_fates.claims(record, Settings()))[2:-1]


def at_finite_length(record):
    return [claim for claim in EXPERIMENT.claims(record) if "lose attention in SGD" in claim.title]


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert [verdicts(claims).count(verdict) for verdict in (HOLDS, FAILS, OUTSIDE)] == [22, 1, 2]


def test_a_class_that_overlaps_no_other_breaks_theorem_2_and_stands_still(record):
    *claims, control = flow_fates.claims(record, Settings())
    assert control.title in [claim.title for claim in claims]
    assert (control.verdict, control.measured) == (FAILS, control.relation.among)
    assert np.abs(record.isolated.values).max() < 1e-9


def test_rare_distinct_tokens_fall_when_contexts_are_short_and_none_when_they_are_long(record):
    share = falling(record)
    assert np.all(np.diff(share.mean(axis=1)) < 0)  # the longer, the fewer
    assert np.all(np.diff(share, axis=1) <= 0)  # the rarer, the more often
    assert share[0, :3].min() > 0.9
    assert share[-1].max() == 0


def test_short_contexts_are_outside_the_assumption_of_theorem_2(record):
    by_length = dict(
        zip(record.length.values.tolist(), verdicts(at_finite_length(record)), strict=True)
    )
    assert by_length == {32: OUTSIDE, 128: OUTSIDE, 512: HOLDS, 2048: HOLDS}


def test_one_distinct_token_that_falls_for_a_moment_is_seen(record):
    z = record.one_common.copy(deep=True)
    z[200, 0, 3] = z[199, 0, 3] - 1e-9
    sign, formula, common_sign, _ = along_flow(record.assign(one_common=z))[:4]
    assert (sign.verdict, sign.measured) == (FAILS, 1)
    assert (formula.verdict, common_sign.verdict) == (FAILS, HOLDS)


def test_a_speed_half_a_percent_off_is_seen(record):
    claims = along_flow(
        record.assign(
            one_common=1.005 * record.one_common, several_common=1.005 * record.several_common
        )
    )
    assert (
        sum(claim.verdict == FAILS for claim in claims) == 3
    )  # the formulas; signs, order and symmetry stay


def test_common_tokens_in_the_wrong_order_and_broken_symmetry_are_seen(record):
    z = record.several_common.copy(deep=True)
    z[:, [0, 2]] = z[:, [2, 0]].values
    z[:, 3] += 1e-9
    falling, symmetric, ordered, formula = along_flow(record.assign(several_common=z))[4:]
    assert falling.verdict == HOLDS
    assert {symmetric.verdict, ordered.verdict, formula.verdict} == {FAILS}


def test_joint_descent_three_times_as_fast_would_confirm_the_printed_lemma(record):
    lemma, _, *_ = EXPERIMENT.claims(record)
    assert (
        2 < lemma.relation.printed / lemma.relation.corrected < 3
    )  # less than K = 3: the drive falls with the common token
    faster = lemma.relation.printed / lemma.measured * record.descent_logits
    lemma, gap, *_ = EXPERIMENT.claims(record.assign(descent_logits=faster))
    assert verdicts([lemma, gap]) == [FAILS, FAILS]
    assert lemma.measured == pytest.approx(lemma.relation.printed)


def test_a_vocabulary_of_thirty_would_confirm_the_printed_number(record, monkeypatch):
    monkeypatch.setitem(attention_fates.PUBLISHED_LOSS, 0, np.log(30))
    *_, vocabulary = EXPERIMENT.claims(record)
    assert vocabulary.verdict == FAILS


def test_falling_tokens_at_length_512_make_the_claim_fail(record):
    z = record.finite_logits.copy(deep=True)
    z.loc[{"length": 512, "rank": 2}] = -0.1
    claims = at_finite_length(record.assign(finite_logits=z))
    assert verdicts(claims) == [OUTSIDE, OUTSIDE, FAILS, HOLDS]


def test_classes_that_overlap_too_much_are_outside_assumption_2():
    small = {"descent_steps": 20, "descent_seeds": 1, "lengths": (16,), "steps": 3, "seeds": 2}
    claims = EXPERIMENT.claims(record_of("attention-fates", overlap=0.4, t1=100.0, **small))
    by_theorem = [
        claim.verdict
        for claim in claims
        if claim.statement.number in ("Theorem 2(b)", "Corollary 2")
    ]
    assert set(by_theorem) == {OUTSIDE}


def test_the_table_holds_every_panel_and_the_figure_draws_from_the_record_alone(record):
    rows = EXPERIMENT.rows(record)
    assert {tuple(row) for row in rows} == {("case", "token", "quantity", "predicted", "measured")}
    cases = {row["case"] for row in rows}
    assert {
        "SGD, T = 32",
        "syn-medium-10",
        "flow (C), one common token",
        "joint descent, Lemma 4 as printed",
    } <= cases
    flow = [row for row in rows if row["case"].startswith("flow")]
    np.testing.assert_allclose(
        [row["measured"] for row in flow], [row["predicted"] for row in flow], rtol=1e-6
    )
    assert len(EXPERIMENT.figure(record).axes) == 5
