"""Recovery from a wrong decoder: the logit that its row leaves behind, whatever the path, and how
common tokens add to it.
"""

from __future__ import annotations

import pytest
from scipy.integrate import quad

from saccade.theories import scan_and_snap as theory

RATES = {"lr_decoder": 0.7, "lr_attention": 0.3}


def test_the_deepest_logit_is_where_a_row_is_neutral():
    """dz = 2 (eta_Z/eta_Y) S dS, added up from S_0 to 0."""
    fallen = quad(lambda S: 2 * 0.3 / 0.7 * S, 1.7, 0.0)[0]
    assert theory.deepest_logit(1.7, **RATES) == pytest.approx(fallen)


def test_common_tokens_rise_by_what_distinct_ones_lose():
    deepest, n_distinct, n_common = theory.deepest_logit(1.7, **RATES), 6, 4
    common = -n_distinct * deepest / n_common
    exponent = theory.recovery_exponent(1.7, n_distinct=n_distinct, n_common=n_common, **RATES)
    assert exponent == pytest.approx(common - deepest)
