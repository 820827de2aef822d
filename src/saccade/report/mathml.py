r"""LaTeX to MathML, for the subset that the statements use: an offline page has no other way to
show formulas.

Indices, powers, primes, `\frac`, `\sqrt`, `\text`, `\mathrm`, accents, sums with what they run
over, and the symbols of `_SYMBOLS`. A command that is not known is an error, so that nothing is
lost in silence.
"""

from __future__ import annotations

import html
import re

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S")
_GREEK = {  # and ℓ
    **{
        "alpha": "α",
        "beta": "β",
        "gamma": "γ",
        "delta": "δ",
        "epsilon": "ϵ",
        "zeta": "ζ",
        "eta": "η",
        "theta": "θ",
        "iota": "ι",
    },
    "ell": "ℓ",
    **{
        "kappa": "κ",
        "lambda": "λ",
        "mu": "μ",
        "nu": "ν",
        "xi": "ξ",
        "pi": "π",
        "rho": "ρ",
        "sigma": "σ",
        "tau": "τ",
        "phi": "ϕ",
    },
    **{
        "chi": "χ",
        "psi": "ψ",
        "omega": "ω",
        "Gamma": "Γ",
        "Delta": "Δ",
        "Theta": "Θ",
        "Phi": "Φ",
        "Psi": "Ψ",
        "Omega": "Ω",
    },
}
_SYMBOLS = {
    **{
        "le": "≤",
        "ge": "≥",
        "ll": "≪",
        "gg": "≫",
        "ne": "≠",
        "approx": "≈",
        "sim": "∼",
        "lesssim": "≲",
        "propto": "∝",
        "in": "∈",
    },
    **{
        "to": "→",
        "Rightarrow": "⇒",
        "circ": "∘",
        "cdot": "·",
        "times": "×",
        "pm": "±",
        "mid": "|",
        "top": "⊤",
        "perp": "⊥",
    },
    **{
        "parallel": "∥",
        "langle": "⟨",
        "rangle": "⟩",
        "partial": "∂",
        "infty": "∞",
        "ldots": "…",
        "sum": "∑",
        "int": "∫",
    },
    **{"{": "{", "}": "}", "|": "‖", "nabla": "∇"},
}
_FUNCTIONS = ("exp", "ln", "log", "max", "min", "cos", "sin", "tan", "sup")
_NAMED = {rf"\{name}" for name in (*_FUNCTIONS, "mathrm")}
_ACCENTS = {  # of a dot over a letter browsers leave a grey pixel; a full stop can be set large
    "dot": '<mo mathsize="1.6em">.</mo>',
    "hat": "<mo>^</mo>",
    "tilde": "<mo>~</mo>",
    "bar": "<mo>¯</mo>",
}
_SPACES = {"quad": "1em", ",": ".17em", ";": ".28em", " ": ".25em"}
_INDEXED = {(True, False): "msub", (False, True): "msup", (True, True): "msubsup"}


def mathml(latex: str) -> str:
    """One displayed equation."""
    return f'<math display="block">{_Reader(latex).row()}</math>'


class _Reader:
    """Reads LaTeX from the left; every method takes what it needs and returns one element."""

    def __init__(self, latex: str) -> None:
        self.latex, self.place = latex, 0

    def peek(self) -> str:
        found = _TOKEN.search(self.latex, self.place)
        return found[0] if found else ""

    def take(self) -> str:
        found = _TOKEN.search(self.latex, self.place)
        if not found:
            raise ValueError(f"this formula ends too early: {self.latex}")
        self.place = found.end()
        return found[0]

    def row(self, end: str = "") -> str:
        parts = []
        while self.peek() != end:
            parts.append(self.item())
        if end:
            self.take()
        return f"<mrow>{''.join(parts)}</mrow>"

    def item(self) -> str:
        """An element with its primes, index and power, in whatever order the last two stand."""
        first, base = self.peek(), self.element()
        index: list[str] = []
        power: list[str] = []
        while (mark := self.peek()) in ("_", "^", "'"):
            self.take()
            (index if mark == "_" else power).append(
                "<mo>′</mo>" if mark == "'" else self.element()
            )
        if index or power:
            tag = _INDEXED[bool(index), bool(power)]
            if first == r"\sum":
                tag = tag.replace("sub", "under").replace("sup", "over")
            base = f"<{tag}>{base}{_one(index)}{_one(power)}</{tag}>"
        # a function stands apart from its argument unless that is in parentheses
        apart = first in _NAMED and self.peek() not in ("", "(", ")", "}", ",")
        return base + '<mspace width=".17em"/>' if apart else base

    def element(self) -> str:
        word = self.take()
        if word == "{":
            return self.row("}")
        if word == "}":
            raise ValueError(f"this formula closes a brace too many: {self.latex}")
        if word[0] == "\\":
            return self.command(word[1:])
        if word[0].isdigit():
            return f"<mn>{word}</mn>"
        if word.isalpha():
            return f"<mi>{word}</mi>"
        if word in "|/":  # bars and slashes are set tight
            return f'<mo lspace="0" rspace="0">{word}</mo>'
        return f"<mo>{'−' if word == '-' else html.escape(word)}</mo>"

    def command(self, name: str) -> str:
        if name in _GREEK:
            return f"<mi>{_GREEK[name]}</mi>"
        if name in _SYMBOLS:
            return f"<mo>{_SYMBOLS[name]}</mo>"
        if name in _FUNCTIONS:
            return f"<mi>{name}</mi>"
        if name in _SPACES:
            return f'<mspace width="{_SPACES[name]}"/>'
        if (
            name in _ACCENTS
        ):  # not an accent in MathML: fonts without mathematics would put the dot into the letter
            return f"<mover>{self.element()}{_ACCENTS[name]}</mover>"
        if name == "frac":
            return f"<mfrac>{self.element()}{self.element()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.element()}</msqrt>"
        if name == "text":
            return f"<mtext>{html.escape(self.words()).replace(' ', '&#160;')}</mtext>"
        if name == "mathrm":
            return f"<mi>{html.escape(self.words())}</mi>"
        raise ValueError(f"there is no MathML for \\{name} in {self.latex}")

    def words(self) -> str:
        """What stands in the next braces, as it is."""
        if not (found := re.compile(r"\s*\{([^{}]*)\}").match(self.latex, self.place)):
            raise ValueError(f"words must stand in braces: {self.latex}")
        self.place = found.end()
        return found[1]


def _one(elements: list[str]) -> str:
    """Several elements as one argument, such as primes and a power."""
    return (
        elements[0]
        if len(elements) == 1
        else f"<mrow>{''.join(elements)}</mrow>"
        if elements
        else ""
    )
