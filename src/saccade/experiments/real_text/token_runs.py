"""Training runs whose token scores are followed: the theorem's own model, its extension, and an
ordinary one-layer Transformer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade import laboratory
from saccade.data.text.corpus import Corpus, corpus
from saccade.dynamics.training import train_text
from saccade.errors import checked_choice
from saccade.experiments.real_text.token_groups import TokenGroups, frequent_queries, token_groups
from saccade.experiments.real_text.token_scores import head_score_measure, mean_attention
from saccade.forecasting.order_predictions import class_conditions
from saccade.lab.protocol import Measured, Progress
from saccade.model.pairwise_text import PairwiseText
from saccade.model.transformer_config import TransformerConfig
from saccade.processes import in_processes
from saccade.records.json_files import parsed_json
from saccade.theory.condition import Condition

Array = NDArray[np.float64]
MODELS = {
    "theorem": "the theorem's own model",
    "query added": "the same, reading the query as well",
    "ordinary": "an ordinary Transformer",
}
D_MODEL = 64


@dataclass(frozen=True)
class Text:
    """Which text, and which of its tokens are looked at. The query is the last of `window` + 1
    tokens.
    """

    source: str
    n_vocab: int
    n_queries: int
    window: int
    n_next: int

    def corpus(self) -> Corpus:
        return corpus(self.source, n_vocab=self.n_vocab)

    def groups(self) -> TokenGroups:
        return token_groups(
            self.corpus(), n_queries=self.n_queries, window=self.window, n_next=self.n_next
        )


def model_config(name: str, n_vocab: int, window: int, **changes: Any) -> TransformerConfig:
    """`"theorem"`: Y and Z, zero at the start, no positions. `"query added"`: the same with the
    residual path of [tian2023, Sec. 7], after which only next tokens of one query compete.
    `"ordinary"`: one layer of width 64 with all its parts, one head and learned positions unless
    `changes` say otherwise.
    """
    if checked_choice("model", name, MODELS) != "ordinary":
        return replace(TransformerConfig.scan_and_snap(n_vocab), residual=name == "query added")
    sizes: dict[str, Any] = {
        "d_model": D_MODEL,
        "d_mlp": 4 * D_MODEL,
        "positions": "learned",
        "context": window + 1,
    }
    return TransformerConfig(n_vocab, **(sizes | changes))


def scored_run(
    text: Text, model: str, training: dict[str, Any], *, changes: dict[str, Any] | None = None
) -> xr.Dataset:
    """One run with `head_score` (time, head, query, token) in its record.

    Only the ordinary model learns from every token, and only it can be changed.
    """
    learned = text.corpus()
    return train_text(
        learned,
        model=model_config(model, learned.n_vocab, text.window, **(changes or {})),
        context=text.window + 1,
        loss="all" if model == "ordinary" else "last",
        measures=head_score_measure(frequent_queries(learned, text.n_queries), text.window),
        **training,
    )


def noise_free_gains(
    text: Text, *, n_windows: int, sample: int, residual: bool = False, **training: Any
) -> Array:
    """Gains (look, query, token) of the theorem's own model trained on all windows of one sample of
    the text at every step.

    `training`: `save`, the updates to look at, and what else `saccade.train` takes; `lr_decoder`
    and `lr_attention`.
    """
    learned = text.corpus()
    rates = {name: training.pop(name) for name in ("lr_decoder", "lr_attention")}
    windows = learned.windows(text.window, n_windows=n_windows, sample=sample)
    queries = [learned.vocabulary[query] for query in frequent_queries(learned, text.n_queries)]
    system = PairwiseText(windows, queries=queries, residual=residual, **rates)
    record = laboratory.train(
        system, steps=max(training["save"]), keep=("attention_logits",), **training
    )
    logits = record["attention_logits"].transpose("time", "query", "token").values
    return logits - logits[:1]


def validator(text: Text, *, lr_decoder: float, lr_attention: float) -> str:
    """What the theorems assume of these classes, rates and contexts, and whether it is met, as JSON
    for a record's attributes.
    """
    learned = text.corpus()
    queries = [learned.vocabulary[query] for query in frequent_queries(learned, text.n_queries)]
    classes = learned.classes(queries, window=text.window, n_next=text.n_next)
    found = class_conditions(
        classes, lr_decoder=lr_decoder, lr_attention=lr_attention, context=text.window
    )
    return json.dumps([asdict(condition) for condition in found])


def assumptions(record: xr.Dataset) -> list[Condition]:
    """What `validator` has found."""
    return [
        Condition.of(condition) for condition in parsed_json(record.attrs["assumptions"], [dict])
    ]


def gains(record: xr.Dataset) -> Array:
    """Change of every score since the start, mean over heads (time, query, token)."""
    score = record["head_score"].mean("head").values
    return score - score[0]


GROUPS = ("distinct", "common", "other")


def group_curves(record: xr.Dataset, groups: TokenGroups) -> dict[str, Array]:
    """Mean change of score and attention mass of each group over time (time), mean over the queries
    that have distinct tokens.

    Mass is a mean over heads of what each gives: a mean of scores would have a head that looks
    elsewhere cancel one that looks.
    """
    gain, kept = gains(record), np.asarray(groups.distinct.any(axis=1))
    by_head = record["head_score"].transpose("time", "head", "query", "token").values
    attention = mean_attention(by_head, groups.frequency).mean(axis=1)
    curves = {}
    for name in GROUPS:
        member = getattr(groups, name) & kept[:, None]
        curves[f"change_{name}"] = (
            gain[:, member].mean(axis=1) if member.any() else np.full(len(gain), np.nan)
        )
        curves[f"mass_{name}"] = np.where(member, attention, 0).sum(axis=2)[:, kept].mean(axis=1)
    return curves


CURVE_DEFINITIONS = {
    f"change_{name}": ("1", f"mean change of the score of {name} tokens since the start")
    for name in GROUPS
} | {
    f"mass_{name}": (
        "1",
        f"attention on {name} tokens in a long context of the query's own frequencies, mean over queries",
    )
    for name in GROUPS
}


def followed_runs(
    run: Callable[..., dict[str, Array]],
    settings: Any,
    axes: Mapping[str, Sequence[Any]],
    on_progress: Progress,
) -> Measured:
    """`run(settings, *cell)` for every cell of the axes: its arrays with these axes first, and the
    groups that tokens are in.

    `settings.looked_at()` says which tokens. An array named `time`, the same in all runs, becomes a
    coordinate.
    """
    text = settings.looked_at()
    groups, words = text.groups(), text.corpus().vocabulary
    found = in_processes(run, [(settings, *cell) for cell in product(*axes.values())], on_progress)
    coords = {**axes, "query": [words[number] for number in groups.queries], "token": list(words)}
    sizes = [len(values) for values in axes.values()]
    whole = {
        name: np.stack([one[name] for one in found]).reshape(*sizes, *np.shape(found[0][name]))
        for name in found[0]
    }
    if "time" in whole:
        coords["time"] = whole.pop("time").reshape(len(found), -1)[0]
    return Measured(whole | groups.arrays(), coords)
