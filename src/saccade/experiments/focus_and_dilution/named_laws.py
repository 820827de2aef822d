"""Lazy chains as a user names them: the settings `laws` and `stays` of the experiments on stages
and critical points.

| a law                | is                                                                        |
|----------------------|---------------------------------------------------------------------------|
| `paper`              | the published one, 0.75, 0.19, 0.05, 0.01                                 |
| `zipf-6`             | six tokens in proportion to 1/rank                                        |
| `0.6 of 4`           | four tokens, the first of mass 0.6, the others alike; `0.6-of-4` too      |
| `0.5,0.3,0.2`        | these masses, from frequent to rare                                       |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import saccade
from saccade.errors import InputError, shortened

_EQUAL = re.compile(r"(\d*\.?\d+)[ -]of[ -](\d+)")
_ZIPF = re.compile(r"zipf-(\d+)")
_MASSES = re.compile(r"\d*\.?\d+(e-?\d+)?(,\d*\.?\d+(e-?\d+)?)+")
FORMS = "paper, zipf-6, '0.6 of 4' (token 0 has 0.6, the others share the rest equally) or frequencies such as 0.5,0.3,0.2"


class EqualLow(NamedTuple):
    """Token 0 of mass `high`, the other `n_vocab` - 1 tokens alike, and the chance of repeating the
    last token.
    """

    high: float
    n_vocab: int
    stay: float

    @property
    def chain(self) -> saccade.MarkovChain:
        return saccade.MarkovChain.two_level(self.n_vocab, self.high, stay=self.stay)

    @property
    def law(self) -> dict[str, Any]:
        """As functions of theory take it, without the stay."""
        return {"high": self.high, "n_vocab": self.n_vocab}

    @property
    def case(self) -> dict[str, Any]:
        return dict(zip(("π₁", "d", "λ"), self, strict=True))


def lazy_chains(laws: Sequence[str], stays: Sequence[float]) -> dict[str, saccade.MarkovChain]:
    """A lazy chain for each law, by its name; with its stay where a law comes twice. Tokens go from
    frequent to rare.
    """
    found = {name: _chain(law, stay) for name, (law, stay) in _named(laws, stays).items()}
    for name, chain in found.items():
        falls = np.diff(chain.stationary)
        if falls.max() > 1e-12 or falls.min() > -1e-12:
            raise InputError(
                f"`laws` must list tokens from frequent to rare, and not all equal; got {shortened(name)}."
            )
    return found


def named_stays(laws: Sequence[str], stays: Sequence[float]) -> dict[str, float]:
    """The stay of each, by the same names."""
    return {name: stay for name, (_, stay) in _named(laws, stays).items()}


def equal_low_among(laws: Sequence[str], stays: Sequence[float]) -> dict[str, EqualLow]:
    """Those of the laws that the paper speaks of: one frequent token, all others alike."""
    found = {name: _equal_low(law, stay) for name, (law, stay) in _named(laws, stays).items()}
    return {name: one for name, one in found.items() if one is not None}


def equal_low_chains(laws: Sequence[str], stays: Sequence[float]) -> dict[str, EqualLow]:
    """The same where only such laws will do."""
    chains = lazy_chains(laws, stays)
    found = equal_low_among(laws, stays)
    if others := [name for name in chains if name not in found]:
        raise InputError(
            f"`laws` must have equally frequent rare tokens here, as in '0.6 of 4'; got {shortened(others[0])}."
        )
    return found


def _equal_low(law: str, stay: float) -> EqualLow | None:
    found = _EQUAL.fullmatch(law)
    return None if found is None else EqualLow(float(found[1]), int(found[2]), stay)


def _named(laws: Sequence[str], stays: Sequence[float]) -> dict[str, tuple[str, float]]:
    if len(stays) not in (1, len(laws)):
        raise InputError(
            f"`stays` must have one value for each of `laws`, or one for all; got {len(stays)} for {len(laws)}."
        )
    pairs = list(zip(laws, [*stays] * (len(laws) if len(stays) == 1 else 1), strict=True))
    if len(set(pairs)) < len(pairs):
        raise InputError(
            "`laws` must not list the same frequencies with the same stay twice: it would be the same run."
        )
    twice = {law for law in laws if list(laws).count(law) > 1}
    return {f"{law}, stay {stay:g}" if law in twice else law: (law, stay) for law, stay in pairs}


def _chain(law: str, stay: float) -> saccade.MarkovChain:
    make = saccade.MarkovChain
    if law == "paper":
        return make.paper(stay)
    if found := _ZIPF.fullmatch(law):
        return make.zipf(int(found[1]), stay)
    if (equal := _equal_low(law, stay)) is not None:
        return equal.chain
    if _MASSES.fullmatch(law):
        return make.lazy([float(mass) for mass in law.split(",")], stay)
    raise InputError(f"`laws` must be of the form {FORMS}; got {shortened(law)}.")
