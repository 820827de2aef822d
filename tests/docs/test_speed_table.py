"""The tables of speed say what the benchmarks of one run measured; what failed keeps what it said,
and says so.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys

import pytest

from benchmarks import __main__ as benchmarks
from tools import speed_table


@pytest.fixture
def kept():
    return json.loads(speed_table.KEPT.read_text(encoding="utf-8"))


def test_the_page_shows_what_is_kept(kept):
    page = speed_table.PAGE.read_text(encoding="utf-8")
    assert speed_table.filled_page(page, kept) == page


def test_a_row_is_of_this_run_or_says_that_it_is_not(tmp_path, kept):
    rows = [
        {
            "what": "one seed",
            "saccade (s)": 0.72,
            "without C (s)": 2.11,
            "plain SciPy and NumPy (s)": 3.31,
            "bar (s)": 0.8,
        },
        {"what": "ten seeds", "bar (s)": 5.0},
    ]
    (tmp_path / "focus_dilution.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "watching_memory.json").write_text(
        json.dumps({"rows": [{"what": "watch, one look", "of all maps": 0.0213, "bar": 0.05}]})
    )
    known = speed_table.updated(kept, tmp_path)
    told = "0.72 s (2.1 s without the C code; plain SciPy and NumPy: 3.3 s)"
    assert known["rows"]["cycle"] == {"asked": "under 0.8 s", "measured": told}
    assert known["rows"]["watching-memory"] == {"asked": "under 5 %", "measured": "2.1 %"}
    others = set(speed_table.ROWS) - {
        "cycle",
        "watching-memory",
    }  # of ten seeds the time is not there
    assert all(
        known["rows"][name]["measured"].endswith((speed_table.EARLIER, "not measured"))
        for name in others
    )
    assert speed_table.updated(known, tmp_path) == known  # said once
    assert known["apart"] == kept["apart"]


def test_every_row_reads_a_file_that_a_benchmark_of_the_run_writes():
    files = [speed_table.ROOT / "benchmarks" / f"{name}.py" for name in benchmarks.NAMES]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    written, drawn = (
        set(re.findall(r'publish\(\s*"(\w+)"', text)),
        set(re.findall(r'publish_figure\(\w+, "(\w+)"\)', text)),
    )
    assert {row.benchmark for row in speed_table.ROWS.values()} <= written | {"run"}
    assert set(speed_table.PLOTS) <= drawn


def test_what_the_benchmarks_import_is_there():
    for file in (speed_table.ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in (
                "saccade",
                "benchmarks",
            ):
                module = importlib.import_module(node.module)
                for name in node.names:
                    assert hasattr(module, name.name) or importlib.util.find_spec(
                        f"{node.module}.{name.name}"
                    ), (
                        file.name,
                        name.name,
                    )


def test_a_benchmark_that_fails_is_named_and_the_others_are_measured(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(benchmarks, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "old.json").write_text("{}")
    codes = {"first": "import sys; sys.exit(3)", "second": "print('measured')"}

    def run(command, cwd):
        return subprocess.CompletedProcess(
            command, subprocess.call([sys.executable, "-c", codes[command[2].split(".")[1]]])
        )

    monkeypatch.setattr(benchmarks.subprocess, "run", run)
    said = benchmarks.main(("first", "second"))
    assert said == "failed, with their errors above: first; the others were measured"
    out = capfd.readouterr().out
    for words in ("failed with exit code 3", "\nmeasured\n", "1 of 2 benchmarks"):
        assert words in out
    kept = json.loads((tmp_path / "results" / "run.json").read_text())["rows"][0]
    assert kept["failed"] == "first"
    assert not (tmp_path / "results" / "old.json").exists()
    assert "These benchmarks failed: first." in speed_table.about(kept)
    assert benchmarks.main(("second",)) is None
