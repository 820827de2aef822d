"""Fig. 3 at the published settings: how phases are read, and that a probe is spelt as the vocabulary spells it."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.real_text.text_cycle_published import phases, seen_phases

DILUTED, FREQUENT, RARE = [0.3, 0.3, 0.4], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]


@pytest.mark.parametrize(
    ("rows", "expected", "n_seen"),
    [
        ([DILUTED, DILUTED, FREQUENT, DILUTED, RARE], ["diluted", "another", "diluted", "itself"], 4),
        ([DILUTED, FREQUENT, RARE], ["diluted", "another", "itself"], 2),
        ([FREQUENT, DILUTED, FREQUENT], ["another", "diluted", "another"], 2),
        ([DILUTED, RARE, DILUTED], ["diluted", "itself", "diluted"], 1),
    ],
)
def test_phases_are_read_in_their_order(rows, expected, n_seen):
    found = phases(np.array(rows), own=2)
    assert found == expected
    assert seen_phases(found) == n_seen
