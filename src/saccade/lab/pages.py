"""Two Markdown pages made from claims: the errata of the papers, and what was found on real text, failures first."""

from __future__ import annotations

from collections.abc import Sequence

from saccade.lab.claim import FAILS, Claim
from saccade.lab.outcome import Outcome
from saccade.lab.relation import Erratum, number

_ERRATA = (
    "# Errata\n\nFormulas that are wrong as printed, each with the corrected form and the measurement that decides between them. "
    "Made by `saccade reproduce`; do not edit.\n\n"
    "| no. | formula | where | as printed | corrected | measured | verdict |\n|---|---|---|---|---|---|---|\n"
)
_FINDINGS = (
    "# Findings on real text\n\nEvery claim tested on real text, failures first: the theories describe synthetic data, and real "
    "text often disagrees. Made by `saccade reproduce --real`; do not edit.\n"
)
_COLUMNS = "| claim | statement | result | verdict |\n|---|---|---|---|\n"


def errata_page(claims: Sequence[Claim]) -> str:
    """All errata among some claims, in the order of their numbers."""
    rows = []
    for claim in claims:
        if isinstance(claim.relation, Erratum) and not claim.breaks:
            values = " | ".join(map(number, (claim.relation.printed, claim.relation.corrected, float(claim.measured))))  # type: ignore[arg-type]
            where = claim.statement.key + (f", {claim.statement.place}" if claim.statement.place else "")
            order = tuple(int(part) for part in claim.relation.number.split("."))
            rows.append(
                (order, f"| {claim.relation.number} | {_cell(claim.label)} | {_cell(where)} | {values} | {claim.verdict} |\n")
            )
    return _ERRATA + "".join(row for _, row in sorted(rows, key=lambda item: item[0]))


def findings_page(outcomes: Sequence[Outcome]) -> str:
    """All claims, those that fail on top."""
    failing = [claim for outcome in outcomes for claim in outcome.claims if claim.verdict == FAILS]
    parts = [_FINDINGS, "\n## What does not hold\n\n", _COLUMNS + "".join(map(_row, failing)) if failing else "Nothing failed.\n"]
    for outcome in outcomes:
        size = outcome.record.attrs.get("size", "own")
        parts.append(f"\n## {outcome.name} ({size} setting)\n\n{outcome.finding}\n\n")
        parts.append(_COLUMNS + "".join(map(_row, outcome.claims)))
    return "".join(parts)


def _row(claim: Claim) -> str:
    cells = (claim.label, claim.statement.key, claim.says, claim.verdict_says)
    return f"| {' | '.join(map(_cell, cells))} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
