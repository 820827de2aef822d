"""The figure of a result for a paper: in the width of its column, as PDF or SVG, with the caller's
fonts.

Letters keep their size however narrow the column is; panels go below each other instead. Fonts and
their size are those of the caller's `matplotlibrc`, or of `matplotlib.rc_context` around the call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context

from saccade.errors import InputError, checked_choice
from saccade.records.json_files import regular_file
from saccade.report.drawn import draw_panels
from saccade.report.sources import results_of
from saccade.report.style import write_drawn

FORMATS = ("pdf", "svg", "png", "eps")
_OURS = "drawn by the command `saccade figure`"  # in every figure, where its format names a program
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}
_WIDTHS = (1.0, 40.0)  # inches
_PLACES = (
    Path("results"),
    Path("results/own"),
)  # where `saccade reproduce` and `saccade run` leave their results


def write_figure(
    source: str | Path, out: str | Path, width: str | float = 3.3, panels: Sequence[int] = ()
) -> Path:
    """Draw the panels of one result, all or those of these numbers, `width` inches wide (or
    "84mm"), into the file `out`.
    """
    out = Path(out)
    form = checked_choice("format", out.suffix.lower().removeprefix("."), FORMATS)
    found = results_of([folder_of(source)])
    rows = [spec for result in found for row in result.panels for spec in row]
    if len(found) > 1 or not rows:
        what = (
            f"holds {len(found)} results; name one of them"
            if len(found) > 1
            else "has no panels to draw"
        )
        raise InputError(f"{source} {what}.")
    for number in panels:
        if not 1 <= number <= len(rows):
            raise InputError(f"`panels` must be numbers from 1 to {len(rows)}; got {number}.")
    chosen = [rows[number - 1] for number in panels] or rows
    with rc_context(
        {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "saccade"}
    ):  # letters stay letters
        figure = draw_panels([chosen], inches(width))
        key = "Software" if form == "png" else "Creator"
        write_drawn(figure, out, dpi=300, metadata={key: _OURS})
    return out


def is_figure(file: Path) -> bool:
    """Whether `write_figure` drew a file: it can be drawn again."""
    try:
        with regular_file(file) as content:
            return _OURS.encode() in content.read()
    except (OSError, InputError):
        return False


def folder_of(source: str | Path) -> Path:
    """The folder itself, or that of an experiment's result by its name."""
    folders = [Path(source), *(place / source for place in _PLACES)]
    found = next((folder for folder in folders if folder.is_dir()), None)
    if found is None:
        where = " or ".join(map(str, _PLACES))
        raise InputError(
            f"there is no result {source} in {where}; `saccade reproduce NAME` makes one, `saccade list` shows the names."
        )
    return found


def inches(width: str | float) -> float:
    """3.3, "3.3in", "84mm", "8.4cm" and "240pt" are all about the width of one column of two."""
    parts = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(in|cm|mm|pt)?\s*", str(width))
    value = float(parts[1]) * _INCHES[parts[2] or "in"] if parts else 0.0
    low, high = _WIDTHS
    if not low <= value <= high:
        raise InputError(
            f"`width` must be a length from {low:g} to {high:g} inches, such as 3.3in, 84mm or 240pt; got {width}."
        )
    return value
