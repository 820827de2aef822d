"""`saccade.forecast`: what theory and population flows say will happen, as one record.

| part of the record                       | from                                                       | file                 |
|------------------------------------------|------------------------------------------------------------|----------------------|
| query, token: gains, attention, trust    | windows of a text, the pairwise model of Scan and Snap     | `text_order.py`      |
| query, token: gains, attention, times    | sequence classes, the same model, endless contexts         | `attention_order.py` |
| start, word: rates, times of the stages  | a Markov chain, the embedded model of Focus and Dilution   | `stages.py`          |
| `attrs["predictions"]`                   | both, as sentences with the assumptions they lean on       | `*_predictions.py`   |

A text gives the first and the third part, classes the second, a chain the third. Nothing is
trained.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from saccade.errors import checked_count, checked_kind, checked_number
from saccade.forecasting.attention_order import attention_order
from saccade.forecasting.order_predictions import class_conditions, order_predictions
from saccade.forecasting.prediction import Prediction, prediction_of
from saccade.forecasting.sources import Statistics, check_words, statistics
from saccade.forecasting.stage_predictions import chain_conditions, stage_predictions
from saccade.forecasting.stages import stages
from saccade.forecasting.text_order import text_order
from saccade.forecasting.text_predictions import text_predictions
from saccade.models.embedded import Embedded
from saccade.records.json_files import json_ready, parsed_json

if TYPE_CHECKING:
    import xarray as xr

_STEPS = "steps of gradient descent at the given rates"
_DEFINITIONS = {
    "query_weight": ("1", "total weight of the classes that have the query"),
    "gain_path": (
        "1",
        "z_ml over time: predicted gain of each token's attention logit; 0 at the start",
    ),
    "gain": ("1", "the same at the end of the forecast: what tokens are ranked by"),
    "attention_start": (
        "1",
        "attention of the query before training, mean over its classes: the share of each token",
    ),
    "attention_end": ("1", "predicted attention at the end of the forecast"),
    "attention_path": (
        "1",
        "predicted attention of the query on each token, mean over its classes or windows",
    ),
    "told": (
        "",
        "whether the token's movement is predicted: a single word, seen often enough, its first change of attention exceeds its "
        "noise, and both halves of the text move it the same way",
    ),
    "seen": ("", "the token occurs in windows of the query and is a single word"),
    "pooled": ("", "the token is many words counted as one"),
    "gain_agreement": (
        "1",
        "rank correlation of gains from two halves of the text among predicted tokens, at the end",
    ),
    "gaining_agreement": (
        "1",
        "the same of changes of attention among tokens that gain, at `size_until`",
    ),
    "losing_agreement": ("1", "the same among tokens that lose"),
    "order_agreement": (
        "1",
        "rank correlation of both paths of decoder first among predicted tokens, mean over queries",
    ),
    "size_error": (
        "1",
        "distance of both paths over the size of the second: the forecast's estimate of its own error",
    ),
    "order_until": (_STEPS, "until when the order of tokens is predicted"),
    "size_until": (_STEPS, "until when sizes are predicted to a tenth"),
    "clock": (
        _STEPS,
        "when the closed form of the first force is off by a tenth: the decoder's logits have left zero",
    ),
    "n_windows": ("1", "windows counted"),
    "distinct": ("", "one class of the query shows the token, and none of its other classes does"),
    "half_way_time": (
        _STEPS,
        "attention is half as far from its start as at the end, in total variation",
    ),
    "scan_time": (_STEPS, "t_0' of the query's most frequent class: end of scanning"),
    "snap_time": (_STEPS, "t_0 of the query's most frequent class: onset of snapping"),
    "condensation_rate": ("1/step", "mu_0: growth rate of embedding and projection at the origin"),
    "focus_rate": (
        "1/step",
        "c: growth rate of query and key at the unigram point; negative: attention turns away",
    ),
    "focus_sign": ("", "+1 to frequent tokens first, -1 away from them, 0 neither"),
    "frequency": ("1", "stationary distribution of the chain"),
    "condensed_time": (
        _STEPS,
        "the top direction has 0.999 of the embedding's square, in the linear flow",
    ),
    "half_time": (
        _STEPS,
        "the embedding has half the norm it has at the unigram point, in the linear flow",
    ),
    "plateau_time": (
        _STEPS,
        "the loss has made 0.99 of its fall to the entropy of the token frequencies",
    ),
    "focus_onset": (_STEPS, "the query matrix has three times the norm of its start"),
    "focus_growth": (
        "1/step",
        "growth rate of the query matrix from three times its start to a third of its peak, in the flow",
    ),
    "turn_time": (
        _STEPS,
        "a query's attention on the most frequent token is farthest from the token's frequency, before it turns back",
    ),
    "gone_time": (_STEPS, "that attention is back at the share"),
    "turn_height": ("1", "how far from the share it gets"),
    "on_frequent": ("1", "attention of each query on the most frequent token, first start"),
    "query_path": ("1", "how far the query matrix sends the one direction, first start"),
    "embedding_path": ("1", "gamma: how far each token lies along the one direction, first start"),
    "next_rate": (
        "1/step",
        "s1(B): growth rate of the next embedding direction after the first cycle",
    ),
    "next_embedding": ("1", "its pattern over tokens, of norm one"),
    "next_projection": ("1", "what it says about each next token, in the same units"),
    "stage_time": (_STEPS, "time of the rank-one flow"),
    "token": ("", "context token"),
    "word": ("", "token of the chain"),
    "start": ("", "seed of the random start"),
    "query": ("", "query token"),
}
_COORDS = ("time", "query", "token", "stage_time")


def forecast(
    source: Any,
    *,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
    init_scale: float = 1e-3,
    queries: int | Sequence[str | int] = 8,
    steps: float | None = None,
    window: int = 32,
    n_windows: int = 20_000,
    n_tokens: int = 500,
    n_chain: int = 64,
    context: float | None = None,
    model: Embedded | None = None,
    starts: int = 3,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Predict what training will do, without training.

    | argument                     | meaning                                                                                      |
    |------------------------------|----------------------------------------------------------------------------------------------|
    | `source`                     | a `Corpus`, `SequenceClasses`, `MarkovChain`, name of a text, or a path (see `sources.py`)   |
    | `lr_decoder`, `lr_attention` | rates of SGD, above 0: decoder (embedding and projection), attention                         |
    | `init_scale`                 | standard deviation of every weight of the embedded model at the start                        |
    | `queries`                    | for a text: how many of its most frequent tokens, or which ones                              |
    | `steps`                      | steps to predict; default: as long as it can be trusted; classes: twice the median snap time |
    | `window`, `n_windows`        | for a text: context tokens before a query, windows counted                                   |
    | `n_tokens`, `n_chain`        | for a text: tokens kept, for attention and for the chain; rarer ones become one              |
    | `context`                    | tokens in a training context, for the assumptions; default: `window` of a text, else infinite |
    | `model`                      | `Embedded(...)` instead of the default with `init_scale`: widths, scale of attention logits  |
    | `starts`                     | random starts of the stages, for the spread of their times                                   |
    """
    started = time.perf_counter()
    rates = {
        "lr_decoder": checked_number("lr_decoder", lr_decoder, low=0.0, high=1e30, open_low=True),
        "lr_attention": checked_number(
            "lr_attention", lr_attention, low=0.0, high=1e30, open_low=True
        ),
    }
    checked_number("init_scale", init_scale, low=0.0, high=1.0, open_low=True)
    if steps is not None:
        checked_number("steps", steps, low=0.0, high=1e300, open_low=True)
    chosen = (
        Embedded(init_scale=init_scale) if model is None else checked_kind("model", model, Embedded)
    )
    known = statistics(
        source, window=window, n_windows=n_windows, n_tokens=n_tokens, n_chain=n_chain
    )
    length = (
        (window if known.identity else math.inf)
        if context is None
        else checked_number("context", context, low=1.0)
    )
    parts: dict[str, Any] = {}
    if known.corpus is not None and not isinstance(queries, int):
        check_words(known.corpus, queries)
    if known.windows is not None:
        parts |= text_order(
            known.windows, queries=queries, steps=steps, **rates, on_progress=on_progress
        )
    elif known.classes is not None:
        parts |= attention_order(
            known.classes,
            lr_decoder=rates["lr_decoder"],
            lr_attention=rates["lr_attention"],
            steps=steps,
            on_progress=on_progress,
        )
    if known.chain is not None:
        parts |= stages(
            known.chain, chosen, **rates, starts=checked_count("starts", starts, high=1000)
        )
        parts |= {"word": list(known.chain.labels)}
    config = {
        "source": known.name,
        "hash": known.identity,
        **rates,
        "context": length,
        "model": vars(chosen),
        "window": window,
    }
    record = _record(parts, config, started)
    record.attrs["window"] = window
    record.attrs["predictions"] = json.dumps(
        json_ready([said.as_dict() for said in _said(record, known, chosen, rates, length)], str)
    )
    return record


def predictions(record: xr.Dataset) -> list[Prediction]:
    """What the forecast says, in the order in which it is to be read."""
    return [prediction_of(entry) for entry in parsed_json(record.attrs["predictions"], list)]


def _said(
    record: xr.Dataset, known: Statistics, model: Embedded, rates: dict[str, float], context: float
) -> list[Prediction]:
    said = []
    if known.windows is not None:
        said += text_predictions(record, context)
    elif known.classes is not None:
        said += order_predictions(record, class_conditions(known.classes, **rates, context=context))
    if known.chain is not None:
        said += stage_predictions(
            record, chain_conditions(known.chain, model, **rates, context=context)
        )
    return said


def _record(parts: dict[str, Any], config: dict[str, Any], started: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    coords = {name: parts[name] for name in (*_COORDS, "word") if name in parts}
    variables = {
        name: value if isinstance(value, tuple) else ((), value)
        for name, value in parts.items()
        if name not in coords
    }
    return make_record(
        dynamics="forecast: nothing was trained",
        variables=variables,
        coords=coords
        | {"lr_decoder": config["lr_decoder"], "lr_attention": config["lr_attention"]},
        time_unit=_STEPS,
        config=config,
        wall_time=time.perf_counter() - started,
        definitions=_DEFINITIONS,
    )
