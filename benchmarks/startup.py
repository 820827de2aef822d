"""How long one waits at first: for `import saccade`, `saccade --help`, `saccade list`, and the
first figure on a new machine.

Each is a process of its own, Python's own start included; they take turns. The figure is that of
`saccade reproduce long-contexts` with empty caches: its time is until the file is there, its
processor time that of all the command does, the report included.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import median, progress, publish

REPEATS = 3
FIGURE = "saccade reproduce long-contexts, empty caches, first figure"
COMMANDS = {  # what Python is given, bar in seconds
    "import saccade": (["-c", "import saccade"], 0.1),
    "saccade --help": (["-m", "saccade", "--help"], 0.25),
    "saccade list": (["-m", "saccade", "list"], 0.25),
    FIGURE: (["-m", "saccade", "reproduce", "long-contexts", "--out", "out"], 4.0),
}


def main() -> None:
    turns = [
        {what: _timed(words, what == FIGURE) for what, (words, _) in COMMANDS.items()}
        for _ in progress(range(REPEATS + 1), "start-up")
    ][1:]  # the first one warms the disk's cache
    rows = []
    for what, (_, bar) in COMMANDS.items():
        wall, processor = zip(*(turn[what] for turn in turns), strict=True)
        rows.append(
            {
                "what": what,
                "median (s)": median(wall),
                "processor time (s)": min(processor),
                "bar (s)": bar,
            }
        )
    publish(
        "startup",
        "from the start of a process",
        rows,
        f"median, and least processor time, of {REPEATS} processes each, by turns",
    )


def _timed(words: list[str], until_figure: bool) -> tuple[float, float]:
    """Seconds until the figure is there, or to the end, and processor seconds, with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            name: str(Path(folder, name))
            for name in ("JAX_COMPILATION_CACHE_DIR", "XDG_CACHE_HOME")
        }
        began, before = time.perf_counter(), _processor_seconds()
        process = subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=os.environ | caches, stdout=subprocess.DEVNULL
        )
        while (
            until_figure
            and process.poll() is None
            and not any(Path(folder, "out").rglob("figure.*"))
        ):
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        if process.wait():
            raise RuntimeError(f"`{' '.join(words)}` ended with exit code {process.returncode}")
        return (
            seconds if until_figure else time.perf_counter() - began,
            _processor_seconds() - before,
        )


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
