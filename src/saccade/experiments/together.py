"""Runs that differ in their rates and seeds alone, trained in one compiled call.

Every pair of rates is trained with every seed that any configuration asks for. Configurations that
make a full grid lose nothing by that; of scattered ones more is trained than was asked for. What
stands beside a run changes its numbers by the rounding of float32 and no more: contexts of all
seeds are padded to one height, and sums over them may be taken in another order. Not here: what an
experiment trains on, and what it measures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import saccade
from saccade.errors import InputError
from saccade.laboratory import train
from saccade.records.json_files import parsed_json

if TYPE_CHECKING:
    import xarray as xr

C = TypeVar("C")


class Share(NamedTuple):
    """What one configuration asks for: pairs of rates (decoder, attention), per step, and seeds."""

    pairs: Sequence[tuple[float, float]]
    seeds: Sequence[int]


def checked_alike(configs: Sequence[C], free: Sequence[str]) -> C:
    """The first configuration, which speaks for all in every setting but those in `free`."""
    if not configs:
        raise InputError("`configs` must hold at least one configuration.")
    for field in fields(configs[0]):  # type: ignore[arg-type]
        values = [getattr(config, field.name) for config in configs]
        if field.name not in free and any(value != values[0] for value in values):
            raise InputError(
                f"configurations that run together may differ in {', '.join(free)} only, not in `{field.name}`."
            )
    return configs[0]


def train_together(
    task: saccade.SequenceClasses, shares: Sequence[Share], **settings: Any
) -> xr.Dataset:
    """One `saccade.train` for all shares; `parts` takes their own runs out of what it returns."""
    pairs = dict.fromkeys(pair for share in shares for pair in share.pairs)
    seeds = dict.fromkeys(seed for share in shares for seed in share.seeds)
    rates: dict[str, Any] = {
        "lr_decoder": [decoder for decoder, _ in pairs],
        "lr_attention": [attention for _, attention in pairs],
    }
    return train(task, **rates, seeds=list(seeds), **settings)


def parts(record: xr.Dataset, shares: Sequence[Share]) -> list[xr.Dataset]:
    """Each share's own pairs and seeds, in its order, as if trained alone; the time that the call
    took is shared out evenly.
    """
    pairs = zip(record.lr_decoder.values.tolist(), record.lr_attention.values.tolist(), strict=True)
    place_of_pair = {pair: place for place, pair in enumerate(pairs)}
    place_of_seed = {seed: place for place, seed in enumerate(record.seed.values.tolist())}
    assumptions = parsed_json(record.attrs.get("assumptions", "[]"), list)
    attributes, found = dict(record.attrs), []
    if "wall_time_s" in attributes:
        attributes["wall_time_s"] /= len(shares)
    for share in shares:
        rates = [place_of_pair[pair] for pair in share.pairs]
        part = record.isel(rate=rates, seed=[place_of_seed[seed] for seed in share.seeds])
        own = (
            {"assumptions": json.dumps([assumptions[place] for place in rates])}
            if assumptions
            else {}
        )  # an entry for each pair
        part.attrs = attributes | own  # a new dictionary: parts of a record share its own
        found.append(part)
    return found
