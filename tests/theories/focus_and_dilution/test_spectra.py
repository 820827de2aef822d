"""Spectra in closed form against the Jacobian of the closed-form velocities, by central
differences.
"""

import numpy as np
import pytest

from saccade.theories import focus_and_dilution as theory

from .chains import CHAINS
from .numeric import NUMERIC, velocity_jacobian

WIDTH, KEY_WIDTH = 3, 2
by_chain = pytest.mark.parametrize("name", CHAINS)


def spectrum(J, inside):
    block = J[np.ix_(inside, inside)]
    return np.sort(np.linalg.eigvalsh((block + block.T) / 2))[::-1]


@by_chain
def test_rates_at_both_points_are_those_of_the_jacobian(name):
    pi, P = CHAINS[name].values()
    widths = {"d_model": WIDTH, "d_key": KEY_WIDTH}
    point = theory.unigram_weights(stationary=pi, direction=[1.0, -2.0, 0.5], d_key=KEY_WIDTH)
    attention = np.repeat([False, True, True, False], [matrix.size for matrix in point])
    J, at_origin = (
        velocity_jacobian(at, **CHAINS[name]) for at in (point, [0 * matrix for matrix in point])
    )
    np.testing.assert_allclose(
        spectrum(J, ~attention), theory.outer_spectrum(stationary=pi, d_model=WIDTH), atol=NUMERIC
    )
    found = np.sort(theory.attention_spectrum(stationary=pi, transition=P, **widths))[::-1]
    np.testing.assert_allclose(spectrum(J, attention), found, atol=NUMERIC)
    everything = np.ones(len(J), bool)
    np.testing.assert_allclose(
        spectrum(at_origin, everything),
        theory.origin_spectrum(stationary=pi, **widths),
        atol=NUMERIC,
    )


@pytest.mark.parametrize("high, n_vocab, stay", [(0.6, 4, 0.5), (0.75, 4, 0.8), (0.3, 6, 0.5)])
def test_equal_low_tokens_have_the_papers_closed_forms(high, n_vocab, stay):
    law = {"high": high, "n_vocab": n_vocab}
    pi = theory.two_level_law(**law)
    P = stay * np.eye(n_vocab) + (1 - stay) * pi
    any_law = theory.outer_spectrum(stationary=pi, d_model=2)
    np.testing.assert_allclose(
        theory.two_level_outer_spectrum(d_model=2, **law), any_law, atol=1e-14
    )
    assert theory.two_level_focus_rate(stay=stay, **law) == pytest.approx(
        theory.focus_rate(stationary=pi, transition=P)
    )
    assert theory.overlap_target(**law) == pytest.approx(theory.embedding_norm(stationary=pi) ** 2)
    point = theory.unigram_weights(stationary=pi, direction=[1.0], d_key=1)
    slope = theory.composite_gradients(*point, stationary=pi, transition=P).attention_logits
    np.testing.assert_allclose(theory.unigram_logit_gradient(stay=stay, **law), slope, atol=1e-16)
