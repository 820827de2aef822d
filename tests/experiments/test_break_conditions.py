"""Rate ratios: every verdict as expected, and a flow that broke, or kept whole, where theory does not say so would be seen."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.break_conditions import EXPERIMENT
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("break-conditions")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    assert unexpected(record) == set()
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_a_flow_that_stood_still_below_ratio_one_would_confirm_the_summary(record):
    mass = record.plain_mass.copy(deep=True)
    mass[:2] = mass.values[:2, :1]
    seen = unexpected(record.assign(plain_mass=mass))
    assert seen == {"slow decoder", "rate ratio, classes alike", "plain descent with memory"}


def test_distinct_tokens_that_rise_in_unequal_classes_would_contradict_us(record):
    """As in the theory's flow: the broken assumption breaks nothing, and no token turns."""
    risen = record.assign(unequal_logits=record.unequal_reduced)
    seen = {"slow decoder", "rate ratio, classes alike", "rate ratio, classes not alike", "plain descent with memory"}
    assert unexpected(risen) == seen | {"order under plain descent"}


def test_tokens_that_turn_a_fifth_later_or_not_as_the_root_of_the_ratio_would_be_seen(record):
    for wrong in (1.2 * record.turn, 0 * record.turn + record.turn[:, 0]):
        assert unexpected(record.assign(turn=wrong)) == {"rate ratio, classes not alike", "plain descent with memory"}


def test_each_kind_of_unequal_classes_is_asked_for_itself(record):
    """One turn that is 3 % off what memory gives, in any of them, is seen; 5 % where memory is allowed 4."""
    for place, name in enumerate(record.unequal.values):
        wrong = record.turn.copy(deep=True)
        wrong[place, 1] *= 1.05 if name in ("nearly alike", "three classes") else 1.03
        assert unexpected(record.assign(turn=wrong)) == {"plain descent with memory"}


def test_the_resting_lead_is_asked_only_where_the_coupling_is_small(record):
    """At the end its verdict is left open, and there it is wrong in one case; memory is held to every sign, size and order."""
    lead = [claim for claim in EXPERIMENT.claims(record) if "resting lead" in claim.title]
    assert [claim.verdict for claim in lead] == 3 * ["holds", "outside"]
    assert [claim.agrees for claim in lead] == [True, True, True, False, True, True]
    assert unexpected(record.assign(early_logits=-record.early_logits)) == {"rate ratio, classes not alike"}
    assert unexpected(record.assign(late_logits=record.late_logits + 0.05)) == {"plain descent with memory"}


def test_a_border_of_sgd_elsewhere_would_be_seen(record):
    """Just below the limit none may be lost; above it, the border is where it was found."""
    for multiple, mass in ((0.8, 1.0), (1.2, 1.0), (3.0, 0.4)):
        moved = record.limit_mass.where(record.limit != multiple, mass)
        wrong = record.limit_wrong_way.where(record.limit != multiple, 0.0)
        assert unexpected(record.assign(limit_mass=moved, limit_wrong_way=wrong)) == {"large steps of attention"}


def test_sgd_that_kept_the_scan_where_steps_overshoot_would_be_seen(record):
    kept = record.assign(sgd_mass=0 * record.sgd_mass + 0.4, sgd_wrong_way=0 * record.sgd_wrong_way)
    assert "large steps of attention" in unexpected(kept)


def test_a_larger_decoder_rate_that_slowed_convergence_would_be_seen(record):
    slower = record.held_converged.copy(data=record.held_converged.values[::-1])
    assert unexpected(record.assign(held_converged=slower)) == {"rate ratio, classes alike"}


def test_ratios_at_which_nothing_breaks_give_no_surprise():
    record = record_of("break-conditions", ratios=(0.1, 1.0, 10.0), seeds=1, turn_ratios=(1.0,), limits=(0.8,))
    assert unexpected(record) == set()
    assert not [claim for claim in EXPERIMENT.claims(record) if claim.breaks == "steps of attention do not overshoot"]
