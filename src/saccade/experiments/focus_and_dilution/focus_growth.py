"""On the unigram plateau only attention can grow, and it turns every query towards the same frequent tokens.

Checks the gradient, that the unigram point is critical, and that tiny query and key matrices put there grow at the predicted
rate c. The same is then looked for in flows from small random starts, where the point is reached by itself, and where stage II
lasts until attention on the frequent token is highest. Expected: residual below 1e-14; rates c to 0.5 %; attention logits along
pi pi^T to 1e-4; the tilt of attention right to first order; stage II longer by 1/c for each e-fold of a smaller start, to 2 %.
About 9 s on two cores. Not here: all modes around the point (`next_direction`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_list, checked_number
from saccade.experiments.focus_and_dilution import stage_fits as fits
from saccade.experiments.focus_and_dilution.embedded_gradients import gradient_gaps, loss, velocity
from saccade.experiments.focus_and_dilution.focus_growth_claims import claims as claims
from saccade.experiments.focus_and_dilution.stage_fits import Along, Array
from saccade.observe.measures import effective_rank, singular_values
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 9
WHAT = "plateau and stage II, Theorems 3.3 to 3.5"
EXPECTED = "queries grow at rate {growth rate*unigram point, law paper:.4f} (c within 0.5 %), logits along pi pi^T to 1e-4"

CAPTION = (
    "Left: queries along the one direction, from the unigram point with tiny attention (solid) and from the smallest random "
    "start (dashed); dotted: the predicted growth. Middle: how far the attention logits are from pi pi^T (solid, left scale) "
    "and the effective rank of WQ WK^T (dashed, right scale) in flows from a random start, until stage II ends. Right: how long "
    "stage II lasts against the size of the start; lines have the predicted slope 1/c."
)

_POINT = {
    "finite_difference_gap": ("1", "largest difference of a gradient entry to central differences of the loss, random weights"),
    "closed_form_gap": ("1", "largest difference of a gradient entry to the closed form, random weights"),
    "residual": ("1/time", "largest entry of the velocity at the unigram point"),
    "point_loss": ("nats", "loss at the unigram point"),
}
_GROWN = {
    "grown_rate": ("1/time", "growth rate of |alpha^T WQ| from the unigram point, over the attention window"),
    "grown_cosine": ("1", "cosine of the attention logits with pi pi^T at the end of the attention window, from the unigram point"),
    "tilt_power": ("1", "power of the strength in the error of first-order attention, from the unigram point"),
}
_RANDOM = {
    "plateau_loss": ("nats", "loss where it falls slowest between the end of stage I and the onset of stage II"),
    "rate": ("1/time", "growth rate of |alpha^T WQ| from a random start, over the attention window"),
    "cosine": ("1", "cosine of the attention logits with pi pi^T at the end of the attention window, from a random start"),
    "rank_start": ("1", "effective rank of WQ WK^T at the start"),
    "rank_end": ("1", "effective rank of WQ WK^T at the end of stage II"),
    "length": (
        "steps of gradient descent at rate 1",
        "from the end of stage I until the rarest query's attention on token 0 peaks",
    ),
}
_CURVES = {
    "curve_time": ("steps of gradient descent at rate 1", "times of the curves"),
    "curve_query": ("1", "|alpha^T WQ|"),
    "curve_misfit": ("1", "1 less the cosine of the attention logits with pi pi^T"),
    "curve_rank": ("1", "effective rank of WQ WK^T"),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

    stays: tuple[float, float] = (0.3, 0.5)
    """chance of repeating the last token: in the paper's law, in Zipf's law"""
    attention_size: float = 1e-5
    """size of query and key entries put at the unigram point"""
    init_scales: tuple[float, ...] = (1e-3, 1e-4, 1e-5)
    """sizes of the random starts, at least two"""
    seeds: int | tuple[int, ...] = 3
    """number of draws of each start (seeds 0, 1, 2, ...), or a list of seeds"""
    n_times: int = 800
    """samples of each flow, log-spaced"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    scales = sorted(checked_list("init_scales", config.init_scales, low=1e-8, high=1e-2), reverse=True)
    if len(scales) < 2:
        raise InputError("`init_scales` must list at least two sizes: the length of the stage is compared between them.")
    size = checked_number("attention_size", config.attention_size, low=1e-8, high=1e-4)
    seeds = checked_seeds(config.seeds)
    laws, n_starts = fits.chains(config.stays), 1 + len(scales)
    fits.checked_moving(laws)
    found: list[dict[str, Any]] = []
    for i, chain in enumerate(laws.values()):
        grown = [_from_unigram(chain, size, seed, config.n_times) for seed in seeds]
        on_progress((i + 1 / n_starts) / len(laws))
        flowed = []
        for j, scale in enumerate(scales):
            flowed.append([_from_random(chain, scale, seed, config.n_times) for seed in seeds])
            on_progress((i + (j + 2) / n_starts) / len(laws))
        found.append({"point": _at_point(chain, seeds), "grown": grown, "flowed": flowed})
    return _record(found, scales, config, time.perf_counter() - started)


def _at_point(chain: saccade.MarkovChain, seeds: list[int]) -> dict[str, Any]:
    point = fits.near_unigram(chain, 0.0, 0)
    gaps = np.array([gradient_gaps(chain, seed) for seed in seeds]).max(axis=0)
    return {
        "finite_difference_gap": gaps[0],
        "closed_form_gap": gaps[1],
        "residual": max(float(np.abs(matrix).max()) for matrix in velocity(point, chain)),
        "point_loss": loss(point, chain),
    }


def _from_unigram(chain: saccade.MarkovChain, size: float, seed: int, n_times: int) -> dict[str, Any]:
    """Until, in the linear flow, queries have a size of a tenth."""
    c = abs(fits.focus_rate(chain))
    start = fits.near_unigram(chain, size, seed)
    flowed = saccade.flow(chain, t1=np.log(0.1 / size) / c, n_times=n_times, start=start).isel(seed=0)
    path = fits.along(flowed, fits.top_direction(flowed.embedding.values[0]))
    window = fits.linear_attention_window(path)
    queries = np.linalg.norm(path.query, axis=1)
    return {
        "grown_rate": fits.growth_rate(path.time, queries, window),
        "grown_cosine": _logit_cosine(path, chain)[fits.linear_end(path)],
        "tilt_power": _tilt_power(path, flowed.attention.values, window, chain),
        "curves": _curves(flowed, path, chain),
    }


def _logit_cosine(path: Along, chain: saccade.MarkovChain) -> Array:
    return theory.alignment(path.scores, np.outer(chain.stationary, chain.stationary))


def _tilt_power(path: Along, attention: Array, window: NDArray[np.bool_], chain: saccade.MarkovChain) -> float:
    """How the error of first-order attention falls with the strength; rounding hides it at strengths below about 1e-5."""
    gamma = theory.unigram_point(stationary=chain.stationary).gamma
    predicted = theory.first_order_attention(path.strength, stationary=chain.stationary, gamma=gamma)
    error = np.abs(attention - predicted).max(axis=(1, 2))
    upper = window & (np.abs(path.strength) > 1e-5)
    return fits.power(np.abs(path.strength[upper]), error[upper])


def _from_random(chain: saccade.MarkovChain, scale: float, seed: int, n_times: int) -> dict[str, Any]:
    c, mu_0 = abs(fits.focus_rate(chain)), theory.condensation_rate(stationary=chain.stationary)
    t1 = np.log(1 / scale) * (1 / c + 1 / mu_0)  # both stages, until weights are of size one
    flowed = saccade.flow(chain, t1=t1, n_times=n_times, seeds=[seed], model=saccade.Embedded(init_scale=scale)).isel(seed=0)
    settled = fits.settled(flowed, chain.stationary)
    path = fits.along(flowed, fits.top_direction(flowed.embedding.values[settled]))
    window = fits.linear_attention_window(path, plateau=settled)
    linear = fits.linear_end(path)
    size, norm = theory.embedding_norm(stationary=chain.stationary), np.linalg.norm(flowed.embedding.values, axis=(1, 2))
    peak = fits.first_turn(path.time, np.sign(fits.focus_rate(chain)) * flowed.attention.values[:, -1, 0], linear)
    curves = _curves(flowed, path, chain)
    return {
        "plateau_loss": _plateau_loss(flowed, fits.first_index(norm, size / 2)),
        "rate": fits.growth_rate(path.time, curves["curve_query"], window),
        "cosine": _logit_cosine(path, chain)[linear],
        "rank_start": curves["curve_rank"][0],
        "rank_end": np.interp(peak, path.time, curves["curve_rank"]),
        "length": peak - fits.reaching_time(path.time, norm, size / 2),
        "curves": curves,
    }


def _plateau_loss(run: xr.Dataset, end_of_first_stage: int) -> float:
    """The onset of stage II is where queries have three times their first norm; NaN if nothing lies between."""
    queries = np.linalg.norm(run.query_matrix.values, axis=(1, 2))
    inside = slice(end_of_first_stage, fits.first_index(queries, 3 * queries[0]))
    values, t = run.loss.values[inside], run.time.values[inside]
    return float(values[np.argmax(np.gradient(values, t))]) if len(t) > 1 else np.nan


def _curves(run: xr.Dataset, path: Along, chain: saccade.MarkovChain) -> dict[str, Array]:
    product = run.query_matrix.values @ np.swapaxes(run.key_matrix.values, 1, 2)
    return {
        "curve_time": path.time,
        "curve_query": np.linalg.norm(path.query, axis=1),
        "curve_misfit": 1 - _logit_cosine(path, chain),
        "curve_rank": effective_rank(singular_values(product)),
    }


def _record(found: list[dict[str, Any]], scales: list[float], config: Config, wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    variables: dict[str, Any] = {name: (("law",), [at["point"][name] for at in found]) for name in _POINT}
    variables |= {name: (("law", "seed"), [[one[name] for one in at["grown"]] for at in found]) for name in _GROWN}
    for name in _RANDOM:
        values = [[[one[name] for one in of_scale] for of_scale in at["flowed"]] for at in found]
        variables[name] = (("law", "init_scale", "seed"), values)
    for name in _CURVES:  # first seed, from the unigram point and then from each random start
        values = [[one["curves"][name] for one in (at["grown"][0], *(runs[0] for runs in at["flowed"]))] for at in found]
        variables[name] = (("law", "start", "sample"), values)
    record = make_record(
        dynamics="B: population gradient flow, embedded model",
        variables=variables,
        coords={"law": list(fits.LAWS), "init_scale": scales, "seed": checked_seeds(config.seeds)},
        time_unit="steps of gradient descent at rate 1",
        config={"laws": list(fits.LAWS)},
        wall_time=wall_time,
        definitions=_POINT | _GROWN | _RANDOM | _CURVES,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each run; the start is 0 for the unigram point."""
    laws, rows = fits.chains(json.loads(record.attrs["settings"])["stays"]), []
    for law, chain in laws.items():
        for seed in record.seed.values:
            at = record.sel(law=law, seed=seed)
            first = {"law": law, "seed": int(seed), "rate_predicted": fits.focus_rate(chain)}
            blank = dict.fromkeys(_RANDOM)
            rows.append(first | {"init_scale": 0.0} | blank | {"rate": float(at.grown_rate), "cosine": float(at.grown_cosine)})
            for scale in record.init_scale.values:
                cell = at.sel(init_scale=scale)
                rows.append(first | {"init_scale": float(scale)} | {name: float(cell[name]) for name in _RANDOM})
    return rows


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.focus_and_dilution.focus_growth_figure import draw

    return draw(record)
