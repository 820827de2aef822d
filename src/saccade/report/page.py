"""One HTML file that needs no server and asks the network for nothing: verdicts, claims, figures,
and everything over time.

`write_report` takes any mix of sources (`sources.py`). The page's own code is in `web/`; here it is
put together with the data. All that comes from records is escaped, or JSON, or packed; no script
runs but the page's own, which its policy names by hash.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError
from saccade.measures.timeline import is_watched
from saccade.numerals import numerals_in
from saccade.records.json_files import regular_file
from saccade.records.writing import write_html
from saccade.report.cards import cards, menu
from saccade.report.claims_table import claims_of
from saccade.report.page_data import page_data
from saccade.report.policy import policy
from saccade.report.sources import Result, results_of
from saccade.report.timeline import shown_timelines

if TYPE_CHECKING:
    import xarray as xr

# The order in which they load: each knows only those before it.
_SCRIPTS = (
    "chart_scales.js",
    "chart_frame.js",
    "chart_save.js",
    "chart_line.js",
    "chart_bars.js",
    "chart_heat.js",
    "chart_timeline.js",
    "charts.js",
    "zoom.js",
    "packed.js",
    "stills.js",
    "player.js",
    "film.js",
    "claims.js",
    "claim_detail.js",
    "overview.js",
    "heads.js",
    "head_maps.js",
    "token_text.js",
    "figures.js",
    "view.js",
    "overlay.js",
    "cards.js",
    "report.js",
)
_NAMES = "report.html", "saccade-report.html"  # the second where the first is somebody else's
_OURS, _HEAD = b"<title>Saccade report: ", 4096  # with which a page begins, within so many bytes
_STYLES = ("theme.css", "report.css")
_NOT_FACTS = ("title", "statement", "caption", "command", "part", "place", "picture")
_MOST_NAMED = 4  # runs in a title
_MOST_SAID = (
    320  # letters about a picture, so that what moves below them is on the first screen of a phone
)
_TABLE = '<div class="table-place"></div>'


def write_report(
    sources: Sequence[str | Path] | str | Path,
    out: str | Path | None = None,
    tell: Callable[[str], object] = warnings.warn,
) -> Path:
    """Write one page about all `sources` to the file `out` and return its path; `tell` is called
    with whatever cannot be read.

    Without `out` it is `report.html` in this folder, or `saccade-report.html` if somebody else's
    page has that name.
    """
    results = results_of([sources] if isinstance(sources, str | Path) else list(sources))
    return _written(results, _free_page(Path()) if out is None else Path(out), tell)


def _written(results: list[Result], out: Path, tell: Callable[[str], object]) -> Path:
    write_html(out, page_of(results))
    for sentence in (sentence for result in results for sentence in result.unread):
        tell(f"{sentence}; the page shows the rest.")
    return out


def write_page(
    out: str | Path,
    tell: Callable[[str], object] = warnings.warn,
    *,
    results: list[Result] | None = None,
) -> Path:
    """Write OUT/report.html from every result in OUT, or these, and return its path; beside a page
    of that name that is not ours, another.
    """
    return _written(results_of([out]) if results is None else results, _free_page(Path(out)), tell)


def _free_page(folder: Path) -> Path:
    for page in (folder / name for name in _NAMES):
        if not page.is_file() or is_page(page):  # what is no file is refused by the writer
            return page
    raise InputError(
        f"cannot write the report: Saccade did not write {' and '.join(_NAMES)} in {folder}; "
        "move one of them away, or name a file."
    )


def is_page(file: Path) -> bool:
    """Whether a file is a page of Saccade, under the name that Saccade gives it: it can be drawn
    again.
    """
    if file.name not in _NAMES:
        return False
    try:
        with regular_file(file) as page:
            return _OURS in page.read(_HEAD)
    except (OSError, InputError):
        return False


def page_of(results: list[Result]) -> str:
    """The whole page as text."""
    results = [
        replace(result, about=_readable(result.about), claims=list(map(_readable, result.claims)))
        for result in results
    ]
    claims, of_claims = claims_of(results)
    runs = _runs(results)
    panels, caption = shown_timelines(*runs.values(), names=list(runs)) if runs else ([], "")
    data, blobs = page_data(results, claims, panels)
    shown = cards(results, [_body(result) for result in results]) if len(results) > 1 else ""
    script = "\n".join(_web(name) for name in _SCRIPTS)
    asked, section = "", (shown if runs else "") + _commands(results)
    if len(results) == 1:
        (alone,) = results
        said = escape(str(alone.about["statement"]))
        asked = f'<p class="asked">{said}</p>{_commands(results)}'
        head = "<h2>Tables and settings</h2>" if alone.tables else "<h2>Settings</h2>"
        section = (
            f'<section class="result" data-result="0" id="result-0">'
            f"{head}{_left_out(alone)}{_TABLE}{_facts(alone.about)}</section>"
        )
    items = "".join(
        f"<li>{escape(sentence)}</li>" for result in results for sentence in result.unread
    )
    parts = {
        "title": escape(_title(results)),
        "policy": policy(script),
        "style": "\n".join(_web(name) for name in _STYLES),
        "asked": asked,
        "unread": (
            f'<div class="warning" role="alert"><p>Could not be read, and is not shown:</p><ul>{items}</ul></div>'
            if items
            else ""
        ),
        "caption": _caption(results[0].about) if len(results) == 1 else _caption_of_runs(caption),
        **of_claims,
        "claims": filled(_web("claims.html"), of_claims) if of_claims["table"] else "",
        "cards": "" if runs else shown,
        "menu": menu(results) if len(results) > 1 else "",
        "section": section,
        "blobs": blobs,
        "data": data,
        "script": script,
    }
    return filled(_web("report.html"), parts)


def _readable(told: dict[str, Any]) -> dict[str, Any]:
    """With numbers in one format in what is said in words."""
    case = {
        name: numerals_in(value) if isinstance(value, str) else value
        for name, value in told.get("case", {}).items()
    }
    words = ("statement", "caption", "title", "sentence", "says")
    said = {name: numerals_in(told[name]) for name in words if isinstance(told.get(name), str)}
    return told | said | ({"case": case} if case else {})


def filled(template: str, parts: Mapping[str, str]) -> str:
    """A template with its `{{parts}}`, in one pass: data is never a template."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _web(name: str) -> str:
    return (files("saccade.report") / "web" / name).read_text("utf-8")


def _commands(results: list[Result]) -> str:
    commands = list(
        dict.fromkeys(
            str(result.about.get("command", ""))
            for result in results
            if result.about.get("command")
        )
    )
    listed = f'<ul class="commands">{"".join(f"<li><code>{escape(command)}</code></li>" for command in commands)}</ul>'
    if len(commands) > 3:
        return f"<details><summary>{len(commands)} commands made this</summary>{listed}</details>"
    return listed if commands else ""


def _runs(results: list[Result]) -> dict[str, xr.Dataset]:
    """Records of a page that compares watched runs, by name; none of any other page."""
    if len(results) == 1:
        return {}
    found = {
        result.name: result.record
        for result in results
        if result.record is not None and is_watched(result.record)
    }
    return found if len(results) == len(found) else {}


def _title(results: list[Result]) -> str:
    n_claims = sum(len(result.claims) for result in results)
    if runs := _runs(results):
        return f"{len(runs)} runs" + (
            f": {', '.join(map(_heading, results))}" if len(runs) <= _MOST_NAMED else ""
        )
    if len(results) == 1:
        return _heading(results[0])
    return f"How attention learns: {len(results)} results" + (
        f", {n_claims} claims" if n_claims else ""
    )


def _heading(result: Result) -> str:
    return result.heading or result.title or result.name


def _body(result: Result) -> str:
    """What the card of a result opens to."""
    made = (
        f"<p>Made by <code>{escape(str(result.about['command']))}</code></p>"
        if result.about.get("command")
        else ""
    )
    claimed = (
        f'<details class="own-claims"><summary>{len(result.claims)} claims</summary></details>'
        if result.claims
        else ""
    )
    shown = f'<div class="figure-place"></div>{_caption(result.about)}<div class="time-place"></div>{claimed}'
    return f"{shown}{_left_out(result)}{_TABLE}{made}{_facts(result.about)}"


def _left_out(result: Result) -> str:
    return "".join(f'<p class="note">{escape(sentence)}</p>' for sentence in result.left_out)


def _caption(about: Mapping[str, Any]) -> str:
    """What to see. What comes after an empty line, and all but the first of many sentences, is
    folded away.
    """
    said, _, more = str(about.get("caption", "")).partition("\n\n")
    if not said:
        return ""
    lines = said.split("\n")
    n_shown = (
        max(1, sum(length <= _MOST_SAID for length in accumulate(map(len, lines))))
        if more
        else len(lines)
    )
    shown, rest = lines[:n_shown], lines[n_shown:]
    if more and len(shown[0]) > 2 * _MOST_SAID:  # of a head that changes again and again
        shown, rest = [f"{shown[0][:_MOST_SAID].rpartition(', ')[0]} …"], lines
    folded = "\n".join([*rest, more]) if more else ""
    summary = (
        "<summary>More, and what the colours mean</summary>"
        if rest
        else "<summary>What the colours mean</summary>"
    )
    details = (
        f'<details>{summary}<p class="caption">{escape(folded)}</p></details>' if folded else ""
    )
    return f'<div class="caption-place"><p class="caption">{escape(chr(10).join(shown))}</p>{details}</div>\n'


def _caption_of_runs(caption: str) -> str:
    """A paragraph for each run, all of them shown: the end of one run must not be hidden where that
    of another is seen.
    """
    said, _, legend = caption.partition("\n\n")
    runs = "".join(f'<p class="caption">{escape(run)}</p>' for run in said.split("\n") if run)
    details = f'<details><summary>What the colours mean</summary><p class="caption">{escape(legend)}</p></details>'
    return f'<div class="caption-place">{runs}{details}</div>\n' if runs else ""


def _facts(about: dict[str, Any]) -> str:
    """Settings and versions, folded away."""
    told = ((key, value) for key, value in about.items() if key not in _NOT_FACTS)
    rows = "".join(
        f"<tr><th>{escape(key)}</th><td><code>{escape(str(value))}</code></td></tr>"
        for key, value in told
    )
    table = f'<div class="wide"><table class="facts">{rows}</table></div>'
    return f"<details><summary>Settings and versions</summary>{table}</details>"
