"""Records come back from disk bit for bit, and whatever interrupts their writing, what was there
before stays whole.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numcodecs import Blosc, Zlib

import saccade
from saccade import InputError, SequenceClasses, flow, load_record, reduced_flow, save_record, train
from saccade.cli import main
from saccade.identity import user_files
from saccade.lab import Case
from saccade.models import Pairwise
from saccade.records import checksums, expansion, store, writing
from saccade.records.checksums import damage, damaged_files, file_hash, seal, stranger
from saccade.records.json_files import write_json
from saccade.records.schema import make_record, with_settings
from saccade.report import write_report
from saccade.report.sources import results_of
from saccade.theories.scan_and_snap.statements import THEOREM_2B
from tests.patience import PATIENCE

PROB = [[0.5, 0.5, 0, 0, 0], [0.25, 0, 0.75, 0, 0], [0.125, 0, 0, 0.375, 0.5]]


@pytest.fixture(scope="module")
def trained() -> xr.Dataset:
    """Two pairs of rates, one of which diverges, so that the record has missing values too."""
    return train(
        SequenceClasses(PROB, query=[5, 6, 5], name="three"),
        steps=7,
        lr_decoder=[1.0, 1e7],
        lr_attention=[0.5, 1e7],
        batch=3,
        context=11,
        seeds=[2, 13],
        save="linear",
        keep=("attention", "attention_logits", "decoder"),
    )


@pytest.fixture(scope="module")
def flows() -> list[xr.Dataset]:
    task = SequenceClasses(PROB)
    keep = ("attention", "attention_logits", "decoder")
    return [flow(task, t1=7.0, n_times=3, keep=keep), reduced_flow(task, t1=7.0, n_times=3)]


@pytest.fixture
def small() -> xr.Dataset:
    return numbered(1)


def numbered(value: int) -> xr.Dataset:
    """A record that needs no training and tells itself apart from others by its loss."""
    return make_record(
        dynamics="none",
        variables={"loss": (("time",), np.full(5, float(value))), "stop_reason": ((), "finished")},
        coords={"time": np.arange(5)},
        time_unit="updates",
        config={"value": value},
        wall_time=0.0,
    )


def same_bits(record: xr.Dataset, other: xr.Dataset) -> bool:
    return set(record.variables) == set(other.variables) and all(
        record[name].dtype == other[name].dtype
        and record[name].values.tobytes() == other[name].values.tobytes()
        for name in record.variables
    )


def test_a_trained_record_comes_back_bit_for_bit_with_attributes_and_definitions(trained, tmp_path):
    assert np.isnan(trained.loss.values).any()  # the diverged run is there
    save_record(trained, tmp_path / "r.zarr")
    loaded = load_record(tmp_path / "r.zarr")
    assert same_bits(loaded, trained)
    xr.testing.assert_identical(loaded, trained)  # dimensions, coordinates and all attributes


def test_a_flow_with_its_single_values_comes_back_bit_for_bit(flows, tmp_path):
    for record in flows:
        save_record(record, str(tmp_path / "r.zarr"))
        loaded = load_record(str(tmp_path / "r.zarr"))
        assert same_bits(loaded, record)
        xr.testing.assert_identical(loaded, record)


def test_every_data_variable_has_a_unit_and_a_definition(trained, flows):
    for record in [trained, *flows]:
        for name, variable in record.data_vars.items():
            assert "units" in variable.attrs, name
            assert variable.attrs["definition"], name


def test_every_coordinate_has_a_unit_and_a_definition(trained, flows):
    for record in [trained, *flows]:
        for name, variable in record.coords.items():
            assert "units" in variable.attrs, name
            assert variable.attrs.get("definition"), name


def test_the_configuration_and_versions_stand_beside_the_numbers(trained, flows):
    for record in [trained, *flows]:
        assert record.attrs["dynamics"][0] in "ABC"
        assert record.attrs["version_numpy"] == np.__version__
        assert record.attrs["wall_time_s"] > 0
    config = json.loads(trained.attrs["config"])
    assert (config["task"], config["steps"], config["batch"], config["context"]) == (
        "three",
        7,
        3,
        11,
    )
    assert config["optimiser"]["name"] == "sgd"
    assert config["optimiser"]["momentum"] == 0.0


def test_the_configuration_is_json_that_any_reader_accepts():
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    infinite = train(SequenceClasses(PROB), steps=0, batch=float("inf"), context=float("inf"))
    json.loads(infinite.attrs["config"], parse_constant=refuse)
    scaled = train(
        SequenceClasses(PROB),
        steps=0,
        batch=1,
        context=1,
        model=Pairwise(init="uniform", init_scale=np.float32(0.5)),
    )
    assert json.loads(scaled.attrs["config"])["model"]["init_scale"] == 0.5


def test_a_variable_without_a_definition_is_a_defect():
    with pytest.raises(KeyError, match="temperature"):
        make_record(
            dynamics="",
            variables={"temperature": 1.0},
            coords={},
            time_unit="",
            config={},
            wall_time=0,
        )


def test_saving_over_a_record_replaces_it_and_leaves_nothing_else(small, tmp_path):
    path = tmp_path / "r.zarr"
    save_record(small.assign(more=1.0), path)
    save_record(numbered(2), path)
    assert same_bits(load_record(path), numbered(2))
    assert os.listdir(tmp_path) == ["r.zarr"]
    assert not (path / "more").exists()


def test_a_record_that_is_being_written_is_not_taken_for_a_leftover(small, tmp_path, monkeypatch):
    seal = checksums.seal

    def another_writer_comes(folder):
        writing.clear_drafts(tmp_path)
        seal(folder)

    monkeypatch.setattr(checksums, "seal", another_writer_comes)
    save_record(small, tmp_path / "mine")
    xr.testing.assert_identical(load_record(tmp_path / "mine"), small)


def test_a_record_that_is_replaced_while_it_is_read_is_the_old_one_or_the_new_one(
    tmp_path, monkeypatch
):
    path = tmp_path / "r.zarr"
    read, n_read = store.content, 0

    def and_another_writer(folder, name, *rest):
        nonlocal n_read
        n_read += 1
        if n_read == replaced_at:
            save_record(numbered(2), path)
        return read(folder, name, *rest)

    monkeypatch.setattr(store, "content", and_another_writer)
    for replaced_at in range(1, 14):
        n_read = 0
        save_record(numbered(1), path)
        loaded = load_record(path)
        assert same_bits(loaded, numbered(json.loads(loaded.attrs["config"])["value"])), replaced_at
    assert n_read >= 13


def test_a_file_that_is_not_listed_is_not_read(tmp_path):
    missing = numbered(1).assign(loss=("time", np.full(5, np.nan)))
    save_record(missing, tmp_path / "r.zarr")
    assert not (tmp_path / "r.zarr" / "loss" / "0").exists()  # Zarr leaves such chunks out
    save_record(numbered(7), tmp_path / "other.zarr")
    shutil.copy(tmp_path / "other.zarr" / "loss" / "0", tmp_path / "r.zarr" / "loss" / "0")
    assert np.isnan(load_record(tmp_path / "r.zarr").loss).all()


def test_a_record_that_packs_so_well_that_it_would_be_refused_is_written_as_it_is(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(expansion, "_ANY", 2**16)
    large = numbered(1).assign(
        loss=("step", np.zeros(2**18)), more=("step", np.full(2**18, np.nan))
    )
    save_record(large, tmp_path / "r.zarr")
    xr.testing.assert_identical(load_record(tmp_path / "r.zarr"), large)
    monkeypatch.setattr(store, "_check_files", lambda folder, files: None)
    save_record(large, tmp_path / "r.zarr")
    with pytest.raises(InputError, match="would take"):
        load_record(tmp_path / "r.zarr")


@pytest.mark.parametrize(
    "told",
    [
        {"compressor": {"id": "zlib"}},
        {"filters": [{"id": "delta"}]},
        {"shape": [-1]},
        {"chunks": [0]},
    ],
)
def test_a_record_that_is_packed_as_we_do_not_pack_is_refused(tmp_path, told):
    save_record(numbered(1), tmp_path / "r.zarr")
    about = json.loads((tmp_path / "r.zarr" / ".zmetadata").read_text())
    about["metadata"]["loss/.zarray"] |= told
    write_json(tmp_path / "r.zarr" / ".zmetadata", about)
    seal(tmp_path / "r.zarr")
    with pytest.raises(
        InputError, match=r"does not describe 'loss'|a way that Saccade does not write"
    ):
        load_record(tmp_path / "r.zarr")


@pytest.mark.parametrize("dim", ["token", "time"])  # pandas holds what is an index, NumPy the rest
def test_texts_that_are_none_are_refused_when_they_are_read_and_not_where_they_are_used(
    tmp_path, dim
):
    record = xr.Dataset(
        {"loss": (dim, np.ones(3)), "token": (dim, np.array(["sun", "moon", "sky"]))}
    )
    save_record(record, tmp_path / "r.zarr")
    file = tmp_path / "r.zarr" / "token" / "0"
    forged = np.frombuffer(Blosc().decode(file.read_bytes()), np.uint32) | 2**31
    file.write_bytes(Blosc().encode(forged.tobytes()))
    seal(tmp_path / "r.zarr")
    with pytest.raises(InputError, match="is not a record that can be read"):
        load_record(tmp_path / "r.zarr")


def test_a_forged_attribute_that_xarray_chokes_on_is_refused_in_a_sentence(tmp_path):
    save_record(numbered(1).assign_coords(other=("time", np.arange(5.0))), tmp_path / "r.zarr")
    about = json.loads((tmp_path / "r.zarr" / ".zmetadata").read_text())
    about["metadata"]["loss/.zattrs"]["coordinates"] = 0
    write_json(tmp_path / "r.zarr" / ".zmetadata", about)
    seal(tmp_path / "r.zarr")
    with pytest.raises(InputError, match="is not a record that can be read"):
        load_record(tmp_path / "r.zarr")


def test_a_file_of_a_record_that_is_far_larger_than_its_numbers_is_refused(tmp_path, monkeypatch):
    """It may be all holes, which take no room on disk."""
    monkeypatch.setattr("saccade.records.expansion._ANY", 2**16)
    save_record(xr.Dataset({"loss": ("time", np.arange(2.0))}), tmp_path / "record.zarr")
    load_record(tmp_path / "record.zarr")
    os.truncate(tmp_path / "record.zarr" / "loss" / "0", 2**20)
    seal(tmp_path / "record.zarr")
    with pytest.raises(InputError, match="was refused: it has"):
        load_record(tmp_path / "record.zarr")


def test_how_a_record_was_packed_elsewhere_is_not_kept(tmp_path):
    record = numbered(1)
    record.loss.encoding = {"chunks": (1,), "compressors": Zlib(level=1), "filters": None}
    save_record(record, tmp_path / "r.zarr")
    assert same_bits(load_record(tmp_path / "r.zarr"), numbered(1))


@pytest.mark.parametrize("name", ["head/0", "head\\0", ".zattrs", ".", "x\0y", 3])
@pytest.mark.parametrize("place", ["data_vars", "coords"])
def test_a_name_that_zarr_would_lose_is_refused(tmp_path, monkeypatch, name, place):
    record = xr.Dataset(**{place: {name: ("time", [1.0, 2.0])}})
    with pytest.raises(InputError, match="cannot save the variable"):
        save_record(record, tmp_path / "r.zarr")
    assert not any(tmp_path.iterdir())


def test_what_was_written_is_read_back_before_it_counts(tmp_path, monkeypatch):
    save_record(numbered(1), tmp_path / "r.zarr")
    structured = np.array([(1, 2.0)], dtype=[("step", int), ("loss", float)])
    with pytest.raises(InputError, match="'pair'"):
        save_record(xr.Dataset({"pair": ("time", structured)}), tmp_path / "r.zarr")
    monkeypatch.setattr(store, "_check_names", lambda record: None)
    with pytest.raises(InputError, match="'head/0' is not in its files as it was given"):
        save_record(xr.Dataset({"head/0": ("time", [1.0])}), tmp_path / "r.zarr")
    assert same_bits(load_record(tmp_path / "r.zarr"), numbered(1))


def test_folders_on_the_way_are_made(small, tmp_path):
    save_record(small, tmp_path / "a" / "b" / "r.zarr")
    assert same_bits(load_record(tmp_path / "a" / "b" / "r.zarr"), small)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt(), RuntimeError("a defect")]
)
def test_a_failure_while_writing_leaves_the_old_record_and_no_leftovers(
    small, tmp_path, monkeypatch, error
):
    path = tmp_path / "r.zarr"
    save_record(small, path)

    def half_way(folder, name, held):
        (folder / name).write_bytes(held[: len(held) // 2])
        raise error

    def ended(folder, files):
        raise error

    with monkeypatch.context() as patch:
        # Files are written by Zarr's thread, Ctrl-C comes to ours.
        patch.setattr(
            store,
            *(
                ("_check_files", ended)
                if isinstance(error, KeyboardInterrupt)
                else ("add_file", half_way)
            ),
        )
        expected = InputError if isinstance(error, OSError) else type(error)
        with pytest.raises(
            expected,
            match="cannot write to .*r.zarr: No space left" if expected is InputError else None,
        ):
            save_record(numbered(2), path)
    assert same_bits(load_record(path), small)
    assert os.listdir(tmp_path) == ["r.zarr"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_a_failure_while_the_new_record_is_moved_in_leaves_the_old_one(
    small, tmp_path, monkeypatch, error
):
    path = tmp_path / "r.zarr"
    save_record(small, path)
    really = os.replace

    def replace(source, target):
        if Path(target) == path and "unfinished" in Path(source).name:
            raise error
        really(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_exchanged", lambda one, other: False)
        patch.setattr(writing.os, "replace", replace)
        with pytest.raises((InputError, KeyboardInterrupt)):
            save_record(numbered(2), path)
    assert same_bits(load_record(path), small)
    assert os.listdir(tmp_path) == ["r.zarr"]


_KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from saccade import save_record
from saccade.records import store
from saccade.records.schema import make_record

write, target = store.add_file, Path(sys.argv[1])
record = make_record(dynamics="none", variables={"loss": (("time",), np.full(5, 2.0)), "stop_reason": ((), "finished")},
                     coords={"time": np.arange(5)}, time_unit="updates", config={"value": 2}, wall_time=0.0)

def saved_in_a_child(kill_at):
    n_written = 0

    def counted(*given):
        nonlocal n_written
        n_written += 1
        if n_written == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*given)

    child = os.fork()
    if not child:
        store.add_file = counted
        save_record(record, target / f"killed-{kill_at}" / "r.zarr")
        os._exit(0)
    return os.waitpid(child, 0)[1]

kill_at = 1
while (ended := saved_in_a_child(kill_at)) == signal.SIGKILL:
    kill_at += 1
assert ended == 0, ended
print(kill_at - 1)
"""


def test_a_process_killed_at_any_write_leaves_the_old_record_and_nothing_that_reads_as_one(
    tmp_path,
):
    for kill_at in range(1, 40, 3):  # beside some of the kills there is an old record
        save_record(numbered(1), tmp_path / f"killed-{kill_at}" / "r.zarr")
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    n_writes = int(done.stdout)
    assert 5 < n_writes < 38  # group, three arrays and their chunks, consolidated metadata
    for kill_at in range(1, n_writes + 1):
        folder = tmp_path / f"killed-{kill_at}"
        if kill_at % 3 == 1:
            assert same_bits(load_record(folder / "r.zarr"), numbered(1))
        else:
            assert not (folder / "r.zarr").exists()
        for unfinished in [path for path in folder.iterdir() if path.name != "r.zarr"]:
            with pytest.raises(InputError, match="is not a record that can be read"):
                load_record(unfinished)
    assert same_bits(load_record(tmp_path / f"killed-{n_writes + 1}" / "r.zarr"), numbered(2))


def test_what_is_not_a_record_is_refused(small, tmp_path):
    save_record(small, tmp_path / "r.zarr")
    (tmp_path / "r.zarr" / ".zmetadata").write_text('{"metadata": {')
    (tmp_path / "file").write_text("not a record")
    (tmp_path / "empty").mkdir()
    for name in ("r.zarr", "file", "empty", "missing"):
        with pytest.raises(InputError, match=f"{name} is not a record that can be read"):
            load_record(tmp_path / name)


@pytest.mark.parametrize("damage", ["truncated", "garbled"])
def test_a_damaged_record_is_refused(small, tmp_path, damage):
    noise = np.random.default_rng(0).random(1009)
    save_record(small.drop_dims("time").assign(loss=("time", noise)), tmp_path / "r.zarr")
    chunk = tmp_path / "r.zarr" / "loss" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else b"\xff" * len(whole))
    with pytest.raises(InputError, match="is not a record that can be read"):
        load_record(tmp_path / "r.zarr")


@pytest.mark.parametrize("place", ["/", ".", "a\0b"])
def test_a_place_that_cannot_hold_a_record_is_refused(small, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        save_record(small, place)
    assert os.listdir(tmp_path) == []


def test_a_record_below_a_regular_file_is_refused(small, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot write to .*r.zarr: Not a directory"):
        save_record(small, tmp_path / "file" / "r.zarr")


@pytest.mark.parametrize("harm", ["lost", "changed"])
def test_a_damaged_file_of_a_record_is_found_and_not_read_as_missing_values(tmp_path, harm):
    path = tmp_path / "record.zarr"
    save_record(xr.Dataset({"loss": ("time", np.arange(5.0))}), path)
    assert damage(path) == ""
    chunk = path / "loss" / "0"
    if harm == "lost":
        chunk.unlink()
    else:
        content = bytearray(chunk.read_bytes())
        content[-1] ^= 1
        chunk.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"loss/0 is (lost|not what was written)"):
        load_record(path)
    found, n_records = store.damaged_records(tmp_path)
    assert list(found) == [str(path)]
    assert n_records == 1


def test_a_text_is_not_written_over_a_folder(tmp_path):
    for path in (tmp_path, Path("."), Path("/")):
        with pytest.raises(InputError, match="is a folder"):
            writing.write_text(path, "text")
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Settings:
    steps: int = 5
    rates: tuple[float, ...] = (0.5, math.inf)


def written_result(
    folder: Path, settings: Settings, claims: Sequence[dict[str, float]] = (), **options: Any
) -> None:
    files = user_files(settings)
    with store.result_folder(folder, settings, files=files, **options) as unfinished:
        about = with_settings(xr.Dataset(attrs=options), settings).attrs | {
            "computation": json.dumps(files)
        }
        write_json(unfinished / "about.json", about)
        write_json(unfinished / "claims.json", claims)
        save_record(xr.Dataset({"loss": ("time", np.arange(5.0))}), unfinished / "record.zarr")


def test_a_result_of_other_settings_is_replaced_only_if_that_is_asked_for(tmp_path):
    folder = tmp_path / "mine"
    for _ in range(2):  # the same again is no loss
        written_result(folder, Settings())
    with pytest.raises(
        InputError, match=r"`steps` was 5, now 7\); give --out another folder, or --replace"
    ):
        written_result(folder, Settings(steps=7))
    assert '"steps": 5' in json.loads((folder / "about.json").read_text())["settings"]
    written_result(folder, Settings(steps=7), replace=True)
    (folder / "about.json").write_text("half")
    with pytest.raises(InputError, match=r"other settings \(cannot be told"):
        written_result(folder, Settings(steps=7))


def test_a_result_of_other_contents_of_a_table_of_classes_is_not_replaced(tmp_path):
    @dataclass(frozen=True)
    class OfClasses:
        classes: str = str(tmp_path / "my.csv")

    folder, table = tmp_path / "mine", tmp_path / "my.csv"
    for _ in range(2):
        table.write_text("class,a,b\nx,0.5,0.5\n")
        written_result(folder, OfClasses())
    table.write_text("class,a,b\nx,0.4,0.6\n")
    with pytest.raises(
        InputError, match=r"my\.csv has changed\); give --out another folder, or --replace"
    ):
        written_result(folder, OfClasses())
    written_result(folder, OfClasses(), replace=True)


@pytest.mark.parametrize("where", ["my.txt", "."])
def test_a_result_on_a_text_of_one_s_own_that_has_changed_is_not_replaced(tmp_path, where):
    @dataclass(frozen=True)
    class OfText:
        text: str = str(tmp_path / "texts" / where)

    @dataclass(frozen=True)
    class OfTexts:
        texts: tuple[str, ...] = (str(tmp_path / "texts" / where),)

    text = tmp_path / "texts" / "my.txt"
    text.parent.mkdir()
    for settings in (OfText(), OfTexts()):
        folder = tmp_path / type(settings).__name__
        for _ in range(2):
            text.write_text("all is well. " * 99)
            written_result(folder, settings)
        text.write_text("all is hell. " * 99)
        with pytest.raises(
            InputError, match=r"has changed\); give --out another folder, or --replace"
        ):
            written_result(folder, settings)
        written_result(folder, settings, replace=True)


def test_a_result_of_other_settings_that_another_process_wrote_meanwhile_is_not_replaced_either(
    tmp_path,
):
    folder = tmp_path / "mine"
    with (
        pytest.raises(InputError, match=r"`steps` was 5, now 7"),
        store.result_folder(folder, Settings(steps=7)),
    ):
        written_result(folder, Settings())
    assert '"steps": 5' in json.loads((folder / "about.json").read_text())["settings"]


def test_a_result_of_another_file_with_an_experiment_of_that_name_is_not_replaced(tmp_path):
    for _ in range(2):
        written_result(tmp_path / "mine", Settings(), file="/home/good.py")
    with pytest.raises(
        InputError, match=r"was '/home/good.py', now '/home/broken.py'\); give --out another folder"
    ):
        written_result(tmp_path / "mine", Settings(), file="/home/broken.py")


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_flipped_bit_in_any_file_of_a_result_is_found(tmp_path):
    folder = tmp_path / "mine"
    written_result(folder, Settings())
    assert store.damaged_records(tmp_path) == ({}, 1)
    for path in files_of(folder):
        content = path.read_bytes()
        for place in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
            )
            damaged, n_records = store.damaged_records(tmp_path)
            assert (list(damaged), n_records) == ([str(folder)], 1), (path, place)
        path.write_bytes(content)
    assert store.damaged_records(tmp_path) == ({}, 1)


def test_a_lost_file_of_a_result_is_found_also_if_it_is_the_checksums(tmp_path):
    folder = tmp_path / "mine"
    written_result(folder, Settings())
    for path in files_of(folder):
        content = path.read_bytes()
        path.unlink()
        assert store.damaged_records(tmp_path) == (
            {str(folder): f"{path.relative_to(folder)} is lost"},
            1,
        )
        path.write_bytes(content)
    for path in (folder / "checksums.json", folder / "record.zarr" / "checksums.json"):
        path.unlink()
    assert store.damaged_records(tmp_path) == ({str(folder): "checksums.json is lost"}, 1)
    with pytest.raises(InputError, match=r"checksums\.json is lost"):
        load_record(folder / "record.zarr")
    with pytest.raises(
        InputError, match=r"the claims in .* cannot be read: checksums.json is lost"
    ):
        store.load_claims(folder)


def test_claims_that_are_not_what_was_written_are_not_read(tmp_path):
    written_result(tmp_path / "mine", Settings(), claims=[{"measured": 1.3597}])
    assert store.load_claims(tmp_path / "mine") == [{"measured": 1.3597}]
    path = tmp_path / "mine" / "claims.json"
    path.write_text(path.read_text().replace("1.3597", "0.3597"))
    with pytest.raises(InputError, match=r"claims\.json is not what was written"):
        store.load_claims(tmp_path / "mine")


@pytest.mark.parametrize("name", ["../thesis.tex", "{place}/thesis.tex", "./about.json"])
def test_a_name_in_the_checksums_is_never_taken_for_a_place(tmp_path, name):
    written_result(tmp_path / "mine", Settings())
    (tmp_path / "thesis.tex").write_text("of somebody else")
    listed = json.loads((tmp_path / "mine" / "checksums.json").read_text())
    there = name.format(place=tmp_path)
    write_json(
        tmp_path / "mine" / "checksums.json", listed | {there: file_hash(tmp_path / "mine" / there)}
    )
    assert damaged_files(tmp_path / "mine") == {"checksums.json": "is not what was written"}


def test_the_draft_of_a_killed_process_is_no_damage(small, tmp_path):
    save_record(small, tmp_path / "r.zarr")
    draft = tmp_path / f".r.zarr.{'0' * 16}.unfinished"
    shutil.copytree(tmp_path / "r.zarr", draft)
    (draft / "loss" / "0").unlink()
    assert store.damaged_records(tmp_path) == ({}, 1)


def test_a_record_shows_itself_in_a_process_that_has_only_loaded_it(small, tmp_path):
    save_record(small, tmp_path / "r.zarr")
    code = f"import saccade; print(saccade.load_record({str(tmp_path / 'r.zarr')!r}).saccade.figures())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (0, "['loss']\n"), done.stderr


def test_claims_saved_with_a_record_are_in_its_report_and_are_no_part_of_the_record(
    small, tmp_path
):
    claim = Case({"rate": 2.0}).near(
        THEOREM_2B, "loss at the end", measured=1.0, target=3.0, within=0.5
    )
    save_record(small, tmp_path / "mine.zarr", claims=[claim])
    assert load_record(tmp_path / "mine.zarr").identical(small)
    assert results_of([tmp_path / "mine.zarr"])[0].claims == json.loads(
        json.dumps([claim.as_dict()])
    )
    assert (
        "loss at the end</span><small>rate 2"
        in write_report(tmp_path / "mine.zarr", tmp_path / "page.html").read_text()
    )
    assert store.damaged_records(tmp_path) == ({}, 1)
    (tmp_path / "mine.zarr" / "claims.json").write_text("[]")
    damaged, _ = store.damaged_records(tmp_path)
    assert damaged == {str(tmp_path / "mine.zarr"): "claims.json is not what was written"}
    save_record(small, tmp_path / "mine.zarr")
    assert results_of([tmp_path / "mine.zarr"])[0].claims == []


DEPTH = 500  # of folders; what calls itself for each fails with so few calls left


@pytest.fixture
def deep_place(tmp_path):
    """A place for folders deeper than calls may go."""
    limit, depth = sys.getrecursionlimit(), len(inspect.stack(0))
    sys.setrecursionlimit(depth + DEPTH - 100)
    try:
        yield tmp_path / "deep"
    finally:
        sys.setrecursionlimit(limit)


def test_folders_of_any_depth_in_a_result_are_no_hindrance(deep_place):
    written_result(deep_place / "mine", Settings())
    deep = deep_place / "mine" / Path(*"d" * DEPTH)
    writing.make_folder(deep)
    assert store.damaged_records(deep_place) == ({}, 1)
    (deep / "thesis.tex").write_text("of somebody else")
    with pytest.raises(InputError, match=r"did not write or no longer knows .*thesis\.tex"):
        written_result(deep_place / "mine", Settings())
    (deep / "thesis.tex").unlink()
    written_result(deep_place / "mine", Settings())
    assert [path.name for path in deep_place.iterdir()] == ["mine"]  # no draft is left
    assert "d" not in os.listdir(deep_place / "mine")


def test_checksums_within_checksums_are_read_to_any_depth(deep_place):
    deep = deep_place / Path(*"d" * DEPTH)
    writing.make_folder(deep)
    (deep / "x").write_text("")
    seal(deep)
    for folder in [*deep.parents][:DEPTH]:
        seal(folder, ["d"])
    assert store.damaged_records(deep_place) == ({}, 1)
    (deep / "x").write_text("y")
    assert [*damaged_files(deep_place)] == ["d/" * DEPTH + "x"]


def test_checksums_that_list_all_those_below_them_are_each_read_once(tmp_path, monkeypatch):
    """Otherwise 40 folders would be looked at 2^39 times."""
    folders = [tmp_path, *(tmp_path / Path(*"d" * depth) for depth in range(1, 40))]
    writing.make_folder(folders[-1])
    for place, folder in reversed([*enumerate(folders)]):
        inner = {
            f"{below.relative_to(folder)}/checksums.json": file_hash(below / "checksums.json")
            for below in folders[place + 1 :]
        }
        write_json(folder / "checksums.json", inner)
    read = []
    monkeypatch.setattr(
        checksums,
        "listed",
        lambda folder, real=checksums.listed: read.append(folder) or real(folder),
    )
    assert damaged_files(tmp_path) == {}
    assert stranger(tmp_path) == ""
    assert len(read) == 2 * len(folders)


@pytest.mark.parametrize("name", ["checksums.json", "claims.json"])
def test_each_of_many_folders_in_folders_is_looked_at_once(deep_place, monkeypatch, name):
    deep = deep_place / Path(*"d" * 50)
    writing.make_folder(deep)
    for folder in [deep, *deep.parents][:50]:
        (folder / name).write_text("{}")
    read = []
    monkeypatch.setattr(
        store, "listed", lambda folder, real=store.listed: read.append(folder) or real(folder)
    )
    assert store.damaged_records(deep_place)[1] == 50
    assert len(read) == 50


def test_a_folder_that_cannot_be_listed_is_neither_replaced_nor_called_intact(
    tmp_path, monkeypatch, capsys
):
    written_result(tmp_path / "mine", Settings())
    secret = tmp_path / "mine" / "secret"
    secret.mkdir()
    scandir = os.scandir

    def refused(path):
        if os.fspath(path) == str(secret):
            raise PermissionError(13, "Permission denied", str(secret))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(InputError, match=r"did not write or no longer knows \(secret\)"):
        written_result(tmp_path / "mine", Settings())
    assert main(["check", str(tmp_path)]) == 1
    assert f"not verified: {secret} cannot be read: Permission denied" in capsys.readouterr().out
    assert main(["check", str(secret)]) == 2
    assert (
        capsys.readouterr().err
        == f"saccade: {secret} holds neither a sweep nor a record; {secret} cannot be read: Permission denied.\n"
    )
    with pytest.raises(InputError, match=rf"cannot read {secret}: Permission denied"):
        saccade.corpus(tmp_path / "mine", cache=tmp_path / "cache")


def test_a_listed_file_that_lies_behind_a_link_is_lost(tmp_path):
    written_result(tmp_path / "mine", Settings())
    (tmp_path / "mine" / "record.zarr").rename(tmp_path / "elsewhere")
    (tmp_path / "mine" / "record.zarr").symlink_to(tmp_path / "elsewhere")
    assert damaged_files(tmp_path / "mine") == {"record.zarr/checksums.json": "is lost"}


@pytest.mark.parametrize("claims", ["holds", ["holds"], 1.36])
def test_claims_that_are_none_are_refused_before_anything_is_written(small, tmp_path, claims):
    with pytest.raises(InputError, match="`claims` must list claims"):
        save_record(small, tmp_path / "mine.zarr", claims=claims)
    assert not (tmp_path / "mine.zarr").exists()
