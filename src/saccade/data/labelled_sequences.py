r"""Labelled sequences of vectors: the data of "From Condensation to Rank Collapse" [chen2025],
given as a whole, with weights.

A population is the list itself: `tokens` (sequence, position, width), a `label` of -1 or 1, and a
`weight`, how often it is drawn. `two_clue` is a task of ours of which everything is known in closed
form (`theories/rank_collapse/two_clue.py`). `anchor_sequences` is the paper's own task [chen2025,
App. B.1]: token ids, and a token as the target; `anchor` is that task for a model with one output.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, checked_count, checked_number

__all__ = ["AnchorSequences", "LabelledSequences", "anchor_sequences"]


@dataclass(frozen=True, eq=False)
class LabelledSequences:
    """Sequences of vectors with a label of -1 or 1 each, and how often each is drawn (equally often
    if no weights are given).
    """

    tokens: NDArray[np.float64]
    label: NDArray[np.float64]
    weight: Any = None

    def __post_init__(self) -> None:
        tokens, label = np.asarray(self.tokens, float), np.asarray(self.label, float)
        weight = np.ones(len(label)) if self.weight is None else np.asarray(self.weight, float)
        if tokens.ndim != 3 or label.shape != tokens.shape[:1] or weight.shape != label.shape:
            shapes = f"{tokens.shape}, {label.shape}, {weight.shape}"
            raise InputError(
                f"`tokens` must be (sequence, position, width), `label` and `weight` (sequence); got {shapes}."
            )
        if not (
            np.isfinite(tokens).all()
            and np.isin(label, (-1, 1)).all()
            and (weight >= 0).all()
            and weight.sum() > 0
        ):
            raise InputError(
                "`tokens` must be finite, labels -1 or 1, weights at least 0 and not all 0."
            )
        for name, value in (
            ("tokens", tokens),
            ("label", label),
            ("weight", weight / weight.sum()),
        ):
            object.__setattr__(self, name, value)

    @property
    def width(self) -> int:
        return self.tokens.shape[2]

    @property
    def given(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Tokens, labels and weights, as closed forms take them."""
        return self.tokens, self.label, self.weight

    @classmethod
    def two_clue(
        cls, first: float = 0.9, second: float = 0.9, share: float = 0.5
    ) -> LabelledSequences:
        """Two clues, and a question that says which of them to trust: 16 sequences of three tokens
        of width 5.

        Coordinates: 0 the clue's sign, 1 and 2 the question, 3 and 4 the place. Clue A decides
        question 1 and is right with probability `first`, clue B decides question 2 and is right
        with probability `second`; question 1 has the given `share`.
        """
        right = {
            1: checked_number("first", first, low=0, high=1),
            2: checked_number("second", second, low=0, high=1),
        }
        asked = {1: checked_number("share", share, low=0, high=1), 2: 1 - share}
        unit, tokens, labels, weights = np.eye(5), [], [], []
        for a, b, question, true in product((1, -1), (1, -1), (1, 2), (True, False)):
            tokens.append([unit[3] + a * unit[0], unit[4] + b * unit[0], unit[question]])
            labels.append((a if question == 1 else b) * (1 if true else -1))
            weights.append(asked[question] * (right[question] if true else 1 - right[question]) / 4)
        return cls(np.array(tokens), np.array(labels), np.array(weights))

    @classmethod
    def noisy_teacher(
        cls,
        n: int,
        scales: tuple[float, ...],
        *,
        length: int = 4,
        noise: float = 1.0,
        seed: int = 0,
    ) -> LabelledSequences:
        """Gaussian tokens, coordinate k of size `scales[k]`; the label is the sign of a random
        direction of the mean token, in standard deviations, plus `noise` times a Gaussian number.
        Without noise the mean token separates the labels.
        """
        rng, width = np.random.default_rng(seed), len(scales)
        tokens = (
            rng.standard_normal((checked_count("n", n), checked_count("length", length), width))
            * scales
        )
        teacher = tokens.mean(axis=1) @ rng.standard_normal(width)
        return cls(
            tokens,
            np.where(teacher / teacher.std() + noise * rng.standard_normal(n) > 0, 1.0, -1.0),
        )

    @classmethod
    def anchor(cls, n: int, width: int, *, length: int = 10, seed: int = 0) -> LabelledSequences:
        """The anchor function for a model with one output: each token is a fixed Gaussian vector,
        as the paper's embedding is, and the label says whether the target is in the upper half of
        all targets.
        """
        drawn = anchor_sequences(n, length=length, seed=seed)
        vectors = np.random.default_rng((seed, 1)).standard_normal(
            (101, checked_count("width", width))
        )
        return cls(
            vectors[drawn.tokens], np.where(drawn.target > np.median(drawn.target), 1.0, -1.0)
        )


class AnchorSequences(NamedTuple):
    """Token ids (sequence, position), the one anchor in each and its place, and the target token."""

    tokens: NDArray[np.int64]
    anchor: NDArray[np.int64]
    place: NDArray[np.int64]
    target: NDArray[np.int64]


def anchor_sequences(n: int, *, length: int = 10, seed: int = 0) -> AnchorSequences:
    """The anchor function of [chen2025, eq. 60]: one anchor a of 1 to 4 among the first tokens, all
    others from 5 to 100; the target is the token after the anchor, plus one if a is odd.
    """
    rng = np.random.default_rng(seed)
    tokens = rng.integers(5, 101, (checked_count("n", n), checked_count("length", length, low=2)))
    anchor, place = rng.integers(1, 5, n), rng.integers(0, length - 1, n)
    tokens[np.arange(n), place] = anchor
    return AnchorSequences(tokens, anchor, place, tokens[np.arange(n), place + 1] + anchor % 2)
