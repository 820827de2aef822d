"""Sweeps of milliseconds, and what tests ask of a sweep's folder. No run of them compiles anything."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saccade.cli import main
from saccade.experiments import experiment
from saccade.sweeps.execution import execute
from saccade.sweeps.folder import SweepFolder
from saccade.sweeps.grid import Grid
from saccade.sweeps.outcome_file import Outcome
from saccade.sweeps.units import units_of

NAME = str(Path(__file__).with_name("quick.py"))


def small_config(*values: Any, **changes: Any) -> Any:
    return experiment(NAME).settings(*values, **changes)


def small_grid(n_seeds: int = 3, **changes: Any) -> Grid:
    """Two rates with some seeds."""
    return Grid.of(NAME, {"lr_decoder": [1.0, 2.0]}, n_seeds, small_config(**changes))


def small_arguments(out: Path, n_seeds: int = 3, *more: object) -> list[str]:
    """The same grid at the terminal."""
    asked = ("sweep", NAME, "--over", "lr_decoder=1,2", "--seeds", n_seeds, "--out", out, *more)
    return [*map(str, asked)]


def computed(grid: Grid) -> list[Outcome]:
    """All outcomes of a grid, in this process."""
    return [execute(unit) for unit in units_of(grid, grid.runs, None)]


def repaired(path: Path, *more: object) -> tuple[int, str, str]:
    return called("check", path, "--repair", "--file", NAME, "--workers", 1, *more)


def called(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def started(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """The command as a process of its own, at the head of its own group."""
    command = [sys.executable, "-m", "saccade", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, start_new_session=True, **pipes, **options)


def one_sentence(err: str) -> bool:
    return (
        err.startswith("saccade: ")
        and err.count("\n") == 1
        and err.endswith(".\n")
        and "Traceback" not in err
    )


def manifest_runs(folder: Path) -> list[str]:
    """Every run that a line of the manifest names, as often as it is named."""
    lines = (folder / "manifest.jsonl").read_text().splitlines()
    return [entry["run"] for line in lines for entry in json.loads(line).get("runs", [])]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_refused(called: tuple[int, str, str], words: str = "") -> None:
    """One sentence with these words, and exit code 2."""
    code, _, err = called
    assert (code, one_sentence(err), words in err) == (2, True, True), err


def assert_same_dataset(one: Path, other: Path) -> None:
    """The same arrays to the last bit, and the same files."""
    left, right = (xr.open_zarr(folder / "dataset.zarr").load() for folder in (one, other))
    assert set(left.variables) == set(right.variables)
    for name in left.variables:
        np.testing.assert_array_equal(left[name].values, right[name].values, err_msg=str(name))
    assert contents(one / "dataset.zarr") == contents(other / "dataset.zarr")


def children(process: int) -> list[int]:
    """Processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            number = int(entry.name)
            if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process:
                found.append(number)
    return found


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[bool]:
    """A disk of its own at `place`, for as long as the block lasts; False where the system does not
    allow it.
    """
    place.mkdir()
    made = os.name == "posix" and _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield made
    finally:
        if made:
            subprocess.run(["umount", str(place)], check=False)


def remounted(place: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(place)], check=True)


def _mount(*arguments: str) -> bool:
    try:
        return (
            subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
        )
    except FileNotFoundError:
        return False


def kept(grid: Grid, path: Path, outcomes: list[Outcome] | None = None) -> SweepFolder:
    """A folder with outcomes of the grid, one file for each, as runs that take their time leave it."""
    folder = SweepFolder(path)
    with folder.writing():
        for outcome in computed(grid) if outcomes is None else outcomes:
            folder.commit([outcome])
    return folder
