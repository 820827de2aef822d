"""Whatever is typed by whoever: an exit code and, for a refusal, a sentence. No traceback, nothing
lost, nothing left behind.

Lines that work are made wrong word by word, and every setting of every synthetic experiment gets
values that it may not have. All paths are names in the folder of the line: no word leads out of it.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from itertools import islice
from pathlib import Path

from saccade.experiments import SYNTHETIC, experiment
from tests.attack.harness import GIGABYTE, NOBODY, SIZES, Arena, given_away
from tests.attack.seed import randomness
from tests.attack.subjects import BUILT_IN, CLASSES, NAME, RUN, TEXT
from tests.sweeps.small_sweeps import small_arguments

SWEEP = tuple(small_arguments(Path("out"), 2, "--workers", "1"))
LINES = (
    (*RUN, "--out", "out"),
    (*SWEEP,),
    (*SWEEP, "--plan"),
    ("sweep", "--status", "sweep", "--json"),
    ("check", "sweep", "--repair", "--file", NAME, "--workers", "1"),
    ("check", "result"),
    ("check", "watched", "--json"),
    ("report", "result", "sweep", "watched", "forecast", "--out", "page.html"),
    ("forecast", "sky.csv", "--out", "out", "--width", "4"),
    ("forecast", "text.txt", "--queries", "2", "--n-vocab", "20", "--out", "out"),
    ("observe", "checkpoints", "--heads", "2", "--out", "out"),
    ("reproduce", BUILT_IN, "--out", "out"),
    ("list", "--json"),
    ("completion", "zsh"),
    ("play", "--no-browser", "--port", "0"),
)
COMPUTE = (
    "run",
    "sweep",
    "forecast",
    "observe",
    "reproduce",
    "play",
)  # what may be interrupted; the rest must end by itself
NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "0.5",
    "1e30",
    "1" + "0" * 30,
    "1" + "0" * 400,
    "-1e400",
    "1e-320",
    "200000",
    "٣",
    "1,2",
)
SIGNS = ("=", ",", ":", "..", ":log", ":log3", ":-1", ":10000000000", "'")
AXES = (
    "1..2",
    "2..1:3",
    "1..10:log8",
    "-1..1:log3",
    "0..1e400:3",
    "1..2:0",
    "1..9999999999",
    "nan..1:3",
    "-1e308..1e308:3",
)
AXES += ("True,False", "(1,2)", "[1],[2]")
NAMES = (
    "result",
    "sweep",
    "watched",
    "thesis",
    "pipe",
    "loop",
    "link",
    "socket",
    "deep.json",
    "wide.csv",
    "noise.csv",
    "empty.csv",
)
WORDS = (
    "",
    " ",
    "-",
    "--",
    "--out",
    "--json",
    "--help",
    "a\nb",
    "\x1b[31m",
    "\udcff",
    "n" * 300,
    "n/" * 3000,
    "~nosuchuser/x",
    "[x]",
)


def settings() -> list[tuple[str, str]]:
    """Every setting of every synthetic experiment."""
    return [(name, field.name) for name in SYNTHETIC for field in fields(experiment(name).settings)]  # type: ignore[arg-type]


def lines(settings: list[tuple[str, str]], rng: random.Random) -> Iterator[tuple[str, ...]]:
    for name, setting in rng.sample(settings, len(settings)):
        yield ("run", name, f"--{setting.replace('_', '-')}", rng.choice(NUMBERS), "--out", "out")
        yield swept(name, setting, rng)
        yield spoilt(rng.choice(LINES), rng)
    while True:
        yield spoilt(rng.choice(LINES), rng)


def swept(name: str, setting: str, rng: random.Random) -> tuple[str, ...]:
    """A sweep with a value inside `--over` or `--setting` that may be no value, or one of the usual
    ones made wrong.
    """
    option, word = (
        rng.choice(("--over", "--setting")),
        f"{setting}={rng.choice(rng.choice((NUMBERS, AXES, WORDS)))}",
    )
    if rng.random() < 0.5:
        word = altered(
            rng.choice((f"{setting}=1,2", f"{setting}=1..10:log8", "ratio=0..1:3", "seed=0..3")),
            rng,
        )
    return (
        "sweep",
        name,
        option,
        word,
        *rng.choice((("--plan",), ("--workers", "1"))),
        "--out",
        "out",
    )


def altered(word: str, rng: random.Random) -> str:
    """A word with one of its parts replaced, left out or doubled: `lr_decoder=1,2` has five."""
    parts = re.split(r"([=,:]|\.\.)", word)
    place, other = rng.randrange(len(parts)), rng.choice((*NUMBERS, *SIGNS, *WORDS))
    parts[place : place + 1] = rng.choice(([other], [], [parts[place]] * 2, [parts[place], other]))
    return "".join(parts)


def spoilt(line: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    """Up to three words of a line replaced, left out, doubled or followed by another."""
    words = list(line)
    for _ in range(rng.randint(1, 3)):
        place, other = rng.randrange(len(words)), rng.choice(rng.choice((NUMBERS, NAMES, WORDS)))
        words[place : place + 1] = rng.choice(
            ([other], [] if place else [""], [words[place]] * 2, [words[place], other])
        )
    return tuple(words)


def with_strangers(scene: Path) -> None:
    """Files of others, and all that can pass for a file."""
    (scene / "thesis").mkdir()
    (scene / "thesis" / "thesis.tex").write_text("years of work")
    os.mkfifo(scene / "pipe")
    (scene / "loop").symlink_to("loop")
    (scene / "link").symlink_to("thesis/thesis.tex")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(scene / "socket"))
    (scene / "deep.json").write_text("[" * 100_000)
    (scene / "wide.csv").write_text("class,a\nx," + "1" * 200_000)
    (scene / "noise.csv").write_bytes(random.Random(0).randbytes(1000))
    (scene / "empty.csv").touch()
    (scene / "sky.csv").write_text(CLASSES)
    (scene / "text.txt").write_text(TEXT)
    (scene / "checkpoints").mkdir()
    given_away(scene)


def precious(scene: Path) -> dict[str, tuple[int, bytes]]:
    """What no command may change: files that Saccade did not write, finished runs and finished
    observations.
    """
    special = [scene / name for name in ("pipe", "loop", "link", "socket")]
    kept = [
        scene / "thesis" / "thesis.tex",
        *(scene / "sweep" / "runs").iterdir(),
        *(scene / "watched" / "observations").iterdir(),
    ]
    found = {
        path: (stat.S_IFMT(path.lstat().st_mode), b"" if path in special else path.read_bytes())
        for path in [*special, *kept]
    }
    return {str(path.relative_to(scene)): facts for path, facts in found.items()}


def attacked(arena: Arena, sources: list[Path], line: tuple[str, ...]) -> str:
    """What was wrong, in words; nothing if nothing was."""
    with arena.scene(*sources) as scene:
        with_strangers(scene)
        before = precious(scene)
        patience = SIZES.patience if line[0] in COMPUTE else None
        answer = arena.command(*line, where=scene, interrupt=patience, memory=4 * GIGABYTE)
        wrong = answer.mistakes
        try:
            wrong += [
                f"{name} is not what it was"
                for name, facts in precious(scene).items()
                if before.get(name, facts) != facts
            ]
            wrong += [f"{name} is lost" for name in before.keys() - precious(scene).keys()]
        except OSError as error:
            wrong.append(str(error))
        wrong += [
            f"{path.name} is left"
            for path in scene.rglob(".*")
            if re.search(r"\.(unfinished|replaced)$", path.name)
        ]
    return f"{shlex.join(line)}: {'; '.join(wrong)}\n{answer.err[-1500:]}" if wrong else ""


def test_no_command_line_ends_in_a_traceback_or_loses_a_file(arena, subject):
    sources = [subject(name) / name for name in ("result", "sweep", "watched", "forecast")]
    asked = islice(lines(arena.call(settings).value, randomness("lines")), SIZES.lines)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [
            found for found in pool.map(lambda line: attacked(arena, sources, line), asked) if found
        ]
    assert not wrong, "\n".join(wrong)


def test_a_user_without_a_name_and_a_home_is_served(arena, subject):
    for words in (
        ["list"],
        ["env"],
        ["check", "result"],
        ["report", "result", "--out", "page.html"],
    ):
        answer = arena.command(*words, where=subject("result"), user=NOBODY - 1, home=False)
        assert not answer.mistakes, answer.err
        assert answer.code == (2 if words[0] == "report" and os.getuid() == 0 else 0), answer.err
