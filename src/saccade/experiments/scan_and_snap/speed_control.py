"""The decoder lends attention a speed that rises as t, peaks before t_0' = K ln M/eta_Y and dies as ln t/t.

Integrates the theory's own flow to t = 1e12 with attention held still, for vocabularies from 1e2 to 1e6, and reads height and
speed off its logits. Expected: Lemma 6's height to 1e-8; both forms of Lemma 9 within 5 % for t <= .1 t_0' and t >= 20 t_0, and
without the M that Theorem 1(b) drops off by half; the peak at 4.416 for M = 1000. About 6 s on two cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.errors import InputError, checked_count, checked_number
from saccade.experiments.errata import erratum_pair
from saccade.experiments.scan_and_snap.decoder_descent import tied_features
from saccade.records.claim import Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 6
WHAT = "Lemmas 6, 8, 9"
EXPECTED = "the speed gamma peaks at {highest speed, M = 1000:.3f}, at {time of the highest speed over*:.2f} t0' (M = 1000)"
CAPTION = (
    "The speed gamma that the decoder lends to attention, measured along the theory's flow (dots), against its exact form (line), "
    "the two forms of Lemma 9 (dashed: early and late) and the late form as Theorem 1(b) prints it, without M (dotted). Look at "
    "the peak (star): it comes before t_0', not between t_0' and t_0. Below: measured over predicted; the late form is good to "
    "5 % (band) only from about 20 t_0 on."
)

_DEFINITIONS = {
    "own_logit": ("1", "w_nn: logit that class 1 gives its own next token, along the theory's flow"),
    "other_logit": ("1", "w_nj: logit that class 1 gives any other token, along the theory's flow"),
    "balance_low": ("1", "M h where e^(Mh) = (M-1) M h for the first time, by root finding"),
    "balance_high": ("1", "M h where e^(Mh) = (M-1) M h for the last time, by root finding"),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

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


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    from saccade.records.schema import make_record

    started = time.perf_counter()
    if config.shown not in config.n_vocab:
        raise InputError(f"`shown` must be one of `n_vocab`, {config.n_vocab}; got {config.shown}.")
    flows = []
    for i, n_vocab in enumerate(config.n_vocab):
        flows.append(_flow(n_vocab, config))
        on_progress((i + 1) / len(config.n_vocab))
    balances = np.array([_balance(n_vocab) for n_vocab in config.n_vocab])
    record = make_record(
        dynamics="C: reduced flow of the theory, attention held still",
        variables={
            "own_logit": (("n_vocab", "time"), np.stack([flow.own_logit.values[:, 0] for flow in flows])),
            "other_logit": (("n_vocab", "time"), np.stack([flow.other_logit.values[:, 0] for flow in flows])),
            "balance_low": (("n_vocab",), balances[:, 0]),
            "balance_high": (("n_vocab",), balances[:, 1]),
            "stop_reason": (("n_vocab",), [str(flow.stop_reason.values) for flow in flows]),
        },
        coords={"n_vocab": list(config.n_vocab), "time": flows[0].time.values},
        time_unit="steps of SGD",
        config=json.loads(flows[0].attrs["config"]),
        wall_time=time.perf_counter() - started,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def _flow(n_vocab: int, config: Config) -> xr.Dataset:
    feature = tied_features(0.2, checked_count("n_classes", config.n_classes, low=2))
    return saccade.reduced_flow(
        saccade.SequenceClasses(feature, n_vocab=checked_count("n_vocab", n_vocab, low=10), normalise=True, name="tied classes"),
        t1=config.t1,
        lr_decoder=checked_number("lr_decoder", config.lr_decoder, low=0.0, open_low=True),
        lr_attention=0.0,
        n_times=checked_count("n_times", config.n_times, low=50),
        rtol=1e-12,
        atol=1e-14,
        keep=(),
    )


def _balance(n_vocab: int) -> tuple[float, float]:
    """Both heights, as M h, at which the exponential and the linear term of Lemma 6 are equal."""
    from scipy.optimize import brentq

    def excess(log_x: float) -> float:
        return np.exp(log_x) - log_x - np.log(n_vocab - 1)

    low, high = brentq(excess, -2 * np.log(n_vocab), 0.0, xtol=1e-15), brentq(excess, 0.0, 5.0, xtol=1e-15)
    return float(np.exp(low)), float(np.exp(high))


class _Vocabulary:
    """One vocabulary of the record: what was measured, and the settings the theory needs, by step and by draw of a class."""

    def __init__(self, record: xr.Dataset, n_vocab: int) -> None:
        settings = json.loads(record.attrs["settings"])
        rates = {"n_classes": settings["n_classes"], "lr_decoder": settings["lr_decoder"]}
        self.n_vocab, self.rates = n_vocab, rates
        self.by_step, self.by_draw = rates | {"n_vocab": n_vocab}, {"n_vocab": n_vocab, "lr_decoder": settings["lr_decoder"]}
        moving = record.sel(n_vocab=n_vocab).sel(time=record.time > 0)
        self.times, own, other = (moving[name].values for name in ("time", "own_logit", "other_logit"))
        self.draws = self.times / settings["n_classes"]
        self.height = own / (n_vocab - 1)
        self.speed = own / (1 + np.exp(own - other - np.log(n_vocab - 1)))
        self.scan_time, self.snap_time = theory.scan_time(**self.by_step), theory.snap_time(**self.by_step)
        self.early, self.late = self.times <= 0.1 * self.scan_time, self.times >= 20 * self.snap_time

    def distance(self) -> NDArray[np.float64]:
        """The integral of the speed up to each time, by a quintic spline in ln(1 + t) from t = 0."""
        from scipy.interpolate import make_interp_spline

        s = np.log1p(np.append(0.0, self.times))
        integral = make_interp_spline(s, np.append(0.0, self.speed) * np.exp(s), k=5).antiderivative()
        return integral(s[1:]) - integral(0.0)

    def peak(self) -> theory.SpeedPeak:
        """Time and value of the largest speed, by a quintic spline through the times around it."""
        from scipy.interpolate import make_interp_spline

        top = int(np.clip(self.speed.argmax(), 5, len(self.speed) - 6))
        near = slice(top - 5, top + 6)
        curve = make_interp_spline(np.log(self.times[near]), self.speed[near], k=5)
        fine = np.linspace(np.log(self.times[top - 1]), np.log(self.times[top + 1]), 10_001)
        best = curve(fine).argmax()
        return theory.SpeedPeak(time=float(np.exp(fine[best])), value=float(curve(fine[best])))


def _vocabularies(record: xr.Dataset) -> list[_Vocabulary]:
    return [_Vocabulary(record, n_vocab) for n_vocab in record.n_vocab.values.tolist()]


def claims(record: xr.Dataset) -> list[Claim]:
    every = _vocabularies(record)
    shown = _Vocabulary(record, json.loads(record.attrs["settings"])["shown"])
    return [
        *_height_claims(every),
        *_balance_claims(record),
        *_asymptote_claims(every),
        *_printed_late_speed(shown),
        *_peak_claims(every, shown),
        _largest(
            "distance covered, the integral of the speed, against K (M-1)^2 h^2/(2 eta_Y)",
            "[tian2023, Theorem 4], Gamma",
            1e-6,
            [v.distance() / theory.speed_integral(v.times, **v.by_step) - 1 for v in every],
        ),
    ]


def _largest(what: str, source: str, tolerance: float, relative_gaps: list[NDArray[np.float64]]) -> Claim:
    gaps = np.concatenate(relative_gaps)
    return Claim(
        statement=f"{what}: largest relative gap over all vocabularies",
        source=source,
        assumptions={"the flow reaches such times": len(gaps) > 0},
        predicted=0.0,
        measured=float(np.abs(gaps).max(initial=0.0)),
        tolerance=tolerance,
    )


def _implicit_residual(v: _Vocabulary) -> NDArray[np.float64]:
    """Lemma 6 with its closed form put in, relative to the right-hand side and without cancellation at small heights."""
    x = v.n_vocab * theory.decoder_height(v.draws, **v.by_draw)
    right = v.n_vocab * v.by_draw["lr_decoder"] * v.draws
    return (np.expm1(x) + (v.n_vocab - 1) * x - right) / right


def _height_claims(every: list[_Vocabulary]) -> list[Claim]:
    lemma = "[tian2023, Lemma 6]"
    gaps = [v.height / theory.decoder_height(v.draws, **v.by_draw) - 1 for v in every]
    return [
        _largest(
            "e^(Mh) + (M-1) M h = M eta_Y t + 1 by the Lambert function", lemma, 1e-12, [_implicit_residual(v) for v in every]
        ),
        _largest(f"height of the decoder along the flow to t = {every[0].times[-1]:.0e}", lemma, 1e-8, gaps),
    ]


def _balance_claims(record: xr.Dataset) -> list[Claim]:
    lemma, sizes = "[tian2023, Lemma 8]", record.n_vocab.values.tolist()
    exact = [theory.regime_exponents(n_vocab=n_vocab) for n_vocab in sizes]
    omega_1 = record.balance_high / np.log(record.n_vocab) - 1
    omega_0 = 1 + np.log(record.balance_low) / np.log(record.n_vocab)
    what = "omega_1: from h = (1 + omega_1) ln M/M on the exponential outweighs the linear term"
    return [
        *(
            Claim(f"{what}, M = {n_vocab:.0e}", lemma, predicted=omega.omega_1, measured=float(at), tolerance=1e-9)
            for n_vocab, omega, at in zip(sizes, exact, omega_1, strict=True)
        ),
        _largest(
            "omega_0: from h = M^(omega_0 - 2) on the linear term outweighs the exponential",
            lemma,
            1e-6,
            [omega_0.values / [omega.omega_0 for omega in exact] - 1],
        ),
        Claim(
            statement="omega_0 is of the order 1/(M^0.99 ln M): largest ratio over all vocabularies, at most 2",
            source=lemma,
            predicted=0.0,
            measured=float((omega_0 * record.n_vocab**0.99 * np.log(record.n_vocab)).max()),
            tolerance=2.0,
        ),
    ]


def _asymptote_claims(every: list[_Vocabulary]) -> list[Claim]:
    early_height = [(v.height / theory.early_decoder_height(v.draws, **v.by_draw) - 1)[v.early] for v in every]
    late_height = [(v.height / theory.late_decoder_height(v.draws, **v.by_draw) - 1)[v.late] for v in every]
    early_speed = [(v.speed / theory.early_speed(v.times, **v.rates) - 1)[v.early] for v in every]
    late_speed = [(v.speed / theory.late_speed(v.times, **v.by_step) - 1)[v.late] for v in every]
    lemma = "[tian2023, Lemma 9]"
    return [
        _largest("height eta_Y t/(M K), t <= .1 t_0'", lemma, 0.05, early_height),
        _largest("height ln(M eta_Y t/K)/M, t >= 20 t_0", lemma, 0.05, late_height),
        _largest("speed eta_Y t/K, t <= .1 t_0'", lemma, 0.05, early_speed),
        _largest("speed K ln(M eta_Y t/K)/(eta_Y t), t >= 20 t_0", lemma, 0.05, late_speed),
    ]


def _printed_late_speed(v: _Vocabulary) -> list[Claim]:
    """At the recorded time nearest 100 t_0."""
    i = int(np.abs(np.log(v.times / (100 * v.snap_time))).argmin())
    printed, corrected = (float(theory.late_speed(v.times[i], **v.by_step, as_printed=form)) for form in (True, False))
    return erratum_pair(
        "0.7",
        f"late speed, at t = {v.times[i]:.0f} or {v.times[i] / v.snap_time:.0f} t_0, M = {v.n_vocab}",
        "[tian2023, Theorem 1(b)]",
        printed=printed,
        corrected=corrected,
        measured=v.speed[i],
        tolerance=0.05 * corrected,
        assumptions={"the flow reaches 90 t_0": bool(v.times[-1] >= 90 * v.snap_time)},
    )


def _peak_claims(every: list[_Vocabulary], shown: _Vocabulary) -> list[Claim]:
    source = "[tian2023, Lemma 9], exact peak (ours)"
    measured, predicted = (
        [(peak.value, peak.time / v.scan_time) for v, peak in zip(every, peaks, strict=True)]
        for peaks in ([v.peak() for v in every], [theory.speed_peak(**v.by_step) for v in every])
    )
    value, moment = (np.array(measured) / np.array(predicted) - 1).T
    i = [v.n_vocab for v in every].index(shown.n_vocab)
    return [
        Claim(f"highest speed, M = {shown.n_vocab}", source, predicted[i][0], measured[i][0], tolerance=1e-3),
        Claim(f"time of the highest speed over t_0', M = {shown.n_vocab}", source, predicted[i][1], measured[i][1], tolerance=1e-3),
        _largest("highest speed", source, 1e-5, [value]),
        _largest("time of the highest speed", source, 1e-3, [moment]),
    ]


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for v in _vocabularies(record):
        columns = {
            "time": v.times,
            "time_over_scan_time": v.times / v.scan_time,
            "speed_measured": v.speed,
            "speed_exact": theory.speed(v.times, **v.by_step),
            "speed_early": theory.early_speed(v.times, **v.rates),
            "speed_late": theory.late_speed(v.times, **v.by_step),
            "speed_late_as_printed": theory.late_speed(v.times, **v.by_step, as_printed=True),
        }
        for i in range(0, len(v.times), 4):
            rows.append({"n_vocab": v.n_vocab} | {name: float(values[i]) for name, values in columns.items()})
    return rows


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    settings = json.loads(record.attrs["settings"])
    v = _Vocabulary(record, settings["shown"])
    drawing = new_figure(width=8.6, height=7.4)
    top, bottom = drawing.subplots(2, 1, sharex=True, height_ratios=(1.6, 1))
    top.set_title(f"$M$ = {v.n_vocab}, $K$ = {settings['n_classes']}, $\\eta_Y$ = {settings['lr_decoder']:g}", loc="left")
    _draw_speed(top, v)
    _draw_ratios(bottom, v)
    for axes in (top, bottom):
        _mark_onsets(axes, v)
    return drawing


def _draw_speed(axes: Any, v: _Vocabulary) -> None:
    from saccade.report.style import categorical

    t, peak = np.geomspace(0.01, 1e4, 500) * v.scan_time, v.peak()
    late, early = t[t > v.scan_time], t[t < 6 * v.scan_time]
    unit = v.scan_time
    axes.plot(t / unit, theory.speed(t, **v.by_step), color="black", lw=1.4, label="theory, exact (eq. 85)")
    axes.plot(early / unit, theory.early_speed(early, **v.rates), "--", color=categorical(0), label=r"early: $\eta_Y t/K$")
    for form, style, color, label in (
        (False, "--", categorical(1), r"late: $K\ln(M\eta_Y t/K)/(\eta_Y t)$"),
        (True, ":", categorical(3), "late, as printed in Theorem 1(b)"),
    ):
        axes.plot(late / unit, theory.late_speed(late, **v.by_step, as_printed=form), style, color=color, label=label)
    axes.plot(v.times / unit, v.speed, "o", ms=3.5, mfc="none", color=categorical(2), markevery=4, label="measured along flow (C)")
    label = f"peak: {peak.value:.3f} at {peak.time / unit:.2f} $t_0'$"
    axes.plot(peak.time / unit, peak.value, "*", ms=13, color=categorical(4), label=label)
    axes.set(xscale="log", yscale="log", xlim=(0.01, 1e4), ylim=(3e-4, 30), ylabel=r"speed $\gamma$ (unitless)")
    axes.legend(loc="lower center", fontsize="small")


def _draw_ratios(axes: Any, v: _Vocabulary) -> None:
    from saccade.report.style import categorical

    axes.axhspan(0.95, 1.05, color="0.88", lw=0)
    axes.axhline(1, color="black", lw=1.4)
    ratios = (v.speed / theory.early_speed(v.times, **v.rates), v.speed / theory.late_speed(v.times, **v.by_step))
    shown = (v.times < 3 * v.scan_time, v.times > v.scan_time)
    for i, (ratio, kept, name) in enumerate(zip(ratios, shown, ("early", "late"), strict=True)):
        axes.plot((v.times / v.scan_time)[kept], ratio[kept], "o", ms=3.5, color=categorical(i), label=f"over the {name} form")
    axes.set(xlabel=r"$t/t_0'$, $t_0' = K\ln M/\eta_Y$", ylabel="measured / asymptote", ylim=(0, 2))
    axes.legend(loc="lower right")


def _mark_onsets(axes: Any, v: _Vocabulary) -> None:
    onset = v.snap_time / v.scan_time
    for place, name, align in ((1.0, "$t_0'$ ", "right"), (onset, " $t_0$", "left"), (20 * onset, " $20\\,t_0$", "left")):
        axes.axvline(place, color="0.4", lw=0.8, ls="--")
        axes.text(place, 0.97, name, transform=axes.get_xaxis_transform(), ha=align, va="top")
