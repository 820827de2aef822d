"""The equation behind a claim, found by its source: `[tian2023, Theorem 4], erratum 0.4 corrected` is about `tian2023, Theorem 4`.

What a claim asks of text after a theorem (`[asked of text, after tian2023 Theorem 2]`) has that theorem's equation.
Sources that only compare numbers, such as `[independent replication]`, have none.
"""

from __future__ import annotations

import re

from saccade.report import focus_and_dilution_equations, scan_and_snap_equations

Lines = list[tuple[str, str]]  # (what it is, MathML)

EQUATIONS: dict[str, Lines] = scan_and_snap_equations.EQUATIONS | focus_and_dilution_equations.EQUATIONS


def theorem(source: str) -> str:
    """What stands in brackets: `[tian2023, Theorem 4], Gamma` -> `tian2023, Theorem 4`; all of it if there are none."""
    found = re.search(r"\[([^\]]*)\]", source)
    return found[1] if found else source


def equation_of(source: str) -> tuple[str, Lines]:
    """Key in the table, and the equations; both empty if there are none for this source."""
    name = theorem(source)
    asked = re.search(r"after (tian2023|chen2026),? (.+)", name)
    for key in (name, re.sub(r"\([a-z]\)$", "", name), f"{asked[1]}, {asked[2]}" if asked else ""):
        if key in EQUATIONS:
            return key, EQUATIONS[key]
    return "", []
