"""A card for each result of a page about several: a picture, the finding in one sentence, how its
claims came out.

A card is a `<details>`: it opens to the figure, the record over time and the claims
(`web/cards.js`), and can be read without JavaScript. Cards stand under the theory that they are
about, in the order of the results; the menu lists them.
"""

from __future__ import annotations

from html import escape

from saccade.measures.timeline import is_watched
from saccade.records.claim_counts import tally
from saccade.report.claims_table import KINDS, kind_of
from saccade.report.sources import Result

_OTHERS, _RUNS = "Other results", "Watched runs"


def parts(results: list[Result]) -> dict[str, list[tuple[int, Result]]]:
    """Results by heading, each with its place on the page."""
    found: dict[str, list[tuple[int, Result]]] = {}
    for place, result in enumerate(results):
        watched = result.record is not None and is_watched(result.record)
        found.setdefault(
            str(result.about.get("part") or (_RUNS if watched else _OTHERS)), []
        ).append((place, result))
    return found


def cards(results: list[Result], bodies: list[str]) -> str:
    """All cards; `bodies` is what each opens to."""
    return "".join(
        f'<section class="part" id="part-{number}"><h2>{escape(name)}</h2>'
        f'<div class="cards">{"".join(_card(place, result, bodies[place]) for place, result in members)}</div></section>'
        for number, (name, members) in enumerate(parts(results).items())
    )


def menu(results: list[Result]) -> str:
    """Links to every card, by heading. It comes after the cards, so that a keyboard reaches them
    first.
    """
    groups = ""
    for number, (name, members) in enumerate(parts(results).items()):
        links = "".join(
            f'<li><a href="#result-{place}" title="{escape(result.name)}">'
            f"{escape(result.title or result.name)}</a></li>"
            for place, result in members
        )
        groups += f'<p><a href="#part-{number}">{escape(name)}</a></p><ul>{links}</ul>'
    claims = (
        '<p><a href="#claims">All claims</a></p>'
        if any(result.claims for result in results)
        else ""
    )
    return f'<nav class="menu" aria-label="Experiments">{groups}{claims}</nav>'


def _card(place: int, result: Result, body: str) -> str:
    head = (
        f'<span class="card-picture" aria-hidden="true" inert></span>'
        f'<h3 class="card-said">{escape(str(result.about["statement"]))}</h3>'
        f'<span class="card-name" title="{escape(result.name)}">{escape(result.title or result.name)}</span>{strip(result)}'
    )
    return (
        f'<details class="card result" data-result="{place}" id="result-{place}"><summary>{head}</summary>'
        f'<div class="card-body">{body}</div></details>'
    )


def strip(result: Result) -> str:
    """How many claims there are of each kind, as a bar and in the words of the README; nothing
    where nothing is claimed.
    """
    kinds = [kind_of(claim) for claim in result.claims]
    found = {kind: kinds.count(kind) for kind in KINDS if kind in kinds}
    if not found:
        return ""
    pieces = "".join(
        f'<i class="strip-{kind}" style="flex-grow:{count}"></i>' for kind, count in found.items()
    )
    words = tally(result.claims)
    return f'<span class="strip" aria-hidden="true">{pieces}</span><span class="strip-words">{words}</span>'
