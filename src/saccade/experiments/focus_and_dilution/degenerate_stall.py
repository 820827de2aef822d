"""Low tokens of equal frequency stall the flow for good; an asymmetry frees it in a time inverse to it, a long stay breaks the tie.

Follows the flow on one frequent token and equal or nearly equal low ones, finds the critical points where it is held, and measures
the rates at which it leaves them: across the rank-one manifold and along it. Then looks for the stay at which exact symmetry breaks
by itself, over masses and numbers of tokens. At exact symmetry nothing but the random start tells low tokens apart.
Expected: no escape by t = 2e4 at exact symmetry, the loss where theory has it; transverse rates as the asymmetry, tangential ones
as its square at the symmetric point and none at the point that takes its place; escape times as the inverse asymmetry, times a
logarithm of the start; the critical stay where theory has it, to 1e-6. About 20 s on two cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import saccade
from saccade.errors import InputError, checked_count, checked_list, checked_number
from saccade.experiments.focus_and_dilution import degenerate_escapes as escapes
from saccade.experiments.focus_and_dilution import degenerate_points as points
from saccade.experiments.progress import stretch
from saccade.records.claim import Claim
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 20
WHAT = "Theorem 3.9, equal rare tokens"
EXPECTED = (
    "loss stalls {loss above*equal low tokens:.3f} above the optimum; rates as the asymmetry to the power {*transverse rate, at "
    "the symmetric point:.2f} off the rank-one manifold, {*tangential rate, at the symmetric point:.2f} along it; critical stay "
    "to 1e-6"
)

CAPTION = (
    "Top left: second over first singular value of the embedding. At exact symmetry it stays where the start left it, with an "
    "asymmetry it grows, and above the critical stay it grows without any. Top right: escape time against asymmetry; lines go as "
    "1 / asymmetry. Bottom left: growth rates of moves off the rank-one manifold and along it, at the symmetric point and at the "
    "critical point that takes its place, where the tangential rate is zero; dotted: theory. Bottom right: the stay above which "
    "exact symmetry breaks by itself, from theory (lines) and from the Jacobian (points)."
)

_NEARNESS = (1 / 3, 2 / 3)  # two of the degenerate points; the critical stay is the same at each
_DEFINITIONS = {
    "escape_time": ("steps of gradient descent at rate 1", f"when s2 / s1 of the embedding rises through {escapes.ESCAPED:g}"),
    "escape_rate": ("1/time", "s1(B) at the rank-one critical point of the chain"),
    "curve_time": ("steps of gradient descent at rate 1", "times of the curves"),
    "curve_ratio": ("1", "s2 / s1 of the embedding"),
    "curve_loss": ("nats", "loss above the optimum"),
    "parting_rate": ("1/time", "growth rate of the spread of low tokens at exact symmetry, above the critical stay"),
    "parting_predicted": ("1/time", "the same from the Hessian of the degenerate point that the flow is at"),
    "decoder_gradient": ("1", "|dL/dM| at the degenerate point"),
    "logit_gradient": ("1", "|dL/dPhi| at the degenerate point"),
    "transverse": ("1/time", "s1(B): how fast a second direction opens"),
    "tangential": ("1/time", "largest growth rate on the rank-one manifold"),
    "transverse_predicted": ("1/time", "transverse rate at the perturbed point to first order in the asymmetry"),
    "critical_stay": ("1", "stay at which the largest rate of moves that sum to zero over low tokens is zero"),
    "critical_residual": ("1/time", "norm of the velocity there"),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

    n_vocab: int = 4
    """tokens"""
    high: float = 0.6
    """mass of token 0"""
    stays: tuple[float, float, float] = (0.5, 0.3, 0.9)
    """chance of repeating the last token: of the flows, of the critical points, and above the critical one"""
    asymmetries: tuple[float, ...] = (0.04, 0.02, 0.01, 0.005, 0.0025)
    """differences of low tokens' masses in the flows, at least two"""
    point_asymmetries: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5)
    """the same for critical points, at least two"""
    init_scales: tuple[float, float] = (1e-3, 1e-5)
    """sizes of the random start, a larger and a smaller one"""
    t1: float = 2e4
    """end of the flows at exact symmetry, steps"""
    n_times: int = 600
    """samples of each flow, log-spaced"""
    masses: tuple[float, ...] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """masses of token 0 in the diagram"""
    tokens: tuple[int, ...] = (3, 4, 6, 10, 20)
    """numbers of tokens in the diagram"""
    seed: int = 0
    """names the random start"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    config = _checked(config)
    left = _escapes(config, stretch(on_progress, 0.0, 0.7))
    held = _points(config)
    on_progress(0.8)
    return _record(left | held | _diagram(config), config, time.perf_counter() - started)


def _checked(config: Config) -> Config:
    for name in ("asymmetries", "point_asymmetries", "init_scales"):
        if len(checked_list(name, getattr(config, name), low=1e-8, high=0.1)) < 2:
            raise InputError(f"`{name}` must list at least two values: a power is fitted to them.")
    for stay in config.stays:
        checked_number("stays", stay, low=0.0, high=1.0, open_low=True)
    checked_count("n_vocab", config.n_vocab, low=3)
    checked_count("n_times", config.n_times, low=10)
    for n_vocab in config.tokens:
        checked_count("tokens", n_vocab, low=3, high=64)
    for high in config.masses:
        checked_number("masses", high, low=1 / min(config.tokens), high=0.95, open_low=True)
    return config


def _chain(config: Config, stay: float, asymmetry: float = 0.0) -> saccade.MarkovChain:
    return saccade.MarkovChain.two_level(config.n_vocab, config.high, asymmetry, stay)


def _escapes(config: Config, on_progress: Callable[[float], None]) -> dict[str, Any]:
    """Flows with each asymmetry from each start, then at exact symmetry below and above the critical stay."""
    stay, _, above = config.stays
    sampled = {"seed": config.seed, "n_times": config.n_times}
    chains = [_chain(config, stay, asymmetry) for asymmetry in config.asymmetries]
    rates = [points.transverse_rate(chain, points.rank_one_point(chain)) for chain in chains]
    runs: list[list[escapes.Escape]] = []
    for i, (chain, rate) in enumerate(zip(chains, rates, strict=True)):
        ends = {scale: escapes.patience(chain, rate=rate, init_scale=scale) for scale in config.init_scales}
        runs.append([escapes.escape(chain, init_scale=scale, t1=t1, **sampled) for scale, t1 in ends.items()])
        on_progress((i + 1) / (len(chains) + 1))
    stalled, broken = (
        escapes.escape(_chain(config, s), init_scale=config.init_scales[0], t1=config.t1, **sampled) for s in (stay, above)
    )
    slow = escapes.escape(_chain(config, above), init_scale=config.init_scales[-1], t1=config.t1, **sampled)
    parting = escapes.parting(slow, high=config.high, n_vocab=config.n_vocab, stay=above)
    curves = [*(of_chain[0] for of_chain in runs), stalled, broken]
    return {
        "escape_time": (("asymmetry", "init_scale"), [[one.escape_time for one in of_chain] for of_chain in runs]),
        "escape_rate": (("asymmetry",), rates),
        "curve_time": (("curve", "sample"), [one.time for one in curves]),
        "curve_ratio": (("curve", "sample"), [one.ratio for one in curves]),
        "curve_loss": (("curve", "sample"), [one.loss_gap for one in curves]),
        "parting_rate": ((), parting.rate),
        "parting_predicted": ((), parting.predicted),
    }


def _points(config: Config) -> dict[str, Any]:
    """Rates at the symmetric point, in chains that are not symmetric, and at the critical point that takes its place there."""
    chains = [_chain(config, config.stays[1], asymmetry) for asymmetry in config.point_asymmetries]
    even = _chain(config, config.stays[1])
    symmetric = points.rank_one_point(even)
    found = [(symmetric, points.rank_one_point(chain)) for chain in chains]
    gradients = points.gradients_at(even, symmetric)
    ideal = theory.degenerate_point(
        high=config.high, n_vocab=config.n_vocab, stay=config.stays[1], high_attention=points.self_attention(even, symmetric)
    )
    axes = ("point_asymmetry", "point")
    return {
        "decoder_gradient": ((), gradients.decoder),
        "logit_gradient": ((), gradients.attention_logits),
        "transverse": (axes, [[points.transverse_rate(chain, at) for at in pair] for chain, pair in zip(chains, found)]),
        "tangential": (axes, [[points.tangential_rate(chain, at) for at in pair] for chain, pair in zip(chains, found)]),
        "transverse_predicted": (
            axes[:1],
            [theory.transverse_rate(ideal, asymmetry=chain.stationary[1:] - even.stationary[1:]) for chain in chains],
        ),
    }


def _diagram(config: Config) -> dict[str, Any]:
    axes = ("tokens", "mass", "nearness")
    found = np.array(
        [
            [[points.critical_stay_found(high=high, n_vocab=n, nearness=near) for near in _NEARNESS] for high in config.masses]
            for n in config.tokens
        ]
    )
    return {"critical_stay": (axes, found[..., 0]), "critical_residual": (axes, found[..., 1])}


def _record(variables: dict[str, Any], config: Config, wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    record = make_record(
        dynamics="B: population gradient flow, embedded model",
        variables=variables,
        coords={
            "asymmetry": list(config.asymmetries),
            "init_scale": list(config.init_scales),
            "point_asymmetry": list(config.point_asymmetries),
            "point": ["symmetric", "perturbed"],
            "curve": [*(f"asymmetry {asymmetry:g}" for asymmetry in config.asymmetries), "symmetric", "symmetric, long stay"],
            "tokens": list(config.tokens),
            "mass": list(config.masses),
            "nearness": list(_NEARNESS),
        },
        time_unit="steps of gradient descent at rate 1",
        config={"n_vocab": config.n_vocab, "high": config.high},
        wall_time=wall_time,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def settings(record: xr.Dataset) -> Config:
    return Config(**json.loads(record.attrs["settings"]))


def claims(record: xr.Dataset) -> list[Claim]:
    from saccade.experiments.focus_and_dilution.degenerate_stall_claims import all_claims

    return all_claims(record, settings(record))


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each escape, each critical point and each cell of the diagram."""
    rows = [
        _row("escape", f"start {scale:g}", asymmetry, record.escape_time.sel(asymmetry=asymmetry, init_scale=scale))
        for asymmetry in record.asymmetry.values
        for scale in record.init_scale.values
    ]
    rows += [
        _row(f"{kind} rate", f"{point} point", asymmetry, record[kind].sel(point_asymmetry=asymmetry, point=point))
        for kind in ("transverse", "tangential")
        for point in record.point.values
        for asymmetry in record.point_asymmetry.values
    ]
    stays = record.critical_stay.mean("nearness")
    cells = [(n, mass) for n in record.tokens.values for mass in record.mass.values]
    return rows + [_row("critical stay", f"{n} tokens", mass, stays.sel(tokens=n, mass=mass)) for n, mass in cells]


def _row(what: str, where: str, at: float, value: Any) -> dict[str, Any]:
    return {"what": what, "where": where, "asymmetry_or_mass": float(at), "value": float(value)}


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.focus_and_dilution.degenerate_stall_figure import draw

    return draw(record)
