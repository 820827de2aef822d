"""All benchmarks, one after the other, each in a process of its own: about a quarter of an hour on
two cores.

One that fails is named at the end, and the exit code is 1 then; the others are measured all the
same. What an earlier run left is deleted first, so that all numbers are of one run.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time

from benchmarks.measuring import RESULTS, ROOT

NAMES = (
    "startup",
    "syn_medium",
    "growth",
    "context_length",
    "flow_time",
    "focus_dilution",
    "windows",
    "watching",
    "text_training",
    "tokenising",
    "sweeps",
    "packing",
    "compilation",
)


def main(names: tuple[str, ...] = NAMES) -> str | None:
    """What went wrong, if anything did, in a sentence."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    load, began = os.getloadavg()[0], time.time()
    failed = [
        name
        for number, name in enumerate(names, 1)
        if not _succeeds(name, f"{number} of {len(names)}")
    ]
    run = {
        "date": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "cores": os.cpu_count(),
        "load before": load,
        "minutes": (time.time() - began) / 60,
        "processor minutes": _processor_seconds() / 60,
        "failed": ", ".join(failed),
    }
    (RESULTS / "run.json").write_text(
        json.dumps({"rows": [run]}, indent=1) + "\n", encoding="utf-8"
    )
    print(
        "{0} of {1} benchmarks in {minutes:.1f} min, {processor minutes:.1f} of processor time".format(
            len(names) - len(failed), len(names), **run
        )
    )
    return (
        f"failed, with their errors above: {', '.join(failed)}; the others were measured"
        if failed
        else None
    )


def _succeeds(name: str, place: str) -> bool:
    print(f"== {name} ({place})", flush=True)
    began, before = time.time(), _processor_seconds()
    code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT).returncode
    spent = f"{time.time() - began:.0f} s, {_processor_seconds() - before:.0f} s of processor time"
    print(f"== {name}: {spent}{f', failed with exit code {code}' if code else ''}\n", flush=True)
    return code == 0


def _processor_seconds() -> float:
    """Of all processes that were started from here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
