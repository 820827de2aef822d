"""The folder of a sweep: whatever happens to its writer or to its lines, what was finished is
there.
"""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import replace

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.records import json_files
from saccade.sweeps.asked import Asked
from saccade.sweeps.axes import Axis
from saccade.sweeps.folder import SweepFolder
from saccade.sweeps.grid import MOST_RUNS, Grid
from saccade.sweeps.outcome_file import FAILED, Outcome
from saccade.sweeps.sweep import missing
from tests.patience import PATIENCE
from tests.sweeps.small_sweeps import (
    assert_refused,
    called,
    computed,
    contents,
    kept,
    manifest_runs,
    one_sentence,
    remounted,
    small_arguments,
    small_disk,
    small_grid,
    started,
)


@pytest.fixture(scope="module")
def grid():
    return small_grid()


@pytest.fixture(scope="module")
def outcomes(grid):
    return computed(grid)


@pytest.fixture
def path(tmp_path, grid, outcomes):
    """A folder with all but the last run."""
    return kept(grid, tmp_path / "sweep", outcomes[:-1]).path


def same_entries(path, outcomes):
    return SweepFolder(path).entries == {outcome.identity: outcome.entry() for outcome in outcomes}


def test_what_is_committed_is_read_again_and_only_the_rest_is_missing(path, grid, outcomes):
    folder = SweepFolder(path)
    assert same_entries(path, outcomes[:-1])
    assert [run.identity for run in missing(grid, folder)] == [outcomes[-1].identity]
    found = {outcome.identity: outcome for outcome in folder.outcomes(folder.entries)}
    for outcome in outcomes[:-1]:
        for name, values in outcome.record[1].items():
            np.testing.assert_array_equal(found[outcome.identity].record[name].values, values)


def test_a_writer_killed_between_file_and_line_has_lost_nothing(path, monkeypatch, outcomes):
    folder = SweepFolder(path)
    with folder.writing():
        monkeypatch.setattr(
            SweepFolder, "_add_line", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            folder.commit(outcomes[-1:])
    monkeypatch.undo()
    assert same_entries(path, outcomes[:-1])
    with SweepFolder(path).writing():
        pass
    assert same_entries(path, outcomes)
    assert len(manifest_runs(path)) == len(outcomes)


def test_a_writer_killed_in_the_middle_of_a_file_leaves_only_a_file_that_the_next_one_removes(
    path, outcomes
):
    (path / "runs" / ".0123.npz.0123456789abcdef.unfinished").write_bytes(b"half")
    (path / ".dataset.zarr.0123456789abcdef.unfinished").mkdir()
    with SweepFolder(path).writing():
        pass
    assert same_entries(path, outcomes[:-1])
    assert not [
        name
        for name in os.listdir(path / "runs") + os.listdir(path)
        if name.endswith(".unfinished")
    ]


@pytest.mark.parametrize("n_left", [1, 30, 200])
def test_half_a_line_is_whole_again_and_what_is_written_after_it_counts(path, outcomes, n_left):
    manifest = path / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    manifest.write_bytes(b"".join(lines[:-1]) + lines[-1][:n_left])
    folder = SweepFolder(path)
    assert len(folder.entries) == len(outcomes) - 2
    with folder.writing():
        folder.commit(outcomes[-1:])
    assert same_entries(path, outcomes)


def test_a_lost_manifest_is_made_again_from_the_files(path, outcomes):
    (path / "manifest.jsonl").unlink()
    assert not SweepFolder(path).entries
    with SweepFolder(path).writing():
        pass
    assert same_entries(path, outcomes[:-1])


def test_a_run_that_failed_before_it_was_finished_stays_finished_when_the_manifest_is_lost(
    tmp_path, grid, outcomes
):
    for trial in range(
        8
    ):  # files are taken up in the order of their names, which are hashes: some come the wrong way round
        failed = Outcome(outcomes[0].identity, FAILED, f"reason {trial}", 0.1)
        path = kept(grid, tmp_path / str(trial), [failed, outcomes[0]]).path
        (path / "manifest.jsonl").unlink()
        with SweepFolder(path).writing():
            pass
        assert same_entries(path, outcomes[:1])


def test_a_bit_flipped_anywhere_in_the_manifest_never_loses_a_run_for_good(path, outcomes):
    whole = (path / "manifest.jsonl").read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 60):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        (path / "manifest.jsonl").write_bytes(bytes(flipped))
        folder = SweepFolder(path)
        assert (
            len(folder.entries) >= len(outcomes) - 3
        )  # a flipped line end costs two lines until the files are taken up again
        folder.damaged()
        with folder.writing():
            assert len(folder.entries) >= len(outcomes) - 2


def test_foreign_files_among_the_runs_are_left_alone(path, outcomes):
    for name in ("a.npz", "notes.txt", "0123456789abcdef0123.npz"):
        (path / "runs" / name).write_bytes(b"mine")
    with SweepFolder(path).writing():
        pass
    assert same_entries(path, outcomes[:-1])
    assert (path / "runs" / "a.npz").read_bytes() == b"mine"


def test_a_second_process_is_told_so_and_changes_nothing(tmp_path, path):
    before = contents(path)
    with SweepFolder(path).writing():
        second = started(*small_arguments(path))
        _, err = second.communicate(timeout=PATIENCE)
    assert (second.returncode, one_sentence(err)) == (2, True), err
    assert "another process is using" in err
    assert contents(path) == before


def test_a_pipe_in_place_of_the_lock_is_neither_waited_for_nor_written_to(path):
    (path / "lock").unlink(missing_ok=True)
    os.mkfifo(path / "lock")
    folder = SweepFolder(path)
    assert not folder.is_being_written()
    with pytest.raises(InputError, match=r"cannot write to .*: it is not a file"), folder.writing():
        pass


def test_another_experiment_needs_another_folder(path):
    Asked.of(Grid.of("first-force", {"steps": [5, 6]})).write(path)
    assert_refused(called(*small_arguments(path)), "holds a sweep of first-force")
    (path / "sweep.json").unlink()
    replace(Asked.of(small_grid()), file="/home/good.py").write(path)
    assert_refused(
        called(*small_arguments(path)), "holds a sweep of quick of /home/good.py; give quick of "
    )


@pytest.mark.parametrize("harm", ["flipped", "lost"])
def test_a_damaged_description_lets_no_other_experiment_take_over_the_folder(path, grid, harm):
    Asked.of(grid).write(path)
    before = contents(path)
    description = before["sweep.json"]
    (path / "sweep.json").write_bytes(
        description[:200] + bytes([description[200] ^ 1]) + description[201:]
    )
    if harm == "lost":
        (path / "sweep.json").unlink()
    code, _, err = called(
        "sweep", "first-force", "--over", "steps=5,6", "--out", path, "--workers", 1
    )
    assert (code, one_sentence(err)) == (2, True), err
    assert "None of the 5 runs there is among those that are asked for now" in err
    unchanged = {file: content for file, content in contents(path).items() if file in before}
    assert unchanged | {"sweep.json": description} == before
    assert called(*small_arguments(path, 3, "--workers", 1))[0] == 0  # its own command goes on
    assert (path / "sweep.json").read_bytes() == description


@pytest.mark.parametrize("name", ["summary.csv", "figure.png", "dataset.zarr"])
def test_a_folder_with_a_file_of_somebody_else_under_a_name_of_ours_is_refused(tmp_path, name):
    (tmp_path / name).write_text("a thesis")
    assert_refused(
        called(*small_arguments(tmp_path, 3, "--workers", 1)),
        f"holds {name}, which Saccade did not write there",
    )
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "a thesis"}


def test_a_sweep_of_as_many_runs_as_there_may_be_can_be_read_back(tmp_path):
    n_runs = 10_000  # the last of them, the longest to write
    values = tuple(((seed,),) for seed in range(MOST_RUNS - n_runs, MOST_RUNS))
    replace(Asked.of(small_grid()), axes=(Axis(("seeds",), values),)).write(tmp_path)
    assert Asked.read(tmp_path).axes[0].values[-1] == ([MOST_RUNS - 1],)
    text, times = (tmp_path / "sweep.json").read_text(), MOST_RUNS / n_runs
    assert times * len(text) < json_files.MOST_BYTES
    assert times * text.count("[[") * 2 < json_files._MOST_PARTS - 1000
    assert times * text.count(",") < json_files._MOST_ITEMS


def test_a_file_in_place_of_the_folder_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        assert_refused(called(*small_arguments(out)))


def test_a_read_only_folder_is_a_sentence_and_can_still_be_read(tmp_path, path, outcomes, grid):
    with small_disk(tmp_path / "disk", "4m") as made:
        if not made:
            pytest.skip("this system does not let a test mount a disk of its own")
        out = tmp_path / "disk" / "sweep"
        shutil.copytree(path, out)
        remounted(tmp_path / "disk", "ro")
        assert_refused(called(*small_arguments(out)), "Read-only file system")
        assert same_entries(out, outcomes[:-1])


def test_no_room_for_a_file_is_a_sentence_and_everything_finished_is_kept(path, outcomes):
    """By a limit on the size of files, which any system has."""
    folder = SweepFolder(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with folder.writing():
        for size in (
            100,
            (path / "manifest.jsonl").stat().st_size + 50,
        ):  # too little for the runs; enough for them, not for the line
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            try:
                with pytest.raises(
                    InputError,
                    match=rf"File too large\. {len(outcomes) - 1} finished runs are safe there",
                ):
                    folder.commit(_larger(outcomes[-1], 10 * size if size == 100 else 0))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert same_entries(path, outcomes[:-1])
        folder.commit(outcomes[-1:])
    assert same_entries(path, outcomes)


def _larger(outcome: Outcome, n_bytes: int) -> list[Outcome]:
    return [
        Outcome(
            outcome.identity,
            outcome.status,
            "x" * n_bytes,
            outcome.seconds,
            outcome.record,
        )
    ]


@pytest.mark.parametrize("moment", ["a file of runs", "its line"])
def test_what_was_being_written_at_ctrl_c_is_written_once(moment, outcomes, tmp_path, monkeypatch):
    real, calls = os.fsync, []

    def interrupted(descriptor):
        calls.append(descriptor)
        if len(calls) == (1 if moment == "a file of runs" else 2):
            raise KeyboardInterrupt
        real(descriptor)

    folder = SweepFolder(tmp_path)
    with folder.writing():
        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            folder.commit(outcomes)
        folder.commit(outcomes)  # as a sweep does, whatever ended it
    with folder.writing():
        assert manifest_runs(tmp_path) == [outcome.identity for outcome in outcomes]


@pytest.mark.parametrize("name", ["record.zarr", "observations", "claims.json"])
def test_a_result_or_a_watched_run_is_no_place_for_a_sweep(tmp_path, name):
    """Its checksums would be replaced by those of the sweep, and damage to it would no longer be
    found.
    """
    (tmp_path / name).mkdir()
    (tmp_path / "checksums.json").write_text(f'{{"figure.svg": "0", "{name}/part": "0"}}')
    before = sorted(os.listdir(tmp_path))
    assert_refused(
        called(*small_arguments(tmp_path, 3, "--workers", 1)),
        f"holds {name}, another result of Saccade",
    )
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    "other",
    [{"lr_decoder=1,2": "lr_decoder=3"}, {"3": "2"}, {"--workers": "--keep=drawn --workers"}],
)
def test_results_of_a_sweep_give_way_only_to_those_that_hold_all_its_runs(tmp_path, other):
    out = tmp_path / "out"
    assert called(*small_arguments(out, 3, "--workers", 1))[0] == 0
    before = contents(out)
    asked = [
        part
        for word in small_arguments(out, 3, "--workers", 1)
        for part in other.get(word, word).split()
    ]
    assert_refused(called(*asked), "holds the results of another sweep")
    assert contents(out) == before
    assert called(*small_arguments(out, 4, "--workers", 1))[0] == 0  # all of it and more
    code, said, err = called(*asked, "--replace")
    assert code == 0, err
    assert "of other settings or code (kept in runs/, not in the dataset)" in said
    assert {file for file in before if file.startswith("runs/")} <= {*contents(out)}
