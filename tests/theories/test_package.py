"""Each theory stands alone: it imports no simulation, and every public function says what it
predicts, for whom, and its source.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.theories import focus_and_dilution, scan_and_snap

THEORIES = (focus_and_dilution, scan_and_snap)
by_theory = pytest.mark.parametrize("theory", THEORIES, ids=lambda each: each.__name__)
by_function = pytest.mark.parametrize(
    ("theory", "function"),
    [(each, f) for each in THEORIES for _, f in inspect.getmembers(each, inspect.isfunction)],
    ids=lambda one: one.__name__.rpartition(".")[2],
)
ROOT = Path(__file__).parents[2]
BIBLIOGRAPHY = (ROOT / "src/saccade/theories/references.bib").read_text()
WITHOUT_SOURCE = {"alignment", "off_stationary"}  # measures of an array, not statements
NO_LETTER = {"matrix", "pattern", "beta", "as_printed", "per_step"}  # any array, or a switch
NOTATION = {
    name
    for line in (ROOT / "NOTATION.md").read_text("utf-8").splitlines()
    if line.startswith("|")
    for name in re.findall(r"`(\w+)`", line.split("|")[2])
}


@by_theory
def test_theory_imports_neither_simulation_nor_compiled_arrays(theory):
    forbidden = "{'jax', 'torch', 'saccade.engines', 'saccade.models'}"
    code = f"import sys, {theory.__name__}; sys.exit(bool({forbidden} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@by_function
def test_every_argument_has_its_letter_in_the_notation_or_in_a_docstring(theory, function):
    modules = [module.__doc__ or "" for _, module in inspect.getmembers(theory, inspect.ismodule)]
    table = [
        line.strip()
        for text in [*modules, inspect.getdoc(function)]
        for line in text.splitlines()
        if line.strip().startswith("|")
    ]
    named = {word for line in table for word in re.split(r"[,\s]+", line.split("|")[1])}
    assert set(inspect.signature(function).parameters) - NO_LETTER <= named | NOTATION


@by_function
def test_docstring_cites_a_known_reference_or_says_where_it_is_derived(theory, function):
    text = inspect.getdoc(function)
    keys = re.findall(r"\[(\w+\d{4}),", text)
    derived = "[derived," in text or re.search(r"\bOurs\b", text)
    assert keys or derived or function.__name__ in WITHOUT_SOURCE
    assert all(f"{{{key}," in BIBLIOGRAPHY for key in keys)


@by_theory
def test_no_module_hides_behind_a_function_of_the_same_name(theory):
    modules = {path.stem for path in Path(theory.__file__).parent.glob("*.py")}
    assert not modules & {name for name, _ in inspect.getmembers(theory, inspect.isfunction)}
