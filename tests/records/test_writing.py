"""What is written is whole or not there, and nothing but regular files and folders of ours is ever replaced."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

from saccade import InputError, load_record, save_record
from saccade.cli import main
from saccade.records import writing
from saccade.records.checksums import sealed_folder
from saccade.records.writing import make_folder, set_aside, whole_file, write_csv, write_text
from saccade.report.sources import results_of

SOURCE = Path(writing.__file__).parents[1]


def placed(kind: str, path: Path) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "symbolic link":
        path.symlink_to(path.with_name("victim"))
    else:
        path.mkdir()


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A short name, as sockets need it, beside something that must not change."""
    monkeypatch.chdir(tmp_path)
    Path("victim").write_text("a thesis")
    return Path("target")


@pytest.mark.parametrize("kind", ["pipe", "socket", "symbolic link", "folder"])
def test_only_a_regular_file_is_replaced_by_a_file(place, kind):
    placed(kind, place)
    before = place.lstat()
    with pytest.raises(InputError, match=f"cannot write target: it is a {kind}"):
        write_text(place, "text")
    assert (place.lstat().st_ino, place.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert sorted(os.listdir()) == ["target", "victim"]
    assert Path("victim").read_text() == "a thesis"


@pytest.mark.parametrize("kind", ["pipe", "socket", "symbolic link"])
def test_only_a_folder_is_replaced_by_a_folder(place, kind):
    placed(kind, place)
    with pytest.raises(InputError, match=f"cannot write to target: it is a {kind}"), sealed_folder(place):
        raise AssertionError("refused before any work is done")
    assert stat.S_IFMT(place.lstat().st_mode) != stat.S_IFDIR


def test_what_appears_while_a_file_is_written_is_not_replaced_either(place):
    with pytest.raises(InputError, match="it is a pipe"), whole_file(place):
        os.mkfifo(place)
    assert sorted(os.listdir()) == ["target", "victim"]


def test_a_folder_that_saccade_did_not_write_is_refused(place):
    place.mkdir()
    (place / "thesis.tex").write_text("a thesis")
    with pytest.raises(InputError, match="holds files that Saccade did not write"), sealed_folder(place):
        pass
    assert os.listdir(place) == ["thesis.tex"]
    with sealed_folder(place, any_folder=True) as folder:
        (folder / "own").write_text("")
    assert sorted(os.listdir(place)) == ["checksums.json", "own"]


def ours(place: Path) -> None:
    """A result with a record in it, each with its checksums."""
    with sealed_folder(place) as folder:
        save_record(xr.Dataset({"x": 1.0}), folder / "record.zarr")
        (folder / "about.json").write_text("{}")


@pytest.mark.parametrize("name", ["about.json", "checksums.json", ".zmetadata", "record.zarr"])
def test_a_file_named_like_one_of_ours_does_not_make_a_folder_ours(place, name):
    place.mkdir()
    (place / name).write_text("{}")
    (place / "thesis.tex").write_text("a thesis")
    with pytest.raises(InputError, match="did not write"):
        save_record(xr.Dataset({"x": 1.0}), place)
    assert sorted(os.listdir(place)) == sorted([name, "thesis.tex"])


@pytest.mark.parametrize("stranger", ["thesis.tex", "record.zarr/thesis.tex", "own/thesis.tex"])
def test_a_file_that_we_did_not_list_is_never_removed(place, stranger):
    ours(place)
    ours(place)
    (place / stranger).parent.mkdir(exist_ok=True)
    (place / stranger).write_text("a thesis")
    with pytest.raises(InputError, match=f"did not write or no longer knows .{stranger}.; move them away"):
        ours(place)
    assert (place / stranger).read_text() == "a thesis"
    (place / stranger).unlink()
    (place / "checksums.json").unlink()
    with pytest.raises(InputError, match="did not write"):
        ours(place)


@pytest.mark.parametrize("exchange", [True, False])
def test_a_file_that_comes_while_folders_change_places_is_put_back(place, monkeypatch, exchange):
    ours(place)
    move = writing._move_into_place

    def moved(draft, path):
        monkeypatch.setattr(writing, "_move_into_place", move)
        (place / "thesis.tex").write_text("a thesis")
        return move(draft, path)

    if not exchange:
        monkeypatch.setattr(writing, "_exchanged", lambda one, other: False)
    monkeypatch.setattr(writing, "_move_into_place", moved)
    with pytest.raises(InputError, match=r"thesis\.tex"):
        ours(place)
    assert (place / "thesis.tex").read_text() == "a thesis"
    assert sorted(os.listdir()) == ["target", "victim"]


def test_names_in_checksums_that_lead_out_of_their_folder_or_in_a_circle_are_refused(place):
    for name in ("../checksums.json", "a/../checksums.json", "./checksums.json", "/checksums.json", "a//b"):
        ours(place)
        write_text(place / "checksums.json", f'{{"{name}": ""}}')
        with pytest.raises(InputError, match=r"no longer knows .checksums\.json."):
            ours(place)
        shutil.rmtree(place)


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_takes_the_place_of_an_earlier_one_of_ours_whole(place, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(writing, "_exchanged", lambda one, other: False)
    for content in ("first", "second"):
        with sealed_folder(place) as folder:
            (folder / "about.json").write_text(content)
            (folder / content).write_text("")
            assert not (place / content).exists()
    assert sorted(os.listdir(place)) == ["about.json", "checksums.json", "second"]
    assert sorted(os.listdir()) == ["target", "victim"]


def test_a_draft_cannot_be_foreseen_and_does_not_follow_a_planted_link(place, monkeypatch):
    names = set()
    for _ in range(7):
        with whole_file(place):
            names |= set(os.listdir()) - {"target", "victim"}
    assert len(names) == 7
    monkeypatch.setattr(writing.secrets, "token_hex", lambda n: "0" * 16)
    Path(f".target.{'0' * 16}.unfinished").symlink_to("victim")
    with pytest.raises(InputError, match="cannot write target: File exists"):
        write_text(place, "over the link")
    assert Path("victim").read_text() == "a thesis"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_earlier_file_and_no_draft(place, error):
    write_text(place, "earlier")
    with pytest.raises((InputError, KeyboardInterrupt)), whole_file(place):
        raise error
    assert place.read_text() == "earlier"
    assert sorted(os.listdir()) == ["target", "victim"]


def test_file_and_folder_are_flushed_before_and_after_the_rename(place, monkeypatch):
    done = []
    flush, rename = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (done.append(os.readlink(f"/proc/self/fd/{descriptor}")), flush(descriptor))
    )
    monkeypatch.setattr(os, "replace", lambda one, other: (done.append("renamed"), rename(one, other)))
    write_text(place, "text")
    assert done[0].endswith(".unfinished")
    assert done[1:] == ["renamed", os.getcwd()]
    done.clear()
    make_folder(Path("a/b/c"))
    assert done == [os.getcwd(), f"{os.getcwd()}/a", f"{os.getcwd()}/a/b"]
    done.clear()
    make_folder(Path("a/b/c"))
    assert done == []


def test_what_is_set_aside_takes_no_other_file_s_name(place):
    for content in ("first", "second", "third"):
        place.write_text(content)
        set_aside(place, "damaged")
    assert [Path(name).read_text() for name in ("damaged", "damaged.1", "damaged.2")] == ["first", "second", "third"]


def test_a_draft_that_we_may_not_remove_keeps_nobody_from_writing(place, monkeypatch):
    Path(f".other.{'0' * 16}.unfinished").write_text("of another user, in a folder like /tmp")

    unlink = Path.unlink

    def refused(self, missing_ok=False):
        if self.name.startswith(".other"):
            raise PermissionError(1, "Operation not permitted")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    ours(place)
    assert load_record(place / "record.zarr").x == 1.0


def test_the_draft_of_a_name_with_a_line_break_is_removed_too(place):
    Path(f".a\nb.{'0' * 16}.unfinished").write_text("")
    writing.clear_drafts(Path())
    assert os.listdir() == ["victim"]


def killed_while_writing(place: Path, what: str) -> None:
    """A process that is killed with its draft begun, while this one looks on."""
    code = f"""
import os, signal, sys
from pathlib import Path
from saccade.records.checksums import sealed_folder
from saccade.records.writing import whole_file
with {what}(Path({str(place)!r})):
    print("begun", flush=True)
    signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    writing.clear_drafts(place.absolute().parent)  # its writer lives: it stays
    assert [name for name in os.listdir(place.absolute().parent) if name.endswith(".unfinished")]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("what", ["whole_file", "sealed_folder"])
def test_the_draft_of_a_killed_process_is_removed_by_the_next_writer_and_that_of_a_living_one_is_not(place, what):
    killed_while_writing(place, what)
    assert len(os.listdir()) == 2
    with sealed_folder(Path("other")):
        pass
    assert sorted(os.listdir()) == ["other", "victim"]


def test_a_folder_that_another_writer_cleared_before_it_was_locked_is_made_again(place, monkeypatch):
    make, calls = Path.mkdir, []

    def mkdir_and_another_writer(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if self.name.endswith(".unfinished"):
            calls.append(self.name)
            if len(calls) == 1:
                writing.clear_drafts(Path())

    monkeypatch.setattr(Path, "mkdir", mkdir_and_another_writer)
    with sealed_folder(place) as folder:
        (folder / "about.json").write_text("whole")
    assert len(calls) == 2
    assert (place / "about.json").read_text() == "whole"


def test_a_folder_that_was_only_moved_out_of_the_way_is_put_back(place):
    aside = Path(f".target.{'a' * 16}.replaced")
    aside.mkdir()
    (aside / "about.json").write_text("earlier")
    writing.clear_drafts(Path())
    assert (place / "about.json").read_text() == "earlier"


KILLED_BETWEEN = """
import os, signal, sys
from pathlib import Path
import xarray as xr
from saccade import save_record
from saccade.records import writing
writing._exchanged = lambda one, other: False
rename, calls = os.replace, []
def replace(one, other):
    calls.append((str(one), str(other)))
    if str(one).endswith(".unfinished") and any(place.endswith(".replaced") for _, place in calls):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(one, other)
os.replace = replace
save_record(xr.Dataset({"x": 2.0}), Path(sys.argv[1]))
"""


def test_a_record_whose_writer_is_killed_between_two_renames_is_there_at_the_next_look(place):
    for look in ("load", "verify", "report"):
        record = Path(look) / "own.zarr"
        save_record(xr.Dataset({"x": 1.0}), record)
        assert subprocess.run([sys.executable, "-c", KILLED_BETWEEN, record], check=False).returncode == -signal.SIGKILL
        assert not record.exists()
        if look == "load":
            load_record(record)
        elif look == "verify":
            assert main(["verify", look]) == 0
        else:
            results_of([look])
        assert load_record(record).x == 1.0
        assert os.listdir(look) == ["own.zarr"]


def test_the_draft_of_a_killed_process_is_removed_by_the_next_process_that_writes_a_file_there(place):
    killed_while_writing(place, "whole_file")
    assert len(os.listdir()) == 2
    for name in ("first", "second"):
        write_text(Path(name).absolute(), "")
    assert sorted(os.listdir()) == ["first", "second", "victim"]


def test_a_table_has_its_rows_below_their_names(place):
    write_csv(place, [{"a": 1, "b": "x,y"}, {"a": 2, "b": ""}])
    assert place.read_bytes() == b'a,b\r\n1,"x,y"\r\n2,\r\n'


def test_nothing_else_in_the_package_renames_or_opens_files_for_writing():
    renames = re.compile(r"os\.(replace|rename|link)\b|shutil\.move|\.(write_text|write_bytes)\(")
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if renames.search(path.read_text())}
    assert found == {"records/writing.py"}
