"""Statements: a definition, lemma, theorem or figure of a paper, or a result of our own. Each is
written once, with its number.

The statements of a paper are listed in `theory/<paper>/statements.py`. A claim names the statement
it tests, and a test makes sure that every statement has a claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "FIGURE",
    "OURS",
    "QUESTION",
    "THEOREM",
    "Correction",
    "Dropped",
    "Misprint",
    "Statement",
]

THEOREM, FIGURE, OURS, QUESTION = "theorem", "figure", "ours", "question"
ERRORS, NOT_REPRODUCED, MISREADINGS = "", "Not reproduced", "Common misreadings"


@dataclass(frozen=True)
class Correction:
    """A formula that is wrong, and what is right, as lines of LaTeX; `why` in a sentence. `number`
    is that of `docs/errata.md`.

    `said` is where the first form comes from: the paper prints it, assumes it, or it is a reading
    of what the paper says. `instead` is what the second form is: corrected, or sharpened where the
    first is true but too weak, true where a hypothesis is not met, or reproduced where a printed
    number did not come out. `title` names the entry, `caveat` says what weakens its evidence.
    """

    number: str
    printed: tuple[str, ...]
    corrected: tuple[str, ...]
    why: str
    said: str = "as printed"
    title: str = ""
    instead: str = "corrected"
    caveat: str = ""

    @property
    def section(self) -> str:
        """Where the page of errata lists it: errors come first, under no heading of their own."""
        if self.said == "as read":
            return MISREADINGS
        return NOT_REPRODUCED if self.instead == "reproduced" else ERRORS

    @classmethod
    def headed(cls, heading: str, printed: str, corrected: str, why: str) -> Correction:
        """One whose number, forms and title stand in a heading: `3.4 (as assumed; sharpened):
        Degenerate starts blow up too`.
        """
        parts = re.fullmatch(
            r"(?P<number>[\d.]+)( \((?P<said>[^;)]+)(; (?P<instead>.+?))?\))?: (?P<title>.+)",
            heading,
        )
        if parts is None:
            raise ValueError(f"a heading is NUMBER (SAID; INSTEAD): TITLE; got {heading!r}")
        forms = {name: form for name, form in parts.groupdict().items() if form}
        return cls(printed=(printed,), corrected=(corrected,), why=why, **forms)


class Misprint(NamedTuple):
    """A slip in print that changes no statement, as plain text: where it stands, what is printed,
    what is meant.
    """

    place: str
    printed: str
    meant: str


class Dropped(NamedTuple):
    """What looked like an error and is none, as plain text: where and what, and why it is not
    listed.
    """

    suspect: str
    why: str


@dataclass(frozen=True)
class Statement:
    """One numbered statement of a paper, or one of ours.

    | field        | meaning                                                                                           |
    |--------------|---------------------------------------------------------------------------------------------------|
    | `paper`      | short name of the source, such as tian2023; `saccade` for our own results                         |
    | `number`     | as the source numbers it: Theorem 4, Lemma 3.1, Fig. 6; for our own results a name                |
    | `title`      | what it says, in at most 80 characters                                                            |
    | `formula`    | LaTeX, one line for each equation; empty where words are enough                                   |
    | `hypotheses` | what it assumes, a short phrase each                                                              |
    | `place`      | where to find it: section, equation, appendix                                                     |
    | `kind`       | theorem (lemmas and definitions too), figure, ours (derived here), question (left open, asked here) |
    | `errata`     | where the printed formula is wrong                                                                   |
    | `key`        | paper and number, by which it is known: `tian2023, Theorem 4`                                        |
    """

    paper: str
    number: str
    title: str
    formula: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    place: str = ""
    kind: str = THEOREM
    errata: tuple[Correction, ...] = ()
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.paper}, {self.number}")

    @classmethod
    def headed(cls, paper: str, heading: str, *formula: str, **others: Any) -> Statement:
        """One whose number, place and title stand in a heading: `Proposition 4 (App. A.2):
        Assumption 1 is never lost again`.
        """
        parts = re.fullmatch(r"(?P<number>[^()]+) \((?P<place>[^()]+)\): (?P<title>.+)", heading)
        if parts is None:
            raise ValueError(f"a heading is NUMBER (PLACE): TITLE; got {heading!r}")
        return cls(paper, parts["number"], parts["title"], formula, place=parts["place"], **others)
