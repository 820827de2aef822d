"""Every example runs by itself at small size and finds its own claim true; the table and the notebooks say what the scripts say."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import notebooks

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NEED_TORCH = {"watch_nanogpt.py", "trainer_callback.py", "checkpoint_series.py", "watch_a_model.ipynb"}


def run(code: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    if code.name in NEED_TORCH:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    environment = {name: value for name, value in os.environ.items() if name != "SACCADE_DATA"}
    environment |= {"MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(cwd / "cache")}
    command = [sys.executable, str(code), "--small"]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def claim(script: Path) -> str:
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").splitlines()[0]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_finds_its_claim_true(script, tmp_path):
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 1 <= len(done.stdout.splitlines()) <= 40
    assert list(tmp_path.glob("results/examples/*.png")) or "savefig" not in script.read_text(encoding="utf-8")


def test_an_example_fails_where_its_claim_is_wrong(tmp_path):
    """The assertions are what decides: with the frequencies of two words exchanged the same script ends with an error."""
    source = (FOLDER / "your_own_classes.py").read_text(encoding="utf-8")
    turned = source.replace('"cat": 0.35, "milk": 0.15', '"cat": 0.15, "milk": 0.35')
    assert turned != source
    (tmp_path / "turned.py").write_text(turned, encoding="utf-8")
    done = run(tmp_path / "turned.py", tmp_path)
    assert done.returncode == 1
    assert "the frequent one more than the rare one" in done.stderr


def test_every_script_asserts_and_is_short():
    for script in SCRIPTS:
        lines = script.read_text(encoding="utf-8").splitlines()
        assert any(line.lstrip().startswith("assert ") for line in lines), script.name
        assert len(lines) <= 95, script.name


def test_the_table_says_what_the_scripts_say():
    rows = [
        line.split("|")[1:-1] for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    assert {name.strip(" `"): text.strip() for name, text, _ in rows} == {script.name: claim(script) for script in SCRIPTS}
    assert all(0 < float(seconds) < 120 for *_, seconds in rows)


def test_notebooks_are_those_the_scripts_make():
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.ipynb")} == notebooks.made()


@pytest.mark.parametrize("name", ["test_a_theory.ipynb", "watch_a_model.ipynb"])
def test_the_cells_of_a_notebook_run_one_after_the_other(name, tmp_path):
    cells = json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    (tmp_path / name).write_text(code, encoding="utf-8")
    done = run(tmp_path / name, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
