"""What a sweep was asked for, as `sweep.json` keeps it under a checksum of its own.

That is enough to name every run without loading the experiment, so that a folder from a stranger
can be looked at: no file that it names is run. To compute again, a file of one's own has to be
named by the user, and all runs must still be what they were.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from saccade.errors import InputError, shortened
from saccade.experiments import experiment, own_file
from saccade.identity import computation, contents, differences, digest, identities
from saccade.records.json_files import json_ready, read_sealed, write_sealed
from saccade.records.schema import restored_settings
from saccade.records.store import OtherResultError
from saccade.records.writing import CHECKSUMS
from saccade.sweeps.axes import Axis, axes_of
from saccade.sweeps.grid import MOST_RUNS, Grid, named, places

FILE = "sweep.json"
_SHAPE = dict.fromkeys(("name", "file", "runs"), str) | {
    "config": dict,
    "computation": {str: str},
    "contents": {str: str},
    "axes": [{"settings": [str], "values": [list]}],
    "keep": object,
    "show": object,
}
_AGAIN = "Give the whole `saccade sweep` command again: what is finished is kept."


@dataclass(frozen=True)
class Asked:
    """Settings and values as JSON has them; `file`: of the user's own experiment, or nothing."""

    name: str
    file: str
    config: dict[str, Any]
    axes: tuple[Axis, ...]
    keep: tuple[str, ...] | None
    show: str | None
    computation: dict[str, str]
    contents: dict[str, str]  # of files that settings name
    runs: str  # hash of the identities of all runs

    @classmethod
    def of(cls, grid: Grid, show: str | None = None) -> Asked:
        runs = digest([run.identity for run in grid.runs])
        config = asdict(grid.config)
        return cls(
            grid.title,
            own_file(grid.name),
            config,
            grid.axes,
            grid.keep,
            show,
            grid.computation,
            grid.contents,
            runs,
        )

    @classmethod
    def read(cls, folder: Path) -> Asked:
        """`InputError` if it is lost, not what was written, or not of a sweep."""
        if not (folder / FILE).is_file():
            raise InputError(f"{folder / FILE} is lost. {_AGAIN}")
        try:
            told = read_sealed(folder / FILE, _SHAPE)
            axes = tuple(
                Axis(tuple(axis["settings"]), tuple(map(tuple, axis["values"])))
                for axis in told["axes"]
            )
            if any(len(row) != len(axis.settings) for axis in axes for row in axis.values):
                raise ValueError("an axis has more or fewer values than settings")
            if not 1 <= math.prod(len(axis.values) for axis in axes) <= MOST_RUNS:
                raise ValueError("more or fewer runs than a sweep can have")
            keep = None if told["keep"] is None else tuple(map(str, told["keep"]))
            return cls(**told | {"axes": axes, "keep": keep})
        except InputError as error:
            raise InputError(f"{error} {_AGAIN}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{folder / FILE} does not describe a sweep ({shortened(error)}). {_AGAIN}"
            ) from None

    def write(
        self,
        folder: Path,
        wanted: Collection[str] = (),
        there: Collection[str] = (),
        *,
        any_runs: bool = True,
    ) -> None:
        """`wanted`: runs that are asked for; `there`: runs that the folder holds. If its
        description cannot be read, one of those must be among these: a folder of another experiment
        is not taken over. Results that hold runs which are not wanted are replaced only if
        `any_runs` says so.
        """
        before = self
        try:
            before = Asked.read(folder)
        except InputError as error:
            if there and not any(run in there for run in wanted):
                raise InputError(
                    f"{error} None of the {len(there):,} runs there is among those that are asked for now, so nothing was changed. "
                    "For another sweep, name a new folder."
                ) from None
        then, now = (
            " of ".join(filter(None, (asked.name, asked.file))) for asked in (before, self)
        )
        if then != now:
            raise InputError(f"{folder} holds a sweep of {then}; give {now} another folder.")
        if not any_runs and before.runs != self.runs and (folder / CHECKSUMS).exists():
            check_held(folder, before.identities_by(self), wanted)  # only settings count
        write_sealed(folder / FILE, json_ready(asdict(self), str))

    def now(self) -> Asked:
        """With code and files as they are now, which are read and not run."""
        files = contents(named(self.config, self.axes))
        return replace(self, computation=computation(self.file), contents=files)

    def identities_by(self, other: Asked) -> list[str]:
        """Of all runs, by the code and the files of another."""
        code = [other.computation, self.keep]
        files = self.contents | other.contents
        identity = identities(self.name, self.config, code, files)
        return [identity(changed) for _, changed in places(self.axes)]

    def identities(self) -> list[str]:
        """Of all runs, as they were."""
        found = self.identities_by(self)
        if digest(found) != self.runs:
            raise InputError(
                f"its runs are not those that {FILE} was written for: another version of Saccade wrote it."
            )
        return found

    def grid(self, named: str = "") -> Grid:
        """The same grid, if its runs would be the same now. `named`: the file that the user names,
        which a user's own needs.
        """
        if self.file and not named:
            raise InputError(
                f"these runs come from the file {shortened(self.file)}, which is not run just because a folder names it; "
                "if you trust it, add --file and its path."
            )
        name = own_file(named) if self.file else self.name
        config: Any = restored_settings(self.config, experiment(name).settings)
        over = {
            "/".join(axis.settings): list(axis.values)
            if len(axis.settings) > 1
            else [value for (value,) in axis.values]
            for axis in self.axes
        }
        grid = Grid(name, config, tuple(axes_of(over, config)), self.keep)
        then, now = self.computation | self.contents, grid.computation | grid.contents
        if changed := differences(then, now):
            raise InputError(
                f"cannot repair: what these numbers depend on has changed ({changed}). Nothing was written. "
                "Repair where it is unchanged, or give the whole `saccade sweep` command again to compute every run."
            )
        return grid


def check_held(folder: Path, earlier: Collection[str], wanted: Collection[str]) -> None:
    """An error, if the results of a sweep are of runs that are not all wanted now: their dataset
    would be gone.
    """
    if gone := len(set(earlier).difference(wanted)):
        raise OtherResultError(
            f"{folder} holds the results of another sweep ({gone:,} of its {len(earlier):,} runs are not in this one); "
            "name another folder, or write over them with --replace (`replace=True`), which keeps all finished runs."
        )
