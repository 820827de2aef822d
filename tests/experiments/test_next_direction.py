"""The next direction: openings of a short flow, points where attention has not grown."""

import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import degenerate_points as points
from saccade.experiments.focus_and_dilution import next_direction as question
from saccade.models.embedded import weights_of


def test_the_first_direction_is_condensation_and_a_short_flow_opens_no_other():
    chain = saccade.MarkovChain.paper(0.3)
    run = saccade.flow(chain, t1=100.0, n_times=200, model=saccade.models.Embedded(init_scale=1e-5))
    run = run.isel(seed=0)
    (one,) = question.openings(chain, run.time.values, weights_of(run))
    pi = chain.stationary
    assert one.predicted_rate == pytest.approx(np.linalg.norm(pi) * np.std(pi) * 2, rel=2e-3)
    assert one.rate == pytest.approx(one.predicted_rate, rel=0.01)


def test_a_slow_rank_one_flow_is_followed_past_the_unigram_saddle():
    """Here attention takes about 700 units of time for each e-fold."""
    chain = saccade.MarkovChain.two_level(3, 0.5, 0.01, 0.3)
    point = points.rank_one_point(chain)
    assert point.query > 0.5
    assert points.transverse_rate(chain, point) == pytest.approx(1.55e-3, rel=5e-3)


def test_a_point_at_which_attention_has_not_grown_is_refused(monkeypatch):
    monkeypatch.setattr(points, "_FOLDS", 0.3)
    with pytest.raises(InputError, match="still at the unigram point"):
        points.rank_one_point(saccade.MarkovChain.two_level(3, 0.5, 0.01, 0.3))
