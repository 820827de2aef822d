"""How a run of the browser's engine is laid beside one of Python's: equal settings, equal start,
relative errors.

Of attention, loss and singular values each entry is compared to itself, of parameters to the
largest of their matrix.
"""

from __future__ import annotations

import numpy as np

import saccade
from saccade.models.embedded import weights_of

CLOSE = 1e-6  # what the comparisons are held to
NOTHING = 1e-12  # attention below this is compared as a share of it: nobody sees it, and e^z has no digits left there
THREE = saccade.SequenceClasses(
    [
        [2, 1, 4, 3, 1, 0, 0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 5, 2, 1, 0, 0, 0],
        [2, 1, 0, 0, 0, 0, 0, 0, 3, 3, 1],
    ],
    class_weight=[5, 3, 2],
    normalise=True,
    name="three",
)


def task_settings(task, **more):
    return {
        "tokenProb": task.token_prob.tolist(),
        "query": task.query.tolist(),
        "nextToken": task.next_token.tolist(),
        "classWeight": task.class_weight.tolist(),
        **more,
    }


def chain_settings(chain, stay, record, **more):
    names = ("embedding", "query", "key", "projection")
    start = dict(
        zip(names, (matrix.tolist() for matrix in weights_of(record.isel(time=0))), strict=True)
    )
    return {"stationary": chain.stationary.tolist(), "stay": stay, "start": start, **more}


def entrywise(seen, wanted, least=0.0):
    seen, wanted = np.asarray(seen, float), np.asarray(wanted, float)
    assert seen.shape == wanted.shape
    return float(
        np.max(np.abs(seen - wanted) / np.maximum(np.abs(wanted), least or np.finfo(float).tiny))
    )


def by_matrix(seen, wanted):
    seen, wanted = np.asarray(seen, float), np.asarray(wanted, float)
    assert seen.shape == wanted.shape
    return float(np.abs(seen - wanted).max() / max(np.abs(wanted).max(), np.finfo(float).tiny))


def said(name, errors):
    """The worst error of each quantity over all times; printed, so that `pytest -s` shows how much
    room there is.
    """
    worst = {key: max(values) for key, values in errors.items()}
    print(f"{name}: " + ", ".join(f"{key} {value:.1e}" for key, value in worst.items()))
    return max(worst.values())


def errors_of(runs, record, parameters, singular_values):
    """Of attention, loss and singular values, and of parameters: name here -> name in the record."""
    pairs = [(run, record.isel(time=at)) for at, run in enumerate(runs)]
    assert len(pairs) == record.sizes["time"]
    errors = {
        "attention": [entrywise(r["attention"], a.attention, NOTHING) for r, a in pairs],
        "loss": [entrywise(r["loss"], a.loss) for r, a in pairs],
        "singular values": [
            entrywise(r["singularValues"], singular_values(a))
            for r, a in pairs
            if np.any(singular_values(a))
        ],
    }
    return errors | {
        ours: [by_matrix(r["parameters"][ours], a[theirs]) for r, a in pairs]
        for ours, theirs in parameters.items()
    }


def task_errors(runs, record):
    """With the decoder of a record that keeps it; a decoder of zeros has no singular values."""
    n_classes = record.sizes["class"]
    return errors_of(
        runs,
        record,
        {"decoder": "decoder", "attentionLogits": "attention_logits"},
        lambda at: np.linalg.svd(at.decoder.values, compute_uv=False)[:n_classes],
    )


def chain_errors(runs, record):
    names = {name: f"{name}_matrix" for name in ("query", "key")}
    return errors_of(
        runs,
        record,
        {"embedding": "embedding", "projection": "projection", **names},
        lambda at: np.linalg.svd(at.embedding.values, compute_uv=False),
    )
