"""A run that was stopped goes on in the same folder: its record is that of a run that was never
stopped, and nothing is lost.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from saccade.cli import main  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from tests.patience import PATIENCE  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402

STEPS, CHECKPOINT, KILLED = 24, 9, 13


def train(folder, first, stop, *, out="run", killed=False, **settings):
    """Plain descent from the checkpoint of step `first`; the state of step `CHECKPOINT` is kept
    beside the run.
    """
    torch.manual_seed(0)
    model = zoo.HandWritten("fused")
    if first:
        model.load_state_dict(torch.load(folder / "state.pt", weights_only=True))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    with saccade.watch(
        model, zoo.ids(), every=1, budget=None, out=folder / out, **settings
    ) as recorder:
        for step in range(first, stop):
            if step == CHECKPOINT:
                torch.save(model.state_dict(), folder / "state.pt")
            recorder.step(step)
            optimiser.zero_grad()
            model(zoo.ids()).square().mean().backward()
            optimiser.step()
            if killed and step == KILLED:
                os.kill(os.getpid(), signal.SIGKILL)
    return recorder


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A run that was killed with kill -9 after step 13, whose last checkpoint is of step 9."""
    folder = tmp_path_factory.mktemp("killed")
    code = f"from pathlib import Path; from tests.watching.test_resume import train; train(Path({str(folder)!r}), 0, 24, killed=True)"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    return folder


@pytest.fixture
def stopped(killed, tmp_path):
    return Path(shutil.copytree(killed, tmp_path / "stopped"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole"), 0, STEPS).record


def assert_same(record, other):
    """But for the spectra of weights, which are taken again where a run goes on, and what looking
    took.
    """
    names = [
        name
        for name in other.data_vars
        if name != "look_seconds" and "weight_layer" not in other[name].dims
    ]
    names = [name for name in names if not name.startswith(("embedding_", "unembedding_"))]
    assert "moved" in names
    xr.testing.assert_allclose(record[names], other[names], rtol=0, atol=1e-6)


def test_a_killed_run_that_goes_on_has_the_record_of_one_that_was_never_stopped(
    stopped, whole, capsys
):
    before = {
        path.name: path.read_bytes() for path in (stopped / "run" / "observations").glob("*.npz")
    }
    train(stopped, CHECKPOINT, STEPS, resume=True)
    assert (
        "resuming from step 9: 9 earlier observations; 5 of later steps are replaced"
        in capsys.readouterr().err
    )
    record = saccade.load_record(stopped / "run")
    assert record.time.values.tolist() == whole.time.values.tolist()
    assert_same(record, whole)
    config = json.loads(record.attrs["config"])
    assert config["resumed"] == [CHECKPOINT]
    assert len(config["superseded"]) == KILLED + 1 - CHECKPOINT
    assert config["check"]["n_calls"] == 2
    kept = {name: (stopped / "run" / "observations" / name).read_bytes() for name in before}
    assert kept == before  # also those that have given way
    assert main(["check", str(stopped)]) == 0
    assert_same(saccade.load_record(stopped / "run"), whole)


def test_a_run_that_goes_on_and_is_killed_again_never_mixes_the_two(stopped):
    recorder = zoo.watching(every=5, budget=None, out=stopped / "run", resume=True).__enter__()
    recorder.step(10)  # and no more, as if killed
    assert saccade.load_record(stopped / "run").time.values.tolist() == list(range(11))
    assert saccade.load_record(stopped / "run").sizes["time"] == 11


def test_a_run_that_ended_goes_on_and_readers_see_its_new_part_at_once(tmp_path, whole):
    train(tmp_path, 0, CHECKPOINT + 1)
    page = tmp_path / "page.html"
    assert saccade.load_record(tmp_path / "run").time.values[-1] == CHECKPOINT + 1
    torch.manual_seed(0)
    model = zoo.HandWritten("fused")
    model.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    settings = {"every": 100, "budget": None, "out": tmp_path / "run", "resume": True}
    recorder = saccade.watch(model, zoo.ids(), **settings).__enter__()
    recorder.step(CHECKPOINT)  # seen before, so it is seen again whatever the schedule says
    recorder.observe(CHECKPOINT + 5)
    assert saccade.load_record(tmp_path / "run").time.values.tolist() == [
        *range(CHECKPOINT + 1),
        CHECKPOINT + 5,
    ]
    assert main(["report", str(tmp_path / "run"), "--out", str(page)]) == 0
    assert main(["check", str(tmp_path)]) == 0
    recorder.close()
    train(tmp_path, CHECKPOINT, STEPS, resume=True)  # and once more, to the end
    assert_same(saccade.load_record(tmp_path / "run"), whole)


def test_resuming_where_nothing_was_watched_starts_a_run(tmp_path):
    (tmp_path / "run" / "observations").mkdir(parents=True)  # killed before it could say anything
    assert train(tmp_path, 0, 2, resume=True).record.time.values.tolist() == [0, 1, 2]
    assert train(tmp_path, 0, 2, out="new", resume=True).record.time.values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "settings, word",
    [({"label": "lr 2"}, "label"), ({"maps": [1]}, "maps"), ({"text": list(range(9))}, "text")],
)
def test_another_run_is_refused_in_a_sentence(stopped, settings, word):
    before = sorted(path.name for path in (stopped / "run").rglob("*"))
    with pytest.raises(
        InputError, match=rf"holds a watched run with another {word}; give `out` a new folder"
    ):
        train(stopped, CHECKPOINT, STEPS, resume=True, **settings)
    with pytest.raises(InputError, match="pass `resume=True` to go on"):
        train(stopped, CHECKPOINT, STEPS)
    assert sorted(path.name for path in (stopped / "run").rglob("*")) == before


def test_another_model_or_probe_is_refused(stopped):
    for model, probe, word in (
        (torch.nn.Sequential(zoo.HandWritten("fused")), zoo.ids(), "model"),
        (zoo.HandWritten("fused"), zoo.ids().flip(0), "probe"),
    ):
        with pytest.raises(InputError, match=f"another {word}"):
            saccade.watch(model, probe, out=stopped / "run", resume=True)


def test_a_damaged_run_does_not_go_on(stopped):
    next((stopped / "run" / "observations").glob("*3.*.npz")).write_bytes(b"")
    with pytest.raises(InputError, match=r"cannot go on: observations/.* is not what was written"):
        train(stopped, CHECKPOINT, STEPS, resume=True)


def test_a_run_that_is_still_going_on_elsewhere_is_refused(stopped):
    descriptor = os.open(stopped / "run" / "observations", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as another process would hold it
    with pytest.raises(InputError, match="still going on in another process"):
        train(stopped, CHECKPOINT, STEPS, resume=True)
    os.close(descriptor)
    train(stopped, CHECKPOINT, CHECKPOINT + 1, resume=True)


def test_a_second_recorder_of_the_same_process_takes_over(stopped, whole):
    """A notebook's cell that was stopped and is run again."""
    first = zoo.watching(every=1, budget=None, out=stopped / "run", resume=True).__enter__()
    train(stopped, CHECKPOINT, STEPS, resume=True)
    with pytest.warns(UserWarning, match="not empty"):
        first.step(30)
    assert_same(saccade.load_record(stopped / "run"), whole)


def test_a_run_that_goes_on_must_be_told_its_step(stopped):
    recorder = zoo.watching(out=stopped / "run", resume=True)
    with pytest.warns(UserWarning, match="number of each step"), recorder:
        recorder.step()
    assert saccade.load_record(stopped / "run").sizes["time"] == KILLED + 1
    with pytest.raises(InputError, match="`resume` needs `out`"):
        zoo.watching(resume=True)
