"""The page of findings on real text: for each question its answer, a picture, and every claim.

`saccade reproduce --real` writes it, and the first panel of each figure as `figures/NAME.svg`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.lab.claim import FAILS, HOLDS, INCONCLUSIVE, UNMET, Claim
from saccade.lab.outcome import Outcome
from saccade.records.claim_counts import tally
from saccade.records.json_files import read_json
from saccade.report.drawn import draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEAD = (
    "# Findings on real text\n\n"
    "The theories describe synthetic data. Here we put their statements to real text, one question "
    "at a time. Every number comes from a claim below; [how to read them](#how-to-read-the-numbers) "
    "explains the words. `saccade reproduce --real` writes this page; do not edit it.\n"
)
_READING = (
    "\n## How to read the numbers\n\n"
    "- **Holds** and **fails** say whether the number lies within its bound.\n"
    "- **Assumptions not met**: the text does not meet an assumption of the theorem. The claim then "
    "decides nothing, but shows whether the numbers agree.\n"
    "- **Inconclusive**: the interval contains the bound, or the bound is beyond the ceiling.\n"
    "- A **ceiling** is how well two repetitions of one measurement agree: two seeds, or two "
    "samples of the text that share no window. Where both sides of a claim come from the same "
    "windows it sets no limit and is shown for comparison.\n"
    "- A claim about every run is refuted by one exception.\n"
    "- Brackets are 95 % intervals over seeds or samples. Nothing is corrected across questions.\n"
    "- **Controls** break an assumption on purpose and must fail; they are counted apart.\n"
    "- **After trial runs**: the bound was set after some runs had been looked at.\n"
)
_TABLE = "| claim | statement | result | bound set | verdict |\n|---|---|---|---|---|\n"
_ORDER = (FAILS, HOLDS, UNMET, INCONCLUSIVE)
_WIDTH, _HEIGHT = 5.4, 3.4  # inches: on a phone the letters are still 8 pixels high


def findings_page(outcomes: Sequence[Outcome], asked: Mapping[str, Any]) -> str:
    """Questions, answers and claims; `asked` has the experiment of every name."""
    return "".join([_HEAD, *(_question(one, asked[one.name]) for one in outcomes), _READING])


def _question(outcome: Outcome, asked: Any) -> str:
    caveat = f"What would change the answer: {asked.caveat}\n\n" if asked.caveat else ""
    ranked = sorted(outcome.claims, key=lambda claim: _ORDER.index(claim.verdict))
    counts = tally([claim.as_dict() for claim in outcome.claims])
    return (
        f"\n## {asked.question}\n\n**{outcome.answer}**\n\n"
        f"![{asked.question}](figures/{outcome.name}.svg)\n\n{caveat}"
        f"{counts}. `saccade reproduce {outcome.name}` makes these numbers.\n\n"
        f"{_TABLE}{''.join(map(_row, ranked))}"
    )


def _row(claim: Claim) -> str:
    cells = (claim.heading, claim.statement.key, claim.says, claim.bound_set, claim.verdict_says)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def picture(folder: Path) -> Figure:
    """The first panel of a result, small; alone it has no number."""
    panel = read_json(folder / "panels.json", [list])[0][0]
    return draw_panels(
        [[panel | {"title": re.sub(r"^\d+\. ", "", panel["title"])}]], _WIDTH, _HEIGHT
    )
