"""Which keys a mask of numbers hides: it is added to the scores, and what it adds to a hidden key is far below any score."""

from __future__ import annotations

from torch import Tensor

# What is added to the score of a masked key is at or below it: -1e4, -1e9, the least number of a type, -inf. A bias by distance
# (ALiBi) is above it up to 20,000 tokens.
MASKED = -9999.0
_LEAST_BIAS = -99.0  # a weight of e^-99 is none


def masked_level(mask: Tensor) -> float:
    """What is added to the score of a masked key is at or below it. Some add -100 (windows that are shifted): a mask with no number
    but 0 and one so low hides keys, a bias by distance has many.
    """
    least = float(mask.min())
    is_mask = MASKED < least <= _LEAST_BIAS and bool(((mask == 0) | (mask == least)).all())
    return least / 2 if is_mask else MASKED


def left_by(mask: Tensor) -> Tensor | None:
    """Keys that a tensor added to scores leaves, of its shape; None if it hides none."""
    if not mask.is_floating_point() or mask.numel() == 0 or not bool(mask.min() <= _LEAST_BIAS):
        return None
    left = mask > masked_level(mask)
    return None if bool(left.all()) else left
