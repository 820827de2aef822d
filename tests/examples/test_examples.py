"""Every example runs by itself at small size and finds its own claim true; the table and the notebooks say what the scripts say."""

from __future__ import annotations

import ast
import json
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

from tools import notebooks

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NEED_TORCH = {"watch_nanogpt.py", "induction_heads.py", "trainer_callback.py", "checkpoint_series.py", "watch_a_model.ipynb"}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Iterator[Callable[[Path], list[str]]]:
    """Run a script as `python SCRIPT --small` would, without the seconds that a process takes to import; the lines it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SACCADE_DATA", raising=False)
    for name, value in {"HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)

    def run_small(code: Path) -> list[str]:
        if code.name in NEED_TORCH:
            pytest.importorskip("torch")
            pytest.importorskip("transformers")
        monkeypatch.setattr(sys, "argv", [str(code), "--small"])
        with warnings.catch_warnings(), matplotlib.rc_context({"backend": "agg"}):
            warnings.resetwarnings()
            runpy.run_path(str(code), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    yield run_small
    plt.close("all")


def claim(script: Path) -> str:
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").splitlines()[0]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_finds_its_claim_true(script, tmp_path, run):
    assert 1 <= len(run(script)) <= 40
    assert list(tmp_path.glob("results/examples/*.png")) or "savefig" not in script.read_text(encoding="utf-8")


def test_an_example_fails_where_its_claim_is_wrong(tmp_path, run):
    """The assertions are what decides: with the frequencies of two words exchanged the same script ends with an error."""
    source = (FOLDER / "your_own_classes.py").read_text(encoding="utf-8")
    turned = source.replace('"cat": 0.35, "milk": 0.15', '"cat": 0.15, "milk": 0.35')
    assert turned != source
    (tmp_path / "turned.py").write_text(turned, encoding="utf-8")
    with pytest.raises(AssertionError, match="the frequent one more than the rare one"):
        run(tmp_path / "turned.py")


def test_every_script_asserts_and_is_short():
    for script in SCRIPTS:
        lines = script.read_text(encoding="utf-8").splitlines()
        assert any(line.lstrip().startswith("assert ") for line in lines), script.name
        assert len(lines) <= (40 if "saccade.System" in "".join(lines) else 95), script.name


def test_the_table_says_what_the_scripts_say():
    rows = [
        line.split("|")[1:-1] for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    assert {name.strip(" `"): text.strip() for name, text, _ in rows} == {script.name: claim(script) for script in SCRIPTS}
    assert all(0 < float(seconds) < 120 for *_, seconds in rows)


def test_notebooks_are_those_the_scripts_make():
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.ipynb")} == notebooks.made()


@pytest.mark.parametrize("name", ["test_a_theory.ipynb", "watch_a_model.ipynb"])
def test_the_cells_of_a_notebook_run_one_after_the_other(name, tmp_path, run):
    cells = json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    (tmp_path / name).write_text(code, encoding="utf-8")
    run(tmp_path / name)
