"""Condensation: the theory's linear flow against the flow, hypotheses, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.experiments.focus_and_dilution.condensation import condensation
from saccade.experiments.focus_and_dilution.named_laws import lazy_chains
from saccade.lab.claim import HOLDS, UNMET
from saccade.theories import focus_and_dilution as theory

SMALL = {"laws": ("paper",), "stays": (0.3,), "init_scales": (1e-2, 1e-3), "seeds": 1}


def test_the_linear_flow_of_the_theory_is_the_flow_while_weights_are_small():
    (chain,) = lazy_chains(("zipf-6",), (0.5,)).values()
    model = saccade.models.Embedded(init_scale=1e-6)
    run = saccade.flow(chain, t1=40, n_times=30, seeds=1, model=model).isel(seed=0)
    linear = theory.linear_weights(
        run.time.values,
        run.embedding.values[0],
        run.projection.values[0],
        stationary=chain.stationary,
    )
    size = np.abs(linear.embedding[-1]).max()
    np.testing.assert_allclose(run.embedding.values, linear.embedding, rtol=0, atol=1e-5 * size)


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
