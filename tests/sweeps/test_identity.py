"""What a run is: every setting counts, and every change of code that could move a number; nothing
else does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import saccade
from saccade.experiments import experiment, identity
from saccade.experiments.identity import code_version, identities, text_version
from saccade.sweeps.grid import Grid
from tests.sweeps.small_sweeps import NAME, small_config, small_grid

_HASHES = """
import json, pathlib, sys
from saccade.experiments import identity

module, edits = json.load(sys.stdin)
root = pathlib.Path(identity.saccade.__file__).parent
found = {}
for name, (file, old, new) in edits.items():
    text = (root / file).read_text()
    assert old in text, (file, old)
    (root / file).write_text(text.replace(old, new))
    for cached in (identity._code_version, identity._path):
        cached.cache_clear()
    found[name] = identity.code_version(module)
    (root / file).write_text(text)
print(json.dumps(found))
"""
_MODULE = "experiments/scan_and_snap/decoder_dynamics.py"
EDITS = {  # name -> file, what stands there, what stands there then
    "nothing": (_MODULE, "_SHOWN", "_SHOWN"),
    "a comment": (_MODULE, "def measure(", "# another\ndef measure("),
    "a docstring": (_MODULE, '"""Height of', '"""In other words: height of'),
    "layout": (
        _MODULE,
        "    n_classes = len(feature)\n",
        "    n_classes = (\n        len(feature)\n    )\n",
    ),
    "only shown": ("report/style.py", "0.92", "0.93"),
    "how a sweep is gathered": ("sweeps/gathering.py", '"missing"', '"not run"'),
    "another experiment": ("experiments/scan_and_snap/speed_control.py", "EXPERIMENT", "ANOTHER"),
    "a constant": (_MODULE, "low=4", "low=5"),
    "a constant of the theory": ("theory/scan_and_snap/plain_descent.py", "1e-", "2e-"),
    "how runs are computed": (
        "sweeps/execution.py",
        "len(unit.identities) > 1",
        "len(unit.identities) > 2",
    ),
    "who is computed with whom": ("sweeps/units.py", "_CALLS = 16", "_CALLS = 17"),
    "a default": (_MODULE, "overlap: float = 0.2", "overlap: float = 0.3"),
}


OWN = """import saccade as lab

record = lab.train(lab.SequenceClasses.syn_small(), steps=3)
events = lab.find_events(record)
"""
OWN_EDITS = {
    "nothing": ("dynamics/train.py", "import", "import"),
    "what is reached through a public name": (
        "dynamics/descent.py",
        "\nimport ",
        "\nANOTHER = 1\nimport ",
    ),
    "an instrument that the numbers come from": (
        "observe/turning_points.py",
        "VISIBLE = 0.01",
        "VISIBLE = 0.02",
    ),
    "only shown": ("report/style.py", "0.92", "0.93"),
}


def _hashes(tmp_path, module, edits):
    """Code versions of a module after each edit of a copy of the package."""
    package = Path(saccade.__file__).parent
    shutil.copytree(
        package, tmp_path / "saccade", ignore=shutil.ignore_patterns("*.pyc.*")
    )  # that others are writing
    ended = subprocess.run(
        [sys.executable, "-c", _HASHES],
        input=json.dumps([module, edits]),
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_comments_docstrings_and_layout_do_not_matter_but_a_constant_anywhere_behind_the_numbers_does(
    tmp_path,
):
    found = _hashes(tmp_path, "saccade.experiments.scan_and_snap.decoder_dynamics", EDITS)
    unmoved = (
        "nothing",
        "a comment",
        "a docstring",
        "layout",
        "only shown",
        "how a sweep is gathered",
        "another experiment",
    )
    assert {found[name] for name in unmoved} == {
        code_version("saccade.experiments.scan_and_snap.decoder_dynamics")
    }
    moved = [found[name] for name in found if name not in unmoved]
    assert len({*moved, found["nothing"]}) == len(moved) + 1


def test_what_a_users_file_reaches_through_public_names_is_part_of_its_runs(tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(OWN)
    found = _hashes(tmp_path, str(own), OWN_EDITS)
    assert found["only shown"] == found["nothing"]
    assert len(set(found.values())) == len(found) - 1


@pytest.mark.parametrize("library", ["jax", "jaxlib", "numpy", "optax", "scipy"])
def test_another_version_of_a_numerical_library_is_other_code(monkeypatch, library):
    module, version = "saccade.experiments.scan_and_snap.decoder_dynamics", identity.library_version
    before = code_version(module)
    monkeypatch.setattr(
        identity, "library_version", lambda name: "another" if name == library else version(name)
    )
    identity._code_version.cache_clear()
    try:
        assert code_version(module) != before
    finally:
        identity._code_version.cache_clear()


def test_a_change_of_any_setting_is_another_run():
    config = small_config()
    changed = {"n_vocab": (21,), "lr_decoder": (1.5,), "overlap": 0.25, "remark_lr": 0.06}
    others = [
        replace(
            config,
            **{
                field.name: changed.get(
                    field.name, getattr(config, field.name) + 1 if field.name not in changed else 0
                )
            },
        )
        for field in fields(config)
    ]
    assert (
        len({identities(NAME, vars(each), "code")({}) for each in (config, *others)})
        == len(fields(config)) + 1
    )


def test_experiment_and_code_are_part_of_a_run():
    config = vars(small_config())
    assert (
        len(
            {
                identities(*asked)({})
                for asked in ((NAME, config, "a"), (NAME, config, "b"), ("other", config, "a"))
            }
        )
        == 3
    )


def test_another_table_of_classes_is_another_run_under_its_old_name(tmp_path):
    table = tmp_path / "mine.csv"
    found = set()
    for content in ("class,a,b\nx,0.5,0.5\n", "class,a,b\nx,0.4,0.6\n"):
        table.write_text(content)
        config = vars(experiment("scan-then-snap").settings(classes=str(table)))
        found |= {
            identities("scan-then-snap", config, "code")({}),
            identities("scan-then-snap", config, "code")({"t1": 10.0}),
        }
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
    """Whatever order sets and dictionaries come in there: Python draws its hashes anew for each."""
    code = "from tests.sweeps.small_sweeps import small_grid; print(*(run.identity for run in small_grid().runs))"
    asked = {
        "args": [sys.executable, "-c", code],
        "capture_output": True,
        "text": True,
        "check": True,
    }
    root = str(Path(__file__).parents[2])
    found = [
        subprocess.run(**asked, cwd=root, env=os.environ | {"PYTHONHASHSEED": seed}).stdout.split()
        for seed in ("1", "2", "3")
    ]
    assert found == [[run.identity for run in small_grid().runs]] * 3
    assert len(set(found[0])) == 6


def test_every_letter_of_a_text_counts(tmp_path):
    """Those beyond the first and before the last megabyte too."""
    book = tmp_path / "book.txt"
    book.write_bytes(b"word and word " * 300_000)
    whole = text_version(SimpleNamespace(text=str(book)))
    for place in (0, 2**21, book.stat().st_size - 1):
        with book.open("r+b") as file:
            file.seek(place)
            file.write(b"~")
        assert text_version(SimpleNamespace(text=str(book))) != whole
        whole = text_version(SimpleNamespace(texts=(str(book),)))
        assert text_version(SimpleNamespace(text=str(book))) == whole
