"""Who gains attention: claims that no engine answers for, and settings outside the assumptions."""

from __future__ import annotations

from saccade.experiments import experiment
from saccade.experiments.scan_and_snap import who_gains as module
from saccade.lab.claim import FAILS, UNMET
from saccade.theories.scan_and_snap.statements import COROLLARY_2, LEMMA_4, THEOREM_2B

TINY = {"t1": 10.0, "plain_steps": 3, "lengths": (32,), "seeds": 1, "depths": (0.5, 1.0)}


def verdicts(*statements, **settings):
    asked = experiment("who-gains")
    claims = asked.run(asked.settings(**TINY | settings)).claims
    return {claim.verdict for claim in claims if claim.statement in statements}


def test_joint_descent_three_times_as_fast_refutes_the_corrected_lemma(monkeypatch):
    honest = module.joint_descent

    def faster(*args, lr_attention, **options):
        return honest(*args, lr_attention=3 * lr_attention, **options)

    monkeypatch.setattr(module, "joint_descent", faster)
    assert verdicts(LEMMA_4) == {FAILS}


def test_classes_that_overlap_too_much_are_outside_assumption_2():
    assert verdicts(THEOREM_2B, COROLLARY_2, overlap=0.4, descent_steps=3) == {UNMET}
