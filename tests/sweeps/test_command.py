"""`saccade sweep` at the terminal: exit codes, answers for people and for programs, mistakes as
sentences, a plan, a full disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from saccade.cli import main
from saccade.sweeps.command import SWEEP_OPTIONS, VERIFY_OPTIONS
from tests.sweeps.small_sweeps import (
    NAME,
    assert_refused,
    assert_same_dataset,
    called,
    kept,
    manifest_runs,
    one_sentence,
    remounted,
    small_arguments,
    small_disk,
    small_grid,
)

FILES = {
    "sweep.json",
    "manifest.jsonl",
    "runs",
    "lock",
    "dataset.zarr",
    "summary.csv",
    "summary.parquet",
    "figure.svg",
    "figure.png",
    "checksums.json",
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("command") / "sweep"
    code, printed, err = called(*small_arguments(out, 2, "--workers", 1))
    assert (code, err) == (0, "")
    return out, printed


def test_a_sweep_leaves_its_files_and_says_what_came_of_it(swept):
    out, printed = swept
    assert set(os.listdir(out)) == FILES
    assert printed.startswith("4 finished\n")
    assert str(out) in printed


def test_status_says_what_is_there_and_writes_nothing(swept):
    out, _ = swept
    before = {name: (out / name).stat().st_mtime_ns for name in os.listdir(out)}
    code, printed, _ = called("sweep", "--status", out)
    assert (code, printed) == (0, "quick: 4 runs over lr_decoder (2) x seed (2)\n4 finished\n")
    counts = json.loads(called("sweep", "--status", out, "--json")[1])
    said = [counts[name] for name in ("name", "runs", "finished", "missing")]
    assert said == ["quick", 4, 4, 0]
    assert {name: (out / name).stat().st_mtime_ns for name in os.listdir(out)} == before


@pytest.mark.parametrize("place", [0, 100, -1, None])
def test_status_does_not_count_by_a_damaged_or_lost_manifest(swept, tmp_path, place):
    out = shutil.copytree(swept[0], tmp_path / "sweep")
    manifest = bytearray((out / "manifest.jsonl").read_bytes())
    if place is None:
        (out / "manifest.jsonl").unlink()
    else:
        manifest[place] ^= 64
        (out / "manifest.jsonl").write_bytes(manifest)
    said = "are not in its manifest" if place is None else "(1 of its lines)"
    assert_refused(called("sweep", "--status", out), f"{said}, so finished runs are unknown")


def test_a_plan_times_a_sample_and_writes_nothing(tmp_path, swept):
    code, printed, _ = called(*small_arguments(tmp_path / "new", 50, "--plan", "--json"))
    found = json.loads(printed)
    assert (code, found["runs"], found["to_do"]) == (0, 100, 100)
    assert 0 < found["seconds"] < 300
    assert not (tmp_path / "new").exists()
    code, printed, _ = called(*small_arguments(swept[0], 2, "--plan"))
    assert (code, printed[:35]) == (0, "4 runs, 4 finished, 0 to do: about ")
    assert printed.endswith("Nothing was written.\n")


@pytest.mark.parametrize(
    ("command", "options"), [("sweep", SWEEP_OPTIONS), ("check", VERIFY_OPTIONS)]
)
def test_help_names_every_option(command, options, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code in (0, None)
    named = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    expected = {*options, "json", "help"} - {
        "name",
        "folder",
    }  # which are given without their names
    assert named >= {f"--{name.replace('_', '-')}" for name in expected}


def test_a_plan_says_what_the_sweep_would_refuse_and_exits_with_1(tmp_path):
    arguments = [
        "sweep",
        NAME,
        "--over",
        "lr_decoder=1,-1",
        "--out",
        tmp_path / "new",
        "--plan",
    ]
    code, printed, _ = called(*arguments)
    assert code == 1
    assert "`lr_decoder` must be a number above 0, at most 1000; got -1." in printed
    code, printed, err = called(*arguments, "--keep", "nothing")
    assert (code, printed, one_sentence(err)) == (2, "", True)
    assert "`keep` variable 'nothing' is not known" in err
    assert not (tmp_path / "new").exists()


def test_a_deleted_file_of_runs_is_missing_and_the_same_command_runs_them_again(swept, tmp_path):
    out, arguments = tmp_path / "sweep", small_arguments(tmp_path / "sweep", 2, "--workers", 1)
    kept(small_grid(2), out)  # a file for each run
    assert called(*arguments)[0] == 0
    manifest = (out / "manifest.jsonl").read_text().splitlines()
    lost = json.loads(manifest[1])
    (out / "runs" / lost["file"]).unlink()
    assert called("sweep", "--status", out)[1].endswith("\n3 finished, 1 missing\n")
    code, printed, _ = called(*arguments)
    assert (code, printed.startswith("4 finished\n")) == (0, True)
    assert manifest_runs(out) == [run for line in manifest for run in entries(line)] + [
        lost["runs"][0]["run"]
    ]
    assert_same_dataset(out, swept[0])


def entries(line: str) -> list[str]:
    return [entry["run"] for entry in json.loads(line).get("runs", [])]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("no-such-thing",),
        ("first-forse", "--seeds", 3),
        (NAME,),
        (NAME, "--seeds", "many"),
        (NAME, "--seeds", -1),
        (NAME, "--over", "lr_decodr=1,2"),
        (NAME, "--over", "lr_decoder=1..5:log"),
        (NAME, "--setting", "draws=1,2", "--seeds", 2),
        (NAME, "--setting", "draws=x", "--seeds", 2),
        (NAME, "--setting", "draws=1e30", "--seeds", 2),
        (NAME, "--over", "draws=2,1e30"),
        (NAME, "--over", "draws=9223372036854775808"),
        (NAME, "--over", "overlap/draws=0.1/2,x/3"),
        (NAME, "--over", "seed=0,99999999999999999999"),
        (NAME, "--seeds", 2, "--workers", 0),
        (NAME, "--seeds", 2, "--memory", -1),
        (NAME, "--seeds", 2, "--time-limit", 0),
        (NAME, "--seeds", 2, "--sho", "loss"),
        ("--status", "nowhere"),
        ("reparameterisation", "--seeds", 3),
    ],
)
def test_a_mistake_is_one_sentence_with_exit_code_2_and_leaves_nothing(
    arguments, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, printed, err = called("sweep", *arguments)
    assert (code, printed) == (2, "")
    assert err.startswith("saccade: ")
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_a_sentence_and_with_more_room_the_same_command_finishes_the_rest(
    tmp_path, swept, monkeypatch
):
    monkeypatch.setattr(
        "saccade.sweeps.sweep._COMMIT_EVERY", 0.0
    )  # runs may come faster than they would be written otherwise
    with small_disk(tmp_path / "disk", "128k") as made:
        if not made:
            pytest.skip("this system does not let a test mount a disk of its own")
        out = tmp_path / "disk" / "sweep"
        arguments = small_arguments(out, 60, "--workers", 1)
        code, _, err = called(*arguments)
        assert (code, one_sentence(err)) == (2, True), err
        assert "No space left on device" in err
        finished = manifest_runs(out)
        assert len(finished) == len(set(finished)) > 0
        remounted(tmp_path / "disk", "size=32m")
        code, _, err = called(*arguments)
        assert code == 0, err
        assert manifest_runs(out)[: len(finished)] == finished
        assert len(manifest_runs(out)) == len(set(manifest_runs(out))) == 120
        assert called(*small_arguments(tmp_path / "roomy", 60))[0] == 0
        assert_same_dataset(out, tmp_path / "roomy")
