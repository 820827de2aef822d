"""Errata as claims: the printed form fails, the corrected one holds, both against the same measurement.

A pair is marked in the claims' sources, so that it travels with `claims.json`; `docs/errata.md` is made from there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from saccade.records.claim import FAILS, HOLDS, Claim

_MARK = re.compile(r", erratum (?P<number>[\d.]+) (?P<form>as printed|corrected)$")


def erratum_pair(
    number: str,
    what: str,
    where: str,
    *,
    printed: float,
    corrected: float,
    measured: float,
    tolerance: float,
    assumptions: Mapping[str, bool] | None = None,
) -> list[Claim]:
    """Two claims on one measurement: `printed` is expected to fail, `corrected` to hold.

    `number` is the erratum's own, `where` its place in the paper, such as "[tian2023, eq. 14]".
    """
    forms = (("as printed", printed, FAILS), ("corrected", corrected, HOLDS))
    return [
        Claim(
            statement=f"{what}, {form}",
            source=f"{where}, erratum {number} {form}",
            predicted=float(predicted),
            measured=float(measured),
            tolerance=float(tolerance),
            assumptions=assumptions or {},
            expected=expected,
        )
        for form, predicted, expected in forms
    ]


def errata_page(claims: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown page of all errata among claims as they stand in `claims.json`, in the order of their numbers."""
    rows = []
    for claim in claims:
        if mark := _MARK.search(claim["source"]):
            place = claim["source"][: mark.start()]
            numbers = " | ".join(f"{claim[key]:.5g}" for key in ("predicted", "measured", "tolerance"))
            order = tuple(int(part) for part in mark["number"].split("."))
            row = f"| {mark['number']} | {claim['statement']} | {place} | {numbers} | {claim['verdict']} |"
            rows.append((order, row))
    head = (
        "# Errata\n\nWhere a printed form fails and a corrected one holds, each with its number. This page is made from the claims "
        "of `saccade reproduce`; it is not written by hand.\n\n"
        "| no. | statement | place | predicted | measured | tolerance | verdict |\n|---|---|---|---|---|---|---|\n"
    )
    return head + "\n".join(row for _, row in sorted(rows, key=lambda item: item[0])) + "\n"
