"""Small files that would be huge: each is refused with a sentence, or read in part, in a gigabyte
of memory and without waiting.

The memory is measured, not limited: with a limit the sentence about too little memory would pass
for a refusal. A bomb takes the place of a file of a subject, or is a file that a user is handed: a
table, a text, a checkpoint.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import struct
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from numcodecs import Blosc

from saccade.records.checksums import seal
from saccade.records.store import save_record
from tests.attack.harness import FUSE, GIGABYTE, SIZES, given_away
from tests.attack.subjects import CLASSES, read

HUGE = 2 * GIGABYTE  # bytes that a bomb expands to
LIMIT = 20.0  # s after which what still computes is interrupted


def endless(path: Path) -> None:
    """Begins like a JSON file and goes on for gigabytes; the disk holds next to nothing of it."""
    with path.open("wb") as file:
        file.write(b'{"a": "')
        file.truncate(HUGE)


def deep(path: Path) -> None:
    path.write_text("[" * 100_000 + "]" * 100_000)


def texts(path: Path) -> None:
    """Short texts, each of which takes ten times its size in memory."""
    path.write_text('{"a": ["ab"' + ',"ab"' * 12_000_000 + "]}")


def other_shape(path: Path) -> None:
    path.write_text(json.dumps([[None, {"name": ["runs"], "axes": 3}], "config"]))


def zipped(path: Path) -> None:
    """An archive of one array of zeros, in a megabyte."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (HUGE // 8,)}
    )
    block, packer = bytes(2**20), zlib.compressobj(9, wbits=-15)
    start = packer.compress(header.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(block) + packer.flush(
        zlib.Z_FULL_FLUSH
    )  # the same bytes for every block
    checksum = zlib.crc32(header.getvalue())
    for _ in range(HUGE // len(block)):
        checksum = zlib.crc32(block, checksum)
    packed = start + again * (HUGE // len(block)) + packer.flush()
    name, size = b"entropy.npy", len(header.getvalue()) + HUGE
    about = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, checksum, len(packed), size, len(name), 0)
    local = b"PK\3\4" + about + name + packed
    listed = b"PK\1\2" + struct.pack("<H", 20) + about + bytes(14) + name
    path.write_bytes(
        local + listed + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), len(local), 0)
    )


FILES: dict[str, tuple[str, ...]] = {
    "result": tuple(
        f"quick/{name}"
        for name in (
            "about.json",
            "claims.json",
            "panels.json",
            "checksums.json",
            "record.zarr/.zmetadata",
        )
    ),
    "sweep": ("sweep.json", "manifest.jsonl", "dataset.zarr/checksums.json"),
    "watched": ("observations/about.json", "about.json"),
    "cache": ("*/about.json",),
}
BOMBS = [
    (name, file, bomb)
    for name, files in FILES.items()
    for file in files
    for bomb in (endless, deep, texts, other_shape)
]
BOMBS += [("watched", "observations/*.npz", zipped), ("sweep", "runs/*.npz", zipped)]


@pytest.mark.parametrize("name", FILES)
def test_a_bomb_in_a_folder_of_ours_is_refused(arena, subject, name):
    bombs = [(file, bomb) for of, file, bomb in BOMBS if of == name]
    wrong = []
    for file, bomb in bombs if SIZES.thorough else random.Random(name).sample(bombs, 2):
        with arena.scene(subject(name)) as scene:
            place = scene / subject(name).name
            bomb(next((place / name).glob(file)))
            answer = arena.call(partial(read, name, resume=False), where=place, memory=FUSE)
            if answer.code != 0 or "Traceback" in answer.err or not answer.is_small:
                found = f"{answer.code}, {answer.seconds:.1f} s, {answer.peak} bytes"
                wrong.append(f"{bomb.__name__} as {name}/{file}: {found}\n{answer.err[-600:]}")
    assert not wrong, "\n".join(wrong)


def table(scene: Path) -> list[str]:
    """Gigabytes of zeros after the head of a table."""
    (scene / "table.csv").write_text(CLASSES)
    os.truncate(scene / "table.csv", HUGE)
    return ["forecast", "table.csv"]


def wide_table(scene: Path) -> list[str]:
    (scene / "table.csv").write_text("class,a\nx," + "1" * 200_000)
    return ["forecast", "table.csv"]


def pipe(scene: Path) -> list[str]:
    os.mkfifo(scene / "pipe.csv")
    return ["forecast", "pipe.csv"]


def endless_table(scene: Path) -> list[str]:
    (scene / "zero.csv").symlink_to("/dev/zero")  # read only
    return ["forecast", "zero.csv"]


def rows(scene: Path) -> list[str]:
    """One text of a megabyte, in as many rows as make gigabytes of it."""
    column = pa.DictionaryArray.from_arrays(
        np.zeros(HUGE // 2**20, np.int32), ["word " * (2**20 // 5)]
    )
    pq.write_table(pa.table({"text": column}), scene / "rows.parquet")
    return ["forecast", "rows.parquet"]


def tensors(scene: Path) -> list[str]:
    """A tensor of gigabytes, in a file of a megabyte."""
    side = 2**14
    about = json.dumps(
        {
            "wte.weight": {
                "dtype": "F32",
                "shape": [HUGE // 4 // side, side],
                "data_offsets": [0, HUGE],
            }
        }
    ).encode()
    (scene / "step-1.safetensors").write_bytes(struct.pack("<Q", len(about)) + about)
    os.truncate(scene / "step-1.safetensors", 2**20)
    return ["observe", "step-1.safetensors", "--heads", "2"]


def expanded(scene: Path) -> list[str]:
    """One number that says it is a matrix of gigabytes."""
    torch = pytest.importorskip("torch")
    torch.save({"wte.weight": torch.zeros(1).expand(2**14, HUGE // 2**16)}, scene / "step-1.pt")
    return ["observe", "step-1.pt", "--heads", "2"]


def layers(scene: Path) -> list[str]:
    safetensors = pytest.importorskip("safetensors.numpy")
    (scene / "model").mkdir()
    (scene / "model" / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_layer": 10**7, "architectures": ["GPT2Model"]})
    )
    safetensors.save_file(
        {"wte.weight": np.zeros((5, 4), np.float32)}, scene / "model" / "model.safetensors"
    )
    return ["observe", "model"]


def of_zarr(scene: Path, shape: int, chunk: int, kind: str, files: dict[str, bytes]) -> list[str]:
    """A record of one array that is what it says it is, to the last checksum, with these files of
    chunks.
    """
    save_record(xr.Dataset({"loss": ("time", np.ones(2, kind))}), scene / "record.zarr")
    (scene / "record.zarr" / "loss" / "0").unlink()
    for file in (scene / "record.zarr" / "loss" / ".zarray", scene / "record.zarr" / ".zmetadata"):
        text = re.sub(r'"shape": \[\s*2\s*\]', f'"shape": [{shape}]', file.read_text())
        file.write_text(re.sub(r'"chunks": \[\s*2\s*\]', f'"chunks": [{chunk}]', text))
    for name, content in files.items():
        (scene / "record.zarr" / "loss" / name).write_bytes(content)
    seal(scene / "record.zarr")
    return ["report", "record.zarr"]


def record_of_nothing(scene: Path) -> list[str]:
    """Gigabytes of missing values, no file of which is there."""
    return of_zarr(scene, HUGE // 8, HUGE // 8, "<f8", {})


def record_of_zeros(scene: Path) -> list[str]:
    """Gigabytes of zeros, each chunk a hundred times smaller."""
    chunk = 2**27
    zeros = Blosc("lz4", 5, 1).encode(bytes(chunk))
    return of_zarr(
        scene, HUGE // 8, chunk // 8, "<f8", {str(number): zeros for number in range(HUGE // chunk)}
    )


def record_of_a_large_chunk(scene: Path) -> list[str]:
    """Two numbers in a chunk that unpacks to a gigabyte and a half."""
    return of_zarr(
        scene, 2, 3 * HUGE // 32, "<f8", {"0": Blosc("lz4", 5, 1).encode(bytes(3 * HUGE // 4))}
    )


def record_of_chunks(scene: Path) -> list[str]:
    """A number in each chunk, and millions of them."""
    return of_zarr(scene, 2**27, 1, "|i1", {})


RECORDS = [record_of_nothing, record_of_zeros, record_of_a_large_chunk, record_of_chunks]
HANDED = [table, wide_table, pipe, endless_table, rows, tensors, expanded, *RECORDS] + [
    layers
] * SIZES.thorough  # takes seconds to load


@pytest.mark.parametrize("bomb", HANDED, ids=lambda bomb: bomb.__name__)
def test_a_bomb_that_is_handed_over_is_refused(arena, bomb: Callable[[Path], list[str]]):
    with arena.scene() as scene:
        words = bomb(scene)
        given_away(scene)
        answer = arena.command(*words, where=scene, interrupt=LIMIT, memory=FUSE)
        assert (answer.mistakes, answer.code) == ([], 2), (
            f"{answer.seconds:.1f} s {answer.out[-200:]}\n{answer.err[-1500:]}"
        )
        assert answer.is_small, f"{answer.peak} bytes\n{answer.err}"
