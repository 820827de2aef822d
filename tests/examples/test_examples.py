"""Every example runs by itself at small size and finds its own claim true; the table and the
notebooks say what the scripts say.
"""

from __future__ import annotations

import ast
import json
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest

from tools import notebooks

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
SCRIPTS.remove(FOLDER / "common_mass.py")  # an experiment, which phase_diagram.py sweeps
NEED_TORCH = {
    "watch_nanogpt.py",
    "induction_heads.py",
    "trainer_callback.py",
    "checkpoint_series.py",
    "watch_a_model.ipynb",
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Iterator[Callable[[Path], list[str]]]:
    """Run a script as `python SCRIPT --small` would, without the seconds that a process takes to
    import; the lines it prints.
    """
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
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_finds_its_claim_true(script, tmp_path, run):
    assert 1 <= len(run(script)) <= 40
    assert list(tmp_path.glob("results/examples/*.png")) or "savefig" not in script.read_text(
        encoding="utf-8"
    )


def test_an_example_fails_where_its_claim_is_wrong(tmp_path, run):
    """The assertions are what decides: with the frequencies of two words exchanged the same script
    ends with an error.
    """
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
        code = [line for line in lines if not line.startswith("#")]
        assert len(code) <= (60 if "saccade.System" in "".join(lines) else 120), script.name


def test_the_table_says_what_the_scripts_say():
    rows = [
        line.split("|")[1:-1]
        for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert {name.strip(" `"): text.strip() for name, text, _ in rows} == {
        script.name: claim(script) for script in SCRIPTS
    }
    assert all(0 < float(seconds) < 120 for *_, seconds in rows)


def sources(notebook: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


@pytest.mark.parametrize("name", list(notebooks.NOTEBOOKS))
def test_a_notebook_has_the_cells_of_its_scripts_and_what_these_cells_gave(name):
    kept, made = (
        json.loads((FOLDER / name).read_text(encoding="utf-8")),
        notebooks.notebook_of(name),
    )
    assert sources(kept) == sources(made), "a script has changed: run `python -m tools.notebooks`"
    assert kept["metadata"]["ran"] == made["metadata"]["ran"], (
        "the outputs are of other cells: run `python -m tools.notebooks`"
    )
    outputs = [output for cell in kept["cells"] for output in cell.get("outputs", [])]
    assert {"stream", "display_data"} <= {output["output_type"] for output in outputs}
    assert not [output for output in outputs if output["output_type"] == "error"]


def test_every_notebook_says_how_to_install_and_folds_its_solutions():
    for name in notebooks.NOTEBOOKS:
        first, *cells = notebooks.notebook_of(name)["cells"]
        assert "%pip install" in first["source"]
        folded = [
            cell for cell in cells if cell["metadata"].get("jupyter", {}).get("source_hidden")
        ]
        assert len(folded) == sum(
            text.startswith("**Solution**") for _, text in sources({"cells": cells})
        )


def test_the_lesson_has_a_question_for_each_part_and_a_solution_for_each_exercise():
    text = "\n".join(
        text for kind, text in sources(notebooks.notebook_of("lesson.ipynb")) if kind == "markdown"
    )
    assert [text.count(what) for what in ("**Question.**", "**Exercise", "**Solution**")] == [
        3,
        3,
        3,
    ]


@pytest.mark.parametrize(
    "name", ["test_a_theory.ipynb", "watch_a_model.ipynb"]
)  # that of the lesson is its script
def test_the_cells_of_a_notebook_run_one_after_the_other(name, tmp_path, run):
    code = "\n".join(text for kind, text in sources(notebooks.notebook_of(name)) if kind == "code")
    (tmp_path / name).write_text(code, encoding="utf-8")
    run(tmp_path / name)
