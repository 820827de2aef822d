"""Which axes of an attention call are heads, and which are sequences, windows or groups of tokens.

Queries and weights come with any axes before those of tokens: (sequence, head); both folded into
one; (head) alone, in a loop over sequences; (sequence, window, head) or (sequence, head, window).
The number of heads is what neither the number of sequences nor their length changes. It is told by
the module that computes attention, if it says how many heads it has; else by what the same layer
does with one sequence, and with half of its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

from torch import Tensor, nn

COUNTS = ("num_heads", "n_heads", "n_head", "num_attention_heads", "heads", "nhead", "nheads")


class Untold(Exception):
    """Heads cannot be told from the rest; in words."""


class Axes(NamedTuple):
    """Axes before those of tokens, as (sequence, head): a folded axis is cut first, then those of
    heads come last.
    """

    n_heads: int
    fold: bool  # one axis holds sequences and heads, in this order
    heads: tuple[int, ...]  # axes of heads, the others are sequences

    def of(self, tensor: Tensor) -> Tensor:
        """(sequence, head, ..., ...)"""
        if tensor.ndim == 2:
            return tensor[None, None]
        if self.fold:
            return tensor.unflatten(0, (-1, self.n_heads))
        n_leading = tensor.ndim - 2
        rest = [axis for axis in range(n_leading) if axis not in self.heads]
        ordered = tensor.permute(*rest, *self.heads, -2, -1)
        n_heads = math.prod(tensor.shape[axis] for axis in self.heads)
        n_sequences = math.prod(tensor.shape[axis] for axis in rest)
        return ordered.reshape(n_sequences, n_heads, *tensor.shape[-2:])


@dataclass(frozen=True)
class Layout:
    """What is known of a model's calls: axes before tokens, by the name of the layer, of one
    sequence alone and of half of it.
    """

    alone: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    short: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    over_features: frozenset[str] = (
        frozenset()
    )  # layers whose values are as wide as the sequence is long

    def check_tokens(
        self, layer: str, owner: nn.Module | None, n_queries: int, n_keys: int, width: int
    ) -> None:
        """Raises `Untold` for attention of features on features (XCiT): its values are whole
        sequences, one for each feature.

        Seen by what half of the tokens changes; where that was not tried, by as many queries and
        keys as a head has features.
        """
        inputs = (
            [part.in_features for part in owner.children() if isinstance(part, nn.Linear)]
            if owner is not None
            else []
        )
        wide = {size // heads for size in inputs for heads in _told(owner)}
        if layer in self.over_features or (
            not self.short and n_queries == n_keys != width and n_queries in wide
        ):
            raise Untold(f"attention in `{layer}`, which is over features, not over tokens")

    def axes(self, layer: str, owner: nn.Module | None, sizes: tuple[int, ...]) -> Axes:
        """Of a call whose axes before tokens have these sizes. Raises `Untold`."""
        if len(sizes) < 2:
            # Heads in one axis with sequences: as many as there are with one sequence, less the
            # windows among them.
            size = math.prod(sizes)
            alone = self._known(self.alone, layer)
            most = (
                alone[0] if alone is not None and len(alone) == 1 and size % alone[0] == 0 else size
            )
            return Axes(next((n for n in _told(owner) if most % n == 0), most), True, ())
        if len(sizes) == 2:
            return Axes(sizes[1], False, (1,))
        # Axes that half of the tokens leaves as they are; none where that was not tried.
        uncut, halved = self._known(self.alone, layer), self._known(self.short, layer)
        if uncut is None or halved is None or not len(uncut) == len(halved) == len(sizes):
            unchanged = None
        else:
            unchanged = tuple(
                place
                for place in range(1, len(sizes))
                if uncut[place] == halved[place] == sizes[place]
            )
        told = next(
            (found for n in _told(owner) if (found := _places_of(n, sizes, unchanged))), None
        )
        possible = told if told is not None else [] if unchanged is None else [unchanged]
        if len(possible) != 1:
            advice = (
                "give its module an attribute `num_heads`"
                if told is None
                else "give a probe of another size"
            )
            raise Untold(
                f"attention over {len(sizes) + 2} axes in `{layer}`: it is unclear which of them, of sizes "
                f"{', '.join(map(str, sizes))}, are heads; {advice}"
            )
        return Axes(math.prod(sizes[place] for place in possible[0]), False, possible[0])

    @staticmethod
    def _known(of: Mapping[str, tuple[int, ...]], layer: str) -> tuple[int, ...] | None:
        """Of this call, or of the first one of the same module: in a loop over sequences one is
        like the other.
        """
        return of.get(layer, of.get(layer.partition("#")[0]))


def _told(owner: nn.Module | None) -> Iterator[int]:
    """How many heads a module says that it has, or its configuration."""
    holders: tuple[Any, ...] = (owner, getattr(owner, "config", None))
    for holder in holders:
        for name in COUNTS:
            count = getattr(holder, name, None)
            if isinstance(count, int) and not isinstance(count, bool) and count > 0:
                yield count


def _places_of(
    n_heads: int, sizes: tuple[int, ...], among: tuple[int, ...] | None
) -> list[tuple[int, ...]]:
    """The fewest axes after the first that make so many heads, in every way that there is; `among`
    those, if they are known.
    """
    axes = range(1, len(sizes)) if among is None else among
    for number in range(1, len(sizes)):
        found = [
            places
            for places in combinations(axes, number)
            if math.prod(sizes[place] for place in places) == n_heads
        ]
        if found:
            return found
    return []
