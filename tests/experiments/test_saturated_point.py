"""Appendix D on its own chains: verdicts, and that a formula a little off is seen."""

from __future__ import annotations

from functools import partial

import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.saturated_point import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("saturated-point")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme("saturated-point", claims)


@pytest.mark.parametrize(
    ("formula", "title"),
    [("J1", "J₁, largest"), ("B", "third derivatives"), ("f2", "|f₂|"), ("H1", "H₁/δ, largest")],
)
def test_a_formula_that_is_off_by_a_millionth_is_seen(record, formula, title):
    worse = record.copy(deep=True)
    worse.gap.loc[{"formula": formula}] = 1e-6
    assert verdicts(worse, title) == {FAILS}


def test_a_rate_that_is_off_by_a_thousandth_is_seen(record):
    worse = record.assign(
        opening_rate=1.001 * record.opening_rate, transverse=1.001 * record.transverse
    )
    assert verdicts(worse, "opening rate / ") == {FAILS}
    assert verdicts(worse, "opening rates / closed form") == {FAILS}


def test_kernel_rates_as_printed_would_be_seen(record):
    worse = record.assign(kernel_rate=record.kernel_rate + 2 * record.asymmetry**2)
    assert verdicts(worse, "largest kernel rate / δ²") == {FAILS}
    assert verdicts(worse, "tangential rates at θ(δ)") == {FAILS}


def test_a_gradient_of_third_order_would_agree_with_the_paper(record):
    cubes = 0 * record.remainder + record.asymmetry**3
    assert verdicts(record.assign(remainder=cubes), "printed as of order δ³") == {FAILS}
    assert verdicts(record.assign(truncated=cubes), "with ζ to first order only") == {FAILS}


def test_a_flat_loss_is_no_descent(record):
    flat = {name: 0 * record[name] + 1e-16 for name in ("loss_change", "skewed_change")}
    assert verdicts(record.assign(flat), "change of the loss") == {FAILS}


def test_a_seventh_order_that_is_left_out_is_seen(record):
    even = record.skewed_change.mean("sign") + 0 * record.skewed_change
    assert verdicts(record.assign(skewed_change=even), "rare tokens apart along") == {FAILS}


def test_a_chain_without_the_point_is_named():
    with pytest.raises(InputError, match="`stay`"):
        EXPERIMENT.run(Settings(stays=(0.3, 0.8, 0.5, 0.5)))
    for changed in (
        {"masses": 0.0},
        {"stays": 1e30},
        {"stays": 1.0},
        {"strengths": 1e30},
        {"strengths": -6.0},
    ):
        with pytest.raises(InputError, match=f"`{next(iter(changed))}` must be"):
            EXPERIMENT.run(
                Settings(
                    **{"masses": (0.6,), "stays": (0.6,), "strengths": (6.0,)}
                    | {k: (v,) for k, v in changed.items()}
                )
            )
    with pytest.raises(
        InputError, match=r"`asymmetries` must be below the frequency of a rare token, 0\.005"
    ):
        EXPERIMENT.run(Settings(masses=(0.99,), stays=(0.97,), strengths=(6.0,)))
    with pytest.raises(InputError, match="tokens"):
        EXPERIMENT.run(Settings(tokens=(2,)))


def test_other_random_chains_hold_as_well():
    other = EXPERIMENT.run(
        Settings(masses=(0.55,), stays=(0.7,), strengths=(3.0,), tokens=(4,), seed=5)
    )
    assert all(claim.as_expected for claim in EXPERIMENT.claims(other))
    assert len(EXPERIMENT.figure(other).axes) == 3


def test_ones_own_laws_and_strong_attention_hold_or_are_outside():
    """Strong attention needs small contrasts; weak attention changes the loss by less than
    rounding; equal tokens open nothing.
    """
    own = Settings(
        masses=(0.8, 0.4, 0.5),
        stays=(0.9, 0.3, 0.6),
        strengths=(2.0, 30.0, 0.3),
        tokens=(4,),
        random_high=0.6,
        laws=("0.4 of 5", "paper", "0.5,0.3,0.2"),
        law_stays=(0.9, 0.8, 0.7),
    )
    found = EXPERIMENT.run(own)
    claims = list(EXPERIMENT.claims(found))
    assert not [claim.label for claim in claims if claim.is_surprise]
    of_law = {
        law: {claim.verdict for claim in claims if f"law {law}" in claim.label} for law in own.laws
    }
    assert of_law == {"0.4 of 5": {HOLDS, OUTSIDE}, "paper": {OUTSIDE}, "0.5,0.3,0.2": {HOLDS}}
    assert found.separation.isel(chain=0).values.tolist() == list(own.contrasts)
    assert (found.separation.isel(chain=1).values < own.contrasts).all()
