"""What every benchmark needs: a clock, a fresh process with its peak memory, a table, files.

Nothing heavy is imported here before it is used: a parent process must stay small and start fast.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "benchmarks"
GIGABYTE = 1e9

Item = TypeVar("Item")

# Some read the peak from the parent, as `ru_maxrss` of the child (1), some from /proc in the child
# itself (2). We do (2) where there is a /proc: on Linux `ru_maxrss` outlives exec, so (1) is never
# below what the parent used when it started the child.
_LAST_WORDS = """
import json, pathlib, resource, sys
status = pathlib.Path("/proc/self/status")
kilobytes = status.read_text().split("VmHWM:")[1].split()[0] if status.exists() else 0
other = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"peak_bytes": int(kilobytes) * 1024 or other, "answer": globals().get("answer")}))
"""


class Process(NamedTuple):
    """`seconds`: from start to exit, by the parent's clock. `answer`: what the code left under this
    name.
    """

    seconds: float
    peak_bytes: int
    answer: Any


def fresh_process(code: str, **environment: str) -> Process:
    """Run `code` in a new interpreter. JAX's compilation cache is off unless `environment` turns it
    on.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    started = time.perf_counter()
    command = [sys.executable, "-c", code + _LAST_WORDS]
    ended = subprocess.run(command, cwd=ROOT, env=inherited | environment, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - started
    if ended.returncode:
        raise SystemExit(
            f"`{code.strip().splitlines()[-1]}` ended with exit code {ended.returncode}; its error is above."
        )
    return Process(seconds, **json.loads(ended.stdout.splitlines()[-1]))


def seconds_of(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def interleaved(
    jobs: Mapping[Item, Callable[[], Any]], repeats: int, label: str
) -> dict[Item, list[float]]:
    """Seconds of each job, after one warm-up each. Jobs take turns, so that a slow minute of the
    machine falls on all of them.
    """
    times: dict[Item, list[float]] = {name: [] for name in jobs}
    for turn in progress(range(repeats + 1), label):
        for name, work in jobs.items():
            seconds = seconds_of(work)
            if turn:
                times[name].append(seconds)
    return times


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """A bar on the terminal's error stream; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(items, label, console=console, transient=True, disable=not console.is_terminal)


def publish(name: str, title: str, rows: list[dict[str, Any]], note: str = "") -> None:
    """Print rows as a table, and write them to results/benchmarks/NAME.csv and .json."""
    from rich.console import Console
    from rich.table import Table

    columns = max(rows, key=len)
    table = Table(
        *columns, title=title, title_justify="left", caption=note or None, caption_justify="left"
    )
    for row in rows:
        table.add_row(*(_shown(row.get(column, "")) for column in columns))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"title": title, "rows": rows, "note": note}, indent=1) + "\n", encoding="utf-8"
    )
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(columns))
        writer.writeheader()
        writer.writerows(rows)


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def publish_figure(figure: Figure, name: str) -> None:
    from saccade.report.style import save_figure

    RESULTS.mkdir(parents=True, exist_ok=True)
    save_figure(figure, RESULTS / name)
    print(f"figure: {RESULTS / name}.png\n")
