"""Looks that are written are read again when they are wanted: memory holds none of them, and damage
to them is found.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import xarray as xr

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from saccade.cli import main  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from saccade.records import expansion, observation_log, writing  # noqa: E402
from saccade.records.json_files import read_sealed, write_sealed  # noqa: E402
from saccade.records.observation_log import ObservationLog, watched  # noqa: E402
from saccade.records.store import damaged_records  # noqa: E402
from saccade.records.writing import make_folder, remove_folder  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402


def test_looks_that_are_on_disk_are_not_held_in_memory_and_large_arrays_of_the_record_lie_on_disk(
    tmp_path, monkeypatch
):
    model = zoo.HandWritten("fused")
    found = {}
    for name, out in (("memory", None), ("disk", tmp_path / "run")):
        with saccade.watch(model, zoo.ids(), every=1, budget=None, out=out) as recorder:
            for step in range(3):
                recorder.step(step)
        found[name] = recorder
    assert all(isinstance(look, Path) for look in found["disk"]._log.observations.values())
    monkeypatch.setattr(observation_log, "_LARGE", 1)
    large = found["disk"].record
    assert isinstance(large.attention_map.data.base, np.memmap) or isinstance(
        large.attention_map.data, np.memmap
    )
    same = [name for name in large.data_vars if name != "look_seconds"]
    xr.testing.assert_equal(large[same], found["memory"].record[same])
    monkeypatch.setattr(
        observation_log.os,
        "posix_fallocate",
        mock.Mock(side_effect=OSError(28, "No space left on device")),
    )
    xr.testing.assert_equal(found["disk"].record[same], large[same])  # in memory then


def watched_run(folder: Path) -> Path:
    with zoo.watching(every=1, budget=None, out=folder) as recorder:
        for step in range(3):
            recorder.step(step)
    return folder


def about_of() -> dict[str, Any]:
    definitions = {"loss": ["nats", "loss"], "time": ["", "step"]}
    return {
        "config": {},
        "axes": {"loss": []},
        "coords": {},
        "definitions": definitions,
        "wall_time_s": 0.0,
    }


def harmed(path: Path, harm: str) -> None:
    content = path.read_bytes()
    path.unlink()
    if harm == "flipped":
        place = len(content) // 2
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])


@pytest.mark.parametrize("harm", ["flipped", "lost"])
def test_damage_to_any_file_of_a_watched_run_is_found(tmp_path, harm):
    folder = watched_run(tmp_path / "run")
    assert damaged_records(tmp_path) == ({}, 1)
    for path in sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name != "report.html"
    ):
        content = path.read_bytes()
        harmed(path, harm)
        assert list(damaged_records(tmp_path)[0]) == [str(folder)], path
        path.write_bytes(content)
    assert damaged_records(tmp_path) == ({}, 1)


def test_any_bit_of_an_archive_s_directory_that_flips_is_a_sentence(tmp_path):
    """Some ask for another version, for a password or for a way of packing that there is not, and
    each is another error.
    """
    log = ObservationLog(tmp_path / "run", about_of())
    log.append(0, {"loss": np.asarray(1.0)})
    log.save()
    (file,) = (tmp_path / "run" / "observations").glob("*.npz")
    content = file.read_bytes()
    for place in range(content.index(b"PK\1\2"), len(content)):
        for bit in range(8):
            file.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
            )
            with pytest.raises(InputError, match=r"is damaged|was refused"):
                watched(tmp_path / "run")


def test_of_two_runs_that_find_a_folder_empty_the_second_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    first, second = (ObservationLog(tmp_path / "out", about_of()) for _ in range(2))
    first.append(0, {"loss": np.asarray(1.0)})
    second.append(0, {"loss": np.asarray(2.0)})
    first.save()
    for _ in range(2):
        with pytest.raises(InputError, match="out is not empty"):
            second.save()
    first.append(1, {"loss": np.asarray(3.0)})
    first.save(ended=True)
    assert watched(tmp_path / "out").loss.values.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("make", [Path.touch, os.mkfifo])
def test_what_is_no_folder_is_refused_before_training_begins(tmp_path, make, resume):
    make(tmp_path / "out")
    with pytest.raises(InputError, match="out is a file; `out` must be a new folder"):
        zoo.watching(out=tmp_path / "out", resume=resume)


def test_a_folder_that_nothing_could_be_written_to_is_left_empty(tmp_path, monkeypatch):
    log = ObservationLog(tmp_path / "out", about_of())
    real = writing._new_file
    monkeypatch.setattr(writing, "_new_file", lambda path: os.open("/nowhere/at/all", os.O_RDONLY))
    with pytest.raises(InputError, match="cannot write"):
        log.save()
    assert os.listdir(tmp_path / "out") == []
    monkeypatch.setattr(writing, "_new_file", real)
    log.save()
    assert os.listdir(tmp_path / "out") == ["observations"]


def test_a_watched_run_that_was_killed_is_whole_and_damage_to_it_is_found(tmp_path):
    folder = watched_run(tmp_path / "run")
    about = read_sealed(folder / "observations" / "about.json")
    for path in folder.iterdir():  # all that is written when the run ends
        if path.name != "observations":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert damaged_records(tmp_path) == ({str(folder): "checksums.json is lost"}, 1)
    write_sealed(
        folder / "observations" / "about.json",
        about | {"ended": False, "observations": about["observations"][:-1]},
    )
    assert damaged_records(tmp_path) == ({}, 1)
    assert saccade.load_record(folder).time.values.tolist() == [
        0,
        1,
        2,
    ]  # also what was finished after the list was written
    first = folder / "observations" / about["observations"][0]
    harmed(first, "flipped")
    with pytest.raises(saccade.InputError, match=f"{first.name} is damaged"):
        saccade.load_record(folder)
    first.unlink()
    with pytest.raises(saccade.InputError, match=f"{first.name} is lost"):
        saccade.load_record(folder)
    assert damaged_records(tmp_path) == ({str(folder): f"observations/{first.name} is lost"}, 1)
    rest = saccade.load_record(folder, whole=False)
    assert rest.time.values.tolist() == [1, 2]
    assert json.loads(rest.attrs["config"])["left_out"] == [first.name]


def test_a_killed_run_that_has_lost_its_description_is_damage(tmp_path, capsys):
    folder = watched_run(tmp_path / "run")
    for path in folder.iterdir():
        if path.name != "observations":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / "observations" / "about.json").unlink()
    wrong, n_found = damaged_records(tmp_path)
    assert ([*wrong], n_found) == ([str(folder)], 1)
    assert main(["check", str(folder)]) == 1
    assert "about.json" in capsys.readouterr().out


def test_folders_that_lie_deep_are_searched(tmp_path):
    make_folder(
        tmp_path / "run" / Path(*"a" * 1100)
    )  # Python's own makedirs, rmtree and rglob cannot go so deep
    assert damaged_records(tmp_path) == ({}, 0)
    assert main(["check", str(tmp_path)]) == 2
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2
    remove_folder(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_verify_says_what_there_is_of_a_run_that_was_killed(tmp_path, capsys):
    recorder = zoo.watching(every=1, budget=None, out=tmp_path / "run").__enter__()
    assert main(["check", str(tmp_path)]) == 0
    assert "no observation yet" in capsys.readouterr().out
    for step in range(3):
        recorder.step(step)  # and no more: as if killed
    for folder in (tmp_path, tmp_path / "run"):
        assert main(["check", str(folder)]) == 0
        said = capsys.readouterr().out
        assert (
            "a watched run that is still running or was killed: 3 observations, from step 0 to 2"
            in said
        )
        assert "1 of 1 records are intact" in said
    assert main(["check", str(tmp_path), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["unfinished"]) == [str(tmp_path / "run")]
    harmed(next((tmp_path / "run" / "observations").glob("*1.*.npz")), "flipped")
    assert main(["check", str(tmp_path), "--repair"]) == 1
    said = capsys.readouterr().out
    assert (
        "training cannot be run again; `saccade.load_record(folder, whole=False)` reads what is whole"
        in said
    )
    assert "unfinished" not in said
    assert saccade.load_record(tmp_path / "run", whole=False).time.values.tolist() == [0, 2]


@pytest.mark.parametrize(
    "changed",
    [{"axes": 3}, {"coords": {"layer": ["layer"]}}, {"definitions": {}}, {"observations": [7]}],
)
def test_what_does_not_describe_observations_is_refused_in_a_sentence(tmp_path, changed):
    folder = watched_run(tmp_path / "run")
    place = folder / "observations" / "about.json"
    write_sealed(place, read_sealed(place) | changed)
    with pytest.raises(
        saccade.InputError,
        match=r"is not the folder of a watched run|does not describe its observations",
    ):
        saccade.load_record(folder, whole=False)


def test_an_observation_that_would_unpack_to_far_more_is_refused_also_where_nobody_asks_for_it(
    tmp_path, monkeypatch
):
    log = ObservationLog(tmp_path, about_of())
    log.append(0, {"loss": np.ones(())})
    log.save()
    (file,) = (tmp_path / "observations").glob("*.npz")
    packed = io.BytesIO()
    np.savez_compressed(
        packed, loss=np.ones(()), stranger=np.zeros(10**5)
    )  # what no axis is given for is not in the record
    file.unlink()
    name = f"000000000000.{hashlib.sha256(packed.getvalue()).hexdigest()[:16]}.npz"
    (tmp_path / "observations" / name).write_bytes(packed.getvalue())
    about = read_sealed(tmp_path / "observations" / "about.json")
    write_sealed(tmp_path / "observations" / "about.json", about | {"observations": [name]})
    assert watched(tmp_path).loss.values.tolist() == [1]
    monkeypatch.setattr(expansion, "_ANY", 1000)
    with pytest.raises(InputError, match="but would take 800,"):
        watched(tmp_path)
