"""What a run is: everything that could move one of its numbers is in its identity."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import saccade
from saccade import identity
from saccade.compiled import compiled_code
from saccade.identity import computation, identities, user_files
from saccade.sweeps.grid import Grid
from tests.sweeps.small_sweeps import (
    NAME,
    called,
    manifest_runs,
    small_arguments,
    small_config,
    small_grid,
)

ROOT = Path(__file__).parents[2]
_EDITED = """
import json, pathlib, sys
from saccade import identity

root, found = pathlib.Path(identity.__file__).parent, []
for file in json.loads(sys.argv[1]):
    with (root / file).open("a") as appended:
        appended.write(" ")
    identity._saccade.cache_clear()
    found.append(identity.computation())
print(json.dumps(found))
"""


def _copy_of_saccade(folder, *without):
    ignored = shutil.ignore_patterns("__pycache__", *without)
    shutil.copytree(Path(saccade.__file__).parent, folder / "saccade", ignore=ignored)


def _finished(folder, *arguments):
    """Python's, with the copy of Saccade there."""
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True
    )


def test_a_change_of_any_file_that_computes_is_another_computation(tmp_path):
    _copy_of_saccade(tmp_path)
    files = [
        "models/rows_kernel.c",
        "models/flow_kernel.c",
        "experiments/scan_and_snap/first_force.py",
        "sweeps/execution.py",
    ]
    ended = _finished(tmp_path, "-c", _EDITED, json.dumps(files))
    assert ended.returncode == 0, ended.stderr
    written = [each["Saccade"] for each in [computation(), *json.loads(ended.stdout)]]
    assert len(set(written)) == len(files) + 1


@pytest.mark.skipif(compiled_code() == "not built", reason="the C code was not built")
def test_runs_without_the_compiled_code_are_other_runs_and_repair_nothing(tmp_path):
    """Their last bits differ, so neither is resumed or repaired by the other."""
    path = tmp_path / "sweep"
    asked = small_arguments(path, 1, "--workers", 1)
    assert called(*asked)[0] == 0
    before = set(manifest_runs(path))
    _copy_of_saccade(tmp_path, "lib*.so")
    damaged = next((path / "runs").iterdir())
    whole = damaged.read_bytes()
    damaged.write_bytes(b"damaged")
    refused = _finished(tmp_path, "-m", "saccade", "check", path, "--repair", "--file", NAME)
    assert refused.returncode == 2
    assert f"(compiled C: '{compiled_code()}' then, 'not built' now)" in refused.stderr
    assert damaged.read_bytes() == b"damaged"
    damaged.write_bytes(whole)
    resumed = _finished(tmp_path, "-m", "saccade", *asked)
    assert resumed.returncode == 0, resumed.stderr
    assert len({*manifest_runs(path)} - before) == len(before)
    facts = _finished(tmp_path, "-m", "saccade", "env").stdout
    assert "compiled_c: not built" in facts
    assert f"compiled_c: {compiled_code()}" in called("env")[1]


@pytest.mark.parametrize("library", ["jax", "jaxlib", "numpy", "optax", "scipy", "torch"])
def test_another_version_of_a_numerical_library_is_another_computation(monkeypatch, library):
    before, version = computation(), identity.library_version
    monkeypatch.setattr(
        identity, "library_version", lambda name: "another" if name == library else version(name)
    )
    assert identity._saccade.__wrapped__() == before | {library: "another"}


def test_a_change_of_any_setting_is_another_run():
    config = small_config()
    changed = vars(small_config(2.0, 0.25, 4, 0.5, "other.csv", 1))
    others = [replace(config, **{name: value}) for name, value in changed.items()]
    found = {identities(NAME, vars(each), "code", {})({}) for each in (config, *others)}
    assert len(found) == len(changed) + 1


def test_experiment_and_code_are_part_of_a_run():
    config = vars(small_config())
    asked = ((NAME, config, "a"), (NAME, config, "b"), ("other", config, "a"))
    assert len({identities(*each, {})({}) for each in asked}) == 3


def test_another_table_of_classes_is_another_run_under_its_old_name(tmp_path):
    table = tmp_path / "mine.csv"
    found = set()
    for content in ("class,a,b\nx,0.5,0.5\n", "class,a,b\nx,0.4,0.6\n"):
        table.write_text(content)
        found |= {run.identity for run in small_grid(1, classes=str(table)).runs}
    assert len(found) == 4


def test_neither_order_nor_company_nor_the_way_it_was_asked_for_is():
    def runs(*arguments):
        return {run.identity for run in Grid.of(NAME, *arguments).runs}

    config = small_config()
    one = runs({"lr_decoder": [1.0, 2.0], "overlap": [0.1, 0.2]}, 3, config)
    assert one == runs({"overlap": [0.2, 0.1], "lr_decoder": [2, 1]}, [2, 0, 1], config)
    assert one == runs(["overlap=0.1,0.2", "lr_decoder=1..2", "seed=0..2"], None, config)
    assert one < runs(["overlap=0.1..0.3:3", "lr_decoder=1..2"], 5, config)
    assert len(one) == 12


def test_an_identity_is_the_same_in_every_process():
    """Whatever order sets and dictionaries have there: Python's hashes differ between processes."""
    code = "from tests.sweeps.small_sweeps import small_grid; print(*(run.identity for run in small_grid().runs))"
    found = Counter(
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert list(found.values()) == [2]


def test_every_letter_of_a_text_counts(tmp_path):
    """Those beyond the first and before the last megabyte too."""
    book = tmp_path / "book.txt"
    book.write_bytes(b"word and word " * 300_000)
    whole = user_files(SimpleNamespace(text=str(book)))
    for place in (0, 2**21, book.stat().st_size - 1):
        with book.open("r+b") as file:
            file.seek(place)
            file.write(b"~")
        assert user_files(SimpleNamespace(text=str(book))) != whole
        whole = user_files(SimpleNamespace(texts=(str(book),)))
        assert user_files(SimpleNamespace(text=str(book))) == whole
