"""In the population flow attention focuses on the frequent token, dilutes, and starts again with
each new direction of the embedding.

By default six tokens have Zipf frequencies; other seeds focus earlier or later, with the overlap of
the random query and key matrices. Until a second direction opens, the rank-one flow from the run's
own start must give its attention; the bound of 0.02 was set after six seeds had given 0.009 to
0.010. Nine chains with the paper's frequencies follow: all must condense at one rate, and focus
each at its own rate c, whose sign says which way attention first turns.
"""

from __future__ import annotations

import itertools
import math
from itertools import pairwise
from typing import Annotated as A
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.special import xlogy

import saccade
from saccade.data.markov_presets import PAPER_LAW
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.lab.experiment import Lab, experiment
from saccade.lab.film import Film
from saccade.lab.settings import Range
from saccade.measures import fits, singular_values, top_share
from saccade.measures.event import Event, stage_bands
from saccade.measures.events import CONDENSED, find_events
from saccade.measures.fits import Array
from saccade.measures.observables import observables_of
from saccade.models.embedded import invariants, weights_of
from saccade.panels import DASHES, LINE, POINTS, RINGS, Heat, Line, Lines
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import Condition, at_least, met
from saccade.theories.focus_and_dilution.statements import (
    ATTENTION_RATE,
    CYCLE,
    FIG_2,
    INVARIANTS,
    OTHER_CHAINS,
    PROPOSITION_2_3,
    PROPOSITION_3_6,
    SIGN_RULE,
    THEOREM_3_2,
)

SOLVER = 1e-8  # what the flow promises of its invariants; steps are accurate to 1e-10 of the state
UNCHANGED = 5e-5  # 1.0000 in print
MOST_EVALUATIONS = 50_000  # of the rank-one velocity: 2,000 are usual, a large start may never end
READ_AT = 0.3  # norm of the query matrix at which a chain's first focus is read
SMALL = 1e-5  # size of the starts from which a chain's rates are measured
MOST_CURVES = 6
STAGES = {
    "condensation": "embeddings condense",
    "attention_frozen": "",
    "focus_onset": "",
    "focus_peak": "all queries focus",
    "dilution": "focus dilutes",
    "new_direction": "a new direction opens",
    "next_cycle": "",
}
OF_CHAINS = ("condensation", "focus", "dilution", "new direction")


@experiment(
    "cycle",
    dynamics="B: population gradient flow, embedded model",
    time_unit=stages.STEPS,
)
def cycle(
    lab: Lab,
    stationary: A[
        tuple[float, ...], "frequency of each token, summing to 1; default: six Zipf frequencies"
    ] = (),
    stay: A[float, "probability of repeating the last token, below 1"] = 0.5,
    init_scale: A[
        float, "standard deviation of every weight at the start", Range(1e-30, 1e6)
    ] = 1e-3,
    t1: A[float, "end of the flow"] = 5000.0,
    seed: A[int, "seed of the random start"] = 0,
    d_model: A[int, "width of the embedding"] = 8,
    n_times: A[int, "samples of the flow, log-spaced", Range(2, 1e6)] = 1500,
    lr_attention: A[
        float, "rate of query and key matrices, others have 1", Range(1e-30, 1e30)
    ] = 1.0,
    n_chains: A[int, "chains with the paper's frequencies; 0 leaves them out", Range(0, 100)] = 9,
) -> str:
    """Does attention focus, dilute, and start again with each new direction?"""
    make = saccade.MarkovChain
    chain = make.lazy(stationary, stay=stay) if stationary else make.zipf(6, stay=stay)
    parts = lab.each(["flow", "chains"])
    next(parts)
    model = saccade.models.Embedded(d_model=d_model, init_scale=init_scale)
    run = saccade.flow(
        chain,
        t1=t1,
        lr_attention=lr_attention,
        n_times=n_times,
        model=model,
        seeds=[seed],
        on_progress=lab.progress,
    ).isel(seed=0)
    run = run.isel(time=np.isfinite(run.loss.values))
    time = run.time.values
    pi = chain.stationary
    events = find_events(run)
    seen = observables_of(run)
    first = {
        stage: min((event.time for event in events if event.name == stage), default=math.inf)
        for stage in STAGES
    }
    excess = run.loss.values + pi @ xlogy(chain.transition, chain.transition).sum(axis=1)
    known = int(np.searchsorted(time, first["new_direction"], side="right"))
    told = one_direction(run, known, lr_attention)
    attention = run.attention.values
    peaks = seen["attention_on_frequent"]
    n_directions = 1 + sum(event.name == "new_direction" for event in events)
    lab.keep("attention", run.attention)
    lab.keep("theory_attention", told, "time query token", "attention by the rank-one flow")
    lab.keep("excess_loss", excess, "time", "loss above the entropy rate of the chain", "nats")
    for name, stage in (
        ("condensation_time", "condensation"),
        ("focus_time", "focus_peak"),
        ("dilution_time", "dilution"),
        ("new_direction_time", "new_direction"),
    ):
        lab.number(name, first[stage] if first[stage] < math.inf else math.nan)
    lab.number("n_directions", n_directions)
    lab.number("highest_attention", peaks.max())
    lab.number("excess_loss", excess[-1])
    columns = ("event", "query", "time", "value")
    rows = [(event.name, event.query, event.time, event.value) for event in events]
    lab.table([dict(zip(columns, row, strict=True)) for row in rows], "events")

    # The flow conserves two matrices and never climbs.
    laws = invariants(weights_of(run), lr_attention=lr_attention)
    drift = [np.abs(law - law[0]).max() for law in laws]
    title = "largest drift of W₀ᵀW₀ - W₁W₁ᵀ - W_QW_Qᵀ - W_KW_Kᵀ and W_QᵀW_Q - W_KᵀW_K"
    lab.case().at_most(INVARIANTS, title, drift, SOLVER)
    rise = np.diff(run.loss.values).max(initial=0.0)
    lab.case().at_most(PROPOSITION_2_3, "largest rise of the loss (nats)", rise, SOLVER)

    # Stages begin in order from a small start with unequal tokens, where samples are dense enough.
    small, *moving = conditions(chain, init_scale, lr_attention)
    begins = lab.case(
        small, *moving, at_least("d_model", d_model, 2), at_least("n_times", n_times, 100)
    )
    given = begins.given
    if all(condition.holds for condition in given):  # equal tokens would take forever
        start = run.isel(time=0)
        weights = start.embedding.values, start.projection.values
        due = theory.condensation_time(*weights, stationary=pi)
        given = [*given, at_least("run beyond condensation", t1, due, "t1")]
    with np.errstate(invalid="ignore", divide="ignore"):  # squares of a tiny start are zero
        share = top_share(seen["embedding_singular_values"])
        growth = seen["query_norm"] / seen["query_norm"][0]
    before = share[(time <= first["focus_onset"]) & np.isfinite(share)].max(initial=0.0)
    condenses = begins.but(given=given)
    title = "largest share of the top direction of the embedding before focus"
    condenses.near(THEOREM_3_2, title, before, 1, within=1 - CONDENSED)
    at = np.searchsorted(time, first["condensation"])
    frozen = growth[at] if at < len(time) else math.nan
    condenses.near(
        THEOREM_3_2, "|W_Q| at condensation, over its start", frozen, 1, within=UNCHANGED
    )
    beyond = at_least("run beyond the event", t1, 2500, "t1")
    long = begins.but(given=[*begins.given, beyond])
    # Turns and directions have no common order: without a token that stands out, the second
    # direction may open before any turn.
    turn = min(first["focus_peak"], first["new_direction"])
    begun = [first["condensation"], first["focus_onset"], turn]
    long.none(
        FIG_2,
        "condensation, growing attention matrices, first turn or direction follow in this order",
        [not earlier <= later < math.inf for earlier, later in pairwise(begun)],
    )
    shown = met("the usual frequencies and stay", not lab.changed("stationary", "stay"))
    times = list(first.values())
    in_order = sum(at < math.inf and at <= min(times[i:]) for i, at in enumerate(times))
    all_seven = long.but(given=[*long.given, shown]).at_least(
        FIG_2, "stages seen in order, of seven", in_order, len(STAGES)
    )
    extra = max(0, n_directions - (len(pi) - 1))
    directions = lab.case(small).at_most(
        CYCLE, "embedding directions beyond one fewer than tokens", extra, 0
    )
    title = (
        "attention by the rank-one flow from the run's start, largest gap before a new direction"
    )
    gap = np.abs(told - attention)[:known]
    rank_one = begins.after_trial_runs.at_most(PROPOSITION_3_6, title, gap, 0.02)

    main = [all_seven, directions, rank_one]
    row: list[Lines] = []
    next(parts)
    if n_chains:
        ordered, row, of_chains = nine_chains(lab, n_chains)
        main.append(ordered)
    draw(lab, run, events, excess, row)
    names = [str(token) for token in range(len(pi))]
    marks = {
        first[stage]: said for stage, said in STAGES.items() if said and first[stage] < math.inf
    }
    lab.film(
        Film(
            "All queries turn to the frequent token, the focus dilutes, and it starts again.",
            time,
            attention,
            tokens=names,
            queries=names,
            theory=told,
            outlines="theory with one direction",
            marks=marks,
            clock="t",
        )
    )
    return (
        f"{lab.yes_or_no(*main)}: in the population flow {in_order} of 7 stages come in order. "
        f"Condensation ends at t = {first['condensation']:.3g} and the first focus at "
        f"{first['focus_peak']:.3g}. "
    ) + (of_chains if n_chains else "")


def conditions(
    chain: saccade.MarkovChain, init_scale: float, lr_attention: float
) -> list[Condition]:
    """Of stage I; one that cannot be formed for these frequencies is not met."""
    found = theory.check_assumptions(
        chain.stationary,
        chain.transition,
        n_context=math.inf,
        init_scale=init_scale,
        lr_attention=lr_attention,
    )
    by_name = {condition.name: condition for condition in found}
    names = (f"stage I, {what}" for what in ("small start", "unequal tokens", "attention at rest"))
    return [by_name.get(name, met(name, False)) for name in names]


def one_direction(run: xr.Dataset, known: int, lr_attention: float) -> Array:
    """Attention (time, query, token) by the rank-one flow from a run's own start; NaN from sample
    `known` on, and everywhere if the theory has no direction to follow, or not that far.
    """
    pi = run.stationary.values
    transition = run.transition.values
    told = np.full(run.attention.shape, np.nan)
    chain = {"stationary": pi, "transition": transition}
    try:
        start = theory.rank_one_start(*weights_of(run.isel(time=0)), **chain).state
    except InputError:  # equally frequent tokens: nothing condenses
        return told

    def state(flat: Array) -> theory.RankOneState:
        gamma, beta = np.split(flat[:-2], 2)
        return theory.RankOneState(gamma, beta, float(flat[-2]), float(flat[-1]))

    evaluations = itertools.count()

    def velocity(_: float, flat: Array) -> Array:
        if next(evaluations) > MOST_EVALUATIONS:
            raise OverflowError
        return np.hstack(theory.rank_one_velocity(state(flat), lr_attention=lr_attention, **chain))

    times = run.time.values[:known]
    try:
        with np.errstate(all="ignore"):
            path = solve_ivp(
                velocity,
                (0, times[-1]),
                np.hstack(start),
                method="LSODA",
                t_eval=times,
                rtol=1e-8,
                atol=1e-12,
            )
    except OverflowError:
        return told
    for place, flat in enumerate(path.y.T):
        told[place] = theory.rank_one_attention(state(flat), stationary=pi)
    return told


def nine_chains(lab: Lab, n_chains: int) -> tuple[Any, list[Lines], str]:
    """Chains that share the paper's frequencies: order of stages, rates, and the side of c."""
    make = saccade.MarkovChain
    named = {
        "lazy": make.lazy(PAPER_LAW, 0.3),
        "Metropolis": make.metropolis(PAPER_LAW),
        "lazy Metropolis": make.metropolis(PAPER_LAW, 0.3),
    } | {f"random {seed}": make.random(PAPER_LAW, seed) for seed in range(n_chains)}
    named = dict(list(named.items())[:n_chains])
    found = [followed(one) for one in lab.each(named.values())]
    times, focus, rates = (np.array(part) for part in zip(*found, strict=True))
    c = np.array([stages.focus_rate(one) for one in named.values()])
    mu_0 = theory.condensation_rate(stationary=PAPER_LAW)
    lab.keep("stage_time", times, "chain stage", "when each stage begins", stages.STEPS)
    lab.number(
        "first focus of the lazy chain",
        xr.DataArray(focus[0], dims="query", coords={"query": range(4)}),
    )
    case = lab.case()
    title = f"{', '.join(OF_CHAINS)} follow in this order"
    in_order = np.all(np.diff(times, axis=1) > 0, axis=1)
    ordered = case.none(OTHER_CHAINS, title, ~in_order)
    title = "rate of condensation, furthest chain"
    case.near(THEOREM_3_2, title, rates[:, 0], mu_0, relative=0.005)
    title = "growth rate of queries against each chain's |c|, largest relative gap"
    case.at_most(ATTENTION_RATE, title, np.abs(rates[:, 1] / np.abs(c) - 1), 0.005)
    wrong = np.sign(focus - PAPER_LAW[0]) != np.sign(c)[:, None]
    title = "queries whose attention first turns to the other side than the sign of c"
    case.none(SIGN_RULE, title, wrong)
    places = np.arange(len(named))
    ticks = {float(place): name for place, name in enumerate(named)}
    row = [
        Lines(
            "when stages begin",
            "",
            "time",
            [Line(places, times[:, i], stage, POINTS, i) for i, stage in enumerate(OF_CHAINS)],
            "y",
            ticks=ticks,
        ),
    ]
    said = (
        f"In {in_order.sum()} of {len(named)} chains with the paper's "
        f"frequencies four stages come in that order; c is negative in {np.sum(c < 0)}, where "
        "attention first turns away."
    )
    return ordered, row, said


def followed(chain: saccade.MarkovChain) -> tuple[list[float], list[float], list[float]]:
    """When four stages begin from a small random start, the first focus of each query, and the
    rates of condensation and of focus. A time of 60 / |c| is enough for a new direction.
    """
    # times of events are right to 1e-6 with these tolerances
    run = saccade.flow(
        chain,
        t1=60 / abs(stages.focus_rate(chain)),
        n_times=1000,
        model=saccade.models.Embedded(init_scale=1e-3),
        rtol=1e-8,
        atol=1e-10,
    ).isel(seed=0)
    pi = chain.stationary
    t = run.time.values
    embedding = run.embedding.values
    on_frequent = run.attention.values[:, :, 0]
    queries = np.linalg.norm(run.query_matrix.values, axis=(1, 2))
    norm = np.linalg.norm(embedding, axis=(1, 2))
    half = theory.embedding_norm(stationary=pi) / 2
    values = singular_values(embedding)
    condensed = fits.first_index(norm, half)
    linear = stages.linear_end(stages.along(run, condensed))
    way = np.sign(on_frequent[fits.first_index(queries, READ_AT), 0] - pi[0])
    turns = [fits.peak_time(t, way * one, linear) for one in on_frequent.T[1:]]
    ratio = values[condensed:, 1] / values[condensed:, 0]
    times = [
        fits.reaching_time(t, norm, half),
        fits.reaching_time(t, queries, 3 * queries[0]),
        np.fmin.reduce(turns),
        fits.reaching_time(t[condensed:], ratio, 0.1),
    ]
    at = fits.reaching_time(t, queries, READ_AT)

    t1 = np.log(2 * half / SMALL) / theory.condensation_rate(stationary=pi)
    run = saccade.flow(
        chain,
        t1=t1,
        n_times=400,
        model=saccade.models.Embedded(init_scale=SMALL),
    )
    top = singular_values(run.embedding.values[0])[:, 0]
    path = stages.along(stages.flow_from_unigram(chain, SMALL, 0, 400))
    rates = [
        fits.growth_rate(run.time.values, top, stages.condensation_window(top, pi)),
        fits.growth_rate(path.time, path.query_size, stages.attention_window(path)),
    ]
    return times, [np.interp(at, t, one) for one in on_frequent.T], rates


def draw(
    lab: Lab, run: xr.Dataset, events: list[Event], excess: Array, of_chains: list[Lines]
) -> None:
    time = run.time.values
    pi = run.stationary.values
    seen = observables_of(run)
    bands = stage_bands(events, float(time[-1]))
    end = float(time[-1])
    # 3.2 decades of time: the stages after condensation have room
    axis: dict[str, Any] = {
        "xlim": (end / 10**3.2, end),
        "marks": {at: name for name, at, _ in bands[1:]},
    }
    order = np.argsort(-pi, kind="stable")[:MOST_CURVES].tolist()
    curves = seen["attention_on_frequent"]
    share = pi.max()
    lines = [Line(time[[0, -1]], [share] * 2, "share of the token", DASHES, None)]
    for tone, query in enumerate(order):
        name = f"query {query}, share {pi[query]:.2g}"
        lines.append(Line(time, curves[:, query], name, tone=tone))
        for kind, style in (("focus_peak", POINTS), ("dilution", RINGS)):
            some = [event for event in events if (event.name, event.query) == (kind, query)]
            at = [event.time for event in some]
            heights = [event.value for event in some]
            lines.append(Line(at, heights, "", style, tone))
    title = "attention on the most frequent token"
    lab.draw(
        Lines(title, "time", "attention", lines, "x", ylim=(-0.03, 1.03), **axis),
        caption=(
            "Panel 1: attention of each query on the most frequent token, with focus peaks (dots) "
            "and dilutions (rings), starts at the token's share. Vertical lines: where a stage "
            "begins."
        ),
    )
    names = [str(token) for token in range(len(pi))]
    maps = []
    for place in np.unique(np.linspace(0, len(bands) - 1, 3).round().astype(int)):
        name, _, until = bands[place]
        i = int(np.abs(time - until).argmin())
        title = f"end of {name}, t = {time[i]:.0f}"
        maps.append(Heat(title, "token", "query", run.attention.values[i], names, names, (0, 1)))
    lab.draw(*maps, caption="Maps: attention of each query over all tokens where stages end.")
    values = [
        Line(time, one, f"s{k + 1} of {matrix}", style, k)
        for name, matrix, style, most in (
            ("embedding_singular_values", "W₀", LINE, MOST_CURVES),
            ("query_key_singular_values", "W_Q W_Kᵀ", DASHES, 2),
        )
        for k, one in enumerate(seen[name].T[:most])
    ]
    title = "the loss falls in steps"
    y = "loss above the optimum (nats)"
    loss = [Line(time, excess, "", tone=None)]
    ylim = (excess[0] * 1e-3, None)
    lab.draw(
        Lines("directions open one by one", "time", "singular value", values, "xy", **axis),
        Lines(title, "time", y, loss, "xy", ylim=ylim, **axis),
        *of_chains,
        caption=(
            "Then: of the singular values of embedding (solid) and query times key matrix (dashed) "
            "one grows first, the others open one by one; with each the loss falls. Last panel: "
            "when the embedding is half grown (condensation), queries are three times their start "
            "(focus), the first query turns back (dilution) and a second singular value is a "
            "tenth of the first (new direction), in chains with the paper's frequencies."
        ),
    )
