r"""What is read off the one-layer model of [chen2026] while it learns text: directions, attention of an endless context, its drive.

| letter          | name                          | axes         |
|-----------------|-------------------------------|--------------|
| $W_0$           | embedding                     | token, width |
| $\Phi$          | scores                        | query, token |
| $\pi$           | frequencies                   | token        |
| $\gamma, \beta$ | patterns of the top direction | token        |

Attention is that of an endless context, $A_{ij} \propto \pi_j e^{\Phi_{ij}}$, so that a query without preference gives every token
its share; on a probe, a context with some tokens once each, it is $\propto e^{\Phi_{ij}}$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from saccade.observe.measures import entropy

if TYPE_CHECKING:
    from torch import Tensor

    from saccade.data.text.corpus import Corpus
    from saccade.model.transformer import Transformer

Array = NDArray[np.float64]
N_DIRECTIONS = 8  # singular values that are kept: a run opens fewer


def spread_ranks(n_vocab: int, n_queries: int) -> NDArray[np.intp]:
    """Tokens from the most frequent to the rarest, evenly spaced in the logarithm of their rank."""
    return np.unique(np.geomspace(1, n_vocab, n_queries).round().astype(np.intp)) - 1


def scores(model: Transformer, queries: ArrayLike) -> Array:
    """Scores Phi of some query tokens for all tokens (query, token)."""
    embedding, query, key = (matrix.detach().double() for matrix in matrices(model))
    sought = embedding[np.asarray(queries).tolist()] @ (query.T @ key) @ embedding.T
    return (sought * phi_scale(model.config.d_model, model.config.scaled)).numpy()


def phi_scale(d_model: int, scaled: bool) -> float:
    return d_model**-0.5 if scaled else 1.0


def matrices(model: Transformer) -> tuple[Any, Any, Any]:
    """Embedding (token, width), query and key matrix (key width, width)."""
    attention: Any = model.blocks[0].attention
    return model.embedding.weight, attention.q_proj.weight, attention.k_proj.weight


def endless_attention(scores: Array, frequencies: Array) -> Array:
    """Attention of queries in an endless context (query, token)."""
    with np.errstate(divide="ignore"):  # a token that never comes gets none
        return softmax(scores + np.log(frequencies), axis=-1)


def drive(gamma: Array, beta: Array, *, frequencies: Array, pairs: Any) -> float:
    r"""How fast, and with which sign, attention grows from zero at a rank-one state, whether the unigram law is learnt or not,

    $$D = \mathrm{Var}_\pi(\gamma) \sum_i \pi_i\gamma_i\,(P_i - \mathrm{softmax}(\langle\gamma\rangle\beta))\cdot\beta.$$

    Where the law is learnt, the softmax is $\pi$ and D is `plateau_drive`. Before, D has one more part, the product of
    $\langle\gamma\rangle$, the variance and $(\pi - \mathrm{softmax})\cdot\beta$. It is positive while logits are still too small:
    attention on frequent tokens makes them larger. Queries and keys obey $\dot l_q = D\,l_k$, $\dot l_k = D\,l_q$, so that from a
    start without preference the sign of $l_q l_k$ is that of the integral of D. `pairs`: shares of (token, next_token).
    """
    mean = frequencies @ gamma
    variance = frequencies @ (gamma - mean) ** 2
    return float(variance * ((pairs.T @ gamma - mean * softmax(mean * beta)) @ beta))


@dataclass(frozen=True)
class CycleMeasures:
    """Called by the training at every look."""

    frequencies: Array
    pairs: Any
    queries: NDArray[np.intp]
    probe: NDArray[np.intp]

    @classmethod
    def of(cls, corpus: Corpus, n_queries: int, probe: NDArray[np.intp]) -> CycleMeasures:
        ranks = spread_ranks(corpus.n_vocab, n_queries)
        return cls(corpus.frequencies, corpus.bigrams / corpus.bigrams.sum(), ranks, probe)

    def __call__(self, model: Transformer, step: int) -> dict[str, Any]:
        """Products are PyTorch's, which keeps to the run's one thread; NumPy's would start threads of their own."""
        embedding, query = (matrix.detach().double() for matrix in matrices(model)[:2])
        attention = endless_attention(scores(model, self.queries), self.frequencies)
        on_probe = softmax(scores(model, self.probe)[:, self.probe], axis=-1)
        values, alpha = top_direction(embedding)
        gamma, beta = (embedding @ alpha).numpy(), (model.unembedding.weight.detach().double() @ alpha).numpy()
        rate = drive(gamma, beta, frequencies=self.frequencies, pairs=self.pairs)
        return {
            "on_frequent": ("query", attention[:, 0]),
            "entropy": ("query", entropy(attention)),
            "row_norm": ("query", embedding[self.queries.tolist()].norm(dim=1).numpy()),
            "singular_values": ("rank", np.pad(values.numpy(), (0, N_DIRECTIONS))[:N_DIRECTIONS]),
            "query_norm": query.norm().item(),
            "probe_attention": (("probe_query", "probe_key"), on_probe),
            "drive": phi_scale(model.config.d_model, model.config.scaled) * rate,
        }


def top_direction(embedding: Tensor) -> tuple[Tensor, Tensor]:
    """All singular values, and the direction over the width that has the largest."""
    import torch

    values, directions = torch.linalg.eigh(embedding.T @ embedding)
    return values.clamp(min=0).sqrt().flip(0), directions[:, -1]
