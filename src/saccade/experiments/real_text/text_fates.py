"""In the theorem's own model attention first leaves the frequent tokens of a text; in a Transformer
this is inconclusive.

[tian2023] has attention leave common tokens for distinct ones (Theorem 2), and a frequent distinct
token's lead over rare ones grow (Theorem 3). Who moves first and who wins are measured in three
models: the theorem's own, without noise, on samples of the text that share no window; the same
reading the query as well; and an ordinary Transformer (seeds, large batches). Counts say which
tokens are distinct or common (`token_groups.py`). The ceiling of a score is how far two samples, or
two seeds, agree in the same units. Intervals are simultaneous over all scores. The theorems' claims
carry their assumptions, which text does not meet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated as A
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from saccade.experiments.real_text import token_fates as fates
from saccade.experiments.real_text import token_runs as runs
from saccade.experiments.real_text.every_run import CORRELATION, SHARE, cut
from saccade.experiments.real_text.token_groups import Text
from saccade.lab.ceiling import Ceiling
from saccade.lab.experiment import Lab, experiment
from saccade.lab.relation import centre
from saccade.measures.fits import simultaneous
from saccade.panels import DASHES, Line, Lines
from saccade.theories.condition import met
from saccade.theories.questions import DISTINCT_ON_TEXT, FATES_ON_TEXT, WINNERS_ON_TEXT
from saccade.theories.scan_and_snap.statements import THEOREM_2A, THEOREM_2B, THEOREM_3

MODELS = ("theorem", "query added", "ordinary")
WHEN = ("at first", "in the end")
SIZE = 0.1  # of a rank correlation worth a sentence: over 100 tokens chance spreads by 0.1
REPEATED = {False: ("two samples of the text", "windows"), True: ("two seeds", "seeds averaged")}


class Score(NamedTuple):
    """A score of gains by repetition, its ceiling, and what unrelated repetitions would score."""

    title: str
    panel: str
    of: Callable[..., Any]
    ceiling: Callable[..., float]
    even: float = 0.0


SCORES = {
    "frequency": Score(
        "rank correlation of gain and frequency, 100 tokens per query",
        "gain and frequency",
        fates.frequency_following,
        fates.gain_agreement,
    ),
    "distinct": Score(
        "distinct tokens outgain common tokens: share of pairs",
        "distinct against common tokens",
        fates.share_outgained,
        fates.pair_agreement,
        0.5,
    ),
    "matched": Score(
        "distinct tokens outgain equally frequent others: share of pairs",
        "distinct against equally frequent tokens",
        partial(fates.share_outgained, matched=True),
        partial(fates.pair_agreement, matched=True),
        0.5,
    ),
    "order": Score(
        "rank correlation of gain and frequency, distinct tokens of one next token",
        "gain and frequency of distinct tokens",
        fates.frequency_order,
        fates.order_agreement,
    ),
}


def train_one(
    *,
    model: str,
    repetition: int,
    text: Text,
    times: dict[str, list[int]],
    sample: dict[str, Any],
    ordinary: dict[str, Any],
) -> xr.Dataset:
    """Gains (time, query, token) in one sample of the text, or with one seed."""
    every = times[model]
    if model == "ordinary":
        training = ordinary | {
            "steps": every[-1],
            "every": every,
            "seed": repetition,
        }
        gain = runs.gains_of(runs.transformer_run(text, {}, **training))
    else:
        n_windows = sample["n_windows"]
        rates = sample["rates"]
        windows = text.corpus.windows(
            text.window,
            n_windows=n_windows,
            sample=repetition,
        )
        residual = model == "query added"
        logits = runs.noise_free_logits(
            windows, text.queries, save=every, residual=residual, **rates
        )
        gain = (logits - logits[:1]).astype(float)
    return xr.Dataset({"gain": runs.gain_array(gain, text, "observation query token")})


@experiment(
    "text-fates",
    dynamics="training on text",
    time_unit="updates",
    caveat="Longer contexts, in which the theorem's classes are better separated, "
    "or far more updates.",
    full={
        "n_vocab": 2000,
        "queries": 16,
        "steps": (2, 5, 10, 25, 50, 100, 200, 500, 1000, 2000),
        "ordinary_steps": (5, 10, 20, 50, 100, 200, 400, 1000, 2000, 5000),
    },
)
def text_fates(
    lab: Lab,
    text: A[str, "corpus: a name or a path"] = "wikitext-2",
    n_vocab: A[int, "vocabulary size; rarer words become one token"] = 500,
    queries: A[int, "most frequent query tokens"] = 8,
    window: A[int, "tokens before the query"] = 16,
    repetitions: A[int, "samples of the text, and seeds of the ordinary model"] = 5,
    n_windows: A[int, "windows in a sample"] = 20_000,
    steps: A[tuple[int, ...], "updates at which the theorem's models are observed"] = (
        2,
        5,
        10,
        25,
        50,
        100,
        200,
        400,
    ),
    early: A[int, "updates after which the theorem's models show who moves first"] = 10,
    lr_decoder: A[float, "rate of Y"] = 10.0,
    lr_attention: A[float, "rate of Z"] = 1.0,
    ordinary_steps: A[tuple[int, ...], "updates at which the ordinary model is observed"] = (
        5,
        10,
        20,
        50,
        100,
        200,
        400,
        800,
    ),
    ordinary_early: A[int, "updates after which the ordinary model shows who moves first"] = 20,
    ordinary_batch: A[int, "windows per step, with a prediction for every token"] = 256,
    ordinary_lr: A[float, "rate of Adam"] = 3e-3,
) -> str:
    """Do the frequent tokens of a text lose attention first, and win it in the end?"""
    source = Text(text, n_vocab, queries, window)
    rates = {"lr_decoder": lr_decoder, "lr_attention": lr_attention}
    groups = source.groups
    given = runs.assumptions(source, **rates)
    theirs = sorted({0, early, *steps})
    own = sorted({0, ordinary_early, *ordinary_steps})
    times = {model: own if model == "ordinary" else theirs for model in MODELS}
    found = lab.grid(
        partial(
            train_one,
            text=source,
            times=times,
            sample={"n_windows": n_windows, "rates": rates},
            ordinary={"batch": ordinary_batch, "lr": ordinary_lr},
        ),
        model=MODELS,
        repetition=range(repetitions),
    )
    gains = {
        model: found.gain.sel(model=model).transpose("observation", ...).values[: len(of_model)]
        for model, of_model in times.items()
    }
    places = {
        (model, when): times[model].index(early if model != "ordinary" else ordinary_early)
        if when == "at first"
        else -1
        for model in MODELS
        for when in WHEN
    }

    # Bounds of ±0.1 were set after two samples of the theorem's model, before any run of the other
    # two. Sizes were raised after a first run that was inconclusive on who wins.
    # The order of distinct tokens rests on a dozen tokens of one query. It was drawn before it was
    # claimed; its bound, 0, is chance.
    intervals = simultaneous(
        {
            (model, when, name): score.of(gains[model][place], groups)
            for (model, when), place in places.items()
            for name, score in SCORES.items()
        }
    )
    main = []
    for (model, when, name), uncut in intervals.items():
        score = SCORES[name]
        place = places[model, when]
        gain = gains[model][place]
        is_ordinary = model == "ordinary"
        repeated, more = REPEATED[is_ordinary]
        ceiling = Ceiling(repeated, score.ceiling(gain, groups), more, score.even)
        measured = cut(uncut, SHARE if score.even else CORRELATION)
        case = lab.case(model=model, when=when).under(ceiling)
        if name == "frequency":
            case = case.after_trial_runs if model == "theorem" else case
            claim = (
                case.at_most(FATES_ON_TEXT, score.title, measured, -SIZE)
                if when == "at first"
                else case.at_least(WINNERS_ON_TEXT, score.title, measured, SIZE)
            )
            main += [claim] * (model != "query added")
        elif name == "matched":
            chance = fates.share_by_chance(gain, groups, matched=True)
            case.at_least(DISTINCT_ON_TEXT, score.title, measured, chance, strict=True)
        elif model == "theorem":  # the other models break more of what the theorems assume
            assumed = case.but(given=[*given, met("plain descent, no positions", True)])
            if name == "distinct":
                chance = fates.share_by_chance(gain, groups, matched=False)
                assumed.at_least(THEOREM_2B, score.title, measured, chance, strict=True)
            else:
                statement = THEOREM_2A if when == "at first" else THEOREM_3
                assumed.at_least(statement, score.title, measured, 0.0, strict=True)

    panels = {}
    for name, score in SCORES.items():
        lines = []
        for tone, model in enumerate(MODELS):
            x = times[model][1:]
            observed = gains[model][1:]
            values = np.array([score.of(gain, groups) for gain in observed])
            top = np.array([score.ceiling(gain, groups) for gain in observed])
            low = values.min(axis=1)
            high = values.max(axis=1)
            lines.append(
                Line(
                    x,
                    values.mean(axis=1),
                    model,
                    tone=tone,
                    low=low,
                    high=high,
                )
            )
            lines += [Line(x, end, "", DASHES, tone) for end in (top, 2 * score.even - top)]
        y, ylim = ("share of pairs", SHARE) if score.even else ("rank correlation", CORRELATION)
        panels[name] = Lines(
            score.panel, "updates", y, lines, "x", ylim=ylim, levels={score.even: ""}
        )
    about = (
        "Lines and bands: mean and range over samples (theorem's models) or seeds. Dashed: the "
        "ceiling, on either side."
    )
    lab.draw(
        panels["frequency"],
        panels["order"],
        caption="Panels 1 and 2: rank correlation of the gains of tokens with their frequency, and "
        f"the same among distinct tokens of one next token. {about}",
    )
    lab.draw(
        panels["distinct"],
        panels["matched"],
        caption="Panels 3 and 4: share of a query's common tokens, and of equally frequent ones, "
        "that a distinct token has outgained.",
    )
    scores, tops = (
        [f"{number:.2f}" for number in numbers]
        for numbers in zip(*((centre(each.measured), each.ceilings[0].agreement) for each in main))
    )
    return (
        f"{lab.yes_or_no(*main)}: in the theorem's own model, gains correlate with token "
        f"frequency {scores[0]} at first and {scores[1]} in the end. On {text}, without noise, "
        f"gains in two samples correlate {tops[0]} at first and {tops[1]} in the end. In an "
        f"ordinary Transformer gain and frequency correlate {scores[2]} at first and {scores[3]} "
        f"in the end. Gains with two seeds correlate {tops[2]} and {tops[3]}."
    )
