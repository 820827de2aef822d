"""What a sweep leaves: one labelled dataset, the table twice, and a picture that fits its axes."""

from __future__ import annotations

import csv
import math
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.lab.case import Case
from saccade.lab.claim import FAILS, HOLDS, UNMET
from saccade.lab.experiment import Result
from saccade.report.style import save_figure
from saccade.sweeps import execution
from saccade.sweeps.figure import caption, shown_variable, sweep_figure
from saccade.sweeps.grid import Grid
from saccade.sweeps.outcome_file import FAILED, Outcome
from saccade.sweeps.sweep import write_results
from saccade.theories.condition import equal
from tests.sweeps.quick import MEAN
from tests.sweeps.small_sweeps import (
    NAME,
    called,
    computed,
    kept,
    manifest_runs,
    one_sentence,
    small_arguments,
    small_config,
    small_grid,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two rates, three seeds; one run failed, one was not run."""
    grid = small_grid(3)
    outcomes = computed(grid)
    failed = Outcome(outcomes[1].identity, FAILED, 'it said "no", twice', 0.5)
    folder = kept(grid, tmp_path_factory.mktemp("results"), [outcomes[0], failed, *outcomes[2:-1]])
    return grid, outcomes, folder, write_results(grid, folder)


def test_every_run_is_at_its_place_in_the_dataset(results):
    grid, outcomes, _, dataset = results
    assert list(dataset.lr_decoder.values) == [1.0, 2.0]
    assert list(dataset.seed.values) == [0, 1, 2]
    for run, outcome in zip(grid.runs, outcomes, strict=True):
        for name in ("drawn", "powers", "share_of_claims_holding"):
            values = dataset[name].values[run.place]
            if run.place in ((0, 1), (1, 2)):
                assert np.isnan(values).all()
            else:
                np.testing.assert_array_equal(np.ravel(values), outcome.record[1][name].ravel())
    assert dataset.status.values.tolist() == [
        ["finished", FAILED, "finished"],
        ["finished", "finished", "missing"],
    ]
    assert dataset.drawn.attrs["definition"]


def test_the_table_has_a_row_for_each_run_and_is_the_same_as_csv_and_as_parquet(results):
    grid, _, folder, dataset = results
    rows = pq.read_table(folder.path / "summary.parquet").to_pylist()
    with (folder.path / "summary.csv").open(newline="", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == [run.identity for run in grid.runs]
    for row, text in zip(rows, written, strict=True):
        assert list(row) == list(text)
        for name, value in row.items():
            same = (
                text[name] == value
                if isinstance(value, str)
                else _equal(float(text[name]), float(value))
            )
            assert same, (name, value, text[name])
    assert rows[1]["reason"] == 'it said "no", twice'
    assert rows[3]["share_of_claims_holding"] == dataset.share_of_claims_holding.values[1, 0]
    assert math.isnan(rows[5]["seconds"])


def _equal(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def swept(**axes: int | list) -> xr.Dataset:
    """A dataset as of a sweep over these axes, with a smooth number and a gap."""
    labels = {
        name: np.arange(size) if isinstance(size, int) else size for name, size in axes.items()
    }
    shape = tuple(len(values) for values in labels.values())
    values = np.random.default_rng(0).normal(size=shape) + np.arange(math.prod(shape)).reshape(
        shape
    )
    values.flat[0] = np.nan
    variables = {
        "final_loss": (tuple(labels), values, {"is_headline": 1}),
        "status": (tuple(labels), np.full(shape, "finished")),
    }
    return xr.Dataset(variables, labels)


PICTURES = {  # axes -> panels, without the colour bar
    "seeds alone": ({"seed": 30}, 1),
    "one axis": ({"lr_attention": [0.1, 0.5, 1.0]}, 1),
    "one axis and seeds": ({"lr_attention": [0.1, 1.0, 10.0, 100.0], "seed": 10}, 1),
    "words": ({"kind": ["plain", "other"], "seed": 3}, 1),
    "two axes": ({"ratio": [1.0, 2.0, 5.0], "lr_attention": [0.5, 1.0]}, 1),
    "two axes and seeds": ({"ratio": 40, "lr_attention": 30, "seed": 2}, 1),
    "three axes": ({"momentum": [0.0, 0.9], "ratio": 5, "lr_attention": 4, "seed": 2}, 2),
    "four axes": ({"a": 2, "b": 2, "c": 3, "d": 3}, 4),
    "far too many": ({"a": 5, "b": 5, "c": 3, "d": 3}, 12),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_fits_the_number_of_axes(tmp_path, name):
    axes, n_panels = PICTURES[name]
    dataset = swept(**axes)
    drawing = sweep_figure(dataset, shown_variable(dataset, None))
    save_figure(drawing, tmp_path / "figure")
    panels = [
        panel
        for panel in drawing.axes
        if panel.get_xlabel() and panel.axison and panel.get_label() != "<colorbar>"
    ]
    assert len(panels) == n_panels
    ElementTree.parse(tmp_path / "figure.svg")
    assert (tmp_path / "figure.png").stat().st_size > 5000
    assert caption(dataset, "final_loss").startswith("final loss over ")
    assert ("12 of 25 maps are drawn" in caption(dataset, "final_loss")) == (name == "far too many")


def test_a_place_without_any_value_is_a_gap_not_a_warning(tmp_path):
    dataset = swept(lr_attention=3, seed=4)
    dataset["final_loss"][1] = np.nan
    save_figure(sweep_figure(dataset, "final_loss"), tmp_path / "figure")
    dataset = swept(ratio=3, lr_attention=3, seed=4)
    dataset["final_loss"][:] = np.nan
    save_figure(sweep_figure(dataset, "final_loss"), tmp_path / "figure")


def test_a_map_over_decades_has_logarithmic_colours_the_spread_over_seeds_and_says_what_grey_is():
    dataset = swept(ratio=2, lr_attention=2, seed=2)
    dataset["final_loss"].values[:] = np.array(
        [[[1e-6, 3e-6], [1.0, 1.0]], [[np.nan, np.nan], [0.1, 0.3]]]
    )
    drawing = sweep_figure(dataset, "final_loss")
    panel = drawing.axes[0]
    assert type(panel.collections[0].norm).__name__ == "LogNorm"
    assert {text.get_text() for text in panel.texts} == {"2×10⁻⁶\n±10⁻⁶", "1", "0.2\n±0.1"}
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["grey: no finished run"]
    assert "grey: no finished run" in caption(dataset, "final_loss")
    dataset["final_loss"].values[:] = np.array([1.0, 2.0])
    drawing = sweep_figure(dataset, "final_loss")
    assert type(drawing.axes[0].collections[0].norm).__name__ == "Normalize"
    assert not drawing.legends


def test_the_number_shown_is_the_one_asked_for_or_a_sentence(results):
    *_, dataset = results
    assert shown_variable(dataset.assign(other=dataset.share_of_claims_holding), "other") == "other"
    with pytest.raises(InputError, match="`show` variable"):
        shown_variable(dataset, "share_of_claims")


def test_variables_that_differ_in_shape_between_runs_are_left_out_and_named(tmp_path):
    grid = Grid.of(NAME, {"draws": [2, 3]}, config=small_config())
    dataset = write_results(grid, kept(grid, tmp_path))
    assert "drawn" not in dataset
    assert "drawn" in dataset.attrs["left_out"]
    assert dataset.powers.dims == ("draws", "power")


def test_a_number_to_show_that_no_run_has_is_refused_after_the_first_run(tmp_path):
    code, _, err = called(*small_arguments(tmp_path, 13, "--workers", 1, "--show", "nonsense"))
    assert (code, one_sentence(err)) == (2, True)
    assert "`show` variable 'nonsense' is not known" in err
    assert len(manifest_runs(tmp_path)) < 5  # of 26


@pytest.mark.parametrize(
    "verdicts, share, outside",
    [
        ([HOLDS] + [UNMET] * 47, np.nan, 47),
        ([HOLDS, UNMET], 1.0, 1),
        ([HOLDS, FAILS, FAILS, FAILS], 0.25, 0),
        ([UNMET], np.nan, 1),
    ],
)
def test_claims_that_neither_hold_nor_fail_are_counted_apart(verdicts, share, outside):
    case = Case()
    made = {
        HOLDS: case.at_most(MEAN, "small", 0.0, 1.0),
        FAILS: case.at_most(MEAN, "large", 2.0, 1.0),
        UNMET: case.but([equal("tokens", 1, 2)]).at_most(MEAN, "elsewhere", 0.0, 1.0),
    }
    control = case.breaking(equal("queries", 1, 2)).at_most(MEAN, "control", 2.0, 1.0)
    found = [control, *(made[verdict] for verdict in verdicts)]  # a control counts nowhere
    assert [claim.verdict for claim in found] == [FAILS, *verdicts]
    numbers = execution._with_measures(Result(claims=found))
    np.testing.assert_equal(
        [numbers.share_of_claims_holding.item(), numbers.claims_undecided.item()], [share, outside]
    )


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1.0, 2.0, 4.0, 8.0], "log"), ([1.0, 2.0, 4.0, 7.9], "linear"), ([0.0, 1.0, 8.0], "linear")],
)
def test_numbers_an_eighth_and_more_apart_stand_on_a_log_axis(values, scale):
    swept = xr.Dataset({"loss": ("rate", np.arange(float(len(values))))}, {"rate": values})
    assert sweep_figure(swept, "loss").axes[0].get_xscale() == scale


def test_a_map_of_one_value_has_one_mark_on_its_colour_bar_and_places_are_written_out():
    """Around a share that is 1 everywhere a scale would run to 1.1, which no share can be."""
    places = {"lr_attention": [1.0, 1000.0], "ratio": [1.0, 10.0]}
    share = xr.DataArray(np.ones((2, 2)), places, ("lr_attention", "ratio"))
    drawing = sweep_figure(xr.Dataset({"share": share, "status": share.astype(str)}), "share")
    map_of, bar = drawing.axes
    assert bar.get_yticks().tolist() == [1.0]
    assert [label.get_text() for label in map_of.get_yticklabels()] == ["1", "1000"]
