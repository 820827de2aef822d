"""The disk fills up: training goes on, commands end with a sentence, what was finished stays.

With room again the same call does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attack.harness import SIZES, Answer, given_away
from tests.attack.subjects import (
    CHECKPOINTS,
    CLASSES,
    N_STEPS,
    RUN,
    TEXT,
    fill,
    make,
    read,
    steps_watched,
    train,
    train_with_checkpoints,
)
from tests.sweeps.small_sweeps import assert_same_dataset, small_disk

SIZE = 2**23  # bytes of the disk
ROOM = [
    2**12 * 2**i for i in range(SIZES.disks)
]  # bytes left free: 4 kB to 128 kB, less than what is asked for needs


@contextmanager
def new_disk(place: Path) -> Iterator[Path]:
    with small_disk(place, str(SIZE)) as made:
        if not made:
            pytest.skip("this system does not let us mount a disk of our own")
        (place / "sky.csv").write_text(CLASSES)
        (place / "text.txt").write_text(TEXT)
        given_away(place)
        yield place


@pytest.fixture(scope="module")
def undisturbed(arena) -> Answer:
    pytest.importorskip("torch")
    return arena.call(train, None)


@pytest.mark.parametrize("until", [None, N_STEPS - 2], ids=["to the end", "for a while"])
@pytest.mark.parametrize("room", ROOM)
def test_training_goes_on_and_what_was_seen_is_saved_when_there_is_room_again(
    arena, subject, undisturbed, room, until
):
    with arena.scene() as scene, new_disk(scene / "disk") as disk:
        answer = arena.call(train, "watched", room, until, where=disk)
        assert (answer.code, answer.value) == (0, undisturbed.value), answer.err
        assert "Traceback" not in answer.err
        seen, whole = (
            arena.call(steps_watched, where=place).value for place in (disk, subject("watched"))
        )
        assert seen == (whole if until else {step: whole[step] for step in seen})
        assert arena.command("check", "watched", where=disk).code == 0


@pytest.mark.parametrize("room", ROOM)
def test_training_goes_on_without_checkpoints_and_those_that_were_written_stay(arena, room):
    pytest.importorskip("torch")
    with arena.scene() as scene, new_disk(scene / "disk") as disk:
        whole, answer = (
            arena.call(train_with_checkpoints, *given, where=where)
            for given, where in (((), scene), ((room,), disk))
        )
        assert (answer.code, answer.value) == (0, whole.value), answer.err
        assert "Traceback" not in answer.err
        assert "a checkpoint could not be written" in answer.err
        assert (disk / CHECKPOINTS / "checkpoint-000000000000").is_dir()
        assert arena.command("check", CHECKPOINTS, where=disk).code == 0
        (disk / "ballast").unlink()
        again = arena.call(train_with_checkpoints, where=disk)
        assert (again.code, again.value) == (0, whole.value), again.err


@pytest.mark.parametrize("room", ROOM)
def test_an_earlier_result_stays(arena, room):
    again = [*RUN, "--out", "result"]
    with arena.scene() as scene, new_disk(scene / "disk") as disk:
        assert arena.command(*again, where=disk).code == 0
        fill(disk, room)
        answer = arena.command(*again, where=disk)
        assert (answer.mistakes, answer.code) == ([], 2), answer.err
        assert arena.command("check", "result", where=disk).code == 0
        (disk / "ballast").unlink()
        assert arena.command(*again, where=disk).code == 0


@pytest.mark.parametrize("name", ["cache", "forecast", "sweep"] if SIZES.thorough else ["cache"])
@pytest.mark.parametrize("room", ROOM)
def test_what_was_refused_is_made_when_there_is_room_again(arena, subject, name, room):
    with arena.scene() as scene, new_disk(scene / "disk") as disk:
        fill(disk, room)
        answer = arena.call(make, name, where=disk)
        assert answer.code == 0 or re.search("(InputError|saccade): cannot write", answer.err), (
            answer.err
        )
        (disk / "ballast").unlink()
        answer = arena.call(make, name, where=disk)
        assert answer.code == 0, answer.err
        assert None not in arena.call(read, name, where=disk).value.values()
        if name == "sweep":
            assert_same_dataset(disk / "sweep", subject("sweep") / "sweep")
