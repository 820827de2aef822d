"""Records show themselves in notebooks: `record.saccade` if made or loaded by Saccade's names,
`saccade.report.show(record)` at any time.

    record.saccade                            the record's page, in the cell
    record.saccade.figure("loss", seed=3)     one figure of that page, drawn by Matplotlib
    record.saccade.figures()                  their names
    record.saccade.save("page.html")          the page as a file
    record.saccade.losses()                   the loss of every step of a watched run
    record.saccade.assumptions()              the theory's assumptions on this run, with their numbers

xarray's own display of a dataset stays as it is.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from saccade.errors import checked_choice, checked_count, checked_kind
from saccade.records.json_files import parsed_json
from saccade.records.step_losses import step_losses
from saccade.records.writing import write_html
from saccade.theories.condition import Condition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT = 720  # pixels of a cell's frame: the first screen of the page


@xr.register_dataset_accessor("saccade")
class Shown:
    """What of a record can be looked at."""

    def __init__(self, record: xr.Dataset) -> None:
        self._record = record

    def figures(self) -> list[str]:
        """Names of all figures of the record."""
        return [figure["name"] for figure in self._specs()]

    def figure(
        self, name: str | None = None, *, time: float | None = None, **chosen: Any
    ) -> Figure:
        """One figure, the first if none is named, of one run (`seed=3`), at the last moment that is
        not after `time`.
        """
        from saccade.report.drawn import draw
        from saccade.report.specs import choice_of, still

        specs = {spec["name"]: spec for spec in self._specs()}
        spec = specs[checked_choice("figure", name or next(iter(specs), ""), specs)]
        choice = choice_of(spec, **chosen)
        times = spec["time"][tuple(choice)] if spec["time"].ndim > 1 else spec["time"]
        moment = (
            len(times) - 1
            if time is None
            else max(0, int(np.searchsorted(times, time, side="right")) - 1)
        )
        return draw(still(spec, choice, moment), None if time is None else float(times[moment]))

    def page(self) -> str:
        """The whole page as HTML."""
        from saccade.report.page import page_of
        from saccade.report.sources import result_of_record

        return page_of([result_of_record(self._record)])

    def save(self, path: str | Path) -> Path:
        """Write the page to a file."""
        write_html(Path(path), self.page())
        return Path(path)

    def assumptions(self, rate: int = 0) -> list[Condition]:
        """What the theory assumes of this run: `print(condition)` says it, `condition.holds` tells
        whether it is met. `rate` counts the pairs of learning rates. None for a model of one's own,
        which no theory here is about.
        """
        pairs = parsed_json(self._record.attrs.get("assumptions", "[]"), [dict])
        chosen = (
            pairs[checked_count("rate", rate, low=0, high=len(pairs) - 1)]["conditions"]
            if pairs
            else []
        )
        return [Condition.of(condition) for condition in chosen]

    def losses(self) -> xr.DataArray:
        """The loss of every step of a watched run (step), as it was told."""
        return step_losses(self._record)

    def _specs(self) -> list[dict[str, Any]]:
        from saccade.report.specs import figures

        return figures(self._record)

    def __repr__(self) -> str:
        """For a terminal, which cannot show the page."""
        return "<a record as a page: .figures() names its figures, .figure(NAME) draws one, .save(FILE) writes the page>"

    def _repr_html_(self) -> str:
        # A frame of its own: neither the notebook's style nor ours reaches into the other, and the
        # page's content policy holds.
        page = html.escape(self.page(), quote=True)
        style = f"width:100%;height:{_HEIGHT}px;border:0"
        return f'<iframe title="Saccade record" sandbox="allow-scripts allow-downloads" srcdoc="{page}" style="{style}"></iframe>'


def show(record: xr.Dataset) -> Shown:
    """A record as its page; a notebook displays what this returns."""
    return Shown(checked_kind("record", record, xr.Dataset))
