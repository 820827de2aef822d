"""The second implementation of the statistics: one query at a time, from whole float64 maps, with
no blocks and no torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def dense_statistics(
    weights: np.ndarray,
    is_token: np.ndarray | None = None,
    start: np.ndarray | None = None,
    decile: np.ndarray | None = None,
    informative: np.ndarray | None = None,
    own_queries: bool = True,
    least: float = 1e-30,
) -> dict[str, np.ndarray]:
    """Means over queries (head) of whole maps (batch, head, query, key); a key is visible if its
    weight is above `least`.
    """
    n_batch, n_heads, n_queries, n_keys = weights.shape
    square = own_queries and n_queries == n_keys
    found: list[dict[str, Any]] = []
    for h in range(n_heads):
        rows: dict[str, list[float]] = {}
        owner: dict[str, list[int]] = {}  # which sequence each of them is of
        mass, share = np.zeros(10), np.zeros(10)
        for b in range(n_batch):
            for i in range(n_queries):
                row = weights[b, h, i]
                seen = row > least
                if not seen.any() or (is_token is not None and square and not is_token[b, i]):
                    continue
                one = _of_row(row[seen])
                if is_token is not None:
                    first = int(start[b, i if square else 0])
                    one["sink_mass"] = row[first]
                    one["uniform_sink_mass"] = seen[first] / seen.sum()
                    if square:
                        one["self_mass"] = row[i]
                        one["uniform_self_mass"] = seen[i] / seen.sum()
                        if i > first:
                            one["previous_mass"] = row[i - 1]
                            one["uniform_previous_mass"] = seen[i - 1] / seen.sum()
                if informative is not None and square:
                    tells = informative[b, i]
                    one["distinct_mass"] = sum(row[k] for k in range(n_keys) if tells[k] >= 0.5)
                    one["common_mass"] = sum(row[k] for k in range(n_keys) if tells[k] <= 0.1)
                    one["judged_mass"] = sum(row[k] for k in range(n_keys) if tells[k] == tells[k])
                for name, value in one.items():
                    rows.setdefault(name, []).append(value)
                    owner.setdefault(name, []).append(b)
                if decile is not None:
                    for d in range(10):
                        mass[d] += row[decile[b] == d].sum()
                        share[d] += (seen & (decile[b] == d)).sum() / seen.sum()
        means = {name: float(np.mean(values)) for name, values in rows.items()}
        if decile is not None:
            means["decile_focus"] = np.divide(mass, share, out=np.full(10, np.nan), where=share > 0)
        if is_token is not None:
            places = ("sink_mass", "previous_mass", "induction_mass", "duplicate_mass", "self_mass")
            means["uniform_mass"] = np.array(
                [means.pop(f"uniform_{name}", np.nan) for name in places]
            )
        measures = (
            "relative_entropy",
            "sink_mass",
            "previous_mass",
            "induction_mass",
            "duplicate_mass",
            "self_mass",
        )
        means["standard_error"] = np.array(
            [_scatter(rows.get(name, []), owner.get(name, [])) for name in measures]
        )
        means["entropy_slack"] = means["entropy"] - means["entropy_bound"]
        found.append(means)
    return {
        name: np.stack([np.asarray(means.get(name, np.nan)) for means in found])
        for name in found[0]
    }


def _scatter(values: list[float], owner: list[int]) -> float:
    """Standard error of a ratio estimator: sequences are drawn, and each brings a total and a
    number of queries.
    """
    groups = [
        np.array([value for value, of in zip(values, owner, strict=True) if of == one])
        for one in sorted(set(owner))
    ]
    if len(groups) < 2:
        return np.nan
    left = np.array([(group - np.mean(values)).sum() for group in groups])
    return float(np.sqrt(len(groups) * (left**2).sum() / (len(groups) - 1)) / len(values))


def _least_entropy(row: np.ndarray) -> float:
    """Entropy of the law with the same norm of centred log weights in which one key stands out."""
    logits = np.log(row)
    norm, n = np.linalg.norm(logits - logits.mean()), len(row)
    if n == 1:
        return 0.0
    spike = norm * np.append(np.sqrt((n - 1) / n), np.full(n - 1, -1 / np.sqrt(n * (n - 1))))
    law = np.exp(spike - spike.max())
    law /= law.sum()
    return float(-(law[law > 0] * np.log(law[law > 0])).sum())


def _of_row(row: np.ndarray) -> dict[str, float]:
    entropy = float(-(row * np.log(row)).sum())
    largest = np.sort(row)[::-1]
    one = {
        "entropy": entropy,
        "top_mass": largest[0],
        "top_k_mass": largest[:5].sum(),
        "effective_keys": 1 / (row**2).sum(),
    }
    one["entropy_bound"] = _least_entropy(row)
    return one | ({"relative_entropy": entropy / np.log(len(row))} if len(row) > 1 else {})
