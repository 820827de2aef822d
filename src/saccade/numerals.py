"""Numbers as people write them: a true minus, powers of ten, `missing` for NaN. The pages do the
same in chart_scales.js.
"""

from __future__ import annotations

import math
import re

_POWER = re.compile(r"(-?[\d.]+)e([-+]\d+)(.*)")
_PLAIN = 99_999.5  # smaller ones are written out
_IN_TEXT = re.compile(r"(?<![\w.])\d+(?:\.\d+)?e[-+]?\d+(?!\w)")
_MINUS = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def numeral(value: float, form: str = ".4g") -> str:
    """`−0.25`, `12000`, `3×10⁻⁸`; `form` as Python formats numbers, by default four digits and no
    more zeros than are needed.
    """
    if math.isnan(value):
        return "missing"
    text = format(value, form)
    if 1 <= abs(value) < _PLAIN and "e" in text:
        text = format(float(text), "g")
    if found := _POWER.fullmatch(text):
        front, power = found[1], f"10{str(int(found[2])).translate(_RAISED)}"
        text = (power if front == "1" else f"{front}×{power}") + found[3]
    return text.replace("-", "−").replace("inf", "∞")


def numerals_in(text: str) -> str:
    """A text with its numbers as people write them: `stay −0.05`, `t = 3×10⁵`, `d − 1`; hyphens in
    names stay.
    """
    return _MINUS.sub("−", _IN_TEXT.sub(lambda found: numeral(float(found[0]), "g"), text)).replace(
        " - ", " − "
    )
