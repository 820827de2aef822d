"""`saccade verify`: damage of every kind is found, and repaired to the same bits by running just that again."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
import xarray as xr

from saccade import load_record
from saccade.experiments import experiment
from saccade.experiments.reproduce import reproduce
from saccade.sweeps.grid import Grid
from saccade.sweeps.sweep import sweep
from tests.sweeps.small_sweeps import assert_same_dataset, called, kept, manifest_runs, one_sentence, small_arguments, small_grid

TOGETHER = "syn-small-attention"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Ten runs in five files of their own and one of five: the first six by hand, the rest by the command."""
    path = tmp_path_factory.mktemp("repair") / "whole"
    kept(small_grid(3), path)
    assert called(*small_arguments(path, 5, "--workers", 1))[0] == 0
    assert called("verify", path)[0] == 0
    return path


def damaged_copy(whole, path):
    """A flipped bit, a truncated file and a lost one; the runs that were in them."""
    shutil.copytree(whole, path)
    lines = [json.loads(line) for line in (path / "manifest.jsonl").read_text().splitlines()]
    flipped, truncated, lost = (path / "runs" / line["file"] for line in lines[:3])
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 4
    flipped.write_bytes(bytes(content))
    truncated.write_bytes(truncated.read_bytes()[:-100])
    lost.unlink()
    return {entry["run"] for line in lines[:3] for entry in line["runs"]}, {f"runs/{line['file']}" for line in lines[:3]}


def test_damage_is_listed_and_repair_runs_just_that_again_to_the_same_bits(whole, tmp_path):
    path = tmp_path / "damaged"
    runs, files = damaged_copy(whole, path)
    code, printed, _ = called("verify", path, "--json")
    found = json.loads(printed)
    assert (code, set(found["damaged"]), set(found["runs"])) == (1, files, runs)
    code, printed, _ = called("verify", path)
    assert code == 1
    assert all(f"damaged: {path / file}" in printed for file in files)
    before = Counter(manifest_runs(path))
    code, printed, _ = called("verify", path, "--repair", "--workers", 1)
    assert (code, "have been run again" in printed) == (0, True)
    assert Counter(manifest_runs(path)) - before == Counter(runs)
    assert_same_dataset(path, whole)
    assert called("verify", path)[0] == 0
    assert len(list((path / "runs").glob("*.damaged"))) == 2  # kept, for whoever wants to look


def test_a_sweep_does_not_go_on_over_damage(whole, tmp_path):
    damaged_copy(whole, tmp_path / "damaged")
    code, _, err = called(*small_arguments(tmp_path / "damaged", 5))
    assert (code, one_sentence(err), f"saccade verify {tmp_path / 'damaged'} --repair" in err) == (2, True, True)


def test_runs_computed_together_are_repaired_together_to_the_same_bits(tmp_path):
    config = experiment(TOGETHER).settings(batch=2, context=7)
    sweep(TOGETHER, {"lr_attention": [0.5, 1.0]}, seeds=3, out=tmp_path / "whole", config=config, workers=1)
    shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
    (file,) = (tmp_path / "damaged" / "runs").glob("*.npz")
    file.write_bytes(file.read_bytes()[:-1])
    assert called("verify", tmp_path / "damaged", "--repair", "--workers", 1)[0] == 0
    assert_same_dataset(tmp_path / "damaged", tmp_path / "whole")


def test_a_damaged_dataset_is_found_and_made_again_without_a_run(whole, tmp_path):
    path = tmp_path / "damaged"
    shutil.copytree(whole, path)
    chunk = next(file for file in sorted((path / "dataset.zarr").rglob("0*")) if file.is_file())
    chunk.write_bytes(b"nonsense")
    code, printed, _ = called("verify", path)
    assert (code, "dataset.zarr" in printed) == (1, True)
    before = manifest_runs(path)
    assert called("verify", path, "--repair")[0] == 0
    assert manifest_runs(path) == before
    assert_same_dataset(path, whole)


def test_damaged_runs_of_other_code_are_set_aside_with_a_sentence(whole, tmp_path, monkeypatch):
    path = tmp_path / "damaged"
    damaged_copy(whole, path)
    monkeypatch.setattr(Grid, "code", "another version")
    code, printed, _ = called("sweep", "--status", path, "--json")
    counts = json.loads(printed)
    assert (counts["finished"], counts["missing"], counts["of other settings or code"]) == (0, 10, 10)
    code, _, err = called("verify", path, "--repair")
    assert (code, one_sentence(err)) == (2, True)
    assert "3 damaged runs belong to an earlier sweep" in err


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": "x"}', '{"name": "decoder-dynamics", "config": {"a": 1}}', "3"])
def test_a_damaged_description_is_a_sentence(whole, tmp_path, text):
    path = tmp_path / "damaged"
    path.mkdir()
    (path / "sweep.json").write_text(text)
    for arguments in (("sweep", "--status", path), ("verify", path, "--repair")):
        code, _, err = called(*arguments)
        assert (code, one_sentence(err)) == (2, True), err


def test_a_folder_without_anything_is_a_sentence(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        code, _, err = called("verify", path)
        assert (code, one_sentence(err)) == (2, True), err


def test_a_manifest_that_names_another_run_is_found_and_put_right_without_a_run(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "sweep")
    manifest = tmp_path / "sweep" / "manifest.jsonl"
    run = manifest_runs(tmp_path / "sweep")[0]
    other = ("1" if run[0] == "0" else "0") + run[1:]
    manifest.write_text(manifest.read_text().replace(f'"run":"{run}"', f'"run":"{other}"'))
    code, printed, _ = called("verify", tmp_path / "sweep")
    assert code == 1
    assert "the manifest does not say what is in it" in printed
    assert called("verify", tmp_path / "sweep", "--repair")[0] == 0
    assert called("verify", tmp_path / "sweep")[0] == 0
    assert_same_dataset(whole, tmp_path / "sweep")


TEXT = {"text": "sotu", "n_vocab": 97, "batch": 3, "context": 11, "n_windows": 5}
SMALL_RECORDS = {
    "depth": TEXT | {"layers": (1, 2), "d_model": 8, "d_mlp": 5, "steps": 8, "seeds": 1},
    "sparse-then-dense": TEXT | {"layers": (1,), "rates": (1e-3,), "steps": 8, "n_looks": 8},
    "wikitext-attention": TEXT | {"layers": (1,), "iterations": (0, 3), "every": 2},
    "wikitext-entropy": {**TEXT, "texts": ("sotu",), "rates": (1.0, 3.0), "seeds": 1, "steps": 5, "n_looks": 2},
    "growth-figures": {},
}


@pytest.mark.parametrize("name", SMALL_RECORDS)
def test_a_damaged_record_of_any_kind_of_experiment_is_run_again_to_the_same_bits(name, tmp_path, monkeypatch):
    if SMALL_RECORDS[name]:
        pytest.importorskip("torch")
        pytest.importorskip("tokenizers")
        monkeypatch.setattr("saccade.processes.cores", lambda: 1)  # processes would take longer than the runs
    kind = experiment(name).settings
    settings = {key: value for key, value in SMALL_RECORDS[name].items() if key in kind.__dataclass_fields__}
    done = reproduce(name, tmp_path, kind(**settings))
    file = next(path for path in sorted((done.folder / "record.zarr").rglob("0*")) if path.is_file())
    file.unlink()
    assert called("verify", tmp_path)[0] == 1
    code, printed, _ = called("verify", tmp_path, "--repair")
    assert (code, "it has been run again" in printed) == (0, True), printed
    again = load_record(done.folder / "record.zarr")
    assert again.attrs["settings"] == done.record.attrs["settings"]
    xr.testing.assert_equal(again.drop_vars("seconds", errors="ignore"), done.record.drop_vars("seconds", errors="ignore"))
