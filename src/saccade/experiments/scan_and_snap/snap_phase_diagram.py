"""When attention snaps is set by the decoder's rate alone, and how far it has moved by then by the ratio of the two rates.

Follows the theory's flow (C) over a grid of both rates, on five classes that share one token, and asks of each run, at a given
horizon, whether it is still scanning or frozen. Expected: the onset goes as 1 / eta_Y whatever eta_Z is, powers within 0.05 of -1
and 0; at the horizon every run is on the side of t0' and t0 it should be; log growth within 5 % of theory. About 15 s on two cores.
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
from saccade.experiments.scan_and_snap.log_growth import exponent, growth, one_common_token, onset
from saccade.experiments.scan_and_snap.snap_cases import Case, start_values
from saccade.experiments.scan_and_snap.snap_theory import DEPTH, CaseTheory
from saccade.records.claim import Claim

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 15
WHAT = "Theorem 4, over both rates"
EXPECTED = "onset of the snap goes as eta_Y^{power of eta_Y in the onset:.2f} eta_Z^{power of eta_Z in the onset:.2f}"
_WITHIN = 0.05

CAPTION = (
    "Left: the local exponent dB/d ln t of the theory's flow (C) at the horizon, over both rates. Bright runs are still scanning, "
    "dark ones have frozen; theory puts the change between the white lines t0' = horizon and t0 = horizon, whatever eta_Z is. "
    "Below the orange diagonal attention freezes before it has moved. Middle: log growth then, theory's contours over it; for a "
    "given attention rate it is largest where the run has just snapped. Right: the onset of every flow above the diagonal, "
    "in units of t0': between t0' and t0, and level, so it goes as 1 / eta_Y and does not depend on the attention rate."
)

_DEFINITIONS = {
    "onset": ("steps", "time at which the local exponent falls below half its peak"),
    "log_growth": ("1", "B at the horizon: integral of dz / f^2 of the most frequent distinct token"),
    "exponent": ("1", "dB / d ln t at the horizon"),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

    n_classes: int = 5
    """classes"""
    common_feature: float = 0.2
    """f_nl(0) of the common token, in (0, 1); classes overlap by its square"""
    n_distinct: int = 4
    """distinct tokens a class"""
    n_vocab: int = 1000
    """size of the vocabulary"""
    n_rates: int = 12
    """rates of each kind, log-spaced"""
    lr_decoder: tuple[float, float] = (1e-4, 1.0)
    """least and largest decoder rate, per step"""
    lr_attention: tuple[float, float] = (1e-2, 100.0)
    """least and largest attention rate, per step"""
    horizon: float = 1e4
    """time at which runs are compared, steps"""
    t1: float = 1e9
    """end of the flows, steps"""
    n_times: int = 160
    """samples of each flow, log-spaced"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    shape = ("n_classes", "common_feature", "n_distinct", "n_vocab")
    task = one_common_token(**{name: getattr(config, name) for name in shape})
    if not 0 < config.horizon < config.t1:
        raise InputError(f"`horizon` must lie between 0 and `t1`, {config.t1:g}; got {config.horizon:g}.")
    decoder, attention = (_rates(name, getattr(config, name), config.n_rates) for name in ("lr_decoder", "lr_attention"))
    found = np.empty((len(decoder), len(attention), len(_DEFINITIONS)))
    for i, j in np.ndindex(*found.shape[:2]):
        found[i, j] = _looked_at(task, float(decoder[i]), float(attention[j]), config)
        on_progress((i * len(attention) + j + 1) / (len(decoder) * len(attention)))
    return _record(task, found, decoder, attention, config, time.perf_counter() - started)


def _rates(name: str, ends: tuple[float, float], count: int) -> NDArray[np.float64]:
    low, high = (checked_number(name, end, low=0.0, open_low=True) for end in ends)
    return np.geomspace(low, high, checked_count("n_rates", count, low=2))


def _looked_at(task: saccade.SequenceClasses, lr_decoder: float, lr_attention: float, config: Config) -> list[float]:
    """Onset, and log growth and exponent at the horizon."""
    record = saccade.reduced_flow(
        task,
        t1=config.t1,
        n_times=config.n_times,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
        keep=("attention_logits",),
    )
    t, B = record.time.values[1:], growth(record).log_growth[1:]
    return [onset(B, t), *(np.interp(np.log(config.horizon), np.log(t), values) for values in (B, exponent(B, t)))]


def _record(
    task: saccade.SequenceClasses,
    found: NDArray[np.float64],
    decoder: NDArray[np.float64],
    attention: NDArray[np.float64],
    config: Config,
    wall_time: float,
) -> xr.Dataset:
    from saccade.records.schema import make_record

    start = start_values([Case("rates", "base", task, 1.0, 1.0)])
    record = make_record(
        dynamics="C: reduced flow of the theory",
        variables={name: (("lr_decoder", "lr_attention"), found[..., i]) for i, name in enumerate(_DEFINITIONS)},
        coords={"lr_decoder": decoder, "lr_attention": attention}
        | {name: start[name][0] for name in ("n_classes", "n_vocab", "normaliser", "concentration")},
        time_unit="steps of SGD",
        config={"task": task.name},
        wall_time=wall_time,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def _theory(record: xr.Dataset, lr_decoder: float, lr_attention: float) -> CaseTheory:
    names = ("n_classes", "n_vocab", "normaliser", "concentration")
    return CaseTheory(lr_decoder=lr_decoder, lr_attention=lr_attention, **{name: record[name].item() for name in names})


def _over_grid(record: xr.Dataset, value: Callable[[CaseTheory], float]) -> NDArray[np.float64]:
    rates = record.lr_decoder.values, record.lr_attention.values
    return np.array([[value(_theory(record, float(y), float(z))) for z in rates[1]] for y in rates[0]])


def _horizon(record: xr.Dataset) -> float:
    return float(json.loads(record.attrs["settings"])["horizon"])


def claims(record: xr.Dataset) -> list[Claim]:
    scanned = _over_grid(record, lambda at: at.depth) >= DEPTH
    n = int(scanned.sum())
    scan, snap = _over_grid(record, lambda at: at.scan_time), _over_grid(record, lambda at: at.snap_time)
    measured = record.onset.values
    powers = _powers(record, measured, scanned)
    horizon = _horizon(record)
    predicted_growth = _over_grid(record, lambda at: float(at.growth(horizon)))
    gap = np.abs(record.log_growth.values / predicted_growth - 1)
    best = np.argmax(record.log_growth.values, axis=0), np.argmax(predicted_growth, axis=0)
    left_start = scanned & (_over_grid(record, lambda at: at.depth_at(horizon)) >= DEPTH)
    frozen = measured < horizon
    wrong = (frozen & (horizon < scan)) | (~frozen & (horizon > snap))
    counts = f"of the {n} flows that scanned"
    rows = [
        ("power of eta_Y in the onset", -1.0, powers[0], _WITHIN),
        ("power of eta_Z in the onset", 0.0, powers[1], _WITHIN),
        (
            f"{counts}, how many have an onset that is not between t0' and t0",
            0,
            np.sum(~((measured > scan) & (measured < snap))[scanned]),
            0,
        ),
        (f"{counts}, how many are on the wrong side of t0' or t0 at t = {horizon:g}", 0, np.sum(wrong[scanned]), 0),
        ("attention rates for which another decoder rate than predicted grows most by then", 0, np.sum(best[0] != best[1]), 0),
        (
            f"log growth at t = {horizon:g}, largest relative gap to theory among flows past their linear start",
            0,
            gap[left_start].max() if left_start.any() else np.nan,
            _WITHIN,
        ),
    ]
    met = _assumptions(record)
    return [Claim(text, "[tian2023, Theorem 4]", float(p), float(m), float(tol), met) for text, p, m, tol in rows]


def _powers(record: xr.Dataset, times: NDArray[np.float64], cells: NDArray[np.bool_]) -> tuple[float, float]:
    """Powers of the two rates in a time, by least squares over `cells`; missing where too few of them have a time."""
    cells = cells & np.isfinite(times)
    if cells.sum() < 3:
        return float("nan"), float("nan")
    rates = np.meshgrid(np.log(record.lr_decoder), np.log(record.lr_attention), indexing="ij")
    design = np.stack([rates[0][cells], rates[1][cells], np.ones(cells.sum())], axis=1)
    eta_Y, eta_Z, _ = np.linalg.lstsq(design, np.log(times[cells]), rcond=None)[0]
    return float(eta_Y), float(eta_Z)


def _assumptions(record: xr.Dataset) -> dict[str, bool]:
    overlap, K = float(record.normaliser) ** -2, int(record.n_classes)
    return {"2 largest eigenvalue": (K - 1) * overlap < 1 / K}


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    horizon, rows = _horizon(record), []
    for y in record.lr_decoder.values:
        for z in record.lr_attention.values:
            cell, at = record.sel(lr_decoder=y, lr_attention=z), _theory(record, float(y), float(z))
            rows.append(
                {
                    "lr_decoder": y,
                    "lr_attention": z,
                    "onset": float(cell.onset),
                    "scan_time": at.scan_time,
                    "snap_time": at.snap_time,
                    "depth": at.depth,
                    "log_growth_at_horizon": float(cell.log_growth),
                    "log_growth_theory": float(at.growth(horizon)),
                    "exponent_at_horizon": float(cell.exponent),
                }
            )
    return rows


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=15.0, height=4.8)
    exponents, grown, onsets = drawing.subplots(1, 3)
    _map(drawing, exponents, record, record.exponent, rf"local exponent $dB/d\ln t$ at $t$ = {_horizon(record):g}")
    _map(drawing, grown, record, record.log_growth, rf"log growth $B$ at $t$ = {_horizon(record):g}")
    _contours(grown, record)
    exponents.legend(loc="lower left", fontsize=8, facecolor="#444444", labelcolor="white", framealpha=0.9)
    _onset_panel(onsets, record)
    return drawing


def _map(drawing: Figure, axes: Any, record: xr.Dataset, values: xr.DataArray, title: str) -> None:
    x, y = record.lr_decoder.values, record.lr_attention.values
    mesh = axes.pcolormesh(x, y, values.transpose("lr_attention", "lr_decoder"), cmap="viridis", shading="nearest", rasterized=True)
    drawing.colorbar(mesh, ax=axes)
    unit = _theory(record, 1.0, 1.0)
    for time_at_unit_rate, style, name in ((unit.scan_time, ":", "t_0'"), (unit.snap_time, "--", "t_0")):
        axes.axvline(time_at_unit_rate / _horizon(record), color="white", ls=style, lw=2, label=f"${name}$ = {_horizon(record):g}")
    axes.plot(x, DEPTH / unit.depth * x, "-.", color="#d55e00", lw=2, label="moves before it freezes (above)")
    axes.set(xscale="log", yscale="log", xlabel=r"$\eta_Y$ (per step)", ylabel=r"$\eta_Z$ (per step)", ylim=(y[0], y[-1]))
    axes.set_title(title, loc="left")


def _contours(axes: Any, record: xr.Dataset) -> None:
    x, y = (np.geomspace(rates[0], rates[-1], 60) for rates in (record.lr_decoder.values, record.lr_attention.values))
    predicted = [
        [float(_theory(record, lr_decoder, lr_attention).growth(_horizon(record))) for lr_decoder in x] for lr_attention in y
    ]
    lines = axes.contour(x, y, predicted, colors="black", linewidths=0.9)
    axes.clabel(lines, fontsize=7)


def _onset_panel(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import sequential

    scanned = _over_grid(record, lambda at: at.depth) >= DEPTH
    in_units = np.where(scanned, record.onset.values / _over_grid(record, lambda at: at.scan_time), np.nan)
    n, unit = record.sizes["lr_attention"], _theory(record, 1.0, 1.0)
    for j in range(n):
        name = rf"$\eta_Z$ = {record.lr_attention.values[j]:.3g}" if j in (0, n // 2, n - 1) else None
        axes.plot(record.lr_decoder, in_units[:, j], "o", ms=5, color=sequential(j, n), label=name)
    axes.axhline(1, ls=":", color="black", label=r"$t_0' = K\ln M/\eta_Y$")
    axes.axhline(unit.snap_time / unit.scan_time, ls="--", color="black", label=r"$t_0 = 2(1+\omega_1)\,t_0'$")
    axes.set(xscale="log", xlabel=r"$\eta_Y$ (per step)", ylabel="onset / $t_0'$", ylim=(0, None))
    axes.set_title("onset of the flows above the diagonal", loc="left")
    axes.legend(fontsize=8, loc="lower left")
