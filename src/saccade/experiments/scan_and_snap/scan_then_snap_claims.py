"""The claims of scan-then-snap, and for a user's own classes which of them cannot be formed and why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.errata import erratum_pair
from saccade.experiments.scan_and_snap.case_claims import (
    SCANS,
    THEOREM_2,
    THEOREM_4,
    WITHIN,
    case_of,
    claim,
    label,
    onset_between,
    onset_of,
    onset_scaling,
    pair,
    series,
)
from saccade.experiments.scan_and_snap.log_growth import exponent
from saccade.experiments.scan_and_snap.plain_flow_claims import plain_flow_claims
from saccade.experiments.scan_and_snap.snap_cases import NU, PREMISE, PREMISE_TIMES, ROLES
from saccade.experiments.scan_and_snap.snap_theory import CaseTheory
from saccade.records.claim import FAILS, HOLDS, Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr

_NEEDS = (*THEOREM_4, SCANS)
_FEWEST = 3  # samples in a window for a slope to be fitted
# The bound holds fixed how concentrated distinct tokens are. With few classes growth is of order one and they concentrate on the
# way (K = 2: the sum of f^4 goes from .38 to .65), which leaves its late slope 7 % high.
_MANY_CLASSES, _WITHIN_FEW_CLASSES = 5, 0.10


class Formed(NamedTuple):
    claims: list[Claim]
    left_out: list[str]


def formed(record: xr.Dataset) -> Formed:
    """Every claim that this record can decide; a sentence for each group it cannot."""
    claims = premise_claims(record) if "premise_growth" in record else []
    left_out = list(_obstacles(record))
    if not left_out:
        for group in (growth_claims, fate_claims, rate_claims):
            found = group(record)
            claims += found.claims
            left_out += found.left_out
        claims += plain_flow_claims(record)
    return Formed(claims, left_out)


def _obstacles(record: xr.Dataset) -> Iterable[str]:
    """Why nothing at all can be said of growth."""
    at, distinct = record.isel(case=0), CaseTheory.n_distinct(record)
    if int(at.n_classes) < 2:
        yield "All claims are left out: with a single class there is nothing to tell apart, and attention has no drive."
    elif not distinct:
        yield "All claims are left out: every token occurs in several classes, so none is distinct and none can grow."
    elif not np.isfinite(at.log_growth.sel(dynamics="C")).any():
        yield "All claims are left out: some class is a mixture of the others, for which the theory's flow is not defined."
    elif not np.isfinite(float(at.normaliser)):
        yield "All claims are left out: the class of the most frequent distinct token overlaps no other, so its drive is zero."
    elif not np.isfinite(CaseTheory.of(record, 0).snap_time):
        yield "All claims are left out: the onset of snapping is not defined for a vocabulary of fewer than four tokens."


def premise_claims(record: xr.Dataset) -> list[Claim]:
    """Theorem 4 against its own premise: pure calculus."""
    clock = {name: PREMISE[name] for name in ("n_vocab", "n_classes", "lr_decoder")}
    t, grown, distance = PREMISE_TIMES, record.premise_growth.values, record.premise_distance.values
    bound = theory.growth_bound(t, **PREMISE)
    exact = theory.speed_integral(t, **clock)
    at = int(np.argmin(np.abs(np.log(t / theory.snap_time(**clock)))))
    return [
        Claim(
            statement="integral of the speed against K (M-1)^2 h^2 / (2 eta_Y), largest relative gap to t = 1e5",
            source="[tian2023, Theorem 4], proof",
            predicted=0,
            measured=float(np.max(np.abs(distance / exact - 1))),
            tolerance=1e-6,
        ),
        Claim(
            statement="growth bound ln(1 + 4 Gamma / C_0) / 4 against its premise integrated, largest gap to t = 1e5",
            source="[tian2023, Theorem 4]",
            predicted=0,
            measured=float(np.max(np.abs(bound - grown))),
            tolerance=1e-6,
        ),
        *erratum_pair(
            "0.4",
            f"growth bound at t = {t[at]:.4g}, near the snap (C_0 = {PREMISE['overlap_constant']:g})",
            "[tian2023, Theorem 4]",
            printed=float(theory.growth_bound(t[at], **PREMISE, as_printed=True)),
            corrected=float(bound[at]),
            measured=float(grown[at]),
            tolerance=1e-6,
        ),
        *erratum_pair(
            "0.10",
            "time (steps) after which the late form forgets its constant, nu = eta_Y / eta_Z = 10",
            "[tian2023, Theorem 4], App. F",
            printed=theory.late_growth_time(**NU, as_printed=True),
            corrected=theory.late_growth_time(**NU),
            measured=float(record.late_crossing),
            tolerance=1e-3 * float(record.late_crossing),  # the corrected form takes (M-1)/M for 1
        ),
    ]


def growth_claims(record: xr.Dataset) -> Formed:
    """Flow (C): slopes on both sides of the snap, the onset, and the common token's fall."""
    claims, left_out = [], []
    for case in np.flatnonzero(record.group.values != "slow rates").tolist():
        if record.role.values[case] == "base" and record.group.values[case] != "vocabulary":
            claims += _factor_claims(record, case)
        for side in ("scanning", "snapping"):
            if (slopes := _slope_claims(record, case, side)) is None:
                left_out.append(f"Growth while {side} is left out at {label(record, case)}: the flow has too few samples there.")
            else:
                claims += slopes
        claims.append(onset_between(record, case, "C", _NEEDS))
    return Formed(claims, left_out)


def _factor_claims(record: xr.Dataset, case: int) -> list[Claim]:
    """How much faster the common token falls than distinct ones grow."""
    at = record.isel(case=case).sel(dynamics="C")
    K, B, fall = int(at.n_classes), at.log_growth.values, -float(at.common_logit[-1])
    what = f"fall of the common token over log growth, {label(record, case)}"
    ratio = {"printed": 1.0, "corrected": float(K), "measured": fall / B[-1], "tolerance": (0.25 if K == 2 else 0.07) * K}
    return [
        *pair(record, case, _NEEDS, "0.5", what, "[tian2023, Theorem 4]", **ratio),
        claim(
            record,
            case,
            _NEEDS,
            statement=f"fall of the common token over K times the integral of 1 - f^2 along log growth, {label(record, case)}",
            source="[tian2023, Theorem 2(b)]",
            predicted=1,
            measured=fall / (K * np.trapezoid(1 - at.common_share.values, B)),
            tolerance=1e-4,
        ),
    ]


class Side(NamedTuple):
    """The samples on one side of the snap, and what growth is fitted against there: ln t before, ln ln(M eta_Y t / K) after."""

    within: NDArray[np.bool_]
    against: NDArray[np.float64]

    def slope(self, values: NDArray[np.float64]) -> float:
        return float(np.polyfit(self.against, values[self.within], 1)[0])


def side_of(record: xr.Dataset, case: int, side: str) -> Side | None:
    """`side` is scanning, t0'/3 to t0', or snapping, from t0 on; None if too few samples lie there."""
    at, t = CaseTheory.of(record, case), series(record, case)[0]
    within = (t >= at.scan_time / 3) & (t <= at.scan_time) if side == "scanning" else t >= at.snap_time
    if within.sum() < _FEWEST:
        return None
    return Side(within, np.log(t[within]) if side == "scanning" else at.log_height(t[within]))


def headlines(record: xr.Dataset) -> dict[str, float]:
    """Flow (C) at the base case: onset, slopes of log growth on both sides of the snap, and what is reached. NaN: not to be had."""
    names = ("onset", "onset_over_snap_time", "scanning_slope", "snapping_slope", "log_growth", "entropy_lost")
    if list(_obstacles(record)):
        return dict.fromkeys(names, np.nan)
    base = case_of(record, "base")
    at, sides = record.isel(case=base).sel(dynamics="C"), [side_of(record, base, side) for side in ("scanning", "snapping")]
    start, grown = onset_of(record, base), series(record, base)[1]
    slopes = [np.nan if side is None else side.slope(grown) for side in sides]
    lost = float(at.distinct_entropy[0] - at.distinct_entropy[-1])
    return dict(zip(names, (start, start / CaseTheory.of(record, base).snap_time, *slopes, float(grown[-1]), lost), strict=True))


def _slope_claims(record: xr.Dataset, case: int, side: str) -> list[Claim] | None:
    """Growth fitted over each side of the snap; at the base case also against the printed theorem, and sample by sample."""
    at, one = CaseTheory.of(record, case), side_of(record, case, side)
    if one is None:
        return None
    (t, B), slope = series(record, case), one.slope
    unit = "ln t from t0'/3 to t0'" if side == "scanning" else "ln ln(M eta_Y t / K) from t0 on"
    what, source = f"log growth per {unit}, flow (C), {label(record, case)}", "[tian2023, Theorem 4]"
    predicted, measured = slope(at.growth(t)), slope(B)
    tolerance = (WITHIN if at.n_classes >= _MANY_CLASSES else _WITHIN_FEW_CLASSES) * predicted
    if case != case_of(record, "base"):
        fit: dict[str, Any] = {"predicted": predicted, "measured": measured, "tolerance": tolerance}
        return [claim(record, case, _NEEDS, statement=what, source=f"{source}, self-consistent", **fit)]
    fits = {"printed": slope(at.printed_growth(t)), "corrected": predicted, "measured": measured, "tolerance": tolerance}
    gap = np.abs(exponent(B, t) / exponent(at.growth(t), t) - 1)[one.within].max()
    text = f"largest relative gap of the local exponent while {side}, flow (C), {label(record, case)}"
    local: dict[str, Any] = {"statement": text, "predicted": 0.0, "measured": gap, "tolerance": WITHIN}
    # The factor K alone does while scanning; later the flow has shrunk overlaps below 1/M, and the coupling's floor shows.
    factor_only: dict[str, Any] = {
        "statement": f"{what}: with the factor K mended and nothing else",
        "predicted": slope(at.growth_with_factor_only(t)),
        "measured": measured,
        "tolerance": tolerance,
        "expected": HOLDS if side == "scanning" else FAILS,
    }
    mended = f"{what} (both: B(0) = 0, rate eta_Z/K; corrected: factor K, weight of distinct tokens, floor 1/M of the coupling)"
    on_default_task = "premise_growth" in record  # of a user's classes it is not known how far the factor K alone goes
    return [
        *pair(record, case, _NEEDS, "0.5", mended, source, **fits),
        *([claim(record, case, _NEEDS, source=f"{source}, self-consistent", **factor_only)] if on_default_task else []),
        claim(record, case, _NEEDS, source=f"{source}, self-consistent", **local),
    ]


def fate_claims(record: xr.Dataset) -> Formed:
    """Flow (C) at its end: who rose, who fell, in what order."""
    base, ends = case_of(record, "base"), record.sel(dynamics="C")
    n_common = {name: value for name, _, value, _ in json.loads(record.attrs["conditions"])[base]}["T2(b) one common token"]
    theorem_2b = ("[tian2023, Theorem 2(b)]", (*THEOREM_2, "T2(b) one common token", "T2(b) bare queries"))
    corollary_2 = ("[tian2023, Corollary 2]", ("C2(1) one query", "C2(2) matching distinct tokens", "C2(3) alike common tokens"))
    rows = [
        ("falling_distinct", "distinct tokens that lose attention in any flow (C)", "[tian2023, Theorem 2(a)]", THEOREM_2, 0.0),
        (
            "rising_common",
            "common tokens that gain attention in any flow (C)",
            *(theorem_2b if n_common == 1 else corollary_2),
            0.0,
        ),
        (
            "out_of_order",
            "pairs of distinct tokens where the rarer grows more, in any flow (C)",
            "[tian2023, Theorem 2(a)]",
            THEOREM_2,
            0.0,
        ),
        (
            "gain_error",
            "relative gain over its forecast from the leader alone, largest error, flow (C)",
            "[tian2023, Theorem 3]",
            (),
            1e-6,
        ),
    ]
    missing = [name for name, *_ in rows if not np.isfinite(ends[name]).all()]
    claims = [
        claim(record, base, needs, statement=text, source=source, predicted=0, measured=ends[name].max(), tolerance=tolerance)
        for name, text, source, needs, tolerance in rows
        if name not in missing
    ]
    return Formed(claims, ["Theorem 3 is left out: no class has two distinct tokens of different frequency."] if missing else [])


def rate_claims(record: xr.Dataset) -> Formed:
    """Flow (C): what the paper reads off Theorem 4 about the two rates."""
    end = float(record.steps.max())
    grown = record.log_growth.sel(dynamics="C").isel(sample=-1).values
    claims = [onset_scaling(record, "C", _NEEDS)]
    for text, less, more in (
        ("(b) both rates scaled up", "both slower", "both faster"),
        ("(c) the decoder slower, attention as it was", "faster decoder", "slower decoder"),
    ):
        lower, upper = case_of(record, less), case_of(record, more)
        predicted = float(CaseTheory.of(record, upper).growth(end) - CaseTheory.of(record, lower).growth(end))
        claims.append(
            claim(
                record,
                upper,
                _NEEDS,
                statement=f"{text}: gain in log growth at t = {end:.3g} from one end to the other, flow (C)",
                source="[tian2023, Theorem 4]",
                predicted=predicted,
                measured=grown[upper] - grown[lower],
                tolerance=WITHIN * abs(predicted),
            )
        )
    if CaseTheory.n_distinct(record) < 2:
        return Formed(
            claims, ["Entropy is left out: the leading class has a single distinct token, on which attention is sparse already."]
        )
    return Formed(claims + [_entropy_claim(record, case_of(record, role), end) for role in ROLES], [])


def _entropy_claim(record: xr.Dataset, case: int, end: float) -> Claim:
    entropy = record.distinct_entropy.sel(dynamics="C").isel(case=case)
    predicted = CaseTheory.of(record, case).entropy_lost(end, record)
    return claim(
        record,
        case,
        _NEEDS,
        statement=f"entropy (nats) that distinct tokens have lost when attention has frozen, flow (C), {label(record, case)}",
        source="[tian2023, Theorem 4], with Theorem 2",
        predicted=predicted,
        measured=entropy[0] - entropy[-1],
        tolerance=WITHIN * predicted,
    )
