"""Processes are killed at random moments, again and again: what they had finished stays as it was,
and the same call does the rest.

| killed      | what stays, and what the next call gives                                                              |
|-------------|-------------------------------------------------------------------------------------------------------|
| sweep       | every run of the manifest; the dataset of an uninterrupted sweep, to the last bit                     |
| run         | the earlier result or the new one, whole; then the new one                                            |
| observe     | the same of observations of checkpoints                                                               |
| reproduce   | the same of several experiments in processes of their own, which end with the one that is killed      |
| watch       | every observation of a step that was over, as in an uninterrupted run; `verify` finds nothing wrong   |
| checkpoints | every checkpoint, whole; training goes on to the same bits                                            |
| cache       | nothing that is taken for a corpus; the same corpus                                                   |
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.attack.harness import SIZES, wait_until_deserted
from tests.attack.seed import randomness
from tests.attack.subjects import (
    CHECKPOINTS,
    OBSERVE,
    RUN,
    make,
    read,
    steps_watched,
    train_with_checkpoints,
)
from tests.sweeps.small_sweeps import assert_same_dataset, manifest_runs, small_arguments

KINDS = ("sweep", "run", "observe", "reproduce", "watch", "checkpoints", "cache")
TOGETHER = ("reproduce", "coupling", "first-force", "--out", "results")
SHARE = -(-SIZES.kills // len(KINDS))


def drafts(folder: Path) -> list[str]:
    return [
        path.name for path in folder.rglob(".*") if path.name.endswith((".unfinished", ".replaced"))
    ]


def test_a_sweep_goes_on_where_it_was_killed(arena):
    rng = randomness("sweep")
    sweep = [*small_arguments(Path("sweep"), 20), "--workers", "1"]
    with arena.scene() as whole, arena.scene() as scene:
        uninterrupted = arena.command(*sweep, where=whole)
        assert uninterrupted.code == 0, uninterrupted.err
        finished: list[str] = []
        for _ in range(SHARE):
            arena.command(*sweep, where=scene, kill=rng.uniform(0, uninterrupted.seconds))
            before, finished = (
                finished,
                manifest_runs(scene / "sweep")
                if (scene / "sweep" / "manifest.jsonl").exists()
                else [],
            )
            assert finished[: len(before)] == before
        answer = arena.command(*sweep, where=scene)
        assert answer.code == 0, answer.err
        runs = manifest_runs(scene / "sweep")
        assert len(runs) == len(set(runs)) == 40
        assert_same_dataset(scene / "sweep", whole / "sweep")
        assert not drafts(scene)
        assert arena.command("check", "sweep", where=scene).code == 0
        manifest = (scene / "sweep" / "manifest.jsonl").read_bytes()
        assert arena.command(*sweep, where=scene).out.startswith("40 finished\n")
        assert (scene / "sweep" / "manifest.jsonl").read_bytes() == manifest


@pytest.mark.parametrize(
    ("name", "again"), [("result", (*RUN, "--out", "result")), ("observed", OBSERVE)]
)
def test_a_result_is_the_earlier_one_or_the_new_one(arena, subject, name, again):
    rng = randomness(name)
    with arena.scene(subject(name)) as scene:
        place = scene / subject(name).name
        seconds = arena.command(*again, where=place).seconds
        for _ in range(SHARE):
            arena.command(*again, where=place, kill=rng.uniform(0, seconds))
            assert arena.command("check", name, where=place).code == 0
            assert None not in arena.call(read, name, where=place).value.values()
        assert arena.command(*again, where=place).code == 0
        assert not drafts(scene)


@pytest.mark.skipif(not SIZES.thorough, reason="its processes load everything anew: seconds each")
def test_of_several_experiments_each_result_is_whole_or_not_there(arena):
    rng = randomness("reproduce")
    with arena.scene() as scene:
        whole = arena.command(*TOGETHER, where=scene)
        assert whole.code == 0, whole.err
        for number in range(SHARE):
            if number % 2:  # half of the time there is no earlier result
                shutil.rmtree(scene / "results")
            arena.command(*TOGETHER, where=scene, kill=rng.uniform(0, whole.seconds))
            wait_until_deserted(scene)
            there = [name for name in TOGETHER if (scene / "results" / name).exists()]
            assert number % 2 or len(there) == 2
            for name in there:
                assert arena.command("check", f"results/{name}", where=scene).code == 0
            assert arena.command(*TOGETHER, where=scene).code == 0
            assert arena.command("check", "results", where=scene).code == 0
            assert not drafts(scene)


def test_training_goes_on_from_a_whole_checkpoint_to_the_same_bits(arena):
    pytest.importorskip("torch")
    rng = randomness("checkpoints")
    with arena.scene() as scene:
        whole = arena.call(train_with_checkpoints, where=scene)
        assert whole.code == 0, whole.err
        saved = sorted(path.name for path in (scene / CHECKPOINTS).iterdir())
    with arena.scene() as scene:
        before: list[str] = []
        for _ in range(SHARE):
            arena.call(train_with_checkpoints, where=scene, kill=rng.uniform(0, whole.seconds))
            there = sorted(path.name for path in (scene / CHECKPOINTS).glob("checkpoint-*"))
            assert there[: len(before)] == before
            before = there
            assert not there or arena.command("check", CHECKPOINTS, where=scene).code == 0
        answer = arena.call(train_with_checkpoints, where=scene)
        assert (answer.code, answer.value) == (0, whole.value), answer.err
        assert (
            sorted(path.name for path in (scene / CHECKPOINTS).iterdir()) == saved
        )  # and no draft


def test_a_watched_run_keeps_what_was_over(arena):
    pytest.importorskip("torch")
    rng = randomness("watch")
    with arena.scene() as scene:
        seconds = arena.call(make, "watched", where=scene).seconds
        reference = arena.call(steps_watched, where=scene).value
    for _ in range(SHARE):
        with arena.scene() as scene:
            killed = arena.call(make, "watched", where=scene, kill=rng.uniform(0, seconds))
            over = killed.out.count("step")
            if over:
                found = arena.call(steps_watched, where=scene)
                assert found.code == 0, found.err
                assert len(found.value) >= over
                assert found.value == {step: reference[step] for step in found.value}
                assert arena.command("check", "watched", where=scene).code == 0


def test_a_cache_is_never_half_a_corpus(arena, subject):
    rng = randomness("cache")
    reference = arena.call(read, "cache", where=subject("cache"))
    for _ in range(SHARE):
        with arena.scene() as scene:
            arena.call(make, "cache", where=scene, kill=rng.uniform(0, reference.seconds))
            answer = arena.call(make, "cache", where=scene)
            assert answer.code == 0, answer.err
            assert arena.call(read, "cache", where=scene).value == reference.value
            assert not drafts(scene)
