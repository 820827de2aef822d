"""The theory stands alone: it imports no simulation, and every public function says what it
predicts, for whom, and its source.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.theories import focus_and_dilution as theory

functions = [f for _, f in inspect.getmembers(theory, inspect.isfunction)]
BIBLIOGRAPHY = (Path(theory.__file__).parents[1] / "references.bib").read_text()
WITHOUT_SOURCE = {"alignment", "off_stationary"}  # measures of an array, not statements
GENERIC = {"matrix", "pattern", "beta"}  # a letter of the source itself, or any array
NOTATION = {
    name
    for line in (Path(__file__).parents[3] / "NOTATION.md").read_text("utf-8").splitlines()
    if line.startswith("|")
    for name in re.findall(r"`(\w+)`", line.split("|")[2])
}


def test_theory_imports_neither_simulation_nor_compiled_arrays():
    forbidden = "{'jax', 'torch', 'saccade.engines', 'saccade.models', 'saccade.data'}"
    code = f"import sys, saccade.theories.focus_and_dilution; sys.exit(bool({forbidden} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("function", functions, ids=lambda f: f.__name__)
def test_every_argument_has_its_letter_in_the_notation_or_in_a_docstring(function):
    texts = [module.__doc__ for _, module in inspect.getmembers(theory, inspect.ismodule)] + [
        function.__doc__
    ]
    table = [
        line.strip() for text in texts for line in text.splitlines() if line.strip().startswith("|")
    ]
    named = {word for line in table for word in re.split(r"[,\s]+", line.split("|")[1])}
    assert set(inspect.signature(function).parameters) - GENERIC <= named | NOTATION


@pytest.mark.parametrize("function", functions, ids=lambda f: f.__name__)
def test_docstring_cites_a_known_reference_or_says_where_it_is_derived(function):
    text = inspect.getdoc(function)
    keys = re.findall(r"\[(\w+\d{4}),", text)
    assert keys or "[derived, " in text or function.__name__ in WITHOUT_SOURCE
    assert all(f"{{{key}," in BIBLIOGRAPHY for key in keys)


def test_no_module_hides_behind_a_function_of_the_same_name():
    modules = {path.stem for path in Path(theory.__file__).parent.glob("*.py")}
    assert not modules & {f.__name__ for f in functions}
