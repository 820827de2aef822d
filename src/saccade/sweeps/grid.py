"""Every run of a sweep: its settings, its place on the axes, its identity."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, get_type_hints

from saccade.errors import InputError, checked_count, is_list_like
from saccade.experiments import experiment, own_file
from saccade.identity import computation, contents, identities
from saccade.lab.settings import check_settings, check_values
from saccade.sweeps.axes import Axis, axes_of, written

MOST_RUNS = 2_000_000  # of one sweep: each is kept in memory as its settings


class Run(NamedTuple):
    """One run: `changed` are its swept settings, `place` is its index on every axis."""

    identity: str
    base: Any
    changed: dict[str, Any]
    place: tuple[int, ...]

    @property
    def config(self) -> Any:
        """All its settings."""
        return replace(self.base, **self.changed)


@dataclass(frozen=True)
class Grid:
    """An experiment and what of its settings is swept; seeds, if there are any, are the last axis."""

    name: str  # or the whole path of a file of one's own
    config: Any
    axes: tuple[Axis, ...]
    keep: tuple[str, ...] | None = None  # variables of each record that are kept; None: all

    @classmethod
    def of(
        cls,
        name: str,
        over: Mapping[str, Any] | Sequence[str] = (),
        seeds: Any = None,
        config: Any = None,
        keep: Sequence[str] | None = None,
    ) -> Grid:
        settings = experiment(name).settings() if config is None else config
        axes = axes_of(over, settings)
        if seeds is not None:
            axes.append(_seed_axis(name, settings, seeds, axes))
        grid = cls(
            own_file(name) or name, settings, tuple(axes), None if keep is None else tuple(keep)
        )
        if not axes:
            raise InputError(
                "nothing is swept: give `--over setting=values`, `--seeds N`, or both."
            )
        if grid.n_runs > MOST_RUNS:
            raise InputError(
                f"{grid.n_runs:,} runs are more than the {MOST_RUNS:,} one sweep may have; split it over folders."
            )
        _, changed = next(places(grid.axes))
        check_settings(replace(grid.config, **changed))
        for axis in grid.axes:
            for setting, values in zip(axis.settings, zip(*axis.values, strict=True), strict=True):
                is_whole = all(
                    type(value) is int for value in values
                )  # then the extremes tell of all, of millions of seeds too
                check_values(
                    type(grid.config), setting, {min(values), max(values)} if is_whole else values
                )
        return grid

    @property
    def title(self) -> str:
        """The experiment's name, also of one in a file."""
        return experiment(self.name).name

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def n_runs(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def command(self) -> str:
        """The call that asks for this grid."""
        usual = vars(type(self.config)())
        swept = {setting for axis in self.axes for setting in axis.settings}
        others = [
            (name, value)
            for name, value in vars(self.config).items()
            if name not in swept and value != usual[name]
        ]
        settings = [f"--setting {name}={_written((value,))}" for name, value in others]
        kept = [] if self.keep is None else [f"--keep {','.join(self.keep)}"]
        return " ".join(
            ["saccade sweep", shlex.quote(self.name), *map(_flag, self.axes), *settings, *kept]
        )

    @cached_property
    def computation(self) -> dict[str, str]:
        return computation(own_file(self.name))

    @cached_property
    def contents(self) -> dict[str, str]:
        """Of the files that settings name, swept ones too."""
        return contents(named(vars(self.config), self.axes))

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, the last axis fastest."""
        code = [self.computation, self.keep]
        identity = identities(self.title, vars(self.config), code, self.contents)
        return [
            Run(identity(changed), self.config, changed, place)
            for place, changed in places(self.axes)
        ]


def named(config: Mapping[str, Any], axes: Sequence[Axis]) -> Iterator[tuple[str, Any]]:
    """Every setting with every value that it has in some run."""
    swept = {setting for axis in axes for setting in axis.settings}
    yield from ((setting, value) for setting, value in config.items() if setting not in swept)
    for axis in axes:
        for row in axis.values:
            yield from zip(axis.settings, row, strict=True)


def places(axes: Sequence[Axis]) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
    """Every place of a grid, as its index on every axis and as the settings that it changes; the
    last axis fastest.
    """
    for place in itertools.product(*(range(len(axis.values)) for axis in axes)):
        changed: dict[str, Any] = {}
        for axis, index in zip(axes, place, strict=True):
            changed.update(zip(axis.settings, axis.values[index], strict=True))
        yield place, changed


def _seed_axis(name: str, config: Any, seeds: Any, axes: list[Axis]) -> Axis:
    """One place for each seed: of the setting `seed`, or of `seeds`, which then lists a single one."""
    settings = {field.name for field in fields(config)}
    setting = next((setting for setting in ("seed", "seeds") if setting in settings), None)
    if setting is None:
        raise InputError(
            f"{name} draws nothing at random, so it has no seeds to sweep; leave out `--seeds`."
        )
    if setting == "seeds" and get_type_hints(type(config))[setting] is int:
        raise InputError(
            f"`seeds` of {name} is a count; to sweep seeds one by one, declare `seeds: int | tuple[int, ...]`, or a `seed`."
        )
    if any(setting in axis.settings for axis in axes):
        raise InputError(
            f"`{setting}` is swept twice, by `--over` and by `--seeds`; leave one out."
        )
    numbers = (
        list(seeds) if is_list_like(seeds) else range(checked_count("seeds", seeds, high=MOST_RUNS))
    )
    values = [number if setting == "seed" else (number,) for number in numbers]
    return axes_of({setting: values}, config)[0]


def _flag(axis: Axis) -> str:
    counted = [(number,) for number in range(len(axis.values))]
    if axis.name in ("seed", "seeds") and axis.values in (
        tuple(counted),
        tuple((seed,) for seed in counted),
    ):
        return f"--seeds {len(counted)}"
    return f"--over {'/'.join(axis.settings)}={','.join(map(_written, axis.values))}"


def _written(values: tuple[Any, ...]) -> str:
    """One place on an axis as it is typed."""
    return "/".join(map(written, values))
