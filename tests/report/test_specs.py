"""Figures are plain dictionaries with the record's own numbers, and Matplotlib draws the same ones."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.errors import InputError
from saccade.measures.timeline import FROZEN, freezing_steps
from saccade.records.store import load_record
from saccade.report.drawn import draw
from saccade.report.maps import text_map
from saccade.report.notebook import show
from saccade.report.packing import time_scale
from saccade.report.page_data import _by_clock, _main_clock
from saccade.report.specs import choice_of, figures, still
from saccade.report.specs_watched import layer_names
from saccade.watching.budget import schedule
from tests.report.unpacking import unpacked
from tests.report.watched_records import watched_record


@pytest.fixture(scope="module")
def record():
    """Two rates, three seeds, five moments, two classes, seven tokens."""
    rng = np.random.default_rng(1)
    attention = rng.dirichlet(np.ones(7), (2, 3, 5, 2))
    loss = rng.uniform(1e-6, 3, (2, 3, 5))
    data = {
        "attention": (("rate", "seed", "time", "class", "token"), attention),
        "loss": (("rate", "seed", "time"), loss),
    }
    coords = {
        "seed": [11, 13, 17],
        "time": [0, 1, 2, 5, 9],
        "lr_decoder": ("rate", [1.0, 10.0]),
        "constant": ("rate", [4, 4]),
    }
    return xr.Dataset(data | {"word": ("token", list("abcdefg"))}, coords)


def by_name(found, name):
    return next(figure for figure in found if figure["name"] == name)


def test_runs_stand_before_time_and_what_is_seen_after_it(record):
    found = figures(record)
    assert [figure["name"] for figure in found] == ["attention", "loss"]  # words are no numbers
    attention = by_name(found, "attention")
    assert attention["kind"] == "bars"
    assert [choice["axis"] for choice in attention["choices"]] == ["rate", "seed"]
    assert attention["choices"][0]["labels"] == [
        "lr_decoder 1",
        "lr_decoder 10",
    ]  # only what differs is told


def test_a_still_holds_the_records_numbers(record):
    attention = by_name(figures(record), "attention")
    choice = choice_of(attention, seed=13, rate="lr_decoder 10")
    shown = still(attention, choice, 3)
    for place, group in enumerate(shown["groups"]):
        np.testing.assert_array_equal(group["values"], record.attention.values[1, 1, 3, place])
    curve = still(by_name(figures(record), "loss"), choice)["series"][0]
    np.testing.assert_array_equal(curve["y"], record.loss.values[1, 1])
    assert (shown["y"]["min"], shown["y"]["max"]) == (0, 1)  # probabilities on [0, 1]


def test_matplotlib_draws_the_same_numbers(record):
    figure = record.saccade.figure("loss", seed=17)
    (line,) = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), record.loss.values[0, 2])
    bars = record.saccade.figure("attention", time=5.5).axes[0].patches
    np.testing.assert_allclose(
        [bar.get_height() for bar in bars], record.attention.values[0, 0, 3].ravel()
    )


def test_a_choice_that_is_not_there_is_a_sentence(record):
    with pytest.raises(InputError, match="seed"):
        record.saccade.figure("loss", seed=5)
    with pytest.raises(InputError, match="colour"):
        record.saccade.figure("loss", colour=5)
    with pytest.raises(InputError, match="attention"):
        record.saccade.figure("los")


def test_singular_values_are_shown_in_place_of_matrices(results):
    run = load_record(results / "cycle" / "record.zarr")
    found = figures(run)
    assert not {"embedding", "query_matrix"} & {figure["name"] for figure in found}
    shown = by_name(found, "embedding_singular_values")["values"]
    np.testing.assert_allclose(
        shown[0, 200], np.linalg.svd(run.embedding.values[0, 200], compute_uv=False), rtol=1e-10
    )


def test_of_many_tokens_the_largest_are_shown_and_the_others_added_up():
    attention = np.random.default_rng(2).dirichlet(np.ones(500), (4, 2))
    cut = figures(
        xr.Dataset({"attention": (("time", "class", "token"), attention)}, {"time": np.arange(4)})
    )[0]
    assert len(cut["names"][1]) == 61
    np.testing.assert_allclose(cut["values"].sum(axis=-1), 1)
    assert "440 others" in cut["names"][1]


def test_samples_with_a_clock_of_their_own_are_drawn_over_it():
    clock = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 9.0]])
    data = xr.Dataset(
        {"curve": (("law", "sample"), clock**2), "curve_time": (("law", "sample"), clock)}
    )
    (figure,) = figures(data)
    np.testing.assert_array_equal(still(figure, [1])["series"][0]["x"], clock[1])


def test_a_name_that_only_says_curve_is_left_out_of_titles():
    about = {"definition": f"the first singular value, first seed{' of very many' * 6}"}
    variables = {name: ("time", np.arange(1.0, 4.0), about) for name in ("curve", "curve_rank")}
    titles = {
        figure["name"]: figure["title"]
        for figure in figures(xr.Dataset(variables, {"time": [0, 1, 2]}))
    }
    assert titles == {"curve": "The first singular value", "curve_rank": "Rank"}


def test_lines_have_an_axis_that_fits_the_run_shown_and_shares_have_all_of_theirs():
    fall = np.geomspace(1, 1e-3, 5)
    runs = {
        "loss": np.stack([fall, fall**7]),
        "entropy": np.array([[1.170, 1.171], [0.2, 3.0]]).repeat([3, 2], axis=1),
    }
    shares = {"top_mass": np.full((2, 5), 0.01)}
    record = xr.Dataset(
        {name: (("seed", "time"), values) for name, values in (runs | shares).items()},
        {"time": np.arange(5)},
    )
    found = figures(record)
    axes = [still(by_name(found, "loss"), [seed])["y"] for seed in (0, 1)]
    np.testing.assert_allclose([axis["min"] for axis in axes], [1e-3, 1e-21])
    assert all(axis["log"] for axis in axes)
    narrow = still(by_name(found, "entropy"), [0])["y"]
    assert narrow["max"] - narrow["min"] == pytest.approx(
        0.1171
    )  # a tenth of it, though it moved by a thousandth
    in_nats = figures(
        record.assign(entropy=record.entropy.clip(0.3, 0.7).assign_attrs(units="nats"))
    )
    assert still(by_name(in_nats, "entropy"), [1])["y"]["max"] == pytest.approx(
        0.7
    )  # no share, though it stays below 1
    assert (
        still(by_name(found, "top_mass"), [0])["y"]["min"],
        still(by_name(found, "top_mass"), [0])["y"]["max"],
    ) == (0, 1)


def test_heads_have_been_still_since_half_the_step_at_which_movement_ends():
    record = watched_record(9, 2, 3, 5)
    moved = np.zeros((9, 2, 3))
    moved[:4, 0, 0], moved[:, 0, 1], moved[2:6, 1, 2] = 2 * FROZEN, 2 * FROZEN, 2 * FROZEN
    record["moved"] = (("time", "layer", "head"), moved)
    when, steps = freezing_steps(record), record.time.values
    np.testing.assert_allclose(
        [when[0, 0], when[1, 2]],
        [np.sqrt(steps[3] * steps[4]) / 2, np.sqrt(steps[5] * steps[6]) / 2],
    )
    assert np.isnan(when[1, 0])  # it has not begun to move
    assert np.isnan(when[0, 1])
    assert layer_names(record, "layer") == ["layer 0", "layer 1"]


def test_maps_fill_their_room_and_no_more_the_last_look_first():
    record = watched_record(40, 2, 3, 64)
    room = 60_000
    text = text_map(record, room)
    moments = [look["moment"] for look in text["looks"]]
    assert 39 in moments
    assert sum(len(look["pack"]["data"]) for look in text["looks"]) <= room
    assert 3 < len(moments) < 40
    rows = [list(record.map_query.values).index(query) for query in text["queries"]]
    truth = record.attention_map.values[39][..., rows, :].astype(float)
    np.testing.assert_allclose(unpacked(text["looks"][-1]["pack"]), truth, atol=4e-3)


def test_every_figure_of_a_watched_record_is_drawn(tmp_path):
    record = watched_record(12, 12, 3, 16)
    assert "frozen" not in record.saccade.figures()  # all its heads move to the end
    record["moved"] = record.moved.where(record.time < record.time[6], 0.0)
    for figure in figures(record):
        draw(still(figure)).savefig(tmp_path / f"{figure['name']}.png", dpi=40)
    assert {
        "heads",
        "relative_entropy",
        "decile_focus",
        "masses",
        "frozen",
        "qk_effective_rank",
    } <= set(record.saccade.figures())


def test_a_record_shows_itself_in_a_frame_of_its_own_and_xarray_stays_as_it_is(record):
    assert ".figures()" in repr(show(record))
    assert "\n" not in repr(show(record))
    shown = show(record)._repr_html_()
    assert shown.startswith("<iframe")
    assert 'sandbox="allow-scripts allow-downloads"' in shown
    assert "<script" not in shown  # escaped into the frame
    assert "xr-wrap" in record._repr_html_()
    assert "iframe" not in record._repr_html_()
    with pytest.raises(InputError, match="record"):
        show("record")
    assert saccade.__version__


def test_a_record_tells_the_assumptions_of_each_pair_of_rates():
    task = saccade.SequenceClasses([[0.4, 0.2, 0.4, 0.0], [0.3, 0.1, 0.0, 0.6]])
    record = saccade.train(task, lr_decoder=[1, 200], lr_attention=1, steps=1, seeds=1)
    slow, fast = (
        next(
            condition
            for condition in record.saccade.assumptions(rate)
            if condition.name.startswith("Assumption 1(c)")
        )
        for rate in (0, 1)
    )
    assert (slow.value, slow.holds, fast.value, fast.holds) == (1, False, 200, True)
    assert str(slow).endswith("decoder rate / attention rate is 1, must be at least 100")
    with pytest.raises(InputError, match="`rate` must be a whole number from 0 to 1"):
        record.saccade.assumptions(2)
    assert xr.Dataset().saccade.assumptions() == []


def test_a_short_definition_is_the_title_and_a_long_one_stands_below():
    said = {
        "top_attention": "attention of a class on its most frequent token",
        "curve": "the loss" + ", in nats" * 11,
    }
    record = xr.Dataset(
        {name: ("time", np.arange(3.0), {"definition": told}) for name, told in said.items()},
        {"time": [0, 1, 2]},
    )
    assert [(figure["title"], figure["caption"]) for figure in figures(record)] == [
        ("Attention of a class on its most frequent token", ""),
        ("The loss", f"T{said['curve'][1:]}."),
    ]


def test_bars_stand_on_zero_whatever_their_heights():
    heights = np.linspace(4.0, 7.0, 3 * 12).reshape(3, 12)
    for values in (heights, -heights, 10.0**heights):
        record = xr.Dataset({"sizes": (("time", "rank"), values)}, {"time": [0, 1, 2]})
        (figure,) = figures(record)
        assert figure["kind"] == "bars"
        assert figure["y"]["min"] <= 0 <= figure["y"]["max"]
        assert not figure["y"].get("log")


@pytest.mark.parametrize("n_steps", [100, 260, 2_000, 100_000])
def test_the_default_schedule_of_a_watched_run_is_drawn_in_powers_of_ten_with_step_0_and_an_even_one_is_not(
    n_steps,
):
    due = schedule("log")
    assert (
        time_scale(np.array([*(step for step in range(n_steps) if due(step)), n_steps], np.float64))
        == "zero"
    )
    assert time_scale(np.arange(0.0, n_steps + 1, n_steps // 100)) is False


@pytest.mark.parametrize(
    "told, title",
    [
        (
            "z of W_Q, from the start",
            "z of W_Q, from the start",
        ),  # a letter of a formula, and its index
        ("η: strength", "η: strength"),
        ("a share of attention", "A share of attention"),
        ("the same along the plain flow", "Plain logits"),  # the same as what?
        ("", "Plain logits"),
    ],
)
def test_a_title_keeps_the_letters_of_formulas(told, title):
    (figure,) = figures(
        xr.Dataset(
            {"plain_logits": ("time", np.arange(3.0), {"definition": told})}, {"time": [0, 1, 2]}
        )
    )
    assert figure["title"] == title


def test_samples_whose_times_are_not_known_are_numbered_apart_from_those_whose_are():
    clock = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 9.0]])
    record = xr.Dataset(
        {"attention": ("sample", np.arange(3.0)), "curve": (("law", "sample"), clock**2)}
    )
    known, numbered = _by_clock(figures(record.assign(curve_time=(("law", "sample"), clock))))[::-1]
    assert [known[0]["time_label"], numbered[0]["time_label"]] == ["time", "sample"]
    np.testing.assert_array_equal(numbered[0]["time"], [0, 1, 2])
    clocks, axes = _main_clock([*numbered, *known])
    assert (axes, clocks.max()) == (["law"], 9)  # the one that goes on longest


def test_of_one_query_alone_bars_are_drawn_and_of_several_a_map():
    attention = np.random.default_rng(5).dirichlet(np.ones(5), (7, 2))
    record = xr.Dataset(
        {"attention": (("time", "query", "token"), attention)},
        {"time": np.arange(7.0), "query": ["a", "b"]},
    )
    (alone,), (several,) = figures(record.isel(query=[0])), figures(record)
    assert (alone["kind"], several["kind"]) == ("bars", "heat")
    shown = still(alone, moment=3)
    np.testing.assert_allclose(shown["groups"][0]["values"], attention[3, 0])
    assert shown["groups"][0]["name"] == shown["title"]  # which no legend repeats
