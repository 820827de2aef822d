"""What of Theorem 4 survives in the plain gradient flow (B), whose decoder remembers older features and couples classes less.

Assumption 1(c), a decoder much faster than attention, is what should make the theory's flow a fair picture of the plain one; it
holds at the slow rates of scan-then-snap and not at the fast ones, where claims on (B) are outside it and shown for their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from saccade.experiments.scan_and_snap.case_claims import (
    FAST_DECODER,
    THEOREM_2,
    THEOREM_4,
    WITHIN,
    case_of,
    claim,
    label,
    onset_between,
    onset_scaling,
    series,
)
from saccade.experiments.scan_and_snap.log_growth import exponent
from saccade.experiments.scan_and_snap.snap_theory import CaseTheory
from saccade.records.claim import FAILS, HOLDS, OUTSIDE, Claim

if TYPE_CHECKING:
    import xarray as xr

_NEEDS = (FAST_DECODER, *THEOREM_4)
_ORDERS = {
    "(b) both rates scaled up": ("both slower", "base", "both faster"),
    "(c) the decoder slower, attention as it was": ("faster decoder", "base", "slower decoder"),
}
LATE = 100.0  # in units of t0: where the late exponent is first read; the last time is the record's end


def plain_flow_claims(record: xr.Dataset) -> list[Claim]:
    if not np.isfinite(record.log_growth.sel(dynamics="B")).any():
        return []
    slow = case_of(record, "base", "slow rates")
    return [
        *_coupling_claims(record, slow),
        _late_exponent(record, slow),
        _order_kept(record, slow),
        *_rate_orders(record, "slow rates", HOLDS),
        onset_between(record, case_of(record, "base"), "B", _NEEDS, OUTSIDE),
        onset_scaling(record, "B", _NEEDS, OUTSIDE),
        *_rate_orders(record, "rates", OUTSIDE),
    ]


def _coupling_claims(record: xr.Dataset, case: int) -> list[Claim]:
    """At the end of scanning: far behind the theory's flow, but where plain descent's own coupling says."""
    at = CaseTheory.of(record, case)
    steps = record.steps.isel(case=case).values
    i = int(np.argmin(np.abs(steps - at.scan_time)))
    plain, reduced = (float(record.log_growth.sel(dynamics=name).isel(case=case, sample=i)) for name in ("B", "C"))
    own = float(at.plain_growth(steps[: i + 1])[-1])
    where = f"at t = {steps[i]:.3g}, near t0', {label(record, case)}"
    return [
        claim(
            record,
            case,
            _NEEDS,
            statement=f"log growth of the plain flow (B) over that of the theory's flow (C) {where}",
            source="[tian2023, Theorem 1] for plain descent",
            predicted=1,
            measured=plain / reduced,
            tolerance=0.5,
            expected=FAILS,
        ),
        claim(
            record,
            case,
            _NEEDS,
            statement=f"log growth of the plain flow (B) from the coupling of plain descent {where}",
            source="[tian2023, Theorem 1] for plain descent, ours",
            predicted=own,
            measured=plain,
            tolerance=WITHIN * own,
        ),
    ]


def _late_exponent(record: xr.Dataset, case: int) -> Claim:
    at = CaseTheory.of(record, case)
    t, B = series(record, case, "B")
    from_to = [int(np.argmin(np.abs(np.log(t / (LATE * at.snap_time))))), len(t) - 2]  # one-sided at the very end
    from_t, to_t = t[from_to]
    predicted, measured = (np.divide(*exponent(values, t)[from_to[::-1]]) for values in (at.growth(t), B))
    return claim(
        record,
        case,
        _NEEDS,
        statement=f"local exponent of the plain flow (B) at t = {to_t:.2g} over that at {from_t:.2g}, {label(record, case)}",
        source="[tian2023, Theorem 4] for plain descent",
        predicted=predicted,
        measured=measured,
        tolerance=0.25 * predicted,
        expected=FAILS,
    )


def _order_kept(record: xr.Dataset, case: int) -> Claim:
    return claim(
        record,
        case,
        (FAST_DECODER, *THEOREM_2),
        statement="pairs of distinct tokens where the rarer grows more, in any plain flow (B)",
        source="[tian2023, Theorem 2(a)] for plain descent",
        predicted=0,
        measured=float(record.out_of_order.sel(dynamics="B").max()),
        tolerance=0,
    )


def _rate_orders(record: xr.Dataset, group: str, expected: str) -> list[Claim]:
    """Claims (b) and (c) as orders: more growth, and less entropy, at the end."""
    at_end = record.sel(dynamics="B").isel(sample=-1)
    gains = {"log growth": at_end.log_growth.values, "sparsity": -at_end.distinct_entropy.values}
    if CaseTheory.n_distinct(record) < 2:
        del gains["sparsity"]
    claims = []
    for text, roles in _ORDERS.items():
        cases = [case_of(record, role, group) for role in roles]
        rate = float(record.lr_attention.values[cases[1]])
        for what, values in gains.items():
            claims.append(
                claim(
                    record,
                    cases[1],
                    _NEEDS,
                    statement=f"{text}: neighbours without a gain in {what} at the end, flow (B), attention rate {rate:g}",
                    source="[tian2023, Theorem 4] for plain descent",
                    predicted=0,
                    measured=int(np.sum(~(np.diff(values[cases]) > 0))),
                    tolerance=0,
                    expected=expected,
                )
            )
    return claims
