"""Small checkpoints and small watched runs that would take gigabytes, or hang, are refused in less
than one gigabyte.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import pickle
import pickletools
import warnings
import zipfile
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import saccade  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from saccade.records import checksums, observation_log  # noqa: E402
from saccade.records.json_files import read_sealed, write_sealed  # noqa: E402
from saccade.watching.checkpoints import models  # noqa: E402
from saccade.watching.checkpoints.files import UnreadableError  # noqa: E402
from saccade.watching.checkpoints.tensors import read_tensors  # noqa: E402
from tests.bombs import LARGE, opened, write_zeros  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402


class Allocates:
    def __reduce__(self):
        return bytearray, (LARGE,)


def packed(path):
    """A file of PyTorch whose numbers are zeros, packed."""
    plain = io.BytesIO()
    torch.save({"w": torch.zeros(7)}, plain)
    with zipfile.ZipFile(plain) as before, zipfile.ZipFile(path, "w") as archive:
        for member in before.infolist():
            if member.filename.endswith("data/0"):
                write_zeros(archive, member.filename, b"", LARGE)
            else:
                content = before.read(member).replace(
                    b"K\x07tq\x07Q", b"J" + (LARGE // 4).to_bytes(4, "little") + b"tq\x07Q"
                )
                archive.writestr(
                    member.filename,
                    content.replace(
                        b"K\x07\x85q\x08", b"J" + (LARGE // 4).to_bytes(4, "little") + b"\x85q\x08"
                    ),
                )


def many_tensors(path):
    """Nothing but names."""
    listed = {
        f"{i:x}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(400_000)
    }
    header = json.dumps(listed, separators=(",", ":")).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)


class Grows:
    """Four bytes, each time as many again: PyTorch reads no protocol above 2, in which bytes are
    made so.
    """

    def __reduce__(self):
        return codecs.encode, (
            reduce(lambda made, _: Encoded(made, "hex"), range(28), Encoded("abcd", "latin1")),
            "hex",
        )


class Encoded:
    def __init__(self, *arguments):
        self.arguments = arguments

    def __reduce__(self):
        return codecs.encode, self.arguments


def archive_of(*pickles):
    """A file of PyTorch with these members in its archive, packed."""

    def make(path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of two members with one name
            for name, content in (
                *pickles,
                ("archive/version", b"3\n"),
                ("archive/byteorder", b"little"),
            ):
                archive.writestr(name, content)

    return make


def in_its_fifth_pickle(path):
    """A file of PyTorch before 1.6."""
    old = io.BytesIO()
    torch.save({"w": torch.zeros(7)}, old, _use_new_zipfile_serialization=False)
    old.seek(0)
    for _ in range(4):
        list(pickletools.genops(old))
    path.write_bytes(old.getvalue()[: old.tell()] + ALLOCATES)


NOTHING, ALLOCATES = pickle.dumps({}, 2), pickle.dumps(Allocates(), 2)
CHECKPOINTS = {
    "capitals.pt": archive_of(("archive/DATA.PKL", ALLOCATES)),
    "twice.pt": archive_of(("archive/data.pkl", ALLOCATES), ("archive/data.pkl", NOTHING)),
    "containers.pt": archive_of(
        ("archive/data.pkl", NOTHING[:2] + b"\x8f" * 2**23 + b".")
    ),  # each an empty set
    "long.pt": archive_of(("archive/data.pkl", NOTHING[:2] + b"}" * 2**25 + b".")),
    "grows.pt": archive_of(("archive/data.pkl", pickle.dumps(Grows(), 2))),
    "fifth.pt": in_its_fifth_pickle,
    "packed.pt": packed,
    "expanded.pt": lambda path: torch.save({"w": torch.zeros(1).expand(LARGE)}, path),
    "allocates.pt": lambda path: torch.save({"w": torch.zeros(7), "b": Allocates()}, path),
    "old.pt": lambda path: torch.save(
        {"w": torch.zeros(7), "b": Allocates()}, path, _use_new_zipfile_serialization=False
    ),
    "many.safetensors": many_tensors,
}


CONFIGS = ({"n_layer": 10**7}, {"n_layer": 5000}, {"n_embd": 2 * 10**5})


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What is said about each bomb, all of them opened in one process, and its largest memory."""
    folder = tmp_path_factory.mktemp("bombs")
    codes = {}
    for name, make in CHECKPOINTS.items():
        make(folder / name)
        assert (folder / name).stat().st_size < 32e6
        codes[name] = f"import saccade; saccade.observe_checkpoints({str(folder / name)!r})"
    for settings in CONFIGS:
        place = folder / str(settings)
        with_config(place, settings)
        codes[place.name] = f"import saccade; saccade.observe_checkpoints({str(place)!r})"
    for name, change in RUNS.items():
        change(watched_run(folder / name))
        codes[name] = (
            f"from saccade.records.observation_log import watched; watched({str(folder / name)!r})"
        )
    said, peak = opened(*codes.values())
    return dict(zip(codes, said, strict=True)), peak


def with_config(folder, settings):
    zoo.transformers_case("gpt2", "sdpa", None).model.save_pretrained(folder / "step-1")
    config = folder / "step-1" / "config.json"
    stored = json.loads(config.read_text())
    del stored["architectures"]  # then a model is also built to learn its kind
    config.write_text(json.dumps(stored | settings))


def watched_run(folder):
    with zoo.watching(every=1, budget=None, out=folder) as recorder:
        for step in range(2):
            recorder.step(step)
    return folder


def replaced(run, step, write):
    """Another observation in the place of one, with checksums that are right."""
    folder = run / "observations"
    (old,) = folder.glob(f"{step:012d}.*.npz")
    with zipfile.ZipFile(old) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if name != "entropy.npy"}
    with zipfile.ZipFile(folder / "new", "w") as archive:
        for name, content in kept.items():
            archive.writestr(name, content)
        write(archive)
    new = folder / f"{step:012d}.{checksums.file_hash(folder / 'new')[:16]}.npz"
    (folder / "new").rename(new)
    old.unlink()
    about = read_sealed(folder / "about.json")
    listed = [new.name if name == old.name else name for name in about["observations"]]
    write_sealed(folder / "about.json", about | {"observations": listed})


def head(*shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    return header.getvalue()


def expands(run):
    replaced(
        run,
        1,
        lambda archive: write_zeros(archive, "entropy.npy", head(LARGE // 4, 1), LARGE // 4 * 4),
    )


def large_together(run):
    """A column and a row: a record has room for the rectangle of both."""
    replaced(run, 0, lambda archive: write_zeros(archive, "entropy.npy", head(30_000, 1), 120_000))
    replaced(run, 1, lambda archive: write_zeros(archive, "entropy.npy", head(1, 30_000), 120_000))


def claims(run):
    replaced(run, 1, lambda archive: archive.writestr("entropy.npy", head(10**14) + bytes(400)))


RUNS = {"expands": expands, "large together": large_together, "claims": claims}


def test_no_bomb_takes_a_gigabyte_and_each_is_a_sentence(found):
    said, peak = found
    assert peak < 10**9
    assert not [
        sentence for sentence in said.values() if "Traceback" in sentence or sentence == "read"
    ]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_that_expand_are_refused(found, name):
    assert f"{name} was refused" in found[0][name]


@pytest.mark.parametrize("settings", CONFIGS, ids=str)
def test_a_configuration_of_a_model_that_is_far_larger_than_its_weights_is_refused(found, settings):
    assert (
        "was refused" in found[0][str(settings)]
        or "no model of more than" in found[0][str(settings)]
    )


@pytest.mark.parametrize(
    "name, word",
    [("expands", "would take 1,3"), ("large together", "would take 1,"), ("claims", "is damaged")],
)
def test_watched_runs_that_expand_are_refused(found, name, word):
    assert word in found[0][name]


def test_a_configuration_that_fits_its_weights_is_read(tmp_path):
    with_config(tmp_path, {})
    assert saccade.observe_checkpoints(tmp_path).sizes["time"] == 1


def test_a_pipe_among_checkpoints_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "step1.pt")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_tensors(tmp_path / "step1.pt")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_tensors(Path("/dev/zero"))


def test_a_name_in_parts_without_end_is_refused(tmp_path):
    torch.save({".".join("a" * 5000): torch.zeros(3, 3)}, tmp_path / "step1.pt")
    with pytest.raises(saccade.InputError, match="without end"):
        saccade.observe_checkpoints(tmp_path)


def test_an_observation_that_packs_tightly_is_written_so_that_it_can_be_read(tmp_path, monkeypatch):
    about = {
        "config": {},
        "axes": {"map": ["key"]},
        "coords": {},
        "definitions": {"map": ["", "zeros"]},
        "wall_time_s": 0.0,
    }
    log = observation_log.ObservationLog(tmp_path / "run", about)
    monkeypatch.setattr("saccade.records.expansion._ANY", 0)
    for step in range(3):
        log.append(step, {"map": np.zeros(10**6, np.float32)})
    log.save()
    assert saccade.load_record(tmp_path / "run").sizes == {"time": 3, "key": 10**6}


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 10**7},
        {"text_config": {"n_layer": 10**9}},
        {"num_labels": 10**5},
        {"attention_types": [[["global", "local"], 10**5]]},
    ],
)
def test_layers_without_number_are_refused_before_a_configuration_lists_them(config, tmp_path):
    """Those of some models hold a list with an entry for each, or for each label."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", **config}))
    with pytest.raises(InputError, match="no model of more than 10,000 is built"):
        models._config(tmp_path, trust_remote_code=False)
