"""Two or three classes of one query that are not alike, and what theory says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import saccade
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import Condition, at_most

DECODER, ATTENTION = "η_Y", "η_Z"  # the rate that is held at 1 while the ratio changes
_LEAD = -0.4  # times M: closer to 0 the closed form of a turn is off by more than its width, at -.16 by a factor of 2


def unequal_classes(
    heavier: float, n_common: int = 10, n_distinct: int = 10, n_vocab: int = 33
) -> saccade.SequenceClasses:
    """Syn-Medium with one query, or classes of other sizes, the distinct tokens of class 1
    e^heavier times as frequent.
    """
    weight = np.ones((2, n_common + 2 * n_distinct))
    rising = np.linspace(0.1, 1, n_distinct)
    weight[0, n_common:] = np.append(np.exp(heavier) * rising, 0 * rising)
    weight[1, n_common:] = np.append(0 * rising, rising)
    return saccade.SequenceClasses(weight, n_vocab=n_vocab, normalise=True, name="unequal-2")


def three_classes(
    n_common: int, n_distinct: int, weights: Sequence[float], n_vocab: int
) -> saccade.SequenceClasses:
    """Three unequal classes of one query, the lightest last: `weights` are those of their distinct
    tokens.
    """
    weight, rising = np.zeros((3, n_common + 3 * n_distinct)), np.linspace(0.2, 1, n_distinct)
    weight[:, :n_common], weight[:, n_common:] = 1.0, np.kron(np.diag(weights), rising)
    return saccade.SequenceClasses(weight, n_vocab=n_vocab, normalise=True, name="unequal-3")


def rates(ratio: float, held: str = DECODER) -> dict[str, Any]:
    decoder, attention = (1.0, 1 / ratio) if held == DECODER else (ratio, 1.0)
    return {"lr_decoder": decoder, "lr_attention": attention}


def told_to_theory(task: saccade.SequenceClasses) -> dict[str, Any]:
    return {
        "token_prob": task.token_prob,
        "query": task.query,
        "class_weight": task.class_weight,
        "n_vocab": task.n_vocab,
    }


def expected_logits(task: saccade.SequenceClasses, t1: float, given: dict[str, Any]) -> Array:
    """At the end, by the theory of plain descent with memory (class, token)."""
    return theory.plain_attention_logits([0.0, t1], **told_to_theory(task), **given)[-1]


def resting_lead(task: saccade.SequenceClasses) -> Array:
    """Of every token that occurs, times M."""
    return theory.resting_lead(task.token_prob[:, task.token_prob.any(axis=0)])


def top_token(task: saccade.SequenceClasses) -> int:
    """The most frequent distinct token of the last class, which is the lightest."""
    return int(np.argmax(np.where(task.distinct[-1], task.token_prob[-1], 0.0)))


def unequal_enough(lead: float) -> Condition:
    return at_most(
        "unequal enough: the resting lead is clearly negative", lead, _LEAD, "resting lead times M"
    )
