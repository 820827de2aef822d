"""Dilution: how the drift is measured."""

import numpy as np
import pytest

import saccade
from saccade.experiments.focus_and_dilution import dilution as question
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.experiments.focus_and_dilution.named_laws import EqualLow


@pytest.fixture(scope="module")
def path():
    """The paper's chain from the unigram point."""
    chain = saccade.MarkovChain.paper(0.3)
    return question._path(stages.flow_from_unigram(chain, 1e-5, 0, 500), chain)


def test_a_drift_two_percent_too_far_is_two_percent_off(path):
    gamma = path.along.gamma
    further = path.along._replace(gamma=gamma[0] + 1.02 * (gamma - gamma[0]))
    assert path.amplitude_gap < 2e-3
    assert path._replace(along=further).amplitude_gap == pytest.approx(0.02, abs=2e-3)


def test_focus_peaks_where_a_query_has_its_share_of_embedding_left():
    found = question._on_manifold(saccade.MarkovChain.paper(0.3), 2000)
    share, t = question.turns(found).share[3], found.along.time
    peak = t[np.argmax(found.on_frequent[:, 3])]
    gamma = found.along.gamma[:, 3]
    assert share == pytest.approx(np.interp(peak, t, gamma) / gamma[0], rel=0.01)


def test_formulas_that_are_linear_in_strength_fail_beyond_it(monkeypatch):
    one = EqualLow(0.4, 3, 0.5)
    assert question.contrast(one, one.chain).gap < 1e-3
    monkeypatch.setattr(question, "MOVED", 0.1)
    assert question.contrast(one, one.chain).gap > 1e-3
