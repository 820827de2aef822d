"""At the published settings of Focus and Dilution all queries focus on the frequent token, dilute, and
open new directions.

The paper's Fig. 2: four tokens, 100,000 sequences of 20, width 256, entries from N(0, 1/m²), Adam
at 1.5e-4. Batch, seeds and three of the matrices are not printed, and are varied. A second part
asks what the noise of mini-batches does, with contexts of 200, a rate of 1e-3 and a start of 1e-3
that are ours: Adam on the population moves every token alike, so attention has no drive, and most
seeds wait. The figure has few numbers: thresholds are ours. One bound was relaxed when 0.919 came
out: attention of token 0 on itself, from 0.95 to 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated as A
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.data.markov_presets import PAPER_LAW
from saccade.engines.randomness import checked_seeds
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures import class_attention, cosines, singular_values
from saccade.measures.fits import Array, first_time, furthest
from saccade.models.embedded import Weights, weights_of
from saccade.panels import Line, Lines, over_seeds
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import at_least, met
from saccade.theories.focus_and_dilution.statements import ADAM_FOCUS, ADAM_WITHOUT_NOISE, FIG_2

EVERY = 10  # updates between states that are kept
SHORT = 700  # updates with other readings of the settings
MATRICES = ("embedding", "query", "key", "projection")
CAPTION = {
    "begins to rise": (350, 110),
    "is at its peak": (550, 210),
}  # printed, an earlier program
WITHIN = 0.15  # of a step by the caption
ADAM_EPSILON = 1e-8  # of Optax and of PyTorch
LONG = 1000  # updates: mini-batch runs of all seeds have moved by then
MOVED = 0.01  # a query's attention from its share; a hundred times the drift while it is frozen
ONSET = "attention of all queries on token 0 has risen by 0.02"
PEAK = "joint focus at its peak"
ABOVE = "step at which all queries give token 0 more than 0.95"
RATIO = "σ₂ / σ₁ of the embedding at the peak"
LEAST = "least attention on token 0 at the peak"
QUERIES = "queries condensed, half of their square norm in one direction"
BACK = "query 1 back below the share of token 0"
ORDER = ("embedding condensed, σ₂ < 0.2 σ₁", QUERIES, PEAK, BACK, "σ₂ above 0.5 σ₁ after the focus")
OPENING = [f"row {row} off the direction of row 0 by 0.3" for row in (1, 2, 3)]


@experiment(
    "published-run",
    dynamics="A: mini-batch training, embedded model; B: population gradient flow, embedded model",
    time_unit="updates",
    caveat="The paper prints neither the batch nor the seeds.",
)
def published_run(
    lab: Lab,
    width: A[int, "width of the embedding, and of queries and keys"] = 256,
    lr: A[float, "learning rate of Adam"] = 1.5e-4,
    length: A[int, "tokens in a sequence, the target included", Range(2, 1e4)] = 20,
    sequences: A[int, "sequences each seed learns from"] = 100_000,
    batch: A[int, "sequences in a mini-batch; the other runs use all at every step"] = 1000,
    steps: A[int, "updates at the published settings", Range(200, 1e6)] = 1500,
    seeds: A[int | tuple[int, ...], "number of runs (seeds 0, 1, ...), or a list of seeds"] = 3,
    noise_steps: A[int, "updates with and without noise", Range(10, 1e6)] = 10_000,
    noise_seeds: A[int, "runs with and without noise"] = 10,
) -> str:
    """Does training at the published settings show the cycle of Fig. 2?"""
    listed = checked_seeds(seeds)
    lazy = saccade.MarkovChain.lazy(PAPER_LAW, 0.8)
    share = PAPER_LAW[0]
    others = {
        "Metropolis": saccade.MarkovChain.metropolis(PAPER_LAW),
        "lazy Metropolis": saccade.MarkovChain.metropolis(PAPER_LAW, 0.8),
        "random": saccade.MarkovChain.random(PAPER_LAW, 0),
    }
    small = {"init_scale": width**-2.0}
    scaled = {"scaled": True}
    readings: dict[str, dict[str, Any]] = {
        "logits over √m": scaled,
        "rate / 3": {"lr": lr / 3},
        "rate / 2": {"lr": lr / 2},
        "start 1/m²": small,
        "start 1/m², logits over √m": small | scaled,
    }

    def trained(
        chain: saccade.MarkovChain,
        seeds: Sequence[int],
        batch: float = math.inf,
        steps: int = steps,
        lr: float = lr,
        **model: Any,
    ) -> xr.Dataset:
        options = {
            "d_model": width,
            "d_key": width,
            "init_scale": 1 / width,
        } | model
        run = saccade.train(
            chain,
            steps=steps,
            lr_decoder=lr,
            lr_attention=lr,
            batch=batch,
            context=length - 1,
            sequences=sequences,
            seeds=seeds,
            save=list(range(0, steps + 1, EVERY)),
            model=saccade.models.Embedded(**options),
            on_progress=lab.progress,
        )
        return xr.concat([observed(run.sel(seed=one), share) for one in seeds], "seed")

    parts = lab.each(["full", "mini-batch", *others, *readings, "noise"])
    both = []
    for name, size in (("full", math.inf), ("mini-batch", batch)):
        next(parts)
        both.append(trained(lazy, listed, size).assign_coords(seed=listed, batch=name))
    runs = xr.concat(both, "batch")
    event = runs.event
    of_chain = {
        name: trained(chain, listed[:1]).event for name, chain in others.items() if next(parts)
    }
    read = [
        trained(lazy, listed[:1], steps=min(SHORT, steps), **options).event
        for options in readings.values()
        if next(parts)
    ]
    for key, array in runs.data_vars.items():
        lab.keep(str(key), array)
    lab.number("event", event.mean("seed"))

    # What Fig. 2 shows, in every run; where each stage begins is read by thresholds of ours.
    shown = lab.case(
        met("the published width, rate and length", not lab.changed("width", "lr", "length")),
        at_least("sequences", sequences, 20_000),
        at_least("steps", steps, 1000),
    )
    after = shown.after_trial_runs
    shown.in_order(
        FIG_2,
        "embedding condenses, queries condense, joint focus, dilution, second direction",
        event.sel(what=list(ORDER)).values.reshape(-1, len(ORDER)),
    )
    shown.in_order(
        FIG_2,
        "embedding rows leave the direction of token 0 in order of frequency",
        event.sel(what=OPENING).values.reshape(-1, 3),
    )
    condensed = event.sel(what=QUERIES).fillna(steps)
    chance = np.log(len(PAPER_LAW))
    then = runs.loss.sel(time=condensed)
    shown.at_most(
        FIG_2,
        "share of the loss's fall from ln d to H(π) before queries have condensed",
        (chance - then) / (chance + PAPER_LAW @ np.log(PAPER_LAW)),
        0.5,
    )
    first_norm = runs.row_norm.isel(token=0)
    shown.near(
        FIG_2,
        "norm of token 0's embedding at step 200 over that at step 100, every run",
        first_norm.sel(time=200) / first_norm.sel(time=100),
        1,
        relative=0.5,
    )
    cosine = runs.row_cosine
    for step, matrices, low, high in (
        (50, ["embedding", "projection"], 0.7, 1.0),
        (50, ["query", "key"], 0.0, 0.1),
        (150, list(MATRICES), 0.9, 1.0),
    ):
        title = f"mean |cosine| of rows in every run, {', '.join(matrices)} matrix"
        measured = cosine.sel(matrix=matrices, time=step)
        after.but(step=step).between(FIG_2, title, measured, low, high)
    peak = event.sel(what=PEAK)
    probe = runs.probe_attention.isel(token=0)
    own = probe.isel(query=0).where(runs.time > peak).min("time")
    once = after.but(context="every token once")
    once.at_least(FIG_2, "attention of token 0 on itself, from the focus on", own, 0.9)
    rest = probe.isel(query=slice(1, None), time=-1)
    once.at_most(FIG_2, "attention of any other query on token 0, at the end", rest, 0.25)
    gap = np.abs(peak.isel(batch=0) / peak.isel(batch=1) - 1)
    shown.at_most(FIG_2, "focus peak: all sequences against mini-batches, relative gap", gap, 0.1)
    for name, found in of_chain.items():
        of = after.but(chain=name)
        found = found.isel(seed=0)
        ratio = f"{RATIO} of the focus"
        of.at_most(FIG_2, ratio, found.sel(what=RATIO), 0.2)
        of.at_most(FIG_2, ABOVE, found.sel(what=ABOVE), 200)
        of.in_order(FIG_2, "joint focus, then dilution", found.sel(what=[PEAK, BACK]))

    # The caption's steps, at the printed settings and at other readings of them.
    of_caption = shown.published
    reached = []
    for (what, (printed, earlier)), name in zip(CAPTION.items(), (ONSET, PEAK), strict=True):
        measured = event.sel(what=name)
        of_caption.but(**{"furthest of": f"{measured.size} runs"}).erratum(
            FIG_2,
            f"step at which attention of all queries to token 0 {what}",
            furthest(measured.values, earlier),
            number="2.9",
            printed=printed,
            corrected=earlier,
            within=WITHIN * earlier,
        )
        at = np.array([float(one.sel(what=name)[0]) for one in read])
        reached.append(np.abs(at / printed - 1) <= WITHIN)
        lab.keep("reading_step", at, "reading", what=what)
    of_caption.at_least(
        FIG_2,
        "other readings of the settings that give both steps of the caption",
        np.sum(np.logical_and(*reached)),
        1,
    )

    # Without noise: Adam on the population, where every token moves alike.
    next(parts)
    chain = saccade.MarkovChain.lazy(PAPER_LAW, 0.3)
    saves = min(500, noise_steps)
    quiet = {
        "batch": math.inf,
        "context": math.inf,
        "dtype": "float64",
    }
    regimes: dict[str, tuple[dict[str, Any], float]] = {
        "mini-batch": (
            {
                "batch": 512,
                "context": 200,
                "sequences": 20_000,
            },
            1e-3,
        ),
        "noise-free": (quiet, 1e-3),
        "noise-free, small epsilon": (quiet | {"epsilon": 1e-16}, 1e-3),
        "noise-free, larger start": (quiet, 1e-2),
    }
    by_regime = {}
    for name, (options, size) in lab.each(regimes.items()):
        run = saccade.train(
            chain,
            steps=noise_steps,
            lr_decoder=1e-3,
            lr_attention=1e-3,
            seeds=noise_seeds,
            save=np.unique(np.linspace(0, noise_steps, saves + 1).astype(int)).tolist(),
            model=saccade.models.Embedded(init_scale=size),
            on_progress=lab.progress,
            **options,
        )
        by_regime[name] = regime(run, chain)
        joint = by_regime[name].joint.rename(seed="noise_seed", time="noise_time")
        lab.keep("least_attention", joint, regime=name)
    noisy, still, sensitive, larger = by_regime.values()
    flow = saccade.flow(
        chain,
        t1=2000.0,
        model=saccade.models.Embedded(init_scale=1e-3),
        keep=("attention",),
        n_times=500,
    )
    flowed = flow.attention.values[0, :, :, 0].min(axis=1).max()
    ours = at_least("noise_steps", noise_steps, 2 * LONG)
    case = lab.case(ours, Adam="mini-batch")
    top = noisy.joint.max("time")
    title = "attention of all queries at once on the frequent token, median of seeds"
    case.near(FIG_2, title, top.median(), 1, within=0.1)
    title = "seeds whose joint focus rises ten times as far as in the flow"
    case.at_least(ADAM_FOCUS, title, (top - share > 10 * (flowed - share)).mean(), 1)
    title = "seeds whose attention first moves to the frequent token"
    case.at_least(ADAM_FOCUS, title, (noisy.side[noisy.side != 0] > 0).mean(), 1)
    case = lab.case(ours, Adam="noise-free")
    case.near(
        ADAM_WITHOUT_NOISE,
        "|cosine| of the half-grown embedding with the vector of ones, median of seeds",
        still.cosine.median(),
        1,
        within=1e-3,
    )
    title = "seeds whose gradient on queries is then below Adam's epsilon"
    case.at_least(ADAM_WITHOUT_NOISE, title, (still.pull < ADAM_EPSILON).mean(), 1)
    waits = f"seeds whose attention waits for over {LONG} steps"
    wait = case.at_least(ADAM_WITHOUT_NOISE, waits, 1 - (still.moved <= LONG).mean(), 0.5)
    for name, one in (("epsilon 1e-16", sensitive), ("start 0.01", larger)):
        case.but(regime=name).at_most(ADAM_WITHOUT_NOISE, waits, 1 - (one.moved <= LONG).mean(), 0)
    moving = still.where(still.side != 0, drop=True)
    title = "share of moving seeds that first move to the side of the drive"
    sides = (moving.side == np.sign(moving.drive)).mean()
    case.at_least(ADAM_WITHOUT_NOISE, title, sides, 0.9)

    # Pictures
    full = runs.sel(batch="full")

    def lines(title: str, y: str, values: xr.DataArray, axis: str, word: str, **more: Any) -> Lines:
        names = values[axis].values
        drawn = [
            over_seeds(values.isel({axis: i}), f"{word} {name}", tone=i / max(1, len(names) - 1))
            for i, name in enumerate(names)
        ]
        return Lines(title, "updates of Adam", y, drawn, **more)

    lab.draw(
        lines(
            "attention on token 0",
            "attention",
            full.attention_on_first,
            "query",
            "query",
            levels={share: "share of token 0"},
            marks={350.0: "", 550.0: "350 to 550: rise by the caption"},
        ),
        lines("condensation", "mean |cosine| of two rows", full.row_cosine, "matrix", ""),
        lines("size of the embeddings", "norm of a row", full.row_norm, "token", "token"),
        caption=(
            "Published settings, all sequences at every step, mean and range over seeds. Panel 1: "
            "all queries turn to token 0 together, then all but its own leave it. Panel 2: first "
            "embedding and projection condense, then queries and keys. Panel 3: embeddings but "
            "that of token 0 shrink and grow again."
        ),
    )
    lab.draw(
        lines("off the direction of token 0", "norm", full.off_first, "token", "token"),
        *(
            Lines(
                f"Adam, {name}: each seed",
                "updates",
                "least attention of any query on token 0",
                [Line(one.time, joint, tone=0) for joint in one.joint.values],
                ylim=(0, 1.02),
                levels={share: "share of the token"},
            )
            for name, one in list(by_regime.items())[:2]
        ),
        caption=(
            "Panel 4: embeddings leave the direction of token 0 one after the other. Panels "
            "5 and 6, from a start of 0.001: with mini-batches all seeds focus early and "
            "dilute; without noise many stay at the token's share for thousands of steps."
        ),
    )
    return (
        f"{lab.yes_or_no()}: in {runs.seed.size} seeds of Adam, with and "
        f"without mini-batches, the joint focus peaks at step {float(furthest(peak, 210)):.0f}. "
        f"There every query gives token 0 at least {float(event.sel(what=LEAST).min()):.3f} of "
        "its attention. The caption of Fig. 2 puts the rise between steps 350 and 550. Without "
        f"noise, from a small start, attention waits over {LONG} steps in {wait.measured:.0%} of "
        f"{noise_seeds} seeds."
    )


def observed(run: xr.Dataset, share: float) -> xr.Dataset:
    """What Fig. 2 shows of one run over time, and its events."""
    weights = weights_of(run)
    time = run.time.values
    embedding = run.embedding.values
    towards = embedding[:, 0] / np.linalg.norm(embedding[:, 0], axis=-1, keepdims=True)
    along = np.einsum("tim,tm,tn->tin", embedding, towards, towards)
    values = singular_values(embedding)
    off = np.linalg.norm(embedding - along, axis=-1)
    on_first = run.attention.values[:, :, 0]
    second = values[:, 1] / values[:, 0]
    joint = on_first.min(axis=1)
    top = np.array([top_share(query) for query in weights.query])
    peak = int(joint.argmax())
    when = partial(first_time, time)
    later = np.arange(len(time)) > peak
    read = (second < 0.2, top > 0.5, time == time[peak], later & (on_first[:, 1] < share))
    events = {
        what: when(at) for what, at in zip(ORDER, (*read, later & (second > 0.5)), strict=True)
    }
    events |= {what: when(later & (off[:, 1 + i] > 0.3)) for i, what in enumerate(OPENING)}
    events |= {ONSET: when(joint > share + 0.02), ABOVE: when(joint > 0.95)}
    events |= {RATIO: second[peak], LEAST: joint[peak]}
    row_cosine = [[mean_cosine(part[k]) for part in weights] for k in range(len(time))]
    return xr.Dataset(
        {
            "attention_on_first": (("time", "query"), on_first),
            "probe_attention": (("time", "query", "token"), probe_attention(weights)),
            "loss": ("time", run.loss.values),
            "row_norm": (("time", "token"), np.linalg.norm(embedding, axis=-1)),
            "off_first": (("time", "token"), off),
            "row_cosine": (("time", "matrix"), np.array(row_cosine)),
            "event": ("what", list(events.values())),
        },
        {
            "time": time,
            "query": run["query"],
            "token": run.token,
            "matrix": list(MATRICES),
            "what": list(events),
        },
    )


def probe_attention(weights: Weights) -> Array:
    """Attention in a context that holds every token once (time, query, token)."""
    n_vocab = weights.embedding.shape[-2]
    keys = np.swapaxes(weights.embedding @ weights.key, -1, -2)
    return class_attention(weights.embedding @ weights.query @ keys, np.full(n_vocab, 1 / n_vocab))


def mean_cosine(matrix: Array) -> float:
    """Of two different rows, without its sign."""
    found = np.abs(cosines(matrix))
    return float((found.sum() - np.trace(found)) / (found.size - len(found)))


def top_share(matrix: Array) -> float:
    """Share of the square norm in the first singular direction, by power iteration: exact where one
    direction dominates, and too small by little where none does.
    """
    matrix, along = matrix.astype(np.float64), np.ones(matrix.shape[1])
    for _ in range(30):
        along = matrix.T @ (matrix @ along)
        along /= np.linalg.norm(along)
    return float(np.sum((matrix @ along) ** 2) / np.sum(matrix**2))


def regime(run: xr.Dataset, chain: saccade.MarkovChain) -> xr.Dataset:
    """Of every seed: the joint focus over time, when and to which side attention first moves, and
    what drives it when the embedding has half its norm at the unigram point.
    """
    pi = chain.stationary
    time = run.time.values
    embedding = run.embedding.values
    on_frequent = run.attention.values[..., 0]
    patterns, _, directions = np.linalg.svd(np.nan_to_num(embedding), full_matrices=False)
    grown = np.linalg.norm(embedding, axis=(-2, -1)) >= theory.embedding_norm(stationary=pi) / 2
    half = np.where(grown.any(axis=1), grown.argmax(axis=1), -1)
    rows = np.arange(len(half))
    alpha = directions[rows, half, 0]
    keys = run.key_matrix.values[rows, half]
    drive = [
        theory.plateau_drive(W @ a, a @ P, stationary=pi, transition=chain.transition)
        for W, P, a in zip(
            embedding[rows, half], run.projection.values[rows, half], alpha, strict=True
        )
    ]
    moved = np.abs(on_frequent - pi[0]).max(axis=2) > MOVED
    at = moved.argmax(axis=1)
    joint = on_frequent.min(axis=2)
    tilt = np.sign((on_frequent - pi[0]).mean(axis=2)[rows, at])
    pulls = np.linalg.norm(np.einsum("sm,smk->sk", alpha, keys), axis=1)
    found = {
        "moved": np.where(moved.any(axis=1), time[at], np.nan),
        "side": np.where(moved.any(axis=1), tilt, 0),
        "cosine": np.abs(patterns[rows, half, :, 0].sum(axis=1)) / math.sqrt(len(pi)),
        "drive": np.array(drive),
        "pull": np.abs(drive) * pulls,
    }
    return xr.Dataset(
        {name: ("seed", values) for name, values in found.items()}
        | {"joint": (("seed", "time"), joint)},
        {"seed": run.seed, "time": time},
    )
