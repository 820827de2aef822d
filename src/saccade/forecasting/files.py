"""Write a forecast to OUT/forecast/NAME, atomically: record, table, page, figure, and what a report
says of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.forecasting.figure import figure
from saccade.forecasting.page import events, page, table, told
from saccade.records.checksums import sealed_folder
from saccade.records.json_files import parsed_json, write_json
from saccade.records.store import save_record
from saccade.records.writing import write_csv, write_text
from saccade.report.style import save_figure

if TYPE_CHECKING:
    import xarray as xr


def write_forecast(record: xr.Dataset, out: str | Path) -> Path:
    """The folder that was written, named after the source; an earlier one gives way when all is
    there.
    """
    source = parsed_json(record.attrs["config"])["source"]
    name = re.sub(r"[^\w.-]+", "-", source).strip("-.") or "forecast"
    folder = Path(out) / "forecast" / name
    with sealed_folder(folder) as unfinished:
        save_record(record, unfinished / "record.zarr")
        write_text(unfinished / "forecast.md", page(record))
        write_csv(unfinished / "table.csv", table(record))
        write_csv(unfinished / "events.csv", events(record), ("event", "query", "time"))
        asked = f"What training will do to “{source}”, predicted from its statistics: nothing was trained."
        said = "\n".join(f"{about}: {text}." for about, text in told(record).items())
        about = {"statement": asked, "caption": said, "command": "saccade forecast"}
        write_json(unfinished / "about.json", about | record.attrs)
        save_figure(figure(record), unfinished / "figure")
    return folder
