"""Attention scans, then snaps: growth is logarithmic in t, then logarithmic in log t.

Follows the theory's flow (C) and the plain gradient flow (B) to t = 1e12, on classes that share one token and one query, for five
pairs of rates, three vocabularies and three numbers of classes. Expected for (C): growth per ln t before the onset and per ln ln t
after it within 5 % of theory (K = 2: late slope 7 % off, tolerance 10 %) once the common token falls through all K classes,
distinct tokens weigh in the normaliser and the coupling keeps its floor of 1/M; the onset between t0' and t0. For (B): the same
onset, about a hundredth of the growth, and no ln ln t. About 10 s on two cores.

Set after first results were seen: the scanning window t0'/3 to t0', the tolerance at K = 2, and the two conditions of our own
(M >= 100, scans before it snaps), which came from a user-like table with M = 8 that failed.

With `--classes my.csv` the same flows and every claim that can be formed are about your own P(l|n).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.scan_and_snap import scan_then_snap_claims, scan_then_snap_figure
from saccade.experiments.scan_and_snap.log_growth import exponent
from saccade.experiments.scan_and_snap.snap_cases import (
    Case,
    cases_of,
    class_table,
    condition_rows,
    measured,
    measured_premise,
    start_values,
)
from saccade.experiments.scan_and_snap.snap_theory import CaseTheory
from saccade.records.claim import Claim

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 10
WHAT = "Theorem 4"
EXPECTED = (
    "growth as ln t, then ln ln t, to t = 1e12; local slopes off the corrected theory by at most {largest*scanning*:.1%}, then "
    "{largest*snapping*:.1%} (K = 5, M = 1000)"
)

CAPTION = (
    "Log growth B of the most frequent distinct token. Top left: in the theory's flow (C) it rises in proportion to ln t until the "
    "dotted line t0', bends, and from the dashed line t0 on crawls with ln ln t (inset: nearly straight in ln ln t). Dots: the "
    "flow; lines: theory with the common token falling through all classes. Top right: the local exponent for three vocabularies; "
    "Theorem 4 as printed for M = 1000 (dashed) is several times too high on both sides. Bottom left: the plain gradient flow (B), "
    "same rates; it bends at the same onset, at about a hundredth of the height, and then keeps growing with ln t. Bottom right: "
    "entropy that distinct tokens have lost at the end; in (C) scaling both rates up, or the decoder's down, leaves attention "
    "sparser, as the lines predict; in (B) a slower decoder leaves it less sparse."
)

_AXES = ("dynamics", "case", "sample")
_DEFINITIONS = {
    "steps": ("steps of SGD", "time of each sample of a case"),
    "log_growth": ("1", "B: integral of dz / f^2 of the most frequent distinct token, at every sample"),
    "top_logit": ("1", "z of the most frequent distinct token"),
    "common_logit": ("1", "z of the most frequent common token of the same class"),
    "common_share": ("1", "f^2 of the same class summed over common tokens"),
    "distinct_entropy": ("nats", "entropy of attention among the distinct tokens of the same class, rescaled to one"),
    "falling_distinct": ("tokens", "distinct tokens whose logit is negative at the end"),
    "rising_common": ("tokens", "common tokens whose logit is positive at the end"),
    "out_of_order": ("pairs", "pairs of distinct tokens of a class of which the rarer has the larger logit at the end"),
    "gain_error": ("1", "largest relative error of Theorem 3 at the end"),
    "premise_growth": ("1", "B of Theorem 4's premise, integrated numerically"),
    "premise_distance": ("steps", "integral of the speed gamma, integrated numerically"),
    "late_crossing": ("steps", "time at which the late form's logarithm equals its constant, found numerically"),
}


@dataclass(frozen=True)
class Config:
    """Settings. Every case starts from the first eight; the others vary one of them."""

    classes: str = ""
    """a CSV file with your own P(l|n), a row a class and a column a token; empty: one common token, one query"""
    n_classes: int = 5
    """classes"""
    common_feature: float = 0.2
    """f_nl(0) of the common token, in (0, 1); classes overlap by its square"""
    n_distinct: int = 4
    """distinct tokens a class, their chances rising linearly from 0.1 to 1 before they are scaled"""
    n_vocab: int = 1000
    """size of the vocabulary"""
    lr_decoder: float = 1.0
    """decoder rate, per step"""
    lr_attention: float = 100.0
    """attention rate, per step"""
    t1: float = 1e12
    """end of the flows, steps"""
    factor: float = 10.0
    """by how much rates are scaled up and down, above 1"""
    vocabularies: tuple[int, ...] = (100, 10_000)
    """other sizes of the vocabulary"""
    other_n_classes: tuple[int, ...] = (2, 10)
    """other numbers of classes"""
    other_common_features: tuple[float, ...] = (0.3, 0.1)
    """the common token's feature for each of them, small enough for Assumption 2's upper bound"""
    slow_lr_attention: float = 0.001
    """another attention rate, at which the decoder is so much faster that Assumption 1(c) holds for every pair, per step"""
    n_times: int = 200
    """samples of each flow, log-spaced"""
    plain: bool = True
    """also follow the plain flow (B), which costs more the more tokens there are"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    cases = cases_of(config)
    flows = []
    for i, case in enumerate(cases):
        flows.append(measured(case, config))
        on_progress((i + 1) / len(cases))
    record = _record(cases, flows, config)
    record.attrs["wall_time_s"] = round(time.perf_counter() - started, 3)
    record.attrs["left_out"] = json.dumps(scan_then_snap_claims.formed(record).left_out)
    return record


def _record(cases: list[Case], flows: list[dict[str, np.ndarray]], config: Config) -> xr.Dataset:
    from saccade.records.schema import make_record

    variables: dict[str, Any] = {"steps": (("case", "sample"), np.stack([flow.pop("steps") for flow in flows]))}
    for name in flows[0]:
        stacked = np.stack([flow[name] for flow in flows], axis=1)
        variables[name] = (_AXES[: stacked.ndim], stacked)
    if not config.classes:
        variables |= measured_premise()
    record = make_record(
        dynamics="B: population gradient flow; C: reduced flow of the theory",
        variables=variables,
        coords={"dynamics": ["B", "C"]}
        | {name: ("case", [getattr(case, name) for case in cases]) for name in ("group", "role")}
        | {name: ("case", values) for name, values in start_values(cases).items()},
        time_unit="steps of SGD",
        config={"tasks": [case.task.name for case in cases]},
        wall_time=0.0,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    record.attrs["conditions"] = json.dumps([condition_rows(case) for case in cases])
    record.attrs["token_prob"] = json.dumps(class_table(cases[0].task))
    return record


def caption(record: xr.Dataset) -> str:
    if not json.loads(record.attrs["settings"])["classes"]:
        return CAPTION
    return (
        "Your own classes: log growth B of the most frequent distinct token. Dots: flows, lines: theory. Top left: the theory's "
        "flow (C) at three decoder rates, with t0' (dotted) and t0 (dashed). Top right: its local exponent, with Theorem 4 as "
        "printed (dashed). Bottom left: the plain gradient flow (B). Bottom right: entropy lost among distinct tokens by the "
        "end, if there are several. Lines need not meet the dots where the claims say that assumptions are not met."
    )


def claims(record: xr.Dataset) -> list[Claim]:
    return scan_then_snap_claims.formed(record).claims


def measures(record: xr.Dataset) -> dict[str, float]:
    return scan_then_snap_claims.headlines(record)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Every sample of every flow, with theory beside it."""
    rows = []
    for case in range(record.sizes["case"]):
        at, theory = record.isel(case=case, sample=slice(1, None)), CaseTheory.of(record, case)
        t = at.steps.values
        predicted, printed = theory.growth(t), theory.printed_growth(t)
        for dynamics in record.dynamics.values:
            flow = at.sel(dynamics=dynamics)
            columns = {
                "t": t,
                "log_growth": flow.log_growth.values,
                "log_growth_theory": predicted,
                "log_growth_printed": printed,
                "exponent": exponent(flow.log_growth.values, t),
                "exponent_theory": exponent(predicted, t),
                "exponent_printed": exponent(printed, t),
                "top_logit": flow.top_logit.values,
                "common_logit": flow.common_logit.values,
                "distinct_entropy": flow.distinct_entropy.values,
            }
            if np.isfinite(columns["log_growth"]).any():
                head = {"group": str(at.group.values), "role": str(at.role.values), "dynamics": str(dynamics)} | {
                    name: at[name].item() for name in ("n_classes", "n_vocab", "lr_decoder", "lr_attention")
                }
                rows += [head | {name: float(values[i]) for name, values in columns.items()} for i in range(len(t))]
    return rows or [{"left_out": sentence} for sentence in json.loads(record.attrs["left_out"])]


def figure(record: xr.Dataset) -> Figure:
    return scan_then_snap_figure.draw(record)
