"""The tables of docs/speed.md, from what `make bench` left in results/benchmarks.

    python -m tools.speed_table results/benchmarks

`docs/speed.json` keeps what is shown. A row whose benchmark failed keeps its last numbers and says
so. Commands that take minutes themselves (`make test` and others) are no benchmarks: what they took
is written into `docs/speed.json`, under "apart", by hand. Plots of how cost grows are copied beside
the docs' other figures.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
KEPT, PAGE = ROOT / "docs" / "speed.json", ROOT / "docs" / "speed.md"
EARLIER, NOTHING = " (an earlier run)", {"asked": "", "measured": "not measured"}


class Row(NamedTuple):
    """`asked` and `measured` are filled from one row of the benchmark's file: the first with the
    values of `where`.
    """

    what: str
    benchmark: str
    where: Mapping[str, Any]
    asked: str
    measured: str

    def filled(self, rows: list[dict[str, Any]], last: dict[str, str]) -> dict[str, str]:
        """As `last`, and marked, where the file is not there or does not hold what is shown."""
        try:
            row = next(
                row
                for row in rows
                if all(row[column] == value for column, value in self.where.items())
            )
            return {
                name: getattr(self, name).format_map(row).replace("%", " %")
                for name in ("asked", "measured")
            }
        except (StopIteration, KeyError, ValueError):
            mark = "" if last["measured"] == NOTHING["measured"] else EARLIER
            return last | {"measured": last["measured"].removesuffix(EARLIER) + mark}


def _start(what: str, words: str) -> Row:
    return Row(
        words,
        "startup",
        {"what": what},
        "under {bar (s):g} s",
        "{median (s):.2f} s ({processor time (s):.2f} s of processor time)",
    )


def _sweep(what: str, quantity: str, measured: str) -> Row:
    return Row(what, "syn_medium", {"quantity": quantity}, "{bar}", measured)


def _text(what: str, way: str, asked: str, measured: str) -> Row:
    return Row(what, "text_training", {"what": f"train_text, recorder on, {way}"}, asked, measured)


ROWS = {
    "sweep": _sweep(
        "the 640 runs of Fig. 6 from a cold process, imports included",
        "640 runs, median (s)",
        "{Saccade:.1f} s ({Saccade without C:.0f} s without the C code)",
    ),
    "faster": _sweep(
        "the same: how many times faster than PyTorch",
        "times Saccade's, median",
        "{PyTorch, careful:.0f} times (a careful loop), {PyTorch, as published:.0f} times (as the paper's public code writes it)",
    ),
    "gap": _sweep(
        "the same: largest difference that the C code makes to an entropy",
        "entropies of the 640 runs: with C less without",
        "{Saccade:.0e}",
    ),
    "threads": _sweep(
        "the same bits on 1, 2 and 5 threads", "same bits on 1, 2 and 5 threads", "{Saccade}"
    ),
    "exactness": _sweep(
        "float32 compared with float64, attention logits after training",
        "float32: error of attention logits",
        "{Saccade:.0e} (PyTorch: {PyTorch, careful:.0e})",
    ),
    "import": _start("import saccade", "`import saccade`, Python's own start included"),
    "help": _start("saccade --help", "`saccade --help`"),
    "list": _start("saccade list", "`saccade list`"),
    "figure": _start(
        "saccade reproduce long-contexts, empty caches, first figure",
        "first figure of `saccade reproduce long-contexts`, empty caches",
    ),
    "context": Row(
        "a context of 1,000,000 tokens compared with 128",
        "context_length",
        {"context tokens": 1_000_000},
        "at most {bar} times the time",
        "{ratio of medians:.1f} times the time",
    ),
    "memory": Row(
        "100,000 tokens and 1,000 classes, peak memory",
        "growth",
        {"tokens": 100_000, "classes": 1_000},
        "under {bar (GB):g} GB",
        "{peak memory (GB):.1f} GB",
    ),
    "flow": Row(
        "flow (B) to t = 1e12, 10 classes, 1,000 tokens, all in contexts, cold",
        "flow_time",
        {"dynamics": "flow", "tokens in contexts": "all"},
        "under {bar (s):g} s",
        "{cold (s):.1f} s",
    ),
    "cycle": Row(
        "Focus and Dilution, six tokens to t = 5000, in a running process",
        "focus_dilution",
        {"what": "one seed"},
        "under {bar (s):g} s",
        "{saccade (s):.2f} s ({without C (s):.1f} s without the C code; plain SciPy and NumPy: {plain SciPy and NumPy (s):.1f} s)",
    ),
    "cycles": Row(
        "ten seeds of it",
        "focus_dilution",
        {"what": "ten seeds"},
        "under {bar (s):g} s",
        "{saccade (s):.1f} s",
    ),
    "tokens": Row(
        "one seed, 64 tokens",
        "focus_dilution_tokens",
        {"tokens": 64},
        "under {bar (s):g} s",
        "{running (s):.1f} s",
    ),
    "invariants": Row(
        "largest change of its two invariants, 4 to 64 tokens",
        "focus_dilution_invariants",
        {},
        "at most {bar:.0e}",
        "{drift:.0e} (plain SciPy and NumPy, six tokens: {plain SciPy and NumPy:.0e})",
    ),
    "windows": Row(
        "a step of the pairwise model on 40,000 windows of 16 tokens, 500 words of a text, in float32",
        "windows",
        {"windows": 40_000, "tokens before the query": 16},
        "{bar (s):g} s",
        "{step (s):.3f} s, {processor time (s):.2f} s of processor time (plain NumPy: {plain NumPy, processor time (s):.1f} s)",
    ),
    "look": Row(
        "watching: one observation of 12 layers, 12 heads, 1024 tokens compared with a forward pass, processor time",
        "watching_look",
        {"tokens": 1024},
        "at most {bar:g} times",
        "{ratio:.1f} times ({look (s):.1f} s and {forward (s):.1f} s)",
    ),
    "watching-memory": Row(
        "watching: extra memory of one observation of it, batch 4, as a share of all attention maps",
        "watching_memory",
        {"what": "watch, one look"},
        "under {bar:.0%}",
        "{of all maps:.1%}",
    ),
    "closing": Row(
        "watching: memory of closing a run of 80 observations compared with one of 10",
        "watching_close",
        {"looks": 80},
        "{bar}",
        "{times the fewest:.2f} times ({extra (MB):.0f} MB)",
    ),
    "watching": Row(
        "watching: a small GPT, one observation every 100 steps",
        "watching_time",
        {"what": "watch"},
        "under {bar:.0%} of training",
        "{overhead:.1%} of training",
    ),
    "text": _text(
        "training on text with the recorder on, 28,782 words, width 200, 20 x 35 tokens, compared with a plain loop that holds all "
        "logits: speed",
        "2 % of the time",
        "{bar (speed)}",
        "{speed:.1f} times",
    ),
    "text-looks": _text(
        "the same, no observation skipped", "every look made", "{bar (speed)}", "{speed:.1f} times"
    ),
    "text-memory": _text(
        "the same, peak memory beyond the libraries",
        "every look made",
        "{bar (of plain)}",
        "{of plain:.2f} times",
    ),
    "tokenising": Row(
        "text to token ids: words of WikiText-2 or of the text in the package",
        "tokenising",
        {"tokeniser": "word", "work": "tokenise"},
        "",
        "{MB/s:.0f} MB a second ({library (MB/s):.0f} with the `tokenizers` library)",
    ),
    "overhead": Row(
        "overhead of a sweep of 1,000 small runs, not counting their computation and the start of two processes",
        "sweeps_overhead",
        {"what": "beyond it, without the start of processes"},
        "under {bar:g} ms",
        "{wall (ms a run):.1f} ms a run",
    ),
    "kills": Row(
        "a sweep of 200 runs killed at random moments and resumed",
        "sweeps_kills",
        {},
        "same bytes, none repeated",
        "{kills} kills: same bytes: {same bytes}, runs repeated: {done twice}",
    ),
    "listing": Row(
        "listing a folder of 100,000 finished runs, a file each",
        "sweeps_listing",
        {"finished runs": 100_000, "files": 100_000},
        "under {bar:g} s",
        "{seconds:.1f} s",
    ),
    "processes": Row(
        "two processes compared with one on one core, runs that cannot share a call",
        "sweeps_speed",
        {"processes": 2},
        "at least {bar:g}",
        "{times one:.1f} times",
    ),
    "bench": Row("`make bench`, all of this", "run", {}, "under 20 min", "{minutes:.1f} min"),
}
PLOTS = {
    "syn_medium": "Time of the runs of Fig. 6 against their number, four ways",
    "growth": "Time of a training step and peak memory against vocabulary and classes",
    "context_length": "Time of training against the length of the context",
    "flow_classes": "Time of the flow to t = 1e12 against classes",
    "focus_dilution_tokens": "Time of the flow of Focus and Dilution against tokens",
    "windows": "Processor time of a step against windows times distinct tokens, for windows of 4, 16 and 48 tokens",
    "watching": "Processor time of an observation against tokens, and memory of closing a run against observations",
    "sweeps_listing": "Seconds to list a folder against the finished runs in it",
}


def updated(kept: Mapping[str, Any], results: Path) -> dict[str, Any]:
    """What is known of the run and of each row: new where the run has left a file, else as before."""
    rows = {
        name: row.filled(_rows(results / f"{row.benchmark}.json"), kept["rows"].get(name, NOTHING))
        for name, row in ROWS.items()
    }
    return {
        "run": next(iter(_rows(results / "run.json")), kept["run"]),
        "rows": rows,
        "apart": kept["apart"],
    }


def _rows(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []


def about(run: Mapping[str, Any]) -> str:
    if not run:
        return "No run of all benchmarks has come to its end yet: the rows are of runs that were broken off.\n"
    failed = f" These benchmarks failed: {run['failed']}." if run["failed"] else ""
    return (
        f"Measured on {run['date']} in one run of {run['minutes']:.1f} minutes ({run['processor minutes']:.1f} of processor time) "
        f"on {run['cores']} cores, with a load of {run['load before']:.1f} before it.{failed}\n"
    )


def table(known: Mapping[str, Any]) -> str:
    return _table(
        (row.what, known["rows"][name]["asked"], known["rows"][name]["measured"])
        for name, row in ROWS.items()
    )


def apart(known: Mapping[str, Any]) -> str:
    return _table(
        (f"`{command}`", said["asked"], said["measured"])
        for command, said in known["apart"].items()
    )


def _table(cells: Any) -> str:
    return "| what | asked | measured |\n|---|---|---|\n" + "".join(
        f"| {' | '.join(line)} |\n" for line in cells
    )


def plots(figures: Path) -> str:
    there = {name: words for name, words in PLOTS.items() if (figures / f"{name}.svg").exists()}
    return "\n".join(f"![{words}](figures/{name}.svg)\n" for name, words in there.items())


def between(text: str, mark: str, made: str) -> str:
    """The text with what was made between `<!-- mark -->` and the next `<!-- end -->`."""
    begin, end = f"<!-- {mark} -->\n", "<!-- end -->"
    before, _, rest = text.partition(begin)
    return before + begin + made + end + rest.partition(end)[2]


def filled_page(text: str, known: Mapping[str, Any]) -> str:
    made = {
        "run": about(known["run"]),
        "speed": table(known),
        "apart": apart(known),
        "plots": plots(ROOT / "docs" / "figures"),
    }
    for mark, words in made.items():
        text = between(text, mark, words)
    return text


def main(results: Path) -> str | None:
    """What was not measured, if anything was not, in a sentence."""
    known = updated(json.loads(KEPT.read_text(encoding="utf-8")), results)
    for name in PLOTS:
        if (results / f"{name}.svg").exists():
            shutil.copy(results / f"{name}.svg", ROOT / "docs" / "figures" / f"{name}.svg")
    KEPT.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(filled_page(PAGE.read_text(encoding="utf-8"), known), encoding="utf-8")
    missing = [
        name
        for name in ROWS
        if known["rows"][name]["measured"].endswith((EARLIER, NOTHING["measured"]))
    ]
    return (
        f"not measured in this run, and marked so in {PAGE.name}: {', '.join(missing)}"
        if missing
        else None
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
