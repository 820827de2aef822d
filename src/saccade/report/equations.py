"""The equations shown with a claim: the formula of its statement in `claims.json`, and for an erratum both of its forms."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from saccade.report.mathml import mathml

Lines = list[tuple[str, str]]  # (what it is, MathML)


def theorem(claim: dict[str, Any]) -> str:
    """What a claim tests: `tian2023, Theorem 4`."""
    return claim["statement"]["key"]


def equation_of(claim: dict[str, Any]) -> tuple[str, Lines]:
    """A key that claims with the same equations share, and the equations; both empty if the statement has none."""
    statement, key = claim["statement"], theorem(claim)
    lines = shown(statement["formula"])
    for erratum in statement["errata"]:
        if erratum["number"] == claim["relation"].get("number"):
            key += f", erratum {erratum['number']}"
            lines += shown(erratum["printed"], erratum.get("said", "as printed")) + shown(erratum["corrected"], "corrected")
    return (key, lines) if lines else ("", [])


def shown(formula: Sequence[str], name: str = "") -> Lines:
    """Each line of a formula as MathML, the first under a name."""
    return [(name if not place else "", _markup(line)) for place, line in enumerate(formula)]


def _markup(line: str) -> str:
    """MathML, or the LaTeX itself where a record holds some that is not understood."""
    try:
        return mathml(line)
    except (ValueError, RecursionError):
        return f"<code>{html.escape(line)}</code>"
