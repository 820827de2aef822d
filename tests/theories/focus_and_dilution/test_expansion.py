"""Appendix D: misprinted blocks, and the opening rate as a norm; `formulas` checks the rest by JAX."""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    decoder_gradient_slope,
    mild_condition,
    saturated_opening_rate,
    saturated_triple,
    second_differential,
)

STRENGTH = 6.0
triples = pytest.mark.parametrize(
    "at", [saturated_triple(0.6, 0.6), saturated_triple(0.75, 0.8), saturated_triple(0.5, 0.5)]
)


@triples
def test_blocks_that_are_misprinted_are_those_of_the_corrected_formulas(at):
    """Eqs. 206, 211, 213 and 214: the beta-beta block of B for token 2."""
    pi_1, _, (_, g_l, _), b, _, p = at
    variance = np.diag(p) - np.outer(p, p)
    along = variance @ b
    cumulant = np.diag(along) - np.outer(along, p) - np.outer(p, along)
    block = second_differential(at, strength=STRENGTH)[1, 3:, 3:]
    np.testing.assert_allclose(
        block, -(1 - pi_1) * (g_l * variance + g_l**2 / 2 * cumulant), atol=1e-15
    )
    assert (
        np.abs(block + (1 - pi_1) * ((1 - pi_1) * g_l * variance + g_l**2 / 2 * cumulant)).max()
        > 0.01
    )
    assert np.abs(block + (1 - pi_1) * (g_l * variance + cumulant / 2)).max() > 0.01


@triples
def test_the_opening_rate_is_the_norm_of_the_printed_gradient_and_never_zero(at):
    slope = decoder_gradient_slope(at)
    rate = saturated_opening_rate(high=at.high, n_vocab=3, stay=at.stay, asymmetry=[1, -1])
    assert np.linalg.svd(slope)[1] == pytest.approx([rate, 0, 0], abs=1e-14)
    assert mild_condition(at) < 0
