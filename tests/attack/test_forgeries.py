"""One value in one JSON file is replaced, and every checksum is made to fit: readers give some
answer or a sentence.

Whoever can write to a folder can do this, and `verify` cannot tell. So nothing that is read back
may end in a traceback, take memory without end or lead out of the folder, whatever it says.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from saccade.records.writing import CHECKSUMS
from tests.attack.harness import FUSE, SIZES, copied
from tests.attack.seed import randomness
from tests.attack.subjects import SUBJECTS, read

VALUES = (
    None,
    True,
    -1,
    0,
    10**400,
    2**63,
    -1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "NaN",
    "x" * 10**5,
    "../../thesis",
    "/etc/passwd",
    "<script>",
    "\0",
    "\ud800",
    "٣",
    [],
    [[]],
    {},
    {"a": [None]},
)
_SEAL = re.compile(rb'\{\n "sha256": "[0-9a-f]{64}",\n')


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there is something to replace: all of it, and every part."""
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [above] + [place for key, part in parts for place in places(part, (*above, key))]


def replaced(value: Any, rng: random.Random) -> tuple[Any, str]:
    """The value with one part replaced, and what was put where, in words."""
    place, other = rng.choice(places(value)), rng.choice(VALUES)
    whole = {"": value}
    part: Any = whole
    for key in ("", *place)[:-1]:
        part = part[key]
    part[("", *place)[-1]] = other
    return whole[""], f"{list(place)} is {str(other)[:20]!r}"


def forged(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """The file with one value replaced, and with the checksum that it may carry within."""
    if content.startswith(b'{"check":"'):  # lines of a manifest
        lines = content.splitlines()
        number = rng.randrange(len(lines))
        read = json.loads(lines[number])
        del read["check"]
        read, words = replaced(read, rng)
        body = json.dumps(read, separators=(",", ":"))[1:]
        lines[number] = (
            f'{{"check":"{hashlib.sha256(body.encode()).hexdigest()[:16]}",{body}'.encode()
        )
        return b"\n".join(lines) + b"\n", words
    read = json.loads(content)
    sealed = _SEAL.match(content)
    if sealed:
        del read["sha256"]
    read, words = replaced(read, rng)
    text = json.dumps(read, indent=1).encode()
    if sealed:
        text = b'{\n "sha256": "%s",\n%s' % (
            hashlib.sha256(text[2:]).hexdigest().encode(),
            text[2:],
        )
    return text, words


def seal_again(folder: Path) -> None:
    """All checksums of files that are there, those of inner folders first."""
    for listing in sorted(folder.rglob(CHECKSUMS), key=lambda path: -len(path.parts)):
        written = json.loads(listing.read_bytes())
        if isinstance(written, dict):
            there = {name: listing.parent / name for name in written if name and "\0" not in name}
            hashes = {
                name: hashlib.sha256(path.read_bytes()).hexdigest()
                for name, path in there.items()
                if path.is_file()
            }
            listing.write_text(json.dumps(written | hashes))


def is_json(path: Path) -> bool:
    return path.is_file() and (path.suffix in (".json", ".jsonl") or path.name.startswith(".z"))


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_file_that_says_something_else_is_read_or_refused(arena, subject, name):
    rng, pristine = randomness(name), subject(name) / name
    files = sorted(str(path.relative_to(pristine)) for path in pristine.rglob("*") if is_json(path))
    listings = {
        file: rng.random() for file in files if ".zarr/" not in file or file.endswith(".zmetadata")
    }  # arrays have many
    wrong = []
    with arena.scene(subject(name)) as scene:
        place = scene / subject(name).name
        for _ in range(SIZES.forgeries):
            shutil.rmtree(place / name)
            copied(pristine, place / name)
            file = rng.choice(sorted(listings))
            content, words = forged((place / name / file).read_bytes(), rng)
            (place / name / file).write_bytes(content)
            if Path(file).name != CHECKSUMS:
                seal_again(place / name)
            answer = arena.call(partial(read, name), where=place, memory=FUSE)
            if answer.code != 0 or "Traceback" in answer.err or not answer.is_small:
                wrong.append(
                    f"{name}/{file}: {words}: {answer.code}, {answer.seconds:.1f} s, {answer.peak}\n{answer.err[-1500:]}"
                )
    assert not wrong, "\n".join(wrong)
