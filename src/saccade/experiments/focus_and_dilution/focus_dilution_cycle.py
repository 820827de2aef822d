"""Attention focuses on the frequent token, dilutes, and repeats this with each new embedding
direction.

Follows the population gradient flow of the embedded model from a small random start and finds its
stages in what can be observed. Expect by default (six tokens of a Zipf law): the times and
attentions of an independent replication, within 10 % and 0.02; with other seeds the first focus
comes earlier or later, with the overlap of the random query and key matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import xlogy

import saccade
from saccade.data.markov_presets import PAPER_LAW, zipf_law
from saccade.errors import checked_count, checked_number
from saccade.experiments.focus_and_dilution.focus_dilution_replication import (
    replicated_claims,
    until,
)
from saccade.experiments.focus_and_dilution.one_direction import CALLED, one_direction_attention
from saccade.lab.claim import Case, Claim
from saccade.lab.film import Film
from saccade.lab.panel import DASHES, POINTS, RINGS, Heat, Layout, Line, Lines, Panel
from saccade.lab.protocol import Experiment, Progress
from saccade.model.embedded import invariants, weights_of
from saccade.observe.events import CONDENSED, find_events
from saccade.observe.fits import Array
from saccade.observe.measures import entropy, top_share
from saccade.observe.observables import observables_of
from saccade.records.events import Event, stage_bands
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import Condition, at_least, met
from saccade.theory.focus_and_dilution.statements import (
    CYCLE,
    FIG_2,
    INVARIANTS,
    PROPOSITION_2_3,
    THEOREM_3_2,
)

SOLVER = (
    1e-8  # what the flow promises of its invariants; its steps are accurate to 1e-10 of the state
)
UNCHANGED = 5e-5  # "1.0000" as printed by the replication
LEAST_SAMPLES = 100  # ten an e-fold of time over 0.1 to 5000
REPLICATED_SAMPLES = 1000  # fewer show the first focus, which lasts an eighth of an e-fold of time, in fewer than ten samples
STAGES = (
    "condensation",
    "attention_frozen",
    "focus_onset",
    "focus_peak",
    "dilution",
    "new_direction",
    "next_cycle",
)


@dataclass(frozen=True)
class Settings:
    stationary: tuple[float, ...] = ()
    """frequency of each token: positive numbers that sum to 1; default: six tokens with Zipf
    frequencies
    """
    stay: float = 0.5
    """probability of repeating the last token, below 1; otherwise the next one is drawn from
    `stationary`
    """
    init_scale: float = 1e-3
    """standard deviation of every weight at the start, above 0"""
    t1: float = 5000.0
    """end of the flow, in steps of gradient descent at rate 1"""
    seed: int = 0
    """seed of the random start"""
    d_model: int = 8
    """width of the embedding"""
    d_key: int = 8
    """width of queries and keys"""
    n_times: int = 1500
    """samples of the flow, log-spaced"""
    lr_attention: float = 1.0
    """rate of the query and key matrices, above 0; that of embedding and projection is 1"""
    scaled: bool = False
    """divide attention logits by the square root of d_model"""
    logit_scale: float = 1.0
    """multiply attention logits by this as well"""


def measure(settings: Settings, on_progress: Progress) -> xr.Dataset:
    law, stay = settings.stationary, settings.stay
    checked_number(
        "init_scale", settings.init_scale, low=0.0, high=1e6, open_low=True
    )  # from zero nothing ever grows
    widths = {
        name: getattr(settings, name)
        for name in ("d_model", "d_key", "init_scale", "scaled", "logit_scale")
    }
    record = saccade.flow(
        saccade.MarkovChain.lazy(law, stay=stay) if law else saccade.MarkovChain.zipf(6, stay=stay),
        t1=settings.t1,
        lr_attention=checked_number(
            "lr_attention", settings.lr_attention, low=0.0, high=1e30, open_low=True
        ),
        n_times=settings.n_times,
        model=saccade.Embedded(**widths),
        seeds=[checked_count("seed", settings.seed, low=0, high=2**63 - 1)],
        on_progress=on_progress,
    )
    return record.assign(predicted_attention=_predicted(record, settings))


def _predicted(record: xr.Dataset, settings: Settings) -> tuple[Any, ...]:
    """Attention by theory, until the flow ends or a second direction opens."""
    run = record.isel(seed=0)
    end = run.time.values[np.isfinite(run.loss.values)][-1]
    opening = [event.time for event in events_of(record) if event.name == "new_direction"]
    told = one_direction_attention(
        run,
        phi_scale=_phi_scale(settings),
        lr_attention=settings.lr_attention,
        until=min([end, *opening]),
    )
    about = {"definition": "the same by theory, until a second direction opens", "units": "1"}
    return (record.attention.dims, told[None], about | {"theory_of": "attention", "called": CALLED})


def _phi_scale(settings: Settings) -> float:
    return settings.logit_scale / (math.sqrt(settings.d_model) if settings.scaled else 1.0)


def events_of(record: xr.Dataset) -> list[Event]:
    return find_events(record.isel(seed=0))


def excess_loss(run: xr.Dataset) -> Array:
    """Loss above the entropy rate of the chain, which no model can beat (time)."""
    transition = run.transition.values
    return run.loss.values + run.stationary.values @ xlogy(transition, transition).sum(axis=1)


def claims(record: xr.Dataset) -> Iterator[Claim]:
    events, settings, run = events_of(record), EXPERIMENT.settings_of(record), record.isel(seed=0)
    if _is_replicated(record, settings):
        attention = observables_of(run)["attention_on_frequent"].mean(axis=1)
        yield from replicated_claims(
            events, run.time.values, excess_loss(run), attention, settings.t1
        )
    yield from _of_solver(run)
    yield from _of_condensation(run, events, settings)
    yield from _of_stages(run, events, settings)


def _is_replicated(record: xr.Dataset, settings: Settings) -> bool:
    """Of other laws and models the replication says nothing."""
    plain = Settings(
        seed=settings.seed, t1=settings.t1, n_times=settings.n_times, stationary=settings.stationary
    )
    return (
        settings == plain
        and settings.n_times >= REPLICATED_SAMPLES
        and _is_lazy(record, settings, zipf_law(6), 0.5)
    )


def _is_lazy(record: xr.Dataset, settings: Settings, law: ArrayLike, stay: float) -> bool:
    found = record.stationary.values
    return (
        settings.stay == stay
        and len(found) == np.size(law)
        and np.allclose(found, law, rtol=0, atol=1e-9)
    )


def _of_solver(run: xr.Dataset) -> Iterator[Claim]:
    """The flow conserves two matrices and never climbs."""
    reached = run.isel(time=np.isfinite(run.loss.values))
    first, second = invariants(weights_of(reached), lr_attention=float(run.lr_attention))
    rise = np.diff(reached.loss.values).max(initial=0.0)
    yield Case().at_most(
        INVARIANTS,
        "largest drift of W₀ᵀW₀ - W₁W₁ᵀ - W_QW_Qᵀ - W_KW_Kᵀ",
        np.abs(first - first[0]),
        SOLVER,
    )
    yield Case().at_most(
        INVARIANTS, "largest drift of W_QᵀW_Q - W_KᵀW_K", np.abs(second - second[0]), SOLVER
    )
    yield Case().at_most(PROPOSITION_2_3, "largest rise of the loss (nats)", rise, SOLVER)


def _of_condensation(run: xr.Dataset, events: list[Event], settings: Settings) -> Iterator[Claim]:
    given = _begins(run, settings)
    if all(
        condition.holds for condition in given
    ):  # without unequal tokens condensation would take forever
        start = run.isel(time=0)
        due = theory.condensation_time(
            start.embedding.values, start.projection.values, stationary=run.stationary.values
        )
        given.append(at_least("run beyond condensation", settings.t1, due, "t1"))
    time, seen = run.time.values, observables_of(run)
    with np.errstate(invalid="ignore", divide="ignore"):  # squares of a tiny start are zero
        share, growth = (
            top_share(seen["embedding_singular_values"]),
            seen["query_norm"] / seen["query_norm"][0],
        )
    first = _first_times(events)
    before = share[(time <= first["focus_onset"]) & np.isfinite(share)]
    condensed = first["condensation"]
    case = Case({}, given)
    yield case.near(
        THEOREM_3_2,
        "largest share of the top direction of the embedding before focus",
        before.max(initial=0.0),
        1,
        within=1 - CONDENSED,
        sentence="Embeddings condense to one direction before attention focuses.",
    )
    yield case.near(
        THEOREM_3_2,
        "|W_Q| at condensation, over its start",
        growth[np.searchsorted(time, condensed)] if condensed < math.inf else math.nan,
        1,
        within=UNCHANGED,
        sentence="Attention does not move while the embeddings condense.",
    )


def _of_stages(run: xr.Dataset, events: list[Event], settings: Settings) -> Iterator[Claim]:
    first, begins = _first_times(events), Case({}, _begins(run, settings))
    # Turns and directions have no common order: without a token that stands out, the second
    # direction may open before any turn.
    beginning = [
        first["condensation"],
        first["focus_onset"],
        min(first["focus_peak"], first["new_direction"]),
    ]
    n_directions = 1 + sum(event.name == "new_direction" for event in events)
    known = _is_lazy(run, settings, zipf_law(6), 0.5) or _is_lazy(run, settings, PAPER_LAW, 0.3)
    shown = [
        met("zipf(6) with stay 0.5, or the paper's law with stay 0.3", known),
        until(2500, settings.t1),
    ]
    yield begins.none(
        FIG_2,
        "condensation, growing attention matrices, first turn or direction follow in this order",
        [later < earlier for earlier, later in pairwise(beginning)],
    )
    yield begins.but(given=[*begins.given, *shown]).at_least(
        FIG_2,
        "stages seen in order, of seven",
        sum(
            first[name] < math.inf and first[name] <= min(first[later] for later in STAGES[i:])
            for i, name in enumerate(STAGES)
        ),
        len(STAGES),
        sentence="Every stage from condensation to the next cycle is seen, each before all that should follow.",
    )
    yield Case({}, _conditions(run, settings, "stage I, small start")).at_most(
        CYCLE,
        "embedding directions beyond one fewer than tokens",
        max(0, n_directions - (len(run.stationary) - 1)),
        0,
    )


def _first_times(events: list[Event]) -> dict[str, float]:
    """When each stage is first seen; infinite if it is not."""
    return {
        name: min((event.time for event in events if event.name == name), default=math.inf)
        for name in STAGES
    }


def _begins(run: xr.Dataset, settings: Settings) -> list[Condition]:
    """Where stages begin and can be seen: a width of 1 has one direction from the start, and
    samples may be too far apart.
    """
    return [
        *_conditions(
            run,
            settings,
            "stage I, small start",
            "stage I, unequal tokens",
            "stage I, attention at rest",
        ),
        at_least("d_model", settings.d_model, 2),
        at_least("n_times", settings.n_times, LEAST_SAMPLES),
    ]


def _conditions(run: xr.Dataset, settings: Settings, *names: str) -> list[Condition]:
    """Some of the theory's conditions; one that cannot be formed for this law is not met."""
    found = theory.check_assumptions(
        run.stationary.values,
        run.transition.values,
        n_context=math.inf,
        init_scale=settings.init_scale,
        phi_scale=_phi_scale(settings),
        lr_attention=settings.lr_attention,
    )
    by_name = {condition.name: condition for condition in found}
    return [by_name.get(name, met(name, False)) for name in names]


def files(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """`events.csv`: every event in order of time; no query for what concerns the whole model."""
    rows = [
        {
            "event": event.name,
            "query": "" if event.query is None else event.query,
            "time": event.time,
            "value": event.value,
        }
        for event in events_of(record)
    ]
    return {"events.csv": (["event", "query", "time", "value"], rows)}


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Every sample: loss above the optimum, singular values, and for each token its attention,
    entropy and norm.
    """
    run = record.isel(seed=0)
    seen = observables_of(run)
    columns = {"time": run.time.values, "excess_loss": excess_loss(run)}
    for name, first, values in (
        ("embedding_s", 1, seen["embedding_singular_values"]),
        ("query_key_s", 1, seen["query_key_singular_values"]),
        ("attention_on_frequent_", 0, seen["attention_on_frequent"]),
        ("entropy_", 0, entropy(run.attention.values)),
        ("norm_", 0, np.linalg.norm(run.embedding.values, axis=-1)),
    ):
        columns |= {f"{name}{first + i}": column for i, column in enumerate(values.T)}
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(values.tolist() for values in columns.values()), strict=True)
    ]


def headlines(record: xr.Dataset) -> dict[str, float]:
    """When a query first focuses, is first diluted, and when a direction opens, NaN for what is not
    seen; and how far it gets.
    """
    events, run = events_of(record), record.isel(seed=0)
    first = {
        "focus_time": "focus_peak",
        "dilution_time": "dilution",
        "new_direction_time": "new_direction",
    }
    times = _first_times(events)
    return {
        name: times[kind] if times[kind] < math.inf else math.nan for name, kind in first.items()
    } | {
        "n_directions": 1.0 + sum(event.name == "new_direction" for event in events),
        "highest_attention": float(np.nanmax(observables_of(run)["attention_on_frequent"])),
        "excess_loss": float(excess_loss(run)[-1]),
    }


MOST_CURVES = 6  # as many as there are colours that can be told apart
DECADES = 3.2  # of time are shown, so that the stages after condensation have room
ROOM_ABOVE = 1e3  # top of the panel of singular values, for its legend
LEAST_LOSS = (
    1e-3  # of the loss at the start: below it are no more steps, only the approach to the optimum
)
EARLY = 1.15  # times the first peak: peaks of other queries up to here belong to the first focus
MAPS = 6  # at most, in rows of three


def panels(record: xr.Dataset) -> Layout:
    run, events = record.isel(seed=0, time=np.isfinite(record.loss.values[0])), events_of(record)
    bands = stage_bands(events, float(record.time[-1]))
    marks = {start: name for name, start, _ in bands[1:]}
    end = run.time.values[-1]

    def over_time(title: str, y: str, lines: Sequence[Line], log: str = "x", **more: Any) -> Lines:
        return Lines(
            title,
            "time",
            y,
            lines,
            log,
            **{"xlim": (end / 10**DECADES, end), "marks": marks, **more},
        )

    norms, spread = np.linalg.norm(run.embedding.values, axis=-1), entropy(run.attention.values)
    attention, excess = _attention_lines(run, events), excess_loss(run)
    whole = over_time(
        "attention on the most frequent token", "attention", attention, ylim=(-0.03, 1.03)
    )
    maps, loss = _maps(run, bands), Line(run.time, excess, "", tone=None)
    falls = over_time(
        "the loss falls in steps",
        "loss above the optimum (nats)",
        [loss],
        "xy",
        ylim=(excess[0] * LEAST_LOSS, None),
    )
    values, unnamed = (
        _singular_value_lines(run),
        dict.fromkeys(marks, ""),
    )  # the panel beside it names the stages
    rows: list[list[Panel]] = [
        [
            over_time(
                "directions open one by one",
                "singular value",
                values,
                "xy",
                ylim=(None, ROOM_ABOVE),
                marks=unnamed,
            ),
            falls,
            _plane(run, bands),
        ],
        [*_first_focus(run, events, attention), whole],
        *(maps[i : i + 3] for i in range(0, len(maps), 3)),
        [
            over_time(
                "entropy of each query's attention",
                "entropy (nats)",
                _token_lines(run, spread),
                ylim=(0, None),
            ),
            over_time(
                "norm of each token's embedding", "norm", _token_lines(run, norms), ylim=(0, None)
            ),
        ],
    ]
    return rows


def _shown(run: xr.Dataset) -> list[int]:
    """Tokens whose curves are drawn, most frequent first: all, or evenly spaced ones if there are
    too many to tell apart.
    """
    order = np.argsort(-run.stationary.values, kind="stable")
    return [int(order[place]) for place in _spaced(len(order), MOST_CURVES)]


def _spaced(n: int, most: int) -> list[int]:
    """Evenly spaced places, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int)).tolist()


def _singular_value_lines(run: xr.Dataset) -> list[Line]:
    t, seen = run.time, observables_of(run)
    embedding, query_key = seen["embedding_singular_values"], seen["query_key_singular_values"]
    lines = [
        Line(t, embedding[:, k], f"s{k + 1} of W₀", tone=k)
        for k in range(min(embedding.shape[1], MOST_CURVES))
    ]
    return lines + [
        Line(t, query_key[:, k], f"s{k + 1} of W_Q W_Kᵀ", DASHES, (None, 5)[k])
        for k in range(min(query_key.shape[1], 2))
    ]


def _token_lines(run: xr.Dataset, values: Array) -> list[Line]:
    return [
        Line(run.time, values[:, token], f"token {token}", tone=i)
        for i, token in enumerate(_shown(run))
    ]


def _attention_lines(run: xr.Dataset, events: list[Event]) -> list[Line]:
    curves, shares = observables_of(run)["attention_on_frequent"], run.stationary.values
    lines = [Line(run.time[[0, -1]], [shares.max()] * 2, "share of the token", DASHES, None)]
    for i, query in enumerate(_shown(run)):
        lines.append(
            Line(run.time, curves[:, query], f"query {query}, share {shares[query]:.2g}", tone=i)
        )
        for name, style in (("focus_peak", POINTS), ("dilution", RINGS)):
            seen = [event for event in events if (event.name, event.query) == (name, query)]
            lines.append(
                Line([event.time for event in seen], [event.value for event in seen], "", style, i)
            )
    return lines


def _first_focus(run: xr.Dataset, events: list[Event], lines: list[Line]) -> list[Panel]:
    """The first focus once more, larger: it is short and small against what follows."""
    peaks = [event for event in events if event.name == "focus_peak"]
    if not peaks:
        return []
    first, share = peaks[0].time, run.stationary.values.max()
    height = max(peak.value for peak in peaks if peak.time <= EARLY * first) - share
    low, high = sorted((share - 0.6 * height, share + 1.4 * height))
    unnamed = [line._replace(label="") for line in lines]
    return [
        Lines(
            "the first focus",
            "time",
            "attention",
            unnamed,
            "",
            (first / EARLY, first * EARLY),
            (low, high),
        )
    ]


def _maps(run: xr.Dataset, bands: list[tuple[str, float, float]]) -> list[Panel]:
    """Attention where stages meet. The onset of focus is left out: nothing is to be seen of it yet."""
    ends = [(end, f"end of {name}") for name, _, end in bands[:-1] if name != "frozen"] + [
        (bands[-1][2], "end of the run")
    ]
    names = [str(token) for token in run.token.values]
    drawn: list[Panel] = []
    for place in _spaced(len(ends), MAPS if len(ends) >= MAPS else 3):
        when, name = ends[place]
        i = int(np.abs(run.time.values - when).argmin())
        title = f"{name}, t = {run.time.values[i]:.0f}"
        drawn.append(
            Heat(
                title, "token", "query", run.attention.values[i], names, names, (0, 1), "attention"
            )
        )
    return drawn


def _plane(run: xr.Dataset, bands: list[tuple[str, float, float]]) -> Lines:
    """Embeddings in their first two principal components, not centred: the origin, where all start,
    is a place of its own.
    """
    embedding = run.embedding.values
    plane = np.linalg.svd(embedding.reshape(-1, embedding.shape[-1]), full_matrices=False)[2][:2]
    path = np.zeros((*embedding.shape[:2], 2))
    path[..., : len(plane)] = embedding @ plane.T
    at = np.searchsorted(
        run.time.values, [end for _, _, end in bands[:-1] if end <= run.time.values[-1]]
    )
    lines = []
    for i, token in enumerate(_shown(run)):
        x, y = path[:, token].T
        lines += [
            Line(x, y, f"token {token}", tone=i),
            Line(x[at], y[at], "", POINTS, i),
            Line(x[-1:], y[-1:], "", RINGS, i),
        ]
    return Lines("paths of the embeddings", "first component", "second component", lines)


FILM_STAGES = {
    "condensation": "embeddings condense",
    "focus_peak": "all queries focus",
    "dilution": "focus dilutes",
    "new_direction": "a new direction opens",
}


def film(record: xr.Dataset) -> Film:
    """The attention map of the run, with the first time of each stage."""
    run, first = (
        record.isel(seed=0, time=np.isfinite(record.loss.values[0])),
        _first_times(events_of(record)),
    )
    names = [str(token) for token in run.token.values]
    return Film(
        "Attention focuses, then dilutes: all queries turn to the frequent token, the focus fades, and it starts again.",
        run.time.values,
        run.attention.values,
        tokens=names,
        queries=names,
        theory=run.predicted_attention.values,
        outlines=CALLED,
        marks={
            first[stage]: name for stage, name in FILM_STAGES.items() if first[stage] < math.inf
        },
        clock="t",
    )


EXPERIMENT = Experiment(
    "focus-dilution-cycle",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Vertical lines: where a stage begins. Panel 1: singular values of the embedding (solid) and of query matrix times key "
        "matrix (dashed), of which one grows first and the others open one by one. Panel 2: the loss, which falls in steps. Panel"
        " 3: embeddings in the plane of their first two principal components (dots: where stages meet, rings: the end). Panels 4 "
        "and 5: attention of each query on the most frequent token, with its focus peaks (dots) and dilutions (rings), the first "
        "focus enlarged; it starts frozen at the token's share of the data (dashed). Maps: attention of each query over all "
        "tokens where stages meet. Last two panels: entropy of each query's attention, norm of each token's embedding."
    ),
    finding=(
        "{stages seen*:.0f} of 7 stages come in order: condensation at t = {time of condensation:.3g}, first focus at {time of the "
        "first focus (query 1):.3g}, second direction at {time of the second direction:.3g}"
    ),
    table=table,
    files=files,
    headlines=headlines,
    film=film,
)
