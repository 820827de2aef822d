"""Chains the theory is tested on, written from their definition, and weights of sizes that no two
axes share.
"""

import numpy as np

N_VOCAB, D_MODEL, D_KEY = 5, 7, 3
PAPER_LAW = np.array([0.75, 0.19, 0.05, 0.01])
ZIPF = 1 / np.arange(1, 7) / np.sum(1 / np.arange(1, 7))


def lazy(stationary, stay):
    """Stationary law and table of the chain that repeats with chance `stay` and otherwise draws
    from the law.
    """
    stationary = np.asarray(stationary, float)
    table = stay * np.eye(len(stationary)) + (1 - stay) * np.tile(stationary, (len(stationary), 1))
    return {"stationary": stationary, "transition": table}


def irreversible(seed=0, n_vocab=N_VOCAB):
    """A random table with unequal columns, and its stationary law from the linear equations."""
    table = np.random.default_rng(seed).uniform(0.05, 1, (n_vocab, n_vocab)) * np.geomspace(
        1, 0.1, n_vocab
    )
    table /= table.sum(axis=1, keepdims=True)
    equations = np.vstack([table.T - np.eye(n_vocab), np.ones(n_vocab)])
    law = np.linalg.lstsq(equations, np.append(np.zeros(n_vocab), 1.0), rcond=None)[0]
    return {"stationary": law, "transition": table}


def two_level(high, n_vocab, stay, asymmetry=0.0):
    """Rare tokens share what token 0 leaves, apart from `asymmetry` times an even fall from 1 to
    -1.
    """
    low = (1 - high) / (n_vocab - 1) + asymmetry * np.linspace(1, -1, n_vocab - 1)
    return lazy(np.append(high, low), stay)


def random_weights(seed=1, *, n_vocab=N_VOCAB, d_model=D_MODEL, d_key=D_KEY, scale=0.5):
    """Embedding, query, key, projection with entries from N(0, scale^2)."""
    rng = np.random.default_rng(seed)
    shapes = [(n_vocab, d_model), (d_model, d_key), (d_model, d_key), (d_model, n_vocab)]
    return [scale * rng.normal(size=shape) for shape in shapes]


CHAINS = {
    "paper": lazy(PAPER_LAW, 0.3),
    "zipf": lazy(ZIPF, 0.5),
    "anti-persistent": lazy(ZIPF, -0.05),
    "irreversible": irreversible(),
}
