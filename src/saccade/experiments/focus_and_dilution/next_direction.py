"""A critical point is left along the first singular pair of one matrix, B, at the rate of its first singular value.

Follows the flow on two laws from a tiny random start and looks at each direction of the embedding as it opens, the first one
(condensation, out of the origin) included. Then leaves the origin and the unigram point with displacements of several sizes and
compares the flow with the linear flow, and finds the critical point that the second plateau is near.
Expected: growth s1(B) to 1 %, patterns to a cosine of .999 wherever the state hardly moves, which it does not at the fourth and
fifth direction of Zipf's law; the linear flow wrong by the square of the displacement at the unigram point and by its cube at the
origin, where the velocity has no quadratic term; one unstable mode at the unigram point for each key dimension, all with rate c.
About 10 s on two cores.
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
from saccade.experiments.focus_and_dilution import linear_stages as stages
from saccade.experiments.focus_and_dilution import openings, stage_fits
from saccade.experiments.progress import stretch
from saccade.records.claim import HOLDS, OUTSIDE, Claim
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 12
WHAT = "Lemma 3.1, which direction opens next"
EXPECTED = (
    "directions open at rates {growth rate of direction 1*law paper:.3g} and {growth rate of direction 2*law paper:.3g} (s_1(B) "
    "within 1 %), cosine with the predicted ones above 0.999"
)

CAPTION = (
    "Top left: singular values of the embedding, Zipf's law; a point marks where a direction opens, the dashed line has the slope "
    "s1(B) that theory gives for the state there. Top right: components of each new direction in all four matrices, from the run "
    "against those from B; on the line they agree, hollow points belong to states that still move. Bottom left: distance between "
    "the flow and the linear flow that leave the origin and the unigram point, Zipf's law, paler for smaller displacements. "
    "Bottom right: that distance three e-folds after the start. It goes as the cube of the displacement at the origin, where the "
    "velocity has no quadratic term, and as the square at the unigram point."
)

_CLOSE = 0.999  # least cosine of a new direction with the singular vectors of B
# A state that moves turns B, and the direction lags behind by about the angle that B turns in an e-fold: so far it may turn.
STILL = float(np.arccos(_CLOSE))
_KNOWN_TO_MOVE = (("zipf-6", 4), ("zipf-6", 5))  # where the state is not near a critical point when the direction opens

_POINTS = {
    "origin_gap": ("1", "largest difference between B at the origin and -pi (pi - 1/d)^T"),
    "residual": ("1/time", "norm of the velocity at the unigram point"),
    "n_unstable": ("1", "growing modes of the unigram point"),
    "rate_gap": ("1", "largest relative difference of their rates to |c|"),
    "attention_share": ("1", "least part of a growing mode that lies in query and key"),
    "plateau_residual": ("1/time", "norm of the velocity at the critical point found from the second plateau"),
    "plateau_rate_gap": ("1", "largest relative difference of its d_model - 1 fastest rates to s1(B)"),
}
_DEFINITIONS = (
    {f"opening_{name}": of for name, of in openings.DEFINITIONS.items()}
    | {f"departure_{name}": of for name, of in stages.DEFINITIONS.items()}
    | _POINTS
    | {"singular_values": ("1", "singular values of the embedding, largest first")}
)


@dataclass(frozen=True)
class Config:
    """Settings."""

    stays: tuple[float, float] = (0.3, 0.5)
    """chance of repeating the last token: in the paper's law, in Zipf's law"""
    init_scale: float = 1e-5
    """size of the random start; from larger ones new directions open before the plateau is reached"""
    fraction: float = 0.03
    """singular value, over the largest, at which a new direction is looked at"""
    t1: float = 5000.0
    """end of the flows, steps"""
    n_times: int = 1500
    """samples of each flow, log-spaced"""
    displacements: tuple[float, ...] = (1e-2, 3e-3, 1e-3, 3e-4)
    """sizes of the displacements from a critical point, at least two"""
    seed: int = 0
    """names the random start and the direction of the displacements"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    checked_number("fraction", config.fraction, low=0.0, high=0.5, open_low=True)
    scales = sorted(checked_list("displacements", config.displacements, low=1e-6, high=0.1), reverse=True)
    if len(scales) < 2:
        raise InputError("`displacements` must list at least two sizes: errors are compared between them.")
    if 0 in config.stays:
        raise InputError(
            "`stays` must not be 0: there the next token does not depend on the last, and the unigram point is never left."
        )
    laws = stage_fits.chains(config.stays)
    found = [_law(chain, scales, config, stretch(on_progress, i / 2, (i + 1) / 2)) for i, chain in enumerate(laws.values())]
    return _record(found, scales, config, time.perf_counter() - started)


def _law(chain: saccade.MarkovChain, scales: list[float], config: Config, on_progress: Callable[[float], None]) -> dict[str, Any]:
    model = saccade.Embedded(init_scale=checked_number("init_scale", config.init_scale, low=1e-8, high=0.1))
    n_times = checked_count("n_times", config.n_times, low=10)
    flowed = saccade.flow(chain, t1=config.t1, n_times=n_times, model=model, seeds=[config.seed], on_progress=on_progress)
    path = openings.path_of(flowed.isel(seed=0))
    start = stages.start_of(path)
    points = {name: stages.critical_weights(chain, name, start) for name in stages.POINTS}
    return {
        "path": path,
        "openings": openings.openings(path, config.fraction),
        "departures": [stages.departure(chain, weights, start, scales, n_samples=41) for weights in points.values()],
        **_at_points(chain, points, path, config.fraction),
    }


def _at_points(chain: saccade.MarkovChain, points: dict[str, Any], path: openings.Path, fraction: float) -> dict[str, float]:
    from saccade.dynamics.next_direction import opening_matrix

    modes = stages.point_modes(chain, points["unigram point"])
    plateau = stages.plateau_point(chain, path, rank=1, fraction=fraction)
    gap = opening_matrix(points["origin"], stages.setting(chain))[:, : chain.n_vocab]
    return {
        "origin_gap": float(np.abs(gap + theory.condensation_drive(stationary=chain.stationary)).max()),
        "residual": modes.residual,
        "n_unstable": float(modes.n_unstable),
        "rate_gap": float(np.abs(modes.rates / abs(stage_fits.focus_rate(chain)) - 1).max(initial=0.0)),
        "attention_share": modes.attention_share,
        "plateau_residual": np.nan if plateau is None else plateau.residual,
        "plateau_rate_gap": np.nan if plateau is None else float(np.abs(plateau.rates / plateau.predicted_rate - 1).max()),
    }


def _record(found: list[dict[str, Any]], scales: list[float], config: Config, wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    variables: dict[str, Any] = {}
    for name in openings.DEFINITIONS:
        values = _joined([getattr(at["openings"], name) for at in found])
        variables[f"opening_{name}"] = (("law", "opening", "component")[: values.ndim], values)
    for name in stages.DEFINITIONS:
        each = [[getattr(departure, name) for departure in at["departures"]] for at in found]
        variables[f"departure_{name}"] = (("law", "point", *stages.AXES.get(name, ("scale",))), each)
    variables |= {name: (("law",), [at[name] for at in found]) for name in _POINTS}
    variables["singular_values"] = (("law", "time", "rank"), _joined([at["path"].singular_values for at in found]))
    record = make_record(
        dynamics="B: population gradient flow, embedded model",
        variables=variables,
        coords={
            "law": list(stage_fits.LAWS),
            "point": list(stages.POINTS),
            "scale": scales,
            "opening": 1 + np.arange(variables["opening_time"][1].shape[1]),
            "time": found[0]["path"].time,
        },
        time_unit="steps of gradient descent at rate 1",
        config={"laws": list(stage_fits.LAWS)},
        wall_time=wall_time,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def _joined(parts: list[Any]) -> Any:
    """Arrays of different lengths as one, with a new first axis; NaN where a shorter one ends."""
    shape = np.max([part.shape for part in parts], axis=0)
    ends = [[(0, n - m) for n, m in zip(shape, part.shape)] for part in parts]
    return np.stack([np.pad(part, end, constant_values=np.nan) for part, end in zip(parts, ends)])


def claims(record: xr.Dataset) -> list[Claim]:
    return [claim for law in record.law.values for claim in _law_claims(record.sel(law=law), str(law))]


def _law_claims(record: xr.Dataset, law: str) -> list[Claim]:
    opened = [_opening_claims(record.sel(opening=k), law, int(k)) for k in _opened(record)]
    left = [_departure_claims(record.sel(point=name), law, str(name)) for name in record.point.values]
    return [claim for group in (*opened, *left, _point_claims(record, law)) for claim in group]


def _opened(record: xr.Dataset) -> Any:
    """Numbers of the directions that opened by the end of the run of one law."""
    return record.opening.values[np.isfinite(record.opening_time.values)]


def _opening_claims(opening: xr.Dataset, law: str, k: int) -> list[Claim]:
    still = {"IV state hardly moves": bool(opening.opening_drift <= STILL)}
    rate = float(opening.opening_predicted_rate)
    cosine = float(np.minimum(opening.opening_embedding_cosine, opening.opening_other_cosine))
    rows = [
        (f"growth rate of direction {k} as it opens against s1(B), law {law}", rate, float(opening.opening_rate), 0.01 * rate),
        (f"cosine of direction {k} with the singular vectors of B, the lower of both sides, law {law}", 1.0, cosine, 1 - _CLOSE),
    ]
    by_default = json.loads(opening.attrs["settings"]) == json.loads(json.dumps(asdict(Config())))
    expected = OUTSIDE if by_default and (law, k) in _KNOWN_TO_MOVE else HOLDS
    return [Claim(text, "[derived, next-direction rule]", p, m, tolerance, still, expected) for text, p, m, tolerance in rows]


def _departure_claims(left: xr.Dataset, law: str, point: str) -> list[Claim]:
    """Powers are held to 0.05, as those of the asymmetry are."""
    scales = left.scale.values
    power, angle = stage_fits.power(scales, left.departure_error_at), stage_fits.power(scales, left.departure_misalignment)
    order = {"origin": 3.0, "unigram point": 2.0}[point]
    lemma, at = "[chen2026, Lemma 3.1]", f"at the {point}, law {law}"
    return [
        Claim(
            f"by how much the power of the displacement in the linear flow's error falls short of 2, {at}",
            lemma,
            0.0,
            float(np.maximum(0.0, 2 - power)),
            0.05,
        ),
        Claim(f"power of the displacement in the linear flow's error, {at}", "[derived, linear flow]", order, power, 0.05),
        Claim(f"power of the displacement in the angle to the growing modes half-way out, {at}", lemma, 0.5, angle, 0.05),
    ]


def _point_claims(record: xr.Dataset, law: str) -> list[Claim]:
    d_key = saccade.Embedded().d_key
    rows = [
        ("largest gap between B at the origin and -pi (pi - 1/d)^T", "[derived, stage I]", 0.0, record.origin_gap, 1e-14),
        ("norm of the velocity at the unigram point", "[derived, plateau]", 0.0, record.residual, 1e-14),
        ("growing modes at the unigram point", "[derived, plateau]", d_key, record.n_unstable, 0),
        ("largest relative gap of their rates to |c|", "[derived, plateau]", 0.0, record.rate_gap, 1e-6),
        ("least part of one that lies in query and key", "[derived, plateau]", 1.0, record.attention_share, 1e-6),
        (
            "norm of the velocity at the critical point found from the second plateau",
            "[derived, next-direction rule]",
            0.0,
            record.plateau_residual,
            1e-12,
        ),
        (
            "largest relative gap of the d_model - 1 fastest rates there to s1(B)",
            "[derived, next-direction rule]",
            0.0,
            record.plateau_rate_gap,
            1e-6,
        ),
    ]
    return [Claim(f"{text}, law {law}", source, float(p), float(m), float(tol)) for text, source, p, m, tol in rows]


_NUMBERS = ("time", "predicted_rate", "rate", "embedding_cosine", "other_cosine", "drift")


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each direction that opened, and for each displacement; empty where a number does not apply."""
    rows = []
    for law in record.law.values:
        at = record.sel(law=law)
        rows += [_opening_row(at.sel(opening=k), f"direction {k}") for k in _opened(at)]
        pairs = [(name, scale) for name in at.point.values for scale in at.scale.values]
        rows += [_departure_row(at.sel(point=name, scale=scale), f"from the {name}") for name, scale in pairs]
    return rows


def _opening_row(one: xr.Dataset, what: str) -> dict[str, Any]:
    numbers = {name: float(one[f"opening_{name}"]) for name in _NUMBERS}
    return {"law": one.law.item(), "what": what, **numbers, "displacement": "", "error": "", "constant": ""}


def _departure_row(one: xr.Dataset, what: str) -> dict[str, Any]:
    errors = {"error": float(one.departure_error_at), "constant": float(one.departure_constant)}
    return {"law": one.law.item(), "what": what, **dict.fromkeys(_NUMBERS, ""), "displacement": one.scale.item(), **errors}


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.focus_and_dilution.next_direction_figure import draw

    return draw(record)
