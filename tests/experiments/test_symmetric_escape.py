"""Equal rare tokens: flows that do not leave in time fail."""

from saccade.experiments.focus_and_dilution.symmetric_escape import symmetric_escape as question
from saccade.lab.claim import FAILS, HOLDS
from saccade.theories import focus_and_dilution as theory


def test_a_flow_that_has_not_left_by_its_deadline_fails(monkeypatch):
    """Rates that are twenty times too large set the deadline twenty times too early."""
    parting, opening = theory.parting_rate, theory.parted_opening_rate
    monkeypatch.setattr(theory, "parting_rate", lambda point: 20 * parting(point))
    monkeypatch.setattr(theory, "parted_opening_rate", lambda point: 20 * opening(point))
    one = {"n_vocabs": (3,), "highs": (0.75,), "stays": (0.8,), "seeds": 1, "n_times": 100}
    claims = question.run(question.settings(**one)).claims
    verdict = {claim.title: claim.verdict for claim in claims}
    assert verdict["time at which the flow leaves / that predicted from the rates"] == FAILS
    assert verdict["s₂ / s₁ at the end"] == HOLDS  # the control, which must not
