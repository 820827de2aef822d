"""What is measured of one attention computation: means over the probe's queries, head by head, from blocks of query rows.

Weights exist for one block of rows at a time, so memory is batch x heads x block x keys however long the sequences are; beside it,
for all heads and layers together, one byte for each query and key of the probe: what that key tells. A query counts if it is not
padding and sees at least one key; a key is visible if the mask leaves it, or, where no mask is known, if its weight is above 1e-30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from saccade.observe.capture import AttentionCall
from saccade.observe.token_statistics import N_DECILES

VISIBLE = 1e-30  # not 0: there float32 would round away keys that float64 sees
TOP_K = 5
UNKNOWN, COMMON, BETWEEN, DISTINCT = range(4)  # what a key is to a query
_BYTES_PER_BLOCK = 2**22  # of weights in float32: as many query rows at a time as fit, at least one

# name -> (unit, definition with range and extremes); axes layer, head unless said otherwise
DEFINITIONS: dict[str, tuple[str, str]] = {
    "entropy": ("nats", "entropy of attention over keys: 0 = all on one key, log(n) = spread evenly over n; mean over queries"),
    "relative_entropy": (
        "1",
        "entropy over the log of the visible keys: 0 = all on one key, 1 = uniform; mean over queries that see two keys or more",
    ),
    "top_mass": ("1", "largest weight of a query: 1 = all on one key, 1/n = uniform over n; mean over queries"),
    "top_k_mass": ("1", f"sum of the {TOP_K} largest weights of a query: 1 = all on them; mean over queries"),
    "effective_keys": ("keys", "1 / sum of squared weights: 1 = one key, n = uniform over n; mean over queries"),
    "sink_mass": ("1", "attention on the first token of the query's document: 1 = all of it; mean over queries"),
    "self_mass": ("1", "attention of a query on its own position: 0 to 1; missing for cross attention"),
    "previous_mass": ("1", "attention of a query on the position before it: 0 to 1; missing for cross attention"),
    "decile_focus": (
        "1",
        "attention on tokens of a frequency decile over the share uniform attention would give them: 1 = no preference, "
        "> 1 = sought, < 1 = avoided; decile 0 holds the rarest tokens, 9 the most frequent",
    ),
    "distinct_mass": (
        "1",
        "attention on keys that take away at least half of what is unknown of the next token, given the query: 0 to judged_mass",
    ),
    "common_mass": ("1", "attention on keys that take away at most a tenth of it: 0 to judged_mass"),
    "judged_mass": (
        "1",
        "attention on keys that the text has often enough with the query to judge what they tell: 1 = all of it; near 0 = "
        "distinct_mass and common_mass mean little",
    ),
}


@dataclass(frozen=True)
class ProbeTokens:
    """What is known of the probe's tokens. Axes: sequence, position; None where nothing is known."""

    is_token: Tensor  # False on padding
    document_start: Tensor  # position of the first token of the document that each token is in
    decile: Tensor | None = None  # frequency decile of each token, -1 if unknown
    meaning: Tensor | None = None  # (sequence, query, key) of int8: COMMON, DISTINCT, between them, or UNKNOWN
    own_queries: bool = True  # the queries are these tokens too; not so in cross attention

    def fits(self, call: AttentionCall) -> bool:
        """Whether the keys of the call are the positions of the probe."""
        return call.n_keys == self.is_token.shape[1] and call.n_batch == len(self.is_token)

    def is_square(self, call: AttentionCall) -> bool:
        """Whether its queries are so, too."""
        return self.own_queries and call.n_queries == call.n_keys

    def on(self, device: torch.device) -> ProbeTokens:
        return self._with(lambda tensor: tensor.to(device))

    def first(self) -> ProbeTokens:
        """Of the first sequence alone."""
        return self._with(lambda tensor: tensor[:1])

    def _with(self, change: Callable[[Tensor], Tensor]) -> ProbeTokens:
        changed: dict[str, Any] = {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **changed)


@dataclass
class HeadMeans:
    """Sums over queries (head, ...) and how many there were."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)

    def add(self, name: str, values: Tensor, counted: Tensor) -> None:
        """`values` (batch, head, query, ...) of the queries that are `counted` (batch, head, query)."""
        weight = counted.reshape(counted.shape + (1,) * (values.ndim - counted.ndim))
        total = torch.where(weight, values, 0).sum(dim=(0, 2), dtype=torch.float64)
        number = counted.sum(dim=(0, 2), dtype=torch.float64)
        self.sums[name] = self.sums.get(name, 0) + total
        self.counts[name] = self.counts.get(name, 0) + number

    def means(self) -> dict[str, Tensor]:
        """NaN where no query counted."""
        return {name: total / self.counts[name].reshape((-1,) + (1,) * (total.ndim - 1)) for name, total in self.sums.items()}


def statistics(
    call: AttentionCall,
    tokens: ProbeTokens | None,
    dtype: torch.dtype = torch.float32,
    on_block: Callable[[int, Tensor], None] = lambda start, weights: None,
) -> dict[str, Tensor]:
    """Every statistic of `DEFINITIONS` that can be told for this call, in float64 (head) or (head, decile).

    `on_block` is shown each block of weights while it exists, with its first query row.
    """
    means = HeadMeans()
    known = tokens if tokens is not None and tokens.fits(call) else None
    for start, weights in blocks(call, dtype):
        on_block(start, weights)
        known = None if known is None else known.on(weights.device)
        square = known is not None and known.is_square(call)
        rows = torch.arange(start, start + weights.shape[2], device=weights.device)
        visible = _visible(call, start, weights)
        counted = visible.any(dim=-1)
        if known is not None and square:
            counted = counted & known.is_token[:, None, rows]
        _shape(means, weights, visible, counted)
        if known is not None:
            _places(means, weights, counted, rows, known, square=square)
            _meanings(means, weights, visible, counted, rows, known, square=square)
    return _ratios(means.means())


def _visible(call: AttentionCall, start: int, weights: Tensor) -> Tensor:
    if call.visible is None:
        return weights > VISIBLE
    return call.visible(start, start + weights.shape[2]).expand_as(weights)


def blocks(call: AttentionCall, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
    """First row and weights (batch, head, query, key) of one block of query rows after the other."""
    for start, stop in row_blocks(call):
        yield start, call.rows(start, stop, dtype)


def row_blocks(call: AttentionCall) -> Iterator[tuple[int, int]]:
    """First row of each block of query rows, and the one after its last."""
    per_row = call.n_batch * call.n_heads * call.n_keys * 4
    size = max(1, min(call.n_queries, _BYTES_PER_BLOCK // per_row))
    for start in range(0, call.n_queries, size):
        yield start, min(start + size, call.n_queries)


def _shape(means: HeadMeans, weights: Tensor, visible: Tensor, counted: Tensor) -> None:
    """How spread out attention is, wherever it lies."""
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)
    n_visible = visible.sum(dim=-1)
    means.add("entropy", entropy, counted)
    means.add("relative_entropy", entropy / n_visible.clamp_min(2).to(entropy.dtype).log(), counted & (n_visible > 1))
    largest = weights.topk(min(TOP_K, weights.shape[-1]), dim=-1).values
    means.add("top_mass", largest[..., 0], counted)
    means.add("top_k_mass", largest.sum(dim=-1), counted)
    means.add("effective_keys", 1 / weights.square().sum(dim=-1), counted)


def _places(means: HeadMeans, weights: Tensor, counted: Tensor, rows: Tensor, tokens: ProbeTokens, *, square: bool) -> None:
    """Attention on places that are named by position."""

    def on(positions: Tensor) -> Tensor:
        """Weight of each query on one key; positions (batch, query)."""
        index = positions[:, None, :, None].expand(*weights.shape[:3], 1)
        return weights.gather(-1, index)[..., 0]

    if square:
        own = rows.expand(len(weights), -1)
        means.add("sink_mass", on(tokens.document_start[:, rows]), counted)
        means.add("self_mass", on(own), counted)
        has_previous = (own > tokens.document_start[:, rows])[:, None]
        means.add("previous_mass", on((own - 1).clamp_min(0)), counted & has_previous)
    else:
        means.add("sink_mass", on(tokens.document_start[:, :1].expand(-1, len(rows))), counted)


def _meanings(
    means: HeadMeans, weights: Tensor, visible: Tensor, counted: Tensor, rows: Tensor, tokens: ProbeTokens, *, square: bool
) -> None:
    """Attention on keys by what their tokens are."""
    if tokens.decile is not None:
        member = torch.nn.functional.one_hot(tokens.decile.clamp_min(0), N_DECILES) * (tokens.decile >= 0)[..., None]
        member = member.to(weights.dtype)

        def on_deciles(values: Tensor) -> Tensor:
            """Heads and queries in one axis: a product with broadcast heads would copy `member` for each of them."""
            return (values.flatten(1, 2) @ member).unflatten(1, values.shape[1:3])

        uniform = visible.to(weights.dtype) / visible.sum(dim=-1, keepdim=True).clamp_min(1)
        means.add("decile_mass", on_deciles(weights), counted)
        means.add("decile_share", on_deciles(uniform), counted)
    if tokens.meaning is not None and square:
        meaning = tokens.meaning[:, None, rows]
        for name, keys in (("distinct", meaning == DISTINCT), ("common", meaning == COMMON), ("judged", meaning != UNKNOWN)):
            means.add(f"{name}_mass", torch.where(keys, weights, 0).sum(dim=-1), counted)


def _ratios(means: dict[str, Tensor]) -> dict[str, Tensor]:
    """Focus is a ratio of means over queries: a mean of ratios would be ruled by queries that hardly see a decile."""
    if "decile_mass" in means:
        mass, share = means.pop("decile_mass"), means.pop("decile_share")
        means["decile_focus"] = torch.where(share > 0, mass / share, torch.nan)
    return means


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Largest absolute difference between two sets of statistics; NaN in both counts as equal, in one as infinite."""
    gaps: list[Any] = [0.0]
    for name in one:
        a, b = one[name].double(), other[name].double()
        gap = torch.where(a.isnan() & b.isnan(), 0.0, (a - b).abs())
        gaps.append(float(gap.nan_to_num(nan=torch.inf).max()))
    return max(gaps)
