"""Classes of one query that are not alike, and what theory says of plain descent on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import saccade
from saccade.measures.fits import Array
from saccade.theories import scan_and_snap as theory
from saccade.theories.condition import Condition, at_most


def unequal_classes(
    heavier: float, n_common: int = 10, n_distinct: int = 10, n_vocab: int = 33
) -> saccade.SequenceClasses:
    """Syn-Medium with one query, or two classes of other sizes, the distinct tokens of class 1
    e^heavier times as frequent.
    """
    rising = np.linspace(0.1, 1, n_distinct)
    return _classes(n_common, [np.exp(heavier), 1.0], rising, n_vocab)


def three_classes(
    n_common: int, n_distinct: int, weights: Sequence[float], n_vocab: int
) -> saccade.SequenceClasses:
    """Three classes, the lightest last: `weights` are those of their distinct tokens."""
    return _classes(n_common, weights, np.linspace(0.2, 1, n_distinct), n_vocab)


def _classes(
    n_common: int, weights: Sequence[float], rising: Array, n_vocab: int
) -> saccade.SequenceClasses:
    return saccade.SequenceClasses(
        np.hstack([np.ones((len(weights), n_common)), np.kron(np.diag(weights), rising)]),
        n_vocab=n_vocab,
        normalise=True,
        name="unequal",
    )


def plain_logits(task: saccade.SequenceClasses, times: Sequence[float], **rates: float) -> Array:
    """Logits at these times, by the theory of plain descent with memory (time, token)."""
    occurs = task.token_prob.any(axis=0)
    return theory.plain_attention_logits(
        times,
        token_prob=task.token_prob,
        query=task.query,
        class_weight=task.class_weight,
        n_vocab=task.n_vocab,
        **rates,
    )[:, 0, occurs]


def top_token(task: saccade.SequenceClasses) -> int:
    """The most frequent distinct token of the last class, which is the lightest."""
    return int(np.argmax(np.where(task.distinct[-1], task.token_prob[-1], 0.0)))


def unequal_enough(task: saccade.SequenceClasses) -> Condition:
    """For the closed form of a turn: beyond it is off by a factor of 2 at a lead of -0.16/M."""
    lead = theory.resting_lead(task.token_prob[:, task.token_prob.any(axis=0)])[top_token(task)]
    name = "unequal enough: the resting lead is clearly negative"
    return at_most(name, lead, -0.4, "resting lead times M")
