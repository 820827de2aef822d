"""Condensation: laws that its hypotheses leave out decide nothing."""

from __future__ import annotations

import pytest

from saccade.experiments.focus_and_dilution.condensation import condensation
from saccade.lab.claim import HOLDS, UNMET

SMALL = {"laws": ("paper",), "stays": (0.3,), "init_scales": (1e-2, 1e-3), "seeds": 1}


@pytest.mark.parametrize("law, stay", [("0.5 of 8", 0.5), ("0.34 of 3", 0.5), ("0.3 of 20", 0.9)])
def test_laws_beyond_the_hypotheses_decide_nothing_about_the_arrival(law, stay):
    """Attention takes over before the last arrival, or the law is nearly uniform."""
    given = {"equal_laws": (law,), "equal_stays": (stay,), "equal_seeds": 1}
    found = condensation.run(condensation.settings(**SMALL, **given))
    verdicts = {claim.title: claim.verdict for claim in found.claims}
    for part in ("T_2 - T_p against", "against the start alone", "T_2 ≤ T_d"):
        assert {verdict for title, verdict in verdicts.items() if part in title} == {UNMET}
    assert HOLDS in verdicts.values()
    assert found.answer.startswith("Partly")
