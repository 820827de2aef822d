"""Lemma 1 on random matrices and short sequences, against everything it can be compared with. Part of `long-context-limit`."""

from __future__ import annotations

import jax
import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.model.pairwise import Parameters, Rows, forward, gradients
from saccade.theory import scan_and_snap as theory

_STEP = 1e-6  # of the central differences
_LONGEST = 11  # context tokens
Sequence = tuple[NDArray[np.int64], int, int]  # context, query, next token


def gradient_errors(n_samples: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Each kind of error, largest over both matrices, by sample."""
    task = _uneven_task()
    rows = [_sample_errors(task, rng) for _ in range(n_samples)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _uneven_task() -> saccade.SequenceClasses:
    """Three classes over ten tokens with two queries, one of them a context token; tokens of one, two and all classes."""
    prob = np.zeros((3, 7))
    prob[:, :2] = 1.0
    prob[:2, 2] = 2.0
    prob[[0, 1, 2, 2], [3, 4, 5, 6]] = 3.0
    return saccade.SequenceClasses(prob, query=np.array([7, 7, 0]), next_token=np.array([8, 9, 3]), n_vocab=10, normalise=True)


def _sample_errors(task: saccade.SequenceClasses, rng: np.random.Generator) -> dict[str, float]:
    decoder, logits = rng.normal(size=(2, task.n_vocab, task.n_vocab))
    batch: list[Sequence] = [
        (rng.choice(task.n_vocab, rng.integers(1, _LONGEST + 1), p=prob), int(query), int(following))
        for prob, query, following in zip(task.token_prob, task.query, task.next_token, strict=True)
    ]
    exact = [_from_sequence(decoder, logits, sequence) for sequence in batch]
    counted = [_from_counts(decoder, logits, sequence) for sequence in batch]
    sloped = [_central_differences(decoder, logits, sequence) for sequence in batch]
    return {
        "difference_error": _gap(exact, sloped),
        "row_sum": float(np.abs(np.sum(exact, axis=-1)).max()),
        "count_error": _gap(exact, counted),
        "engine_error": _gap(np.sum(exact, axis=0), _from_engine(task, decoder, logits, batch)),
        "order_error": max(_off_diagonal(logits, sequence) for sequence in batch),
    }


def _gap(a: object, b: object) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def _from_sequence(decoder: NDArray[np.float64], logits: NDArray[np.float64], sequence: Sequence) -> NDArray[np.float64]:
    context, query, label = sequence
    rates = {"lr_decoder": 1.0, "lr_attention": 1.0}
    return np.stack(theory.gradient_from_sequence(decoder, logits, context, query=query, label=label, **rates))


def _from_counts(decoder: NDArray[np.float64], logits: NDArray[np.float64], sequence: Sequence) -> NDArray[np.float64]:
    context, query, label = sequence
    counts = np.bincount(context, minlength=len(decoder))
    rates = {"lr_decoder": 1.0, "lr_attention": 1.0}
    return np.stack(theory.gradient_from_counts(decoder, logits, counts, query=query, label=label, **rates))


def _objective(decoder: NDArray[np.float64], logits: NDArray[np.float64], sequence: Sequence) -> float:
    """Log-probability of the next token, position by position."""
    context, query, label = sequence
    weight = np.exp(logits[query, context])
    seen = np.zeros(len(decoder))
    for token, attention in zip(context, weight / weight.sum(), strict=True):
        seen[token] += attention
    output = seen / np.linalg.norm(seen) @ decoder
    return float(output[label] - np.log(np.exp(output).sum()))


def _central_differences(decoder: NDArray[np.float64], logits: NDArray[np.float64], sequence: Sequence) -> NDArray[np.float64]:
    both = np.stack([decoder, logits])
    slope = np.zeros_like(both)
    for place in np.ndindex(both.shape):
        up, down = both.copy(), both.copy()
        up[place] += _STEP
        down[place] -= _STEP
        slope[place] = (_objective(up[0], up[1], sequence) - _objective(down[0], down[1], sequence)) / (2 * _STEP)
    return slope


def _off_diagonal(logits: NDArray[np.float64], sequence: Sequence) -> float:
    context, query, _ = sequence
    X = np.eye(len(logits))[context]
    b = np.exp(logits[query, context])
    b /= b.sum()
    return _gap(X.T @ np.diag(b) @ X, np.diag(X.T @ b))


def _from_engine(
    task: saccade.SequenceClasses, decoder: NDArray[np.float64], logits: NDArray[np.float64], batch: list[Sequence]
) -> NDArray[np.float64]:
    """The engine's gradient of the summed objective, one sequence of each class, as dense matrices."""
    model = saccade.Pairwise(init="uniform")  # every next token keeps its own column
    blocks = model.blocks(task)
    counts = np.array([np.append(np.bincount(context, minlength=task.n_vocab), 0) for context, *_ in batch], float)
    at_slots = np.take_along_axis(counts, blocks.slots, axis=1)[..., None]  # a filler, -1, reads the zero at the end
    with jax.enable_x64(True):
        parameters = Parameters(
            Rows(decoder[blocks.shared], decoder[blocks.own]),
            Rows(logits[blocks.queries][:, blocks.shared], logits[task.query[:, None], blocks.own]),
        )
        seen = forward(parameters, at_slots, model, blocks)
        uphill = jax.tree.map(np.asarray, gradients(seen, parameters, np.ones((task.n_classes, 1)), model, blocks))
    attention = np.zeros_like(logits)
    attention[blocks.queries] = blocks.dense_attention_logits(*uphill.attention)
    return np.stack([blocks.dense_decoder(*uphill.decoder), attention])
