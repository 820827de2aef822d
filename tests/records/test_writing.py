"""What is written is whole or not there, and nothing but regular files and folders of ours is ever
replaced.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import xarray as xr

from saccade import InputError, load_record, save_record
from saccade.cli import main
from saccade.playground.export import export_record
from saccade.records import writing
from saccade.records.checksums import sealed_folder
from saccade.records.writing import (
    make_folder,
    set_aside,
    whole_file,
    whole_folder,
    write_csv,
    write_html,
    write_text,
)
from saccade.report.page import is_page
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
    with (
        pytest.raises(InputError, match=f"cannot write to target: it is a {kind}"),
        sealed_folder(place),
    ):
        raise AssertionError("refused before any work is done")
    assert stat.S_IFMT(place.lstat().st_mode) != stat.S_IFDIR


def test_a_device_is_told_from_a_file():
    """Only looked at: the check alone is called, and it writes nothing."""
    with pytest.raises(
        InputError,
        match=r"cannot write /dev/null: it is a device, and only regular files are replaced",
    ):
        writing._check_file(Path("/dev/null"))
    with pytest.raises(
        InputError, match=r"cannot write to /dev/null: it is a device; name a new folder"
    ):
        writing._check_folder(Path("/dev/null"), lambda folder: "")


def test_what_appears_while_a_file_is_written_is_not_replaced_either(place):
    with pytest.raises(InputError, match="it is a pipe"), whole_file(place):
        os.mkfifo(place)
    assert sorted(os.listdir()) == ["target", "victim"]


def test_a_folder_that_saccade_did_not_write_is_refused(place):
    place.mkdir()
    (place / "thesis.tex").write_text("a thesis")
    with (
        pytest.raises(InputError, match="holds files that Saccade did not write"),
        sealed_folder(place),
    ):
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
    with pytest.raises(
        InputError, match=f"did not write or no longer knows .{stranger}.; move them away"
    ):
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
    for name in (
        "../checksums.json",
        "a/../checksums.json",
        "./checksums.json",
        "/checksums.json",
        "a//b",
    ):
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


def test_two_folders_change_places_in_one_step(place):
    """Where the system can: else a process that is killed between two renames leaves nothing under
    the name until the next look.
    """
    for name in ("one", "other"):
        make_folder(Path(name))
        Path(name, name).touch()
    can = ctypes.CDLL(None).renameat2(-100, b"one", -100, b"other", 2) == 0  # as the system has it
    if not can:
        pytest.skip("this file system cannot exchange two names")
    assert writing._exchanged(Path("one"), Path("other"))
    assert (os.listdir("one"), os.listdir("other")) == (["one"], ["other"])  # there and back again


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
        os,
        "fsync",
        lambda descriptor: (
            done.append(os.readlink(f"/proc/self/fd/{descriptor}")),
            flush(descriptor),
        ),
    )
    monkeypatch.setattr(
        os, "replace", lambda one, other: (done.append("renamed"), rename(one, other))
    )
    write_text(place, "text")
    assert done[0].endswith(".unfinished")
    assert done[1:] == ["renamed", os.getcwd()]
    done.clear()
    make_folder(Path("a/b/c"))
    assert done == [os.getcwd(), f"{os.getcwd()}/a", f"{os.getcwd()}/a/b"]
    done.clear()
    make_folder(Path("a/b/c"))
    assert done == []
    with whole_folder(Path("whole")) as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "file").write_text("text")
    parts = [f"{os.getcwd()}/{draft}{part}" for part in ("", "/inner", "/inner/file")]
    assert (sorted(done[:3]), done[3:]) == (
        parts,
        ["renamed", os.getcwd()],
    )  # all that is in it, then where it stands


def test_what_is_set_aside_takes_no_other_file_s_name(place):
    for content in ("first", "second", "third"):
        place.write_text(content)
        set_aside(place, "damaged")
    assert [Path(name).read_text() for name in ("damaged", "damaged.1", "damaged.2")] == [
        "first",
        "second",
        "third",
    ]


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
def test_the_draft_of_a_killed_process_is_removed_by_the_next_writer_and_that_of_a_living_one_is_not(
    place, what
):
    killed_while_writing(place, what)
    assert len(os.listdir()) == 2
    with sealed_folder(Path("other")):
        pass
    assert sorted(os.listdir()) == ["other", "victim"]


def test_a_folder_that_another_writer_cleared_before_it_was_locked_is_made_again(
    place, monkeypatch
):
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
    for look in ("load", "check", "report"):
        record = Path(look) / "own.zarr"
        save_record(xr.Dataset({"x": 1.0}), record)
        assert (
            subprocess.run([sys.executable, "-c", KILLED_BETWEEN, record], check=False).returncode
            == -signal.SIGKILL
        )
        assert not record.exists()
        if look == "load":
            load_record(record)
        elif look == "check":
            assert main(["check", look]) == 0
        else:
            results_of([look])
        assert load_record(record).x == 1.0
        assert os.listdir(look) == ["own.zarr"]


def test_the_draft_of_a_killed_process_is_removed_by_the_next_process_that_writes_a_file_there(
    place,
):
    killed_while_writing(place, "whole_file")
    assert len(os.listdir()) == 2
    for name in ("first", "second"):
        write_text(Path(name).absolute(), "")
    assert sorted(os.listdir()) == ["first", "second", "victim"]


def test_a_table_has_its_rows_below_their_names(place):
    write_csv(place, [{"a": 1, "b": "x,y"}, {"a": 2, "b": ""}])
    assert place.read_bytes() == b'a,b\r\n1,"x,y"\r\n2,\r\n'


# Who else opens a file for writing, by the function it happens in, and why that need not be the
# writer's business.
EXCEPTIONS = {
    ("cli.py", "_open_streams"): "nowhere: what is printed to a stream that was closed",
    ("cli.py", "_print_no_more"): "nowhere, as well",
    ("data/text/build.py", "_replace"): "into a file of the writer's",
    ("data/text/build.py", "_write_numbers"): "into files of the writer's",
    ("data/text/corpus.py", "_built"): "into a file of the writer's",
    (
        "engines/text_checkpoints.py",
        "Checkpoints.save",
    ): "of safetensors, which knows only paths: in a folder of the writer's",
    ("records/observation_log.py", "ObservationLog._written"): "into memory",
    (
        "records/observation_log.py",
        "_on_disk",
    ): "room for numbers that do not fit into memory, in a file without a name",
    ("report/style.py", "write_drawn"): "into memory",
    (
        "sweeps/folder.py",
        "SweepFolder._add_line",
    ): "a line more in a manifest, with its checksum; half a line is cut off",
    ("sweeps/folder.py", "SweepFolder.writing"): "the lock of a sweep, which holds nothing",
    ("sweeps/gathering.py", "write_summary"): "into a file of the writer's",
    ("sweeps/outcome_file.py", "as_bytes"): "into memory",
}
_TO_A_PATH = {  # functions and methods that write to a path, or to what they are given
    *(
        "write_text",
        "write_bytes",
        "touch",
        "tofile",
        "savefig",
        "to_csv",
        "to_json",
        "to_parquet",
        "to_netcdf",
        "to_pickle",
    ),
    *("renames", "symlink_to", "hardlink_to", "copyfile", "copy2", "copytree", "move"),
    *("savez", "savez_compressed", "savetxt", "open_memmap", "mkstemp", "NamedTemporaryFile"),
    *(
        "save_file",
        "save_model",
        "truncate",
        "ftruncate",
        "extractall",
        "urlretrieve",
        "write_table",
    ),
}
_OF_MODULES = {  # the same of names that texts and datasets have too
    "os": {"replace", "rename", "link", "symlink"},
    "np": {"save"},
    "torch": {"save"},
    "shutil": {"copy"},
    "json": {"dump"},
    "pickle": {"dump"},
}


def writes(call: ast.Call) -> bool:
    """Whether a call opens a file for writing or puts something in its place, as far as the text of
    the call says.
    """
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = (
        function.value.id
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        else ""
    )
    if name in ("open", "fdopen", "memmap", "ZipFile"):
        words = (*call.args, *(word.value for word in call.keywords))
        given = [word.value for word in words if isinstance(word, ast.Constant)]
        flags = {
            node.attr
            for argument in call.args
            for node in ast.walk(argument)
            if isinstance(node, ast.Attribute)
        }
        is_mode = any(
            isinstance(word, str) and re.fullmatch(r"[rwaxbt+]{1,4}", word) and {*word} & {*"wax+"}
            for word in given
        )
        return is_mode or bool(flags & {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND"})
    is_ours = isinstance(function, ast.Name) and name in ("write_text", "write_csv")
    return name in _OF_MODULES.get(owner, set()) or (name in _TO_A_PATH and not is_ours)


def writers_in(tree: ast.AST, names: tuple[str, ...] = ()) -> Iterator[str]:
    """Names of functions in which something is written."""
    for node in ast.iter_child_nodes(tree):
        is_named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if isinstance(node, ast.Call) and writes(node):
            yield ".".join(names)
        yield from writers_in(node, (*names, node.name) if is_named else names)


@pytest.mark.parametrize(
    "call",
    [
        'open(path, "wb")',
        '(folder / "x").open("wb")',
        'path.open(mode="a")',
        'open(path, "ab+", opener=o)',
        "np.save(path, x)",
        "np.savez(path, x=x)",
        "torch.save(state, path)",
        "x.tofile(file)",
        "os.replace(a, b)",
        "os.open(path, os.O_WRONLY)",
        "path.write_bytes(b)",
        "figure.savefig(path)",
    ],
)
def test_the_search_for_writers_sees(call):
    assert [*writers_in(ast.parse(f"def here():\n    {call}\n"))] == ["here"]


def test_nothing_else_in_the_package_renames_or_opens_files_for_writing():
    files = {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")
    }
    found = {
        (file, name)
        for file, tree in files.items()
        for name in writers_in(tree)
        if file != "records/writing.py"
    }
    assert found == EXCEPTIONS.keys()


def test_a_reader_of_our_output_who_leaves_is_no_fault_of_a_folder(tmp_path):
    with pytest.raises(BrokenPipeError), whole_folder(tmp_path / "results"):
        raise BrokenPipeError
    assert not list(tmp_path.iterdir())


def test_only_a_page_under_its_own_name_gives_way(tmp_path):
    page = "<!doctype html><title>Saccade report: x</title>"
    for name in ("report.html", "monday.html"):
        with sealed_folder(tmp_path / "observed", is_drawn=is_page):
            pass
        (tmp_path / "observed" / name).write_text(page, encoding="utf-8")
    with (
        pytest.raises(InputError, match=r"monday\.html"),
        sealed_folder(tmp_path / "observed", is_drawn=is_page),
    ):
        pass
    assert (tmp_path / "observed" / "monday.html").read_text(encoding="utf-8") == page


WRITERS = {
    "page": (lambda path: write_html(path, "<html>"), ".html"),
    "record": (lambda path: xr.Dataset({"loss": ("time", [1.0, 0.5])}).saccade.save(path), ".html"),
    "playground": (lambda path: export_record(xr.Dataset(), path), ".json"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_of_another_kind_by_its_name_is_not_written_over(tmp_path, monkeypatch, writer):
    monkeypatch.setattr("saccade.playground.export.playground_record", lambda *_, **__: {})
    write, ending = WRITERS[writer]
    data = tmp_path / "my.csv"
    data.write_text("class,the\n")
    with pytest.raises(
        InputError,
        match=rf"its name says that it is another kind of file; choose one that ends in \{ending}",
    ):
        write(data)
    assert data.read_text() == "class,the\n"
    (tmp_path / f"mine{ending}").write_text("earlier")
    for path in (tmp_path / f"mine{ending}", tmp_path / "new"):
        write(path)
        assert path.read_text() not in ("", "earlier")
