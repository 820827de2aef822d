"""The equations shown with a claim: the formula of its statement in `claims.json`, and for an erratum both of its forms."""

from __future__ import annotations

from typing import Any

from saccade.report.mathml import mathml
from saccade.theory.statements import ERRATA

Lines = list[tuple[str, str]]  # (what it is, MathML)


def theorem(claim: dict[str, Any]) -> str:
    """What a claim tests: `tian2023, Theorem 4`."""
    return claim["statement"]["key"]


def equation_of(claim: dict[str, Any]) -> tuple[str, Lines]:
    """A key that claims with the same equations share, and the equations; both empty if the statement has none."""
    lines = shown(claim["statement"]["formula"])
    relation, key = claim["relation"], theorem(claim)
    correction = ERRATA.get((claim["statement"]["paper"], relation.get("number", ""))) if relation["kind"] == "erratum" else None
    if correction:
        key += f", erratum {correction.number}"
        lines += shown(correction.printed, "as printed") + shown(correction.corrected, "corrected")
    return (key, lines) if lines else ("", [])


def shown(formula: tuple[str, ...] | list[str], name: str = "") -> Lines:
    """Each line of a formula as MathML, the first under a name."""
    return [(name if not place else "", mathml(line)) for place, line in enumerate(formula)]
