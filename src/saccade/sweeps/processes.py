"""Units over processes of this machine: a process that dies, or does not answer when the time of
its unit is over, gives an outcome with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from saccade.processes import LostProcessError, Worker, computed
from saccade.sweeps.execution import execute
from saccade.sweeps.outcome_file import FAILED, TIMED_OUT, Outcome
from saccade.sweeps.units import Unit


def in_processes(units: Sequence[Unit], n_workers: int, memory: int) -> Iterator[Outcome]:
    """The outcome of each unit, as they come. `memory`: bytes for all processes."""
    return computed(outcome_of, units, n_workers, memory)


def outcome_of(worker: Worker, unit: Unit) -> Outcome:
    started = time.monotonic()
    try:
        return worker.answer(execute, unit, seconds=unit.seconds)
    except TimeoutError:
        status, reason = TIMED_OUT, f"took more than {unit.seconds:g} s"
    except LostProcessError as lost:
        status, reason = FAILED, str(lost)
    return Outcome(unit.identity, status, reason, time.monotonic() - started)
