"""Which keys a mask of numbers hides: it is added to the scores, and what it adds to a hidden key
is far below any score.
"""

from __future__ import annotations

from torch import Tensor

# What is added to the score of a masked key is at or below it: -1e4, -1e9, the least number of a
# type, -inf. A bias by distance (ALiBi) is above it up to 20,000 tokens.
MASKED = -9999.0
_GAP = 80.0  # a weight of e^-80 is none


def masked_level(mask: Tensor) -> float:
    """What is added to the score of a masked key is at or below it. Some add -100 or -1000 (windows
    that are shifted), perhaps to a bias: numbers in two groups with a gap between them, wider than
    the group of those left, hide keys. A bias by distance has numbers all the way.
    """
    level = max(float(mask.min()) / 2, MASKED)
    hidden, left = mask[mask <= level], mask[mask > level]
    if hidden.numel() == 0 or left.numel() == 0:
        return MASKED
    lowest = float(left.min())
    return (
        level if lowest - float(hidden.max()) >= max(_GAP, float(left.max()) - lowest) else MASKED
    )


def left_by(mask: Tensor) -> Tensor | None:
    """Keys that a tensor added to scores leaves, of its shape; None if it hides none."""
    if not mask.is_floating_point() or mask.numel() == 0 or not bool(mask.min() <= -_GAP):
        return None
    left = mask > masked_level(mask)
    return None if bool(left.all()) else left
