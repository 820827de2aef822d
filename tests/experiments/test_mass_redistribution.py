"""Theorem 3.7: every verdict as expected, and wrong numbers fail."""

from __future__ import annotations

from functools import partial

import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import mass_redistribution
from saccade.experiments.focus_and_dilution.mass_redistribution import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS
from saccade.model.rank_one import RankOne
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("mass-redistribution")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme("mass-redistribution", claims)


def test_a_contrast_one_percent_off_is_seen(record):
    assert verdicts(record.assign(contrast=1.01 * record.contrast), "largest relative gap") == {
        FAILS
    }


def test_growth_at_the_rate_of_the_queries_is_seen(record):
    assert verdicts(record.assign(rate=record.rate / 2), "twice the c") == {FAILS}


def test_a_frequent_token_that_gains_would_agree_with_the_paper(record):
    assert verdicts(
        record.assign(moved_high=abs(record.moved_high)), "at least 0, or falling too"
    ) == {FAILS}


def test_too_strong_attention_is_refused():
    with pytest.raises(InputError, match="attention_size"):
        EXPERIMENT.run(Settings(attention_size=0.1))


def test_ones_own_law_holds_and_one_of_unequal_low_tokens_is_refused():
    found = EXPERIMENT.run(
        Settings(laws=("0.5 of 7", "0.36 of 3"), stays=(0.6,), n_times=300)
    )  # the second is nearly even
    assert {claim.verdict for claim in EXPERIMENT.claims(found) if not claim.breaks} == {HOLDS}
    with pytest.raises(InputError, match="`laws`"):
        EXPERIMENT.run(Settings(laws=("paper",), stays=(0.6,)))


def test_a_linear_law_asked_for_too_long_is_seen(monkeypatch):
    monkeypatch.setattr(mass_redistribution, "MOVED", 0.1)
    found = EXPERIMENT.run(Settings(laws=("0.4 of 3",), stays=(0.5,), n_times=300))
    assert verdicts(found, "largest relative gap") == {FAILS}


def test_the_velocities_of_the_paper_are_held_against_the_flow_of_the_model(monkeypatch):
    """Not against a formula of our own: a model whose flow is another is seen."""
    law = Settings().chains["0.6 of 4"]
    assert mass_redistribution._velocity_gap(law, law.chain) < 1e-14
    monkeypatch.setattr(
        mass_redistribution,
        "velocity",
        lambda point, setting: RankOne(*(1.001 * part for part in point)),
    )
    assert mass_redistribution._velocity_gap(law, law.chain) > 1e-3
