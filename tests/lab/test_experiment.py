"""An experiment object: measured arrays become a defined record, grids keep their axes, tables and
figures follow from the record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from saccade.cli import main
from saccade.errors import InputError
from saccade.lab.claim import HOLDS, OUTSIDE, Case
from saccade.lab.film import Film
from saccade.lab.outcome import Outcome, own_statement
from saccade.lab.panel import POINTS, Bars, Heat, Line, Lines, specs
from saccade.lab.protocol import Experiment, Measured, Variable, by_cell, cell_rows, grid, padded
from saccade.records.checksums import sealed_folder
from saccade.records.store import load_record
from saccade.theory.condition import below
from saccade.theory.statement import Statement


@dataclass(frozen=True)
class Settings:
    """Settings."""

    powers: tuple[int, ...] = (1, 2)
    """powers that are tried"""


def measure(settings, on_progress):
    found = grid(
        lambda power, x: {"value": x**power, "curve": np.arange(power)},
        on_progress,
        power=settings.powers,
        x=(2.0, 3.0, 5.0),
    )
    return Measured(
        found, {"power": list(settings.powers), "x": [2.0, 3.0, 5.0]}, {"left_out": "[]"}
    )


POWERS = Experiment(
    "powers",
    Settings,
    measure,
    lambda record: [
        Case().near(
            Statement("nobody1999", "Lemma 1", "x"),
            "5 squared",
            record.value.sel(power=2, x=5),
            25,
            within=0,
        )
    ],
    lambda record: [
        Lines("powers", "x", "value", [Line(record.x, record.value[0], "first", POINTS)])
    ],
    variables={
        "value": Variable("power x", "1", "x to the power"),
        "curve": Variable("power x sample", "1", "numbers below it"),
    },
)


def test_a_run_is_a_record_with_settings_units_and_definitions():
    seen = []
    record = POWERS.run(Settings((2, 3)), seen.append)
    assert record.value.dims == ("power", "x")
    assert record.value.attrs == {"units": "1", "definition": "x to the power"}
    assert float(record.value.sel(power=3, x=5)) == 125
    assert np.isnan(record.curve.sel(power=2, x=2).values).tolist() == [
        False,
        False,
        True,
    ]  # shorter ones are padded
    assert POWERS.settings_of(record) == Settings((2, 3))
    assert seen == pytest.approx([(n + 1) / 6 for n in range(6)])
    assert record.attrs["left_out"] == "[]"


def test_a_caption_ends_with_what_could_not_be_asked():
    record = POWERS.run()
    captioned = replace(POWERS, caption="Powers of x.")
    assert captioned.caption_of(record) == "Powers of x."
    record.attrs["left_out"] = json.dumps(["Roots are left out.", "So are logarithms."])
    assert captioned.caption_of(record) == "Powers of x. Roots are left out. So are logarithms."
    assert POWERS.caption_of(record) == "Roots are left out. So are logarithms."


def not_ascending(record):
    return Film("x", [0, 2, 1], np.ones((3, 2)), ["a", "b"])


@pytest.mark.parametrize(
    ("film", "why"),
    [
        (lambda record: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda record: None, "`film` must give a Film; it gave None"),
        (
            lambda record: Film("x", [0, 1], np.ones((2, 3)), ["a", "b"]),
            "a film of 2 tokens needs values of the shape (2, 2)",
        ),
        (
            lambda record: Film("x", [0, 1], np.ones((2, 2)), ["a", "b"], theory=np.ones(3)),
            "The film is left out: ",
        ),
        (not_ascending, "a film needs two or more times, each later than the one before"),
    ],
)
def test_a_film_that_cannot_be_made_costs_no_finished_run_and_is_told_in_a_sentence(
    tmp_path, film, why
):
    record = POWERS.run()
    with sealed_folder(tmp_path / "powers") as folder:
        replace(POWERS, film=film).write(folder, record, POWERS.claims(record), {"statement": "x"})
    assert not (tmp_path / "powers" / "film.json").exists()
    (said,) = json.loads(load_record(tmp_path / "powers").attrs["left_out"])
    assert said.startswith("The film is left out: ")
    assert why in said
    assert said in json.loads((tmp_path / "powers" / "about.json").read_text())["caption"]


def test_a_result_of_one_s_own_settings_is_headed_with_what_came_out_there():
    record = POWERS.run()
    outcome = Outcome("powers", "Powers are right.", Path(), record, list(POWERS.claims(record)))
    said = own_statement(outcome, Settings((2, 3)), Settings())
    assert (
        said == "With powers = 2, 3: 1 claim: 1 holds. At the default settings: Powers are right."
    )


OUTSIDE_OF_ONE, LEMMA = (
    Case(given=[below("step size", 1.0, 0.5)]),
    Statement("nobody1999", "Lemma 1", "x"),
)
UNKNOWN, KNOWN = (
    OUTSIDE_OF_ONE.near(LEMMA, "rate", 1.0, 1.0, within=0.1, expected=expected)
    for expected in (HOLDS, OUTSIDE)
)
RIGHT, WRONG = (Case().near(LEMMA, "slope", measured, 1.0, within=0.1) for measured in (1.0, 2.0))


@pytest.mark.parametrize(
    ("claims", "as_designed", "code", "said"),
    [
        (
            [[RIGHT, UNKNOWN], [RIGHT, KNOWN]],
            True,
            1,
            "4 claims: 2 hold, 2 assumptions not met; 1 with assumptions unexpectedly not met",
        ),
        (
            [[UNKNOWN], [UNKNOWN, WRONG]],
            True,
            1,
            "3 claims: 1 fails, 2 assumptions not met; 1 surprise among them; 2 with assumptions unexpectedly not met",
        ),
        (
            [[RIGHT, UNKNOWN]],
            True,
            1,
            "2 claims: 1 holds, 1 assumption not met; 1 with assumptions unexpectedly not met",
        ),
        ([[RIGHT, KNOWN]], True, 0, "2 claims: 1 holds, 1 assumption not met"),
        ([[RIGHT, UNKNOWN], [UNKNOWN]], False, 0, "3 claims: 1 holds, 2 assumptions not met"),
    ],
)
def test_the_last_lines_say_why_the_exit_code_is_1(
    claims, as_designed, code, said, tmp_path, monkeypatch, capsys
):
    """Also where no claim is a surprise, but one is outside its assumptions without being known to
    be.
    """
    names = ["growth-figures", "decoder"][: len(claims)]
    made = [
        Outcome(name, "", tmp_path, POWERS.run(), of, as_designed)
        for name, of in zip(names, claims, strict=True)
    ]
    monkeypatch.setattr("saccade.experiments.reproduce.reproduce_all", lambda *_: iter(made))
    monkeypatch.setattr("saccade.report.page.write_page", lambda *_: tmp_path / "report.html")
    assert main(["reproduce", *names, "--out", str(tmp_path)]) == code
    lines = capsys.readouterr().out.splitlines()
    told = (
        lines[-2]
        if len(claims) > 1
        else lines[0].removeprefix("growth-figures: ").rpartition(",")[0]
    )
    assert told == said


def test_the_table_is_what_the_figure_shows_unless_there_is_another():
    record = POWERS.run()
    assert POWERS.rows(record) == [
        {"panel": "powers", "series": "first", "x": x, "y": x} for x in (2.0, 3.0, 5.0)
    ]
    assert replace(POWERS, table=lambda record: [{"n": 1}]).rows(record) == [{"n": 1}]


def test_a_figure_without_numbers_has_a_table_without_rows(tmp_path):
    record = POWERS.run()
    empty = replace(POWERS, panels=lambda record: [Lines("none", "x", "y", [])])
    with sealed_folder(tmp_path / "powers") as folder:
        empty.write(folder, record, [], {"statement": "x"})
    assert (tmp_path / "powers" / "table.csv").read_text().strip() == ""


def test_a_table_of_cells_has_a_row_for_each():
    rows = cell_rows(POWERS.run())
    assert len(rows) == 6
    assert rows[0] == {"power": 1, "x": 2.0, "value": 2.0}


def test_what_is_no_measurement_is_refused_in_a_sentence():
    undefined = Experiment(
        "x", Settings, lambda settings, on_progress: Measured({"length": 1.0}, {}), None, None
    )
    with pytest.raises(InputError, match="`variables` of x must say what length is"):
        undefined.run()
    with pytest.raises(
        InputError, match=r"`measure` of x must give a record or Measured.*it gave None"
    ):
        Experiment("x", Settings, lambda settings, on_progress: None, None, None).run()


def test_headline_numbers_are_means_over_seeds_that_have_them():
    assert by_cell({"loss": [[1.0, np.nan], [2.0, 4.0]]}, {"ratio": [1, 10]}) == {
        "loss, ratio 1": 1.0,
        "loss, ratio 10": 3.0,
    }
    assert list(by_cell({"loss": [[1.0]]}, {"ratio": [1]})) == ["loss"]


def test_arrays_of_one_shape_are_stacked_as_they_are():
    assert padded([["a"], ["b"]]).tolist() == [["a"], ["b"]]
    assert padded([np.array([1], int)] * 2).dtype.kind == "i"


def test_panels_are_plain_data_with_missing_numbers_as_none():
    lines = Lines(
        "t",
        "x",
        "y",
        [Line([1, 2], [np.nan, 1.0], tone=0.5, low=[0, 0], high=[1, np.inf])],
        "xy",
        levels={1.0: "one"},
    )
    spec = lines.spec()
    assert spec["series"][0] == {
        "name": "", "x": [1.0, 2.0], "y": [None, 1.0], "style": "line", "shade": 0.5, "low": [0.0, 0.0], "high": [1.0, None]
    }  # fmt: skip
    assert (spec["x"]["log"], spec["levels"]) == (True, [{"y": 1.0, "label": "one"}])
    bars = Bars("t", "x", "y", ["a"], {"one": [1.0], "two": [2.0]}, tones={"two": None}).spec()
    assert [group["tone"] for group in bars["groups"]] == [0, None]
    heat = Heat("t", "x", "y", [[1.0, 2.0], [np.nan, 4.0]], ["a", "b"], ["c", "d"]).spec()
    assert (heat["min"], heat["max"], heat["values"]) == (1.0, 4.0, [1.0, 2.0, None, 4.0])


def test_a_figure_is_a_row_of_panels_or_rows_of_them():
    panel = Lines("t", "x", "y", [])
    assert [len(row) for row in specs([panel, panel])] == [2]
    assert [len(row) for row in specs([[panel, panel], [panel]])] == [2, 1]
