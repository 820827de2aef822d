"""Hold `docs/outcomes.json` to a run: it keeps the verdicts and the finding of its claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saccade.lab.claim import Claim
from saccade.lab.protocol import Experiment
from tools.results_tables import outcome

OUTCOMES = json.loads((Path(__file__).parents[2] / "docs" / "outcomes.json").read_text("utf-8"))


def assert_as_in_the_readme(name: str, claims: Sequence[Claim]) -> None:
    """`claims` of a run with default settings, or with smaller ones that come to the same:
    verdicts, and numbers as printed.
    """
    assert outcome(name, [claim.as_dict() for claim in claims]) == OUTCOMES[name], (
        "run it again, then `make tables`"
    )


def verdicts_of(experiment: Experiment, record: Any, words: str) -> set[str]:
    """Of the claims whose label has these words; there must be some."""
    found = {claim.verdict for claim in experiment.claims(record) if words in claim.label}
    assert found, words
    return found
