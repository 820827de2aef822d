"""The page of findings on real text: for each question its answer, one picture and the numbers; at
the end all claims.

An experiment on text has a question, a `finding` with measured numbers and what would change it
(`caveat`). Experiments with the same question answer it together, under the picture of the first:
in the words of its `answer` if it has one, else in their findings. The numbers under an answer are
the claims that it and the findings name. `saccade reproduce --real` writes the page, and one panel
for each question as a small picture, `figures/NAME.svg`, in the same folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from string import Formatter
from typing import TYPE_CHECKING, Any

from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE, Claim
from saccade.lab.outcome import Outcome, tally
from saccade.lab.protocol import Experiment
from saccade.lab.relation import Exceptions
from saccade.numerals import numeral
from saccade.report.drawn import draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEAD = (
    "# Findings on real text\n\nThe theories describe synthetic data. Here we ask them about real text, one question at a time. "
    "Every number comes from a claim in the tables at the end; [how to read them](#how-to-read-the-numbers) explains the words. "
    "Written by `saccade reproduce --real`; do not edit.\n\n"
)
_READING = (
    "\n## How to read the numbers\n\n"
    "- A **ceiling** is how well two repetitions of one measurement agree: two seeds, or two samples of the text that share no "
    "window. A claim is **inconclusive** if its interval contains the threshold. It also is if the "
    "threshold is above the ceiling, unless its whole interval is allowed or lies on the wrong side of chance. The row then says "
    "how much more data would be needed, up to a factor of 100. "
    "Where both sides of a claim were computed from the same windows, the agreement with other windows sets no limit; it is "
    "shown **for comparison**. So is the share of seeds that answer alike. "
    "Where nothing can be repeated, the row says why it has **no ceiling**: an exact count of a text, or a law and its own "
    "simulation on the same windows.\n"
    "- A claim about every run is refuted by one exception.\n"
    "- **Assumptions not met**: the text does not meet an assumption of the theorem. The claim then neither confirms nor refutes it, "
    "but shows whether the numbers agree.\n"
    "- Brackets are 95 % intervals over seeds or samples. They are simultaneous over the claims of one experiment (Bonferroni) in "
    "text-fates, text-cycle, positions, optimisers, depth, context-length and sparse-then-dense, and over the main claims of "
    "first-force-text, forecast and forecast-transformer. All others are for single claims, and nothing is corrected across "
    "experiments. Those of correlations and shares end where these do.\n"
    "- **Controls** break an assumption on purpose and must fail; they are counted apart.\n"
    "- A failure is a **surprise** if no earlier run has shown it. "
    "All others were known, some at the same settings and seeds: none was predicted.\n"
)
_COLUMNS = "| claim | statement | result | verdict |\n|---|---|---|---|\n"
_NUMBERS = "| number | result | verdict |\n|---|---|---|\n"
_VERDICTS = {
    HOLDS: "holds",
    FAILS: "fails",
    OUTSIDE: "assumptions not met",
    CANNOT_TELL: "inconclusive",
}
_WITHOUT_VERDICT = (
    "case",
    "interval",
    "ceiling",
)  # forms that say no number, or show themselves that it is unsure
_SENTENCES = r"(?<=[.?!]) "  # between two
_NOT_ON_TEXT = "Not on text: "  # how such a question begins
_WIDTH, _HEIGHT = 5.4, 3.4  # inches: on a phone the letters are still 8 pixels high


def findings_page(outcomes: Sequence[Outcome], asked: Mapping[str, Experiment]) -> str:
    """Questions and answers, then all claims, experiment by experiment."""
    answers = [_answer(together, asked) for together in by_question(outcomes, asked)]
    tables = [f"\n## {outcome.name}\n\n{_table(outcome.claims)}" for outcome in outcomes]
    return "".join(
        [_HEAD, _tallies(outcomes, asked), *answers, _READING, "\n# Every claim\n", *tables]
    )


def _tallies(outcomes: Sequence[Outcome], asked: Mapping[str, Experiment]) -> str:
    """How many claims have which verdict, in the words of the README; experiments that are not on
    text apart.
    """
    apart = [asked[outcome.name].question.startswith(_NOT_ON_TEXT) for outcome in outcomes]
    parts = []
    for where, other in (("On text", False), ("Not on text", True)):
        claims = [
            claim
            for outcome, is_apart in zip(outcomes, apart, strict=True)
            if is_apart == other
            for claim in outcome.claims
        ]
        parts += [f"{where}: {tally(claims)}."] if claims else []
    return " ".join(parts) + "\n"


def by_question(
    outcomes: Sequence[Outcome], asked: Mapping[str, Experiment]
) -> list[list[Outcome]]:
    """Outcomes of experiments that ask the same together, in the order of the first of each."""
    questions = dict.fromkeys(asked[outcome.name].question for outcome in outcomes)
    return [
        [outcome for outcome in outcomes if asked[outcome.name].question == question]
        for question in questions
    ]


def _answer(outcomes: Sequence[Outcome], asked: Mapping[str, Experiment]) -> str:
    experiments = [asked[outcome.name] for outcome in outcomes]
    first, pairs = experiments[0], list(zip(outcomes, experiments, strict=True))
    told = [
        filled(one.name, one.finding, [claim.as_dict() for claim in outcome.claims])
        for outcome, one in pairs
    ]
    if first.answer:
        told = [
            filled(
                first.name,
                first.answer,
                [claim.as_dict() for outcome in outcomes for claim in outcome.claims],
            )
        ]
    named = [
        claim
        for outcome, one in pairs
        for claim in outcome.claims
        if any(fnmatchcase(claim.label, field) for field in fields(first.answer + one.finding))
    ]
    answer = " ".join(f"{sentences[:1].upper()}{sentences[1:]}." for sentences in told)
    return (
        f"\n## {first.question}\n\n**{answer}**\n\n"
        f"![{re.split(_SENTENCES, answer)[0]}](figures/{first.name}.svg)\n\n"
        f"{_NUMBERS}{''.join(_row(claim.heading, claim.says, claim.verdict_says) for claim in named)}\n"
        f"What would change the answer: {' '.join(one.caveat for one in experiments)}\n\n"
        f"{' '.join(_source(*pair) for pair in pairs)}\n"
    )


def _source(outcome: Outcome, asked: Experiment) -> str:
    """Where the rest is, and what makes it."""
    size = outcome.record.attrs.get("size") or (
        "only" if asked.settings_of(outcome.record) == asked.settings() else "own"
    )
    return f"[All {len(outcome.claims)} claims](#{asked.name}); `saccade reproduce {asked.name}`, {size} setting."


def _table(claims: Sequence[Claim]) -> str:
    """Failures first, then claims that hold, are outside their assumptions, or cannot be told."""
    order = [FAILS, HOLDS, OUTSIDE, CANNOT_TELL]
    ranked = sorted(claims, key=lambda claim: order.index(claim.verdict))
    return _COLUMNS + "".join(
        _row(claim.heading, claim.statement.key, claim.says, claim.verdict_says) for claim in ranked
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def picture(outcome: Outcome, asked: Experiment) -> Figure:
    """One panel of the first row, small; alone it has no number."""
    panel = asked.specs(outcome.record)[0][asked.picture]
    return draw_panels(
        [[panel | {"title": re.sub(r"^\d+\. ", "", panel["title"])}]], _WIDTH, _HEIGHT
    )


def fields(template: str) -> list[str]:
    """Patterns of the claims that an answer names."""
    return [_picked(field)[0] for _, field, _, _ in Formatter().parse(template) if field]


def _picked(field: str) -> tuple[str, str]:
    """A pattern, and which of the claims that fit it is meant: `gain*[-1]` is the last of them,
    `gap*[max]` the largest.
    """
    found = re.fullmatch(r"(.*)\[(-?\d+|max)\]", field, re.DOTALL)
    return (found[1], found[2]) if found else (field, "")


def filled(name: str, template: str, claims: Sequence[Mapping[str, Any]]) -> str:
    """The template with what came of its claims: `{growth rate*law paper:.3f}` is the number of the
    one claim with such a label.

    `*` stands for any part of the label and `?` for any character, as for `:`, which ends the name
    of a field. `[0]` at its end picks the first of several, `[-1]` the last, `[max]` that with the
    largest number. A percentage of a claim that counts exceptions is the share without them, and
    `{...:count}` how many are none: `2 of 3`. In place of a number, `{...:verdict}` is its verdict
    in words, `{...:case update}` what its case says of `update`, `{...:interval .0%}` the number
    with its interval, `{...:points}` a difference of shares in percentage points, and `{...:ceiling
    .2f}` its first ceiling. A number that cannot be told says so, unless its interval or its
    verdict is in the template as well.
    """
    parts = [(text, field, form or "") for text, field, form, _ in Formatter().parse(template)]
    judged = {field for _, field, form in parts if form == "verdict"}
    sentence = ""
    for text, field, form in parts:
        claim = _claim_of(name, field, claims) if field else None
        sentence += text + (_told(claim, form) if claim else "")
        if (
            claim
            and field not in judged
            and form.partition(" ")[0] not in _WITHOUT_VERDICT
            and _is_open(claim)
        ):
            sentence += f" ({_VERDICTS[CANNOT_TELL]})"
    return re.sub(r"(?<=\d)%", " %", sentence)  # as everywhere in the README


def _is_open(claim: Mapping[str, Any]) -> bool:
    """Whether its number cannot be told, outside its assumptions too."""
    return _VERDICTS[CANNOT_TELL] in claim.get("verdict_says", _VERDICTS[claim["verdict"]])


def _claim_of(name: str, field: str, claims: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    pattern, place = _picked(field)
    fits = [claim for claim in claims if fnmatchcase(claim["label"], pattern)]
    found = [
        claim for claim in fits if not claim.get("breaks")
    ] or fits  # a control is meant where nothing else is called so
    if len(found) != 1 and not (place and found):
        fitting = "".join(f"\n  {claim['label']}" for claim in found)
        raise ValueError(
            f"finding of {name}: the field `{field}` must fit one claim; it fits {len(found)}.{fitting}"
        )
    return (
        max(found, key=lambda claim: claim["measured"])
        if place == "max"
        else found[int(place or 0)]
    )


def _told(claim: Mapping[str, Any], form: str) -> str:
    if form == "verdict":
        return _VERDICTS[claim["verdict"]]
    if form == "count":
        return _counted(claim)
    if form == "points":
        return f"{numeral(100 * _measured(claim, False), '.0f')} percentage points"
    if form.startswith("case "):
        return f"{claim['case'][form.removeprefix('case ')]}"
    if form.startswith("ceiling "):
        return numeral(claim["ceilings"][0]["agreement"], form.removeprefix("ceiling "))
    if form.startswith("interval "):
        form, ends = form.removeprefix("interval "), claim["interval"]
        return f"{numeral(claim['measured'], form)} [{numeral(ends[0], form)}, {numeral(ends[1], form)}]"
    return numeral(_measured(claim, form.endswith("%")), form)


def _counted(claim: Mapping[str, Any]) -> str:
    """`2 of 3`: how many are no exceptions."""
    if claim["relation"]["kind"] != Exceptions.kind:
        raise ValueError(
            f"`{claim['label']}` counts no exceptions, so the form `count` has no number for it."
        )
    among, missed = claim["relation"]["among"], claim["measured"]
    return f"{0 if missed is None or missed != missed else among - missed:g} of {among}"


def _measured(claim: Mapping[str, Any], as_share: bool) -> float:
    measured, relation = claim["measured"], claim.get("relation", {})
    if as_share and measured is not None and relation.get("kind") == Exceptions.kind:
        return float(1 - measured / relation["among"])
    return float("nan") if measured is None else float(measured)  # `claims.json` has null for NaN
