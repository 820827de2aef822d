"""The claims as a table in HTML: one row each, sorted, filtered and opened by `web/claims.js`; it can be read without it.

| kind     | verdict                                                                    |
|----------|----------------------------------------------------------------------------|
| holds    | as predicted                                                               |
| known    | fails, as is known of a printed formula                                    |
| outside  | outside its assumptions: decides nothing                                   |
| surprise | neither what was expected nor outside its assumptions                      |
"""

from __future__ import annotations

import html
import math
from typing import Any

from saccade.lab.claim import FAILS, OUTSIDE
from saccade.report.equations import equation_of, theorem
from saccade.report.sources import Result

KINDS = {"holds": "hold", "known": "fail as known", "outside": "outside assumptions", "surprise": "surprises"}
_WORDS = {"holds": "holds", "known": "fails, as known", "outside": "outside", "surprise": "surprise"}
_COLUMNS = ("statement", "theorem", "predicted", "measured", "off by", "verdict")


def kind_of(claim: dict[str, Any]) -> str:
    if claim["verdict"] == OUTSIDE:
        return "outside"
    if claim["verdict"] != claim["expected"]:
        return "surprise"
    return "known" if claim["verdict"] == FAILS else "holds"


def counts(results: list[Result]) -> dict[str, int]:
    """How many claims of each kind."""
    kinds = [kind_of(claim) for result in results for claim in result.claims]
    return {kind: kinds.count(kind) for kind in KINDS}


def off_by(claim: dict[str, Any]) -> float | None:
    """How far measured is from predicted, in tolerances, with its sign; None where a number is missing or exactness was asked."""
    numbers = [claim["measured"], claim["measured"], 1.0]
    if any(number is None or not math.isfinite(number) for number in numbers):
        return None
    predicted, measured, tolerance = numbers
    if tolerance == 0:
        return 0.0 if measured == predicted else None
    return (measured - predicted) / tolerance


def claims_table(results: list[Result]) -> str:
    """The whole table; empty text if nothing is claimed."""
    claims = [(result, claim) for result in results for claim in result.claims]
    if not claims:
        return ""
    head = "".join(f'<th scope="col" data-column="{place}">{name}</th>' for place, name in enumerate(_COLUMNS))
    body = "".join(_row(number, result.name if len(results) > 1 else "", claim) for number, (result, claim) in enumerate(claims))
    return f'<table id="claims-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def equation_templates(results: list[Result]) -> str:
    """Each equation that a claim is about, once, for rows to copy."""
    found = dict(equation_of(claim) for result in results for claim in result.claims)
    return "".join(f'<template data-equation="{text(key)}">{_lines(lines)}</template>' for key, lines in found.items() if key)


def claim_data(results: list[Result]) -> list[dict[str, Any]]:
    """What a row needs when it is opened."""
    return [
        {
            **claim,
            "result": result.name,
            "kind": kind_of(claim),
            "theorem": theorem(claim),
            "equation": equation_of(claim)[0],
            "command": str(result.about.get("command", "")),
            "off": off_by(claim),
        }
        for result in results
        for claim in result.claims
    ]


def number(value: float | None) -> str:
    return "missing" if value is None else f"{value:.4g}"


def text(value: object) -> str:
    return html.escape(str(value))


def _lines(lines: list[tuple[str, str]]) -> str:
    return "".join(f'<div class="equation"><span>{text(name)}</span>{markup}</div>' for name, markup in lines)


def _row(place: int, result: str, claim: dict[str, Any]) -> str:
    """A claim; `result` is the name to show under it, empty where all claims are of one."""
    kind, off = kind_of(claim), off_by(claim)
    under = f"<small>{text(result)}</small>" if result else ""
    cells = [
        f'<td class="statement"><span class="claim-text">{text(claim["label"])}</span>{under}</td>',
        f'<td data-title="theorem">{text(theorem(claim))}</td>',
        *(
            f'<td class="number" data-title="{key}" data-value="{_plain(claim[key])}">{number(claim[key])}</td>'
            for key in ("measured", "measured")
        ),
        f'<td class="number" data-title="off by" data-value="{_plain(off)}">{_tolerances(off)}</td>',
        f'<td data-title="verdict"><span class="verdict verdict-{kind}">{_WORDS[kind]}</span></td>',
    ]
    return f'<tr id="claim-{place}" data-claim="{place}" data-kind="{kind}">{"".join(cells)}</tr>'


def _tolerances(off: float | None) -> str:
    """How far off, in words that fit a column; a minus sign that lines up with digits."""
    if off is None:
        return ""
    shown = f"{off:.2f}" if abs(off) < 1e3 else f"{off:.0e}"
    return f"{'0.00' if shown == '-0.00' else shown.replace('-', '−')} tol"


def _plain(value: float | None) -> str:
    return "" if value is None else repr(float(value))
