"""An experiment is a function: its signature is its settings, its record has units and definitions,
and tables and figures follow from what it draws.
"""

from __future__ import annotations

import json
from typing import Annotated as A

import numpy as np
import pytest

import saccade
from saccade.cli import main
from saccade.errors import InputError
from saccade.experiments.reproduce import reproduce
from saccade.lab.experiment import experiment
from saccade.lab.film import Film
from saccade.lab.settings import Range
from saccade.panels import POINTS, Bars, Heat, Line, Lines, specs
from saccade.theories.statement import Statement

LEMMA = Statement("nobody1999", "Lemma 1", "x")


@experiment("powers", dynamics="arithmetic", time_unit="1", full={"powers": (1, 2, 3)})
def powers(
    lab,
    powers: A[tuple[int, ...], "powers that are tried"] = (1, 2),
    base: A[float, "the number", Range(1, 9)] = 5.0,
):
    """Are powers
    right?

    More about it.
    """
    for power in lab.each(powers):
        for x in lab.each((2.0, base)):
            lab.keep("value", x**power, about="x to the power", power=power, x=x)
        lab.keep("curve", np.arange(power, dtype="float32"), "sample", "numbers below", power=power)
        lab.case(power=power).near(LEMMA, "power of the base", base**power, base**power, within=0)
    lab.number("ratio", lab.kept().value.isel(power=-1))
    lab.draw(
        Lines("powers", "x", "y", [Line([1, 2], powers[:2], "first", POINTS)]), caption="Look."
    )
    if lab.changed():
        lab.leave_out(f"Roots are left out; {' and '.join(lab.changed())} changed.")
    return f"{lab.yes_or_no()}: 5% of 1e12 is {0.05 * 1e12:g}."


def test_the_signature_is_the_settings_and_the_docstring_the_question():
    assert powers.question == "Are powers right?"
    assert powers.settings() == powers.settings(powers=(1, 2), base=5.0)
    assert powers.full == powers.settings(powers=(1, 2, 3))
    with pytest.raises(InputError, match="`base` must be"):
        powers.run(powers.settings(base=10.0))


def test_a_record_has_axes_units_definitions_and_settings_and_shorter_arrays_are_padded():
    progress = []
    result = powers.run(powers.settings((2, 3)), progress.append)
    record = result.record
    assert record.value.dims == ("power", "x")
    assert record.value.attrs == {"units": "1", "definition": "x to the power"}
    assert float(record.value.sel(power=3, x=5)) == 125
    assert np.isnan(record.curve.sel(power=2)).values.tolist() == [False, False, True]
    assert record.curve.dtype == np.float32
    assert json.loads(record.attrs["settings"]) == {"powers": [2, 3], "base": 5.0}
    assert progress[-1] == 1.0
    assert progress == sorted(progress)
    assert result.numbers == {
        "power of the base (power 2)": 25,
        "power of the base (power 3)": 125,
        "ratio, x 2": 8,
        "ratio, x 5": 125,
    }
    assert result.answer == "Yes: 5 % of 10¹² is 5×10¹⁰."


def test_a_piece_without_its_place_is_refused():
    @experiment("odd")
    def odd(lab):
        """Odd?"""
        lab.keep("x", 1.0, seed=0)
        lab.keep("x", 2.0)
        return "No."

    with pytest.raises(InputError, match="needs the axes seed"):
        odd.run()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda lab: "Yes.", "needs a docstring"),
        (lambda lab, n=1: "Yes.", "needs a type and a default"),
    ],
)
def test_a_function_that_is_no_experiment_is_refused(function, said):
    if "type" in said:
        function.__doc__ = "A question?"
    with pytest.raises(InputError, match=said):
        experiment("x")(function)


OWN = """
import saccade

@saccade.experiment("mine")
def mine(lab, n: int = 2, broken: bool = False):
    "Is two even?"
    claim = lab.case(n=n).none(saccade.Statement("me", "1", "x"), "odd ones", [n % 2], among=1)
    if broken:
        return None
    return f"{lab.yes_or_no(claim)}."
"""


def test_a_file_of_ones_own_runs_with_its_settings_as_flags(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(OWN)
    file, out = str(tmp_path / "mine.py"), tmp_path / "out"
    assert main(["run", file, "--out", str(out)]) == 0
    assert (out / "mine/table.csv").read_text().strip() == ""
    assert main(["run", file, "--out", str(tmp_path / "odd"), "--n", "3"]) == 1  # the claim fails
    assert "No." in capsys.readouterr().out
    with pytest.raises(InputError, match="must return its answer, a sentence; got None"):
        reproduce(
            file, tmp_path / "none", saccade.experiments.experiment(file).settings(broken=True)
        )
    (tmp_path / "two.py").write_text(OWN + OWN.replace("mine", "other"))
    with pytest.raises(InputError, match="must define one experiment"):
        reproduce(str(tmp_path / "two.py"), tmp_path / "two")


def test_panels_are_plain_data_with_missing_numbers_as_none():
    rows = specs(
        [
            Lines("a", "x", "y", [Line([1, 2], [np.nan, 3])], "x"),
            Bars("b", "x", "y", ["one"], {"g": [np.inf]}),
            Heat("c", "x", "y", [[1.0, np.nan]], [1, 2], [3]),
        ]
    )
    assert rows[0][0]["series"][0]["y"] == [None, 3.0]
    assert rows[0][1]["groups"][0]["values"] == [None]
    json.dumps(rows, allow_nan=False)


@pytest.mark.parametrize(
    ("film", "why"),
    [
        (Film("x", [0, 1], np.ones((2, 3)), ["a", "b"]), "needs values of the shape (2, 2)"),
        (Film("x", [0, 2, 1], np.ones((3, 2)), ["a", "b"]), "each later than the one before"),
    ],
)
def test_a_film_that_cannot_be_made_costs_no_finished_run(film, why):
    @experiment("x")
    def x(lab):
        """X?"""
        lab.film(film)
        return "No."

    result = x.run()
    assert result.film is None
    assert result.left_out[0].startswith("The film is left out: ")
    assert why in result.left_out[0]
