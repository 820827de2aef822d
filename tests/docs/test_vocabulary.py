"""One word for one thing in what people read: a model is *observed*, and what comes of it is an
observation, not a look.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOOK = re.compile(r"\b[Ll]ooks?\b(?! (at|like|for|up|back|there|where|whether|in)\b)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def messages(file: Path) -> Iterator[str]:
    """Sentences that a program may print: texts that are no docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in said
            and " " in node.value.strip()
        ):
            yield node.value


def test_messages_speak_of_observations():
    files = sorted((ROOT / "src").rglob("*.py"))
    axes = {
        "optimiser seed look",
        "optimiser look",
        "text seed look",
        "text reading seed look",
        "model repetition look query token",
    }
    axes |= {"model look", "look class other_class", "look class", "gradient look"}
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in files
        if file.name != "probe.py"  # a text to read, about eyes
        for text in messages(file)
        if text not in axes and LOOK.search(re.sub(r"`\w*looks\w*`", "", text))
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_speak_of_observations(page):
    words = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))
    assert not re.search(
        r"\b(\d+|some|all|few|many|every|each|first|last|skipped|of|the) looks?\b(?! (at|like|where)\b)",
        words,
    )


FRONT = [ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "results.md"]
BANNED = (
    r"cannot be told|as expected|\btold\b|was asked|\bof ours\b|\banew\b|\balike\b|\bbeside\b|\bso many\b"
    r"|\bgoes on\b|no longer|not what was written|\d outside\b|(?<!conservation )\blaws?\b|(?<![\w.])\.\d"
)


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_the_first_pages_are_in_plain_words(page):
    words = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))
    assert re.findall(BANNED, words, re.IGNORECASE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_the_circumstances_of_a_measurement(page):
    text = " ".join(page.read_text(encoding="utf-8").split())
    said = r"(?:busy|idle) (?:machine|core|two-core)|other (?:work|jobs)|a long run\b|lowest priority|\.\./shared"
    assert re.findall(said, text) == []
