"""Claims on one case of scan-then-snap: the assumptions that the case meets go into each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.errata import erratum_pair
from saccade.experiments.scan_and_snap.log_growth import onset
from saccade.experiments.scan_and_snap.snap_theory import DEPTH, CaseTheory
from saccade.records.claim import HOLDS, Claim

if TYPE_CHECKING:
    import xarray as xr

# Names of the validator's conditions, and two of our own. Not asked of flow (C), and not met by the default cases: 1(c), which the
# flow has built in; Assumption 2's lower bound on eigenvalues, which guards against a term of -1/M in beta, a misprinted sign;
# and a decoder rate below 1, which only keeps discrete steps near the continuous height. Theorem 1's M >> 100 is read as M >= 100.
THEOREM_2 = ("2 largest eigenvalue", "2 isolated classes")
SCANS = "scans before it snaps"
THEOREM_4 = (
    "2 largest eigenvalue",
    "T1 uniform classes",
    "T2(b) one common token",
    "T2(b) bare queries",
    "C2(1) one query",
    "C2(2) matching distinct tokens",
    "vocabulary",
)
FAST_DECODER = "1(c) fast decoder"
WITHIN = 0.05  # of theory: our tolerance for slopes, growth and entropy lost
_LEAST_VOCABULARY = 100  # Theorem 1 has M >> 100; at 100 the terms it drops are 1 %


def claim(
    record: xr.Dataset,
    case: int,
    needs: Iterable[str],
    *,
    statement: str,
    source: str,
    predicted: float,
    measured: float,
    tolerance: float,
    expected: str = HOLDS,
) -> Claim:
    """A claim that needs some of the validator's conditions. What is expected is said by the caller, not by the validator."""
    assumptions = _met(record, case, needs)
    return Claim(
        statement=statement,
        source=source,
        predicted=float(predicted),
        measured=float(measured),
        tolerance=float(tolerance),
        assumptions=assumptions,
        expected=expected,
    )


def pair(record: xr.Dataset, case: int, needs: Iterable[str], number: str, what: str, where: str, **values: float) -> list[Claim]:
    """An erratum's two claims."""
    return erratum_pair(number, what, where, assumptions=_met(record, case, needs), **values)


def _met(record: xr.Dataset, case: int, needs: Iterable[str]) -> dict[str, bool]:
    at = CaseTheory.of(record, case)
    rows = {name: rest for name, *rest in json.loads(record.attrs["conditions"])[case]}
    rows["vocabulary"] = [at.n_vocab >= _LEAST_VOCABULARY, at.n_vocab, _LEAST_VOCABULARY]
    rows[SCANS] = [at.depth >= DEPTH, at.depth, DEPTH]
    return {f"{name} ({rows[name][1]:.3g}, bound {rows[name][2]:.3g})": bool(rows[name][0]) for name in needs}


def case_of(record: xr.Dataset, role: str, group: str = "rates") -> int:
    return int(np.flatnonzero((record.role.values == role) & (record.group.values == group))[0])


def label(record: xr.Dataset, case: int) -> str:
    at = CaseTheory.of(record, case)
    return f"K = {at.n_classes}, M = {at.n_vocab}, rates {at.lr_decoder:g} and {at.lr_attention:g}"


def series(record: xr.Dataset, case: int, dynamics: str = "C") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times after 0 and the log growth at each."""
    at = record.isel(case=case, sample=slice(1, None))
    return at.steps.values, at.log_growth.sel(dynamics=dynamics).values


def onset_of(record: xr.Dataset, case: int, dynamics: str = "C") -> float:
    t, log_growth = series(record, case, dynamics)
    return onset(log_growth, t)


def onset_between(record: xr.Dataset, case: int, dynamics: str, needs: Iterable[str], expected: str = HOLDS) -> Claim:
    at = CaseTheory.of(record, case)
    return claim(
        record,
        case,
        needs,
        statement=f"onset (exponent at half its peak) lies between t0' and t0, flow ({dynamics}), {label(record, case)}",
        source="[tian2023, Theorem 4]",
        predicted=(at.scan_time + at.snap_time) / 2,
        measured=onset_of(record, case, dynamics),
        tolerance=(at.snap_time - at.scan_time) / 2,
        expected=expected,
    )


def onset_scaling(record: xr.Dataset, dynamics: str, needs: Iterable[str], expected: str = HOLDS) -> Claim:
    """d ln(onset) / d ln(eta_Y) between the slower and the faster decoder, attention's rate as it was."""
    ends = [case_of(record, "slower decoder"), case_of(record, "faster decoder")]
    times = [onset_of(record, case, dynamics) for case in ends]
    return claim(
        record,
        ends[0],
        needs,
        statement=f"(a) a faster decoder snaps earlier: power of eta_Y in the onset, flow ({dynamics})",
        source="[tian2023, Theorem 4]",
        predicted=-1,
        measured=np.diff(np.log(times))[0] / np.diff(np.log(record.lr_decoder.values[ends]))[0],
        tolerance=WITHIN,
        expected=expected,
    )
