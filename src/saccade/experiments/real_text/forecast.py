"""Before any training a forecast gets the stages on real text about right, but not which tokens gain attention.

Two forecasts are made from the counts of a text and the learning rates (`saccade forecast`) and kept as they are. Then the models
of both papers are trained on the text, and the forecasts are scored, as are "attention follows frequency" and "nothing changes".
Expect: with SGD stages come when predicted, though queries and keys grow more slowly than in the closed form, which holds on the
plateau; tokens gain as predicted only where contexts are endless and the text is nothing but the counted classes. So the flow is
right, and the limit of long contexts is far: trained on the same classes with short contexts, the model already goes another way.
The closed-form clock takes each class as if it were alone, and misses even there. Under Adam frequency is the better forecast.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from saccade.data.text.corpus import Corpus, corpus
from saccade.dynamics.randomness import checked_seeds
from saccade.experiments.real_text import forecast_scores as scores
from saccade.experiments.real_text.forecast_runs import SEEN, Array, Training, classes_run, embedded_run, pairwise_run
from saccade.experiments.real_text.forecast_scores import EVENTS, FORECASTERS, MEASURES, TURNS
from saccade.experiments.real_text.token_groups import frequent_queries
from saccade.forecasting.forecast import forecast
from saccade.forecasting.sources import Statistics, statistics
from saccade.lab.claim import FAILS, HOLDS, Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable, stretch
from saccade.lab.panel import DASHES, LINE, POINTS, Layout, Line, Lines
from saccade.model.embedded import Embedded
from saccade.observe.fits import Interval, interval
from saccade.processes import in_processes
from saccade.theory.questions import FORECAST_ADAM, FORECAST_ORDER, FORECAST_STAGES
from saccade.theory.statement import Statement

WAYS = {"endless": "classes, endless contexts", "short": "classes, short contexts", "sgd": "text", "adam": "text, Adam"}
OPTIMISERS = ("sgd", "adam")
_LOOKS = 40  # of a pairwise run, log-spaced
_STAGE_LOOKS = 200  # of an embedded run, evenly spaced
_UNWATCHED = {"loss": "last", "watch": False, "evaluate": 0}
_LOOK = "optimiser seed look"
VARIABLES = {
    "predicted_gain": Variable("time query token", "1", "forecast: gain of each token's attention logit since the start"),
    "measured_gain": Variable("way seed time query token", "1", "the same in training"),
    "attention_start": Variable("query token", "1", "share of each token in the query's contexts"),
    "distinct": Variable("query token", "", "one class of the query shows the token more than all its other classes together"),
    "frequency": Variable("token", "1", "share of the token in the text"),
    "coverage": Variable("", "1", "share of training positions that belong to the classes"),
    "scan_time": Variable("query", "updates", "forecast: end of scanning of each query"),
    "snap_time": Variable("query", "updates", "forecast: onset of snapping of each query"),
    "on_frequent": Variable(f"{_LOOK} word", "1", "attention of each query on the most frequent token, of an endless context"),
    "top_share": Variable(_LOOK, "1", "share of the embedding's top direction in its square"),
    "embedding_norm": Variable(_LOOK, "1", "length of the embedding"),
    "query_norm": Variable(_LOOK, "1", "length of the query matrix"),
    "query_scale": Variable(_LOOK, "1", "how far the query matrix sends the top direction of the embedding"),
    "population_loss": Variable(_LOOK, "nats", "cross-entropy of the next token, contexts endless, pairs as often as in the text"),
    "look_step": Variable("optimiser look", "updates", "when an embedded run was looked at"),
    "unigram_loss": Variable("", "nats", "entropy of the tokens' shares"),
    "word_share": Variable("word", "1", "share of each token of the small vocabulary"),
    "predicted_condensation_rate": Variable("", "1/update", "forecast: growth rate of the embedding"),
    "predicted_focus_rate": Variable("", "1/update", "forecast: growth rate of query and key; negative: attention turns away"),
    "predicted_query_path": Variable("stage_time", "1", "forecast, first start: how far the query matrix sends the one direction"),
    "predicted_sign": Variable("", "", "forecast: +1 to the most frequent token first, -1 away from it"),
    "predicted_turn_time": Variable("start word", "updates", "forecast: attention on the most frequent token turns back"),
    "predicted_turn_height": Variable("start word", "1", "forecast: how far from its share it gets"),
    "predicted_on_frequent": Variable("stage_time word", "1", "forecast, first start: attention on the most frequent token"),
    **{f"predicted_{name}": Variable("start", "updates", f"forecast, each random start: {what}") for name, what in EVENTS.items()},
}
_FROM_STAGES = ("condensation_rate", "focus_rate", *EVENTS, "turn_time", "turn_height", "on_frequent", "query_path")


@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are the quick ones. The second half is on the stages of the embedded model."""

    text: str = "wikitext-2"
    """corpus: a name or a path"""
    seeds: int | tuple[int, ...] = 4
    """number of seeds (0, 1, 2, ...) of every run, or a list of seeds"""
    n_vocab: int = 500
    """tokens; rarer words are one"""
    queries: int = 4
    """most frequent query tokens"""
    window: int = 16
    """tokens before the query"""
    n_next: int = 4
    """next tokens of each query that are told apart"""
    n_tokens: int = 256
    """context tokens that the forecast is about"""
    steps: int = 400
    """updates, and how far the forecast looks"""
    batch: int = 256
    """windows a step, one prediction each"""
    lr_decoder: float = 10.0
    """rate of Y"""
    lr_attention: float = 1.0
    """rate of Z"""
    lr_adam: float = 1e-2
    """rate of Adam, both"""
    n_words: int = 64
    """tokens of the embedded model; rarer words are one"""
    d_model: int = 64
    """its width"""
    init_scale: float = 1e-3
    """standard deviation of its entries at the start"""
    context: int = 64
    """tokens a window"""
    stage_steps: int = 800
    """updates of plain descent"""
    stage_batch: int = 128
    """windows a step"""
    stage_lr: float = 0.25
    """rate of plain descent"""
    adam_steps: int = 1500
    """updates of Adam"""
    adam_lr: float = 1e-3
    """rate of Adam"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    """First both forecasts, which stay as they are; then the runs."""
    seeds, text = checked_seeds(settings.seeds), corpus(settings.text, n_vocab=settings.n_vocab)
    known = _counted(text, settings)
    order, stages = _order_forecast(known, settings), _stage_forecast(settings)
    on_progress(0.2)
    queries, tokens = order["query"].values.tolist(), order["token"].values.tolist()
    plan = _pairwise(settings, "sgd", 0)
    alone = [classes_run(known.classes, known.coverage, plan, seeds, n) for n in (math.inf, settings.window)]  # type: ignore[arg-type]
    on_progress(0.25)
    runs = [(optimiser, seed) for optimiser in OPTIMISERS for seed in seeds]
    shared = (pairwise_run, settings.text, settings.n_vocab), (embedded_run, settings.text, settings.n_words)
    jobs: list[tuple[Any, ...]] = [(*shared[0], _pairwise(settings, *run), queries, tokens) for run in runs]
    jobs += [(*shared[1], _embedded(settings, *run), settings.d_model, settings.init_scale) for run in runs]
    found = in_processes(operator.call, jobs, stretch(on_progress, 0.25, 1.0))
    looks = np.array(plan["every"], float)
    values = _order_values(order, looks, alone, found[: len(runs)]) | _stage_values(settings, stages, found[len(runs) :])
    values["frequency"] = text.frequencies[[text.id_of(name) for name in tokens]]
    coords = {"way": list(WAYS), "optimiser": list(OPTIMISERS), "seed": seeds, "time": looks, "query": queries, "token": tokens}
    coords |= {name: stages[name].values for name in ("word", "stage_time")}
    said = [one for part in (order, stages) for one in json.loads(part.attrs["predictions"])]
    return Measured(values, coords, {"predictions": json.dumps(said)})


def _counted(text: Corpus, settings: Settings) -> Statistics:
    """Counts for the pairwise model alone; the embedded one has a text of its own."""
    queries = [text.vocabulary[query] for query in frequent_queries(text, settings.queries)]
    of_classes = {"window": settings.window, "n_next": settings.n_next, "n_tokens": settings.n_tokens}
    return replace(statistics(text, queries=queries, **of_classes, n_chain=2), chain=None)


def _order_forecast(known: Statistics, settings: Settings) -> xr.Dataset:
    decoder, attention = settings.lr_decoder, settings.lr_attention
    return forecast(known, steps=settings.steps, context=settings.window, lr_decoder=decoder, lr_attention=attention)


def _stage_forecast(settings: Settings) -> xr.Dataset:
    text, rate = corpus(settings.text, n_vocab=settings.n_words), settings.stage_lr
    model = Embedded(d_model=settings.d_model, d_key=settings.d_model, init_scale=settings.init_scale, scaled=True)
    return forecast(text.chain(text.n_vocab), model=model, context=settings.context, lr_decoder=rate, lr_attention=rate)


def _pairwise(settings: Settings, optimiser: str, seed: int) -> Training:
    decoder, attention = (
        (settings.lr_decoder, settings.lr_attention) if optimiser == "sgd" else (settings.lr_adam, settings.lr_adam)
    )
    looks = [0, *sorted({int(step) for step in np.geomspace(1, settings.steps, _LOOKS).round()})]
    sizes = {"steps": settings.steps, "batch": settings.batch, "context": settings.window + 1, "every": looks}
    return sizes | {"optimiser": optimiser, "lr": decoder, "lr_attention": attention, "seed": seed} | _UNWATCHED


def _embedded(settings: Settings, optimiser: str, seed: int) -> Training:
    rate, looks = (settings.stage_lr if optimiser == "sgd" else settings.adam_lr), _stage_looks(settings, optimiser)
    sizes = {"steps": looks[-1], "batch": settings.stage_batch, "context": settings.context, "every": looks}
    return sizes | {"optimiser": optimiser, "lr": rate, "lr_attention": rate, "seed": seed} | _UNWATCHED


def _stage_looks(settings: Settings, optimiser: str) -> list[int]:
    steps = settings.stage_steps if optimiser == "sgd" else settings.adam_steps
    return np.unique(np.linspace(0, steps, min(_STAGE_LOOKS, steps + 1)).round().astype(int)).tolist()


def _order_values(order: xr.Dataset, looks: Array, alone: list[Array], found: list[Array]) -> dict[str, Any]:
    """`alone`: gains on the classes (seed, time, query, token), each way; `found`: on text, seeds of SGD, then of Adam."""
    path = order["gain_path"].transpose("time", "query", "token").interp(time=looks, kwargs={"fill_value": "extrapolate"})
    measured = np.concatenate([np.stack(alone), np.stack(found).reshape(len(OPTIMISERS), *alone[0].shape)])
    kept = {name: order[name].values for name in ("attention_start", "distinct", "scan_time", "snap_time", "coverage")}
    return {"predicted_gain": path.values, "measured_gain": measured, **kept}


def _stage_values(settings: Settings, stages: xr.Dataset, found: list[dict[str, Array]]) -> dict[str, Any]:
    """`found`: seeds of SGD, then of Adam."""
    looks = [np.array(_stage_looks(settings, optimiser), float) for optimiser in OPTIMISERS]
    n_looks, share = max(map(len, looks)), stages["frequency"].values
    runs = {name: np.stack([_padded(run[name], n_looks) for run in found]) for name in SEEN}
    return {
        **{f"predicted_{name}": stages[name].values for name in _FROM_STAGES},
        **{name: values.reshape(len(OPTIMISERS), -1, *values.shape[1:]) for name, values in runs.items()},
        "look_step": np.stack([_padded(steps, n_looks) for steps in looks]),
        "predicted_sign": float(stages["focus_sign"]),
        "word_share": share,
        "unigram_loss": float(-(share * np.log(share)).sum()),
    }


def _padded(values: Array, length: int) -> Array:
    """The same with NaN for looks that this run does not have, or did not get to."""
    return np.concatenate([values, np.full((length - len(values), *values.shape[1:]), np.nan)])


_DISTINCT = "A token is distinct if one class of the query shows it more than all others together; this is not tested for chance."
_RIVALS = {  # what the forecast must be ahead of; "" is chance. For signs that is not one half: most tokens may have the same one
    "distinct order": ("", "follows frequency"),
    "token order": ("", "follows frequency"),
    "other sign": ("majority sign", "follows frequency"),
}
_ALL = {(name, rival) for name, rivals in _RIVALS.items() for rival in rivals}
_FAILING = {  # what the forecast does not survive: short contexts, and the rest of the text
    "endless": {("other sign", "majority sign"), ("clock", "")},
    "short": _ALL | {("attention", ""), ("half way", "")},
    "sgd": _ALL | {("attention", ""), ("clock", "")},
    "adam": _ALL,
}
_MOST = 0.75 - 1e-9  # three of four times or signs must come true; and rounding
_RATES = {
    "condensation ratio": ("condensation rate, measured over predicted", 0.1, HOLDS),
    "focus ratio": ("rate of focus, measured over the closed form", 0.25, FAILS),
    "flow ratio": ("rate of focus, measured over that of the flow in the same updates", 0.25, HOLDS),
}


def claims(record: xr.Dataset) -> Iterator[Claim]:
    """Orders, signs and attention: the whole interval over queries and tokens is better than chance, than "attention follows
    frequency", than the majority sign, or than "nothing changes". Times and signs: right in three of four. Rates: within a tenth
    for condensation, which starts from nothing, and a quarter for focus.

    Set before any run, but for four: intervals over tokens, at first over seeds, with which more had seemed right; the majority
    sign, at first one half; the rate of the flow, known by then to be near; and the clock, set before its score was computed.
    The runs on classes came in after the first run, which also led to smaller batches; expected verdicts were written last.
    """
    for way in ("endless", "short", "sgd"):
        for name in _RIVALS:
            yield from _ahead(record, way, name, FORECAST_ORDER)
        yield _attention_claim(record, way)
        for name in ("half way", "clock"):
            share = scores.score_draws(record, way, "forecast", name)[0]
            yield _case(record, way, name).at_least(FORECAST_ORDER, MEASURES[name], share, _MOST, expected=_expected(way, name))
    yield from _ahead(record, "adam", "other sign", FORECAST_ADAM)
    yield from stage_claims(record)


def _ahead(record: xr.Dataset, way: str, name: str, statement: Statement) -> Iterator[Claim]:
    draws, sentence = scores.score_draws(record, way, "forecast", name), "" if name == "token order" else _DISTINCT
    for rival in _RIVALS[name]:
        ahead = scores.interval_of(draws - scores.score_draws(record, way, rival, name) if rival else draws)
        case, expected = _case(record, way, name, rival), _expected(way, name, rival)
        yield case.at_least(statement, MEASURES[name], ahead, 0, strict=True, sentence=sentence, expected=expected)


def _attention_claim(record: xr.Dataset, way: str) -> Claim:
    told, still = (scores.score_draws(record, way, name, "attention") for name in ("forecast", "nothing changes"))
    ratio = scores.interval_of(np.divide(told, still, out=np.full_like(told, np.nan), where=still > 0))
    case, title = _case(record, way, "attention"), "error of predicted attention over that of 'nothing changes'"
    return case.at_most(FORECAST_ORDER, title, ratio, 1, strict=True, expected=_expected(way, "attention"))


def _case(record: xr.Dataset, way: str, name: str, rival: str = "") -> Case:
    less = {"less that of": rival} if rival else {}
    return Case({"trained on": WAYS[way], **less, "scored": scores.scored(record, way, name)})


def _expected(way: str, name: str, rival: str = "") -> str:
    return FAILS if (name, rival) in _FAILING[way] else HOLDS


def stage_claims(record: xr.Dataset) -> Iterator[Claim]:
    found, case = scores.stage_scores(record, "sgd"), Case({"trained on": WAYS["sgd"]})
    for name, (title, within, expected) in _RATES.items():
        yield case.near(FORECAST_STAGES, title, np.mean(found[name]), 1, within=within, expected=expected)
    for name, what in EVENTS.items():
        title = f"{what} when predicted (factor 2): share of seeds"
        yield case.at_least(FORECAST_STAGES, title, np.mean(found[f"{name} told"]), _MOST)
    sign = "attention first moves to the side predicted: share of seeds"
    yield case.at_least(FORECAST_STAGES, sign, np.mean(found["sign told"]), _MOST)
    found, case = scores.stage_scores(record, "adam"), Case({"trained on": WAYS["adam"]})
    for title, told, expected in (
        ("one direction before attention moves: share of seeds", found["condensed_time"] < found["moved_at"], HOLDS),
        ("attention first turns to the most frequent token: share of seeds", found["side"] > 0, HOLDS),
        ("dilution after focus: share of seeds", found["diluted"], FAILS),
    ):
        yield case.at_least(FORECAST_ADAM, title, np.mean(told), _MOST, expected=expected)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Scores of all forecasters, with intervals: over queries and tokens, or over seeds for the stages."""
    rows = [
        _row(way, forecaster, said, scores.interval_of(scores.score_draws(record, way, forecaster, name)))
        | {"over": scores.scored(record, way, name)}
        for way in WAYS
        for forecaster in FORECASTERS
        for name, said in MEASURES.items()
        if scores.says(way, forecaster, name)
    ]
    return rows + [row | {"over": f"{record.sizes['seed']} seeds"} for row in _stage_table(record)]


def _stage_table(record: xr.Dataset) -> Iterator[dict[str, Any]]:
    found = scores.stage_scores(record, "sgd")
    by_seed = {title: found[name] for name, (title, _, _) in _RATES.items()}
    by_seed |= {f"{what} when predicted (factor 2)": found[f"{name} told"] for name, what in EVENTS.items()}
    by_seed |= {f"queries that turn back: {TURNS[kind]}": n for kind, n in scores.turn_counts(record, "sgd").items()}
    yield from (_row("sgd", "forecast", said, interval(values)) for said, values in by_seed.items())
    sides = {"forecast": float(record["predicted_sign"]), "follows frequency": 1.0, "nothing changes": 0.0}
    for optimiser in OPTIMISERS:
        moved = scores.stage_scores(record, optimiser)["side"]
        for forecaster, side in sides.items():
            yield _row(optimiser, forecaster, "attention first moves to the side predicted", interval(moved == side))


def _row(way: str, forecaster: str, measure: str, found: Interval) -> dict[str, Any]:
    return {"trained on": way, "forecaster": forecaster, "measure": measure, **found._asdict()}


def files(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """`stages.csv`: the stages of every run and the forecast; `tokens.csv`: gains of every token, predicted and measured."""
    rows = {"stages.csv": _stage_rows(record), "tokens.csv": _token_rows(record)}
    return {name: (list(found[0]), found) for name, found in rows.items()}


def _stage_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    guess = {name: scores.predicted_time(record, name) for name in EVENTS}
    guess |= {"moved_at": np.nan, "side": float(record["predicted_sign"])}
    return [
        {"optimiser": optimiser, "what": name, "predicted": predicted, "seed": int(seed), "measured": float(value)}
        for optimiser in OPTIMISERS
        for found in [scores.stage_scores(record, optimiser)]
        for name, predicted in guess.items()
        for seed, value in zip(record["seed"].values, found[name], strict=True)
    ]


def _token_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    """Tokens of each query in the order of their predicted gains."""
    last = record.isel(time=-1)
    measured = {f"measured, {way}": last["measured_gain"].sel(way=way, drop=True).mean("seed") for way in WAYS}
    columns = {"distinct": last["distinct"], "predicted": last["predicted_gain"], **measured, "start": last["attention_start"]}
    rows = []
    for query in range(record.sizes["query"]):
        frame = xr.Dataset(columns).isel(query=query).drop_vars("time").to_dataframe().reset_index()
        frame = frame[frame["start"] > 0].sort_values("predicted", ascending=False, kind="stable")
        rows += frame[["query", "token", "distinct", "predicted", *measured]].to_dict("records")
    return rows


def panels(record: xr.Dataset) -> Layout:
    kinds = {"distinct order": "order of distinct tokens", "token order": "order of all tokens"}
    orders = [_scores(record, name, title, "rank correlation") for name, title in kinds.items()]
    signs = _scores(record, "other sign", "sign of tokens not distinct", "share predicted")
    attention = [_attention(record, optimiser) for optimiser in OPTIMISERS]
    return [[_cloud(record, "endless"), _cloud(record, "sgd"), orders[0], signs], [_events(record), *attention, orders[1]]]


def _cloud(record: xr.Dataset, way: str) -> Lines:
    """Every token of every query: mean gain over seeds against the gain predicted."""
    seen, distinct, guess = (record[name].values for name in ("attention_start", "distinct", "predicted_gain"))
    guess, run, reach = guess[-1], scores.measured_gain(record, way)[-1], np.abs(guess[-1][seen > 0]).max() * np.array([-1, 1])
    members = {"not distinct": (seen > 0) & ~distinct, "distinct": (seen > 0) & distinct}
    lines = [Line(guess[own], run[own], name, POINTS, tone) for tone, (name, own) in enumerate(members.items())]
    title, across, up = f"trained on {WAYS[way]}", "gain predicted", "gain measured, mean over seeds"
    return Lines(title, across, up, [*lines, Line(reach, reach, "as predicted", LINE, None)])


def _scores(record: xr.Dataset, name: str, title: str, unit: str) -> Lines:
    """One score of every forecaster in every way of training: mean and 95 % interval over queries and tokens."""
    lines, places = [], np.arange(len(WAYS), dtype=float)
    for tone, forecaster in enumerate(FORECASTERS):
        if name in FORECASTERS[forecaster]:
            found = np.array([scores.interval_of(scores.score_draws(record, way, forecaster, name)) for way in WAYS])
            x, ends = places + 0.15 * (tone - 2), np.column_stack([found[:, 1:], np.full(len(WAYS), np.nan)])
            lines += [Line(np.repeat(x, 3), ends.ravel(), "", LINE, tone), Line(x, found[:, 0], forecaster, POINTS, tone)]
    ticks = {place: words.removeprefix("classes, ") for place, words in zip(places, WAYS.values(), strict=True)}
    is_share = name == "other sign"
    return Lines(title, "trained on", unit, lines, ylim=(0 if is_share else -1, 1.02), ticks=ticks, levels={0.0: ""})


def _events(record: xr.Dataset) -> Lines:
    """Measured times of every seed against the predicted ones; the band is a factor of two."""
    found, guess = scores.stage_scores(record, "sgd"), {name: scores.predicted_time(record, name) for name in EVENTS}
    lines = [Line(guess[name], found[name], what, POINTS, tone) for tone, (name, what) in enumerate(EVENTS.items())]
    reach = 1.5 * float(np.nanmax([*guess.values(), *np.concatenate([found[name] for name in EVENTS])]))
    ends = np.array([0.0, reach])
    band = Line(ends, ends, "to a factor of 2", LINE, None, ends / 2, ends * 2)
    return Lines("stages on text, SGD", "update predicted", "update measured", [*lines, band], ylim=(0, reach))


def _attention(record: xr.Dataset, optimiser: str, n_queries: int = 5) -> Lines:
    """Attention on the most frequent token, first seed, queries that move most; dashed: the forecast, which is one for SGD."""
    run, share, lines = record.sel(optimiser=optimiser).isel(seed=0), float(record["word_share"].max()), []
    curves, words = run["on_frequent"].transpose("look", "word").values, record["word"].values
    moved = np.abs(np.nan_to_num(curves) - share).max(axis=0)
    inside = record["stage_time"].values <= np.nanmax(run["look_step"].values)
    for tone, i in enumerate(np.argsort(-moved, kind="stable")[:n_queries]):
        lines.append(Line(run["look_step"], curves[:, i], f"query {words[i]}", LINE, tone))
        if optimiser == "sgd":
            guess = record["predicted_on_frequent"].values[inside, i]
            lines.append(Line(record["stage_time"].values[inside], guess, "", DASHES, tone))
    title = "text, SGD (dashed: forecast)" if optimiser == "sgd" else WAYS["adam"]
    frequent = words[int(record["word_share"].values.argmax())]
    return Lines(title, "updates", f"attention on {frequent}", lines, ylim=(0, 1), levels={share: "its share"})


EXPERIMENT = Experiment(
    "forecast",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panels 1 and 2: predicted and measured gain of every token of every query: on the line where the model learns from the "
        "classes that the forecast is made of, scattered on the text. Panels 3, 4 and 8: scores of all forecasters; bars are 95 %"
        " intervals over queries and tokens, seeds averaged; endless and short contexts are drawn from the classes, and short "
        "ones already take most of the forecast away. Distinct: one class shows the token more than all others together, not "
        "tested for chance. Panel 5: times of the stages on text, all seeds. Panels 6 and 7: attention on the most frequent token"
        " (first seed, queries that move most): with SGD as predicted, with Adam the other way."
    ),
    finding=(
        "which tokens gain: rank correlation {*gains, all tokens (trained on classes, endless contexts, scored*):.2f} for "
        "endless contexts, {*gains, all tokens (trained on text, scored*):.2f} for text; SGD condenses at "
        "{condensation rate*:.2f} of the predicted rate, attention first moves to the predicted side in "
        "{attention first moves*:.0%} of seeds"
    ),
    variables=VARIABLES,
    dynamics="a forecast, then training on text",
    time_unit="updates",
    full=Settings(
        n_vocab=2000, queries=8, window=32, steps=1000, seeds=10, stage_steps=4000, stage_lr=0.1, stage_batch=512, adam_steps=4000
    ),
    table=table,
    files=files,
)
