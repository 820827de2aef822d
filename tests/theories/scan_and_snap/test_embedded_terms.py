"""The velocity of Z when query and key matrices move, against the product rule."""

from __future__ import annotations

import numpy as np

from saccade.theories import scan_and_snap as theory


def test_from_the_usual_start_it_is_the_papers():
    U, G = np.eye(5), np.random.default_rng(1).standard_normal((5, 5))
    np.testing.assert_allclose(theory.query_key_velocity(G, 0 * U, np.sqrt(5) * U), G, atol=1e-12)
