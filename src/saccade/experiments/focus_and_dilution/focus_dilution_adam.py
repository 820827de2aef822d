"""With mini-batches Adam focuses on one token and dilutes; without noise, from a start of 1e-3,
most seeds first wait.

Trains the paper's law with Adam on finite contexts, and again on the population itself, where there
is no noise; compares with the population gradient flow. The small start is ours: from the paper's
own, mini-batches and all sequences at once do the same (`focus-dilution-published`). Expect:
mini-batches bring every query above 0.9 on the frequent token before they dilute, the flow less
than a tenth as far. Noise-free Adam moves every token alike, so the embedding condenses to one
value for all instead of the stationary law, and attention cannot tell tokens apart: its gradient
falls below Adam's epsilon, most seeds wait over 1000 steps, and some do not move at all. With a
smaller epsilon, or a larger start, all move at once, to the side the random start has left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.ndimage import median_filter

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import checked_count
from saccade.lab.claim import CALCULUS, FAILS, REPLICATION, Case, Claim
from saccade.lab.panel import POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, stretch
from saccade.observe.fits import Array
from saccade.theory.condition import met
from saccade.theory.focus_and_dilution import embedding_norm, plateau_drive
from saccade.theory.focus_and_dilution.statements import ADAM_FOCUS, ADAM_WITHOUT_NOISE, FIG_2

ADAM_EPSILON = 1e-8  # of Optax and of PyTorch
LONG = 1000  # updates: mini-batch runs of all seeds have moved by then
MOVED = 0.01  # attention has moved when one query's is this far from its share; a hundred times the drift while it is frozen
REGIMES = ("mini-batch", "noise-free", "noise-free, small epsilon", "noise-free, larger start")

VARIABLES = {
    "on_frequent": Variable(
        "regime seed time query",
        "1",
        "attention of each query on the most frequent token, of an infinitely long context",
    ),
    "direction_uniform": Variable(
        "regime seed time",
        "1",
        "|cosine| of the embedding's first direction over tokens with the vector of ones",
    ),
    "direction_law": Variable(
        "regime seed time",
        "1",
        "|cosine| of the embedding's first direction over tokens with the stationary distribution",
    ),
    "share_of_second": Variable(
        "regime seed time", "1", "second singular value of the embedding over the first"
    ),
    "half_grown": Variable(
        "regime seed",
        "updates",
        "first saved step at which the embedding has half its norm at the unigram point",
    ),
    "drive": Variable(
        "regime seed",
        "1/time",
        "rate at which queries would grow along keys with this embedding, were the token frequencies learnt and attention off",
    ),
    "pull": Variable(
        "regime seed",
        "1",
        "gradient on the query matrix that the drive makes with the keys of that moment",
    ),
    "flow_on_frequent": Variable(
        "flow_time query",
        "1",
        "attention of each query on the most frequent token in the population gradient flow",
    ),
    "share": Variable("", "1", "stationary probability of the most frequent token"),
    "regime": Variable(
        "regime", "", "mini-batch: sampled contexts; noise-free: gradient of the population"
    ),
    "flow_time": Variable(
        "flow_time", "steps of gradient descent at rate 1", "time of the population gradient flow"
    ),
}


@dataclass(frozen=True)
class Settings:
    stationary: tuple[float, ...] = (0.75, 0.19, 0.05, 0.01)
    """stationary distribution"""
    stay: float = 0.3
    """chance of repeating the last token"""
    steps: int = 10_000
    """updates of Adam"""
    lr: float = 1e-3
    """learning rate of all matrices"""
    init_scale: float = 1e-3
    """standard deviation of every entry at the start"""
    larger_scale: float = 1e-2
    """standard deviation in the regime with a larger start"""
    small_epsilon: float = 1e-16
    """Adam's epsilon in the regime with a small one; it is 1e-8 in the others"""
    batch: int = 512
    """contexts per step in mini-batch runs"""
    context: int = 200
    """tokens per context"""
    sequences: int = 20_000
    """sequences each seed learns from"""
    seeds: int | tuple[int, ...] = 10
    """number of runs of each regime (seeds 0, 1, 2, ...), or a list of seeds"""
    saves: int = 500
    """number of saved states, evenly spaced"""
    t1: float = 2000.0
    """end of the flow"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    chain = saccade.MarkovChain.lazy(settings.stationary, settings.stay)
    saves = np.unique(
        np.linspace(0, settings.steps, checked_count("saves", settings.saves, low=2) + 1).astype(
            int
        )
    )
    quiet: dict[str, Any] = {"batch": math.inf, "context": math.inf, "dtype": "float64"}
    noisy: dict[str, Any] = {
        "batch": settings.batch,
        "context": settings.context,
        "sequences": settings.sequences,
    }
    scale, larger = settings.init_scale, settings.larger_scale
    regimes = [
        (noisy, scale),
        (quiet, scale),
        (quiet | {"epsilon": settings.small_epsilon}, scale),
        (quiet, larger),
    ]
    parts = [
        (0.0, 0.7),
        (0.7, 0.8),
        (0.8, 0.9),
        (0.9, 1.0),
    ]  # of the time: mini-batches take most of it
    found = []
    for (data, size), part in zip(regimes, parts, strict=True):
        trained = saccade.train(
            chain,
            steps=settings.steps,
            lr_decoder=settings.lr,
            lr_attention=settings.lr,
            seeds=settings.seeds,
            save=saves.tolist(),
            model=saccade.Embedded(init_scale=size),
            on_progress=stretch(on_progress, *part),
            **data,
        )
        found.append(_regime(trained, chain))
    model, frequent = saccade.Embedded(init_scale=scale), int(np.argmax(chain.stationary))
    flowed = saccade.flow(chain, t1=settings.t1, model=model, keep=("attention",), n_times=500)
    values = {name: np.stack([one[name] for one in found]) for name in found[0]}
    return Measured(
        values
        | {
            "flow_on_frequent": flowed.attention.values[0, :, :, frequent],
            "share": chain.stationary[frequent],
        },
        {
            "time": saves,
            "seed": checked_seeds(settings.seeds),
            "regime": list(REGIMES),
            "flow_time": flowed.time.values,
        },
    )


def _regime(trained: xr.Dataset, chain: saccade.MarkovChain) -> dict[str, Array]:
    """What one regime shows, (seed, time, ...)."""
    embedding = trained.embedding.values
    patterns, values, directions = np.linalg.svd(np.nan_to_num(embedding), full_matrices=False)
    first, alpha = patterns[..., 0], directions[..., 0, :]
    grown = (
        np.linalg.norm(embedding, axis=(-2, -1)) >= embedding_norm(stationary=chain.stationary) / 2
    )
    at = np.where(grown.any(axis=1), grown.argmax(axis=1), -1)
    drive = np.array(
        [_drive(trained.isel(seed=s, time=k), alpha[s, k], chain) for s, k in enumerate(at)]
    )
    return {
        "on_frequent": trained.attention.values[..., int(np.argmax(chain.stationary))],
        "direction_uniform": np.abs(first.sum(axis=-1)) / math.sqrt(chain.n_vocab),
        "direction_law": np.abs(first @ (chain.stationary / np.linalg.norm(chain.stationary))),
        "share_of_second": values[..., 1] / values[..., 0],
        "half_grown": trained.time.values[at],
        "drive": drive,
        "pull": np.abs(drive)
        * [np.linalg.norm(alpha[s, k] @ trained.key_matrix.values[s, k]) for s, k in enumerate(at)],
    }


def _drive(state: xr.Dataset, alpha: Array, chain: saccade.MarkovChain) -> float:
    """How fast a key of size 1 makes its query grow once the unigram law is learnt; its sign is
    where attention goes.
    """
    gamma, beta = state.embedding.values @ alpha, alpha @ state.projection.values
    return plateau_drive(gamma, beta, stationary=chain.stationary, transition=chain.transition)


def joint(runs: xr.Dataset) -> xr.DataArray:
    """Attention that every query has on the frequent token at the same time: the least of them."""
    return runs.on_frequent.min("query")


def moved_at(runs: xr.Dataset) -> xr.DataArray:
    """First saved step at which attention of some query has moved; NaN if none has."""
    moved = np.abs(runs.on_frequent - runs.share).max("query") > MOVED
    return runs.time[moved.argmax("time")].where(moved.any("time"))


def first_side(runs: xr.Dataset) -> xr.DataArray:
    """At its first move attention goes to the frequent token, +1, or away from it, -1; NaN where it
    has not moved.
    """
    when = moved_at(runs)
    tilt = (runs.on_frequent - runs.share).mean("query").sel(time=when.fillna(runs.time[-1]))
    return np.sign(tilt).where(when.notnull())


def when_half_grown(series: xr.DataArray, runs: xr.Dataset) -> xr.DataArray:
    return series.sel(time=runs.half_grown)


def _waits(runs: xr.Dataset) -> xr.DataArray:
    return ~(moved_at(runs) <= LONG)


def _diluted(runs: xr.Dataset) -> xr.DataArray:
    level = joint(runs)
    after = level.time >= level.time[level.argmax("time")]
    return level.where(after).min("time") < runs.share / 2


def _opens_later(runs: xr.Dataset) -> xr.DataArray:
    """The second singular value passes a tenth of the first after the joint focus; before
    condensation it is larger by chance.
    """
    opened = (runs.share_of_second > 0.1) & (runs.time > runs.half_grown)
    return opened.any("time") & (
        runs.time[opened.argmax("time")] > runs.time[joint(runs).argmax("time")]
    )


def _share_on(side: xr.DataArray, wanted: Any) -> float:
    """Of the runs that have moved, how many to the side that is wanted; NaN if none has."""
    n_moved = int(side.notnull().sum())
    return float((side == wanted).sum()) / n_moved if n_moved else math.nan


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    free = {name: getattr(settings, name) for name in ("saves", "t1", "seeds")}
    ours = met(
        "the paper's law, Adam 1e-3, initial scale 1e-3, contexts of 200",
        settings == replace(Settings(), **free),
    )
    noisy, quiet, _, larger = (record.sel(regime=name) for name in REGIMES)
    case = Case({}, [ours])
    yield from _of_mini_batches(noisy, case.but(Adam="mini-batch"))
    yield from _of_noise_free(
        record, settings, case.but(Adam="noise-free", start=settings.init_scale)
    )
    yield case.but(Adam="mini-batch").at_least(
        ADAM_FOCUS,
        "seeds whose attention first moves to the frequent token",
        _share_on(first_side(noisy), 1.0),
        1,
    )
    few_seeds = case.but(against=REPLICATION, Adam="noise-free", start=settings.init_scale)
    yield few_seeds.at_least(
        ADAM_WITHOUT_NOISE,
        "seeds whose attention is still frozen at the end",
        moved_at(quiet).isnull().mean(),
        1,
        expected=FAILS,
        sentence="A replication with few seeds saw no attention move in 10,000 steps.",
    )
    yield few_seeds.but(start=settings.larger_scale).at_least(
        ADAM_WITHOUT_NOISE,
        "seeds that focus jointly above 0.99",
        (joint(larger).max("time") > 0.99).mean(),
        1,
        expected=FAILS,
        sentence="A replication with few seeds saw every run from a larger start focus jointly.",
    )


def _of_mini_batches(noisy: xr.Dataset, case: Case) -> Iterator[Claim]:
    top, flowed = joint(noisy).max("time"), noisy.flow_on_frequent.min("query").max("flow_time")
    yield case.near(
        FIG_2,
        "attention of all queries at once on the frequent token, median of seeds",
        top.median(),
        1,
        within=0.1,
    )
    yield case.at_least(
        ADAM_FOCUS,
        "seeds whose joint focus rises ten times as far as in the flow",
        (top - noisy.share > 10 * (flowed - noisy.share)).mean(),
        1,
        sentence="In every seed the least attention of any query rises ten times further above the token's share than in the flow.",
    )
    yield case.at_least(
        FIG_2,
        "seeds in which some query is diluted to half the token's share",
        _diluted(noisy).mean(),
        1,
    )
    yield case.at_least(
        FIG_2,
        "seeds whose second embedding direction opens after the joint focus",
        _opens_later(noisy).mean(),
        1,
    )


def _of_noise_free(record: xr.Dataset, settings: Settings, case: Case) -> Iterator[Claim]:
    quiet, sensitive = (
        record.sel(regime="noise-free"),
        record.sel(regime="noise-free, small epsilon"),
    )
    chain = saccade.MarkovChain.lazy(settings.stationary, settings.stay)
    alike = plateau_drive(
        np.ones(chain.n_vocab),
        np.log(chain.stationary),
        stationary=chain.stationary,
        transition=chain.transition,
    )
    yield case.near(
        ADAM_WITHOUT_NOISE,
        "|cosine| of the half-grown embedding with the vector of ones, median of seeds",
        when_half_grown(quiet.direction_uniform, quiet).median(),
        1,
        within=1e-3,
    )
    title = "drive of attention at an embedding that is the same for all tokens"
    yield case.but(against=CALCULUS).at_most(ADAM_WITHOUT_NOISE, title, abs(alike), 1e-15)
    yield case.at_least(
        ADAM_WITHOUT_NOISE,
        "seeds whose gradient on queries is then below Adam's epsilon",
        (quiet.pull < ADAM_EPSILON).mean(),
        1,
    )
    waits = f"seeds whose attention waits for over {LONG} steps"
    yield case.at_least(ADAM_WITHOUT_NOISE, waits, _waits(quiet).mean(), 0.5)
    yield case.but(epsilon=settings.small_epsilon).at_most(
        ADAM_WITHOUT_NOISE, waits, _waits(sensitive).mean(), 0
    )
    yield case.at_least(
        ADAM_WITHOUT_NOISE,
        "share of moving seeds that first move to the side of the drive",
        _share_on(first_side(quiet), np.sign(quiet.drive)),
        0.9,
        sentence="Without noise the random start leaves a small drive, and its sign says where attention goes first.",
    )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """One row a run."""
    rows = []
    for regime in REGIMES:
        runs = record.sel(regime=regime)
        level = joint(runs)
        columns = {
            "drive": runs.drive,
            "cosine_with_ones": when_half_grown(runs.direction_uniform, runs),
            "cosine_with_law": when_half_grown(runs.direction_law, runs),
            "moved_at": moved_at(runs),
            "joint_focus": level.max("time"),
            "joint_focus_at": level.time[level.argmax("time")],
            "diluted": _diluted(runs),
        }
        for i, seed in enumerate(record.seed.values):
            rows.append(
                {
                    "regime": regime,
                    "seed": int(seed),
                    **{name: values.values[i].item() for name, values in columns.items()},
                }
            )
    return rows


def panels(record: xr.Dataset) -> Layout:
    share = {float(record.share): "share of the token"}
    noisy = record.on_frequent.sel(regime="mini-batch").transpose("time", "seed", "query").values
    flowed, frequent = (
        record.flow_on_frequent.values[1:, None, :],
        "attention on the frequent token",
    )
    least = "least attention of any query on it"
    drawn: dict[str, Any] = {"ylim": (0, 1.02), "levels": share}
    by_query = _queries(record.flow_time[1:], flowed)
    return [
        [
            Lines(
                "population gradient flow",
                "time of the flow",
                frequent,
                by_query,
                "x",
                (10, None),
                **drawn,
            ),
            Lines(
                "Adam, mini-batches: median of the seeds",
                "updates",
                frequent,
                _queries(record.time, noisy),
                **drawn,
            ),
            Lines(
                "Adam, mini-batches: each seed",
                "updates",
                least,
                _seeds(record.sel(regime="mini-batch")),
                **drawn,
            ),
        ],
        [
            Lines(
                "Adam, no noise: each seed",
                "updates",
                least,
                _seeds(record.sel(regime="noise-free")),
                **drawn,
            ),
            _first_moves(record),
        ],
    ]


def _queries(time: Any, attention: Array) -> list[Line]:
    """Attention (time, seed, query): its median over seeds, without the jitter of single batches."""
    n, middle = attention.shape[-1], _calm(np.median(attention, axis=1))
    return [Line(time, middle[:, q], f"query {q}", tone=q / max(1, n - 1)) for q in range(n)]


def _seeds(runs: xr.Dataset) -> list[Line]:
    """All in one colour: which is which does not matter, and no band hides that runs are in one of
    two places.
    """
    levels = joint(runs).transpose("time", "seed").values
    label = f"one of {runs.sizes['seed']} seeds"
    return [Line(runs.time, level, "" if i else label, tone=0) for i, level in enumerate(levels.T)]


def _calm(values: Array) -> Array:
    """Running median over time, nine observations wide."""
    return median_filter(values, (9, 1), mode="nearest")


def _first_moves(record: xr.Dataset) -> Lines:
    end, lines = float(record.time[-1]), []
    for i, regime in enumerate(REGIMES):
        runs = record.sel(regime=regime)
        when, towards = moved_at(runs).fillna(1.3 * end).values, first_side(runs).values > 0
        lines += [
            Line(runs.pull.values[towards], when[towards], regime, POINTS, i),
            Line(
                runs.pull.values[~towards],
                when[~towards],
                "" if towards.any() else regime,
                RINGS,
                i,
            ),
        ]
    return Lines(
        "what decides when attention moves",
        "gradient on queries by theory, embedding half grown",
        "attention first moved (updates)",
        lines,
        "xy",
        ylim=(None, 2.2 * end),
        levels={end: "not moved by the end"},
        marks={ADAM_EPSILON: "Adam's ε"},
    )


EXPERIMENT = Experiment(
    "focus-dilution-adam",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: attention on the frequent token in the population gradient flow, one line per query: the first focus is small. "
        "Panel 2: Adam with mini-batches, the median over seeds and nine observations: every query goes to one token, then they "
        "separate. Panels 3 and 4: the least attention of any query, one line per seed. With mini-batches all seeds focus early "
        "and dilute; without noise many stay frozen at the token's share for thousands of steps. Panel 5: when attention first "
        "moves, against the gradient that theory gives for the queries while the embedding condenses; dots: to the frequent "
        "token, rings: away from it, or not moved by the end. Without noise that gradient is below Adam's epsilon and the wait is "
        "long; a smaller epsilon, a larger start or the noise of mini-batches ends it."
    ),
    finding=(
        "with mini-batches all queries give the frequent token {attention of all queries at once*:.0%} of their attention at once, "
        "and some query then dilutes in {*is diluted*:.0%} of seeds; without noise, attention waits over 1000 steps in {*waits for "
        "over 1000 steps*[0]:.0%} of seeds and does not move within 10,000 in {*still frozen at the end*:.0%}, if weights start at "
        "our size of {*still frozen*:case start} (not at the published one)"
    ),
    variables=VARIABLES,
    dynamics="A: mini-batch training, embedded model; B: population gradient flow, embedded model",
    time_unit="updates",
    table=table,
)
