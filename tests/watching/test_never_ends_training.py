"""Nothing that goes wrong in watching reaches the training loop, a full disk least of all; what can
be kept is kept.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from saccade.records import observation_log, writing  # noqa: E402
from saccade.watching import observer as observer_module  # noqa: E402
from saccade.watching import recorder as recorder_module  # noqa: E402
from saccade.watching.self_check import UnfaithfulError  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402

STEPS = 7


def trained(recorder=None, before=lambda step: None):
    """Losses of a run, watched or not; `before` each step something happens to the machine."""
    torch.manual_seed(0)
    model = zoo.HandWritten("fused") if recorder is None else recorder._model
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        before(step)
        if recorder is not None:
            recorder.step(step, loss=losses[-1] if losses else None)
        loss = model(zoo.ids()).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def watching(out=None, **settings):
    torch.manual_seed(0)
    settings = {"every": 1, "budget": None, "weights": False} | settings
    return zoo.watching(out=out, **settings)


@contextmanager
def small_disk(folder):
    """A disk of two megabytes, mounted at `folder`."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


@pytest.fixture
def no_room(monkeypatch):
    """Nothing can be written from now on; called with False, it can again."""
    real = writing._new_file

    def refuse(path):
        raise OSError(28, "No space left on device", str(path))

    def switch(full=True):
        monkeypatch.setattr(writing, "_new_file", refuse if full else real)

    return switch


def test_on_a_disk_that_stays_full_the_looks_before_are_whole_and_the_others_in_memory(
    tmp_path, capsys
):
    with small_disk(tmp_path / "disk") as disk:
        with watching(disk / "run") as recorder:
            assert (
                trained(recorder, lambda step: fill(disk / "other") if step == 3 else None)
                == trained()
            )
        assert recorder.record.time.values.tolist() == list(range(STEPS + 1))
        (disk / "other").unlink()
        assert saccade.load_record(disk / "run").time.values.tolist() == [0, 1, 2]
        assert not list((disk / "run").glob("**/.*"))
    assert "save_record" in capsys.readouterr().err


def test_what_waits_for_the_disk_is_bounded_and_what_is_lost_is_listed(
    tmp_path, no_room, monkeypatch, capsys
):
    with watching(tmp_path / "run") as recorder:
        recorder.step(0)
        (one,) = [path.stat().st_size for path in (tmp_path / "run" / "observations").glob("*.npz")]
        assert one > 0
        size = observation_log._size(recorder._observer.observed(1))
        monkeypatch.setattr(observation_log, "_MOST_HELD", 4 * size)
        no_room()
        for step in range(1, 40):
            recorder.step(step)
            held = recorder._log._held()
            assert sum(map(observation_log._size, held.values())) <= 4 * size
            assert step in held
        no_room(False)
    record = saccade.load_record(tmp_path / "run" / "record.zarr")
    lost = saccade.load_record(tmp_path / "run").attrs["config"]
    steps = record.time.values.tolist()
    assert sorted(steps + recorder._log.about["config"]["lost"]) == list(range(40))
    assert steps[0] == 0
    assert steps[-1] == 39
    assert '"lost"' in lost
    said = capsys.readouterr().err
    assert "observations are lost: they could not be written" in said
    assert said.count("No space left on device") == 1


@pytest.mark.parametrize(
    "error",
    [RuntimeError("device lost"), MemoryError(), OSError(5, "Input/output error"), StopIteration()],
)
def test_a_look_that_fails_is_left_out_and_the_next_one_is_made(error, monkeypatch, capsys):
    real = observer_module.look

    def sometimes(model, *rest):
        if len(recorder._log.observations) == 2 and not failed:
            failed.append(1)
            model.eval()
            raise error
        return real(model, *rest)

    failed = []
    monkeypatch.setattr(observer_module, "look", sometimes)
    with watching() as recorder:
        losses = trained(recorder)
    assert losses == trained()
    assert recorder.record.time.values.tolist() == [0, 1, 3, 4, 5, 6, 7]
    assert type(error).__name__ in capsys.readouterr().err


@pytest.mark.parametrize("wish", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("call", ["step", "observe", "finish", "close", "__exit__"])
def test_no_public_method_raises_but_ctrl_c_and_exit_pass(
    call, wish, monkeypatch, tmp_path, capsys
):
    arguments = {"step": (5,), "observe": (5,), "__exit__": (None, None, None)}.get(call, ())

    def fail(error):
        def raising(*_, **__):
            raise error

        monkeypatch.setattr(observer_module, "look", raising)
        for name in ("save_record", "write_watched"):
            monkeypatch.setattr(recorder_module, name, raising)
        monkeypatch.setattr(recorder._log, "save", raising)

    recorder = watching(tmp_path / "run").__enter__()
    recorder.step(0)
    fail(ZeroDivisionError("a defect"))
    getattr(recorder, call)(*arguments)
    assert "a defect" in capsys.readouterr().err
    fail(wish())
    with pytest.raises(wish):
        getattr(recorder, call)(*arguments)


def test_an_error_of_the_training_itself_comes_out_as_it_is_and_the_record_is_written(tmp_path):
    def failing(recorder):
        recorder.step(0)
        raise ZeroDivisionError("of mine")

    with pytest.raises(ZeroDivisionError, match="of mine"), watching(tmp_path / "run") as recorder:
        failing(recorder)
    assert saccade.load_record(tmp_path / "run" / "record.zarr").time.values.tolist() == [0]


def test_wrong_numbers_in_a_step_are_said_and_the_look_is_kept(capsys):
    with watching() as recorder:
        recorder.step(0, loss="low")
        recorder.step("one")
    assert recorder.record.time.values.tolist() == [0]
    assert "loss" not in recorder.record
    said = capsys.readouterr().err
    assert "`loss` must be one number" in said
    assert "`step` must be a whole number" in said


def test_words_that_cannot_be_printed_do_not_end_training(monkeypatch):
    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

        flush = write

    with watching(forward=lambda step, values: 1 / 0) as recorder:
        monkeypatch.setattr(sys, "stderr", Full())
        losses = trained(recorder)
        monkeypatch.undo()
    assert losses == trained()
    assert recorder.record.sizes["time"] == STEPS + 1


def test_a_users_own_way_of_showing_warnings_may_fail(monkeypatch, capsys):
    def broken(*arguments, **named):
        raise RuntimeError("no window to show it in")

    with watching(forward=lambda step, values: 1 / 0) as recorder, warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", broken)
        losses = trained(recorder)
    assert losses == trained()
    assert "division by zero" in capsys.readouterr().err


def test_without_a_block_a_refusal_at_the_first_step_is_said_and_nothing_is_watched(
    tmp_path, monkeypatch, capsys
):
    def refused(*_):
        calls.append(1)
        raise UnfaithfulError("what is seen differs")

    calls = []
    monkeypatch.setattr(observer_module, "self_check", refused)
    recorder = watching(tmp_path / "run")
    assert trained(recorder) == trained()
    recorder.finish()
    assert len(calls) == 1
    assert "what is seen differs" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    with pytest.raises(saccade.InputError, match="nothing has been observed"):  # not even in memory
        _ = recorder.record


def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(saccade.InputError, match="cannot write"),
        watching(tmp_path / "file" / "run"),
    ):
        pass


def test_a_folder_that_is_removed_while_training_is_made_again(tmp_path, capsys):
    with watching(tmp_path / "run") as recorder:
        recorder.step(0)
        os.rename(tmp_path / "run", tmp_path / "elsewhere")
        recorder.step(1)
    assert np.isfinite(saccade.load_record(tmp_path / "run").entropy).all()


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Base(BaseException):
    """As of those libraries whose own end no `except Exception` may catch."""


@pytest.mark.parametrize(
    "error",
    [ConnectionError("no answer"), SystemExit(1), Mute(), Base()],
    ids=["fails", "leaves the process", "cannot say why", "no Exception"],
)
def test_a_tracker_that_fails_costs_neither_the_look_nor_the_other_trackers(error, capsys):
    seen = []

    def broken(step, values):
        raise error

    with watching(forward=[broken, lambda step, values: seen.append(step)]) as recorder:
        losses = trained(recorder)
    assert losses == trained()
    assert seen == recorder.record.time.values.tolist() == list(range(STEPS + 1))
    assert capsys.readouterr().err.count("numbers could not be sent on") == 1


class Job:
    """Leaves when it is told to, as jobs of a cluster do."""

    def stop(self, number, frame):
        sys.exit(number)

    __call__ = stop


def raises(number, frame):
    raise Base(number)


@pytest.mark.parametrize(
    "handler",
    [Job().stop, Job(), functools.partial(Job().stop), lambda *call: sys.exit(call[0]), raises],
)
def test_a_signal_handler_of_the_user_may_leave_in_the_middle_of_a_tracker(handler, tmp_path):
    def slow(step, values):
        if step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with (
            pytest.raises((SystemExit, Base)) as left,
            watching(tmp_path / "run", forward=slow) as recorder,
        ):
            trained(recorder)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left.value.args == (signal.SIGTERM,)
    assert saccade.load_record(tmp_path / "run").time.values.tolist() == [0, 1, 2]


def test_losses_after_the_last_look_are_there_however_training_ends(tmp_path):
    def interrupted(out):
        with watching(out, every=[0, 3]) as recorder:
            for step in range(6):
                recorder.step(step, step / 8)
            raise KeyboardInterrupt
        return recorder

    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "run")
    record = saccade.load_record(tmp_path / "run")
    assert record.time.values.tolist() == [0, 3]
    assert record.later_step.values[-1].tolist() == [4, 5]
    found = saccade.load_record(tmp_path / "run").saccade.losses()
    assert dict(zip(found.step.values.tolist(), found.values.tolist(), strict=True)) == {
        step: step / 8 for step in range(6)
    }
    assert len(list((tmp_path / "run" / "observations").glob("*.npz"))) == 2
    with watching(
        tmp_path / "run", every=[0, 3, 7], resume=True
    ) as recorder:  # from a checkpoint of step 5
        for step in (5, 6):
            recorder.step(step, 1 + step / 8)
        assert recorder.record.saccade.losses().step.values.tolist() == [
            0,
            1,
            2,
            3,
            4,
            5,
        ]  # as on disk
        recorder.step(7, 1 + 7 / 8)
    found = saccade.load_record(tmp_path / "run").saccade.losses()
    assert found.step.values.tolist() == list(range(8))
    assert found.values.tolist() == [step / 8 + (step >= 5) for step in range(8)]


def test_losses_of_steps_that_a_run_went_back_before_are_gone(tmp_path):
    with suppress(KeyboardInterrupt), watching(tmp_path / "run", every=[0, 3]) as recorder:
        for step in range(6):
            recorder.step(step, 1.0)
        raise KeyboardInterrupt
    with watching(tmp_path / "run", every=[0, 3, 4], resume=True) as recorder:
        recorder.step(4, 2.0)
    found = saccade.load_record(tmp_path / "run").saccade.losses()
    assert found.step.values.tolist() == [0, 1, 2, 3, 4]
    assert found.values.tolist() == [1.0] * 4 + [2.0]


def test_losses_between_the_last_kept_look_and_a_checkpoint_are_those_of_the_first_part(tmp_path):
    with watching(tmp_path / "run", every=[0, 3, 8]) as recorder:
        for step in range(9):
            recorder.step(step, step / 8)
    with watching(
        tmp_path / "run", every=[0, 3, 9], resume=True
    ) as recorder:  # the look of step 8 gives way
        for step in range(6, 10):
            recorder.step(step, 2.0)
    found = saccade.load_record(tmp_path / "run").saccade.losses()
    assert found.values.tolist() == [step / 8 for step in range(6)] + [2.0] * 4


def test_words_that_cannot_be_decoded_cost_no_look(capsys):
    with watching(decode=lambda ids: 1 // 0) as recorder:
        losses = trained(recorder)
    assert losses == trained()
    assert recorder.record.sizes["time"] == STEPS + 1


def test_the_page_is_named_at_the_start_and_at_the_end_and_what_is_left_out_when_it_is(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("saccade.watching.budget._LEAST_FREE", 0.0)
    monkeypatch.setattr("saccade.watching.budget._MOST_FREE", 0.0)
    page = str(tmp_path / "run" / "report.html")
    with watching(tmp_path / "run", budget=0.0) as recorder:
        assert f"the page will be {page}" in capsys.readouterr().err
        for step in range(5):
            recorder.step(step)
        assert "from step 3 on some observations are skipped" in capsys.readouterr().err
    assert f"page: {page}" in capsys.readouterr().err
    with watching() as recorder:
        assert "nothing is written" in capsys.readouterr().err


def test_a_warning_points_to_the_users_own_line():
    def gone(step, numbers):
        raise RuntimeError("the server is gone")

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with zoo.watching(every=1, budget=None, forward=gone) as recorder:
            recorder.step(0)
            recorder.step(5)
            recorder.step(1)  # back
    assert {Path(warning.filename).name for warning in seen} == {Path(__file__).name}
    assert len(seen) == 2
