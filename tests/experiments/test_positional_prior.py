"""Positions: what is refused, and where the placed tokens are."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.placed_pairwise import PlacedPairwise
from saccade.experiments.scan_and_snap.positional_prior import PLACED, placed_classes


def test_near_tokens_are_near_in_one_class_and_far_in_the_other():
    joint = placed_classes(0.3)
    np.testing.assert_allclose(joint.sum(axis=(1, 2)), 1)
    assert joint[0, :2, PLACED].sum() == joint[1, -2:, PLACED].sum() > 0


@pytest.mark.parametrize(
    ("scale", "prior", "options", "why"),
    [
        (2, np.zeros(8), {}, "sum to 1"),
        (1, np.zeros(5), {}, "each of the 8 distances"),
        (1, np.zeros(8), {"n_vocab": 2}, "more than the 2 classes"),
    ],
)
def test_impossible_places_are_refused(scale, prior, options, why):
    with pytest.raises(InputError, match=why):
        PlacedPairwise(scale * placed_classes(0.3), prior, **options)
