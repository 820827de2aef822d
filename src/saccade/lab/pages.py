"""Two Markdown pages made from claims: the errata of the papers, and what was found on real text, failures first."""

from __future__ import annotations

from collections.abc import Sequence

from saccade.lab.claim import FAILS, Claim, Erratum, number
from saccade.lab.outcome import Outcome
from saccade.theory.statements import MISPRINTS

_ERRATA = (
    "# Errata\n\nStatements of the papers that are wrong as printed, or as they are read: that form, the corrected one, why, and "
    "a measurement that decides between the two. Made by `saccade reproduce`; do not edit.\n"
)
_PAPERS = {"tian2023": "Scan and Snap", "chen2026": "Focus and Dilution"}
_DECIDES = "| what decides | {} | corrected | measured | verdict |\n|---|---|---|---|---|\n"
_MISPRINTS = "\n### Misprints without consequence\n\n| where | as printed | meant |\n|---|---|---|\n"
_FINDINGS = (
    "# Findings on real text\n\nEvery claim tested on real text, failures first: the theories describe synthetic data, and real "
    "text often disagrees. Made by `saccade reproduce --real`; do not edit.\n"
)
_COLUMNS = "| claim | statement | result | verdict |\n|---|---|---|---|\n"


def errata_page(claims: Sequence[Claim]) -> str:
    """All errata among some claims by paper and number, and the misprints of those papers."""
    found: dict[tuple[str, tuple[int, ...], str], list[Claim]] = {}
    for claim in claims:
        if isinstance(claim.relation, Erratum) and not claim.breaks:
            order = tuple(int(part) for part in claim.relation.number.split("."))
            found.setdefault((claim.statement.paper, order, claim.statement.number), []).append(claim)
    parts = [_ERRATA]
    for paper in _PAPERS:
        if errata := [found[key] for key in sorted(found) if key[0] == paper]:
            misprints = "".join(f"| {' | '.join(map(_cell, misprint))} |\n" for misprint in MISPRINTS[paper])
            parts += [f"\n## {_PAPERS[paper]}\n", *map(_erratum, errata), _MISPRINTS + misprints if misprints else ""]
    return "".join(parts)


def _erratum(claims: Sequence[Claim]) -> str:
    """Both forms of one erratum, why, and the claims that decide."""
    number_of, statement = claims[0].relation.number, claims[0].statement  # type: ignore[union-attr]
    forms = next(each for each in statement.errata if each.number == number_of)
    printed, corrected = ("\n".join(f"$${line}$$\n" for line in lines) for lines in (forms.printed, forms.corrected))
    head = f"\n### {number_of} {statement.number}\n\n{forms.said.capitalize()} ({statement.key}, {statement.place}):\n\n"
    table = _DECIDES.format(forms.said) + "".join(map(_deciding_row, claims))
    return f"{head}{printed}\nCorrected:\n\n{corrected}\n{forms.why}\n\n{table}"


def _deciding_row(claim: Claim) -> str:
    relation: Erratum = claim.relation  # type: ignore[assignment]
    values = map(number, (relation.printed, relation.corrected, float(claim.measured)))  # type: ignore[arg-type]
    return f"| {' | '.join((_cell(claim.label), *values, claim.verdict))} |\n"


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
