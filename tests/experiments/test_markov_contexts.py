"""Contexts of a chain: every verdict as expected, and wrong numbers fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import markov_contexts
from saccade.experiments.focus_and_dilution.markov_contexts import EXPERIMENT, Settings
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE
from saccade.theory.focus_and_dilution import contexts
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)

ENDS = {"gradient_gap": "length", "frequency_gap": "length", "bias_gap": "place"}


@pytest.fixture(scope="module")
def record():
    return record_of("markov-contexts")


def test_every_verdict_is_the_expected_one(record):
    """Contexts of the published length hardly show the rarest token: there the rate is not asked."""
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    outside = [claim for claim in claims if claim.verdict == OUTSIDE]
    kinds = ("{}", "Metropolis, {}", "cycle, {}")
    assert [claim.case["chain"] for claim in outside] == [
        kind.format(law) for kind in kinds for law in ("paper", "0.6 of 4")
    ]
    assert all(
        claim.case["length"] == 19 and "times the expected" in claim.label for claim in outside
    )
    assert_as_in_the_readme("markov-contexts", claims)


@pytest.mark.parametrize(
    "name, part",
    [
        ("table_gap", "drawn transitions"),
        ("model_gap", "by position"),
        ("power_gap", "P^t"),
        ("return_gap", "return"),
    ],
)
def test_a_gap_is_seen(record, name, part):
    assert verdicts(record.assign({name: record[name] + 10}), part) == {FAILS}


def test_frequencies_two_percent_off_their_exact_distance_are_seen(record):
    assert verdicts(
        record.assign(frequency_spread=1.02 * record.frequency_spread), "root mean square distance"
    ) == {FAILS}


def test_noise_of_few_sequences_is_no_failure():
    few = record_of("markov-contexts", n_sequences=2000)
    assert (
        abs(few.frequency_spread / record_of("markov-contexts").frequency_spread - 1).max() > 0.02
    )
    assert verdicts(few, "root mean square distance") == {HOLDS}


def test_rounding_of_ten_tokens_is_no_failure():
    assert verdicts(
        record_of("markov-contexts", laws=("0.6 of 10",), stays=(0.5,), n_sequences=2000), "P^t"
    ) == {HOLDS}


def verdicts_of_the_rate():
    """In the longest contexts of each chain."""
    short = EXPERIMENT.run(
        Settings(laws=("0.6 of 4",), stays=(0.5,), lengths=(20, 40), n_sequences=1000)
    )
    claims = [
        claim for claim in EXPERIMENT.claims(short) if "expected gradient's gap" in claim.label
    ]
    return {
        claim.case["chain"].split(",")[0]: claim.verdict
        for claim in claims
        if claim.case["length"] > 19
    }


def test_a_chain_not_run_backwards_is_seen_where_it_differs(monkeypatch):
    def forwards(*, stationary, transition):
        echoes = contexts._echoes(stationary, transition) - stationary
        return echoes + echoes.mean(axis=0)

    assert set(verdicts_of_the_rate().values()) == {HOLDS}
    monkeypatch.setattr(contexts, "frequency_excess", forwards)
    assert verdicts_of_the_rate() == {"0.6 of 4": HOLDS, "Metropolis": HOLDS, "cycle": FAILS}


def orthogonal(bias):
    """Off by 0.7 of its size, its part along the right matrix unchanged."""
    other = np.arange(bias.size).reshape(bias.shape) % 3 - 1.0
    other -= np.sum(other * bias) / np.sum(bias**2) * bias
    return bias + 0.7 * np.linalg.norm(bias) / np.linalg.norm(other) * other


@pytest.mark.parametrize(
    "broken",
    [orthogonal, lambda bias: 0.6 * bias, lambda bias: 2 * bias],
    ids=["aside", "small", "large"],
)
def test_a_wrong_matrix_is_seen(monkeypatch, broken):
    right = markov_contexts.theory.gradient_bias
    monkeypatch.setattr(
        markov_contexts.theory, "gradient_bias", lambda *args, **law: broken(right(*args, **law))
    )
    assert set(verdicts_of_the_rate().values()) == {FAILS}


def test_a_gradient_that_keeps_its_gap_is_seen(record):
    grown = {name: record[name].isel({axis: slice(None, None, -1)}) for name, axis in ENDS.items()}
    assert verdicts(
        record.assign({name: one.variable for name, one in grown.items()}), "come closer to"
    ) == {FAILS}
    assert verdicts(
        record.assign({name: one.variable for name, one in grown.items()}),
        "comes closer to its limit",
    ) == {FAILS}
    kept = record.assign({name: 0 * record[name] + 0.1 for name in ENDS})
    assert verdicts(kept, "closer to its limit") == {CANNOT_TELL}


def test_a_fall_within_the_noise_of_few_sequences_cannot_be_told():
    """Some seeds would have it rise."""
    short = EXPERIMENT.run(
        Settings(laws=("0.6 of 4",), stays=(0.5,), lengths=(150, 160), n_sequences=1000)
    )
    assert verdicts(short, "the gradient comes closer to its limit") == {CANNOT_TELL}


def test_a_last_token_that_has_forgotten_the_start_is_seen(record):
    forgotten = record.last_token.copy(
        data=[[0.75, 0.19, 0.05, 0.01], [0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3]]
    )
    assert FAILS in verdicts(record.assign(last_token=forgotten), "last of 19 tokens, largest gap")


def test_one_length_is_too_few():
    with pytest.raises(InputError, match="lengths"):
        EXPERIMENT.run(Settings(lengths=(20,)))


def test_a_token_too_rare_for_any_length_leaves_the_rate_outside(monkeypatch):
    monkeypatch.setattr(markov_contexts, "LONGEST", 60)
    rare = EXPERIMENT.run(
        Settings(laws=("paper",), stays=(0.8,), lengths=(20, 40), n_sequences=1000)
    )
    assert rare.bias_length.max() == 60
    assert verdicts(rare, "times the expected gradient's gap") == {OUTSIDE}
