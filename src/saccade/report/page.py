"""One offline HTML page from a folder of results: verdicts first, then each experiment's figure, claims and provenance."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, NamedTuple

from saccade.errors import InputError
from saccade.records.claim import OUTSIDE
from saccade.records.store import write_text

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --bad: #d55e00; --good: #009e73; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; background: white; } figcaption { max-width: 50rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.expected { color: var(--good); font-weight: 600; } .unexpected { color: var(--bad); font-weight: 600; }
code { overflow-wrap: anywhere; }
"""
_COLUMNS = ("statement", "source", "assumptions", "predicted", "measured", "tolerance", "verdict")


def write_page(out: str | Path) -> Path:
    """Write OUT/report.html from every experiment folder in OUT and return its path."""
    folder = Path(out)
    in_order = sorted(folder.glob("[!.]*/about.json"), key=lambda path: path.stat().st_mtime_ns)  # as they were run
    results = [result for path in in_order if (result := _read(path.parent))]
    if not results:
        raise InputError(f"{folder} holds no results to report; run `saccade reproduce --out {folder}` first.")
    return _written(folder, results)


def write_own_page(folder: Path) -> Path:
    """Write FOLDER/report.html from what lies in the folder itself."""
    result = _read(folder)
    if result is None:
        raise InputError(f"{folder} holds no result to report.")
    return _written(folder, [result])


def _written(folder: Path, results: list[_Result]) -> Path:
    claims = [claim for result in results for claim in result.claims]
    sections = [_section(result) for result in results]
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Saccade report</title><style>{_STYLE}</style><h1>Saccade report</h1>{_summary(claims) if claims else ''}"
        f"{''.join(sections)}</html>\n"
    )
    write_text(folder / "report.html", page)
    return folder / "report.html"


class _Result(NamedTuple):
    name: str
    about: dict[str, Any]
    claims: list[dict[str, Any]]
    svg: str


def _read(folder: Path) -> _Result | None:
    """What an experiment left in its folder; None for a folder that is somebody else's."""
    try:
        about, claims = (json.loads((folder / name).read_text("utf-8")) for name in ("about.json", "claims.json"))
        svg = (folder / "figure.svg").read_text("utf-8")
        return _Result(folder.name, about, claims, svg[svg.index("<svg") :])
    except (OSError, ValueError):
        return None


def _summary(claims: list[dict[str, Any]]) -> str:
    as_expected = sum(claim["verdict"] == claim["expected"] for claim in claims)
    kinds = [f"{sum(c['verdict'] == kind for c in claims)} {kind}" for kind in sorted({c["verdict"] for c in claims})]
    surprises = sum(claim["verdict"] not in (claim["expected"], OUTSIDE) for claim in claims)
    state = "unexpected" if surprises else "expected"
    note = "A printed formula that is known to be wrong is expected to fail. A claim outside its assumptions decides nothing."
    return f'<p class="{state}">{as_expected} of {len(claims)} verdicts are as expected: {", ".join(kinds)}.</p><p>{note}</p>'


def _section(result: _Result) -> str:
    about, name = result.about, _text(result.name)
    rows = "".join(_row(claim) for claim in result.claims)
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    claims = f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>' if rows else ""
    shown = ("statement", "caption", "command")
    facts = "".join(f"<tr><th>{_text(k)}</th><td><code>{_text(v)}</code></td></tr>" for k, v in about.items() if k not in shown)
    return (
        f'<section id="{name}"><h2>{name}</h2><p>{_text(about["statement"])}</p>'
        f"<figure>{result.svg}<figcaption>{_text(about['caption'])}</figcaption></figure>"
        f"{claims}"
        f"<p>Made by <code>{_text(about['command'])}</code></p>"
        f'<details><summary>Settings and versions</summary><div class="wide"><table>{facts}</table></div></details></section>'
    )


def _row(claim: dict[str, Any]) -> str:
    as_expected, outside = claim["verdict"] == claim["expected"], claim["verdict"] == OUTSIDE
    state = "expected" if as_expected else "" if outside else "unexpected"
    asked = claim["assumptions"]
    assumptions = "<br>".join(f"{'met' if met else '<b>not met</b>'}: {_text(name)}" for name, met in asked.items()) or "none"
    numbers = "".join(f'<td class="number">{_number(claim[key])}</td>' for key in ("predicted", "measured", "tolerance"))
    return (
        f"<tr><td>{_text(claim['statement'])}</td><td>{_text(claim['source'])}</td><td>{assumptions}</td>{numbers}"
        f'<td class="{state}">{_text(claim["verdict"])}</td></tr>'
    )


def _number(value: float | None) -> str:
    return "missing" if value is None else f"{value:.4g}"


def _text(value: object) -> str:
    return html.escape(str(value))
