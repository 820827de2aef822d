"""Training and validation text of a source in one stream; without a validation file the end of the
text is held out.

Held out is about the last twentieth of the characters. It begins where a document begins, so that
none is on both sides; if no document begins that late, with a line; then with a word. A text too
short for that gives its last document, line or word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from saccade.data.text.files import Piece
from saccade.data.text.sources import Source

_HELD_OUT = 20  # one part in so many


class Held(NamedTuple):
    """Held-out text begins at the first `boundary` that is at least `after` characters into the
    text; if "", just there.
    """

    after: int
    boundary: str


def split_text_stream(source: Source) -> Iterator[tuple[str, str]]:
    """Pairs of "train" or "valid" and a piece of text, all of train first."""
    if source.valid:
        for part in ("train", "valid"):
            yield from ((part, piece.text) for piece in source.pieces(part))
        return
    # One pass over the text: its length, and which boundaries there are late in it.
    total = 0
    last = {"document": 0, "\n": 0, " ": 0}
    for each in source.pieces("train"):
        if each.begins:
            last["document"] = total
        for blank in ("\n", " "):
            inside = each.text.rfind(blank, 0, len(each.text) - 1)
            last[blank] = total + inside + 1 if inside >= 0 else last[blank]
        total += len(each.text)
    after = total - total // _HELD_OUT
    boundary = next((boundary for boundary, place in last.items() if place >= after), "")
    held = Held(after if boundary else max(last.values()) or after, boundary)
    part, place = "train", 0
    for piece in source.pieces("train"):
        cut = _cut_in(piece, held, place) if part == "train" else None
        place += len(piece.text)
        if cut is None:
            yield part, piece.text
            continue
        if cut > 0:
            yield "train", piece.text[:cut]
        part = "valid"
        yield part, piece.text[cut:]


def _cut_in(piece: Piece, held: Held, place: int) -> int | None:
    """Where in this piece, which starts at `place`, held-out text begins; None: not in it."""
    from_here = max(0, held.after - place)
    if held.boundary == "document":
        return 0 if piece.begins and from_here == 0 else None
    if from_here >= len(piece.text):
        return None
    if not held.boundary:
        return from_here
    found = piece.text.find(held.boundary, max(0, from_here - 1), len(piece.text) - 1)
    return found + 1 if found >= 0 else None
