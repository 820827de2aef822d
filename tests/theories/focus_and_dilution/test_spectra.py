"""Spectra in closed form against the Jacobian of the closed-form velocities, by central
differences.
"""

import numpy as np
import pytest

from saccade.theories import focus_and_dilution as theory


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
