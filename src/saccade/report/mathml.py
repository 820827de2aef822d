"""MathML in a few words: `row("a = b", frac("1", "K"))` instead of a dozen tags.

In a plain string letters become identifiers, digits numbers, 'quoted words' text, all else operators; a letter before `_` or `^`
takes the next letter, digit or {group} as its index or power. Nothing of a record ever goes through here.
"""

from __future__ import annotations

import html
import re

_TOKEN = re.compile(r"'[^']*'|\d+(?:\.\d+)?|[^\W\d_][\u0300-\u036f]*'*|ln|\S", re.UNICODE)
_FUNCTIONS = ("softmax", "exp", "ln", "log", "diag", "Cov", "Var", "max", "min", "cos", "sup", "LN", "erank")
_WORD = re.compile("|".join(_FUNCTIONS))


def equation(*parts: str) -> str:
    """One displayed equation."""
    return f'<math display="block">{row(*parts)}</math>'


def row(*parts: str) -> str:
    return f"<mrow>{''.join(_markup(part) for part in parts)}</mrow>"


def frac(above: str, below: str) -> str:
    return f"<mfrac>{row(above)}{row(below)}</mfrac>"


def sub(base: str, index: str) -> str:
    return f"<msub>{row(base)}{row(index)}</msub>"


def sup(base: str, power: str) -> str:
    return f"<msup>{row(base)}{row(power)}</msup>"


def both(base: str, index: str, power: str) -> str:
    return f"<msubsup>{row(base)}{row(index)}{row(power)}</msubsup>"


def root(inside: str) -> str:
    return f"<msqrt>{row(inside)}</msqrt>"


def total(under: str, over: str = "") -> str:
    """A sum sign with what it runs over."""
    if over:
        return f"<munderover><mo>∑</mo>{row(under)}{row(over)}</munderover>"
    return f"<munder><mo>∑</mo>{row(under)}</munder>"


def rate(letter: str, index: str = "") -> str:
    """A letter with the dot of a time derivative."""
    dotted = f"<mover>{row(letter)}<mo>˙</mo></mover>"  # not an accent: fonts without mathematics would put the dot into the letter
    return f"<msub>{dotted}{row(index)}</msub>" if index else dotted


def said(words: str) -> str:
    return f"<mtext>{html.escape(words)}</mtext>"


def _markup(part: str) -> str:
    return part if re.match("<m", part) else _parsed(part)


def _parsed(text: str) -> str:
    """A plain string: tokens one after the other, `_` and `^` binding to the one before."""
    words = re.findall(rf"{_WORD.pattern}|{_TOKEN.pattern}", text)
    done: list[str] = []
    place = 0
    while place < len(words):
        tag = {"_": "msub", "^": "msup"}.get(words[place])
        if tag and done:
            inside, place = _argument(words, place + 1)
            done.append(f"<{tag}>{done.pop()}{inside}</{tag}>")
        else:
            done.append(_leaf(words[place]))
            place += 1
    return "".join(done)


def _argument(words: list[str], place: int) -> tuple[str, int]:
    """The argument that begins at `place`, as one element, and the place after it."""
    if words[place] != "{":
        return _leaf(words[place]), place + 1
    depth, end = 1, place + 1
    while depth:
        depth += (words[end] == "{") - (words[end] == "}")
        end += 1
    return row(" ".join(words[place + 1 : end - 1])), end


def _leaf(word: str) -> str:
    if word.startswith("'") and word.endswith("'") and len(word) > 1:
        return f"<mtext>{html.escape(word[1:-1]).replace(' ', '&nbsp;')}</mtext>"
    if word[0].isdigit():
        return f"<mn>{word}</mn>"
    if word.endswith("'"):
        return f"<msup><mi>{word.rstrip(chr(39))}</mi><mo>{'′' * word.count(chr(39))}</mo></msup>"
    if word in _FUNCTIONS or word[0].isalpha():
        return f"<mi>{html.escape(word, quote=False)}</mi>"
    return f"<mo>{html.escape(word)}</mo>"
