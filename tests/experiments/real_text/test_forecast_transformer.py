"""The first force against a Transformer: scores of a small run, and that a law which told it all would be seen."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.real_text.forecast_transformer import EXPERIMENT, Scores
from saccade.lab.claim import HOLDS
from tests.experiments.default_runs import record_of

SMALL = {
    "text": "sotu",
    "seeds": 2,
    "n_vocab": 61,
    "window": 7,
    "n_windows": 800,
    "queries": 3,
    "batch": 16,
    "least_count": 2,
    "steps": (10, 25),
}


@pytest.fixture(scope="module")
def record():
    return record_of("forecast-transformer", **SMALL)


def test_a_law_that_is_the_run_itself_scores_one_and_cannot_be_told_from_noise_alone(record):
    """All runs alike and the law one of them: then every claim above chance holds. As they are, four short runs hardly agree."""
    one = record.score.isel(half=0, seed=0)
    same = record.assign(score=one.broadcast_like(record.score).transpose(*record.score.dims), force=one.isel(time=-1))
    scores = Scores(same, 2)
    np.testing.assert_allclose(scores.of("first force")[-1], 1)
    np.testing.assert_allclose(scores.two_seeds(), 1)
    np.testing.assert_allclose(scores.two_halves(), 1)
    assert [claim.verdict for claim in EXPERIMENT.claims(same) if "above that" not in claim.title] == [HOLDS, HOLDS]
    assert (Scores(record, 2).two_halves() < 0.9).all()


def test_table_and_figure_can_be_made(record):
    assert len(EXPERIMENT.rows(record)) == 2
    assert len(EXPERIMENT.figure(record).axes) == 2
