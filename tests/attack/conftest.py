"""The place that all attacks are made in, and what they are made on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.attack.harness import Arena, given_away, new_arena
from tests.attack.seed import IS_FULL, REPEAT
from tests.attack.subjects import make


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if IS_FULL:
        terminalreporter.write_line(REPEAT)


def pytest_sessionstart(session: pytest.Session) -> None:
    """At once too: whoever interrupts the attacks, or kills them, needs the seed as well."""
    if IS_FULL and not hasattr(session.config, "workerinput"):
        print(REPEAT, flush=True)


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    with new_arena() as made:
        yield made


@pytest.fixture(scope="session")
def subject(arena) -> Callable[[str], Path]:
    """From the name of a subject to the folder it was made in, which nobody changes."""

    @cache
    def made(name: str) -> Path:
        place = arena.folder / f"of-{name}"
        place.mkdir()
        given_away(place)
        answer = arena.call(make, name, where=place)
        assert answer.code == 0, answer.err
        return place

    return made
