"""Write a forecast to OUT/forecast/NAME, atomically: record, table, page and figure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.forecasting.figure import figure
from saccade.forecasting.page import page, table
from saccade.records.checksums import sealed_folder
from saccade.records.json_files import parsed_json
from saccade.records.store import save_record
from saccade.records.writing import write_csv, write_text
from saccade.report.style import save_figure

if TYPE_CHECKING:
    import xarray as xr


def write_forecast(record: xr.Dataset, out: str | Path) -> Path:
    """The folder that was written, named after the source; an earlier one gives way when all is there."""
    name = re.sub(r"[^\w.-]+", "-", parsed_json(record.attrs["config"])["source"]).strip("-.") or "forecast"
    folder = Path(out) / "forecast" / name
    with sealed_folder(folder) as unfinished:
        save_record(record, unfinished / "record.zarr")
        write_text(unfinished / "forecast.md", page(record))
        write_csv(unfinished / "table.csv", table(record))
        save_figure(figure(record), unfinished / "figure")
    return folder
