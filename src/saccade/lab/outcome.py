"""What came of an experiment, and what the terminal shows of it: one line and every exception in
full, or every claim with unmet assumptions said once on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray as xr
from rich.console import Console
from rich.markup import escape

from saccade.errors import shortened
from saccade.lab.claim import OUTSIDE, UNDECIDED, Claim
from saccade.numerals import numeral
from saccade.records import claim_counts
from saccade.records.json_files import parsed_json
from saccade.theory import condition as conditions


@dataclass(frozen=True)
class Outcome:
    """The result of one run of an experiment; `finding` is the sentence that its file opens with.

    `as_designed`: its data were made to meet the assumptions of its claims, and no setting was
    changed.
    """

    name: str
    finding: str
    folder: Path
    record: xr.Dataset
    claims: list[Claim]
    as_designed: bool = False

    @cached_property
    def kinds(self) -> list[str]:
        return [claim.kind for claim in self.claims]

    @property
    def unexpected(self) -> list[Claim]:
        """Claims that hold or fail against expectation; as designed, also those that are outside
        their assumptions without being known to be. With other settings, a user's own file or real
        text, being outside is an answer; so is, always, that a claim cannot be told.
        """
        return [
            claim
            for claim, kind in zip(self.claims, self.kinds, strict=True)
            if kind == "surprise" or (self.as_designed and kind == OUTSIDE != claim.expected)
        ]


def tally(claims: Sequence[Claim]) -> str:
    """`439 claims (6 published): 427 hold, 12 fail; 4 controls, 14 regression tests`, as the pages
    count.
    """
    return claim_counts.tally([claim.as_dict() for claim in claims]) or "no claims"


def summary(outcomes: Sequence[Outcome]) -> str:
    """The tally, then how many claims are unexpectedly outside their assumptions, which it does not
    count as surprises.
    """
    outside = sum(len(outcome.unexpected) - outcome.kinds.count("surprise") for outcome in outcomes)
    counted = tally([claim for outcome in outcomes for claim in outcome.claims])
    return counted + (f"; {outside} with assumptions unexpectedly not met" if outside else "")


def _said(value: Any) -> str:
    return numeral(value, "g") if isinstance(value, float) else shortened(value).strip("()")


def own_statement(outcome: Outcome, settings: Any, defaults: Any) -> str:
    """What heads a result of a user's own settings: whose they are, what came out here, and what is
    found at the default ones.
    """
    usual = asdict(defaults)
    changed = {name: value for name, value in asdict(settings).items() if value != usual[name]}
    classes = changed.pop("classes", "")
    whose = [f"your classes in {classes}"] if classes else []
    whose += [f"{name} = {_said(value)}" for name, value in changed.items()]
    return f"With {', '.join(whose)}: {tally(outcome.claims)}. At the default settings: {outcome.finding}"


def print_outcome(terminal: Console, outcome: Outcome, *, every_claim: bool) -> None:
    """One line and every surprise in full; with `every_claim` all of them, grouped by the statement
    they test.
    """
    seconds = outcome.record.attrs.get("wall_time_s")
    took = f", {seconds:.1f} s" if isinstance(seconds, float) else ""
    terminal.print(
        f"[bold]{outcome.name}[/bold]: {escape(summary([outcome]))}{took}",
        soft_wrap=True,
        highlight=False,
    )
    unexpected = set(map(id, outcome.unexpected))
    shown = [
        pair
        for pair in zip(outcome.claims, outcome.kinds, strict=True)
        if every_claim or id(pair[0]) in unexpected
    ]
    assumed = (
        [condition for claim, _ in shown if not claim.breaks for condition in claim.given]
        if every_claim
        else []
    )
    opening, *unmet = conditions.tally("These claims", assumed) or [""]
    for sentence in [opening, *(f"  {one}" for one in unmet), *_left_out(outcome)]:
        if sentence:
            terminal.print(f"  {escape(sentence)}", soft_wrap=True, highlight=False)
    for statement in {claim.statement.key: claim.statement for claim, _ in shown}.values():
        terminal.print(
            f"  [bold]{escape(statement.key)}[/bold]: {escape(statement.title)}",
            soft_wrap=True,
            highlight=False,
        )
        for claim, kind in shown:
            if claim.statement.key == statement.key:
                terminal.print(
                    _line(claim, kind, id(claim) in unexpected), soft_wrap=True, highlight=False
                )


def _line(claim: Claim, kind: str, is_unexpected: bool) -> str:
    colour = "red" if is_unexpected else "yellow" if kind in UNDECIDED else "green"
    surprise = f" (expected: {claim.expected})" if is_unexpected else ""
    return f"    [{colour}]{escape(claim.verdict_says)}{surprise}[/{colour}]  {escape(str(claim))}"


def _left_out(outcome: Outcome) -> list[str]:
    """What could not be asked, and runs that diverged."""
    sentences = parsed_json(outcome.record.attrs.get("left_out", "[]"), list)
    lost = (
        int((outcome.record.stop_reason == "diverged").sum())
        if "stop_reason" in outcome.record
        else 0
    )
    if lost:
        sentences.append(
            f"{lost} of {outcome.record.stop_reason.size} runs diverged; their values are missing."
        )
    return sentences
