"""What came of an experiment, and what the terminal shows of it: the answer, the counts, and each
claim that differs from the stored verdicts, or every claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from rich.console import Console
from rich.markup import escape

from saccade.lab.claim import FAILS, HOLDS, UNDECIDED, Claim
from saccade.lab.relation import centre
from saccade.records.claim_counts import tally
from saccade.records.json_files import parsed_json
from saccade.theories import condition as conditions


@dataclass(frozen=True)
class Outcome:
    """The result of one run of an experiment.

    `stored`: for default settings the verdicts that are known (`experiments/answers.json`), by
    label; a claim that is not listed holds. None for other settings, where no verdict is known.
    """

    name: str
    answer: str
    folder: Path
    record: xr.Dataset
    claims: list[Claim]
    stored: Mapping[str, str] | None = None

    @property
    def unexpected(self) -> list[Claim]:
        """Claims with another verdict than the stored one; where none is stored, claims that fail
        and controls that hold. A failure because nothing was measured is always one.
        """
        return [claim for claim in self.claims if self._is_unexpected(claim)]

    def _is_unexpected(self, claim: Claim) -> bool:
        if claim.verdict == FAILS and np.isnan(centre(claim.measured)):
            return True  # nothing was measured: neither a control nor a known failure
        if claim.breaks:
            return claim.verdict != FAILS if self.stored is not None else claim.verdict == HOLDS
        if self.stored is None:
            return claim.verdict == FAILS
        return claim.verdict != self.stored.get(claim.label, HOLDS)


def counted(outcomes: Sequence[Outcome]) -> str:
    """The tally of all their claims, and how many differ from the stored verdicts."""
    claims = [claim.as_dict() for outcome in outcomes for claim in outcome.claims]
    differ = sum(len(outcome.unexpected) for outcome in outcomes if outcome.stored is not None)
    return tally(claims) + (f"; {differ} differ from the stored verdicts" if differ else "")


def print_outcome(terminal: Console, outcome: Outcome, *, every_claim: bool) -> None:
    """The answer and one line; then the unexpected claims, or all, grouped by statement."""
    seconds = outcome.record.attrs.get("wall_time_s")
    took = f", {seconds:.1f} s" if isinstance(seconds, float) else ""
    _say(terminal, f"[bold]{outcome.name}[/bold]: {escape(counted([outcome]))}{took}")
    _say(terminal, f"  {escape(outcome.answer)}")
    unexpected = set(map(id, outcome.unexpected))
    shown = [claim for claim in outcome.claims if every_claim or id(claim) in unexpected]
    assumed = [one for claim in shown if every_claim and not claim.breaks for one in claim.given]
    opening, *unmet = conditions.tally("These claims", assumed) or [""]
    for sentence in [opening, *(f"  {one}" for one in unmet), *_left_out(outcome)]:
        if sentence:
            _say(terminal, f"  {escape(sentence)}")
    for statement in {claim.statement.key: claim.statement for claim in shown}.values():
        _say(terminal, f"  [bold]{escape(statement.key)}[/bold]: {escape(statement.title)}")
        for claim in shown:
            if claim.statement.key == statement.key:
                colour = "yellow" if claim.verdict in UNDECIDED else "green"
                colour = "red" if id(claim) in unexpected else colour
                verdict = f"[{colour}]{escape(claim.verdict_says)}[/{colour}]"
                _say(terminal, f"    {verdict}  {escape(str(claim))}")


def _say(terminal: Console, line: str) -> None:
    terminal.print(line, soft_wrap=True, highlight=False)


def _left_out(outcome: Outcome) -> list[str]:
    """What could not be claimed, and runs that diverged."""
    record = outcome.record
    sentences = parsed_json(record.attrs.get("left_out", "[]"), list)
    if "stop_reason" in record and (lost := int((record.stop_reason == "diverged").sum())):
        of_all = record.stop_reason.size
        sentences.append(f"{lost} of {of_all} runs diverged; their values are missing.")
    return sentences
