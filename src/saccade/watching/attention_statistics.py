"""What is measured of one attention computation: means over the probe's queries, head by head, from
blocks of query rows.

Weights exist for one block of rows at a time, so memory is batch x heads x block x keys however
long the sequences are; beside it, for all heads and layers together, one byte for each query and
key of the probe: what that key tells. A query counts if it is not padding and sees at least one
key; a key is visible if the mask leaves it, or, where no mask is known, if its weight is above
1e-30. A learned sink, which takes attention and gives nothing, is one more key of every query in
what is said of the shape of attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saccade.watching.attention_call import BYTES_PER_BLOCK, AttentionCall
from saccade.watching.token_statistics import N_DECILES

VISIBLE = 1e-30  # not 0: there float32 would round away keys that float64 sees
TOP_K = 5
UNKNOWN, COMMON, BETWEEN, DISTINCT = range(4)  # what a key is to a query

# name -> (unit, definition with range and extremes); axes layer, head unless said otherwise
DEFINITIONS: dict[str, tuple[str, str]] = {
    "entropy": (
        "nats",
        "entropy of attention over keys: 0 = all on one key, log(n) = spread evenly over n; mean over queries",
    ),
    "relative_entropy": (
        "1",
        "entropy over the log of the visible keys: 0 = all on one key, 1 = uniform; mean over queries that see two keys or more",
    ),
    "top_mass": (
        "1",
        "largest weight of a query: 1 = all on one key, 1/n = uniform over n; mean over queries",
    ),
    "top_k_mass": (
        "1",
        f"sum of the {TOP_K} largest weights of a query: 1 = all on them; mean over queries",
    ),
    "effective_keys": (
        "keys",
        "1 / sum of squared weights: 1 = one key, n = uniform over n; mean over queries",
    ),
    "largest_logit": (
        "1",
        "largest attention logit, that is q.k times the scale plus biases, over visible keys and all queries; any number; 0 if "
        "weights start at zero; runs of large models often clip it at 100",
    ),
    "entropy_bound": (
        "nats",
        "least entropy that logits of this spread can have: with s the norm of a query's centred logits over its n visible keys, "
        "ln(1 + (n-1)b) + s sqrt(n(n-1)) b / (1 + (n-1)b), b = exp(-s sqrt(n/(n-1))); 0 = logits could put all on one key, "
        "ln(n) = all logits equal, no other entropy is possible; mean over queries",
    ),
    "entropy_slack": (
        "nats",
        "entropy minus entropy_bound: 0 = one key stands out and all others are equal, as sharp as logits of this spread can be; "
        "at most ln(n); mean over queries",
    ),
    "sink_mass": (
        "1",
        "attention on the first token of the query's document: 1 = all of it; mean over queries",
    ),
    "self_mass": (
        "1",
        "attention of a query on its own position: 0 to 1; missing for cross attention",
    ),
    "previous_mass": (
        "1",
        "attention of a query on the position before it: 0 to 1; missing for cross attention",
    ),
    "decile_focus": (
        "1",
        "attention on tokens of a frequency decile over the share uniform attention would give them: 1 = no preference, "
        "> 1 = sought, < 1 = avoided; decile 0 holds the rarest tokens, 9 the most frequent",
    ),
    "distinct_mass": (
        "1",
        "attention on keys that remove at least half of the uncertainty about the next token, given the query: 0 to judged_mass",
    ),
    "common_mass": ("1", "attention on keys that remove at most a tenth of it: 0 to judged_mass"),
    "judged_mass": (
        "1",
        "attention on keys that occur often enough with the query in the text to be judged: 1 = all of it; near 0 = "
        "distinct_mass and common_mass mean little",
    ),
}


# On the repeated probe (`probe.py`), beside those above; same axes.
REPEATED_DEFINITIONS: dict[str, tuple[str, str]] = {
    "induction_mass": (
        "1",
        "attention on the tokens that followed earlier occurrences of the query's token, on random tokens repeated: 1 = a pure "
        "induction head; mean over queries after the first round",
    ),
    "duplicate_mass": (
        "1",
        "attention on earlier occurrences of the query's own token, on random tokens repeated: 1 = a pure duplicate-token head; "
        "mean over queries after the first round",
    ),
}
PLACES = (
    "sink_mass",
    "previous_mass",
    "induction_mass",
    "duplicate_mass",
    "self_mass",
)  # attention on keys that have a name
MEASURES = ("relative_entropy", *PLACES)  # whose scatter is kept
# Of several measures in one array.
AXES = {"uniform_mass": ("layer", "head", "place"), "standard_error": ("layer", "head", "measure")}
SEVERAL: dict[str, tuple[str, str]] = {
    "uniform_mass": (
        "1",
        "what uniform attention over the visible keys would put on each place: 0 to 1; mean over queries",
    ),
    "standard_error": (
        "1",
        "standard error of each measure, from its scatter over the sequences of the probe: 0 = all agree; missing for one sequence",
    ),
}


@dataclass(frozen=True)
class ProbeTokens:
    """What is known of the probe's tokens. Axes: sequence, position; None where nothing is known."""

    is_token: Tensor  # False on padding
    document_start: Tensor | None = (
        None  # position of the first token of the document that each token is in
    )
    decile: Tensor | None = None  # frequency decile of each token, -1 if unknown
    meaning: Tensor | None = (
        None  # (sequence, query, key) of int8: COMMON, DISTINCT, between them, or UNKNOWN
    )
    own_queries: bool = True  # the queries are these tokens too; not so in cross attention
    query_is_token: Tensor | None = None  # (sequence, query) of cross attention: False on padding

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
        changed: dict[str, Any] = {
            name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **changed)


@dataclass
class HeadMeans:
    """Sums over the queries of each sequence (sequence, head, ...) and how many there were; and
    what is largest (head).
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)
    largest: dict[str, Tensor] = field(default_factory=dict)

    def add(self, name: str, values: Tensor, counted: Tensor) -> None:
        """`values` (batch, head, query, ...) of the queries that are `counted` (batch, head,
        query).
        """
        weight = counted.reshape(counted.shape + (1,) * (values.ndim - counted.ndim))
        total = torch.where(weight, values, 0).sum(dim=2, dtype=torch.float64)
        number = counted.sum(dim=2, dtype=torch.float64).expand(values.shape[:2])
        self.sums[name] = self.sums.get(name, 0) + total
        self.counts[name] = self.counts.get(name, 0) + number

    def add_largest(self, name: str, values: Tensor) -> None:
        """`values` (batch, head, query), -inf where there is none."""
        found = values.amax(dim=(0, 2)).double()
        self.largest[name] = torch.maximum(self.largest.get(name, found), found)

    def means(self) -> dict[str, Tensor]:
        """NaN where no query counted."""
        means = {}
        for name, total in self.sums.items():
            counts = self.counts[name].sum(dim=0)
            counts = counts.reshape(counts.shape + (1,) * (total[0].ndim - counts.ndim))
            means[name] = total.sum(dim=0) / counts
        return means | {
            name: torch.where(found.isfinite(), found, torch.nan)
            for name, found in self.largest.items()
        }

    def standard_error(self, name: str) -> Tensor:
        """Of the mean over all queries (head), from its scatter over sequences, each weighing as
        many queries as it has; NaN for fewer than two sequences.
        """
        counts = self.counts[name]
        n_sequences = (counts > 0).sum(dim=0)
        total = counts.sum(dim=0)
        mean = self.sums[name].sum(dim=0) / total
        squares = (self.sums[name] - counts * mean).square().sum(dim=0)
        return torch.where(
            n_sequences > 1, (squares * n_sequences / (n_sequences - 1)).sqrt() / total, torch.nan
        )


def statistics(
    call: AttentionCall,
    tokens: ProbeTokens | None,
    dtype: torch.dtype = torch.float32,
    on_block: Callable[[int, Tensor], None] = lambda start, weights: None,
) -> dict[str, Tensor]:
    """Every statistic of `DEFINITIONS` that can be told for this call, in float64 (head) or (head,
    decile).

    `on_block` is shown each block of weights while it exists, with its first query row.
    """
    means = HeadMeans()
    known = tokens if tokens is not None and tokens.fits(call) else None
    for start, weights, scores in blocks(call, dtype):
        on_block(start, weights)
        known = None if known is None else known.on(weights.device)
        square = known is not None and known.is_square(call)
        rows = torch.arange(start, start + weights.shape[2], device=weights.device)
        visible = _visible(call, start, weights)
        counted = visible.any(dim=-1)
        if known is not None and square:
            counted = counted & known.is_token[:, None, rows]
        elif known is not None and known.query_is_token is not None:
            counted = counted & known.query_is_token[:, None, rows]
        _shape(means, weights, visible, counted)
        if scores is not None:
            kept = visible & counted[..., None]
            means.add_largest(
                "largest_logit",
                scores.masked_fill(~kept, -torch.inf)[..., : call.n_keys].amax(dim=-1),
            )
            n_visible = visible.sum(dim=-1).clamp_min(1)
            filled = scores.masked_fill(~visible, 0)
            centred = filled - (filled.sum(dim=-1) / n_visible)[..., None] * visible
            bound = entropy_bound(centred.square().sum(dim=-1).sqrt(), n_visible)
            means.add("entropy_bound", bound, counted)
        if known is not None:
            keys = weights[..., : call.n_keys], visible[..., : call.n_keys]
            if known.document_start is not None:
                _places(means, *keys, counted, rows, known.document_start, square=square)
            _meanings(means, *keys, counted, rows, known, square=square)
    return _gathered(means)


def repeated_statistics(call: AttentionCall, periods: Tensor) -> dict[str, Tensor]:
    """Those of `REPEATED_DEFINITIONS` (head), of a probe whose tokens come again after a period of
    its sequence and not before.
    """
    means = HeadMeans()
    for start, stop in row_blocks(call):
        if stop <= int(periods.min()):
            continue
        weights = call.rows(start, stop, torch.float32)
        visible = _visible(call, start, weights)[..., : call.n_keys]
        weights = weights[..., : call.n_keys]
        rows, keys = (
            torch.arange(*ends, device=weights.device)
            for ends in ((start, stop), (0, weights.shape[-1]))
        )
        period = periods.to(weights.device)[:, None, None, None]
        back = rows[:, None] - keys  # how many positions the key lies back
        counted = visible.any(dim=-1) & (rows >= period[..., 0])
        earlier = (back > 0) & (back % period == 0)
        after = (back >= 0) & ((back + 1) % period == 0) & (keys > 0)
        _on_keys(means, "duplicate_mass", earlier, weights, visible, counted)
        _on_keys(means, "induction_mass", after, weights, visible, counted)
    return _gathered(means) if means.sums else {}


def _gathered(means: HeadMeans) -> dict[str, Tensor]:
    """Means by name; what uniform attention would give on each place, and standard errors, in one
    array each.
    """
    found = means.means()
    # Focus is a ratio of means over queries: a mean of ratios would be ruled by queries that
    # hardly see a decile.
    if "decile_mass" in found:
        mass, share = found.pop("decile_mass"), found.pop("decile_share")
        found["decile_focus"] = torch.where(share > 0, mass / share, torch.nan)
    if "entropy_bound" in found:
        found["entropy_slack"] = found["entropy"] - found["entropy_bound"]
    found["uniform_mass"] = _side_by_side([found.pop(f"uniform_{name}", None) for name in PLACES])
    found["standard_error"] = _side_by_side(
        [means.standard_error(name) if name in means.sums else None for name in MEASURES]
    )
    return {name: values for name, values in found.items() if values is not None}


def _side_by_side(parts: list[Tensor | None]) -> Any:
    """Along a last axis, NaN for what there is not; None if there is nothing."""
    known = [part for part in parts if part is not None]
    return (
        torch.stack(
            [torch.full_like(known[0], torch.nan) if part is None else part for part in parts],
            dim=-1,
        )
        if known
        else None
    )


def _visible(call: AttentionCall, start: int, weights: Tensor) -> Tensor:
    """Axes of one place where all sequences or heads have the same mask: what it tells is then
    computed once.
    """
    return (
        weights > VISIBLE if call.visible is None else call.visible(start, start + weights.shape[2])
    )


def blocks(call: AttentionCall, dtype: torch.dtype) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """First row, weights and, if they are known, scores (batch, head, query, key) of one block of
    query rows after the other.

    Keys after the last one that any of these rows sees may be cut off.
    """
    for start, stop in row_blocks(call):
        yield start, *call.weights_and_scores(start, stop, dtype)


def row_blocks(call: AttentionCall) -> Iterator[tuple[int, int]]:
    """First row of each block of query rows, and the one after its last."""
    per_row = call.n_batch * call.n_heads * call.n_keys * 4
    size = max(1, min(call.n_queries, BYTES_PER_BLOCK // per_row))
    for start in range(0, call.n_queries, size):
        yield start, min(start + size, call.n_queries)


def _shape(means: HeadMeans, weights: Tensor, visible: Tensor, counted: Tensor) -> None:
    """How spread out attention is, wherever it lies."""
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)
    n_visible = visible.sum(dim=-1)
    means.add("entropy", entropy, counted)
    means.add(
        "relative_entropy",
        entropy / n_visible.clamp_min(2).to(entropy.dtype).log(),
        counted & (n_visible > 1),
    )
    few = min(TOP_K, weights.shape[-1])
    if weights.device.type != "cpu":
        largest = weights.topk(few, dim=-1).values
    else:
        largest = torch.from_numpy(np.sort(weights.numpy(), axis=-1)[..., -few:])
    means.add("top_mass", largest.amax(dim=-1), counted)
    means.add("top_k_mass", largest.sum(dim=-1), counted)
    means.add("effective_keys", 1 / weights.square().sum(dim=-1), counted)


def entropy_bound(spread: Tensor, n_keys: Tensor) -> Tensor:
    r"""Least entropy, in nats, of a softmax over n logits whose distance from their mean has norm
    s.

    $$H \ge \ln(1 + (n-1)b) + \frac{s\sqrt{n(n-1)}\,b}{1 + (n-1)b}, \qquad b = e^{-s\sqrt{n/(n-1)}}.$$

    [zhai2023], with the spread of the logits themselves in place of a bound on it. Reached by one
    logit that stands out and n - 1 that are alike: b is what each of these weighs against it.
    """
    n = n_keys.to(spread.dtype).clamp_min(2)
    others = (n - 1) * torch.exp(-spread * (n / (n - 1)).sqrt())
    bound = torch.log1p(others) + spread * (n / (n - 1)).sqrt() * others / (1 + others)
    return torch.where(n_keys > 1, bound, 0)


def _places(
    means: HeadMeans,
    weights: Tensor,
    visible: Tensor,
    counted: Tensor,
    rows: Tensor,
    starts: Tensor,
    *,
    square: bool,
) -> None:
    """Attention on places that are named by position, and what uniform attention would put there."""
    n_visible = visible.sum(dim=-1).clamp_min(1)

    def add(name: str, positions: Tensor, among: Tensor) -> None:
        """Weight of each query on one key; positions (batch, query)."""
        inside = (positions < weights.shape[-1])[
            :, None
        ]  # of padding in front, keys that none of these rows sees are cut off
        index = positions.clamp_max(weights.shape[-1] - 1)[:, None, :, None].expand(
            *weights.shape[:3], 1
        )
        means.add(name, weights.gather(-1, index)[..., 0] * inside, among)
        if name in PLACES:
            is_seen = visible.expand_as(weights).gather(-1, index)[..., 0] & inside
            means.add(f"uniform_{name}", is_seen / n_visible, among)

    if square:
        own = rows.expand(len(weights), -1)
        add("sink_mass", starts[:, rows], counted)
        add("self_mass", own, counted)
        has_previous = (own > starts[:, rows])[:, None]
        add("previous_mass", (own - 1).clamp_min(0), counted & has_previous)
    else:
        add("sink_mass", starts[:, :1].expand(-1, len(rows)), counted)


def _on_keys(
    means: HeadMeans, name: str, keys: Tensor, weights: Tensor, visible: Tensor, counted: Tensor
) -> None:
    """Attention on a set of keys (batch, 1, query, key), and what uniform attention would put
    there.
    """
    means.add(name, (weights * keys).sum(dim=-1), counted)  # `where` takes seven times as long
    uniform = (keys & visible).sum(dim=-1) / visible.sum(dim=-1).clamp_min(1)
    means.add(f"uniform_{name}", uniform.expand(weights.shape[:3]), counted)


def _meanings(
    means: HeadMeans,
    weights: Tensor,
    visible: Tensor,
    counted: Tensor,
    rows: Tensor,
    tokens: ProbeTokens,
    *,
    square: bool,
) -> None:
    """Attention on keys by what their tokens are."""
    if tokens.decile is not None:
        member = (
            torch.nn.functional.one_hot(tokens.decile.clamp_min(0), N_DECILES)
            * (tokens.decile >= 0)[..., None]
        )
        member = member.to(weights.dtype)[:, : weights.shape[-1]]

        def on_deciles(values: Tensor) -> Tensor:
            """Heads and queries in one axis: a product with broadcast heads would copy `member` for
            each of them.
            """
            made = (values.flatten(1, 2) @ member).unflatten(1, values.shape[1:3])
            return made.expand(*weights.shape[:3], -1)

        uniform = visible.to(weights.dtype) / visible.sum(dim=-1, keepdim=True).clamp_min(1)
        means.add("decile_mass", on_deciles(weights), counted)
        means.add("decile_share", on_deciles(uniform), counted)
    if tokens.meaning is not None and square:
        meaning = tokens.meaning[:, None, rows, : weights.shape[-1]]
        for name, keys in (
            ("distinct", meaning == DISTINCT),
            ("common", meaning == COMMON),
            ("judged", meaning != UNKNOWN),
        ):
            means.add(f"{name}_mass", (weights * keys).sum(dim=-1), counted)


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Largest absolute difference between two sets of statistics; NaN in both counts as equal, in
    one as infinite.
    """
    gaps: list[Any] = [0.0]
    for name in one:
        a, b = one[name].double(), other[name].double()
        gap = torch.where(a.isnan() & b.isnan(), 0.0, (a - b).abs())
        gaps.append(float(gap.nan_to_num(nan=torch.inf).max()))
    return max(gaps)
