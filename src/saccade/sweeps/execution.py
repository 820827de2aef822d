"""Compute one unit, whatever happens: a run that diverges, times out or raises is an outcome too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError, checked_choice
from saccade.experiments import experiment
from saccade.lab.claim import HOLDS, UNDECIDED
from saccade.lab.experiment import Result
from saccade.lab.relation import centre
from saccade.sweeps.outcome_file import DIVERGED, FAILED, FINISHED, TIMED_OUT, Outcome, packed
from saccade.sweeps.units import Unit

if TYPE_CHECKING:
    import xarray as xr


KEEP_MISTAKE = (
    "`keep` variable"  # with which the reason begins, if a name in `keep` is none of the record's
)


_DEFINITIONS = {
    "share_of_claims_holding": "claims that hold over those that hold or fail, controls left out; missing where most do neither",
    "claims_undecided": "claims that neither hold nor fail",
}


class OutOfTimeError(Exception):
    """The time of a run is over."""


def execute(unit: Unit) -> Outcome:
    """The outcome of the unit's run."""
    started = time.perf_counter()
    try:
        asked = experiment(unit.name)  # before the clock: what a process loads is not a run's time
        started = time.perf_counter()
        result = asked.run(asked.settings(**unit.settings), _until(unit.seconds))
        return _finished(unit, result, started)
    except Exception as error:  # anything a run raises is its outcome
        status = TIMED_OUT if isinstance(error, OutOfTimeError) else FAILED
        return Outcome(unit.identity, status, _reason(error), time.perf_counter() - started)


def _until(seconds: float | None) -> Callable[[float], None]:
    """Hears of a run's progress, and ends it when its time is over."""
    end = None if seconds is None else time.monotonic() + seconds

    def on_progress(fraction: float) -> None:
        if end is not None and time.monotonic() > end:
            raise OutOfTimeError(f"took more than {seconds:g} s")

    return on_progress


def _finished(unit: Unit, result: Result, started: float) -> Outcome:
    record = result.record
    whole = _with_measures(result)
    kept = whole if unit.keep is None else _kept(whole, unit.keep)
    lost = int((record.stop_reason == "diverged").sum()) if "stop_reason" in record else 0
    reason = f"{lost} of {record.stop_reason.size} trajectories left all bounds" if lost else ""
    kept.attrs = {name: kept.attrs[name] for name in ("config", "settings") if name in kept.attrs}
    status, seconds = DIVERGED if lost else FINISHED, time.perf_counter() - started
    return Outcome(unit.identity, status, reason, seconds, packed(kept))


def _kept(record: xr.Dataset, names: tuple[str, ...]) -> xr.Dataset:
    """Some variables of a record; its headline numbers always."""
    known = [str(name) for name in record.data_vars]
    headlines = [name for name in known if record[name].attrs.get("is_headline")]
    return record[
        list(
            dict.fromkeys(
                [*headlines, *(checked_choice(KEEP_MISTAKE, name, known) for name in names)]
            )
        )
    ]


def _with_measures(result: Result) -> xr.Dataset:
    """The record with its headline numbers, and with what its claims say."""
    record, found = result.record, result.claims
    numbers = dict(result.numbers)
    asking = [claim.verdict for claim in found if not claim.breaks]
    decided = [verdict == HOLDS for verdict in asking if verdict not in UNDECIDED]
    numbers["share_of_claims_holding"] = (
        sum(decided) / len(decided) if 2 * len(decided) >= len(asking) > 0 else np.nan
    )
    numbers["claims_undecided"] = sum(claim.verdict in UNDECIDED for claim in found)
    own = {
        (f"final_{key}" if key in record.variables else key): _scalar(value, key)
        for key, value in numbers.items()
    }
    columns = {
        "measured": np.array([centre(claim.measured) for claim in found], float),
        "verdict": np.array([claim.verdict for claim in found], str),
    }
    claimed = (
        {f"claim_{key}": ("claim", values) for key, values in columns.items()} if found else {}
    )
    record = record.assign(own | claimed)
    return (
        record.assign_coords(claim=("claim", _distinct([claim.label for claim in found])))
        if found
        else record
    )


def _scalar(value: float, name: str) -> Any:
    return (
        (),
        np.float64(value),
        {
            "units": "",
            "definition": _DEFINITIONS.get(name, name.replace("_", " ")),
            "is_headline": 1,
        },
    )


def _distinct(names: list[str]) -> list[str]:
    """The same names, numbered where one comes again."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    times: dict[str, int] = {}
    numbered = []
    for name in names:
        times[name] = times.get(name, 0) + 1
        numbered.append(f"{name} ({times[name]})" if seen[name] > 1 else name)
    return numbered


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return (
        text
        if isinstance(error, InputError | OutOfTimeError)
        else f"{type(error).__name__}: {text}"
    )
