"""An experiment is a function that runs from top to bottom and returns its answer.

    @experiment("common-tokens-fall")
    def common_tokens_fall(lab, t1: Annotated[float, "end of the flow, steps"] = 1e3, seeds: int = 3):
        "Do common tokens lose attention?"
        for seed in lab.each(range(seeds)):                          # reports progress
            run = saccade.flow(task, t1=t1, seed=seed)
            lab.keep("attention", run.attention, seed=seed)          # goes into the record
            lab.case(seed=seed).at_most(THEOREM_2B, "attention on common tokens", mass(run), 0.3)
        lab.draw(Lines(...), caption="...")
        return f"{lab.yes_or_no()}: after {t1:g} steps common tokens keep {mass(run):.2f}."

The docstring is the question, the parameters after `lab` are the settings, and the returned sentence
is the answer. A case makes claims and registers them. What a run finds is a `Result`, and all of it
is data: record, claims, panels, tables, film, numbers, answer.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, make_dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_origin

import numpy as np
import tyro
import xarray as xr

from saccade.engines.workers import workers
from saccade.errors import InputError, shortened
from saccade.lab.case import Case
from saccade.lab.claim import FAILS, HOLDS, UNDECIDED, Claim
from saccade.lab.film import Film, made_film
from saccade.lab.relation import centre
from saccade.lab.settings import check_settings
from saccade.numerals import numerals_in
from saccade.panels import Panel, specs, table_rows
from saccade.processes import in_processes
from saccade.records.json_files import parsed_json, write_json
from saccade.records.schema import make_record, with_settings
from saccade.records.store import save_record
from saccade.records.writing import write_csv
from saccade.theories.condition import Condition

Progress: TypeAlias = Callable[[float], None]
Piece: TypeAlias = tuple[dict[str, Any], xr.DataArray]  # an array, and its place on further axes
Rows: TypeAlias = list[Mapping[str, Any]]


def silent(fraction: float, label: str = "") -> None:
    """Progress that nobody follows."""


def experiment(name: str, **about: Any) -> Callable[[Callable[..., str]], Experiment]:
    """Make an experiment of a function; `about` are the optional fields of `Experiment`."""

    def made(function: Callable[..., str]) -> Experiment:
        question = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        if not question:
            raise InputError(f"{function.__name__} needs a docstring: the question that it asks.")
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        for one in parameters:
            if one.default is one.empty or one.annotation is one.empty:
                raise InputError(
                    f"setting `{one.name}` of {function.__name__} needs a type and a default, "
                    f"such as `{one.name}: float = 1.0`."
                )
        settings = make_dataclass(
            f"{function.__name__}_settings",
            [(one.name, _with_help(one.annotation), one.default) for one in parameters],
            frozen=True,
            # in the namespace: the argument `module` is new in Python 3.12
            namespace={"__doc__": question, "__module__": function.__module__},
        )
        full = settings(**about.pop("full")) if about.get("full") else None
        return Experiment(name, question, function, settings, full=full, **about)

    return made


@dataclass(frozen=True, eq=False)
class Experiment:
    """A function with its question and its settings. Make one with the decorator `experiment`.

    | field       | meaning                                                               |
    |-------------|-----------------------------------------------------------------------|
    | `name`      | its name in commands and of its results folder: `two-tokens`          |
    | `question`  | the docstring of the function                                         |
    | `settings`  | a frozen dataclass made from its signature                            |
    | `full`      | settings at the paper's own size, if the defaults are smaller         |
    | `caveat`    | what would change the answer                                          |
    | `dynamics`  | what is run, in words                                                 |
    | `time_unit` | unit of the axis `time`                                               |
    """

    name: str
    question: str
    function: Callable[..., str]
    settings: type
    full: Any = None
    caveat: str = ""
    dynamics: str = ""
    time_unit: str = "steps"

    def run(self, settings: Any = None, on_progress: Progress = silent) -> Result:
        """One run; the default settings if none are given."""
        chosen, started = self.settings() if settings is None else settings, time.perf_counter()
        check_settings(chosen)
        lab = Lab(chosen, on_progress)
        answer = self.function(lab, **vars(chosen))
        if not isinstance(answer, str):
            raise InputError(
                f"{self.name} must return its answer, a sentence; got {shortened(answer)}."
            )
        lab.found.answer = numerals_in(re.sub(r"(?<=\d)%", " %", answer))  # 10¹², 1.3 %
        lab.found.record = self._record(lab, time.perf_counter() - started)
        importlib.import_module("saccade.report.notebook")  # records show themselves from now on
        return lab.found

    def _record(self, lab: Lab, wall_time: float) -> xr.Dataset:
        kept = lab.kept()
        record = make_record(
            dynamics=self.dynamics,
            variables={str(name): values.variable for name, values in kept.data_vars.items()},
            coords={
                str(name): (values.dims, values.values) for name, values in kept.coords.items()
            },
            time_unit=self.time_unit,
            config={"experiment": self.name},
            wall_time=wall_time,
            definitions={
                str(name): (values.attrs["units"], values.attrs["definition"])
                for name, values in kept.data_vars.items()
            },
        )
        record.attrs["left_out"] = json.dumps(lab.found.left_out)
        return with_settings(record, lab.settings)


@dataclass
class Result:
    """What one run found. Verdicts follow from the numbers in `claims`, pictures from `panels`."""

    answer: str = ""
    record: xr.Dataset = field(default_factory=xr.Dataset)
    claims: list[Claim] = field(default_factory=list)
    panels: list[list[Panel]] = field(default_factory=list)
    caption: str = ""
    tables: dict[str, Rows] = field(default_factory=dict)
    film: dict[str, Any] | None = None
    left_out: list[str] = field(default_factory=list)  # a sentence for each claim not formed
    extra_numbers: dict[str, float] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, float]:
        """What a sweep maps over its settings: the measured value of every claim but controls, and
        the extra numbers.
        """
        found = {one.label: centre(one.measured) for one in self.claims if not one.breaks}
        # "/" is a folder in Zarr
        return {re.sub(r" ?/ ?", " over ", k): v for k, v in (found | self.extra_numbers).items()}

    def write(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Record, claims, tables, panels, figure and film into a folder, and what is said `about` it."""
        from saccade.report.drawn import draw_panels  # here: a run needs no Matplotlib
        from saccade.report.style import save_figure

        panels = specs(self.panels)
        write_json(folder / "claims.json", [claim.as_dict() for claim in self.claims])
        write_json(folder / "panels.json", panels)
        if self.film is not None:
            write_json(folder / "film.json", self.film)
        for name, rows in ({"table": table_rows(panels)} | self.tables).items():
            columns = list(dict.fromkeys(column for row in rows for column in row))
            write_csv(folder / f"{name}.csv", rows, columns)
        save_figure(draw_panels(panels), folder / "figure")
        save_record(self.record, folder / "record.zarr")
        attributes = {
            key: value for key, value in self.record.attrs.items() if key != "assumptions"
        }
        caption = " ".join(filter(None, [self.caption, *self.left_out]))
        answer = {"answer": self.answer, "caption": caption}
        write_json(folder / "about.json", {**about, **answer, **attributes})


@dataclass
class Lab:
    """What an experiment may do besides computing: report progress, claim, keep, draw."""

    settings: Any
    on_progress: Progress = silent
    found: Result = field(default_factory=Result)
    _kept: dict[str, list[Piece]] = field(default_factory=dict)
    _open: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 1.0)])

    def each(self, values: Iterable[Any]) -> Iterator[Any]:
        """The values in turn, with progress; a loop within a loop shares out its part."""
        listed = list(values)
        low, high = self._open[-1]
        step = (high - low) / max(1, len(listed))
        self.on_progress(low)  # settings are checked before it: whoever asks for that stops here
        for place, value in enumerate(listed):
            self._open.append((low + step * place, low + step * (place + 1)))
            yield value
            self.on_progress(self._open.pop()[1])

    def progress(self, fraction: float) -> None:
        """Report a part of the current step: `saccade.flow(..., on_progress=lab.progress)`."""
        low, high = self._open[-1]
        self.on_progress(low + (high - low) * fraction)

    def at_once(self, function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
        """`function` of every value, in threads: for compiled code that needs one core."""
        listed = list(values)
        with workers(len(listed)) as pool:
            return list(self.each(pool.map(function, listed)))

    def grid(self, function: Callable[..., xr.Dataset], **axes: Iterable[Any]) -> xr.Dataset:
        """`function(**cell)` for every cell of the axes, in processes; kept, and in one dataset.

        Another process must be able to import the function, so it is one of a module.
        """
        listed = [list(values) for values in axes.values()]
        cells = [dict(zip(axes, cell, strict=True)) for cell in product(*listed)]
        runs = in_processes(_called, [(function, cell) for cell in cells], self.progress)
        own: dict[str, list[Piece]] = {}
        for cell, run in zip(cells, runs, strict=True):
            for name, array in run.data_vars.items():
                self.keep(str(name), array, **cell)
                own.setdefault(str(name), []).append(self._kept[str(name)][-1])
        return xr.Dataset({name: _stacked(name, pieces) for name, pieces in own.items()})

    def case(self, *given: Condition, **settings: Any) -> Case:
        """What several claims share: assumptions, and a name for what they are about.

        Name a case by its role (`rates="slower decoder"`), not by a number that is a setting: a
        sweep over that setting then finds the same claim in every run.
        """
        return Case(settings, given, registered_in=self.found.claims)

    def keep(
        self, name: str, values: Any, axes: str = "", about: str = "", unit: str = "1", **place: Any
    ) -> None:
        """An array for the record, at a place along further axes; `about` is its definition."""
        array = xr.DataArray(values, dims=axes.split() or None, name=name)
        array.attrs = {"units": unit, "definition": about or name.replace("_", " "), **array.attrs}
        self._kept.setdefault(name, []).append((place, array))

    def kept(self) -> xr.Dataset:
        """All that is kept so far, with its axes; what is missing or shorter is NaN."""
        return xr.Dataset({name: _stacked(name, pieces) for name, pieces in self._kept.items()})

    def number(self, name: str, value: Any) -> None:
        """A number that is no claim, for sweeps to map; of a labelled array, every cell."""
        array = xr.DataArray(value)
        varied = [dim for dim in array.dims if array.sizes[dim] > 1]
        for cell in np.ndindex(array.shape):
            one = array[cell]
            label = ", ".join([name, *(f"{dim} {_plain(one[dim].item())}" for dim in varied)])
            self.found.extra_numbers[label] = float(one)

    def draw(self, *row: Panel, caption: str = "") -> None:
        """A row of panels, and what to notice in them. The first panel represents the figure."""
        self.found.panels.append(list(row))
        self.found.caption = " ".join(filter(None, [self.found.caption, caption]))

    def table(self, rows: Iterable[Mapping[str, Any]], name: str = "table") -> None:
        """Rows of NAME.csv; `table.csv` holds the numbers in the figure if none are given."""
        self.found.tables[name] = list(rows)

    def film(self, film: Film) -> None:
        """Attention as it moves, for the first screen of the report. A film that cannot be made
        does not cost a finished run.
        """
        try:
            self.found.film = made_film(film)
        except InputError as error:
            self.leave_out(f"The film is left out: {error}")

    def leave_out(self, sentence: str) -> None:
        """Say what cannot be claimed, and why; the caption repeats it."""
        self.found.left_out.append(sentence)

    def changed(self, *names: str) -> list[str]:
        """Which of these settings differ from their defaults; of all settings if none are named."""
        usual = vars(type(self.settings)())
        return [name for name in names or usual if getattr(self.settings, name) != usual[name]]

    def yes_or_no(self, *claims: Claim) -> str:
        """Yes, No, Partly or Undecided, from these claims; from all but controls if none are given.

        It follows the verdicts, so an answer never says more than its claims, at any settings.
        """
        asked = claims or [claim for claim in self.found.claims if not claim.breaks]
        verdicts = {claim.verdict for claim in asked}
        if verdicts <= set(UNDECIDED):
            return "Undecided"
        if verdicts == {HOLDS}:
            return "Yes"
        return "No" if verdicts == {FAILS} else "Partly"


def conditions_of(run: xr.Dataset, rate: int = 0) -> dict[str, Condition]:
    """The theory's assumptions that an engine checked for this run, by name; of one pair of rates."""
    stored = parsed_json(run.attrs["assumptions"], [dict])[rate]["conditions"]
    return {row["name"]: Condition.of(row) for row in stored}


def _stacked(name: str, pieces: list[Piece]) -> xr.DataArray:
    place, first = pieces[0]
    if any(other.keys() != place.keys() for other, _ in pieces):
        raise InputError(f"every piece of {name!r} that is kept needs the axes {', '.join(place)}.")
    axes = {axis: list(dict.fromkeys(other[axis] for other, _ in pieces)) for axis in place}
    longest = max((array for _, array in pieces), key=lambda array: array.size)
    sizes = np.max([array.shape for _, array in pieces], axis=0, initial=0).astype(int).tolist()

    is_text = first.dtype.kind in "UO"
    # float32 stays float32: intervals over many pieces would move in the 8th digit
    kind = object if is_text else first.dtype if first.dtype.kind == "f" else float
    whole = np.full([*map(len, axes.values()), *sizes], "" if is_text else np.nan, dtype=kind)
    for other, array in pieces:
        at = [axes[axis].index(value) for axis, value in other.items()]
        inside: Any = (*at, *map(slice, array.shape))
        whole[inside] = array.values
    coords = {key: values for key, values in longest.coords.items() if values.ndim}
    values = whole.astype(str) if is_text else whole
    return xr.DataArray(values, axes | coords, (*axes, *longest.dims), attrs=first.attrs)


def _with_help(annotation: Any) -> Any:
    """`Annotated[float, "end of the flow"]` as the command line reads it."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, *notes = get_args(annotation)
    notes = [tyro.conf.arg(help=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(kind, *notes)]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _called(function: Callable[..., Any], cell: Mapping[str, Any]) -> Any:
    return function(**cell)
