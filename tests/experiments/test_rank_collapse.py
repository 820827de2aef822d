"""The opening of attention in rank-collapse, from another start than that of the experiment."""

from __future__ import annotations

import pytest

from saccade.experiments.rank_collapse.rank_collapse import ANGLES, opened
from saccade.experiments.rank_collapse.stage_one import teacher_data
from saccade.models.attention_classifier import AttentionClassifier


def test_the_rate_with_turned_keys_is_that_of_the_theory_from_another_start():
    """From this start other directions of W_Q die out late."""
    found = opened(AttentionClassifier(teacher_data(), 1e-6, angles=ANGLES), seed=1)
    assert found.rate == pytest.approx(found.drive[0], rel=1e-3)
