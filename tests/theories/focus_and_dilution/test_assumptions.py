"""The validator: one broken assumption fails its own condition, with the number that decides it."""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    check_assumptions,
    condensation_rate,
    focus_rate,
    lazy_fit,
)

from .chains import CHAINS, PAPER_LAW, ZIPF, irreversible, lazy, two_level

MET = {"n_context": np.inf, "init_scale": 1e-3, "d_model": 8}


def check(chain, **changed):
    return {c.name: c for c in check_assumptions(**chain, **(MET | changed))}


def failing(conditions):
    return {name for name, condition in conditions.items() if not condition.holds}


@pytest.mark.parametrize("chain", ["paper", "zipf"])
def test_the_published_chain_and_the_default_one_meet_every_assumption(chain):
    assert failing(check(CHAINS[chain])) == set()


@pytest.mark.parametrize(
    ("chain", "changed", "broken"),
    [
        (lazy(PAPER_LAW, 0.3), {"n_context": 50}, "data, long contexts"),
        (lazy(PAPER_LAW, 0.3), {"init_scale": 0.1}, "stage I, small start"),
        (lazy(PAPER_LAW, 0.3), {"lr_attention": 30.0}, "stage I, attention at rest"),
        (lazy(PAPER_LAW, 0.3), {"d_model": 2}, "stage IV, room for directions"),
        (lazy(ZIPF, -0.05), {}, "stage II, positive focus rate"),
        (two_level(0.6, 4, 0.3), {}, "stage IV, distinct frequencies"),
        (irreversible(), {}, "data, lazy chain"),
    ],
)
def test_breaking_one_assumption_fails_that_condition_alone(chain, changed, broken):
    assert failing(check(chain, **changed)) == {broken}


def test_a_law_that_is_not_stationary_is_named():
    chain = irreversible() | {"stationary": np.array([0.5, 0.2, 0.15, 0.1, 0.05])}
    assert "data, stationary law" in failing(check(chain))


def test_a_uniform_law_has_nothing_to_condense_to():
    conditions = check(lazy(np.full(5, 0.2), 0.3))
    assert {
        "stage I, unequal tokens",
        "stage II, positive focus rate",
        "stage IV, distinct frequencies",
    } <= failing(conditions)
    assert "stage I, attention at rest" not in conditions


def test_conditions_carry_the_rates_they_are_decided_by():
    scaled = {"phi_scale": 0.5, "lr_decoder": 2.0, "lr_attention": 3.0}
    conditions = check(CHAINS["zipf"], **scaled)
    rate = focus_rate(**CHAINS["zipf"], phi_scale=0.5, lr_attention=3.0)
    assert conditions["stage II, positive focus rate"].value == rate
    assert conditions["stage I, attention at rest"].value == pytest.approx(
        rate / condensation_rate(stationary=ZIPF, lr_decoder=2.0)
    )


def test_room_for_directions_is_left_out_when_unknown():
    assert "stage IV, room for directions" not in check(CHAINS["zipf"], d_model=None)


@pytest.mark.parametrize("stay", [0.3, -0.05])
def test_the_stay_of_a_lazy_chain_is_recovered(stay):
    fit = lazy_fit(**lazy(ZIPF, stay))
    assert fit.stay == pytest.approx(stay, rel=1e-12)
    assert fit.misfit < 1e-15


def test_no_stay_fits_a_chain_better_than_the_one_found():
    chain = irreversible()
    stay, misfit = lazy_fit(**chain)
    squares = [
        np.sum((chain["transition"] - lazy(chain["stationary"], s)["transition"]) ** 2)
        for s in (stay - 1e-3, stay, stay + 1e-3)
    ]
    assert np.argmin(squares) == 1
    assert misfit == pytest.approx(
        np.abs(chain["transition"] - lazy(chain["stationary"], stay)["transition"]).max()
    )
