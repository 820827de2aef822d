"""The README's tables are made from the experiments, and its Python lines run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from saccade.experiments import EXPERIMENTS, experiment
from tools.readme_tables import table, verdict_counts, with_tables
from saccade.records.claim import FAILS, HOLDS, OUTSIDE, Claim

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
VERDICTS = json.loads((ROOT / "docs" / "verdicts.json").read_text("utf-8"))


def test_the_tables_in_the_readme_are_those_the_experiments_make():
    again = "python -m tools.readme_tables README.md docs/verdicts.json results"
    assert with_tables(README, VERDICTS) == README, f"write them again: {again}"


def test_every_experiment_has_been_run_and_none_surprised():
    assert list(VERDICTS) == list(EXPERIMENTS)
    assert not any(counts["surprises"] for counts in VERDICTS.values())


@pytest.mark.parametrize("name", ["growth-figures", "speed-control", "decoder-dynamics"])
def test_the_verdicts_in_the_table_are_those_of_a_run(name):
    module = experiment(name)
    claims = [claim.as_dict() for claim in module.claims(module.run(module.Config()))]
    assert verdict_counts(claims) == VERDICTS[name]


def test_a_failure_that_is_known_and_one_that_is_not_are_told_apart():
    known = Claim("a", "s", 1.0, 2.0, 0.1, expected=FAILS)
    surprising = Claim("b", "s", 1.0, 2.0, 0.1)
    outside = Claim("c", "s", 1.0, 2.0, 0.1, assumptions={"x": False})
    counts = verdict_counts([claim.as_dict() for claim in (known, surprising, outside)])
    assert counts == {HOLDS: 0, FAILS: 2, OUTSIDE: 1, "surprises": 1}
    assert "1 fail as known |" in table("scan-and-snap", {"growth-figures": verdict_counts([known.as_dict()])})
    assert "1 fail |" in table("scan-and-snap", {"growth-figures": verdict_counts([surprising.as_dict()])})


def test_the_two_uses_in_the_readme_that_need_nothing_of_the_reader_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    theory, data, watching = blocks
    names: dict = {}
    exec(theory.replace("t1=500", "t1=50"), names)
    exec(data, names)
    assert [names["phase"].sizes[axis] for axis in ("lr_attention", "ratio", "seed")] == [3, 2, 4]
    assert names["text"].n_vocab == 2000
    compile(watching.replace("...,", ""), "README.md", "exec")
