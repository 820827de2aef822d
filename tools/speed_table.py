"""The table of docs/speed.md and the lines of README's "Speed", from what `make bench` left in results/benchmarks.

    python -m tools.speed_table results/benchmarks

`docs/speed.json` keeps a sentence for each row: what was measured last, and how busy the machine was. Rows whose benchmark was not
run keep theirs. Plots of how cost grows are copied beside the docs' other figures.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
KEPT, PAGE, README = ROOT / "docs" / "speed.json", ROOT / "docs" / "speed.md", ROOT / "README.md"
Rows = list[dict[str, Any]]


class Row(NamedTuple):
    """`measured` makes the sentence from the rows of the benchmark's file; without a benchmark it is written by hand."""

    what: str
    target: str
    benchmark: str = ""
    measured: Callable[[Rows], str] = lambda rows: ""


def _by(rows: Rows, column: str, value: Any) -> dict[str, Any]:
    return next(row for row in rows if row[column] == value)


def _sweep(rows: Rows) -> str:
    seconds, times = (_by(rows, "quantity", name) for name in ("640 runs, median (s)", "times Saccade's, median"))
    careful, published = (f"{times[name]:.0f}" for name in ("PyTorch, careful", "PyTorch, as published"))
    return (
        f"{seconds['Saccade']:.1f} s ({seconds['Saccade without C']:.0f} s without the C code): {careful} times faster than a "
        f"careful PyTorch loop, {published} times faster than one as the paper's public code writes it"
    )


def _exactness(rows: Rows) -> str:
    row = _by(rows, "quantity", "float32: error of attention logits")
    return f"{row['Saccade']:.0e} (PyTorch: {row['PyTorch, careful']:.0e})"


def _two(rows: Rows, column: str, digits: str) -> str:
    return f"{rows[1][column]:{digits}} times (no observation skipped: {rows[2][column]:{digits}})"


ROWS = {
    "sweep": Row("the 640 runs of Fig. 6 from a cold process, imports included", "3 s, 150 times", "syn_medium", _sweep),
    "context": Row(
        "a context of 1,000,000 tokens compared with 128",
        "at most 1.2",
        "context_length",
        lambda rows: f"{rows[-1]['ratio of medians']:.1f} times the time",
    ),
    "memory": Row(
        "100,000 tokens and 1,000 classes, peak memory",
        "under 4 GB",
        "growth",
        lambda rows: f"{max(row['peak memory (GB)'] for row in rows):.1f} GB",
    ),
    "flow": Row(
        "flow (B) to t = 1e12, 10 classes, 1,000 tokens, cold",
        "under 10 s",
        "flow_time",
        lambda rows: f"at most {max(row['cold (s)'] for row in rows if row['dynamics'] == 'flow'):.1f} s",
    ),
    "cycle": Row(
        "Focus and Dilution, six tokens to t = 5000, in a running process",
        "under 0.8 s",
        "focus_dilution",
        lambda rows: f"{rows[0]['saccade (s)']:.2f} s (plain SciPy and NumPy: {rows[0]['plain SciPy and NumPy (s)']:.1f} s)",
    ),
    "cycles": Row("ten seeds of it", "under 5 s", "focus_dilution", lambda rows: f"{rows[1]['saccade (s)']:.1f} s"),
    "tokens": Row(
        "the same with 64 tokens",
        "under 15 s",
        "focus_dilution_tokens",
        lambda rows: f"{_by(rows, 'tokens', 64)['running (s)']:.1f} s",
    ),
    "windows": Row(
        "a step of the pairwise model on all of 40,000 windows of 16 tokens, 500 words of WikiText-2, in float32, processor time",
        "0.12 s",
        "windows",
        lambda rows: (
            "{processor time (s):.2f} s (plain NumPy with dense products: {plain NumPy, processor time (s):.1f} s)".format_map(
                next(row for row in rows if (row["windows"], row["tokens before the query"]) == (40_000, 16))
            )
        ),
    ),
    "watching-memory": Row(
        "watching: extra memory of one observation, 12 layers, 12 heads, 1024 tokens, batch 4, as a share of all attention maps "
        "(largest of three processes with it minus smallest of three without)",
        "under 5 %",
        "watching_memory",
        lambda rows: f"{100 * rows[0]['of all maps']:.1f} %",
    ),
    "watching": Row(
        "watching: a small GPT, one observation every 100 steps",
        "under 2 % of training",
        "watching_time",
        lambda rows: f"{100 * rows[0]['overhead']:.1f} % of training (`output_attentions=True`: {100 * rows[1]['overhead']:.1f} %)",
    ),
    "text": Row(
        "training on text with the recorder on, 28,782 words, width 200, 20 x 35 tokens, compared with a plain loop that holds all "
        "logits: speed",
        "at least 1.0",
        "text_training",
        lambda rows: _two(rows, "speed", ".1f"),
    ),
    "text-memory": Row(
        "the same, peak memory beyond the libraries", "at most 0.5", "text_training", lambda rows: _two(rows, "of plain", ".2f")
    ),
    "overhead": Row(
        "overhead of a sweep of 1,000 small runs, not counting their computation and the start of two processes",
        "under 2 ms",
        "sweeps_overhead",
        lambda rows: f"{rows[1]['wall (ms a run)']:.1f} ms a run",
    ),
    "kills": Row(
        "a sweep of 200 runs killed 25 times at random moments and resumed",
        "same bytes, none repeated",
        "sweeps_kills",
        lambda rows: f"same bytes: {rows[0]['same bytes']}, runs repeated: {rows[0]['done twice']}",
    ),
    "listing": Row(
        "listing a folder of 100,000 finished runs",
        "under 5 s",
        "sweeps_listing",
        lambda rows: f"at most {max(row['seconds'] for row in rows if row['finished runs'] == 100_000):.1f} s",
    ),
    "processes": Row(
        "two processes compared with one on one core, runs that cannot share a call",
        "at least 1.8",
        "sweeps_speed",
        lambda rows: f"{rows[1]['times one']:.1f} times",
    ),
    "report": Row(
        "the report of a watched run, 200 observations, 12 x 12 heads, 1024 tokens: size, time until usable (`tests/report`)",
        "under 10 MB, 2 s",
    ),
    "playground": Row("the playground at its default sizes (`tests/playground`)", "at least 30 frames a second"),
    "playground-gap": Row("largest difference between the playground and Python at equal times (`tests/playground`)", "1e-6"),
    "exactness": Row("float32 compared with float64, attention logits after training", "", "syn_medium", _exactness),
}
PLOTS = {
    "syn_medium": "Times of the 640 runs, four ways",
    "growth": "Time of a training step and peak memory against vocabulary and classes",
    "context_length": "Time of training against the length of the context",
    "flow_classes": "Time of the flow to t = 1e12 against classes",
    "focus_dilution_tokens": "Time of the flow of Focus and Dilution against tokens",
    "windows": "Processor time of a step against windows times distinct tokens, for windows of 4, 16 and 48 tokens",
    "sweeps_listing": "Seconds to list a folder against the finished runs in it",
}


def updated(kept: Mapping[str, Mapping[str, str]], results: Path, machine: str) -> dict[str, dict[str, str]]:
    """What is known of each row: new where its benchmark has left a file, else as before."""
    found = {}
    for name, row in ROWS.items():
        file = results / f"{row.benchmark}.json"
        if row.benchmark and file.exists():
            rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
            found[name] = {"measured": row.measured(rows), "machine": machine}
        else:
            found[name] = dict(kept.get(name, {"measured": "not measured", "machine": ""}))
    return found


def table(known: Mapping[str, Mapping[str, str]]) -> str:
    head = "| what | measured | target | machine |\n|---|---|---|---|\n"
    made = ((row.what, known[name]["measured"], row.target, known[name]["machine"]) for name, row in ROWS.items())
    return head + "".join(f"| {' | '.join(cells)} |\n" for cells in made)


def lines(known: Mapping[str, Mapping[str, str]]) -> str:
    """Four lines for the README."""
    said = {
        "sweep": "The 640 runs of Fig. 6, from a cold start",
        "flow": "Flow (B) to t = 1e12, 10 classes and 1,000 tokens, from a cold start",
        "context": "A context of 1,000,000 tokens compared with one of 128",
        "watching": "Watching a small GPT",
    }
    return "".join(f"- {words}: {known[name]['measured']}.\n" for name, words in said.items())


def plots(figures: Path) -> str:
    there = {name: words for name, words in PLOTS.items() if (figures / f"{name}.svg").exists()}
    return "\n".join(f"![{words}](figures/{name}.svg)\n" for name, words in there.items())


def between(text: str, mark: str, made: str) -> str:
    """The text with what was made between `<!-- mark -->` and the next `<!-- end -->`."""
    begin, end = f"<!-- {mark} -->\n", "<!-- end -->"
    before, _, rest = text.partition(begin)
    return before + begin + made + end + rest.partition(end)[2]


def main(results: Path) -> None:
    machine = f"load {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores"
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    known = updated(kept, results, machine)
    for name in PLOTS:
        if (results / f"{name}.svg").exists():
            shutil.copy(results / f"{name}.svg", ROOT / "docs" / "figures" / f"{name}.svg")
    KEPT.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page = between(PAGE.read_text(encoding="utf-8"), "speed", table(known))
    PAGE.write_text(between(page, "plots", plots(ROOT / "docs" / "figures")), encoding="utf-8")
    README.write_text(between(README.read_text(encoding="utf-8"), "speed", lines(known)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
