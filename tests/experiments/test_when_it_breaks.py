"""When the scan breaks: ratios at which nothing does, and a turn at another height."""

from __future__ import annotations

from saccade.experiments import experiment
from saccade.lab.claim import FAILS
from saccade.theories.scan_and_snap.open_statements import LARGE_STEPS, TURNING_HEIGHT

SMALL = {"turn_ratios": (1.0,), "limits": (0.8,), "seeds": 1, "t1": 100.0}


def test_below_the_limit_of_stable_steps_no_control_is_made():
    asked = experiment("when-it-breaks")
    found = asked.run(asked.settings(ratios=(0.1, 10.0), **SMALL)).claims
    assert not [claim for claim in found if claim.statement == LARGE_STEPS and claim.breaks]


def test_a_turn_at_another_height_is_refuted(monkeypatch):
    from saccade.theories import scan_and_snap as theory

    honest = theory.turning_height
    monkeypatch.setattr(theory, "turning_height", lambda *a, **k: 0.5 * honest(*a, **k))
    asked = experiment("when-it-breaks")
    found = asked.run(asked.settings(ratios=(0.1, 10.0), **SMALL)).claims
    turns = [claim for claim in found if claim.statement == TURNING_HEIGHT and not claim.breaks]
    assert {claim.verdict for claim in turns} == {FAILS}
