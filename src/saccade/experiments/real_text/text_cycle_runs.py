r"""Training runs of the Focus-and-Dilution model on text, and what is read off them: directions,
attention, its drive, a probe.

Attention is that of an endless context, $A_{ij} \propto \pi_j e^{\Phi_{ij}}$ (query i, token j,
frequencies $\pi$, scores $\Phi$), so that a query without preference gives every token its share;
on a probe, a context with some tokens once each, it is $\propto e^{\Phi_{ij}}$. Words of a probe
that a vocabulary does not have are named in the record (`left_out`). Each run is a function of
plain settings, so that it can run in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from torch import Tensor

from saccade.data.text.corpus import Corpus, corpus
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.engines.text_checkpoints import resumed_from
from saccade.engines.train_text import train_text
from saccade.experiments.real_text.token_scores import mean_attention
from saccade.measures import entropy
from saccade.measures.turning_points import VISIBLE
from saccade.models.transformer import Transformer
from saccade.models.transformer_config import TransformerConfig

Array = NDArray[np.float64]
N_DIRECTIONS = 8  # singular values that are kept: a run opens fewer


@dataclass(frozen=True)
class Training:
    """What one run is made of."""

    text: str
    n_vocab: int
    d_model: int
    scaled: bool
    init_scale: float
    optimiser: str
    lr: float
    steps: int
    batch: int
    context: int
    seed: int
    n_looks: int
    n_queries: int
    resumable: bool = False


def cycle_run(training: Training, words: tuple[str, ...]) -> dict[str, Any]:
    """A run watched at log-spaced steps; `words` are the probe's."""
    text = corpus(training.text, n_vocab=training.n_vocab)
    probe = probe_tokens(text, words)
    steps = np.geomspace(1, training.steps, training.n_looks).round()
    found = trained(
        text, training, probe, [0, *sorted({int(step) for step in steps})], training.steps
    )
    return found | {
        "share": float(text.frequencies[0]),
        "frequent": text.vocabulary[0],
        "query_word": [
            text.vocabulary[token] for token in spread_ranks(text.n_vocab, training.n_queries)
        ],
        "probe_word": [text.vocabulary[token] for token in probe],
        "left_out": lacking(training.text, words, spelt(text, words)),
    }


def spread_ranks(n_vocab: int, n_queries: int) -> NDArray[np.intp]:
    """Tokens from the most frequent to the rarest, evenly spaced in the logarithm of their rank."""
    return np.unique(np.geomspace(1, n_vocab, n_queries).round().astype(np.intp)) - 1


def spelt(text: Corpus, words: Sequence[str]) -> list[str]:
    """Each word as this vocabulary writes it most often: byte pairs may carry the blank before it.
    Empty: it has no such token.
    """
    found = [_tokens(text, word) for word in words]
    return [text.vocabulary[min(ids)] if ids else "" for ids in found]


def _tokens(text: Corpus, word: str) -> list[int]:
    """Ids of the tokens that are this word, with or without a blank before it."""
    found = [text.encode(form).tolist() for form in (word, f" {word.strip()}")]
    return [
        ids[0]
        for ids in found
        if len(ids) == 1 and (text.vocabulary[ids[0]] != UNKNOWN or word == UNKNOWN)
    ]


def probe_tokens(text: Corpus, words: Sequence[str]) -> NDArray[np.intp]:
    """The words that the text has, most frequent first; the two most frequent tokens if it has
    fewer than two of them.
    """
    known = sorted({text.id_of(token) for token in spelt(text, words) if token})
    return np.array(known if len(known) > 1 else [0, 1], np.intp)


def said(word: str) -> str:
    return {"": "whitespace", ",": "comma"}.get(word.strip(), word)


def lacking(where: str, words: Sequence[str], tokens: Sequence[str]) -> str:
    """A sentence on the words that have no token; empty if all have one."""
    missing = [f"“{said(word)}”" for word, token in zip(words, tokens, strict=True) if not token]
    said_all = f"{where}: {len(missing)} of the {len(words)} words of the probe are not in the vocabulary: {', '.join(missing)}."
    return said_all if missing else ""


def first_move(tilt: Array) -> int | None:
    """The first look at which the attention of some query on the frequent token has visibly moved;
    None if none has.
    """
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    return int(moved.argmax()) if moved.any() else None


def sought(model: Transformer, queries: ArrayLike) -> Tensor:
    """What query tokens look for (query, width): their scores Phi are its products with embeddings."""
    embedding, query, key = (matrix.detach() for matrix in matrices(model))
    rows = embedding[torch.as_tensor(np.asarray(queries))].double()
    return (
        rows
        @ (query.T.double() @ key.double())
        * phi_scale(model.config.d_model, model.config.scaled)
    )


def phi_scale(d_model: int, scaled: bool) -> float:
    return d_model**-0.5 if scaled else 1.0


def matrices(model: Transformer) -> tuple[Any, Any, Any]:
    """Embedding (token, width), query and key matrix (key width, width)."""
    attention: Any = model.blocks[0].attention
    return model.embedding.weight, attention.q_proj.weight, attention.k_proj.weight


def drive(gamma: Array, beta: Array, *, frequencies: Array, pairs: Any) -> float:
    r"""How fast, and with which sign, attention grows from zero at a rank-one state, on the unigram
    plateau or before it,

    $$D = \mathrm{Var}_\pi(\gamma) \sum_i \pi_i\gamma_i\,(P_i - \mathrm{softmax}(\langle\gamma\rangle\beta))\cdot\beta.$$

    $\gamma, \beta$ (token): patterns of the top direction in embedding and projection; `pairs`:
    shares of (token, next_token). On the plateau the softmax is $\pi$ and D is `plateau_drive`.
    Before, D has one more part, $\langle\gamma\rangle$ times the variance times $(\pi -
    \mathrm{softmax})\cdot\beta$, positive while logits are still too small: attention on frequent
    tokens makes them larger. Queries and keys obey $\dot l_q = D\,l_k$, $\dot l_k = D\,l_q$, so
    that from a start without preference the sign of $l_q l_k$ is that of the integral of D.
    """
    mean = frequencies @ gamma
    variance = frequencies @ (gamma - mean) ** 2
    return float(variance * ((pairs.T @ gamma - mean * softmax(mean * beta)) @ beta))


def top_direction(embedding: Tensor) -> tuple[Tensor, Tensor]:
    """All singular values, and the direction over the width that has the largest.

    The product over the vocabulary is in the embedding's own float32: a singular value is known to
    3e-4 of the largest.
    """
    values, directions = torch.linalg.eigh((embedding.T @ embedding).double())
    return values.clamp(min=0).sqrt().flip(0), directions[:, -1]


@dataclass(frozen=True)
class CycleMeasures:
    """Called by the training at every look."""

    frequencies: Array
    pairs: Any
    queries: NDArray[np.intp]
    probe: NDArray[np.intp]

    def __call__(self, model: Transformer, step: int) -> dict[str, Any]:
        """Products are PyTorch's, which keeps to the run's one thread; NumPy's would start threads
        of their own.
        """
        embedding, query, unembedding = (
            matrix.detach() for matrix in (*matrices(model)[:2], model.unembedding.weight)
        )
        attention = mean_attention(
            (sought(model, self.queries).to(embedding) @ embedding.T).double().numpy(),
            self.frequencies,
        )
        on_probe = softmax(
            (sought(model, self.probe) @ embedding[self.probe].T.double()).numpy(), axis=-1
        )
        values, alpha = top_direction(embedding)
        gamma, beta = (
            (table @ alpha.to(table)).double().numpy() for table in (embedding, unembedding)
        )
        rate = drive(gamma, beta, frequencies=self.frequencies, pairs=self.pairs)
        return {
            "on_frequent": ("query", attention[:, 0]),
            "entropy": ("query", entropy(attention)),
            "row_norm": ("query", embedding[self.queries].double().norm(dim=1).numpy()),
            "singular_values": ("rank", np.pad(values.numpy(), (0, N_DIRECTIONS))[:N_DIRECTIONS]),
            "query_norm": query.double().norm().item(),
            "probe_attention": (("probe_query", "probe_key"), on_probe),
            "drive": phi_scale(model.config.d_model, model.config.scaled) * rate,
        }


CURVES = (
    "loss",
    "on_frequent",
    "entropy",
    "row_norm",
    "singular_values",
    "query_norm",
    "probe_attention",
    "drive",
)


def trained(
    text: Corpus, training: Training, probe: NDArray[np.intp], looks: list[int], steps: int
) -> dict[str, Any]:
    """`CURVES` of a run at its looks, and the steps of these."""
    ranks = spread_ranks(text.n_vocab, training.n_queries)
    record = train_text(
        text,
        model=TransformerConfig.focus_and_dilution(
            text.n_vocab, training.d_model, training.init_scale, training.scaled
        ),
        steps=steps,
        batch=training.batch,
        context=training.context,
        optimiser=training.optimiser,
        lr=training.lr,
        loss="last",
        seed=training.seed,
        every=looks,
        measures=CycleMeasures(text.frequencies, text.bigrams / text.bigrams.sum(), ranks, probe),
        watch=False,
        evaluate=0,
        checkpoints=resumed_from(training.resumable, training, tuple(probe.tolist())),
    )
    return {"step": record.time.values.astype(float)} | {
        name: record[name].values for name in CURVES
    }
