"""The page of errata, made from claims: what the papers print, what is right, and the deciding
measurement. Numbers that could not be reproduced and common misreadings have sections of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from saccade.lab.claim import HOLDS, Claim
from saccade.lab.formula import Formula
from saccade.lab.relation import Erratum, centre
from saccade.numerals import numeral, numerals_in
from saccade.theories.papers import PAPERS
from saccade.theories.statement import (
    ERRORS,
    MISREADINGS,
    NOT_REPRODUCED,
    Correction,
    Statement,
)
from saccade.theories.statements import DROPPED, MISPRINTS

_ERRATA = (
    "# Errata\n\nSuspected errors in three papers. Each entry has the printed form, the corrected "
    "form, the reason, and the numbers that decide: what each form predicts and what was measured. "
    "An erratum is confirmed if the corrected form is within the tolerance of what was found and the "
    "printed form is not. Two kinds are not errors: *sharpened* marks a true statement that can be made stronger; "
    "*as assumed* and *true* mark a hypothesis that is not met. "
    "Written by `saccade reproduce`; do not edit.\n"
)
_ABOUT = {
    ERRORS: "",
    NOT_REPRODUCED: "Published numbers that did not come out here. "
    "The paper leaves some of their settings open, so this need not be an error.",
    MISREADINGS: "None of these forms is printed in the paper. "
    "They are listed because a reader may take them from it.",
}
_DECIDES = "| quantity | {} | {} | found | tolerance | verdict |\n|---|---|---|---|---|---|\n"
_MISPRINTS = (
    "\n### Misprints without consequence\n\n| where | as printed | meant |\n|---|---|---|\n"
)
_DROPPED = "\n### Considered and dropped\n\n"


class Decision(NamedTuple):
    """A claim or a formula that decides between the two forms of an erratum."""

    statement: Statement
    relation: Erratum
    label: str
    found: float
    verdict: str


def errata_page(claims: Iterable[Claim], formulas: Iterable[Formula]) -> str:
    """All errata that some claims and formulas decide, by paper and number, the misprints of those
    papers, and what only looked wrong.
    """
    decisions = [
        Decision(one.statement, one.relation, one.label, centre(one.measured), one.verdict)
        for one in claims
        if isinstance(one.relation, Erratum) and not one.breaks
    ]
    decisions += [
        Decision(one.statement, one.decides, one.title, one.value, HOLDS if one.holds else "fails")
        for one in formulas
        if one.decides is not None
    ]
    found: dict[tuple[str, tuple[int, ...]], list[Decision]] = {}
    for one in decisions:
        order = tuple(int(part) for part in one.relation.number.split("."))
        found.setdefault((one.statement.paper, order), []).append(one)
    parts = [_ERRATA]
    for paper in PAPERS:
        if errata := [found[key] for key in sorted(found) if key[0] == paper.key]:
            misprints = "".join(
                f"| {' | '.join(map(_cell, misprint))} |\n" for misprint in MISPRINTS[paper.key]
            )
            dropped = "".join(f"- *{each.suspect}*: {each.why}.\n" for each in DROPPED[paper.key])
            parts.append(f"\n## {paper.title}\n\nRead: {paper.version}.\n\n")
            for section, about in _ABOUT.items():
                listed = [claims for claims in errata if _forms(claims).section == section]
                if section and listed:
                    parts.append(f"\n### {section}\n\n{about}\n")
                parts += [*([] if section else map(_entry, listed)), *map(_erratum, listed)]
            parts += [
                heading + found
                for heading, found in ((_MISPRINTS, misprints), (_DROPPED, dropped))
                if found
            ]
    return "".join(parts)


def _erratum(claims: Sequence[Decision]) -> str:
    """Both forms of one erratum, why, and the claims that decide."""
    forms, statements = _forms(claims), {claim.statement.key: claim.statement for claim in claims}
    printed, corrected = (
        "\n".join(f"$${line}$$\n" for line in lines) for lines in (forms.printed, forms.corrected)
    )
    places = "; ".join(f"{key}, {statement.place}" for key, statement in statements.items())
    head = (
        f'\n<a id="{anchor(forms)}"></a>\n\n### {_heading(claims)}\n\n'
        + f"{forms.said.capitalize()} ({places}):\n\n"
    )
    why = f"{forms.why} {forms.caveat}".strip()
    table = _DECIDES.format(forms.said, forms.instead) + "".join(map(_deciding_row, claims))
    return f"{head}{printed}\n{forms.instead.capitalize()}:\n\n{corrected}\n{why}\n\n{table}"


def _forms(claims: Sequence[Decision]) -> Correction:
    number = claims[0].relation.number
    return next(each for each in claims[0].statement.errata if each.number == number)


def _entry(claims: Sequence[Decision]) -> str:
    """One line of the list of contents."""
    forms, numbers = _forms(claims), dict.fromkeys(claim.statement.number for claim in claims)
    kind = {"corrected": "", "true": "; a hypothesis that is not met"}.get(
        forms.instead, f"; {forms.instead}"
    )
    return f"- [{_heading(claims)}](#{anchor(forms)}) ({', '.join(numbers)}{kind})\n"


def anchor(forms: Correction) -> str:
    """Where an entry stands on the page; headings would give other names on other sites."""
    return f"erratum-{forms.number.replace('.', '-')}"


def _heading(claims: Sequence[Decision]) -> str:
    forms = _forms(claims)
    return f"{forms.number} {forms.title or claims[0].statement.number}"


def _deciding_row(one: Decision) -> str:
    relation, verdict = one.relation, "confirmed" if one.verdict == HOLDS else one.verdict
    numbers = map(numeral, (relation.printed, relation.corrected, one.found, relation.within))
    return f"| {' | '.join((_cell(one.label), *numbers, verdict))} |\n"


def _cell(text: str) -> str:
    return numerals_in(text).replace("|", "\\|")
