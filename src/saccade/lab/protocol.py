"""An experiment: one object with its question, settings, measurement, claims and figure.

    EXPERIMENT = Experiment("two-tokens", Settings, measure, claims, panels, variables={...}, dynamics="B: gradient flow")

`measure(settings, on_progress)` gives arrays by name, which become a record with the axes, units
and definitions of `variables`; or it gives a record itself. `saccade reproduce NAME` and `saccade
run ./mine.py` then do the rest.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saccade.errors import InputError, shortened
from saccade.lab.claim import Claim
from saccade.lab.experiment import Progress, Result, silent
from saccade.lab.film import Film
from saccade.lab.panel import Layout, specs, table_rows
from saccade.lab.settings import check_settings
from saccade.later import xr
from saccade.records.json_files import parsed_json
from saccade.records.schema import make_record, settings_of, with_settings
from saccade.theory.condition import Condition, met

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Variable(NamedTuple):
    """What a measured array is: the names of its axes, separated by spaces, its unit, and its
    definition in words.

    `theory_of` names the array of the same axes that it predicts: a report draws the two in one
    chart, where it is `called` so.
    """

    axes: str
    unit: str
    definition: str
    theory_of: str = ""
    called: str = "theory"


class Measured(NamedTuple):
    """What `measure` found: arrays by the names of `variables`, coordinates by axis, and attributes
    to store with them.
    """

    values: Mapping[str, Any]
    coords: Mapping[str, Any]
    attributes: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Experiment:
    """One experiment: what is measured, claimed and drawn. The first five fields are needed, the
    others only where they help.

    | field       | meaning                                                                                                   |
    |-------------|-----------------------------------------------------------------------------------------------------------|
    | `name`      | name of the experiment and of its results folder: `two-tokens`                                            |
    | `settings`  | a frozen dataclass; its defaults are what `saccade reproduce` runs, the text under a field is its help     |
    |             | (`lab/settings.py` says which values they may have)                                                        |
    | `measure`   | `(settings, on_progress)` -> `Measured`, or a record                                                      |
    | `claims`    | `(record)` -> claims                                                                                      |
    | `panels`    | `(record)` -> panels, or rows of panels                                                                   |
    | `caption`   | what to look at in the figure; may be a function of the record                                            |
    | `question`  | the question, for somebody who has not read the paper; all experiments on text have one                   |
    | `finding`   | the answer in a sentence or two, with measured numbers: `{title of a claim*:.2f}`                         |
    | `answer`    | of the first of several experiments with one question: their answer together, in at most two sentences    |
    | `caveat`    | what would change the answer                                                                              |
    | `picture`   | which panel of the first row represents the figure on its card and on the page of findings                |
    | `film`      | `(record)` -> a `Film`: attention as it moves, on the first screen of the report                          |
    | `variables` | axes, unit and definition of every measured array                                                        |
    | `dynamics`  | what was run, in words                                                                                    |
    | `time_unit` | unit of the axis `time`                                                                                   |
    | `full`      | settings at the paper's own size, if the defaults are smaller                                             |
    | `table`     | `(record)` -> rows of `table.csv`; if not given, the numbers in the figure (`cell_rows`: what is measured)|
    | `files`     | `(record)` -> further CSV files: name -> (columns, rows)                                                  |
    | `headlines` | `(record)` -> numbers that a sweep maps over its settings                                                 |
    | `together`  | `(several settings, on_progress)` -> a record each, where one call can run them at once                   |
    | `free`      | settings in which configurations that run together may differ                                             |
    """

    name: str
    settings: type
    measure: Callable[[Any, Progress], Measured | xr.Dataset]
    claims: Callable[[xr.Dataset], Iterable[Claim]]
    panels: Callable[[xr.Dataset], Layout]
    caption: str | Callable[[xr.Dataset], str] = ""
    question: str = ""
    finding: str = ""
    answer: str = ""
    caveat: str = ""
    picture: int = 0
    film: Callable[[xr.Dataset], Film] | None = None
    variables: Mapping[str, Variable] = field(default_factory=dict)
    dynamics: str = ""
    time_unit: str = "steps"
    full: Any = None
    table: Callable[[xr.Dataset], Sequence[Mapping[str, Any]]] | None = None
    files: Callable[[xr.Dataset], Mapping[str, tuple[list[str], list[dict[str, Any]]]]] | None = (
        None
    )
    headlines: Callable[[xr.Dataset], Mapping[str, float]] | None = None
    together: Callable[[Sequence[Any], Progress], list[xr.Dataset]] | None = None
    free: tuple[str, ...] = ()

    def run(self, settings: Any = None, on_progress: Progress = silent) -> xr.Dataset:
        """The record of one run, with its settings; the defaults if none are given."""
        config, started = self.settings() if settings is None else settings, time.perf_counter()
        check_settings(config)
        found = self.measure(config, on_progress)
        if isinstance(found, Measured):
            found = self._record(found, time.perf_counter() - started)
        elif not isinstance(found, xr.Dataset):
            raise InputError(
                f"`measure` of {self.name} must give a record or Measured(values, coords); it gave {shortened(found)}."
            )
        importlib.import_module(
            "saccade.report.notebook"
        )  # from now on records show themselves: `record.saccade`
        return with_settings(found, config)

    def result(self, settings: Any, on_progress: Progress) -> Result:
        """One run as the result of an experiment that is a function."""
        record = self.run(settings, on_progress)
        given = self.claims(record)
        claims = list(given) if isinstance(given, Iterable) else [given]
        for claim in claims:
            if not isinstance(claim, Claim):
                raise InputError(
                    f"`claims` of {self.name} must give claims, which a Case makes; it gave {shortened(claim)}."
                )
        panels: Any = self.panels(record)
        rows = panels if panels and isinstance(panels[0], list | tuple) else [list(panels)]
        tables: Any = {"table": self.rows(record)}
        for name, (_, extra) in (self.files(record) if self.files is not None else {}).items():
            tables[name.removesuffix(".csv")] = list(extra)
        caption = self.caption if isinstance(self.caption, str) else self.caption(record)
        numbers = dict(self.headlines(record)) if self.headlines is not None else {}
        left_out = parsed_json(record.attrs.get("left_out", "[]"), [str])
        film = self.film(record) if self.film is not None else None
        return Result("", record, claims, rows, caption, tables, film, left_out, numbers)

    def run_together(
        self, several: Sequence[Any], on_progress: Progress = silent
    ) -> list[xr.Dataset]:
        """A record for each of several settings, in one call where the experiment can do that."""
        for settings in several:
            check_settings(settings)
        if self.together is None:
            return [self.run(settings, on_progress) for settings in several]
        found = self.together(several, on_progress)
        return [
            with_settings(record, settings) for record, settings in zip(found, several, strict=True)
        ]

    def as_published(self, record: xr.Dataset, *free: str) -> Condition:
        """Whether a record was made with the default settings, but for those that are free to be
        others.
        """
        made, defaults = asdict(self.settings_of(record)), asdict(self.settings())
        return met(
            "the published settings",
            all(made[name] == defaults[name] for name in defaults if name not in free),
        )

    def settings_of(self, record: xr.Dataset) -> Any:
        return settings_of(record, self.settings)

    def figure(
        self, record: xr.Dataset, width: float | None = None, height: float | None = None
    ) -> Figure:
        """The panels drawn by Matplotlib, in inches; as large as they need if no size is given."""
        from saccade.report.drawn import draw_panels  # here, as a run needs no Matplotlib

        return draw_panels(self.specs(record), width, height)

    def specs(self, record: xr.Dataset) -> list[list[dict[str, Any]]]:
        """Rows of panels as plain data, for `panels.json`."""
        return specs(self.panels(record))

    def rows(self, record: xr.Dataset) -> list[Mapping[str, Any]]:
        """Rows of `table.csv`."""
        return list(
            self.table(record) if self.table is not None else table_rows(self.specs(record))
        )

    def caption_of(self, record: xr.Dataset) -> str:
        """What to look at, and what the record says could not be asked."""
        caption = self.caption if isinstance(self.caption, str) else self.caption(record)
        return " ".join(
            [*filter(None, [caption]), *parsed_json(record.attrs.get("left_out", "[]"), [str])]
        )

    def _record(self, found: Measured, wall_time: float) -> xr.Dataset:
        undefined = [name for name in found.values if name not in self.variables]
        if undefined:
            raise InputError(
                f"`variables` of {self.name} must say what {undefined[0]} is: Variable(axes, unit, definition)."
            )
        record = make_record(
            dynamics=self.dynamics,
            variables={
                name: (tuple(self.variables[name].axes.split()), value)
                for name, value in found.values.items()
            },
            coords=found.coords,
            time_unit=self.time_unit,
            config={"experiment": self.name},
            wall_time=wall_time,
            definitions={
                name: (variable.unit, variable.definition)
                for name, variable in self.variables.items()
            },
        )
        for name in found.values:
            if self.variables[name].theory_of:
                record[name].attrs |= {
                    "theory_of": self.variables[name].theory_of,
                    "called": self.variables[name].called,
                }
        record.attrs.update(found.attributes)
        return record


def run_experiment(asked: Any, settings: Any, on_progress: Progress = silent) -> Result:
    """The result of an experiment of either form."""
    return (asked.result if isinstance(asked, Experiment) else asked.run)(settings, on_progress)


def stretch(on_progress: Progress, low: float, high: float) -> Progress:
    """What one part of an experiment reports as 0 to 1 is the stretch from `low` to `high` of the
    whole.
    """
    return lambda fraction: on_progress(low + (high - low) * fraction)


def grid(
    measure: Callable[..., Mapping[str, Any]], on_progress: Progress = silent, **axes: Any
) -> dict[str, np.ndarray]:
    """`measure(*cell)` for every cell of the axes: arrays by name, the grid's axes first. A mapping
    stands for its values.

    Arrays of different lengths are padded with NaN.
    """
    values = [
        list(axis.values()) if isinstance(axis, Mapping) else list(axis) for axis in axes.values()
    ]
    cells = list(itertools.product(*values))
    found = []
    for done, cell in enumerate(cells, 1):
        found.append(measure(*cell))
        on_progress(done / len(cells))
    shape = tuple(map(len, values))
    stacks = {name: padded([one[name] for one in found]) for name in found[0]}
    return {name: stack.reshape(*shape, *stack.shape[1:]) for name, stack in stacks.items()}


def padded(parts: Sequence[Any]) -> np.ndarray:
    """Arrays stacked along a new first axis, the shorter ones filled with NaN."""
    arrays: list[Any] = [np.asarray(part) for part in parts]
    if arrays[0].dtype.kind not in "fiub" or len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    whole = np.full((len(arrays), *np.max([array.shape for array in arrays], axis=0)), np.nan)
    for number, array in enumerate(arrays):
        whole[number][tuple(slice(size) for size in array.shape)] = array
    return whole


def cell_rows(record: xr.Dataset) -> list[Mapping[str, Any]]:
    """What was measured, as a `table`: a row for each place on the axes of the largest group of
    variables that share them; time and samples are left to the record.
    """
    plain = {
        name: var
        for name, var in record.data_vars.items()
        if not {"time", "sample"} & set(var.dims) and var.dtype.kind in "fiubUO"
    }
    if not plain:
        plain = dict(record.data_vars)
    widest = max(
        (var.dims for var in plain.values()),
        key=lambda dims: (len(dims), np.prod([record.sizes[d] for d in dims])),
    )
    names = [name for name, var in plain.items() if set(var.dims) <= set(widest)]
    if not widest:
        return [{str(name): record[name].item() for name in names}]
    frame = record[names].to_dataframe(dim_order=list(widest))
    return frame.reset_index().to_dict("records")


def by_cell(measured: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, float]:
    """Means over seeds, the last axis, of every measure; runs that diverged, NaN, are left out.

    One number for each cell of the other axes (name -> labels). An axis of several labels is named
    beside the measure, as in "loss, ratio 10"; one with a single label goes without saying.
    """
    found = {}
    for name, values in measured.items():
        for place, mean in np.ndenumerate(_known_mean(np.asarray(values, float))):
            cell = [
                _said(axis, labels[i])
                for (axis, labels), i in zip(axes.items(), place, strict=True)
                if len(labels) > 1
            ]
            found[", ".join([name, *cell])] = float(mean)
    return found


def _known_mean(values: np.ndarray) -> np.ndarray:
    """Over the last axis; NaN where nothing is known."""
    known = ~np.isnan(values)
    count = known.sum(axis=-1)
    return np.where(
        count > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(count, 1), np.nan
    )


def _said(axis: str, label: Any) -> str:
    return f"{axis} {label}" if isinstance(label, str) else f"{axis} {label:g}"
