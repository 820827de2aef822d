"""Claims of `context-length`: the slope -1/2 and Hoeffding's bound, of independent draws and of text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from saccade.experiments.real_text.context_length_measures import DISTANCES, SOURCES, curves, slopes, worth
from saccade.experiments.real_text.spread import interval
from saccade.records.claim import FAILS, HOLDS, Claim

if TYPE_CHECKING:
    import xarray as xr

_SLOPE = 0.05  # how near to -1/2, as in `long-context-limit`
_FAILING = {("shares", "text"), ("attention", "text"), ("gradient", "text"), ("exceeded", "text"), ("worth", "text")}


def claims_of(record: xr.Dataset) -> list[Claim]:
    made = []
    for source in SOURCES:
        made += [_slope_claim(record, name, source) for name in ("shares", "attention", "gradient")]
        made += [_learned_claim(record, source), _bound_claim(record, source)]
    longest = int(record["length"].max())
    made.append(
        Claim(
            f"independent draws that one token of text is worth, at {longest} tokens, mean over parts",
            "[tian2023, section 3]: context tokens are independent",
            predicted=1.0,
            measured=interval(worth(record)[:, -1]).mean,
            tolerance=0.1,
            expected=_expected("worth", "text"),
        )
    )
    return made


def _slope_claim(record: xr.Dataset, name: str, source: str) -> Claim:
    found = interval(slopes(record, name, source))
    return Claim(
        f"{DISTANCES[name]}, nearing the limit: slope against length, mean over parts, {_contexts(source)}",
        "[tian2023, Lemma 18]" if name == "shares" else "[tian2023, Lemma 2]",
        predicted=-0.5,
        measured=found.mean,
        tolerance=_SLOPE,
        assumptions=_linear(record) if (name, source) == ("gradient", "text") else {},
        expected=_expected(name, source),
    )


def _linear(record: xr.Dataset) -> dict[str, bool]:
    """Where the gradient is linear in the shares, independent draws are as far in both, each in its own unit.

    They may differ by a factor that, at one end of the lengths, shifts a slope by its tolerance.
    """
    factor = np.exp(_SLOPE * np.log(record["length"].values[-1] / record["length"].values[0]))
    ratio = (curves(record, "gradient", "independent") / curves(record, "shares", "independent")).mean(axis=0)
    return {"the gradient is linear in the shares at every length": bool((np.abs(np.log(ratio)) <= np.log(factor)).all())}


def _learned_claim(record: xr.Dataset, source: str) -> Claim:
    return Claim(
        f"{DISTANCES['learned']}, nearing the limit: slope against length, mean over parts, from -1 to -1/2, {_contexts(source)}",
        "derived (ours) from [tian2023, Lemma 2]",
        predicted=-0.75,
        measured=interval(slopes(record, "learned", source)).mean,
        tolerance=0.25 + _SLOPE,
        expected=_expected("learned", source),
    )


def _bound_claim(record: xr.Dataset, source: str) -> Claim:
    delta = json.loads(record.attrs["settings"])["failure_prob"]
    return Claim(
        f"share outside Hoeffding's bound: share of windows, worst token, class and length, at most delta = {delta:g}, "
        f"{_contexts(source)}",
        "[tian2023, Lemma 18]",
        predicted=0.0,
        measured=float(record["exceeded"].sel(source=source).mean("part").max()),
        tolerance=delta,
        expected=_expected("exceeded", source),
    )


def _expected(name: str, source: str) -> str:
    return FAILS if (name, source) in _FAILING else HOLDS


def _contexts(source: str) -> str:
    return "windows of text" if source == "text" else "independent draws"
