"""The three experiments on From Condensation to Rank Collapse: verdicts, and that wrong numbers
fail them.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.data.labelled_sequences import LabelledSequences
from saccade.errors import InputError
from saccade.experiments import experiment
from saccade.experiments.rank_collapse import escape_clock
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.observe.fits import power
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme

NAMES = ("blow-up", "escape-clock")


def verdicts(name, record, part):
    found = {claim.verdict for claim in experiment(name).claims(record) if part in claim.label}
    assert found
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_verdict_is_the_expected_one(name):
    claims = list(experiment(name).claims(record_of(name)))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme(name, claims)


def test_a_law_that_drifts_and_a_time_that_is_off_are_seen():
    record = record_of("blow-up")
    drifts = {
        "w wᵀ - A Aᵀ": "drift of w wᵀ",
        "eq. 9": "printed differences",
        "eq. 27": "root of eq. 27",
    }
    for law, title in drifts.items():
        drift = record.drift + 1e-9 * (record.law == law)
        assert verdicts("blow-up", record.assign(drift=drift), title) == {FAILS}
    assert verdicts("blow-up", record.assign(steepest=1.5 * record.steepest), "eq. 38") == {FAILS}
    assert verdicts(
        "blow-up", record.assign(rank_one_time=record.rank_one_time * (1 + 1e-8)), "Carlson"
    ) == {FAILS}
    rising = record.reached * (1 + 2e-4 * ((record.approach == "power") & (record["size"] == 100)))
    assert verdicts("blow-up", record.assign(reached=rising), "E' / E^(4/3) (") == {FAILS}
    late = record.assign(time=record.time * 1.5)
    assert verdicts("blow-up", late, "over the bound") == {FAILS}


def test_one_start_that_does_not_blow_up_or_loses_the_condition_is_seen():
    record = record_of("blow-up")
    one = (record.width == 4) & (record.start == 0)
    assert verdicts(
        "blow-up", record.assign(last_size=record.last_size.where(~one, 10.0)), "size of a million"
    ) == {FAILS}
    grown = record.assign(tied_size=0 * record.tied_size + 1e7)
    assert verdicts("blow-up", grown, "size of a million (width 1") == {
        HOLDS
    }  # a control that holds is a surprise
    assert verdicts(
        "blow-up", record.assign(told_size=1.2 * record.told_size), "from the matrix laws"
    ) == {FAILS}
    assert verdicts(
        "blow-up", record.assign(met_size=4 * record.met_size), "of an earlier run"
    ) == {FAILS}
    assert verdicts(
        "blow-up", record.assign(degeneracy=0 * record.degeneracy), "size of a million (starts"
    ) == {OUTSIDE}
    assert verdicts(
        "blow-up", record.assign(lost=record.lost.where(~one, 1.0)), "lose it again"
    ) == {FAILS}
    assert verdicts(
        "blow-up", record.assign(met_size=record.met_size.where(~one)), "meet it before"
    ) == {FAILS}
    assert verdicts("blow-up", record.assign(pairs=0 * record.pairs + 1), "share of pairs") == {
        FAILS
    }


def test_a_clock_that_is_late_by_three_scales_is_seen():
    record = record_of("escape-clock")
    late = record.assign(half_time=record.half_time + 4 * record.scale)
    assert verdicts("escape-clock", late, "half-way loss, after T*/(ε g₀) (") == {FAILS}
    shifted = record.assign(half_time=record.half_time + 3e-4)
    assert verdicts("escape-clock", shifted, "half-way loss, after T*/(ε g₀), extrapolated") == {
        FAILS
    }
    aside = record.assign(beta_cosine=0.9 * record.beta_cosine)
    assert verdicts("escape-clock", aside, "half-way loss, after") == {OUTSIDE}
    logarithmic = record.assign(half_time=0 * record.half_time + 10 - np.log(record.scale))
    assert verdicts("escape-clock", logarithmic, "power of ε in that time") == {FAILS}
    inverse = record.assign(two_factor_time=1 / record.scale)
    assert verdicts("escape-clock", inverse, "time for each factor e") == {FAILS}
    assert HOLDS in verdicts(
        "escape-clock", inverse, "power of ε in that time (readout of size one)"
    )


def test_printed_forms_fail_where_they_are_put_in_the_place_of_measurements():
    record = record_of("escape-clock")
    assert verdicts(
        "escape-clock",
        record.assign(loss_at_zero=0 * record.loss_at_zero + 0.5),
        "loss of zero weights",
    ) == {FAILS}
    assert verdicts(
        "escape-clock", record.assign(row_cosine=0 * record.row_cosine + 1), "rows of W_V"
    ) == {FAILS}
    assert verdicts(
        "escape-clock",
        record.assign(turn_cosine=0 * record.turn_cosine + 1),
        "the same on the plateau",
    ) == {FAILS}


def test_orders_near_the_origin_are_those_of_the_theory_from_another_start():
    """From this start the next order is large."""
    found = escape_clock._expansion(LabelledSequences.two_clue(), seed=1)
    left_out, balanced = np.abs(found["expansion"] - [[found["expected"]], [0.0]])
    scale, small = escape_clock.EXPANSION, found["small"].T
    np.testing.assert_allclose([power(scale, left_out), power(scale, balanced)], 2.0, atol=0.1)
    np.testing.assert_allclose([power(scale, each) for each in small], 2.0, atol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_drawn(name):
    asked = experiment(name)
    assert len(asked.figure(record_of(name)).axes) in (2, 3)


def test_settings_that_cannot_be_are_named():
    for name, settings in (
        ("blow-up", {"starts": (3,)}),
        ("blow-up", {"starts": (3, 3)}),
        ("escape-clock", {"scales": (1.0, 1e-3)}),
    ):
        asked = experiment(name)
        with pytest.raises(InputError, match=r"`(widths|starts|scales)`"):
            asked.run(asked.settings(**settings))
