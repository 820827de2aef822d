"""Fig. 3 at the published settings: how phases, stages and lengths are read from curves that show them or do not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from saccade.experiments.real_text import text_cycle_published as published
from saccade.experiments.real_text.text_cycle_published import _in_order, seen_phases, shrinking
from saccade.observe import events

DILUTED, FREQUENT, RARE = [0.3, 0.3, 0.4], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]


def passing(*rows):
    """Attention that goes from one row to the next in 30 looks, and rests there for ten."""
    stretches = [np.linspace(one, other, 30) for one, other in pairwise(rows)]
    rests = [np.tile(row, (10, 1)) for row in rows]
    parts = [part for pair in zip(rests, [*stretches, np.empty((0, 3))], strict=True) for part in pair]
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("rows", "n_seen"),
    [
        ([DILUTED, FREQUENT, DILUTED, RARE], 4),
        ([DILUTED, FREQUENT, DILUTED, FREQUENT], 3),
        ([DILUTED, FREQUENT], 2),
        ([DILUTED, RARE, DILUTED], 1),
        ([DILUTED, DILUTED], 1),
        ([FREQUENT, DILUTED, RARE], 0),
    ],
)
def test_phases_are_counted_in_their_order(rows, n_seen):
    attention = passing(*rows)
    assert seen_phases(np.arange(len(attention)), attention, own=2) == n_seen


@pytest.mark.parametrize(
    ("times", "n_seen"),
    [([3, 5, 8], 3), ([3, 5, np.nan], 2), ([3, 2, 8], 1), ([np.nan, 5, 8], 0), ([3, 5, 4], 2)],
)
def test_stages_count_only_after_those_before_them(times, n_seen):
    assert _in_order(np.array(times)) == n_seen


def test_words_that_get_shorter_are_counted_without_the_longest():
    time = np.linspace(0, 1, 20)[:, None]
    norms = np.hstack([1 + 2 * time, 1 - 0.5 * time, 1 - 0.05 * time, np.full((20, 1), np.nan)])
    assert shrinking(norms) == 0.5


def test_stages_have_names_that_the_event_detector_gives():

    assert all(f"`{stage}`" in events.__doc__ for stage in published.STAGES)
