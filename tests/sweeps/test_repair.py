"""`saccade check`: damage of every kind is found, and repaired to the same bits by running just
that again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import saccade
from saccade import identity
from saccade.experiments.reproduce import reproduce
from saccade.records.checksums import seal, sealed_folder
from saccade.records.json_files import write_json
from saccade.records.store import result_folder
from saccade.records.writing import whole_file
from saccade.sweeps import repair as repair_module
from saccade.sweeps.folder import SweepFolder, _written
from tests.sweeps.small_sweeps import (
    NAME,
    assert_refused,
    assert_same_dataset,
    called,
    contents,
    kept,
    manifest_runs,
    repaired,
    small_arguments,
    small_config,
    small_grid,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Ten runs in five files of their own and one of five: the first six by hand, the rest by the
    command.
    """
    path = tmp_path_factory.mktemp("repair") / "whole"
    kept(small_grid(3), path)
    assert called(*small_arguments(path, 5, "--workers", 1))[0] == 0
    assert called("check", path)[0] == 0
    return path


@pytest.fixture
def path(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "sweep")


def damaged_copy(whole, path):
    """A flipped bit, a truncated file and a lost one; the runs that were in them."""
    shutil.copytree(whole, path)
    lines = [json.loads(line) for line in (path / "manifest.jsonl").read_text().splitlines()]
    changed, truncated, lost = (path / "runs" / line["file"] for line in lines[:3])
    flipped(changed)
    truncated.write_bytes(truncated.read_bytes()[:-100])
    lost.unlink()
    return {entry["run"] for line in lines[:3] for entry in line["runs"]}, {
        f"runs/{line['file']}" for line in lines[:3]
    }


def test_damage_is_listed_and_repair_runs_just_that_again_to_the_same_bits(whole, tmp_path):
    path = tmp_path / "damaged"
    runs, files = damaged_copy(whole, path)
    code, printed, _ = called("check", path, "--json")
    found = json.loads(printed)
    assert (code, set(found["damaged"]), set(found["runs"])) == (1, files, runs)
    code, printed, _ = called("check", path)
    assert code == 1
    assert all(f"damaged: {path / file}" in printed for file in files)
    before = Counter(manifest_runs(path))
    code, printed, _ = repaired(path)
    assert (code, "it has been repaired" in printed) == (0, True)
    assert Counter(manifest_runs(path)) - before == Counter(runs)
    assert_same_dataset(path, whole)
    assert called("check", path)[0] == 0
    assert len(list((path / "runs").glob("*.damaged"))) == 2  # kept, for whoever wants to look


def test_a_sweep_does_not_go_on_over_damage(whole, tmp_path):
    damaged_copy(whole, tmp_path / "damaged")
    path = tmp_path / "damaged"
    assert_refused(called(*small_arguments(path, 5)), f"saccade check {path} --repair")


def copy_with_damaged_dataset(whole, path):
    shutil.copytree(whole, path)
    chunk = next(file for file in sorted((path / "dataset.zarr").rglob("0*")) if file.is_file())
    chunk.write_bytes(b"nonsense")


@pytest.fixture
def upgraded():
    """Another version of the libraries, in this process."""

    def upgrade():
        patch.setattr(identity, "library_version", lambda name: "another")
        identity._saccade.cache_clear()

    with pytest.MonkeyPatch.context() as patch:
        yield upgrade
    identity._saccade.cache_clear()


def flipped(path, place=None):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 4
    path.write_bytes(bytes(content))


def test_after_an_upgrade_nothing_is_repaired_and_nothing_is_lost(whole, tmp_path, upgraded):
    upgraded()
    for name, damage in {"runs": damaged_copy, "dataset": copy_with_damaged_dataset}.items():
        path = tmp_path / name
        damage(whole, path)
        before = contents(path)
        counts = json.loads(called("sweep", "--status", path, "--json")[1])
        assert (counts["missing"], counts["of other settings or code"]) == (10, 10)
        assert_refused(repaired(path), "has changed (jax: ")
        assert contents(path) == before


def test_what_is_whole_needs_no_repair_whatever_the_code(whole, tmp_path, upgraded):
    shutil.copytree(whole, tmp_path / "sweep")
    upgraded()
    assert repaired(tmp_path / "sweep")[0] == 0


def test_a_bit_flipped_anywhere_in_the_description_is_found_and_nothing_is_written_over(
    whole, tmp_path
):
    path = tmp_path / "sweep"
    copy_with_damaged_dataset(whole, path)
    described = (path / "sweep.json").read_bytes()
    before = contents(path)
    for place in range(0, len(described), 29):
        (path / "sweep.json").write_bytes(described)
        flipped(path / "sweep.json", place)
        damaged = contents(path)
        assert f"damaged: {path / 'sweep.json'}" in called("check", path)[1]
        code, _, err = repaired(path)
        assert (code, err.count("\n"), "Give the whole `saccade sweep` command again" in err) == (
            2,
            1,
            True,
        ), err
        assert contents(path) == damaged
    assert called(*small_arguments(path, 5))[0] == 0  # as the sentence says
    assert contents(path)["sweep.json"] == before["sweep.json"]
    assert_same_dataset(path, whole)


def test_without_its_description_a_sweep_is_damaged(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "in" / "sweep")
    (tmp_path / "in" / "sweep" / "sweep.json").unlink()
    for path in (tmp_path / "in", tmp_path / "in" / "sweep"):
        code, printed, _ = called("check", path)
        assert (code, "sweep.json is lost" in printed) == (1, True)


def test_missing_runs_are_not_whole_and_repair_runs_them(path, whole):
    (path / "manifest.jsonl").unlink()
    sorted((path / "runs").iterdir())[0].unlink()
    code, printed, _ = called("check", path, "--json")
    assert (code, len(json.loads(printed)["missing"])) == (
        1,
        10,
    )  # none is known to be whole before files are taken up
    with SweepFolder(path).writing():
        pass
    code, printed, _ = called("check", path)
    assert (code, "runs are missing" in printed) == (1, True)
    assert repaired(path)[0] == 0
    assert_same_dataset(path, whole)
    assert called("check", path)[0] == 0


def test_a_run_that_does_not_finish_again_leaves_the_dataset_as_it_was(whole, tmp_path):
    path = tmp_path / "damaged"
    damaged_copy(whole, path)
    before = contents(path / "dataset.zarr")
    for _ in range(2):
        refused = repaired(path, "--time-limit", "1e-9")
        assert_refused(refused, "3 runs did not finish (took more than 1e-09 s)")
        assert contents(path / "dataset.zarr") == before
        assert called("check", path)[0] == 1
    assert repaired(path)[0] == 0
    assert_same_dataset(path, whole)


@pytest.mark.parametrize(
    "file",
    [
        "summary.csv",
        "summary.parquet",
        "figure.svg",
        "figure.png",
        "dataset.zarr/checksums.json",
        "dataset.zarr/drawn/0.0.0",
    ],
)
@pytest.mark.parametrize("kind", ["flipped", "lost"])
def test_damaged_results_are_found_and_written_again_without_a_run(path, file, kind, whole):
    flipped(path / file) if kind == "flipped" else (path / file).unlink()
    assert called("check", path)[0] == 1
    assert repaired(path)[0] == 0
    shutil.rmtree(
        path / "dataset.zarr.damaged", ignore_errors=True
    )  # what can no longer be told to be ours is kept
    assert contents(path) == contents(whole)


def test_a_bit_flipped_anywhere_is_found(path):
    rng = np.random.default_rng(0)
    for file, content in contents(path).items():
        for place in {0, len(content) - 1, *rng.integers(0, len(content), 3)} if content else ():
            flipped(path / file, int(place))
            assert called("check", path)[0] == 1, (file, place)
            (path / file).write_bytes(content)
    assert called("check", path)[0] == 0


@pytest.mark.parametrize(
    "name",
    [
        "../../victim/thesis.npz",
        "/tmp/thesis.npz",
        "..",
        "0123456789abcdef0123.npz/../../x.npz",
        3,
        None,
    ],
)
def test_a_manifest_leads_to_no_file_outside_its_folder(whole, tmp_path, name):
    path = tmp_path / "in" / "sweep"
    shutil.copytree(whole, path)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "thesis.npz").write_text("a thesis")
    before = contents(tmp_path)
    for line in ({"file": name, "sha256": "0" * 64, "runs": []}, {"file": name, "lost": True}):
        with (path / "manifest.jsonl").open("a") as manifest:
            manifest.write(_written(line))
    code, printed, _ = called("check", path)
    assert (code, "2 of its lines cannot be read" in printed) == (1, True)
    assert repaired(path)[0] == 0
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["manifest.jsonl", "lock", "sweep.json", "summary.csv"])
def test_nothing_is_written_through_a_link_in_the_folder(whole, tmp_path, name):
    path, victim = tmp_path / "sweep", tmp_path / "thesis.tex"
    shutil.copytree(whole, path)
    victim.write_text("a thesis")
    (path / name).unlink()
    (path / name).symlink_to(victim)
    for arguments in (
        small_arguments(path, 6, "--workers", 1),
        ("check", path, "--repair", "--file", NAME),
    ):
        assert_refused(called(*arguments))
        assert victim.read_text() == "a thesis"


def test_drafts_of_living_and_of_killed_writers_are_no_damage(path, whole, tmp_path):
    for folder in (path, path / "runs", tmp_path):
        (folder / f".dataset.zarr.{'a' * 16}.unfinished").mkdir()
        (folder / f".dataset.zarr.{'a' * 16}.unfinished" / "sweep.json").write_text("{")
        (folder / f".{'0' * 20}.npz.{'b' * 16}.unfinished").write_bytes(b"half")
    with whole_file(path / "summary.csv"), sealed_folder(path / "dataset.zarr") as draft:
        shutil.copytree(whole / "dataset.zarr", draft, dirs_exist_ok=True)
        shutil.copy(whole / "summary.csv", path)
        assert called("check", path)[0] == 0
        assert called("check", tmp_path)[0] == 0


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"name": "x"}', '{"name": "quick", "config": {"a": 1}}', "3"],
)
def test_a_damaged_description_is_a_sentence(whole, tmp_path, text):
    path = tmp_path / "damaged"
    path.mkdir()
    (path / "sweep.json").write_text(text)
    for arguments in (("sweep", "--status", path), ("check", path, "--repair", "--file", NAME)):
        assert_refused(called(*arguments))


def test_beside_a_process_that_writes_verify_finds_no_damage_in_what_is_under_way(path):
    with SweepFolder(path).writing():
        for file in (path / "runs").iterdir():
            shutil.copy(file, path / "runs" / f"{'0' * 20}.npz")  # it has no line yet
        (path / "summary.csv").write_text("half of the results are new")
        code, out, _ = called("check", path)
        assert (code, "damaged" in out) == (1, False)
        assert "a sweep is running there" in out
        assert json.loads(called("check", path, "--json")[1])["damaged"] == {}
    code, out, _ = called("check", path)
    assert (code, "running there" in out) == (1, False)
    assert "summary.csv" in out


def test_what_changes_while_it_is_verified_is_looked_at_again(path, monkeypatch):
    summary = (path / "summary.csv").read_bytes()
    (path / "summary.csv").write_text("half of the results are new")
    look = repair_module._damage

    def and_the_writer_ends(folder):
        found = look(folder)
        (path / "summary.csv").write_bytes(summary)
        os.utime(path / "checksums.json")
        monkeypatch.setattr(repair_module, "_damage", look)
        return found

    monkeypatch.setattr(repair_module, "_damage", and_the_writer_ends)
    assert called("check", path)[0] == 0


def test_a_dataset_without_its_checksums_is_kept_and_made_again(path, whole):
    (path / "dataset.zarr" / "checksums.json").unlink()
    (path / "dataset.zarr" / "thesis.tex").write_text("a thesis")
    assert repaired(path)[0] == 0
    assert (path / "dataset.zarr.damaged" / "thesis.tex").read_text() == "a thesis"
    assert_same_dataset(path, whole)


def test_runs_are_not_written_through_a_link(path, tmp_path):
    (path / "runs").rename(tmp_path / "elsewhere")
    (path / "runs").symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path / "elsewhere")
    assert_refused(called(*small_arguments(path, 4, "--workers", 1)))
    assert contents(tmp_path / "elsewhere") == before


def test_a_pipe_in_place_of_a_file_of_runs_is_set_aside(path, whole):
    file = next((path / "runs").iterdir())
    file.unlink()
    os.mkfifo(file)
    assert called("check", path)[0] == 1
    assert repaired(path)[0] == 0
    assert_same_dataset(path, whole)


def test_a_folder_without_anything_is_a_sentence(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        assert_refused(called("check", path))


def test_a_result_whose_settings_are_damaged_is_not_run_again_with_others(tmp_path):
    folder = reproduce(NAME, tmp_path).folder
    about = (folder / "about.json").read_text()
    assert r"\"draws\": 3" in about
    (folder / "about.json").write_text(about.replace(r"\"draws\": 3", r"\"draws\": 4"))
    before = contents(folder)
    code, printed, _ = repaired(tmp_path)
    assert (
        code,
        "its settings cannot be trusted, since about.json is not what was written" in printed,
    ) == (1, True)
    assert contents(folder) == before
    (folder / "checksums.json").unlink()
    code, printed, _ = repaired(tmp_path)
    assert (code, "since checksums.json is lost" in printed) == (1, True)


ROOT = Path(__file__).parents[2]
_IN_A_COPY = """
import sys
from pathlib import Path
import saccade
from saccade.cli import main

root, (file, old, new) = Path(saccade.__file__).parent, sys.argv[1:4]
assert str(root) == str(Path("saccade").resolve()) and old in (root / file).read_text()
(root / file).write_text((root / file).read_text().replace(old, new))
sys.exit(main(sys.argv[4:]))
"""


def test_a_result_of_other_code_is_not_replaced_by_other_numbers(tmp_path):
    folder = reproduce(NAME, tmp_path / "results").folder
    flipped(folder / "figure.png")
    before = contents(folder)
    package = Path(saccade.__file__).parent
    ignored = shutil.ignore_patterns("*.pyc.*")  # which others are writing
    shutil.copytree(package, tmp_path / "saccade", ignore=ignored)
    edit = ("theories/scan_and_snap/early_attention.py", "\ndef ", "\nANOTHER = 1.01\n\n\ndef ")
    ended = subprocess.run(
        [sys.executable, "-c", _IN_A_COPY, *edit, "check", "results", "--repair", "--file", NAME],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended
    assert "what its numbers depend on has changed" in ended.stdout
    assert contents(folder) == before


@pytest.mark.parametrize("change", ["libraries", "older", "text"])
def test_a_result_of_other_libraries_or_texts_or_of_unknown_code_is_left_as_it_is(
    change, tmp_path, upgraded
):
    table = tmp_path / "mine.csv"
    table.write_text("class,a,b,c\nx,0.5,0,0.5\ny,0,0.6,0.4\n")
    folder = reproduce(NAME, tmp_path / "results", small_config(classes=str(table))).folder
    if change == "libraries":
        upgraded()
    elif change == "text":
        table.write_text("class,a,b,c\nx,0.4,0,0.6\ny,0,0.6,0.4\n")
    else:
        about = json.loads((folder / "about.json").read_text())
        write_json(
            folder / "about.json",
            {key: value for key, value in about.items() if key != "computation"},
        )
        seal(folder)
    flipped(folder / "figure.png")
    before = contents(folder)
    code, printed, _ = repaired(tmp_path / "results")
    assert (
        code,
        "what its numbers depend on has changed" in printed,
        "0 of 1 records" in printed,
    ) == (
        1,
        True,
        True,
    ), printed
    assert contents(folder) == before


@pytest.mark.parametrize("place", ["inner", "runs/inner", "dataset.zarr/inner"])
@pytest.mark.parametrize("kind", ["sweep", "result"])
def test_what_lies_in_the_folder_of_a_sweep_is_verified_too(whole, tmp_path, place, kind):
    shutil.copytree(whole, tmp_path / "sweep")
    inner = tmp_path / "sweep" / place
    if kind == "sweep":
        shutil.copytree(whole, inner)
    else:
        with result_folder(inner, small_config()) as folder:
            write_json(folder / "about.json", {})
    assert called("check", tmp_path / "sweep")[0] == 0
    harmed = inner / ("summary.csv" if kind == "sweep" else "about.json")
    harmed.write_bytes(harmed.read_bytes() + b" ")
    for asked in (tmp_path / "sweep", inner):
        code, out, _ = called("check", asked)
        assert code == 1
        assert str(inner) in out
