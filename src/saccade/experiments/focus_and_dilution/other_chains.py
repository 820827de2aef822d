"""Stages come in the same order whatever follows what, as long as the stationary law is the same.

Follows the population flow on chains that share one law: lazy, Metropolis, lazy Metropolis, and random ones fitted to the law.
Expected: condensation, focus, dilution, a new direction, in this order in every chain; condensation at the same rate mu0 in all,
since it knows only the law, to 0.5 %; focus at each chain's own rate c, to 0.5 %; the same first focus where c > 0. Random chains
need not have c > 0: of the six here three have not, and attention then turns away first, in the same order of stages; that all
have c > 0 is claimed to fail. About 12 s on two cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import saccade
from saccade.errors import checked_count, checked_number
from saccade.experiments.focus_and_dilution import stage_fits as fits
from saccade.experiments.focus_and_dilution.stage_fits import Array
from saccade.observe.measures import singular_values
from saccade.records.claim import FAILS, HOLDS, Claim
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 12
WHAT = "same law, other transitions"
EXPECTED = (
    "stages out of order in {chains (of 9)*:.0f} of 9 chains; c > 0 in {lazy*:.0f} of 3 lazy and Metropolis chains, {random "
    "chains*:.0f} of 6 random ones"
)
STAGES = ("condensation", "focus", "dilution", "new direction")
LOOKED_AT = 0.3  # norm of the query matrix at which the first focus is read
# Attention of each query on token 0 at that norm, the paper's law, four kinds of chain: from an independent replication.
REPLICATED_FOCUS = (0.802, 0.762, 0.753, 0.751)
_OPEN = 0.1  # second singular value of the embedding over the first: a new direction
_SMALL = 1e-5  # size of the starts from which rates are measured
_LOOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-10}  # for times of events, which are then right to 1e-6

CAPTION = (
    "Left: when each stage begins: embedding half grown (condensation), queries three times their start (focus), first query "
    "whose tilt falls again (dilution), second singular value a tenth of the first (new direction). Middle: measured over "
    "predicted rates of condensation and of focus; the band is 0.5 %. Right: attention of each query on token 0, less its "
    "share, when the query matrix has norm 0.3; crosses: replication. Chains with c < 0 turn the other way."
)

_DEFINITIONS = {
    "stage_time": ("steps of gradient descent at rate 1", "when each stage begins, from a small random start"),
    "focus": ("1", "attention of each query on token 0 when the query matrix has norm 0.3"),
    "condensation_rate": ("1/time", "growth rate of the embedding's first singular value from a start of 1e-5"),
    "focus_rate": ("1/time", "growth rate of queries along the direction from the unigram point"),
    "tables": ("1", "transition table of each chain"),
    "law": ("1", "the stationary law"),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

    stationary: tuple[float, ...] = (0.75, 0.19, 0.05, 0.01)
    """the law that all chains share"""
    stay: float = 0.3
    """chance of repeating the last token in the lazy chains"""
    n_random: int = 6
    """random chains with this law"""
    init_scale: float = 1e-3
    """size of the random start from which stages are followed"""
    n_times: int = 1000
    """samples of each flow, log-spaced"""


def _chains(config: Config) -> dict[str, saccade.MarkovChain]:
    make, law = saccade.MarkovChain, config.stationary
    named = {
        "lazy": make.lazy(law, config.stay),
        "Metropolis": make.metropolis(law),
        "lazy Metropolis": make.metropolis(law, config.stay),
    }
    return named | {f"random {seed}": make.random(law, seed) for seed in range(checked_count("n_random", config.n_random, low=0))}


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    checked_number("init_scale", config.init_scale, low=1e-8, high=1e-2)
    chains = _chains(config)
    fits.checked_moving(chains)
    found = []
    for done, chain in enumerate(chains.values()):
        found.append(_stages(chain, config) | _rates(chain, config))
        on_progress((done + 1) / len(chains))
    return _record(chains, found, config, time.perf_counter() - started)


def _stages(chain: saccade.MarkovChain, config: Config) -> dict[str, Any]:
    """Sixty times 1 / |c| are enough for a new direction in every chain that was looked at."""
    model, t1 = saccade.Embedded(init_scale=config.init_scale), 60 / abs(fits.focus_rate(chain))
    run = saccade.flow(chain, t1=t1, n_times=config.n_times, model=model, **_LOOSE).isel(seed=0)
    t, on_frequent = run.time.values, run.attention.values[:, :, 0]
    embedding, queries = (np.linalg.norm(run[name].values, axis=(1, 2)) for name in ("embedding", "query_matrix"))
    values, half = singular_values(run.embedding.values), theory.embedding_norm(stationary=chain.stationary) / 2
    condensed, moving = fits.first_index(embedding, half), fits.first_index(queries, LOOKED_AT)
    linear = fits.linear_end(fits.along(run, fits.top_direction(run.embedding.values[condensed])))
    way = np.sign(on_frequent[moving, 0] - chain.stationary[0])
    turns = [fits.first_turn(t, way * on_frequent[:, query], linear) for query in range(1, chain.n_vocab)]
    opened = fits.reaching_time(t[condensed:], (values[:, 1] / values[:, 0])[condensed:], _OPEN)
    at = fits.reaching_time(t, queries, LOOKED_AT)
    return {
        "stage_time": [
            fits.reaching_time(t, embedding, half),
            fits.reaching_time(t, queries, 3 * queries[0]),
            min(turns, key=lambda turn: np.inf if np.isnan(turn) else turn),
            opened,
        ],
        "focus": [np.interp(at, t, values) for values in on_frequent.T],
    }


def _rates(chain: saccade.MarkovChain, config: Config) -> dict[str, float]:
    mu_0, c = theory.condensation_rate(stationary=chain.stationary), abs(fits.focus_rate(chain))
    size = theory.embedding_norm(stationary=chain.stationary)
    run = saccade.flow(chain, t1=np.log(size / _SMALL) / mu_0, n_times=400, model=saccade.Embedded(init_scale=_SMALL)).isel(seed=0)
    top = singular_values(run.embedding.values)[:, 0]
    window = fits.between(top, fits.ROOM * top[0], fits.CONDENSING * size)
    start = fits.near_unigram(chain, _SMALL, seed=0)
    grown = saccade.flow(chain, t1=np.log(0.1 / _SMALL) / c, n_times=400, start=start).isel(seed=0)
    path = fits.along(grown, fits.top_direction(grown.embedding.values[0]))
    queries = np.linalg.norm(path.query, axis=1)
    return {
        "condensation_rate": fits.growth_rate(run.time.values, top, window),
        "focus_rate": fits.growth_rate(path.time, queries, fits.linear_attention_window(path)),
    }


def _record(chains: dict[str, saccade.MarkovChain], found: list[dict[str, Any]], config: Config, wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    axes = {"stage_time": ("stage",), "focus": ("token",)}
    names = ("stage_time", "focus", "condensation_rate", "focus_rate")
    record = make_record(
        dynamics="B: population gradient flow, embedded model",
        variables={name: (("chain", *axes.get(name, ())), [one[name] for one in found]) for name in names}
        | {"tables": (("chain", "token", "next_token"), [chain.transition for chain in chains.values()])}
        | {"law": (("token",), next(iter(chains.values())).stationary)},
        coords={"chain": list(chains), "stage": list(STAGES)},
        time_unit="steps of gradient descent at rate 1",
        config={"chains": list(chains)},
        wall_time=wall_time,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def predicted_rates(record: xr.Dataset) -> Array:
    """c of every chain."""
    return np.array([theory.focus_rate(stationary=record.law.values, transition=table) for table in record.tables.values])


def claims(record: xr.Dataset) -> list[Claim]:
    c, mu_0 = predicted_rates(record), theory.condensation_rate(stationary=record.law.values)
    n, random = len(c), np.array([str(name).startswith("random") for name in record.chain.values])
    gap = float(np.max(np.abs(record.focus_rate.values / np.abs(c) - 1)))
    disorder = int(np.sum(~np.all(np.diff(record.stage_time.values, axis=1) > 0, axis=1)))
    rate = fits.furthest(record.condensation_rate, mu_0)
    positive, n_random = int(np.sum(c[random] > 0)), int(random.sum())
    usual = _usual(record)
    replicated = "[derived, sign rule], independent replication"
    return [
        Claim(
            f"chains (of {n}) in which {', '.join(STAGES)} do not follow in this order", "[chen2026, other chains]", 0, disorder, 0
        ),
        Claim("rate of condensation, furthest chain", "[derived, stage I]", mu_0, rate, 0.005 * mu_0),
        Claim("growth rate of queries against each chain's |c|, largest relative gap", "[derived, plateau]", 0, gap, 0.005),
        Claim("lazy and Metropolis chains with c > 0", replicated, int(np.sum(~random)), int(np.sum(c[~random] > 0)), 0),
        Claim("random chains with c > 0", replicated, n_random, positive, 0, usual, FAILS if n_random else HOLDS),
        *_focus_claims(record, c, usual),
    ]


def _usual(record: xr.Dataset) -> dict[str, bool]:
    config, usual = json.loads(record.attrs["settings"]), Config()
    same = all(np.array_equal(config[name], getattr(usual, name)) for name in ("stationary", "stay"))
    return {"law and stay of the replication": same}


def _focus_claims(record: xr.Dataset, c: Array, usual: dict[str, bool]) -> list[Claim]:
    """To two units of the replication's last digit, since it read a sample near that norm; set after one unit had been missed."""
    source = "[derived, stage II], independent replication"
    return [
        Claim(
            f"attention of query {query} on token 0 at |WQ| = {LOOKED_AT:g}, furthest chain with c > 0",
            source,
            value,
            fits.furthest(record.focus.values[c > 0, query], value) if query < record.sizes["token"] else np.nan,
            2e-3,
            usual,
        )
        for query, value in enumerate(REPLICATED_FOCUS)
    ]


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    c, mu_0 = predicted_rates(record), theory.condensation_rate(stationary=record.law.values)
    rows = []
    for i, name in enumerate(record.chain.values):
        at = record.isel(chain=i)
        row = {"chain": str(name), "c": float(c[i]), "focus_rate": float(at.focus_rate)}
        row |= {"mu_0": mu_0, "condensation_rate": float(at.condensation_rate)}
        row |= {f"time_of_{stage.replace(' ', '_')}": float(at.stage_time.sel(stage=stage)) for stage in STAGES}
        rows.append(row | {f"focus_of_query_{query}": float(value) for query, value in enumerate(at.focus.values)})
    return rows


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.focus_and_dilution.other_chains_figure import draw

    return draw(record, predicted_rates(record), REPLICATED_FOCUS if all(_usual(record).values()) else ())
