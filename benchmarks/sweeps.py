"""Sweeps: what a run costs beyond its own computing, how fast a large folder is listed, two
processes against one, and kills.

Overhead: 1,000 runs of a few milliseconds; wall time less what the runs took by the manifest,
shared out over the processes. Once with everything, from the first import to the figure, and once
without the start of the processes, which does not grow with runs. Listing: `saccade sweep --status`
on 1,000 to 100,000 finished runs, each in a file of its own and a hundred to a file. Two processes:
runs of a fifth of a second that cannot share a call, timed from the first answer to the last. One
process is held to one core: left free it wanders between them and pays for waking them up, which
would flatter two. Kills: 200 runs, SIGKILL at random moments, resumed each time; the dataset
against one that was left alone, byte by byte.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import fresh_process, progress, publish, publish_figure

OVERHEAD_BAR, LISTING_BAR, SPEED_BAR = 2.0, 5.0, 1.8  # milliseconds a run, seconds, times
N_SMALL, N_LISTED, N_KILLS = 1000, (1000, 10_000, 100_000), 10
TOY = str(Path(__file__).parents[1] / "tests/sweeps/toy.py")
SMALL = {"n_vocab": 20, "draws": 2}
SLOW = {"t1": 300, "n_times": 50}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _publish_overhead(Path(folder))
        _publish_listing(Path(folder))
        _publish_speed(Path(folder))
        _publish_kills(Path(folder))


def _load() -> str:
    return f"load of the machine when this was measured: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _publish_overhead(folder: Path) -> None:
    parts = fresh_process(
        f"from benchmarks.sweeps import timed_small; answer = timed_small({str(folder / 'small')!r})"
    ).answer
    each = {name: [1e3 * seconds / N_SMALL for seconds in pair] for name, pair in parts.items()}
    beyond = [run + results for run, results in zip(each["run"], each["results"], strict=True)]
    rows = [
        {
            "what": what,
            "wall (ms a run)": wall,
            "processor of the parent (ms a run)": own,
            "bar": bar,
        }
        for what, (wall, own), bar in (
            ("a run's own computing, shared over the processes", each["compute"], ""),
            ("beyond it, without the start of processes", beyond, OVERHEAD_BAR),
            ("  of it while running: sending, keeping", each["run"], ""),
            ("  of it at the end: dataset, tables, figure", each["results"], ""),
            ("start: grid, imports, processes, first answer", each["start"], ""),
        )
    ]
    publish("sweeps_overhead", f"a sweep of {N_SMALL:,} small runs in 2 processes", rows, _load())


def timed_small(out: str) -> dict[str, tuple[float, float]]:
    """Seconds by the clock and of this process's processor time: the runs' own, shared over two
    processes, the start, what else the running took, and the results at the end.
    """
    from saccade.sweeps import sweep as sweeping

    begun = _now()
    heard: list[tuple[float, float]] = []
    written: list[tuple[float, float]] = []
    sweeping.write_results = _noting(written, sweeping.write_results)
    asked = {"seeds": N_SMALL // 2, "out": out, "config": _small(), "workers": 2}
    sweeping.sweep(TOY, {"lr_decoder": [1.0, 2.0]}, **asked, on_progress=_noting(heard))
    end = _now()
    entries = [
        entry
        for line in Path(out, "manifest.jsonl").read_text().splitlines()
        for entry in json.loads(line)["runs"]
    ]
    compute = sum(entry["seconds"] for entry in entries) / 2
    start = heard[0][0] - begun[0] - entries[0]["seconds"], heard[0][1] - begun[1]
    run = written[0][0] - begun[0] - start[0] - compute, written[0][1] - heard[0][1]
    return {
        "compute": (compute, 0.0),
        "start": start,
        "run": run,
        "results": (end[0] - written[0][0], end[1] - written[0][1]),
    }


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _noting(moments: list[Any], work: Any = lambda *arguments: None) -> Any:
    """The same work, after a note of the moment."""

    def noted(*arguments: Any) -> Any:
        moments.append(_now())
        return work(*arguments)

    return noted


def _small() -> Any:
    from saccade.experiments import experiment

    return experiment(TOY).settings(**SMALL | {"n_vocab": (SMALL["n_vocab"],)})


def _publish_listing(folder: Path) -> None:
    rows = []
    for n_runs in progress(N_LISTED, "listing"):
        for n_files in (n_runs, n_runs // 100):
            path = folder / f"listed-{n_runs}-{n_files}"
            fresh_process(
                f"from benchmarks.sweeps import fill; fill({str(path)!r}, {n_runs}, {n_runs // n_files})"
            )
            asked = (
                f"from saccade.cli import main; answer = main(['sweep', '--status', {str(path)!r}])"
            )
            seconds = fresh_process(asked).seconds
            rows.append(
                {"finished runs": n_runs, "files": n_files, "seconds": seconds, "bar": LISTING_BAR}
            )
    publish("sweeps_listing", "`saccade sweep --status DIR`, from start to exit", rows, _load())
    _draw_listing(rows)


def fill(path: str, n_runs: int, n_together: int) -> None:
    """A folder with finished runs of a small synthetic record."""
    import numpy as np
    import xarray as xr

    from saccade.sweeps.asked import Asked
    from saccade.sweeps.folder import SweepFolder
    from saccade.sweeps.grid import Grid
    from saccade.sweeps.outcome_file import FINISHED, Outcome, packed

    grid = Grid.of(TOY, {"lr_decoder": [1.0, 2.0]}, n_runs // 2, _small())
    record = packed(xr.Dataset({"loss": ("time", np.linspace(1, 0, 8))}))
    outcomes = [
        Outcome(run.identity, FINISHED, "", 0.01, (run.identity,), record) for run in grid.runs
    ]
    folder = SweepFolder(path)
    with folder.writing():
        Asked.of(grid).write(folder.path)
        os.fsync = lambda descriptor: (
            None
        )  # a disk's own time for 100,000 files is not what is measured
        for start in range(0, n_runs, n_together):
            folder.commit(outcomes[start : start + n_together])


def _draw_listing(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    drawing = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = drawing.add_subplot()
    for number, (label, is_shown) in enumerate(
        (("a file for each run", True), ("a hundred to a file", False))
    ):
        shown = [row for row in rows if (row["finished runs"] == row["files"]) == is_shown]
        x, y = [row["finished runs"] for row in shown], [row["seconds"] for row in shown]
        axes.plot(x, y, "o-" if is_shown else "s--", color=categorical(number), label=label)
    axes.axhline(LISTING_BAR, color="0.5", ls=":", label="bar")
    axes.set(
        xlabel="finished runs in the folder",
        ylabel="seconds to list them",
        xscale="log",
        ylim=(0, None),
    )
    axes.legend()
    publish_figure(drawing, "sweeps_listing")


def _publish_speed(folder: Path, n_runs: int = 40) -> None:
    rates = {}
    for workers in (1, 2):
        call = f"timed_slow({str(folder / f'slow-{workers}')!r}, {workers}, {n_runs})"
        rates[workers] = fresh_process(
            f"from benchmarks.sweeps import timed_slow; answer = {call}"
        ).answer
    rows = [
        {
            "processes": workers,
            "runs a second": rate,
            "times one": rate / rates[1],
            "bar": SPEED_BAR if workers == 2 else "",
        }
        for workers, rate in rates.items()
    ]
    publish(
        "sweeps_speed",
        f"{n_runs} runs that cannot share a call, after every process has answered",
        rows,
        _load(),
    )


def timed_slow(out: str, workers: int, n_runs: int) -> float:
    """Runs a second, from the moment when every process has started and compiled: twice as many
    answers as there are processes.
    """
    from saccade.experiments import experiment
    from saccade.sweeps.sweep import sweep

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:workers])
    heard: list[tuple[float, float]] = []
    options = {"t1": float(SLOW["t1"]), "n_times": SLOW["n_times"], "n_chains": 0}
    config = experiment("cycle").settings(**options)
    sweep(
        "cycle",
        seeds=n_runs,
        out=out,
        config=config,
        workers=workers,
        on_progress=_noting(heard),
    )
    first = 2 * workers
    return (len(heard) - first) / (heard[-1][0] - heard[first - 1][0])


def _publish_kills(folder: Path) -> None:
    started = time.monotonic()
    _sweep(folder / "alone").wait()
    whole = time.monotonic() - started
    moments, finished = random.Random(0), []
    for _ in progress(range(N_KILLS), "killing"):
        _kill_after(
            _sweep(folder / "killed"), moments.uniform(0, 0.4 * whole)
        )  # most of it is start: so that all fall in time
        finished.append(len(set(_runs(folder / "killed"))))
    _sweep(folder / "killed").wait()
    runs = _runs(folder / "killed")
    same = _files(folder / "alone" / "dataset.zarr") == _files(folder / "killed" / "dataset.zarr")
    row = {
        "kills": N_KILLS,
        "while runs were missing": sum(count < len(set(runs)) for count in finished),
    }
    row |= {
        "runs": len(set(runs)),
        "done twice": len(runs) - len(set(runs)),
        "same bytes": str(same),
    }
    publish(
        "sweeps_kills",
        "200 runs, killed at random moments and resumed",
        [row | {"bar": "200, 0, True"}],
        _load(),
    )


def _runs(folder: Path) -> list[str]:
    """Every run that the manifest names, as often as it is named."""
    manifest = folder / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines() if manifest.exists() else []
    return [
        entry["run"]
        for line in lines
        if line.endswith(b"}")
        for entry in json.loads(line).get("runs", [])
    ]


def _sweep(out: Path) -> subprocess.Popen[bytes]:
    asked = SMALL | {"draws": 400}  # longer runs, so that there is something left for the last kill
    settings = [word for name, value in asked.items() for word in ("--setting", f"{name}={value}")]
    options = ["--over", "lr_decoder=1,2", "--seeds", "100", "--out", str(out)]
    command = [sys.executable, "-m", "saccade", "sweep", TOY, *settings, *options]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def _kill_after(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


if __name__ == "__main__":
    main()
