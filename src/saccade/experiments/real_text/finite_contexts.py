r"""Contexts of finite length: counted windows of text, as many independent draws, and how far
either is from infinite contexts.

A class is a query m and a next token n, and P(l|m,n) how often each token stands among the T before
them, in the whole text. Tokens that the classes do not keep are read over, so that a window of T
tokens has T_kept <= T of them; independent draws have the same T_kept, window by window. A context
has shares q in place of P, attention $v \propto q \circ e^z$ in place of $c \propto P \circ e^z$,
and a gradient of z of its own. Distances are roots of mean squares over contexts, each in a unit.
Axes of counts: class, slot, row, as in `models/pairwise.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array as JaxArray
from numpy.typing import NDArray

from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.context_law import counted_context_law
from saccade.data.text.corpus import Corpus
from saccade.errors import InputError
from saccade.models.pairwise import (
    Pairwise,
    Parameters,
    Rows,
    class_attention_logits,
    class_decoder,
    forward,
    gradients,
)
from saccade.models.token_blocks import TokenBlocks

Array = NDArray[np.float64]
Places = list[NDArray[np.intp]]  # of each class, where the query stands
_MODEL = Pairwise()
_LONG = (
    10**6
)  # tokens, contexts: the spread is known to a few percent, and equal for all that is compared
_N_LONG = 400


def law_at(corpus: Corpus, classes: SequenceClasses, length: int) -> Array:
    """P(l|m,n) of each class over the `length` tokens before its query (class, token); tokens and
    classes are those given.
    """
    ids = np.array([corpus.id_of(name) for name in classes.token_names])
    kept = classes.token_prob.any(axis=0)
    law = np.zeros(classes.token_prob.shape)
    for query in np.unique(classes.query):
        own = np.flatnonzero(classes.query == query)
        following = ids[classes.next_token[own]].tolist()
        counted = counted_context_law(
            corpus.train, corpus.bigrams, int(ids[query]), window=length, next_tokens=following
        )
        law[own] = np.where(kept, counted.count[:, ids], 0)
    return law / law.sum(axis=1, keepdims=True)


def with_law(blocks: TokenBlocks, law: Array) -> TokenBlocks:
    """The same slots with other chances P(l|m,n) (class, token), of tokens that each class had
    before.
    """
    return replace(
        blocks,
        token_prob=np.where(
            blocks.slots >= 0, np.take_along_axis(law, np.maximum(blocks.slots, 0), axis=1), 0.0
        ),
    )


def drawn_places(
    corpus: Corpus,
    classes: SequenceClasses,
    *,
    between: tuple[int, int],
    longest: int,
    n_windows: int,
    rng: np.random.Generator,
) -> Places:
    """Where some of the sequences of each class end in a part of the training text, `longest`
    tokens of it before them.

    Each place once; more than once only if the class has fewer than asked for.
    """
    own = _numbers(corpus, classes)[corpus.train[between[0] : between[1]]]
    places = []
    for query, following in zip(classes.query, classes.next_token, strict=True):
        found = longest + np.flatnonzero(
            (own[longest:-1] == query) & (own[longest + 1 :] == following)
        )
        if not len(found):
            pair = f"{classes.labels[query]!r} before {classes.labels[following]!r}"
            raise InputError(
                f"a part of {corpus.name} has no {pair} after {longest} tokens: take fewer `parts` or shorter `lengths`."
            )
        places.append(between[0] + rng.choice(found, n_windows, replace=len(found) < n_windows))
    return places


def window_counts(
    corpus: Corpus, classes: SequenceClasses, blocks: TokenBlocks, places: Places, length: int
) -> Array:
    """Token counts of the `length` tokens before each place."""
    is_kept = np.any(classes.token_prob, axis=0)
    slots = blocks.slots
    n_vocab = classes.n_vocab
    numbers = _numbers(corpus, classes)
    counts = np.empty((*slots.shape, len(places[0])))
    for n, ends in enumerate(places):
        tokens = numbers[corpus.train[ends[:, None] - np.arange(1, length + 1)]]
        row, back = np.nonzero((tokens >= 0) & np.take(is_kept, tokens))
        table = (
            np.bincount(row * n_vocab + tokens[row, back], minlength=len(ends) * n_vocab)
            .reshape(-1, n_vocab)
            .T
        )
        counts[n] = np.where(slots[n, :, None] >= 0, table[slots[n]], 0)
    if not counts.sum(axis=1).all():
        raise InputError(
            f"a window of {length} tokens has none that is kept: raise `n_tokens`, or take longer `lengths`."
        )
    return counts


def independent_counts(blocks: TokenBlocks, like: Array, rng: np.random.Generator) -> Array:
    """Token counts of independent draws from P(l|m,n) of each class, as many in each context as
    `like` has there.
    """
    sizes = like.sum(axis=1).astype(int)
    return np.stack(
        [
            rng.multinomial(size, law / law.sum()).T
            for size, law in zip(sizes, blocks.token_prob, strict=True)
        ]
    )


def _numbers(corpus: Corpus, classes: SequenceClasses) -> NDArray[np.int64]:
    """The classes' own number of each token of the corpus, -1 for those they do not have."""
    numbers = np.full(corpus.n_vocab, -1)
    numbers[[corpus.id_of(name) for name in classes.token_names]] = np.arange(classes.n_vocab)
    return numbers


def share_error(counts: Array, blocks: TokenBlocks) -> Array:
    r"""Of $q - P$ over the spread of one draw, $\sqrt{1 - \sum_l P_l^2}$, by class: exactly
    $T^{-1/2}$ for independent draws, so its inverse square is how many of them would be as near.
    """
    law = blocks.token_prob
    shares = counts / counts.sum(axis=1, keepdims=True)
    return np.sqrt(_mean_square(shares - law[:, :, None]) / (1 - (law**2).sum(axis=1)))


def attention_error(counts: Array, parameters: Parameters, blocks: TokenBlocks) -> Array:
    """Of v - c over |c|, by class: of power -1/2 for independent draws."""
    limit = limit_attention(parameters, blocks)
    gap = _attention(counts, parameters, blocks) - limit[:, :, None]
    return np.sqrt(_mean_square(gap)) / np.linalg.norm(limit, axis=1)


def gradient_error(counts: Array, parameters: Parameters, blocks: TokenBlocks) -> Array:
    """By class; its unit is `gradient_spread`, since over the gradient itself it would change with
    P, and so with T.
    """
    limit = context_gradients(parameters, _MODEL.population(blocks), blocks)
    return np.sqrt(_mean_square(context_gradients(parameters, counts, blocks) - limit))


def gradient_spread(parameters: Parameters, blocks: TokenBlocks, rng: np.random.Generator) -> Array:
    """Of one independent draw, by class: distance in long contexts times the root of their length."""
    drawn = [rng.multinomial(_LONG, law / law.sum(), size=_N_LONG).T for law in blocks.token_prob]
    return gradient_error(np.stack(drawn).astype(float), parameters, blocks) * np.sqrt(_LONG)


def limit_attention(parameters: Parameters, blocks: TokenBlocks) -> Array:
    """c of every class (class, slot)."""
    return _attention(blocks.token_prob[:, :, None], parameters, blocks)[:, :, 0]


def context_gradients(parameters: Parameters, counts: Array, blocks: TokenBlocks) -> Array:
    r"""$\dot z = f \circ (g - f (f \cdot g))$, $g = Y(e_n - \alpha)$, of every context by itself
    [tian2023, Lemma 1].
    """
    with jax.enable_x64(True):
        return np.asarray(_context_gradients(parameters, counts, blocks))


@jax.jit
def _context_gradients(parameters: Parameters, counts: Any, blocks: TokenBlocks) -> JaxArray:
    seen = forward(parameters, counts, _MODEL, blocks)
    wrong = jax.nn.sigmoid(seen.deficit)[..., None]
    error = wrong * (blocks.is_target[:, None, :] - seen.others / seen.others_total[..., None])
    g = jnp.einsum("ksj,krj->ksr", class_decoder(parameters.decoder), error)
    f = seen.feature
    return f * (g - f * jnp.sum(f * g, axis=1, keepdims=True))


def descended(
    bank: Array,
    picks: NDArray[np.integer],
    classes: SequenceClasses,
    blocks: TokenBlocks,
    rates: tuple[float, float],
) -> Parameters:
    """Gradient descent from zero. `bank`: counts of contexts; `picks` (step, class, row): which of
    them each step learns from.

    Every class has its weight in each step; one row that holds P(l|m,n) is the infinite context.
    """
    with jax.enable_x64(True):
        start = _MODEL.initial(blocks, np.random.default_rng(0), np.dtype("float64"))
        moved = _descended(start, bank, picks, classes.class_weight, blocks, rates)
    return jax.tree.map(np.asarray, moved)


def in_the_limit(
    steps: int, classes: SequenceClasses, blocks: TokenBlocks, rates: tuple[float, float]
) -> Parameters:
    """The same in infinite contexts."""
    return descended(
        _MODEL.population(blocks),
        np.zeros((steps, classes.n_classes, 1), int),
        classes,
        blocks,
        rates,
    )


@jax.jit
def _descended(
    start: Parameters, bank: Any, picks: Any, class_weight: Any, blocks: TokenBlocks, rates: Any
) -> Parameters:
    weight = jnp.broadcast_to(class_weight[:, None] / picks.shape[2], picks.shape[1:])

    def step(state: Parameters, picked: Any) -> tuple[Parameters, None]:
        counts = jnp.take_along_axis(bank, picked[:, None, :], axis=2)
        downhill = gradients(forward(state, counts, _MODEL, blocks), state, weight, _MODEL, blocks)
        moved = [
            Rows(*(part + rate * slope for part, slope in zip(rows, slopes, strict=True)))
            for rate, rows, slopes in zip(rates, state, downhill, strict=True)
        ]
        return Parameters(*moved), None

    return jax.lax.scan(step, start, picks)[0]


def _attention(counts: Array, parameters: Parameters, blocks: TokenBlocks) -> Array:
    """v of every context (class, slot, row)."""
    with jax.enable_x64(True):
        logits = np.asarray(class_attention_logits(parameters.attention, blocks))
    weights = counts * np.exp(logits - logits.max(axis=1, keepdims=True))[:, :, None]
    return weights / weights.sum(axis=1, keepdims=True)


def _mean_square(gap: Array) -> Array:
    """Of the length over slots, mean over rows (class)."""
    return np.asarray((gap**2).sum(axis=1).mean(axis=1))
