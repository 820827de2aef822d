"""Attention over the words of a text: the kept maps of a watched record, small enough for a page.

The maps of 200 looks at 144 heads are gigabytes; a page carries as many looks as fit `ROOM`, the
last and the first before those between, each in a piece of its own that is unpacked when it is
looked at. Of texts longer than `ALL_ROWS` it may leave out rows. Tokens: the record's coordinate
`map_token` (sequence, key), or `map_tokens` in its configuration, else their places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.records.json_files import parsed_json
from saccade.report.packing import Packed, packed_map
from saccade.report.specs import label

if TYPE_CHECKING:
    import xarray as xr

ROOM = 5_000_000  # bytes of maps in a page: half of the 10 MB that the report of a watched run may weigh
ALL_ROWS = 128  # tokens of a text all of which can be chosen as a query
_LEAST_LOOKS = 4  # that should fit before query rows are left out
_LEAST_ROWS = 8
_MOST_KEYS = 1024  # tokens of a text that a page shows


def text_map(record: xr.Dataset, room: int = ROOM) -> dict[str, Any] | None:
    """Tokens and packed maps (sequence, layer, head, query, key) of some looks; None if the record
    has no maps.
    """
    if "attention_map" not in record or record.attention_map.dims[-2:] != ("map_query", "key"):
        return None
    maps = record.attention_map.values[..., :_MOST_KEYS]
    n_rows = maps.shape[-2]
    rows = np.arange(n_rows)
    cost = len(packed_map(maps[-1])["data"])
    while maps.shape[-1] > ALL_ROWS and cost * _LEAST_LOOKS > room and len(rows) > _LEAST_ROWS:
        rows, cost = (
            np.unique(np.linspace(0, n_rows - 1, len(rows) // 2).round().astype(int)),
            cost // 2,
        )
    queries = record.map_query.values if "map_query" in record.coords else np.arange(maps.shape[-2])
    looks = _packed_looks(maps, rows, room)
    n_keys = maps.shape[-1]
    given: Any
    if "map_token" in record.coords:
        given = record.map_token.values
    else:
        given = parsed_json(record.attrs.get("config", "{}")).get("map_tokens")
    cut = [list(row)[:n_keys] for row in given][: maps.shape[1]] if given is not None else []
    names = [[label(token) for token in row] for row in cut]
    return {
        "name": "text",
        "title": "Attention maps",
        "shape": [*maps.shape[1:4], len(rows), n_keys],
        "queries": [int(query) for query in queries[rows]],
        "tokens": [
            [*row, *(str(place) for place in range(len(row), n_keys))]
            for row in (names + [[] for _ in range(maps.shape[1] - len(names))])
        ],
        "looks": [{"moment": moment, "pack": pack} for moment, pack in sorted(looks.items())],
        "caption": _caption(record, len(looks), len(rows), n_keys),
    }


def _packed_looks(maps: np.ndarray, rows: np.ndarray, room: int) -> dict[int, Packed]:
    """Looks from coarse to fine, until the room is full; the last in any case."""
    packs: dict[int, Packed] = {}
    n = len(maps)
    order = [n - 1, 0]
    parts = 2
    while parts < 2 * n:
        order += [round((n - 1) * part / parts) for part in range(1, parts, 2)]
        parts *= 2
    for moment in dict.fromkeys(order):
        shown = maps[moment][..., rows, :]
        if np.isnan(shown).all():
            continue
        pack = packed_map(shown)
        room -= len(pack["data"])
        if room < 0 and packs:
            break
        packs[moment] = pack
    return packs


def _caption(record: xr.Dataset, n_looks: int, n_rows: int, n_keys: int) -> str:
    whole = record.attention_map.shape
    parts = []
    if n_looks < whole[0]:
        parts.append(f"maps of {n_looks} of {whole[0]} observations")
    if n_rows < whole[-2]:
        parts.append(f"{n_rows} of {whole[-2]} query rows")
    if n_keys < whole[-1]:
        parts.append(f"the first {n_keys} of {whole[-1]} tokens")
    return (
        f"To keep the page small it has {', '.join(parts)}; all are in the record." if parts else ""
    )
