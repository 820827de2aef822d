"""The page of formulas checked: `python -m tools.formulas_table` computes them all, half a minute.

No run is behind a formula, so it is no claim. A test checks that each gap is within its bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from saccade.experiments import formulas
from saccade.lab.formula import Formula
from saccade.numerals import numeral, numerals_in
from saccade.theories.papers import PAPERS

PAGE = Path(__file__).parents[1] / "docs" / "formulas.md"
_HEAD = """# Formulas checked

These {count} checks need no simulation: derivatives, spectra, expansions and exact solutions, compared with a second computation.
A check holds if its gap is within the bound. Where the [errata](errata.md) correct a formula, the row says how far the printed form is off.
They are not claims, and [results](results.md) does not count them. `make tables` writes this page.
"""
_TABLE = "| statement | compared | gap | bound | as printed |\n|---|---|---|---|---|\n"
_OTHERS = "JoMA, and statements of our own"


def row(one: Formula) -> tuple[str, ...]:
    """Statement, title, gap, bound, and the gap of the printed form if there is an erratum."""
    printed = numeral(one.printed_gap, ".2g") if one.decides else ""
    number = one.statement.number
    title = numerals_in(one.title).replace("|", "\\|")
    return (number, title, numeral(abs(one.gap), ".1g"), numeral(one.bound, ".2g"), printed)


def page(found: Iterable[Formula]) -> str:
    listed = list(found)
    titles = {paper.key: paper.title for paper in PAPERS}
    parts = [_HEAD.format(count=len(listed))]
    for title in [*titles.values(), _OTHERS]:
        rows = [row(one) for one in listed if titles.get(one.statement.paper, _OTHERS) == title]
        if rows:
            lines = "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
            parts.append(f"\n## {title}\n\n{_TABLE}{lines}")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(formulas()), encoding="utf-8")
