"""A sweep over a system of one's own: every cell is the flow of its own system, and a second call
computes nothing.
"""

from __future__ import annotations

import csv
import gc
import json
import os
import re
import subprocess
import sys
import threading
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import saccade
from saccade.cli import main
from saccade.errors import InputError
from saccade.sweeps.system_identity import system_identity
from tests.sweeps.small_sweeps import contents


class Well(saccade.System):
    """One parameter in a parabola: x(t) = exp(-steepness t)."""

    def __init__(self, steepness: float = 1.0, depth: float = 0.0) -> None:
        self.steepness, self.depth = steepness, depth

    def start(self, rng):
        return jnp.ones(())

    def loss(self, x):
        return self.steepness * x**2 / 2 - self.depth

    def observe(self, x):
        return {"place": saccade.Observable((), x, "1", "where it is")}


OVER = {"steepness": [1.0, 2.0, 3.0], "depth": [0.0, 5.0]}


def test_every_cell_is_the_flow_of_its_own_system():
    found = saccade.sweep(Well, OVER, t1=2.0, n_times=20).squeeze("seed")
    assert dict(found.sizes) | {"steepness": 3, "depth": 2, "time": 21} == dict(found.sizes)
    np.testing.assert_allclose(
        found.place.sel(depth=5.0), np.exp(-found.steepness * found.time), rtol=1e-6
    )
    np.testing.assert_allclose(found.loss.sel(depth=0.0) - found.loss.sel(depth=5.0), 5.0)


def test_a_second_call_computes_nothing_and_other_settings_do(tmp_path):
    first = saccade.sweep(Well, OVER, out=tmp_path, t1=2.0, n_times=20)
    written = {path: path.stat().st_mtime_ns for path in kept(tmp_path)}
    assert len(written) == 6
    assert saccade.sweep(Well, OVER, out=tmp_path, t1=2.0, n_times=20).identical(first)
    assert {path: path.stat().st_mtime_ns for path in kept(tmp_path)} == written
    saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path, t1=3.0, n_times=20, replace=True)
    assert len(kept(tmp_path)) == 7


@pytest.mark.parametrize(
    "other",
    [
        {"over": {"steepness": [1.0], "depth": [0.0, 5.0]}},
        {"t1": 3.0},
        {"make": lambda steepness, depth: Well(steepness)},
    ],
)
def test_a_dataset_gives_way_only_to_one_that_holds_all_its_runs(tmp_path, other):
    asked = {"make": Well, "over": OVER, "t1": 2.0, "n_times": 3}

    def swept(make, over, **settings):
        return saccade.sweep(make, over, out=tmp_path, **settings)

    swept(**asked)
    before = contents(tmp_path)
    with pytest.raises(
        InputError, match=r"results of another sweep \(\d of its 6 runs are not in this one\)"
    ):
        swept(**asked | other)
    assert contents(tmp_path) == before
    assert (
        swept(**asked | {"over": OVER | {"depth": [0.0, 5.0, 7.0]}}).sizes["depth"] == 3
    )  # all of it and more
    swept(**asked | other, replace=True)
    assert {file for file in before if "dataset" not in file} <= {*contents(tmp_path)}


def kept(folder):
    """The records of single runs."""
    return [path for path in folder.glob("*.zarr") if path.name != "dataset.zarr"]


class Named:
    """What no table can hold."""

    def __init__(self, steepness: float) -> None:
        self.steepness = steepness

    def __repr__(self) -> str:
        return f"steep as {self.steepness}"


def test_it_leaves_a_dataset_a_summary_and_a_figure_as_every_sweep_does(tmp_path):
    found = saccade.sweep(
        lambda like, depth: Well(like.steepness, depth),
        {"like": [Named(1.0), Named(2.0)], "depth": [0.0, 5.0]},
        out=tmp_path,
        t1=2.0,
        n_times=20,
    )
    dataset = saccade.load_record(tmp_path / "dataset.zarr")
    np.testing.assert_array_equal(dataset.place, found.place)
    assert re.fullmatch(
        r"final loss over like, depth, seed; colour is the mean over seeds.*\. Runs: 4 finished\.",
        dataset.attrs["caption"],
    )
    rows = [*csv.DictReader((tmp_path / "summary.csv").read_text().splitlines())]
    assert [(row["like"], row["depth"], row["status"]) for row in rows][:2] == [
        ("steep as 1.0", "0.0", "finished"),
        ("steep as 1.0", "5.0", "finished"),
    ]
    np.testing.assert_allclose(
        [float(row["final_loss"]) for row in rows], found.loss.isel(time=-1).values.ravel()
    )
    assert (tmp_path / "figure.svg").stat().st_size > 1000
    assert main(["check", str(tmp_path)]) == 0
    (tmp_path / "summary.csv").write_text("like\n")
    assert main(["check", str(tmp_path)]) == 1


def test_one_process_at_a_time_writes_to_a_folder(tmp_path):
    def second(fraction):
        with pytest.raises(InputError, match="another process is using"):
            saccade.sweep(Well, {"steepness": [2.0]}, out=tmp_path, t1=2.0, n_times=3)

    saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path, t1=2.0, n_times=3, on_progress=second)
    assert len(kept(tmp_path)) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path / "file", t1=2.0, n_times=3)


def test_a_file_of_somebody_else_is_not_written_over(tmp_path):
    (tmp_path / "summary.csv").write_text("a thesis")
    with pytest.raises(InputError, match=r"holds summary\.csv, which Saccade did not write there"):
        saccade.sweep(Well, OVER, out=tmp_path, t1=2.0, n_times=20)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.csv"]


@pytest.mark.parametrize(
    "place", ["gathering.write_summary", "gathering.save_figure", "gathering.seal"]
)
def test_after_a_kill_while_results_are_written_the_same_call_does_the_rest(
    tmp_path, monkeypatch, place
):
    def killed(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"saccade.sweeps.{place}", killed)
        with pytest.raises(KeyboardInterrupt):
            saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path, t1=2.0, n_times=3)
    assert not (tmp_path / "checksums.json").exists()
    saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path, t1=2.0, n_times=3)
    assert main(["check", str(tmp_path)]) == 0


def test_a_damaged_run_is_named_with_what_to_do(tmp_path):
    saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path, t1=2.0, n_times=3)
    (run,) = kept(tmp_path)
    (run / ".zattrs").write_text("{}")
    with pytest.raises(
        InputError, match=rf"{run.name} .* \.zattrs is not what was written. Move it away"
    ):
        saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path, t1=2.0, n_times=3)


def test_one_system_at_a_time_is_held_and_a_mistake_in_the_last_costs_no_run():
    alive = weakref.WeakSet()

    def make(steepness):
        if len(alive) > 2:
            gc.collect()
        assert len(alive) < 3
        well = Well(steepness)
        alive.add(well)
        return well if steepness < 9 else None

    saccade.sweep(make, {"steepness": [1.0, 2.0, 3.0, 4.0, 5.0]}, t1=1.0, n_times=3)
    with pytest.raises(InputError, match=r"must give a saccade\.System"):
        saccade.sweep(make, {"steepness": [1.0, 9.0]}, steps=10**9, batch=1)


def test_cells_of_different_rates_are_recorded_at_the_same_times():
    class Rated(Well):
        def rates(self):
            return {"parameters": self.steepness}

    found = saccade.sweep(Rated, {"steepness": [1.0, 2.0]}, t1=2.0, n_times=20)
    assert found.sizes["time"] == 21
    assert found.place.notnull().all()
    alone = saccade.flow(Rated(2.0), t1=2.0, n_times=20)
    np.testing.assert_array_equal(found.time, alone.time)
    np.testing.assert_array_equal(found.place.sel(steepness=2.0), alone.place)


def test_only_what_is_asked_for_is_kept():
    found = saccade.sweep(Well, OVER, t1=2.0, n_times=3, keep=["place"])
    assert set(found.data_vars) == {"place", "loss", "stop_reason", "stop_time"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"config": 3}, "`config` is for sweeps of an experiment"),
        ({"retry_failed": True}, "`retry_failed` is for sweeps of an experiment"),
        ({"workers": 2}, "`workers` is not a setting of `flow`"),
        ({"t2": 2.0}, "`t2` is not a setting of `flow`"),
        ({"steps": 3, "t1": 2.0}, "`t1` is not a setting of `train`, which `steps` asks for"),
        ({"keep": ["plaice"]}, "Did you mean 'place'"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(settings, words, tmp_path):
    with pytest.raises(InputError, match=words):
        saccade.sweep(Well, OVER, out=tmp_path, **settings)
    assert list(tmp_path.iterdir()) == []


def test_mistakes_are_sentences():
    with pytest.raises(InputError, match=r"'wrokers' is not known\. Did you mean 'workers'"):
        saccade.sweep("scan-then-snap", wrokers=2)
    with pytest.raises(InputError, match=r"`over` does not fit .*'width'"):
        saccade.sweep(Well, {"width": [1.0]})
    with pytest.raises(InputError, match="`over` must list values"):
        saccade.sweep(Well, {"steepness": 1.0})
    with pytest.raises(InputError, match=r"must give a saccade.System"):
        saccade.sweep(lambda steepness: 3, {"steepness": [1.0]})


OWN = """
import helpers
import jax
import jax.numpy as jnp
import numpy as np
import saccade
from functools import cached_property, partial, update_wrapper, wraps

GAIN = 1.0
TABLE = {{"gain": [1.0, 2.0]}}


def helper(x, power=2):
    \"\"\"Says something.\"\"\"
    return x**power + GAIN * jnp.sum(jnp.zeros(1)) + TABLE["gain"][0]


@jax.jit
def compiled(x):
    return helper(x) + helpers.deeper(x)


helper.weight = 1.0


@jax.jit
@wraps(jnp.tanh)
def under_another_name(x):
    return 0.5 * x


class Scaled:
    def __init__(self, function, by):
        update_wrapper(self, function)
        self.by = by

    def __call__(self, x):
        return self.by * self.__wrapped__(x)


scaled = Scaled(jnp.tanh, 3.0)


@jax.custom_vjp
def ruled(x):
    return 0.0 * x


ruled.defvjp(lambda x: (ruled(x), x), lambda x, slope: (0.25 * slope,))


class Parent(saccade.System):
    offset = 0.0

    @cached_property
    def scale(self):
        return 8.0

    def start(self, rng):
        import helpers as late
        from helpers import later
        return jnp.ones(()) + 0.0 * rng.random() + late.at_last() + later()


def made(closed, data, wrapped):
    class Own(Parent):
        def __init__(self, steepness=1.0):
            self.steepness, self.data, self.wrapped = steepness, data, wrapped

        def loss(self, x):
            own = self.steepness * compiled(x) / 2 + self.offset + self.data.sum() + self.wrapped(x)
            return own + closed + self.scale * ruled(x) + under_another_name(x) + scaled(x)

        def batch(self, rng):
            return rng.choice(self.data)

    return Own


make = made(0.0, np.zeros(3), partial(helper, power=4))
"""
DEEPER = """
FAR = 1.0


class Tool:
    def used(self, x):
        return FAR * x


def deeper(x, tool=Tool()):
    return tool.used(x)


def at_last():
    return 10.0


def later():
    return 20.0
"""
CHANGES = {  # what differs -> what stands there, what stands there then
    "nothing": ("", ""),
    "a comment": ("    offset = 0.0", "    offset = 0.0  # of all"),
    "a default": ("power=2", "power=3"),
    "a global": ("GAIN = 1.0", "GAIN = 2.0"),
    "a value in a table": ("[1.0, 2.0]", "[1.5, 2.0]"),
    "a helper": ("return x**power", "return x*power"),
    "a value of the class above": ("offset = 0.0", "offset = 1.0"),
    "a method of the class above": ("jnp.ones(())", "jnp.zeros(())"),
    "a value closed over": ("made(0.0", "made(1.0"),
    "an array": ("np.zeros(3)", "np.eye(3)[2]"),
    "an argument that is bound": ("partial(helper, power=4)", "partial(helper, power=6)"),
    "a method that only training calls": ("rng.choice", "rng.permutation"),
    "a slope that is given": ("0.25 * slope", "0.5 * slope"),
    "a property that is kept": ("return 8.0", "return 9.0"),
    "a global of another module": ("FAR = 1.0", "FAR = 2.0"),
    "a method of an object in another module": ("FAR * x", "FAR + x"),
    "a function of a module that a method imports": ("10.0", "11.0"),
    "a function that a method imports": ("20.0", "21.0"),
    "an attribute of a function": ("helper.weight = 1.0", "helper.weight = 2.0"),
    "a function that has the name of a library's": ("0.5 * x", "0.75 * x"),
    "an object that has the name of a library's function": (
        "Scaled(jnp.tanh, 3.0)",
        "Scaled(jnp.tanh, 4.0)",
    ),
    "its class": ("self.by * self", "self.by + self"),
}
NAMES = """
import json, sys, types
from saccade.sweeps.system_identity import system_identity
from tests.sweeps.small_sweeps import contents

found = {}
for name, (own, deeper) in json.load(sys.stdin).items():
    sys.modules["helpers"] = helpers = types.ModuleType("helpers")
    exec(compile(deeper, "helpers.py", "exec"), vars(helpers))
    module = types.ModuleType("mine")
    exec(compile(own, "mine.py", "exec"), vars(module))
    found[name] = system_identity(module.make(2.0), {"t1": 3.0})
print(json.dumps(found))
"""


def test_a_run_is_named_by_all_that_its_numbers_come_from_and_by_nothing_else():
    texts = {
        name: [text.replace(*change) for text in (OWN.format(), DEEPER)]
        for name, change in CHANGES.items()
    }
    assert all(text != [OWN.format(), DEEPER] for name, text in texts.items() if name != "nothing")
    found = [_names(texts, seed) for seed in ("1", "2")]
    assert found[0] == found[1]  # in every process
    assert found[0]["a comment"] == found[0]["nothing"]
    assert len(set(found[0].values())) == len(CHANGES) - 1


def _names(texts, seed):
    environment = os.environ | {"PYTHONHASHSEED": seed}
    ended = subprocess.run(
        [sys.executable, "-c", NAMES],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_two_makers_of_the_same_text_do_not_share_runs(tmp_path):
    def maker(depth):
        return lambda steepness: Well(steepness, depth)

    for depth in (0.0, 5.0, 0.0):
        found = saccade.sweep(
            maker(depth), {"steepness": [1.0]}, out=tmp_path, t1=1.0, n_times=3, replace=True
        )
        assert float(found.loss.isel(time=0).squeeze()) == 0.5 - depth
    assert len(kept(tmp_path)) == 2


def test_what_cannot_be_told_from_another_is_said_before_anything_is_kept(tmp_path):
    def make(steepness):
        well = Well(steepness)
        well.lock = threading.Lock()
        return well

    with pytest.raises(InputError, match=r"cannot tell .*lock.* leave out `out`"):
        saccade.sweep(make, {"steepness": [1.0]}, out=tmp_path, t1=1.0, n_times=3)
    assert list(tmp_path.iterdir()) == []
    assert saccade.sweep(make, {"steepness": [1.0]}, t1=1.0, n_times=3).sizes["steepness"] == 1


def test_systems_of_saccade_itself_are_told_apart_by_their_values(tmp_path):
    names = [
        system_identity(
            saccade.models.Pairwise(saccade.SequenceClasses.syn_small(), lr_decoder=rate)
        )
        for rate in (1.0, 1.0, 2.0)
    ]
    assert names[0] == names[1] != names[2]


def test_a_number_that_differs_between_cells_keeps_its_values():
    class Told(Well):
        def coordinates(self):
            return {"twice": 2 * self.steepness}

    found = saccade.sweep(Told, {"steepness": [1.0, 3.0]}, t1=1.0, n_times=5)
    assert found.twice.values.tolist() == [2.0, 6.0]
