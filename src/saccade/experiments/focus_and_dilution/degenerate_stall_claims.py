"""The claims of `degenerate_stall`.

Tolerances: 1e-12, 0.05 on powers of the asymmetry and 2 % on times per e-fold are what the theory asks for; 1 % on a growth rate in
a flow, as for every new direction; 0.5 % on a closed form. The escape time is 1 / asymmetry times a logarithm: growth from the
start until s2^2 is of the order of the asymmetry, when the new direction begins to speed itself up. So the power of the asymmetry
in it is -1 plus about 1 / (2 ln(1 / start)), a little more since stages I and II take their time, and is held to twice that. The
time per e-fold of the start has neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

import saccade
from saccade.experiments.focus_and_dilution import degenerate_escapes as escapes
from saccade.experiments.focus_and_dilution import stage_fits
from saccade.experiments.focus_and_dilution.stage_fits import furthest
from saccade.records.claim import Claim
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr

    from saccade.experiments.focus_and_dilution.degenerate_stall import Config

_PAPER, _DERIVED = "[chen2026, Theorem 3.9]", "[derived, degenerate point]"


def all_claims(record: xr.Dataset, config: Config) -> list[Claim]:
    limit = theory.critical_stay(config.high, config.n_vocab)
    flows, at_points, above = config.stays
    return [
        *_stall(record, config, {"IV stay below the critical one": flows < limit}),
        *_points(record, {"IV stay below the critical one": at_points < limit}),
        *_escapes(record, config, {"IV stay below the critical one": flows < limit}),
        *_breaking(record, config, {"IV stay above the critical one": above > limit}),
        *_diagram(record),
    ]


def _stall(record: xr.Dataset, config: Config, met: dict[str, bool]) -> list[Claim]:
    chain = saccade.MarkovChain.two_level(config.n_vocab, config.high, stay=config.stays[0])
    middle = theory.degenerate_point(
        high=config.high, n_vocab=config.n_vocab, stay=config.stays[0], high_attention=(1 + config.high) / 2
    )
    loss = theory.rank_one_loss(middle.state, stationary=chain.stationary, transition=chain.transition) - chain.optimal_loss
    end, when = record.sel(curve="symmetric").isel(sample=-1), f"at t = {config.t1:g}, equal low tokens"
    return [
        Claim(f"loss above the optimum {when}", _PAPER, loss, float(end.curve_loss), 5e-4, met),
        Claim(f"s2 / s1 of the embedding {when}", _PAPER, 0.0, float(end.curve_ratio), escapes.ESCAPED, met),
        Claim("|dL/dM| at the degenerate point", _PAPER, 0.0, float(record.decoder_gradient), 1e-12),
        Claim("|dL/dPhi| at the degenerate point", _PAPER, 0.0, float(record.logit_gradient), 1e-12),
    ]


def power(asymmetry: ArrayLike, values: ArrayLike) -> float:
    """p in values ~ asymmetry^p; NaN where a flow did not escape or a rate is not positive."""
    usable = np.isfinite(values).all() and np.all(np.asarray(values) > 0)
    return stage_fits.power(asymmetry, values) if usable else np.nan


def _points(record: xr.Dataset, met: dict[str, bool]) -> list[Claim]:
    asymmetry = record.point_asymmetry.values
    symmetric, perturbed = record.sel(point="symmetric"), record.sel(point="perturbed")
    smallest = perturbed.isel(point_asymmetry=int(np.argmin(asymmetry)))
    first_order = float(smallest.transverse_predicted)
    rows = [
        (
            "power of the asymmetry in the transverse rate, at the perturbed critical point",
            _PAPER,
            1.0,
            power(asymmetry, perturbed.transverse),
            0.05,
        ),
        (
            f"transverse rate at the perturbed critical point, asymmetry {asymmetry.min():g}",
            _DERIVED,
            first_order,
            float(smallest.transverse),
            0.005 * first_order,
        ),
        ("largest tangential rate at the perturbed critical points", _DERIVED, 0.0, furthest(perturbed.tangential, 0), 1e-12),
        (
            "power of the asymmetry in the transverse rate, at the symmetric point",
            _PAPER,
            1.0,
            power(asymmetry, symmetric.transverse),
            0.05,
        ),
        (
            "power of the asymmetry in the tangential rate, at the symmetric point",
            _PAPER,
            2.0,
            power(asymmetry, symmetric.tangential),
            0.05,
        ),
    ]
    return [Claim(*row, met) for row in rows]


def _escapes(record: xr.Dataset, config: Config, met: dict[str, bool]) -> list[Claim]:
    asymmetry = record.asymmetry.values
    larger, smaller = record.init_scale.values
    claims = [
        Claim(
            f"power of the asymmetry in the escape time, start {scale:g}",
            _DERIVED,
            -1.0,
            power(asymmetry, record.escape_time.sel(init_scale=scale)),
            float(1 / np.log(1 / scale)),
            met,
        )
        for scale in record.init_scale.values
    ]
    later = (record.escape_time.sel(init_scale=smaller) - record.escape_time.sel(init_scale=larger)).values / np.log(
        larger / smaller
    )
    predicted, opening = _per_fold(record, config)
    claims.append(
        Claim(
            "escape time, longer per e-fold of a smaller start, over 1/mu0 + 1/c + 1/s1(B), furthest of all asymmetries",
            _DERIVED,
            1.0,
            furthest(later / predicted, 1.0),
            0.02,
            met,
        )
    )
    third = later - (predicted - opening)
    claims.append(
        Claim("power of the asymmetry in the part of it that is the opening's", _DERIVED, -1.0, power(asymmetry, third), 0.05, met)
    )
    return claims


def _per_fold(record: xr.Dataset, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Predicted time per e-fold of all three stages, and of the last alone."""
    rates = record.escape_rate.values
    chains = [
        saccade.MarkovChain.two_level(config.n_vocab, config.high, float(asymmetry), config.stays[0])
        for asymmetry in record.asymmetry.values
    ]
    return np.array([escapes.time_per_fold(chain, rate=rate) for chain, rate in zip(chains, rates, strict=True)]), 1 / rates


def _breaking(record: xr.Dataset, config: Config, met: dict[str, bool]) -> list[Claim]:
    run, rate = record.sel(curve="symmetric, long stay"), float(record.parting_predicted)
    at = f"equal low tokens, stay {config.stays[2]:g}"
    return [
        Claim(f"loss above the optimum at t = {config.t1:g}, {at}", _DERIVED, 0.0, float(run.curve_loss[-1]), 1e-6, met),
        Claim(f"growth rate of the spread of low tokens, {at}", _DERIVED, rate, float(record.parting_rate), 0.01 * rate, met),
    ]


def _diagram(record: xr.Dataset) -> list[Claim]:
    predicted = [[theory.critical_stay(float(mass), int(n)) for mass in record.mass] for n in record.tokens]
    gap = record.critical_stay.values - np.array(predicted)[..., None]
    n = gap.size
    return [
        Claim(f"critical stay against the Jacobian's, furthest of {n} points", _DERIVED, 0.0, furthest(gap, 0), 1e-6),
        Claim(f"largest velocity at these {n} points", _DERIVED, 0.0, furthest(record.critical_residual, 0), 1e-12),
    ]
