"""The theory stands alone: it imports no simulation, and every public function says what it
predicts and for whom.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.theories import scan_and_snap as theory

functions = [f for _, f in inspect.getmembers(theory, inspect.isfunction)]
BIBLIOGRAPHY = (Path(theory.__file__).parents[1] / "references.bib").read_text()
NOTATION = {
    name
    for line in (Path(__file__).parents[3] / "NOTATION.md").read_text("utf-8").splitlines()
    if line.startswith("|")
    for name in re.findall(r"`(\w+)`", line.split("|")[2])
}


def test_theory_imports_neither_simulation_nor_compiled_arrays():
    forbidden = "{'jax', 'torch', 'saccade.engines', 'saccade.models'}"
    code = f"import sys, saccade.theories.scan_and_snap; sys.exit(bool({forbidden} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("function", functions, ids=lambda f: f.__name__)
def test_every_argument_has_its_letter_in_the_notation_or_in_the_docstring(function):
    table = [line for line in inspect.getdoc(function).splitlines() if line.startswith("|")]
    named = {word for line in table[2:] for word in re.split(r"[,\s|]+", line)}
    switches = {"as_printed", "per_step"}
    assert set(inspect.signature(function).parameters) - switches <= named | NOTATION


@pytest.mark.parametrize("function", functions, ids=lambda f: f.__name__)
def test_docstring_cites_a_known_reference_or_says_it_is_ours(function):
    text = inspect.getdoc(function)
    keys = re.findall(r"\[(\w+\d{4}),", text)
    assert keys or re.search(r"\bOurs\b", text)
    assert all(f"{{{key}," in BIBLIOGRAPHY for key in keys)


def test_no_module_hides_behind_a_function_of_the_same_name():
    modules = {path.stem for path in Path(theory.__file__).parent.glob("*.py")}
    assert not modules & {f.__name__ for f in functions}
