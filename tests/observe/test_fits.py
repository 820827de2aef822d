"""Numbers read off curves: what is not there is not found."""

from __future__ import annotations

from saccade.observe import fits


def test_a_rise_needs_a_sample_below_it_and_one_after_it():
    assert fits.rise_index([0.5, 0.1, 0.4, 0.6, 0.2, 0.9], 0.4) == 2
    assert fits.rise_index([0.5, 0.6, 0.7], 0.4) is None
    assert fits.rise_index([0.1, 0.2, 0.5], 0.4) is None
