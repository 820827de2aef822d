"""The training runs that a forecast is scored on. Each is a function of plain settings, so that it can run in a process of its own.

| run      | model                      | learns from                                                                  |
|----------|----------------------------|------------------------------------------------------------------------------|
| pairwise | (Y, Z) of [tian2023]       | windows of the text, the next token of the last one                          |
| classes  | the same                   | contexts drawn from the counted classes: what the forecast takes the text for |
| embedded | W0, WQ, WK, W1 of [chen2026] | windows of the text in a small vocabulary                                  |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from saccade.data.markov import MarkovChain
    from saccade.data.sequence_classes import SequenceClasses
    from saccade.model.embedded import Weights
    from saccade.model.transformer import Transformer

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Training:
    """What all runs on text share."""

    text: str
    n_vocab: int
    batch: int
    context: int
    steps: int
    looks: tuple[int, ...]
    optimiser: str
    lr: float
    lr_attention: float
    seed: int

    def settings(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "batch": self.batch,
            "context": self.context,
            "optimiser": self.optimiser,
            "lr": self.lr,
            "lr_attention": self.lr_attention,
            "seed": self.seed,
            "every": list(self.looks),
            "loss": "last",
            "watch": False,
            "evaluate": 0,
        }


def pairwise_run(training: Training, queries: tuple[str, ...], tokens: tuple[str, ...]) -> Array:
    """Gain of every token's attention logit since the start (time, query, token); rows of all tokens together sum to 0."""
    from saccade.data.text.corpus import corpus
    from saccade.dynamics.training import train_text
    from saccade.experiments.real_text.token_scores import score_measure
    from saccade.model.transformer_config import TransformerConfig

    text = corpus(training.text, n_vocab=training.n_vocab)
    measures = score_measure([text.id_of(name) for name in queries], training.context - 1)
    model = TransformerConfig.scan_and_snap(text.n_vocab)
    record = train_text(text, model=model, measures=measures, **training.settings())
    score = record["token_score"].values[:, :, [text.id_of(name) for name in tokens]]
    return score - score[0]


def classes_run(classes: SequenceClasses, coverage: float, training: Training, seeds: list[int], context: float) -> Array:
    """The same (seed, time, query, token) where nothing but the classes comes: as many of them in a step as on text.

    `context`: tokens drawn for each context; `math.inf` for the law itself.
    """
    from saccade import laboratory

    record = laboratory.train(
        classes,
        steps=training.steps,
        batch=max(1, round(coverage * training.batch)),
        context=context,
        seeds=seeds,
        lr_decoder=coverage * training.lr,
        lr_attention=coverage * training.lr_attention,
        keep=("attention_logits",),
        save=list(training.looks),
    )
    logits = record.attention_logits.transpose("seed", "time", "query", "token").values
    return logits[..., np.flatnonzero(classes.token_prob.any(axis=0))].astype(float)


def embedded_run(training: Training, d_model: int, init_scale: float) -> dict[str, Array]:
    """What the stages are told by, at every look: see `StageMeasures`."""
    from saccade.data.text.corpus import corpus
    from saccade.dynamics.training import train_text
    from saccade.model.transformer_config import TransformerConfig

    text = corpus(training.text, n_vocab=training.n_vocab)
    measures = StageMeasures(text.chain(text.n_vocab))
    model = TransformerConfig.focus_and_dilution(text.n_vocab, d_model, init_scale)
    record = train_text(text, model=model, measures=measures, **training.settings())
    return {name: record[name].values for name in STAGE_AXES}


STAGE_AXES: dict[str, tuple[str, ...]] = {
    "on_frequent": ("word",),
    "top_share": (),
    "embedding_norm": (),
    "query_norm": (),
    "query_scale": (),
    "population_loss": (),
}


@dataclass(frozen=True)
class StageMeasures:
    """Read off the weights at every look, without sampling: contexts are endless and pairs come as often as in the text."""

    chain: MarkovChain

    def __call__(self, model: Transformer, step: int) -> dict[str, Any]:
        import torch

        from saccade.model.embedded import composite

        law, pairs = (torch.from_numpy(np.array(values)) for values in (self.chain.stationary, self.chain.transition))
        embedding, query, _, _ = weights = weights_of(model)
        decoder, attention_logits = composite(weights, model.config.d_model**-0.5)
        attention = torch.softmax(attention_logits + torch.log(law), dim=-1)
        squares, directions = torch.linalg.eigh(embedding.T @ embedding)  # NumPy's would start threads beside the other runs
        seen = {
            "top_share": squares[-1] / squares.sum(),
            "embedding_norm": torch.linalg.norm(embedding),
            "query_norm": torch.linalg.norm(query),
            "query_scale": torch.linalg.norm(directions[:, -1] @ query),
            "population_loss": -(law[:, None] * pairs * torch.log_softmax(attention @ decoder, dim=-1)).sum(),
        }
        return {
            "on_frequent": ("word", attention[:, int(law.argmax())].numpy()),
            **{name: float(value) for name, value in seen.items()},
        }


def weights_of(model: Transformer) -> Weights:
    """The four matrices as `model/embedded.py` has them, in float64; PyTorch keeps the transposes of the last three."""
    from saccade.model.embedded import Weights

    attention: Any = model.blocks[0].attention
    kept = (model.embedding.weight, attention.q_proj.weight.T, attention.k_proj.weight.T, model.unembedding.weight.T)
    return Weights(*(matrix.detach().double() for matrix in kept))
