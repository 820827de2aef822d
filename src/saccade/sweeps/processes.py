"""Units over processes of this machine: a process that dies, or does not answer when the time of
its unit is over, gives an outcome with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from saccade.processes import LostProcessError, Worker, computed
from saccade.sweeps.execution import execute
from saccade.sweeps.outcome_file import FAILED, TIMED_OUT, UNFINISHED, Outcome
from saccade.sweeps.units import Unit


def in_processes(units: Sequence[Unit], n_workers: int, memory: int) -> Iterator[list[Outcome]]:
    """Outcomes of each unit, as they come. `memory`: bytes that all processes may take together."""
    return computed(outcomes_of, units, n_workers, memory)


def outcomes_of(worker: Worker, unit: Unit) -> list[Outcome]:
    started = time.monotonic()
    for _ in range(2):
        try:
            return worker.answer(execute, unit, seconds=unit.seconds)
        except TimeoutError:
            status, reason = TIMED_OUT, f"took more than {unit.time_limit:g} s"
            break
        except LostProcessError as lost:
            status, reason = FAILED, str(lost)
        if len(unit.identities) == 1 or worker.is_closed:
            break  # several runs whose process was lost are tried once more as they are: their last bits may depend on it
    if len(unit.identities) > 1 and not worker.is_closed:  # one of them did it: find out which
        apart = [outcome for alone in unit.alone() for outcome in outcomes_of(worker, alone)]
        is_blameless = status == FAILED and not any(
            outcome.status in UNFINISHED for outcome in apart
        )
        return _together_after_all(worker, unit, apart) if is_blameless else apart
    return [
        Outcome(one, status, reason, time.monotonic() - started, (one,)) for one in unit.identities
    ]


def _together_after_all(worker: Worker, unit: Unit, apart: list[Outcome]) -> list[Outcome]:
    """Runs whose process was ended from outside, once more in the call whose last bits an
    undisturbed sweep has.
    """
    try:
        return worker.answer(execute, unit, seconds=unit.seconds)
    except (
        TimeoutError,
        LostProcessError,
    ):  # it is too much for one process: each by itself is what there is
        return apart
