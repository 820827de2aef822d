"""Addressable randomness: every draw is identified by seed, purpose and step, never by earlier
draws.

So a batch is the same whatever was logged, skipped or resumed, and runs that share a seed share
their data (common random numbers) however many rates are tried. Philox is a counter-based
generator: the address *is* its key and counter.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from saccade.errors import InputError, checked_seed, shortened

_MOST_SEEDS = 1_000_000  # a count beyond it is a typing error: their batches alone would not fit in any memory


class Purpose(IntEnum):
    INITIALISATION = 0
    DATA = 1
    EVALUATION = 2


def generator(seed: int, purpose: Purpose, step: int = 0) -> np.random.Generator:
    """The stream of a seed that has been checked."""
    # The step is the counter's highest word: streams of neighbouring steps are 2**192 draws apart.
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, 0, step]))


def checked_seeds(seeds: object) -> list[int]:
    """A count n stands for the seeds 0 .. n-1; a list of whole numbers is taken as it is."""
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool) and seeds > _MOST_SEEDS:
        raise InputError(f"`seeds` must be at most {_MOST_SEEDS} in one call; got {seeds}.")
    listed = (
        list(range(seeds))
        if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool)
        else seeds
    )
    if not isinstance(listed, list | tuple | range | np.ndarray) or len(listed) == 0:
        raise InputError(
            f"`seeds` must be a count of at least 1, or a list of seeds; got {shortened(seeds)}."
        )
    checked = [checked_seed("seeds", seed) for seed in listed]
    if len(set(checked)) < len(checked):
        raise InputError("`seeds` must not name the same seed twice: it would be the same run.")
    return checked
