"""The decoder's rate alone decides when attention snaps; the ratio of the two rates decides how far
it has moved by then.

Follows the theory's flow (C) over a grid of both rates, on five classes that share one token, and
asks of each run, at a given horizon, whether it is still scanning or frozen. Expect an onset that
goes as 1 / η_Y whatever η_Z is (powers within 0.05 of -1 and 0), every run on the side of t0' and
t0 where it should be at the horizon, and log growth within 5 % of theory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.errors import InputError, checked_count, checked_number
from saccade.experiments.scan_and_snap.snap_growth import (
    DEPTH,
    SnapTheory,
    exponent,
    growth,
    one_common_token,
    onset,
)
from saccade.lab.claim import Case, Claim
from saccade.lab.panel import POINTS, RINGS, Heat, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, grid
from saccade.numerals import numeral
from saccade.theory.condition import below
from saccade.theory.scan_and_snap.assumptions import LARGEST, WEAK_OVERLAPS
from saccade.theory.scan_and_snap.statements import THEOREM_4

WITHIN = 0.05
RATES = "lr_decoder lr_attention"
VARIABLES = {
    "onset": Variable(RATES, "steps", "time at which the local exponent falls below half its peak"),
    "log_growth": Variable(
        RATES, "1", "B at the horizon: integral of dz / f² of the most frequent distinct token"
    ),
    "exponent": Variable(RATES, "1", "dB / d ln t at the horizon"),
}


@dataclass(frozen=True)
class Settings:
    n_classes: int = 5
    """classes"""
    common_feature: float = 0.2
    """f_nl(0) of the common token, in (0, 1); classes overlap by its square"""
    n_distinct: int = 4
    """distinct tokens per class"""
    n_vocab: int = 1000
    """size of the vocabulary"""
    n_rates: int = 12
    """rates of each kind, log-spaced"""
    lr_decoder: tuple[float, float] = (1e-4, 1.0)
    """smallest and largest decoder rate, per step"""
    lr_attention: tuple[float, float] = (1e-2, 100.0)
    """smallest and largest attention rate, per step"""
    horizon: float = 1e4
    """time at which runs are compared, steps"""
    t1: float = 1e9
    """end of the flows, steps"""
    n_times: int = 160
    """samples of each flow, log-spaced"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    shape = ("n_classes", "common_feature", "n_distinct", "n_vocab")
    task = one_common_token(**{name: getattr(settings, name) for name in shape})
    if not 0 < settings.horizon < settings.t1:
        raise InputError(
            f"`horizon` must lie between 0 and `t1`, {settings.t1:g}; got {settings.horizon:g}."
        )
    rates = {
        name: _spaced(name, getattr(settings, name), settings.n_rates) for name in RATES.split()
    }
    found = grid(partial(_followed, task=task, settings=settings), on_progress, **rates)
    start = SnapTheory.of_task(task, 1.0, 1.0)
    return Measured(
        found,
        rates
        | {
            name: getattr(start, name)
            for name in ("n_classes", "n_vocab", "normaliser", "concentration")
        },
    )


def _spaced(name: str, ends: tuple[float, float], count: int) -> NDArray[np.float64]:
    low, high = (checked_number(name, end, low=0.0, open_low=True) for end in ends)
    return np.geomspace(low, high, checked_count("n_rates", count, low=2))


def _followed(
    lr_decoder: float, lr_attention: float, *, task: saccade.SequenceClasses, settings: Settings
) -> dict[str, float]:
    rates: dict[str, Any] = {"lr_decoder": float(lr_decoder), "lr_attention": float(lr_attention)}
    record = saccade.reduced_flow(
        task, t1=settings.t1, n_times=settings.n_times, keep=("attention_logits",), **rates
    )
    t, B = record.time.values[1:], growth(record).log_growth[1:]
    at_horizon = {"log_growth": B, "exponent": exponent(B, t)}
    place = np.log(settings.horizon)
    return {"onset": onset(B, t)} | {
        name: float(np.interp(place, np.log(t), values)) for name, values in at_horizon.items()
    }


def _theory(record: xr.Dataset, lr_decoder: float, lr_attention: float) -> SnapTheory:
    return SnapTheory.of_record(record, lr_decoder=lr_decoder, lr_attention=lr_attention)


def _over_grid(record: xr.Dataset, value: Callable[[SnapTheory], float]) -> NDArray[np.float64]:
    rates = record.lr_decoder.values.tolist(), record.lr_attention.values.tolist()
    return np.array([[value(_theory(record, y, z)) for z in rates[1]] for y in rates[0]])


def _scanned(record: xr.Dataset) -> NDArray[np.bool_]:
    """Flows that have moved before they freeze."""
    return _over_grid(record, lambda at: at.depth) >= DEPTH


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings, scanned, measured = (
        EXPERIMENT.settings_of(record),
        _scanned(record),
        record.onset.values,
    )
    horizon, usual = settings.horizon, replace(settings, n_rates=Settings.n_rates) == Settings()
    K = int(record.n_classes)
    weak = below(WEAK_OVERLAPS, (K - 1) * float(record.normaliser) ** -2, 1 / K, LARGEST)
    case = Case(given=[weak])
    said = "How fast the decoder learns decides when attention snaps; how fast attention learns does not."
    for rate, power, expected in zip(
        ("η_Y", "η_Z"), _powers(record, measured, scanned), (-1.0, 0.0), strict=True
    ):
        yield case.near(
            THEOREM_4,
            f"power of {rate} in the onset",
            power,
            expected,
            within=WITHIN,
            sentence=said,
        )
    scan, snap = (
        _over_grid(record, lambda at: at.scan_time),
        _over_grid(record, lambda at: at.snap_time),
    )
    title = "flows that scanned have their onset between t0' and t0"
    for at, first, last in (
        (case, 1.0, 1.0),
        (case.tightened(1.35, usual, "t0'"), 1.35, 1.0),
        (case.tightened(0.5, usual, "t0"), 1.0, 0.5),
    ):
        yield at.none(
            THEOREM_4, title, ~((measured > first * scan) & (measured < last * snap))[scanned]
        )
    frozen, at_horizon = measured < horizon, case.but(t=horizon)
    wrong = (frozen & (horizon < scan)) | (~frozen & (horizon > snap))
    yield at_horizon.none(
        THEOREM_4, "flows that scanned are on the right side of t0' and t0", wrong[scanned]
    )
    grown, predicted = (
        record.log_growth.values,
        _over_grid(record, lambda at: float(at.growth(horizon))),
    )
    title = "growth is largest at the predicted decoder rate, for every attention rate"
    yield at_horizon.none(
        THEOREM_4, title, np.argmax(grown, axis=0) != np.argmax(predicted, axis=0)
    )
    moved = scanned & (_over_grid(record, lambda at: at.depth_at(horizon)) >= DEPTH)
    gap = np.abs(grown / predicted - 1)[moved] if moved.any() else np.nan
    title = "log growth past the linear start, largest relative gap to theory"
    yield at_horizon.at_most(THEOREM_4, title, gap, WITHIN)


def _powers(
    record: xr.Dataset, times: NDArray[np.float64], cells: NDArray[np.bool_]
) -> tuple[float, float]:
    """Powers of the two rates in a time, by least squares over `cells`; missing where too few of
    them have a time.
    """
    cells = cells & np.isfinite(times)
    if cells.sum() < 3:
        return float("nan"), float("nan")
    rates = np.meshgrid(np.log(record.lr_decoder), np.log(record.lr_attention), indexing="ij")
    design = np.stack([rates[0][cells], rates[1][cells], np.ones(cells.sum())], axis=1)
    eta_Y, eta_Z, _ = np.linalg.lstsq(design, np.log(times[cells]), rcond=None)[0]
    return float(eta_Y), float(eta_Z)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    horizon = EXPERIMENT.settings_of(record).horizon
    cells = {
        "onset": record.onset.values,
        "scan_time": _over_grid(record, lambda at: at.scan_time),
        "snap_time": _over_grid(record, lambda at: at.snap_time),
        "depth": _over_grid(record, lambda at: at.depth),
        "log_growth_at_horizon": record.log_growth.values,
        "log_growth_theory": _over_grid(record, lambda at: float(at.growth(horizon))),
        "exponent_at_horizon": record.exponent.values,
    }
    return [
        {"lr_decoder": float(y), "lr_attention": float(z)}
        | {name: float(values[i, j]) for name, values in cells.items()}
        for i, y in enumerate(record.lr_decoder.values)
        for j, z in enumerate(record.lr_attention.values)
    ]


def panels(record: xr.Dataset) -> Layout:
    t, unit = EXPERIMENT.settings_of(record).horizon, _theory(record, 1.0, 1.0)
    x, y = record.lr_decoder.values, record.lr_attention.values
    many, snapping = (
        np.geomspace(x[0], x[-1], 60),
        {unit.scan_time / t: f"t0' = {t:g}", unit.snap_time / t: f"t0 = {t:g}"},
    )
    scanned, grown, onsets = _scanned(record), [], []
    for j, rate in enumerate(y):
        tone, name = (
            (j + 1) / len(y),
            f"η_Z = {rate:.3g}" if j in (0, len(y) // 2, len(y) - 1) else "",
        )
        cells = record.isel(lr_attention=j)
        for chosen, style in ((scanned[:, j], POINTS), (~scanned[:, j], RINGS)):
            label = name if style == POINTS else ""
            grown.append(Line(x, np.where(chosen, cells.log_growth, np.nan), label, style, tone))
        grown.append(
            Line(
                many,
                [float(_theory(record, each, float(rate)).growth(t)) for each in many],
                "",
                tone=tone,
            )
        )
        onsets.append(
            Line(
                x,
                np.where(scanned[:, j], cells.onset * x / unit.scan_time, np.nan),
                name,
                POINTS,
                tone,
            )
        )
    columns, rows = ([numeral(rate, ".2g") for rate in rates] for rates in (x, y[::-1]))
    shown = record.exponent.values.T[::-1]
    eta_Y = "η_Y (per step)"
    room = 1.7 * float(record.log_growth.max())  # for the legend
    levels = {1.0: "t0' = K ln M / η_Y", unit.snap_time / unit.scan_time: "t0 = 2(1 + ω_1) t0'"}
    title = f"log growth at t = {t:g}: lines theory"
    drawn: list[Heat | Lines] = [
        Heat(
            f"bright: scanning, dark: frozen (dB/d ln t at t = {t:g})",
            eta_Y,
            "η_Z (per step)",
            shown,
            columns,
            rows,
        ),
        Lines(title, eta_Y, "log growth B", grown, "x", ylim=(0, room), marks=snapping),
        Lines(
            "onset of the flows that scanned",
            eta_Y,
            "onset / t0'",
            onsets,
            "x",
            ylim=(0, 4.0),
            levels=levels,
        ),
    ]
    return drawn


EXPERIMENT = Experiment(
    "snap-phase-diagram",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: growth per unit of ln t of the theory's flow (C) at the horizon, over both rates. Bright: still scanning, dark: "
        "frozen. The boundary is vertical: the decoder's rate alone decides. Panel 2: log growth at the horizon (points) and "
        "theory (curves); for a given attention rate it is largest where the run has just snapped, between the lines t0' = "
        "horizon and t0 = horizon. Rings: attention freezes before it has moved. Panel 3: the onset of every flow that scanned, "
        "in units of t0': it lies between t0' and t0 and is constant, so the onset scales as 1 / η_Y and does not depend on the "
        "attention rate."
    ),
    finding="the onset of the snap scales as η_Y^{power of η_Y in the onset:.2f} η_Z^{power of η_Z in the onset:.2f}",
    variables=VARIABLES,
    dynamics="C: reduced flow of the theory",
    time_unit="steps of SGD",
    table=table,
)
