"""The Adam experiment: what it reads off a run, and why noise-free Adam waits."""

from __future__ import annotations

import re

import numpy as np
import pytest

from saccade.experiments.focus_and_dilution import focus_dilution_adam as adam
from saccade.experiments.focus_and_dilution.focus_dilution_adam import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.schema import with_settings
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import OUTCOMES
from tools.results_tables import filled


@pytest.fixture(scope="module")
def small():
    return record_of(
        "focus-dilution-adam",
        steps=600,
        seeds=3,
        saves=60,
        batch=64,
        context=31,
        sequences=499,
        t1=200.0,
    )


def test_noise_free_adam_moves_every_token_alike(small):
    quiet = small.sel(regime="noise-free")
    assert adam.when_half_grown(quiet.direction_uniform, quiet).min() > 0.999
    assert adam.when_half_grown(quiet.direction_law, quiet).max() < 0.7


def test_epsilon_is_what_noise_free_adam_waits_for(small):
    """Same start, same gradients: only the size below which Adam stops rescaling them differs."""
    usual, sensitive = (
        adam.moved_at(small.sel(regime=f"noise-free{name}")) for name in ("", ", small epsilon")
    )
    assert sensitive.notnull().all()
    assert (usual.fillna(np.inf) > sensitive).all()


def test_the_first_move_is_read_off_the_step_it_happens(small):
    runs = small.sel(regime="noise-free").copy(deep=True)
    runs["on_frequent"][:] = runs.share
    runs["on_frequent"][1, 7:, 2] -= 0.05
    assert adam.moved_at(runs)[1] == runs.time[7]
    assert adam.moved_at(runs)[[0, 2]].isnull().all()
    np.testing.assert_array_equal(adam.first_side(runs), [np.nan, -1, np.nan])


def test_other_settings_are_outside_the_claims(small):
    assert {claim.verdict for claim in EXPERIMENT.claims(small)} == {OUTSIDE}


def test_what_the_readme_says_is_measured_by_claims(small):
    """The words only: with these settings the numbers are others."""
    sentence = filled(
        "focus-dilution-adam",
        EXPERIMENT.finding,
        [claim.as_dict() for claim in EXPERIMENT.claims(small)],
    )
    words, kept = (
        re.sub(r"\d+", "", text) for text in (sentence, OUTCOMES["focus-dilution-adam"]["finding"])
    )
    assert words == kept


def test_the_table_has_a_row_for_every_run(small):
    rows = EXPERIMENT.rows(small)
    assert [(row["regime"], row["seed"]) for row in rows] == [
        (name, seed) for name in adam.REGIMES for seed in range(3)
    ]


def by_default(small):
    """The small record under the settings that the claims are about."""
    return with_settings(small.copy(deep=True), Settings())


def verdict(record, words):
    (claim,) = [claim for claim in EXPERIMENT.claims(record) if words in claim.label]
    return claim.verdict


def test_claims_hold_or_fail_by_what_was_measured(small):
    record = by_default(small)
    words = "attention of all queries at once"
    record["on_frequent"][:] = 0.97
    assert verdict(record, words) == HOLDS
    record["on_frequent"].loc[{"query": 2}] = 0.6
    assert verdict(record, words) == FAILS
    assert verdict(record, "vector of ones") == HOLDS
    record["direction_uniform"][:] = 0.9
    assert verdict(record, "vector of ones") == FAILS
    record["pull"][:] = 1e-6
    assert verdict(record, "below Adam's epsilon") == FAILS


def test_a_drive_of_the_other_sign_fails_the_claim_about_sides(small):
    record = by_default(small)
    quiet = {"regime": "noise-free"}
    record["on_frequent"].loc[quiet] = record.share + 0.05
    record["drive"].loc[quiet] = 1e-9
    assert verdict(record, "to the side of the drive") == HOLDS
    record["drive"].loc[quiet] = -1e-9
    assert verdict(record, "to the side of the drive") == FAILS
