"""Whether attention first turns to frequent tokens or away from them is the sign of one number, the chain's persistence.

Follows stage II on lazy chains from anti-persistent to persistent, on general chains and on chains counted in text, from the
unigram point with random tiny attention that favours neither sign, and on some of them from a small random start. The sign is
read from the flow. Expected: where c > 0 every query tilts to token 0, where c < 0 every query tilts away (queries and keys then
grow opposite), in all chains; growth at |c| to 0.5 %; attention logits along pi pi^T with that sign, to 1e-4. Text has c < 0.
From a random start growth is at |c| only where the plateau is reached before attention moves: on 12 words of the text it is 0.8 %
slower. About 8 s on two cores.
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
from saccade.errors import InputError, checked_count, checked_number
from saccade.experiments.focus_and_dilution import stage_fits as fits
from saccade.experiments.focus_and_dilution.sign_chains import sign_chains
from saccade.experiments.focus_and_dilution.stage_fits import Array
from saccade.records.claim import Claim
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 8
WHAT = "sign of the focus"
EXPECTED = (
    "{chains (of 18, 8 with c < 0)*:.0f} of 18 chains (8 with c < 0) turn attention against the sign of c; rates off the size of "
    "c by at most {growth rate*unigram point:.1%}"
)
LOOKED_AT = 0.15  # norm of the query matrix at which the tilt is read: well inside stage II
# Attention of queries 0 and 1 on token 0, less its share, at that norm: from an independent replication (zipf-6, stay -0.05).
REPLICATED_CHAIN, REPLICATED_TILT = "zipf-6, stay -0.05", (-0.0077, -0.0037)

CAPTION = (
    "Left: the growth rate that is measured, with the sign in which attention is seen to turn, against the predicted c; one "
    "point a chain, rings: from a small random start. Right: the tilt of every query to token 0 when the query matrix has norm "
    "0.15, over the largest in its chain; all queries of a chain are on one side, the side of c."
)

_DEFINITIONS = {
    "rate": ("1/time", "growth rate of the queries along the direction, over the attention window"),
    "tilt": ("1", "attention of each query on token 0 less its share, when the query matrix has norm 0.15"),
    "key_cosine": ("1", "cosine between queries and keys along the direction, in the middle of the attention window"),
    "logit_cosine": ("1", "cosine of the attention logits with pi pi^T, in the middle of the attention window"),
    "stationary_of": ("1", "stationary law of each chain"),
    "transition_of": ("1", "transition table of each chain"),
    "n_tokens": ("tokens", "size of each chain's vocabulary"),
    "chain": ("", "name of the chain"),
    "start": ("", "unigram: tiny random attention at the unigram point; random: small random weights"),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

    stays: tuple[float, ...] = (-0.07, -0.05, -0.02, 0.1, 0.3, 0.5, 0.8)
    """chance of repeating the last token on Zipf's law on six tokens; negative ones make repeats rarer than the law has them"""
    paper_stays: tuple[float, ...] = (-0.01, 0.3)
    """the same on the paper's law"""
    n_random: int = 4
    """random chains with Zipf's law"""
    random_starts: tuple[str, ...] = ("zipf-6, stay -0.05", "zipf-6, stay 0.5", "text, 6 words")
    """chains also followed from a small random start"""
    attention_size: float = 1e-5
    """size of query and key entries put at the unigram point"""
    init_scale: float = 1e-5
    """size of the random start"""
    n_times: int = 500
    """samples of each flow, log-spaced"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    for name in ("attention_size", "init_scale"):
        checked_number(name, getattr(config, name), low=1e-8, high=1e-4)
    chains = sign_chains(tuple(config.stays), tuple(config.paper_stays), checked_count("n_random", config.n_random, low=0))
    fits.checked_moving(chains)
    if unknown := set(config.random_starts) - set(chains):
        raise InputError(f"`random_starts` must name some of the chains, {', '.join(chains)}; got {sorted(unknown)[0]!r}.")
    runs = [(name, "unigram") for name in chains] + [(name, "random") for name in config.random_starts]
    found = []
    for done, (name, start) in enumerate(runs):
        found.append(_looked_at(chains[name], start, config) | {"chain": name, "start": start})
        on_progress((done + 1) / len(runs))
    return _record(chains, found, config, time.perf_counter() - started)


def _looked_at(chain: saccade.MarkovChain, start: str, config: Config) -> dict[str, Any]:
    run = _flow_from_unigram(chain, config) if start == "unigram" else _flow_from_random(chain, config)
    plateau = 0 if start == "unigram" else fits.settled(run, chain.stationary)
    path = fits.along(run, fits.top_direction(run.embedding.values[plateau]))
    window, queries = fits.linear_attention_window(path, plateau), np.linalg.norm(path.query, axis=1)
    middle = _middle(queries, window)
    return {
        "rate": fits.growth_rate(path.time, queries, window),
        "tilt": _tilt(run, chain),
        "key_cosine": float(theory.alignment(path.query[middle], path.key[middle])),
        "logit_cosine": float(theory.alignment(path.scores[middle], np.outer(chain.stationary, chain.stationary))),
    }


def _middle(queries: Array, window: NDArray[np.bool_]) -> int:
    """The sample half way through the window in log size, where neither start nor drift counts; without a window the last."""
    inside = queries[window]
    return fits.first_index(queries, np.sqrt(inside[0] * inside[-1]) if len(inside) else np.inf)


def _flow_from_unigram(chain: saccade.MarkovChain, config: Config) -> xr.Dataset:
    """Until, in the linear flow, the query matrix is a third larger than where its tilt is read."""
    start, c = fits.near_unigram(chain, config.attention_size, seed=0), fits.focus_rate(chain)
    growth = float(4 / 3 * LOOKED_AT / np.linalg.norm(start.query))
    t1 = theory.focus_onset(start.query, start.key, direction=np.eye(len(start.query))[0], rate=c, growth=growth)
    return saccade.flow(chain, t1=t1, n_times=config.n_times, start=start).isel(seed=0)


def _flow_from_random(chain: saccade.MarkovChain, config: Config) -> xr.Dataset:
    """Both stages, until weights are of size one."""
    mu_0, c = theory.condensation_rate(stationary=chain.stationary), abs(fits.focus_rate(chain))
    t1 = np.log(1 / config.init_scale) * (1 / mu_0 + 1 / c)
    model = saccade.Embedded(init_scale=config.init_scale)
    return saccade.flow(chain, t1=t1, n_times=2 * config.n_times, model=model).isel(seed=0)


def _tilt(run: xr.Dataset, chain: saccade.MarkovChain) -> Array:
    """On a straight line between the two samples around the norm; NaN if it is not reached."""
    norm, tilt = np.linalg.norm(run.query_matrix.values, axis=(1, 2)), run.attention.values[:, :, 0] - chain.stationary[0]
    at = fits.reaching_time(run.time.values, norm, LOOKED_AT)
    return np.array([np.interp(at, run.time.values, values) for values in tilt.T])


def _record(chains: dict[str, saccade.MarkovChain], found: list[dict[str, Any]], config: Config, wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    widest = max(chain.n_vocab for chain in chains.values())
    of = [chains[one["chain"]] for one in found]
    variables: dict[str, Any] = {
        name: (("run",), [one[name] for one in found]) for name in ("chain", "start", "rate", "key_cosine", "logit_cosine")
    }
    variables["n_tokens"] = (("run",), [chain.n_vocab for chain in of])
    variables["tilt"] = (("run", "token"), np.stack([_padded(one["tilt"], widest) for one in found]))
    variables["stationary_of"] = (("run", "token"), np.stack([_padded(chain.stationary, widest) for chain in of]))
    variables["transition_of"] = (("run", "token", "next_token"), np.stack([_padded(chain.transition, widest) for chain in of]))
    record = make_record(
        dynamics="B: population gradient flow, embedded model",
        variables=variables,
        coords={},
        time_unit="steps of gradient descent at rate 1",
        config={"chains": list(chains)},
        wall_time=wall_time,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def _padded(values: Array, n_tokens: int) -> Array:
    """Chains differ in their number of tokens; those that are not there are NaN."""
    return np.pad(values, [(0, n_tokens - values.shape[0])] * values.ndim, constant_values=np.nan)


def predicted_rates(record: xr.Dataset) -> Array:
    """c of every run's chain, from its table."""
    tables = ((n, record.stationary_of.values[i], record.transition_of.values[i]) for i, n in enumerate(record.n_tokens.values))
    return np.array([theory.focus_rate(stationary=pi[:n], transition=P[:n, :n]) for n, pi, P in tables])


def _condensation_rates(record: xr.Dataset) -> Array:
    laws = (record.stationary_of.values[i, :n] for i, n in enumerate(record.n_tokens.values))
    return np.array([theory.condensation_rate(stationary=pi) for pi in laws])


def seen_signs(record: xr.Dataset) -> Array:
    """+1 where every query tilts to token 0, -1 where every query tilts away, 0 where they do not agree."""
    tilts = (record.tilt.values[i, :n] for i, n in enumerate(record.n_tokens.values))
    return np.array([float(np.all(tilt > 0)) - float(np.all(tilt < 0)) for tilt in tilts])


def claims(record: xr.Dataset) -> list[Claim]:
    c, seen, random = predicted_rates(record), seen_signs(record), record.start.values == "random"
    slow, source = np.abs(c) < _condensation_rates(record), "[derived, sign rule]"
    found = []
    for start, chosen in (("the unigram point", ~random), ("a small random start", random)):
        n, sign = int(chosen.sum()), np.sign(c[chosen])
        if not n:
            continue
        gap = float(np.max(np.abs(record.rate.values[chosen] / np.abs(c[chosen]) - 1)))
        wrong, n_away = int(np.sum(seen[chosen] != sign)), int(np.sum(sign < 0))
        text = f"chains (of {n}, {n_away} with c < 0) in which some query tilts against the sign of c, from {start}"
        met = {"attention slower than condensation": bool(np.all(slow[chosen]))} if start != "the unigram point" else {}
        furthest = [fits.furthest(sign * record[name].values[chosen], 1) for name in ("logit_cosine", "key_cosine")]
        found += [
            Claim(text, source, 0, wrong, 0, met),
            Claim(
                f"growth rate of queries against |c|, largest relative gap, from {start}", "[derived, plateau]", 0, gap, 0.005, met
            ),
            Claim(f"cosine of the logits with pi pi^T, times the sign of c, from {start}", source, 1, furthest[0], 1e-4, met),
            Claim(f"cosine of queries and keys, times the sign of c, from {start}", source, 1, furthest[1], 1e-4, met),
        ]
    return found + _replicated(record)


def _replicated(record: xr.Dataset) -> list[Claim]:
    """To two units of the replication's last digit, since it read a sample near that norm; set after one unit had been missed."""
    at = np.flatnonzero((record.chain.values == REPLICATED_CHAIN) & (record.start.values == "unigram"))
    return [
        Claim(
            f"tilt of query {query} to token 0 at |WQ| = {LOOKED_AT:g}, {REPLICATED_CHAIN}",
            "[derived, sign rule], independent replication",
            value,
            float(record.tilt.values[at[0], query]),
            2e-4,
        )
        for query, value in enumerate(REPLICATED_TILT)
        if len(at)
    ]


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    c, seen = predicted_rates(record), seen_signs(record)
    return [
        {
            "chain": str(record.chain.values[i]),
            "start": str(record.start.values[i]),
            "n_tokens": int(record.n_tokens.values[i]),
            "c": float(c[i]),
            "sign_seen": int(seen[i]),
            "rate": float(record.rate.values[i]),
            "rate_over_c": float(record.rate.values[i] / abs(c[i])),
            "tilt_of_query_0": float(record.tilt.values[i, 0]),
            "tilt_of_query_1": float(record.tilt.values[i, 1]),
            "key_cosine": float(record.key_cosine.values[i]),
            "logit_cosine": float(record.logit_cosine.values[i]),
        }
        for i in range(record.sizes["run"])
    ]


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.focus_and_dilution.focus_sign_figure import draw

    return draw(record, predicted_rates(record), seen_signs(record))
