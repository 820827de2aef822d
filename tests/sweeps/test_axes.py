"""What is swept: every way to write it, and every mistake as one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.sweeps.axes import axes_of
from saccade.sweeps.gathering import swept_coordinates
from saccade.sweeps.grid import Grid
from tests.sweeps.small_sweeps import NAME, small_config


@dataclass(frozen=True)
class Settings:
    rate: float = 1.0
    steps: int = 10
    scaled: bool = False
    kind: str = "plain"
    ratios: tuple[float, ...] = (1.0,)
    seeds: int | tuple[int, ...] = 3
    n_vocab: int | None = None
    optimiser: Literal["sgd", "adam"] = "sgd"


WRITTEN = {
    "rate=0.5,1,2": [(0.5,), (1.0,), (2.0,)],
    "rate=1e-3,2": [(1e-3,), (2.0,)],
    "steps=0..3": [(0,), (1,), (2,), (3,)],
    "rate=0..1:5": [(0.0,), (0.25,), (0.5,), (0.75,), (1.0,)],
    "rate=1..100:log3": [(1.0,), (10.0,), (100.0,)],
    "rate=100..1:log3": [(100.0,), (10.0,), (1.0,)],
    "scaled=true,False": [(True,), (False,)],
    "kind=plain,other": [("plain",), ("other",)],
    "ratio=1,10": [((1.0,),), ((10.0,),)],
    "ratios=1/10,5/50": [((1.0, 10.0),), ((5.0, 50.0),)],
    "rate/steps=1/10,0.5/20": [(1.0, 10), (0.5, 20)],
    "seeds=0..2": [((0,),), ((1,),), ((2,),)],
    "seeds=9007199254740993,1e3": [((9007199254740993,),), ((1000,),)],
    "optimiser=adam,sgd": [("adam",), ("sgd",)],
    "n_vocab=1000,none": [(1000,), (None,)],
}


@pytest.mark.parametrize("text", WRITTEN)
def test_each_written_form_gives_its_values_in_the_type_of_the_setting(text):
    (axis,) = axes_of([text], Settings())
    assert list(axis.values) == WRITTEN[text]
    assert [[type(value) for value in row] for row in axis.values] == [
        [type(value) for value in row] for row in WRITTEN[text]
    ]


def test_a_log_range_is_even_in_the_logarithm_and_its_values_can_be_typed_again():
    (axis,) = axes_of(["rate=1..10:log8"], Settings())
    values = [value for (value,) in axis.values]
    np.testing.assert_allclose(np.diff(np.log(values)), np.log(10) / 7, rtol=1e-10)
    (typed,) = axes_of(["rate=" + ",".join(f"{value:.12g}" for value in values)], Settings())
    assert typed == axis


def test_python_values_mean_the_same_as_written_ones():
    given = {"rate": np.array([0.5, 1, 2]), "rate/steps": [(1, 10), (0.5, 20)], "ratio": [1, 10]}
    for (name, values), text in zip(
        given.items(), ("rate=0.5,1,2", "rate/steps=1/10,0.5/20", "ratio=1,10"), strict=True
    ):
        assert axes_of({name: values}, Settings()) == axes_of([text], Settings())


@pytest.mark.parametrize(
    "text",
    [
        "rate",
        "=1,2",
        "rate=",
        "rat=1,2",
        "rate=1,1.0",
        "rate=a,b",
        "rate=1..x:3",
        "rate=0.5..3",
        "rate=9..1",
        "rate=1..10:1",
        "rate=1..10:2.5",
        "rate=0..10:log3",
        "rate=1..inf:3",
        "rate=2..2:5",
        "rate=0..1:1e9",
        "steps=1,2.5",
        "scaled=1,2",
        "rate/steps=1,2",
        "rate/steps=1/2/3,4/5/6",
        "rate/steps=1..3:2",
        "kind=a/b,c",
        "rate=1,,2",
        "rate=1:log..10:log8",
        "rate=1:2..3",
        "rate=-1e308..1e308:3",
        "rate=..",
    ],
)
def test_a_mistake_is_one_sentence(text):
    with pytest.raises(InputError, match=r"^[^\n]+[.?]$"):
        axes_of([text], Settings())


@pytest.mark.parametrize(
    "over",
    [
        {"rate": 3},
        {"rate": []},
        {"rate/steps": [1, 2]},
        {3: [1]},
        {"rate": [True]},
        {"rate": [None]},
        {"steps": [10**400]},
    ],
)
def test_a_mistake_in_python_is_one_sentence_too(over):
    with pytest.raises(InputError, match=r"\.$"):
        axes_of(over, Settings())


def test_a_setting_is_swept_once():
    for over in (
        ["rate=1,2", "rate=3,4"],
        ["rate=1,2", "rate/steps=3/4,5/6"],
        ["ratio=1,2", "ratios=3,4"],
    ):
        with pytest.raises(InputError, match="swept twice"):
            axes_of(over, Settings())
    with pytest.raises(InputError, match="swept twice"):
        Grid.of(NAME, ["seed=0..3"], 4, small_config())


def test_a_grid_has_every_combination_once_the_last_axis_fastest():
    grid = Grid.of(NAME, ["lr_decoder=1,2", "overlap=0.1,0.2,0.3"], [5, 7], small_config())
    assert grid.shape == (2, 3, 2)
    got = [(run.config.lr_decoder, run.config.overlap, run.config.seed) for run in grid.runs]
    assert got == [
        (rate, overlap, seed)
        for rate in (1.0, 2.0)
        for overlap in (0.1, 0.2, 0.3)
        for seed in (5, 7)
    ]
    assert [run.place for run in grid.runs] == list(np.ndindex(2, 3, 2))


def test_a_grid_of_nothing_of_too_much_or_without_seeds_to_draw_is_refused():
    for arguments, said in [
        ((NAME, (), None), "nothing is swept"),
        ((NAME, ["lr_decoder=1..10:1000"], 10_000), "more than"),
        (("reparameterisation", (), 3), "no seeds"),
        ((NAME, (), 0), "must be a whole number from 1"),
    ]:
        with pytest.raises(InputError, match=said):
            Grid.of(*arguments)


def test_none_is_a_place_with_a_name_that_can_be_typed_again():
    (axis,) = axes_of({"n_vocab": [None, 7]}, Settings())
    assert axis.labels == ["none", 7]
    grid = Grid(NAME, Settings(), (axis,))
    assert swept_coordinates(grid)["n_vocab"][1].tolist() == ["none", "7"]
    assert axes_of([grid.command.split("--over ")[1]], Settings()) == [axis]
    with pytest.raises(InputError, match="`rate` takes float; got 'none'"):
        axes_of(["rate=1,none"], Settings())
    with pytest.raises(InputError, match="`optimiser` takes sgd or adam; got 'lion'"):
        axes_of(["optimiser=sgd,lion"], Settings())
