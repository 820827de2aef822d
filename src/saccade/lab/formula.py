"""A formula of a paper, checked by calculus alone: derivatives, spectra, expansions, exact solutions.

No run is behind it, so it is no claim. One table a paper lists them (`experiments/*/formulas.py`),
one test checks them all, and one page shows them.
"""

from __future__ import annotations

from dataclasses import dataclass

from saccade.lab.case import correction
from saccade.lab.relation import Erratum
from saccade.theories.statement import Statement


@dataclass(frozen=True)
class Formula:
    """How far a formula is from what it must equal, and how far it may be.

    `decides`: of an erratum, the printed and the corrected form; `printed_gap` is how far the
    printed one is from the same value, `value`, and must be beyond the bound.
    """

    statement: Statement
    title: str
    gap: float
    bound: float
    decides: Erratum | None = None
    printed_gap: float = float("inf")
    value: float = float("nan")

    @classmethod
    def erratum(
        cls,
        statement: Statement,
        title: str,
        value: float,
        *,
        printed: float,
        corrected: float,
        within: float,
        number: str = "",
    ) -> Formula:
        """A printed formula is wrong and its corrected form right; `number` if it has several errata."""
        forms = correction(statement, float(printed), float(corrected), float(within), number)
        gap, printed_gap = (abs(float(value) - form) for form in (forms.corrected, forms.printed))
        return cls(statement, title, gap, forms.within, forms, printed_gap, float(value))

    @property
    def holds(self) -> bool:
        return self.gap <= self.bound < self.printed_gap
