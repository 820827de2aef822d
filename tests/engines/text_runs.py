"""A small corpus and small models to train on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saccade.models.transformer_config import TransformerConfig

N_VOCAB, CONTEXT, BATCH = 37, 11, 6


def _tokens(length: int, seed: int) -> np.ndarray:
    """A frequent token leads to few others, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    token = np.minimum(rng.zipf(1.4, length), N_VOCAB) - 1
    follows = rng.random(length) < 0.5
    for i in np.flatnonzero(follows[1:]) + 1:
        token[i] = (3 * token[i - 1] + 1) % N_VOCAB
    return token.astype(np.uint16)


@dataclass(frozen=True)
class ArrayCorpus:
    train: np.ndarray = field(default_factory=lambda: _tokens(3011, 0))
    valid: np.ndarray = field(default_factory=lambda: _tokens(503, 1))
    n_vocab: int = N_VOCAB
    name: str = "array"
    hash: str = "0"


CORPUS = ArrayCorpus()
SMALL = TransformerConfig(
    N_VOCAB,
    n_layers=2,
    n_heads=2,
    d_model=8,
    d_mlp=5,
    dropout=0.2,
    positions="learned",
    context=CONTEXT,
)
SETTINGS: dict[str, Any] = {
    "model": SMALL,
    "batch": BATCH,
    "context": CONTEXT,
    "lr": 0.05,
    "optimiser": "adam",
    "seed": 3,
}
