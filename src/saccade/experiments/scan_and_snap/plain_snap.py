"""Plain gradient flow slows down when the theory says, but has grown far less by then, and keeps
growing as ln t.

Follows the plain flow (B) to t = 1e12 in the cases of `scan-then-snap`: classes that share one
token and one query, or your own with `--classes my.csv`. Its decoder remembers older features and
couples classes less. If the decoder is much faster than attention (Assumption 1(c)), the theory's
flow (C) should approximate it. That is so at the slow rates; at the fast ones claims are outside
the assumption and only show their numbers. Expect the onset, the order of tokens and the effect of
the rates to survive, but neither the size of growth nor ln ln t.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.snap_cases import (
    ALONG,
    BOTH,
    DECODERS,
    FOR_PLAIN,
    FOR_THEOREM_2,
    ONSET,
    STEPS,
    VARIABLES,
    WITHIN,
    CaseSettings,
    Flow,
    Setup,
    flows_of,
    growth_panel,
    measured,
    onset_power,
    rate_setups,
    stages,
    table,
)
from saccade.experiments.scan_and_snap.snap_growth import growth, seen
from saccade.lab.claim import FAILS, HOLDS, Case, Claim
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.theory.scan_and_snap.assumptions import FAST_DECODER
from saccade.theory.scan_and_snap.statements import PLAIN_COUPLING, PLAIN_ORDER, PLAIN_SNAP

FROM_COUPLING = "log growth of the plain flow (B) near t0', from plain descent's coupling"
LATE = 100.0  # in units of t0: where the late exponent is first read; it is read again at the end
MOST_UNKNOWNS_FOR_BDF = (
    2000  # SciPy's BDF is the fastest of its methods on the plain flow while its Jacobian is small
)


def measure(settings: CaseSettings, on_progress: Progress) -> Measured:
    found = measured(
        rate_setups(settings),
        partial(_followed, settings=settings),
        on_progress,
        bool(settings.classes),
    )
    return found._replace(attributes={"left_out": "[]", **found.attributes})


def _followed(setup: Setup, *, settings: CaseSettings) -> dict[str, Any]:
    options, prob = setup.options(settings), setup.task.token_prob
    small = np.count_nonzero(prob) * (len(prob) + 1) < MOST_UNKNOWNS_FOR_BDF
    plain = saccade.flow(setup.task, method="BDF" if small else "auto", **options)
    return seen(plain, setup.theory) | {
        "reduced_growth": growth(saccade.reduced_flow(setup.task, **options)).log_growth,
        "coupled_growth": setup.theory.plain_growth(plain.time.values),
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    flows = flows_of(record)
    if not flows:
        return
    slow, base = flows["slow rates", "base"], flows["rates", "base"]
    yield from _coupling(slow)
    yield from _fast_attention(base)
    yield _late_exponent(slow)
    in_any = Case({"flow": "B"}, [slow.given[name] for name in (FOR_PLAIN[0], *FOR_THEOREM_2)])
    title = "of two distinct tokens the more frequent gains more in every flow"
    yield in_any.none(PLAIN_ORDER, title, record.out_of_order.values > 0)
    yield from _rate_orders(flows, "slow rates")
    said = "Growth stops being logarithmic (its local exponent falls to half its peak) when theory says."
    case = base.case(FOR_PLAIN, flow="B")
    yield case.between(
        PLAIN_SNAP,
        ONSET,
        base.onset,
        base.scan_time,
        base.snap_time,
        sentence=said,
        expected=case.expected,
    )
    case = Case({"flow": "B"}, [flows["rates", "slower decoder"].given[name] for name in FOR_PLAIN])
    title = "(a) a faster decoder snaps earlier: power of η_Y in the onset"
    yield case.near(
        PLAIN_SNAP, title, onset_power(flows), -1, within=WITHIN, expected=case.expected
    )
    yield from _rate_orders(flows, "rates")


def _coupling(flow: Flow) -> Iterator[Claim]:
    """At the end of scanning: far behind the theory's flow, but where plain descent's own coupling
    says.
    """
    steps = flow.run.steps.values
    i = int(np.argmin(np.abs(steps - flow.scan_time)))
    plain, reduced, coupled = (
        float(flow.run[f"{name}_growth"][i]) for name in ("log", "reduced", "coupled")
    )
    case = flow.case(FOR_PLAIN, t=float(f"{steps[i]:.3g}"))
    title = "log growth near t0': plain flow (B) / theory's flow (C)"
    yield case.near(PLAIN_COUPLING, title, plain / reduced, 1, within=0.5, expected=FAILS)
    yield case.near(PLAIN_COUPLING, FROM_COUPLING, plain, coupled, relative=WITHIN)


def _fast_attention(flow: Flow) -> Iterator[Claim]:
    """A negative control: attention so fast that features do not stay at rest while they couple."""
    if flow.given[FAST_DECODER].holds:
        return
    i = int(np.argmin(np.abs(flow.run.steps.values - flow.scan_time)))
    case = flow.case(FOR_PLAIN, t=float(f"{flow.run.steps.values[i]:.3g}")).breaking(FAST_DECODER)
    plain, coupled = float(flow.run.log_growth[i]), float(flow.run.coupled_growth[i])
    yield case.near(PLAIN_COUPLING, FROM_COUPLING, plain, coupled, relative=WITHIN)


def _late_exponent(flow: Flow) -> Claim:
    t = flow.t
    first, last = (
        int(np.argmin(np.abs(np.log(t / (LATE * flow.snap_time))))),
        len(t) - 2,
    )  # one-sided at the very end
    predicted, found = (
        np.divide(*flow.exponents[name][[last, first]]) for name in ("theory", "log")
    )
    case = flow.case(
        FOR_PLAIN, flow="B", **{"from t": float(f"{t[first]:.2g}"), "to t": float(f"{t[last]:.2g}")}
    )
    title = "local exponent at the end / at 100 t0"
    said = "In the theory's flow the local exponent changes by the predicted factor between these times; here it does not."
    return case.near(
        PLAIN_SNAP, title, found, predicted, relative=0.25, expected=FAILS, sentence=said
    )


def _rate_orders(flows: Mapping[tuple[str, str], Flow], group: str) -> Iterator[Claim]:
    """Claims (b) and (c) as orders: more growth, and less entropy, at the end. Slow rates were
    chosen to meet the assumptions.
    """
    for text, roles in (
        ("(b) both rates scaled up", BOTH),
        ("(c) the decoder slower, attention as it was", DECODERS[::-1]),
    ):
        three = [flows[group, role] for role in roles]
        case = Case(
            {"flow": "B", "η_Z": three[1].lr_attention},
            [three[1].given[name] for name in FOR_PLAIN],
        )
        expected = HOLDS if group == "slow rates" else case.expected
        grown = [one.curves["log"][-1] for one in three]
        yield case.in_order(
            PLAIN_SNAP, f"{text}: log growth at the end rises", grown, expected=expected
        )
        if three[1].run.distinct_entropy[0] > 0:
            lost = [one.entropy_lost for one in three]
            yield case.in_order(
                PLAIN_SNAP, f"{text}: sparsity at the end rises", lost, expected=expected
            )


def panels(record: xr.Dataset) -> Layout:
    flows = flows_of(record)
    if not flows:
        return [Lines("no claim can be formed: see the caption", "", "", [])]
    return [
        growth_panel(flows, "plain gradient flow (B)", theory=False),
        _exponent_panel(flows),
        _entropy_panel(flows),
    ]


def _exponent_panel(flows: Mapping[tuple[str, str], Flow]) -> Lines:
    lines, base = [], flows["rates", "base"]
    for i, (group, name) in enumerate(
        (("rates", "fast attention"), ("slow rates", "slow attention"))
    ):
        one = flows[group, "base"]
        x, rate = one.t / one.scan_time, f"{name}, η_Z = {one.lr_attention:g}"
        lines += [
            Line(x[::4], one.exponents["log"][::4], f"flow (B), {rate}", POINTS, i),
            Line(x, one.exponents["reduced"], f"flow (C), {rate}", DASHES, i),
        ]
    marks = {1.0: "t0'", base.snap_time / base.scan_time: "t0"}
    title, y = "growth of (B) stays far below that of (C)", "local exponent dB / d ln t"
    return Lines(title, "t / t0'", y, lines, "xy", xlim=(1e-2, None), marks=marks)


def _entropy_panel(flows: Mapping[tuple[str, str], Flow]) -> Lines:
    lines = []
    for i, (roles, name) in enumerate(
        ((BOTH, "both rates scaled"), (DECODERS, "η_Y alone scaled"))
    ):
        three = [flows["rates", role] for role in roles]
        lines.append(
            Line(
                [one.lr_decoder for one in three],
                [1e5 * one.entropy_lost for one in three],
                name,
                POINTS,
                i,
            )
        )
    title, y = (
        "entropy that distinct tokens have lost",
        "entropy lost by the end (10⁻⁵ nats), flow (B)",
    )
    return Lines(title, "η_Y (per step)", y, lines, "x")


CAPTION = (
    "Panel 1: log growth of the most frequent distinct token in plain gradient flow (B). It bends between the dotted line "
    "t0' and the dashed line t0, as theory says, and then keeps growing with ln t. Panel 2: the local exponent of (B, points) "
    "and of the theory's flow (C, dashed), with attention fast and slow. Panel 3: entropy that distinct tokens have lost by "
    "the end; scaling both rates up leaves attention sparser, but a slower decoder leaves it less sparse, unlike in (C)."
)

EXPERIMENT = Experiment(
    "plain-snap",
    CaseSettings,
    measure,
    claims,
    panels,
    caption=CAPTION,
    finding=(
        "near t0' plain descent has grown only {log growth near t0'? plain*:.2g} times as far as the theory's flow; the time "
        "at which its growth slows scales as η_Y^{(a) a faster decoder*:.2f}"
    ),
    variables=VARIABLES
    | {
        "reduced_growth": Variable(ALONG, "1", "B along the theory's flow (C)"),
        "coupled_growth": Variable(
            ALONG,
            "1",
            "B that the coupling of plain descent gives while overlaps are those of the start",
            "log_growth",
            "coupling of plain descent",
        ),
    },
    dynamics="B: population gradient flow",
    time_unit=STEPS,
    table=table,
    files=stages,
)
