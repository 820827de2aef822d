"""Run an experiment, check its claims and write all that belongs to it, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.data.text.sources import found_source
from saccade.experiments import experiment, statement
from saccade.laboratory import heard_assumptions
from saccade.records.claim import Claim
from saccade.records.json_files import write_json
from saccade.records.store import save_record
from saccade.records.writing import whole_folder, write_csv

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment and where it lies."""

    name: str
    folder: Path
    record: xr.Dataset
    claims: list[Claim]


def reproduce(
    name: str,
    out: str | Path = "results",
    config: Any = None,
    command: str = "",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> Outcome:
    """Run experiment `name` and write OUT/NAME: claims, table, its own files, figure (SVG and PNG), record and `about.json`.

    The folder appears whole when everything is written; an earlier one stays as it is until then.
    """
    module = experiment(name)
    folder = Path(out) / name
    with whole_folder(folder) as unfinished:  # before the work: a place that cannot be written to is found out at once
        _find_texts(config if config is not None else module.Config())
        with heard_assumptions() as heard:
            record = module.run(module.Config() if config is None else config, on_progress)
        record.attrs["assumptions"] = json.dumps(heard)
        if hasattr(module, "FULL"):
            record.attrs["size"] = _size(module, config)
        claims = module.claims(record)
        _write(unfinished, module, record, claims, command or f"saccade reproduce {name}")
    return Outcome(name, folder, record, claims)


def _find_texts(config: Any) -> None:
    """Find, or fetch, the texts an experiment names before its processes start: a missing one is one sentence then."""
    for name in (*getattr(config, "texts", ()), getattr(config, "text", "")):
        if name:
            found_source(name)


def _size(module: Any, config: Any) -> str:
    """Which setting of an experiment on real text this was."""
    if config is None or config == module.Config():
        return "quick"
    return "full" if config == module.FULL else "own"


def _write(folder: Path, module: Any, record: xr.Dataset, claims: list[Claim], command: str) -> None:
    from saccade.report.style import save_figure

    save_record(record, folder / "record.zarr")
    write_json(folder / "claims.json", [claim.as_dict() for claim in claims])
    write_csv(folder / "table.csv", module.table(record))
    for name, (columns, extra_rows) in (module.files(record) if hasattr(module, "files") else {}).items():
        write_csv(folder / name, extra_rows, columns)
    save_figure(module.figure(record), folder / "figure")
    caption = module.caption(record) if hasattr(module, "caption") else module.CAPTION
    attributes = {name: value for name, value in record.attrs.items() if name != "assumptions"}  # long, and in the record
    about = {"statement": statement(module), "caption": caption, "command": command, **attributes}
    write_json(folder / "about.json", about)
