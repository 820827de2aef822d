"""The speed at which attention learns grows as t, peaks before t₀' = K ln M/η_Y and then decays as
ln t/t.

Integrates the theory's own flow to t = 1e12 with attention held still, for vocabularies from 1e2 to
1e6, and reads height and speed off its logits. Expect Lemma 6's height to 1e-8, both forms of Lemma
9 within 5 % for t ≤ .1 t₀' and t ≥ 20 t₀, and the late form without the M that Theorem 1(b) drops
off by half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.interpolate import make_interp_spline
from scipy.optimize import brentq

import saccade
from saccade.errors import InputError, checked_count, checked_number
from saccade.experiments.scan_and_snap.decoder_descent import tied_features
from saccade.lab.claim import CALCULUS, SIMULATION, Case, Claim
from saccade.lab.panel import DASHES, DOTS, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, cell_rows, grid
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import at_least, met
from saccade.theory.scan_and_snap.statements import (
    LEMMA_6,
    LEMMA_8,
    LEMMA_9,
    SPEED_PEAK,
    THEOREM_1B,
    THEOREM_4,
)
from saccade.theory.statement import Statement

VARIABLES = {
    "own_logit": Variable(
        "n_vocab time",
        "1",
        "w_nn: logit that class 1 gives its own next token, along the theory's flow",
    ),
    "other_logit": Variable(
        "n_vocab time",
        "1",
        "w_nj: logit that class 1 gives any other token, along the theory's flow",
    ),
    "balance_low": Variable(
        "n_vocab", "1", "M h where e^(Mh) = (M-1) M h for the first time, by root finding"
    ),
    "balance_high": Variable(
        "n_vocab", "1", "M h where e^(Mh) = (M-1) M h for the last time, by root finding"
    ),
    "stop_reason": Variable("n_vocab", "", "how each flow ended"),
}


@dataclass(frozen=True)
class Settings:
    n_vocab: tuple[int, ...] = (100, 1_000, 10_000, 100_000, 1_000_000)
    """vocabulary sizes"""
    shown: int = 1_000
    """the vocabulary of the figure and of single-vocabulary claims"""
    n_classes: int = 3
    """classes"""
    lr_decoder: float = 1.0
    """decoder rate, per step"""
    t1: float = 1e12
    """end of the flow, steps"""
    n_times: int = 600
    """recorded times, spaced logarithmically"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    if settings.shown not in settings.n_vocab:
        raise InputError(
            f"`shown` must be one of `n_vocab`, {settings.n_vocab}; got {settings.shown}."
        )
    found = grid(partial(_followed, settings=settings), on_progress, n_vocab=settings.n_vocab)
    return Measured(found, {"n_vocab": list(settings.n_vocab), "time": found.pop("time")[0]})


def _followed(n_vocab: int, *, settings: Settings) -> dict[str, Any]:
    feature = tied_features(0.2, checked_count("n_classes", settings.n_classes, low=2))
    path = saccade.reduced_flow(
        saccade.SequenceClasses(
            feature,
            n_vocab=checked_count("n_vocab", n_vocab, low=10),
            normalise=True,
            name="tied classes",
        ),
        t1=settings.t1,
        lr_decoder=checked_number("lr_decoder", settings.lr_decoder, low=0.0, open_low=True),
        lr_attention=0.0,
        n_times=checked_count("n_times", settings.n_times, low=50),
        rtol=1e-12,
        atol=1e-14,
        keep=(),
    )
    logits = {name: path[name].values[:, 0] for name in ("own_logit", "other_logit")}
    balance = dict(zip(("balance_low", "balance_high"), _balance(n_vocab), strict=True))
    return (
        logits | balance | {"stop_reason": str(path.stop_reason.values), "time": path.time.values}
    )


def _balance(n_vocab: int) -> tuple[float, float]:
    """Both heights, as M h, at which the exponential and the linear term of Lemma 6 are equal."""

    def excess(log_x: float) -> float:
        return np.exp(log_x) - log_x - np.log(n_vocab - 1)

    low, high = (
        brentq(excess, -2 * np.log(n_vocab), 0.0, xtol=1e-15),
        brentq(excess, 0.0, 5.0, xtol=1e-15),
    )
    return float(np.exp(low)), float(np.exp(high))


class Vocabulary:
    """One vocabulary of the record: what was measured, and the settings the theory needs, by step
    and by draw of a class.
    """

    def __init__(self, record: xr.Dataset, n_vocab: int) -> None:
        settings = EXPERIMENT.settings_of(record)
        self.rates = {"n_classes": settings.n_classes, "lr_decoder": settings.lr_decoder}
        self.n_vocab, self.by_step = n_vocab, self.rates | {"n_vocab": n_vocab}
        self.by_draw = {"n_vocab": n_vocab, "lr_decoder": settings.lr_decoder}
        moving = record.sel(n_vocab=n_vocab).sel(time=record.time > 0)
        self.times, own, other = (
            moving[name].values for name in ("time", "own_logit", "other_logit")
        )
        self.draws, self.height = self.times / settings.n_classes, own / (n_vocab - 1)
        self.speed = own / (1 + np.exp(own - other - np.log(n_vocab - 1)))
        self.scan_time, self.snap_time = (
            theory.scan_time(**self.by_step),
            theory.snap_time(**self.by_step),
        )
        self.early, self.late = (
            self.times <= 0.1 * self.scan_time,
            self.times >= 20 * self.snap_time,
        )

    def distance(self) -> Array:
        """The integral of the speed up to each time, by a quintic spline in ln(1 + t) from t = 0."""
        s = np.log1p(np.append(0.0, self.times))
        integral = make_interp_spline(
            s, np.append(0.0, self.speed) * np.exp(s), k=5
        ).antiderivative()
        return integral(s[1:]) - integral(0.0)

    def peak(self) -> theory.SpeedPeak:
        """Time and value of the largest speed, by a quintic spline through the times around it."""
        top = int(np.clip(self.speed.argmax(), 5, len(self.speed) - 6))
        near = slice(top - 5, top + 6)
        curve = make_interp_spline(np.log(self.times[near]), self.speed[near], k=5)
        fine = np.linspace(np.log(self.times[top - 1]), np.log(self.times[top + 1]), 10_001)
        best = curve(fine).argmax()
        return theory.SpeedPeak(time=float(np.exp(fine[best])), value=float(curve(fine[best])))

    def implicit_residual(self) -> Array:
        """Lemma 6 with its closed form put in, relative to the right-hand side and without
        cancellation at small heights.
        """
        x = self.n_vocab * theory.decoder_height(self.draws, **self.by_draw)
        right = self.n_vocab * self.by_draw["lr_decoder"] * self.draws
        return (np.expm1(x) + (self.n_vocab - 1) * x - right) / right


def claims(record: xr.Dataset) -> Iterator[Claim]:
    every = [Vocabulary(record, n_vocab) for n_vocab in record.n_vocab.values.tolist()]
    end = f"height along the flow to t = {every[0].times[-1]:.0e}"
    yield _largest(
        LEMMA_6, "e^(Mh) + (M-1) M h = M η_Y t + 1", 1e-12, [v.implicit_residual() for v in every]
    )
    yield _largest(
        LEMMA_6,
        end,
        1e-8,
        [v.height / theory.decoder_height(v.draws, **v.by_draw) - 1 for v in every],
    )
    yield from _balances(record)
    yield from _asymptotes(every)
    yield from _peak(every, Vocabulary(record, EXPERIMENT.settings_of(record).shown))
    gaps = [v.distance() / theory.speed_integral(v.times, **v.by_step) - 1 for v in every]
    yield _largest(
        THEOREM_4, "Γ/η_Z, the integral of the speed, against K (M-1)² h²/(2 η_Y)", 1e-6, gaps
    )


def _largest(
    statement: Statement,
    what: str,
    bound: float,
    relative_gaps: list[Array],
    against: str = CALCULUS,
) -> Claim:
    """Over all vocabularies and times. The flow is the theory's own: what is exact there is
    calculus.
    """
    gaps = np.abs(np.concatenate(relative_gaps))
    case = Case({}, [met("the flow reaches such times", len(gaps) > 0)], against)
    return case.at_most(statement, f"{what}: largest relative gap", gaps.max(initial=0.0), bound)


def _balances(record: xr.Dataset) -> Iterator[Claim]:
    sizes = record.n_vocab.values.tolist()
    exact = [theory.regime_exponents(n_vocab=n_vocab) for n_vocab in sizes]
    omega_1 = record.balance_high / np.log(record.n_vocab) - 1
    omega_0 = 1 + np.log(record.balance_low) / np.log(record.n_vocab)
    for n_vocab, omega, at in zip(sizes, exact, omega_1, strict=True):
        title = "ω_1: above h = (1 + ω_1) ln M/M the exponential outweighs the linear term"
        yield Case({"M": n_vocab}, against=CALCULUS).near(
            LEMMA_8, title, at, omega.omega_1, within=1e-9
        )
    gap = omega_0.values / [omega.omega_0 for omega in exact] - 1
    yield _largest(
        LEMMA_8, "ω_0: above h = M^(ω_0 - 2) the linear term outweighs the exponential", 1e-6, [gap]
    )
    order = omega_0 * record.n_vocab**0.99 * np.log(record.n_vocab)
    yield Case(against=CALCULUS).at_most(
        LEMMA_8, "ω_0 in units of 1/(M^0.99 ln M), largest over vocabularies", order, 2.0
    )


def _asymptotes(every: list[Vocabulary]) -> Iterator[Claim]:
    forms: dict[str, tuple[str, Callable[[Vocabulary], Array]]] = {
        "height η_Y t/(M K), t ≤ .1 t₀'": (
            "early",
            lambda v: v.height / theory.early_decoder_height(v.draws, **v.by_draw),
        ),
        "height ln(M η_Y t/K)/M, t ≥ 20 t₀": (
            "late",
            lambda v: v.height / theory.late_decoder_height(v.draws, **v.by_draw),
        ),
        "speed η_Y t/K, t ≤ .1 t₀'": (
            "early",
            lambda v: v.speed / theory.early_speed(v.times, **v.rates),
        ),
        "speed K ln(M η_Y t/K)/(η_Y t), t ≥ 20 t₀": (
            "late",
            lambda v: v.speed / theory.late_speed(v.times, **v.by_step),
        ),
    }
    for what, (when, ratio) in forms.items():
        yield _largest(
            LEMMA_9, what, 0.05, [(ratio(v) - 1)[getattr(v, when)] for v in every], SIMULATION
        )


def _peak(every: list[Vocabulary], shown: Vocabulary) -> Iterator[Claim]:
    i = int(np.abs(np.log(shown.times / (100 * shown.snap_time))).argmin())
    printed, corrected = (
        float(theory.late_speed(shown.times[i], **shown.by_step, as_printed=form))
        for form in (True, False)
    )
    case = Case({"M": shown.n_vocab})
    late = case.but(
        given=[at_least("end of the flow over t₀", shown.times[-1] / shown.snap_time, 90)],
        t=float(shown.times[i]),
    )
    title = f"late speed, at {shown.times[i] / shown.snap_time:.0f} t₀"
    yield late.erratum(
        THEOREM_1B,
        title,
        shown.speed[i],
        number="0.7",
        printed=printed,
        corrected=corrected,
        within=0.05 * corrected,
    )
    measured, predicted = (
        np.array(
            [(peak.value, peak.time / v.scan_time) for v, peak in zip(every, peaks, strict=True)]
        )
        for peaks in ([v.peak() for v in every], [theory.speed_peak(**v.by_step) for v in every])
    )
    here = [v.n_vocab for v in every].index(shown.n_vocab)
    for column, what in enumerate(("highest speed", "time of the highest speed over t₀'")):
        yield case.but(against=CALCULUS).near(
            SPEED_PEAK, what, measured[here, column], predicted[here, column], within=1e-3
        )
    value, moment = (measured / predicted - 1).T
    yield _largest(SPEED_PEAK, "highest speed", 1e-5, [value])
    yield _largest(SPEED_PEAK, "time of the highest speed", 1e-3, [moment])


def panels(record: xr.Dataset) -> Layout:
    settings = EXPERIMENT.settings_of(record)
    v = Vocabulary(record, settings.shown)
    unit, peak, t = v.scan_time, v.peak(), np.geomspace(0.01, 1e4, 500) * v.scan_time
    late, early, seen = t[t > unit], t[t < 6 * unit], slice(None, None, 4)
    speed = [
        Line(t / unit, theory.speed(t, **v.by_step), "theory, exact (eq. 85)", tone=None),
        Line(early / unit, theory.early_speed(early, **v.rates), "early: η_Y t/K", DASHES, 0),
        Line(
            late / unit,
            theory.late_speed(late, **v.by_step),
            "late: K ln(M η_Y t/K)/(η_Y t)",
            DASHES,
            1,
        ),
        Line(
            late / unit,
            theory.late_speed(late, **v.by_step, as_printed=True),
            "late, as printed in Theorem 1(b)",
            DOTS,
            3,
        ),
        Line(v.times[seen] / unit, v.speed[seen], "measured along flow (C)", RINGS, 2),
        Line(
            [peak.time / unit],
            [peak.value],
            f"peak: {peak.value:.3f} at {peak.time / unit:.2f} t₀'",
            POINTS,
            4,
        ),
    ]
    ratios = {
        "early": v.speed / theory.early_speed(v.times, **v.rates),
        "late": v.speed / theory.late_speed(v.times, **v.by_step),
    }
    kept = {"early": v.times < 3 * unit, "late": v.times > unit}
    off = [
        Line((v.times / unit)[kept[name]], ratio[kept[name]], f"over the {name} form", POINTS, i)
        for i, (name, ratio) in enumerate(ratios.items())
    ]
    off.append(Line([0.01, 1e4], [1, 1], "", tone=None, low=[0.95] * 2, high=[1.05] * 2))
    onset, x = v.snap_time / unit, "t/t₀', t₀' = K ln M/η_Y"
    marks = {1.0: "t₀'", float(onset): "t₀", float(20 * onset): "20 t₀"}
    title = f"M = {v.n_vocab}, K = {settings.n_classes}, η_Y = {settings.lr_decoder:g}"
    return [
        [Lines(title, x, "speed γ", speed, "xy", (0.01, 1e4), (3e-4, 30), marks=marks)],
        [
            Lines(
                "measured over its asymptotes",
                x,
                "measured / asymptote",
                off,
                "x",
                (0.01, 1e4),
                (0, 2),
                marks=marks,
            )
        ],
    ]


EXPERIMENT = Experiment(
    "speed-control",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: the speed γ that the decoder gives to attention, measured along the theory's flow (rings), against its exact "
        "form (line), the two forms of Lemma 9 (dashed: early and late) and the late form as Theorem 1(b) prints it, without M "
        "(dotted). The peak comes before t₀', not between t₀' and t₀. Panel 2: measured over predicted; the late form is accurate "
        "to 5 % (band) only from about 20 t₀ on."
    ),
    finding="the speed γ peaks at {highest speed (M 1000):.3f}, when t = {time of the highest speed over*:.2f} t₀' (M = 1000)",
    table=cell_rows,
    variables=VARIABLES,
    dynamics="C: reduced flow of the theory, attention held still",
    time_unit="steps of SGD",
)
