"""A unit of work: one run, with all that another process needs to know to compute it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from saccade.sweeps.grid import Grid, Run


@dataclass(frozen=True)
class Unit:
    """One run of an experiment."""

    name: str
    identity: str
    settings: dict[str, Any]  # by name, since another process may not know their class yet
    keep: tuple[str, ...] | None  # variables of the record that are kept; None: all
    seconds: float | None  # that it may take


def units_of(grid: Grid, runs: Iterable[Run], seconds: float | None) -> list[Unit]:
    """Some runs of a grid as units."""
    return [Unit(grid.name, run.identity, vars(run.config), grid.keep, seconds) for run in runs]
