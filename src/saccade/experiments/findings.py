"""What the experiments on real text found, as a page: first what contradicts the papers, then every claim with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from saccade.experiments import experiment, statement
from saccade.records.claim import FAILS, Claim

if TYPE_CHECKING:
    from saccade.experiments.reproduce import Outcome

_HEAD = (
    "# Findings on real text\n\nEvery claim of `saccade reproduce --real` with what was predicted and what was measured. "
    "This page is made from those claims; it is not written by hand.\n"
)
_COLUMNS = "| claim | source | predicted | measured | tolerance | verdict |\n|---|---|---|---|---|---|\n"


def findings_page(outcomes: Sequence[Outcome]) -> str:
    """A Markdown page of all claims, those that fail on top."""
    failing = [claim for outcome in outcomes for claim in outcome.claims if claim.verdict == FAILS]
    parts = [_HEAD, "\n## What does not hold\n\n", _COLUMNS + "".join(map(_row, failing)) if failing else "Nothing failed.\n"]
    for outcome in outcomes:
        size = outcome.record.attrs.get("size", "own")
        parts.append(f"\n## {outcome.name} ({size} setting)\n\n{statement(experiment(outcome.name))}\n\n")
        parts.append(_COLUMNS + "".join(map(_row, outcome.claims)))
    return "".join(parts)


def _row(claim: Claim) -> str:
    numbers = " | ".join(f"{value:.4g}" for value in (claim.predicted, claim.measured, claim.tolerance))
    cells = " | ".join(text.replace("|", "\\|") for text in (claim.statement, claim.source))
    return f"| {cells} | {numbers} | {claim.verdict} |\n"
