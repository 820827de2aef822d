"""The training runs that a forecast is scored on; runs on text take plain settings, so that each can have a process of its own.

| run      | model                        | learns from                                                                   |
|----------|------------------------------|-------------------------------------------------------------------------------|
| pairwise | (Y, Z) of [tian2023]         | windows of the text, the next token of the last one                           |
| embedded | W0, WQ, WK, W1 of [chen2026] | windows of the text in a small vocabulary                                     |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.data.markov import MarkovChain
from saccade.data.text.corpus import corpus
from saccade.dynamics.training import train_text
from saccade.experiments.real_text.token_scores import score_measure
from saccade.model.embedded import Weights, composite
from saccade.model.transformer import Transformer
from saccade.model.transformer_config import TransformerConfig

Array = NDArray[np.float64]
Training = dict[str, Any]  # arguments of `train_text`
SEEN = ("on_frequent", "top_share", "embedding_norm", "query_norm", "query_scale", "population_loss")  # of an embedded run


def pairwise_run(name: str, n_vocab: int, training: Training, queries: list[str], tokens: list[str]) -> Array:
    """Gain of every token's attention logit since the start (time, query, token); rows of all tokens together sum to 0."""
    text = corpus(name, n_vocab=n_vocab)
    measures = score_measure([text.id_of(query) for query in queries], training["context"] - 1)
    record = train_text(text, model=TransformerConfig.scan_and_snap(text.n_vocab), measures=measures, **training)
    score = record["token_score"].values[:, :, [text.id_of(token) for token in tokens]]
    return score - score[0]


def embedded_run(name: str, n_vocab: int, training: Training, d_model: int, init_scale: float) -> dict[str, Array]:
    """What the stages are read off, at every look: see `StageMeasures`."""
    text = corpus(name, n_vocab=n_vocab)
    model = TransformerConfig.focus_and_dilution(text.n_vocab, d_model, init_scale)
    record = train_text(text, model=model, measures=StageMeasures(text.chain(text.n_vocab)), **training)
    return {name: record[name].values for name in SEEN}


@dataclass(frozen=True)
class StageMeasures:
    """Read off the weights at every look, without sampling: contexts are endless and pairs come as often as in the text."""

    chain: MarkovChain

    def __call__(self, model: Transformer, step: int) -> dict[str, Any]:
        share, pairs = (torch.from_numpy(np.array(values)) for values in (self.chain.stationary, self.chain.transition))
        embedding, query, _, _ = weights = weights_of(model)
        decoder, attention_logits = composite(weights, model.config.d_model**-0.5)
        attention = torch.softmax(attention_logits + torch.log(share), dim=-1)
        squares, directions = torch.linalg.eigh(embedding.T @ embedding)  # NumPy's would start threads while other runs go on
        seen = {
            "top_share": squares[-1] / squares.sum(),
            "embedding_norm": torch.linalg.norm(embedding),
            "query_norm": torch.linalg.norm(query),
            "query_scale": torch.linalg.norm(directions[:, -1] @ query),
            "population_loss": -(share[:, None] * pairs * torch.log_softmax(attention @ decoder, dim=-1)).sum(),
        }
        on_frequent = attention[:, int(share.argmax())].numpy()
        return {"on_frequent": ("word", on_frequent), **{name: float(value) for name, value in seen.items()}}


def weights_of(model: Transformer) -> Weights:
    """The four matrices as `model/embedded.py` has them, in float64; PyTorch keeps the transposes of the last three."""
    attention: Any = model.blocks[0].attention
    kept = (model.embedding.weight, attention.q_proj.weight.T, attention.k_proj.weight.T, model.unembedding.weight.T)
    return Weights(*(matrix.detach().double() for matrix in kept))
