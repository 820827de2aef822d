"""The claims as a table in HTML: one row each, sorted, filtered and opened by `web/claims.js`; it
can be read without it.

A claim is shown with its equations: the formula of its statement, and for an erratum both of its
forms.

| kind         | verdict                                                            |
|--------------|--------------------------------------------------------------------|
| holds        | holds                                                              |
| fails        | fails                                                              |
| unmet        | an assumption is not met: decides nothing                          |
| inconclusive | repeated measurements agree too poorly to decide it                |
| control      | an assumption is broken on purpose, so it must fail, and it does   |
| surprise     | a control that does not fail                                       |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import Any

from saccade.numerals import numeral
from saccade.records.claim_counts import tally
from saccade.report.mathml import mathml
from saccade.report.sources import Result

KINDS = {
    "holds": "hold",
    "fails": "fail",
    "unmet": "assumptions not met",
    "inconclusive": "inconclusive",
    "control": "controls fail, as they must",
    "surprise": "controls do not fail",
}
_SOURCES = {
    "tian2023": "tian2023 is Scan and Snap, arXiv 2305.16380",
    "chen2026": "chen2026 is Focus and Dilution, arXiv 2605.01199",
    "chen2025": "chen2025 is From Condensation to Rank Collapse, arXiv 2510.06954",
    "tian2024": "tian2024 is JoMA, arXiv 2310.00535",
    "saccade": "saccade: derived or asked here",
}
Lines = list[tuple[str, str]]  # (what it is, MathML)
_COLUMNS = ("claim", "statement", "result", "verdict")


def kind_of(claim: dict[str, Any]) -> str:
    if claim["breaks"]:
        return "control" if claim["verdict"] == "fails" else "surprise"
    return "unmet" if claim["verdict"] == "assumptions not met" else str(claim["verdict"])


def _verdicts(results: list[Result]) -> str:
    found = Counter(kind_of(claim) for result in results for claim in result.claims)
    if not found:
        return ""
    tiles = "".join(
        f'<button type="button" class="tile tile-{kind}" data-kind="{kind}" aria-pressed="false">'
        f"<b>{found[kind]}</b> {words}</button>"
        for kind, words in KINDS.items()
        if found[kind]
    )
    counted = tally([claim for result in results for claim in result.claims])
    note = (
        f"{counted}. A claim whose assumptions are not met is neither confirmed nor refuted. "
        "A claim is inconclusive if repeated measurements agree too poorly to decide it. "
        "A control breaks one assumption on purpose and must fail."
    )
    folded = f'<details class="note verdict-note"><summary>What these words mean</summary><p>{note}</p></details>'
    return f'<div class="tiles" role="group" aria-label="Verdicts">{tiles}</div>{folded}'


def claims_of(results: list[Result]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What a page knows of claims, and what it shows: tiles of verdicts, the table with its
    heading, equations that rows copy.
    """
    alone = len(results) == 1
    names = dict.fromkeys(
        theorem(claim).split(",")[0] for result in results for claim in result.claims
    )
    ordered = [name for name in (*_SOURCES, *names) if name in names]
    found = dict(equation_of(claim) for result in results for claim in result.claims)
    templates = ""
    for key, lines in found.items():
        equations = "".join(
            f'<div class="equation"><span>{escape(str(name))}</span>{markup}</div>'
            for name, markup in lines
        )
        templates += (
            f'<template data-equation="{escape(key)}">{equations}</template>' if key else ""
        )
    return [
        {
            **claim,
            "result": result.name,
            "kind": kind_of(claim),
            "equation": equation_of(claim)[0],
            "command": str(result.about.get("command", "")),
        }
        for result in results
        for claim in result.claims
    ], {
        "verdicts": _verdicts(results),
        "heading": "Claims" if alone else "All claims",
        "open": " open" if alone else "",
        "table": _claims_table(results),
        "sources": escape(
            f"Sources: {'; '.join(_SOURCES.get(name, name) for name in dict.fromkeys(ordered))}."
        ),
        "equations": templates,
    }


def _claims_table(results: list[Result]) -> str:
    """The whole table; empty text if nothing is claimed."""
    claims = [(result, claim) for result in results for claim in result.claims]
    if not claims:
        return ""
    head = "".join(
        f'<th scope="col" data-column="{place}">{name}</th>' for place, name in enumerate(_COLUMNS)
    )
    body = "".join(
        _row(number, result.name if len(results) > 1 else "", claim)
        for number, (result, claim) in enumerate(claims)
    )
    return f'<table id="claims-table" class="claims-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _row(place: int, result: str, claim: dict[str, Any]) -> str:
    """A claim; `result` is the name to show under it, empty where all claims are of one."""
    kind = kind_of(claim)
    set_when = (
        f"<small>bound set {escape(claim['bound_set'])}</small>" if claim["bound_set"] else ""
    )
    settings = [
        f"{name} {numeral(value, 'g')}" if isinstance(value, float) else f"{name} {value}"
        for name, value in claim["case"].items()
    ]
    under = "".join(
        f"<small>{escape(words)}</small>"
        for words in (
            ", ".join(
                [*settings, *([f"control: {claim['breaks']} is broken"] if claim["breaks"] else [])]
            ),
            result,
        )
        if words
    )
    cells = [
        f'<td class="claim"><span class="claim-text">{escape(claim["title"])}</span>{under}</td>',
        f'<td data-title="statement">{escape(theorem(claim))}<small>{escape(claim["statement"]["title"])}</small></td>',
        f'<td data-title="result">{escape(claim["says"])}{set_when}</td>',
        f'<td data-title="verdict" data-value="{list(KINDS).index(kind)}">'
        f'<span class="verdict verdict-{kind}">{escape(claim["verdict_says"])}</span></td>',
    ]
    return f'<tr id="claim-{place}" data-claim="{place}" data-kind="{kind}">{"".join(cells)}</tr>'


def theorem(claim: dict[str, Any]) -> str:
    """What a claim tests: `tian2023, Theorem 4`."""
    return claim["statement"]["key"]


def equation_of(claim: dict[str, Any]) -> tuple[str, Lines]:
    """A key that claims with the same equations share, and the equations; both empty if the
    statement has none.
    """
    statement, key = claim["statement"], theorem(claim)
    lines = shown(statement["formula"])
    for erratum in statement["errata"]:
        if erratum["number"] == claim["relation"].get("number"):
            key += f", erratum {erratum['number']}"
            lines += shown(erratum["printed"], erratum.get("said", "as printed"))
            lines += shown(erratum["corrected"], erratum.get("instead", "corrected"))
    return (key, lines) if lines else ("", [])


def shown(formula: Sequence[str], name: str = "") -> Lines:
    """Each line of a formula as MathML, the first under a name."""
    return [(name if not place else "", _markup(line)) for place, line in enumerate(formula)]


@lru_cache(maxsize=1000)  # claims share few formulas
def _markup(line: str) -> str:
    """MathML, or the LaTeX itself where a record holds some that is not understood."""
    try:
        return mathml(line)
    except (ValueError, RecursionError):
        return f"<code>{escape(line)}</code>"
