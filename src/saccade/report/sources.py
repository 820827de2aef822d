"""What a report is made from: folders of experiments, of watched runs, of checkpoint series and of sweeps, and bare records.

| what lies there                        | read as                                                |
|----------------------------------------|--------------------------------------------------------|
| `about.json` and `claims.json`         | a result: its claims, panels, tables, record if any    |
| `summary.csv` or `dataset.zarr`        | a sweep: its table and figure                          |
| `observations/about.json`, no record   | a watched run that goes on, or was killed              |
| `NAME.zarr`, or a folder that is Zarr  | a bare record, with claims if it was saved with some   |
| none of these                          | a tree: everything of these kinds in it, oldest first  |

Hidden folders are leftovers of killed processes and are passed over.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError
from saccade.records.json_files import read_json
from saccade.records.observation_log import watched
from saccade.records.store import CLAIMS, load_record

if TYPE_CHECKING:
    import xarray as xr

_DEPTH = 4  # of folders below a tree: results/observed/NAME/record.zarr
_CLAIM = {"title", "label", "sentence", "statement", "case", "relation", "bounds", "measured", "interval", "says", "assumptions"}
_CLAIM |= {"verdict", "verdict_says", "agrees", "expected", "against", "breaks"}
_STATEMENT = {"key", "title", "place", "formula", "errata"}
_PANEL = {  # what each kind of panel is drawn from
    "line": {"title", "x", "y", "series"},
    "bars": {"title", "x", "y", "labels", "groups"},
    "heat": {"title", "x", "y", "rows", "columns", "values", "min", "max", "scale"},
}
_OLD_CLAIMS = (
    "Its claims.json was written by another version of Saccade and is not shown; run the experiment again to see its claims."
)
_MOST_TABLE = 4_000_000  # bytes of a table that a page carries; larger ones are named, with the place where they lie


@dataclass(frozen=True)
class Result:
    """One source: what was asked, what is claimed, what was seen."""

    name: str
    about: dict[str, Any]
    claims: list[dict[str, Any]] = field(default_factory=list)
    record: xr.Dataset | None = None
    panels: list[list[dict[str, Any]]] = field(default_factory=list)  # rows of what `drawn.py` and the page draw
    svg: str = ""
    tables: dict[str, str] = field(default_factory=dict)  # name of a CSV file -> its text
    left_out: list[str] = field(default_factory=list)  # in sentences
    folder: Path | None = None  # where it lies; None in memory

    def rows(self, table: str) -> list[dict[str, str]]:
        """Rows of a table; none if there is no such table."""
        return list(csv.DictReader(io.StringIO(self.tables.get(table, ""))))


def results_of(sources: Sequence[str | Path]) -> list[Result]:
    """Everything that can be shown of `sources`, each once and under a name of its own."""
    found = [result for source in sources for result in _results(Path(source))]
    if not found:
        named = ", ".join(str(source) for source in sources) or "nothing"
        raise InputError(f"{named} holds no results to report; run `saccade reproduce --out {named}` first.")
    return _named_apart(found)


def result_of_record(record: xr.Dataset, name: str = "record") -> Result:
    """A record in memory."""
    return Result(name, _about_record(record), record=record)


def _results(path: Path) -> list[Result]:
    if not path.exists():
        raise InputError(f"there is no {path}; a report is made from folders of results and from records (*.zarr).")
    if not path.is_dir():
        raise InputError(f"{path} is a file; a report is made from folders of results and from records (*.zarr).")
    own = _read(path)
    if own is not None:
        return [own]
    folders = sorted(_folders(path, _DEPTH), key=lambda folder: folder.stat().st_mtime_ns)
    return [result for folder in folders if (result := _read_or_none(folder)) is not None]


def _folders(path: Path, depth: int) -> Iterator[Path]:
    """Folders in a tree that hold something; nothing is sought inside one that does."""
    for child in sorted(path.iterdir()) if depth else ():
        if child.is_dir() and not child.name.startswith("."):
            if _kind(child):
                yield child
            else:
                yield from _folders(child, depth - 1)


def _kind(folder: Path) -> str:
    def has(*names: str) -> bool:
        return any((folder / name).exists() for name in names)

    if has(".zmetadata", ".zgroup", "zarr.json"):
        return "record"
    if has("summary.csv", "dataset.zarr"):
        return "sweep"
    if has("about.json", "record.zarr"):
        return "result"
    return "watched" if has("observations/about.json") else ""


def _read_or_none(folder: Path) -> Result | None:
    """None for a folder in a tree that is somebody else's."""
    try:
        return _read(folder)
    except InputError:
        return None


def _read(folder: Path) -> Result | None:
    result = _read_kind(folder, _kind(folder))
    return None if result is None else replace(result, folder=folder.resolve())


def _read_kind(folder: Path, kind: str) -> Result | None:
    if kind == "record":
        record, (claims, left_out) = load_record(folder), _claims(folder)
        name = folder.stem if folder.stem != "record" else folder.resolve().parent.name
        return Result(name, _about_record(record), claims, record, left_out=left_out)
    if kind == "result":
        return _read_result(folder)
    if kind == "sweep":
        return _read_sweep(folder)
    return _read_watched(folder) if kind == "watched" else None


def _read_result(folder: Path) -> Result | None:
    record = load_record(folder / "record.zarr") if (folder / "record.zarr").exists() else None
    about = _json(folder / "about.json") or (_about_record(record) if record is not None else None)
    if not isinstance(about, dict) or "statement" not in about:
        return None
    return _filled(folder, about, record)


def _read_sweep(folder: Path) -> Result:
    """A sweep: its summary has a row for each run, its dataset the swept axes."""
    record = load_record(folder / "dataset.zarr") if (folder / "dataset.zarr").exists() else None
    about = _json(folder / "about.json") or {}
    said = {"caption": "", "command": "saccade sweep"} | (dict(record.attrs) if record is not None else {})
    found = _filled(folder, said | about, record)
    return replace(found, about={"statement": f"A sweep of {len(found.rows('summary.csv'))} runs."} | found.about)


def _filled(folder: Path, about: dict[str, Any], record: xr.Dataset | None) -> Result:
    """A result with everything else that lies in its folder."""
    (tables, left_out), (claims, not_shown) = _tables(folder), _claims(folder)
    return Result(folder.resolve().name, about, claims, record, _panels(folder), _svg(folder), tables, [*not_shown, *left_out])


def _claims(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Claims that a page can show, and what it says of others."""
    claims = _json(folder / CLAIMS) or []
    readable = isinstance(claims, list) and all(map(_is_claim, claims))
    return (claims, []) if readable else ([], [_OLD_CLAIMS])


def _read_watched(folder: Path) -> Result:
    record = watched(folder)
    return Result(folder.resolve().name, _about_record(record), record=record)


def _about_record(record: xr.Dataset) -> dict[str, Any]:
    """What a record says of itself, in the words of `about.json`."""
    try:
        config = json.loads(record.attrs.get("config", "{}"))
    except (TypeError, ValueError):
        config = {}
    task = config.get("task", "a record") if isinstance(config, dict) else "a record"
    dynamics = str(record.attrs.get("dynamics", "a record"))
    return {"statement": f"{task}: {dynamics}.", "caption": "", "command": "", **record.attrs}


def _tables(folder: Path) -> tuple[dict[str, str], list[str]]:
    tables, left_out = {}, []
    for path in sorted(folder.glob("*.csv")):
        if path.stat().st_size > _MOST_TABLE:
            left_out.append(f"{path.name} is larger than {_MOST_TABLE // 1_000_000} MB and lies in {path.parent} only.")
        else:
            tables[path.name] = path.read_text("utf-8", errors="replace")
    return tables, left_out


def _is_claim(entry: Any) -> bool:
    """Whether an entry of `claims.json` says all that a page shows."""
    return (
        isinstance(entry, dict)
        and entry.keys() >= _CLAIM
        and isinstance(entry["statement"], dict)
        and entry["statement"].keys() >= _STATEMENT
    )


def _panels(folder: Path) -> list[list[dict[str, Any]]]:
    """Rows of panels; none if one of them is not a panel, since the figure is then drawn from `figure.svg`."""
    rows = _json(folder / "panels.json")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return []
    known = (isinstance(panel, dict) and panel.keys() >= _PANEL.get(panel.get("kind", ""), {""}) for row in rows for panel in row)
    return [row for row in rows if row] if all(known) else []


def _svg(folder: Path) -> str:
    try:
        text = (folder / "figure.svg").read_text("utf-8")
        return text[text.index("<svg") :]
    except (OSError, ValueError):
        return ""


def _json(path: Path) -> Any:
    try:
        return read_json(path, object)
    except InputError:
        return None


def _named_apart(results: list[Result]) -> list[Result]:
    """A folder that was given twice is shown once; results of one name are told apart by the folders above them."""
    once = list({result.folder: result for result in results}.values())
    return [replace(result, name=_name_among([other for other in once if other.name == result.name], result)) for result in once]


def _name_among(same: list[Result], result: Result) -> str:
    """Its name, with as many of the folders above it as no other of that name has."""
    if len(same) == 1:
        return result.name
    folders = [other.folder.parts for other in same if other.folder is not None]
    parts = result.folder.parts if result.folder is not None else ()
    depths = (depth for depth in range(2, len(parts) + 1) if sum(other[-depth:] == parts[-depth:] for other in folders) == 1)
    return Path(*parts[-next(depths, len(parts)) :]).as_posix()
