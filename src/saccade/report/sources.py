"""What a report is made from: folders of experiments, of watched runs, of checkpoint series and of
sweeps, and bare records.

| what lies there                        | read as                                                |
|----------------------------------------|--------------------------------------------------------|
| `checksums.json` and `claims.json`     | a result: its claims, panels, tables, record if any    |
| `summary.csv` or `dataset.zarr`        | a sweep: its table and figure                          |
| `observations`, no `checksums.json`    | a watched run that goes on, or was killed              |
| `NAME.zarr`, or a folder that is Zarr  | a bare record, with claims if it was saved with some   |
| `errata.md` or `findings.md`           | nothing: a page that was made from results             |
| none of these                          | a tree: all of these kinds in it, in order             |

Hidden folders are leftovers of killed processes and are passed over. A file that is not what was
written is not shown, and named.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError
from saccade.measures.timeline import is_watched
from saccade.records.checksums import content, damaged_files, listed
from saccade.records.json_files import MisfitError, misfit, parsed_json
from saccade.records.observation_log import OBSERVATIONS, watched, watched_damage
from saccade.records.store import CLAIMS, load_record
from saccade.records.writing import CHECKSUMS, recover
from saccade.report.timeline import shown_timelines

if TYPE_CHECKING:
    import xarray as xr

_DEPTH = 4  # of folders below a tree: results/observed/NAME/record.zarr
_CLAIM = {
    **dict.fromkeys(
        (
            "title",
            "label",
            "sentence",
            "says",
            "verdict",
            "verdict_says",
            "against",
            "breaks",
            "bound_set",
        ),
        str,
    ),
    **dict.fromkeys(("measured", "interval", "agrees"), object),
    "case": dict,
    "relation": dict,
    "bounds": list,
    "assumptions": [dict],
    "statement": {
        **dict.fromkeys(("key", "title", "place"), str),
        "formula": [str],
        "errata": [{"number": object, "printed": [str], "corrected": [str]}],
    },
}
_PANEL = {  # what each kind of panel is drawn from
    "line": {"title": object, "x": object, "y": object, "series": list},
    "bars": {"title": object, "x": object, "y": object, "labels": list, "groups": list},
    "heat": {
        **dict.fromkeys(("title", "x", "y", "min", "max", "scale"), object),
        "rows": int,
        "columns": int,
        "values": list,
    },
}
_FILM = {
    **dict.fromkeys(("kind", "sentence", "clock", "outlines"), str),
    "tokens": [str],
    "queries": [str],
    "roles": [str],
    "times": list,
    "values": [list],
    "theory": object,
    "marks": [{"time": object, "label": str}],
}
_OLD_CLAIMS = "claims.json was written by another version of Saccade; run the experiment again to see its claims"
_NOTHING = "Nothing of it can be read."
_MOST_TABLE = 4_000_000  # bytes of a table that a page carries; larger ones are named, with the place where they lie


@dataclass(frozen=True)
class Result:
    """One source: what was asked, what is claimed, what was seen."""

    name: str
    about: dict[str, Any]
    claims: list[dict[str, Any]] = field(default_factory=list)
    record: xr.Dataset | None = None
    panels: list[list[dict[str, Any]]] = field(
        default_factory=list
    )  # rows of what `drawn.py` and the page draw
    film: dict[str, Any] | None = None  # attention as it moves: `lab/film.py`
    svg: str = ""
    tables: dict[str, str] = field(default_factory=dict)  # name of a CSV file -> its text
    left_out: list[str] = field(default_factory=list)  # in sentences
    unread: list[str] = field(
        default_factory=list
    )  # what lies there but cannot be read, and is not shown; in sentences
    folder: Path | None = None  # where it lies; None in memory
    title: str = ""  # what a menu calls it, if not by its name
    heading: str = ""  # what a page calls it, if not so

    def rows(self, table: str) -> list[dict[str, str]]:
        """Rows of a table; none if there is no such table, or it is none."""
        try:
            return list(csv.DictReader(io.StringIO(self.tables.get(table, ""))))
        except csv.Error:  # such as a field of more than 131,072 characters
            return []


def results_of(sources: Sequence[str | Path]) -> list[Result]:
    """Everything that can be shown of `sources`, each once and under a name of its own; and what
    cannot.
    """
    found = [result for source in sources for result in _results(Path(source))]
    if found and all(result.about["statement"] == _NOTHING for result in found):
        raise InputError(" ".join(f"{sentence}." for result in found for sentence in result.unread))
    if not found:
        named = ", ".join(str(source) for source in sources) or "nothing"
        raise InputError(
            f"{named} holds no results to report; run `saccade reproduce --out {named}` first."
        )
    once = list({result.folder: result for result in found}.values())
    names = [
        _name_among([other for other in once if other.name == result.name], result)
        for result in once
    ]
    pairs = zip(once, names, strict=True)
    return [
        result if result.name == name else replace(result, name=name, title=name, heading="")
        for result, name in pairs
    ]


def result_of_record(record: xr.Dataset) -> Result:
    """A record in memory."""
    panels, said = _timeline(record)
    return Result("record", _about_record(record) | said, record=record, panels=panels)


def _results(path: Path) -> list[Result]:
    if not path.exists():
        raise InputError(
            f"there is no folder {path}; a report is made from folders of results and from records (*.zarr)."
        )
    if not path.is_dir():
        raise InputError(
            f"{path} is a file; a report is made from folders of results and from records (*.zarr)."
        )
    recover(path)
    own = _read(path)
    if own is not None:
        return [own]

    def place(result: Result) -> float:
        """Experiments come in the order of their registry; all else after them, oldest first."""
        place = result.about.get("place")
        return place if isinstance(place, int | float) else math.inf

    folders = sorted(_folders(path, _DEPTH), key=lambda folder: folder.stat().st_mtime_ns)
    return sorted(
        (result for folder in folders if (result := _read(folder)) is not None), key=place
    )


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
    if has(f"{OBSERVATIONS}/about.json") and not has(CHECKSUMS):
        return "watched"
    return (
        "result"
        if has(CHECKSUMS, CLAIMS, "record.zarr") and not has("errata.md", "findings.md")
        else ""
    )


def _read(folder: Path) -> Result | None:
    """None for a folder that is somebody else's."""
    read = {
        "record": _read_record,
        "sweep": _read_sweep,
        "watched": _read_watched,
        "result": _read_result,
    }.get(_kind(folder))
    if read is None:
        return None
    try:
        result = read(folder)
    except InputError as error:
        result = Result(
            folder.resolve().name, {"statement": _NOTHING}, unread=[str(error).removesuffix(".")]
        )
    place = folder.resolve()
    words = result.name.replace("-", " ").capitalize() if result.about.get("part") else ""
    unread = [f"{place}: {what}" for what in result.unread]
    return replace(
        result,
        folder=place,
        title=str(result.about.get("title") or words),
        heading=heading_of(_label(result.about), place),
        unread=unread,
    )


def heading_of(label: str, folder: Path) -> str:
    """A label with the name of its folder: a label alone may be that of several runs. Nothing
    without a label.
    """
    return f"{label} ({folder.name})" if label not in ("", folder.name) else label


def _read_record(folder: Path) -> Result:
    record, files = load_record(folder), _Files(folder)
    name = folder.stem if folder.stem != "record" else folder.resolve().parent.name
    panels, said = _timeline(record)
    about = _about_record(record) | said
    return Result(name, about, files.claims, record, panels, unread=list(files.wrong.values()))


def _read_result(folder: Path) -> Result:
    found = _filled(folder, "record.zarr")
    said = _about_record(found.record) if found.record is not None else {}
    panels, told = ([], {}) if found.record is None or found.panels else _timeline(found.record)
    about = {"statement": "What was asked cannot be read."} | said | found.about | told
    return replace(found, about=about, panels=found.panels or panels)


def _read_sweep(folder: Path) -> Result:
    """A sweep: its summary has a row for each run, its dataset the swept axes."""
    found = _filled(folder, "dataset.zarr")
    statuses = found.record.get("status") if found.record is not None else None
    n_runs = len(found.rows("summary.csv")) if statuses is None else statuses.size
    said = {"statement": f"A sweep of {n_runs} runs.", "caption": "", "command": "saccade sweep"}
    return replace(
        found,
        about=said | (dict(found.record.attrs) if found.record is not None else {}) | found.about,
    )


def _loaded(folder: Path, record: str) -> xr.Dataset:
    """Of a watched run from its observations, if they are whole: large maps then lie on disk, not
    in memory.
    """
    if (folder / OBSERVATIONS).is_dir():
        with suppress(InputError):
            return watched(folder)
    return load_record(folder / record)


def _filled(folder: Path, record: str) -> Result:
    """All of a folder that is what was written; and what is not."""
    files = _Files(folder)
    about = files.json("about.json") or {}
    claims, text = files.claims, files.text("figure.svg")
    large = [name for name in files.tables if (files.folder / name).stat().st_size > _MOST_TABLE]
    left_out = [
        f"{name} is larger than {_MOST_TABLE // 1_000_000} MB and lies in {files.folder} only."
        for name in large
    ]
    tables = {name: files.text(name) for name in files.tables if name not in large}
    panels = _panels(files)
    loaded = (
        _loaded(folder, record)
        if f"{record}/{CHECKSUMS}" in files.listed and record not in files.wrong
        else None
    )
    return Result(
        _label(about) or folder.resolve().name,
        about,
        claims,
        loaded,
        panels,
        files.json("film.json", _FILM),
        text[text.index("<svg") :] if "<svg" in text else "",
        tables,
        left_out,
        list(files.wrong.values()),
    )


class _Files:
    """Files of a folder that its checksums list. What is wrong with one is kept in `wrong`, by the
    first part of its name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        wrong = damaged_files(folder)
        if CHECKSUMS in wrong:
            raise InputError(
                f"{CHECKSUMS} {wrong[CHECKSUMS]}, so that nothing in it can be relied on"
            )
        self.wrong = {
            file.split("/")[0]: f"{file} {what}" for file, what in reversed(wrong.items())
        }
        self.listed = listed(folder)

    @property
    def tables(self) -> list[str]:
        return sorted(
            name
            for name in self.listed
            if name.endswith(".csv") and "/" not in name and name not in self.wrong
        )

    def text(self, name: str) -> str:
        """What a file holds; nothing if it is not listed, or is not what was written."""
        if name not in self.listed or name in self.wrong:
            return ""
        try:
            return content(self.folder, name, self.listed).decode("utf-8", errors="replace")
        except InputError as error:
            self.wrong[name] = str(error).removesuffix(".")
            return ""

    def json(self, name: str, shape: Any = dict, misfit_says: str = "") -> Any:
        """The same of a JSON file; None if there is none of this shape. `misfit_says`: what to say
        of one of another shape.
        """
        if not (text := self.text(name)):
            return None
        try:
            return parsed_json(text, shape)
        except InputError as error:
            said = misfit_says if isinstance(error, MisfitError) else ""
            self.wrong[name] = said or f"{name} cannot be read: {error}".removesuffix(".")
            return None

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Those that a page can show."""
        return self.json(CLAIMS, [_CLAIM], _OLD_CLAIMS) or []


def _read_watched(folder: Path) -> Result:
    record, wrong = watched(folder), watched_damage(folder)
    panels, said = _timeline(record)
    about = _about_record(record) | said
    return Result(
        _label(about) or folder.resolve().name,
        about,
        record=record,
        panels=panels,
        unread=[wrong] if wrong else [],
    )


def _label(about: dict[str, Any]) -> str:
    """What a watched run was called by whoever watched it; nothing if it was not."""
    return str((_config(about) if "config" in about else about).get("label") or "")


def _config(about: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a run, as its record keeps it; empty if that cannot be read."""
    try:
        return parsed_json(about.get("config", "{}"))
    except InputError:
        return {}


def _timeline(record: xr.Dataset) -> tuple[list[list[dict[str, Any]]], dict[str, str]]:
    """Of a watched model, its heads over time as a panel and what it says; nothing of other
    records.
    """
    if not is_watched(record):
        return [], {}
    panels, said = shown_timelines(record)
    return panels, {"caption": said}


def _about_record(record: xr.Dataset) -> dict[str, Any]:
    """What a record says of itself, in the words of `about.json`."""
    task = _config(record.attrs).get("task", "a record")
    dynamics = str(record.attrs.get("dynamics", "a record")).removesuffix(
        f", {task}"
    )  # a system of one's own is its task
    dynamics = re.sub(r"^(\([A-C]\)|[A-C]:) ", "", dynamics)  # which engine; the settings have it
    return {"statement": f"{task}: {dynamics}.", "caption": "", "command": "", **record.attrs}


def _panels(files: _Files) -> list[list[dict[str, Any]]]:
    """Rows of panels; none if one of them is not a panel, since the figure is then drawn from
    `figure.svg`.
    """
    rows = files.json("panels.json", list) or []
    if misfit(rows, [[{"kind": str}]]):
        return []
    unknown = any(misfit(panel, _PANEL.get(panel["kind"], int)) for row in rows for panel in row)
    return [] if unknown else [row for row in rows if row]


def _name_among(same: list[Result], result: Result) -> str:
    """Its name, with as many of the folders above it as no other of that name has."""
    if len(same) == 1:
        return result.name
    folders = [other.folder.parts for other in same if other.folder is not None]
    parts = result.folder.parts if result.folder is not None else ()
    depths = (
        depth
        for depth in range(2, len(parts) + 1)
        if sum(other[-depth:] == parts[-depth:] for other in folders) == 1
    )
    return Path(*parts[-next(depths, len(parts)) :]).as_posix()
