"""Units of work: runs that share shapes are computed together in one compiled call, every other run
is a unit by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from saccade.experiments import experiment
from saccade.identity import digest
from saccade.records.json_files import json_ready
from saccade.sweeps.grid import Run

MOST_TOGETHER = 256  # runs in one call: enough to hide what a call costs, few enough that little is lost when it is stopped
_LEAST_TOGETHER = 8  # a call of fewer is hardly cheaper than one for each
_CALLS = (
    16  # that alike runs are spread over at least, if they are enough: work for as many processes
)


@dataclass(frozen=True)
class Unit:
    """Runs to be computed in one call, with all that a process needs to know for it."""

    name: str
    identities: tuple[str, ...]
    settings: tuple[
        dict[str, Any], ...
    ]  # by name, since another process may not know their class yet
    keep: tuple[str, ...] | None  # variables of the record that are kept; None: all
    time_limit: float | None  # seconds for each run

    @property
    def seconds(self) -> float | None:
        """What the unit may take."""
        return None if self.time_limit is None else self.time_limit * len(self.identities)

    def alone(self) -> list[Unit]:
        """Each of its runs by itself."""
        pairs = zip(self.identities, self.settings, strict=True)
        return [
            Unit(self.name, (identity,), (settings,), self.keep, self.time_limit)
            for identity, settings in pairs
        ]


def units_of(
    name: str,
    runs: Sequence[Run],
    wanted: Collection[str],
    *,
    keep: tuple[str, ...] | None = None,
    time_limit: float | None = None,
    apart: Collection[str] = (),
) -> list[Unit]:
    """The `wanted` of all `runs` of a grid, in units that an experiment's `together` can take.

    Who is computed with whom is settled by the grid alone, not by how many workers there are or
    what is finished already: in float32 the last bits of a run may depend on its company. `apart`:
    finished runs that had to be computed alone because one of their company did not finish; they
    come again with it.
    """
    shared = getattr(experiment(name), "free", ())
    groups = [[run] for run in runs] if not shared else _groups(runs, shared)
    asked = ((group, {run.identity for run in group if run.identity in wanted}) for group in groups)
    left = (
        [run for run in group if run.identity in again or run.identity in apart]
        for group, again in asked
        if again
    )
    return [
        unit_of(name, {run.identity: run.config for run in part}, keep, time_limit) for part in left
    ]


def unit_of(
    name: str, configs: Mapping[str, Any], keep: tuple[str, ...] | None, time_limit: float | None
) -> Unit:
    """A unit of runs given as identity -> settings."""
    return Unit(
        name, tuple(configs), tuple(vars(config) for config in configs.values()), keep, time_limit
    )


def _groups(runs: Sequence[Run], shared: tuple[str, ...]) -> list[list[Run]]:
    """Runs that agree in all settings but the shared ones, whole seeds side by side as far as they
    fit.
    """
    alike: dict[str, list[Run]] = {}
    for run in runs:
        settings = asdict(run.config)
        alike.setdefault(
            digest(
                json_ready({name: settings[name] for name in settings if name not in shared}, str)
            ),
            [],
        ).append(run)
    return [part for group in alike.values() for part in _parts(group)]


def _parts(group: list[Run]) -> Iterator[list[Run]]:
    """A call trains every rate with every seed in it, so parts are some seeds with all their rates,
    or some rates of one seed.
    """
    aim = min(MOST_TOGETHER, max(_LEAST_TOGETHER, -(-len(group) // _CALLS)))
    by_seed: dict[str, list[Run]] = {}
    for run in group:
        by_seed.setdefault(str(getattr(run.config, "seeds", "")), []).append(run)
    part: list[Run] = []
    for of_seed in by_seed.values():
        if part and len(part) + len(of_seed) > aim:
            yield part
            part = []
        part += of_seed
        if len(part) > aim:
            yield from _evenly(part, aim)
            part = []
    if part:
        yield part


def _evenly(runs: list[Run], most: int) -> Iterator[list[Run]]:
    size = -(-len(runs) // -(-len(runs) // most))
    yield from (runs[start : start + size] for start in range(0, len(runs), size))
