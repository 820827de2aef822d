"""The second implementation of the statistics: one query at a time, from whole float64 maps, with no blocks and no torch."""

from __future__ import annotations

import numpy as np


def dense_statistics(
    weights: np.ndarray,
    is_token: np.ndarray | None = None,
    start: np.ndarray | None = None,
    decile: np.ndarray | None = None,
    informative: np.ndarray | None = None,
    own_queries: bool = True,
) -> dict[str, np.ndarray]:
    """Means over queries (head) of whole maps (batch, head, query, key); a key is visible if its weight is above 1e-30."""
    n_batch, n_heads, n_queries, n_keys = weights.shape
    square = own_queries and n_queries == n_keys
    found: list[dict[str, float]] = []
    for h in range(n_heads):
        rows: dict[str, list[float]] = {}
        mass, share = np.zeros(10), np.zeros(10)
        for b in range(n_batch):
            for i in range(n_queries):
                row = weights[b, h, i]
                seen = row > 1e-30
                if not seen.any() or (is_token is not None and square and not is_token[b, i]):
                    continue
                one = _of_row(row[seen])
                if is_token is not None:
                    first = int(start[b, i if square else 0])
                    one["sink_mass"] = row[first]
                    if square:
                        one["self_mass"] = row[i]
                        if i > first:
                            one["previous_mass"] = row[i - 1]
                if informative is not None and square:
                    tells = informative[b, i]
                    one["distinct_mass"] = sum(row[k] for k in range(n_keys) if tells[k] >= 0.5)
                    one["common_mass"] = sum(row[k] for k in range(n_keys) if tells[k] <= 0.1)
                    one["judged_mass"] = sum(row[k] for k in range(n_keys) if tells[k] == tells[k])
                for name, value in one.items():
                    rows.setdefault(name, []).append(value)
                if decile is not None:
                    for d in range(10):
                        mass[d] += row[decile[b] == d].sum()
                        share[d] += (seen & (decile[b] == d)).sum() / seen.sum()
        means = {name: float(np.mean(values)) for name, values in rows.items()}
        if decile is not None:
            means["decile_focus"] = np.divide(mass, share, out=np.full(10, np.nan), where=share > 0)
        found.append(means)
    return {name: np.stack([np.asarray(means.get(name, np.nan)) for means in found]) for name in found[0]}


def _of_row(row: np.ndarray) -> dict[str, float]:
    entropy = float(-(row * np.log(row)).sum())
    largest = np.sort(row)[::-1]
    one = {"entropy": entropy, "top_mass": largest[0], "top_k_mass": largest[:5].sum(), "effective_keys": 1 / (row**2).sum()}
    return one | ({"relative_entropy": entropy / np.log(len(row))} if len(row) > 1 else {})
