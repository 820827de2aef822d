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


def chain_errors(runs, record):
    pairs = list(zip(runs, [record.isel(time=i) for i in range(record.sizes["time"])], strict=True))
    matrices = (
        ("embedding", "embedding"),
        ("query", "query_matrix"),
        ("key", "key_matrix"),
        ("projection", "projection"),
    )
    errors = {
        "attention": [entrywise(r["attention"], a.attention, NOTHING) for r, a in pairs],
        "loss": [entrywise(r["loss"], a.loss) for r, a in pairs],
        "singular values": [
            entrywise(r["singularValues"], np.linalg.svd(a.embedding.values, compute_uv=False))
            for r, a in pairs
        ],
    }
    return errors | {
        ours: [by_matrix(r["parameters"][ours], a[theirs]) for r, a in pairs]
        for ours, theirs in matrices
    }
