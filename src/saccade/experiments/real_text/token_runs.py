"""Runs on a text whose attention logits are followed: how much each frequent query has come to seek
each token.

The theorem's own model reads all windows of one sample at every update, so its training has no
noise. An ordinary one-layer Transformer is trained as usual, with batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.data.text.windows import Windows
from saccade.engines.train_text import train_text
from saccade.experiments.real_text.token_groups import N_NEXT, Text
from saccade.experiments.real_text.token_scores import score_measure
from saccade.forecasting.order_predictions import class_conditions
from saccade.models.transformer_config import TransformerConfig
from saccade.theories.condition import Condition

Array = NDArray[np.float64]
ORDINARY = {
    "d_model": 64,
    "d_mlp": 256,
    "positions": "learned",
}


def noise_free_logits(
    windows: Windows,
    queries: Sequence[int],
    *,
    save: Sequence[int],
    lr_decoder: float,
    lr_attention: float,
    residual: bool = False,
    **training: Any,
) -> Array:
    """Attention logits (observation, query, token) of the theorem's own model after the updates
    `save`. `residual`: the model also reads the query [tian2023, Sec. 7].
    """
    system = saccade.models.PairwiseText(
        windows,
        queries=list(queries),
        residual=residual,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
    )
    run = saccade.train(
        system,
        steps=max(save),
        save=save,
        keep=("attention_logits",),
        **training,
    )
    return run.attention_logits.transpose("time", "query", "token").values


def transformer_run(
    text: Text, changes: Mapping[str, Any], corpus: Any = None, **training: Any
) -> xr.Dataset:
    """`head_score` (time, head, query, token) of an ordinary one-layer Transformer under Adam that
    learns from every token. `changes` of its config; `corpus`: what it reads instead of the text.
    """
    learned = corpus or text.corpus
    sizes: dict[str, Any] = {
        **ORDINARY,
        **changes,
        "context": text.window + 1,
    }
    return train_text(
        learned,
        model=TransformerConfig(learned.n_vocab, **sizes),
        context=text.window + 1,
        measures=score_measure(text.queries, text.window),
        optimiser="adam",
        watch=False,
        evaluate=0,
        **training,
    )


def gains_of(run: xr.Dataset) -> Array:
    """Change of every score since the start, mean over heads (time, query, token)."""
    score = run.head_score.mean("head").values
    return score - score[0]


def gain_array(gain: Array, text: Text, axes: str = "query token") -> xr.DataArray:
    """Gains with the names of their tokens."""
    words = text.corpus.vocabulary
    coords = {"query": [words[query] for query in text.queries], "token": list(words)}
    about = {"units": "1", "definition": "change of the attention logit since the start"}
    return xr.DataArray(gain, coords, axes.split(), attrs=about)


def assumptions(text: Text, *, lr_decoder: float, lr_attention: float) -> list[Condition]:
    """What the theorems assume of these classes, rates and contexts, and whether it is met."""
    corpus = text.corpus
    queries = [corpus.vocabulary[query] for query in text.queries]
    classes = corpus.classes(queries, window=text.window, n_next=N_NEXT)
    return class_conditions(
        classes, lr_decoder=lr_decoder, lr_attention=lr_attention, context=text.window
    )
