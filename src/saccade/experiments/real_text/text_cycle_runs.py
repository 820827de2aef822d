r"""A run of the Focus-and-Dilution model on text, and what is read off it: directions, attention, its
drive, a probe.

Attention is that of an endless context, $A_{ij} \propto \pi_j e^{\Phi_{ij}}$ (query i, token j,
frequencies $\pi$, scores $\Phi$), so that a query without preference gives every token its share;
on a probe, a context with some tokens once each, it is $\propto e^{\Phi_{ij}}$. A run is a function
of plain settings, so that it can run in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from torch import Tensor

from saccade.data.text.corpus import Corpus
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.engines.text_checkpoints import resumed_from
from saccade.engines.train_text import train_text
from saccade.experiments.real_text.token_scores import mean_attention
from saccade.measures import top_share
from saccade.measures.events import Event, find_events
from saccade.models.transformer import Transformer
from saccade.models.transformer_config import TransformerConfig

Array = NDArray[np.float64]
N_DIRECTIONS = 8  # singular values that are kept: a run opens fewer
N_QUERIES = 8  # from the most frequent token to the rarest
N_WINDOWS = 200  # of validation text
OWN = 0.75  # attention on itself that the paper highlights
CURVES = {  # unit, definition
    "step": ("updates", "when the run was observed, before the update of that step"),
    "loss": ("nats", "cross-entropy of the next token, of the batch about to be learned from"),
    "on_frequent": ("1", "attention of queries on the most frequent token, endless context"),
    "joint": ("1", "attention that every query has on it at least"),
    "singular_values": ("1", "of the embedding, largest first"),
    "first": ("1", "share of the embedding in its first direction"),
    "second": ("1", "second singular value of the embedding over the first"),
    "query_norm": ("1", "length of the query matrix"),
    "probe_attention": ("1", "attention among the probe words, once each in a context"),
    "probe_norm": ("1", "length of each probe word's embedding"),
    "drive": ("1/time", "growth rate of queries along keys, were attention off"),
    "own": ("1", f"share of windows whose last token has over {OWN} of its attention on itself"),
}


def cycle_run(
    text: Corpus,
    probe: Sequence[int],
    start: tuple[int, float, bool],
    looks: ArrayLike,
    resumable: bool,
    training: Mapping[str, Any],
) -> xr.Dataset:
    """`CURVES` and the drive, up to where a run diverged. `start`: width, scale of every entry, and
    whether scores are divided by the root of the width.
    """
    valid, context = text.valid, training["context"]
    starts = np.random.default_rng(0).integers(len(valid) - context, size=N_WINDOWS)
    seen: dict[str, Any] = {
        "frequencies": text.frequencies,
        "pairs": text.bigrams / text.bigrams.sum(),
        "queries": spread_ranks(text.n_vocab),
        "probe": np.array(probe, np.intp),
        "windows": valid[starts[:, None] + np.arange(context)].astype(np.intp),
    }
    every = np.unique([0, *np.asarray(looks).astype(int)]).tolist()
    run = train_text(
        text,
        model=TransformerConfig.focus_and_dilution(text.n_vocab, *start),
        every=every,
        loss="last",
        measures=lambda model, step: measures(model, **seen),
        watch=False,
        evaluate=0,
        checkpoints=resumed_from(resumable, text.hash, probe, start, every, training),
        **training,
    )
    values = run.singular_values.values
    run["step"] = run.time.astype(float)
    run["first"] = "time", top_share(values)
    run["second"] = "time", values[:, 1] / values[:, 0]
    run["joint"] = run.on_frequent.min("query")
    for curve, (unit, about) in CURVES.items():
        run[curve].attrs = {"units": unit, "definition": about}
    whole = run[[*CURVES]].isel(time=np.isfinite(values[:, 0]))
    return whole.drop_vars("time").rename(time="look")


def events_of(run: xr.Dataset) -> list[Event]:
    return find_events(
        run.step.values,
        attention_on_frequent=run.on_frequent.values,
        embedding_singular_values=run.singular_values.values,
        query_norm=run.query_norm.values,
        loss=run.loss.values,
    )


def spread_ranks(n_vocab: int, n_queries: int = N_QUERIES) -> NDArray[np.intp]:
    """Tokens from the most frequent to the rarest, evenly spaced in the logarithm of their rank."""
    return np.unique(np.geomspace(1, n_vocab, n_queries).round().astype(np.intp)) - 1


def spread_words(text: Corpus, n: int = N_QUERIES) -> list[str]:
    return [text.vocabulary[token] for token in spread_ranks(text.n_vocab, n)]


def spelt(text: Corpus, words: Sequence[str]) -> list[str]:
    """Each word as this vocabulary writes it most often, empty if it has no such token.

    Byte pairs may carry the blank before a word, so both forms are tried.
    """
    spelling = []
    for word in words:
        forms = [text.encode(form).tolist() for form in (word, f" {word.strip()}")]
        single = [ids[0] for ids in forms if len(ids) == 1]
        known = [one for one in single if text.vocabulary[one] != UNKNOWN or word == UNKNOWN]
        spelling.append(text.vocabulary[min(known)] if known else "")
    return spelling


def readable(word: str) -> str:
    return {"": "whitespace", ",": "comma"}.get(word.strip(), word)


def lacking(where: str, words: Sequence[str], tokens: Sequence[str]) -> str:
    """A sentence on the words that have no token; empty if all have one."""
    missing = [
        f"“{readable(word)}”" for word, token in zip(words, tokens, strict=True) if not token
    ]
    share = f"{len(missing)} of the {len(words)} words of the probe"
    listed = ", ".join(missing)
    return f"{where}: {share} are not in the vocabulary: {listed}." if missing else ""


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


def own_share(model: Transformer, windows: NDArray[np.intp]) -> float:
    """Share of windows (window, position) whose last token mostly attends to itself."""
    last = windows[:, -1]
    embedding = matrices(model)[0].detach()
    looking = sought(model, last).to(embedding)
    scores = torch.einsum("wd,wjd->wj", looking, embedding[windows]).double()
    own = (softmax(scores.numpy(), axis=1) * (windows == last[:, None])).sum(axis=1)
    return float((own > OWN).mean())


def measures(
    model: Transformer,
    *,
    frequencies: Array,
    pairs: Any,
    queries: NDArray[np.intp],
    probe: NDArray[np.intp],
    windows: NDArray[np.intp],
) -> dict[str, Any]:
    """What is read off a model at each observation."""
    embedding, query = (matrix.detach() for matrix in matrices(model)[:2])
    unembedding = model.unembedding.weight.detach()
    # products are PyTorch's, which keeps to the run's one thread; NumPy's would start threads
    scores = sought(model, queries).to(embedding) @ embedding.T
    attention = mean_attention(scores.double().numpy(), frequencies)
    words = embedding[probe].double()
    values, alpha = top_direction(embedding)
    gamma, beta = ((table @ alpha.to(table)).double().numpy() for table in (embedding, unembedding))
    rate = drive(gamma, beta, frequencies=frequencies, pairs=pairs)
    kept = np.pad(values.numpy(), (0, N_DIRECTIONS))[:N_DIRECTIONS]
    on_probe = softmax((sought(model, probe) @ words.T).numpy(), axis=-1)
    return {
        "on_frequent": ("query", attention[:, 0]),
        "singular_values": ("rank", kept),
        "query_norm": query.double().norm().item(),
        "probe_attention": (("probe_query", "probe_key"), on_probe),
        "probe_norm": ("probe_query", words.norm(dim=1).numpy()),
        "own": own_share(model, windows),
        "drive": phi_scale(model.config.d_model, model.config.scaled) * rate,
    }
