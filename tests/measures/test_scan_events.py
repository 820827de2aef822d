"""Stages of Scan and Snap on curves whose stages are known."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.measures.events import find_events


def curves(t):
    """Common attention falls by half around t = 10, one of two distinct tokens wins around t = 100,
    all in ln t; then rest.
    """
    fallen = 1 / (1 + (10 / np.maximum(t, 1e-9)) ** 4)
    won = 1 / (1 + (100 / np.maximum(t, 1e-9)) ** 4)
    common = 0.6 * (1 - 0.5 * fallen)
    share = 0.5 + 0.4 * won
    distinct = (1 - common)[:, None] * np.stack([share, 1 - share], axis=1)
    return common[:, None], distinct[:, None, :]


def test_stages_come_at_the_levels_that_define_them():
    t = np.append(0.0, np.geomspace(0.1, 1e6, 3001))
    common, distinct = curves(t)
    found = {
        event.name: event.time
        for event in find_events(t, common_attention=common, distinct_attention=distinct)
    }
    assert found["common_suppressed"] == pytest.approx(10 * (0.2 / 0.8) ** 0.25, rel=0.01)
    assert found["winner_emerges"] == pytest.approx(100 * (0.3125 / 0.6875) ** 0.25, rel=0.01)
    assert 100 < found["attention_snapped"] < 1e3


def test_what_keeps_moving_has_not_snapped_and_what_stands_still_has_no_stage():
    t = np.append(0.0, np.geomspace(0.1, 1e6, 301))
    creeping = (0.6 - 0.01 * np.log1p(t))[:, None]
    distinct = np.stack([0.5 * (1 - creeping[:, 0])] * 2, axis=1)[:, None, :]
    names = [
        event.name
        for event in find_events(t, common_attention=creeping, distinct_attention=distinct)
    ]
    assert names == ["common_suppressed"]
    still = np.full((302, 1), 0.5)
    assert (
        find_events(t, common_attention=still, distinct_attention=np.full((302, 1, 2), 0.25)) == []
    )
