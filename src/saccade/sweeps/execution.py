"""Compute one unit, whatever happens: a run that diverges, times out or raises is an outcome too."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

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
    "share_of_claims_holding": "claims that hold over those that hold or fail, controls left out; "
    "missing where most do neither",
    "claims_undecided": "claims that neither hold nor fail",
}


class OutOfTimeError(Exception):
    """The time of a run is over."""


def execute(unit: Unit) -> Outcome:
    """The outcome of the unit's run."""
    started = time.perf_counter()

    def on_progress(fraction: float) -> None:
        if unit.seconds is not None and time.perf_counter() - started > unit.seconds:
            raise OutOfTimeError(f"took more than {unit.seconds:g} s")

    try:
        asked = experiment(unit.name)  # before the clock: what a process loads is not a run's time
        started = time.perf_counter()
        result = asked.run(asked.settings(**unit.settings), on_progress)
        return _finished(unit, result, started)
    except Exception as error:  # anything a run raises is its outcome
        status = TIMED_OUT if isinstance(error, OutOfTimeError) else FAILED
        reason = " ".join(str(error).split())[:300]
        if not isinstance(error, InputError | OutOfTimeError):
            reason = f"{type(error).__name__}: {reason}"
        return Outcome(unit.identity, status, reason, time.perf_counter() - started)


def _finished(unit: Unit, result: Result, started: float) -> Outcome:
    """Of its record the variables that are kept; headline numbers always."""
    record, kept = result.record, _with_measures(result)
    if unit.keep is not None:
        known = [str(name) for name in kept.data_vars]
        headlines = [name for name in known if kept[name].attrs.get("is_headline")]
        named = [checked_choice(KEEP_MISTAKE, name, known) for name in unit.keep]
        kept = kept[list(dict.fromkeys([*headlines, *named]))]
    lost = int((record.stop_reason == "diverged").sum()) if "stop_reason" in record else 0
    reason = f"{lost} of {record.stop_reason.size} trajectories left all bounds" if lost else ""
    kept.attrs = {name: kept.attrs[name] for name in ("config", "settings") if name in kept.attrs}
    status, seconds = DIVERGED if lost else FINISHED, time.perf_counter() - started
    return Outcome(unit.identity, status, reason, seconds, packed(kept))


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
    for name, value in numbers.items():
        about = {"units": "", "definition": _DEFINITIONS.get(name, name.replace("_", " "))}
        own = f"final_{name}" if name in record.variables else name
        record = record.assign({own: ((), np.float64(value), about | {"is_headline": 1})})
    if not found:
        return record
    measured = np.array([centre(claim.measured) for claim in found], float)
    verdicts = np.array([claim.verdict for claim in found], str)
    record = record.assign(claim_measured=("claim", measured), claim_verdict=("claim", verdicts))
    times: Counter[str] = Counter()
    labels, numbered = [claim.label for claim in found], []
    for label in labels:  # numbered where one comes again
        times[label] += 1
        numbered.append(f"{label} ({times[label]})" if labels.count(label) > 1 else label)
    return record.assign_coords(claim=("claim", numbered))
