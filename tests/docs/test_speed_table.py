"""The tables of speed say what the benchmarks measured, and what was not measured keeps what it said."""

from __future__ import annotations

import json
import re

from tools import speed_table


def test_the_page_and_the_readme_say_what_is_kept():
    kept = json.loads(speed_table.KEPT.read_text(encoding="utf-8"))
    page = speed_table.PAGE.read_text(encoding="utf-8")
    assert speed_table.between(page, "speed", speed_table.table(kept)) == page
    assert speed_table.between(page, "plots", speed_table.plots(speed_table.ROOT / "docs" / "figures")) == page
    readme = speed_table.README.read_text(encoding="utf-8")
    assert speed_table.between(readme, "speed", speed_table.lines(kept)) == readme


def test_a_benchmark_changes_its_own_rows_and_no_others(tmp_path):
    kept = json.loads(speed_table.KEPT.read_text(encoding="utf-8"))
    rows = [{"what": "one seed", "saccade (s)": 0.72, "plain SciPy and NumPy (s)": 3.31}, {"what": "ten seeds", "saccade (s)": 4.2}]
    (tmp_path / "focus_dilution.json").write_text(json.dumps({"rows": rows}))
    known = speed_table.updated(kept, tmp_path, "load 0.1 on 2 cores")
    assert known["cycle"] == {"measured": "0.72 s (plain SciPy and NumPy: 3.3 s)", "machine": "load 0.1 on 2 cores"}
    assert known["cycles"]["measured"] == "4.2 s"
    assert {name for name in known if known[name] != kept[name]} == {"cycle", "cycles"}
    assert speed_table.updated({}, tmp_path, "")["flow"]["measured"] == "not measured"


def test_every_row_reads_a_file_that_a_benchmark_writes():
    benchmarks = "".join(file.read_text(encoding="utf-8") for file in (speed_table.ROOT / "benchmarks").glob("*.py"))
    written = set(re.findall(r'publish\(\s*"(\w+)"', benchmarks))
    drawn = set(re.findall(r'publish_figure\(\w+, "(\w+)"\)', benchmarks))
    assert {row.benchmark for row in speed_table.ROWS.values()} - {""} <= written
    assert set(speed_table.PLOTS) <= drawn
