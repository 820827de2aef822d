"""Numbers are written as people write them, the same in Python and on the pages."""

import math
import shutil
import subprocess
from pathlib import Path

import pytest

from saccade.numerals import numeral, numerals_in
from tests.patience import PATIENCE

SCALES = Path(__file__).parents[1] / "src" / "saccade" / "report" / "web" / "chart_scales.js"


@pytest.mark.parametrize(
    "value, form, text",
    [
        (0.25, ".4g", "0.25"),
        (-0.25, ".4g", "−0.25"),
        (12_000, ".4g", "12000"),
        (12_000, "g", "12000"),
        (3e8, ".4g", "3×10⁸"),
        (1e-9, "g", "10⁻⁹"),
        (-2.5e-12, ".2g", "−2.5×10⁻¹²"),
        (0.375, ".0%", "38%"),
        (math.nan, ".4g", "missing"),
        (-math.inf, ".4g", "−∞"),
        (0, ".4g", "0"),
    ],
)
def test_a_number_is_written_as_people_write_it(value, form, text):
    assert numeral(value, form) == text


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_pages_write_it_the_same_way():
    values = [0.25, -0.25, 0.000251, 12_000, 99_999, 3e8, 1e-9, -2.5e-12, 0]
    script = f"{SCALES.read_text()}\nfor (const value of {values}) console.log(ChartScales.format(value))"
    said = subprocess.run(
        ["node", "-e", script], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert said.stdout.split() == [numeral(value, ".3g") for value in values]


@pytest.mark.parametrize(
    "text, shown",
    [
        ("chain zipf-6, stay -0.05", "chain zipf-6, stay −0.05"),
        ("R 1e+06, start (1e-05², 3e-5)", "R 10⁶, start (1e-05², 3×10⁻⁵)"),
        ("E(0)^(-1/3) of 2305-16380", "E(0)^(−1/3) of 2305-16380"),
        ("bf16-mixed, model-1e2x", "bf16-mixed, model-1e2x"),
        ("d - 1 directions", "d − 1 directions"),
    ],
)
def test_numbers_within_a_text_are_written_the_same_way_and_names_stay(text, shown):
    assert numerals_in(text) == shown
