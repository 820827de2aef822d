"""One bit of one file is flipped: every reader then gives what it gave before, or says that
something is damaged.

`saccade check` finds every flip, except in pages of reports, which are drawn from what it does
check. A corpus in the cache is made again.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.attack.harness import SIZES, Answer, copied
from tests.attack.seed import randomness
from tests.attack.subjects import SUBJECTS, read


def chosen(folder: Path, rng: random.Random) -> list[str]:
    """Files in a random order, as many as this subject's share of the flips: each once, then any;
    each at least, if thorough.
    """
    files = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size
    )
    share = SIZES.flips // len(SUBJECTS)
    return [*rng.sample(files, len(files)), *rng.choices(files, k=share)][
        : max(share, len(files) * SIZES.thorough)
    ]


def flipped(path: Path, rng: random.Random) -> str:
    """Which bit, in words."""
    content = bytearray(path.read_bytes())
    place, bit = rng.randrange(len(content)), rng.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {place}"


def silence(before: Answer, after: Answer, file: str) -> list[str]:
    """What is wrong with what the readers say after a flip in this file."""
    if after.code != 0 or "Traceback" in after.err:
        return [f"code {after.code}: {after.err[-500:]}"]
    other = [
        reader for reader, found in after.value.items() if found not in (None, before.value[reader])
    ]
    unseen = after.value.get("check") is not None and not file.endswith("report.html")
    return [f"{reader} gives another answer" for reader in other] + [
        "verify says that all is whole"
    ] * unseen


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_flip_is_silent(arena, subject, name):
    rng, pristine = randomness(name), subject(name) / name
    wrong = []
    with arena.scene(subject(name)) as scene:
        place = scene / subject(name).name
        before = arena.call(read, name, where=place)
        assert before.code == 0, before.err
        assert None not in before.value.values(), before
        for file in chosen(pristine, rng):
            shutil.rmtree(place / name)
            copied(pristine, place / name)
            flip = flipped(place / name / file, rng)
            found = silence(before, arena.call(read, name, where=place), file)
            wrong += [f"{flip} of {name}/{file}: {', '.join(found)}"] * bool(found)
    assert not wrong, "\n".join(wrong)
