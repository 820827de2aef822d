"""Growth bends at t0, earlier for a faster decoder, and its height there depends on the two rates only through their ratio.

The growth factor of Fig. 3 and the growth bound of Fig. 9 from the closed form, each against the theorem's premise integrated
numerically. The paper gives no numbers for these figures; those expected are an independent replication that fills their axes.
Fig. 3: t0 = 365, 182, 91, 36 and an end value of 584 with C_0 = .006, which the paper leaves open. Fig. 9: heights at t0 of .556
and 1.403, and ten end values, to 1e-3. About 2 s on two cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from saccade.errors import checked_count, checked_number
from saccade.records.claim import Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 2
WHAT = "Figs. 3, 9"
EXPECTED = (
    "growth bound at t0: {growth bound at t0, M = 100,*:.3f} for M = 100, {growth bound at t0, M = 10000,*:.3f} for M = 10000"
)

CAPTION = (
    "Left: Fig. 3 of the paper, the growth factor chi = exp(2 B) of a distinct token. The faster the decoder (dark), the earlier "
    "growth stops: vertical dotted lines are t0. Middle and right: Fig. 9, the growth bound B for a fixed ratio of rates; stars "
    "mark t0, and stand at one height. Lines: Theorem 4's closed form, normalised to B(0) = 0. Dots: its premise integrated "
    "numerically."
)


class Panel(NamedTuple):
    """A published figure: its constants, the rates of its curves, and what an independent replication of it found."""

    source: str
    n_vocab: int
    n_classes: int
    lr_attention: tuple[float, ...]
    ratio: tuple[float, ...]  # decoder rate over attention rate
    t_end: float
    snap_times: tuple[float, ...]  # t0, to the nearest step; empty for Fig. 9
    at_snap: float  # B at t0; NaN for Fig. 3
    at_end: tuple[float, ...]  # B at the end; empty for Fig. 3


_FIG_9 = (0.5, 1.0, 2.0, 4.0, 8.0)
PANELS = {
    "fig-3": Panel("Fig. 3", 1000, 10, (0.5,) * 4, (1.0, 2.0, 4.0, 10.0), 700.0, (365, 182, 91, 36), np.nan, ()),
    "fig-9-left": Panel("Fig. 9", 100, 1, _FIG_9, (10.0,) * 5, 5.0, (), 0.556, (0.620, 0.671, 0.713, 0.749, 0.783)),
    "fig-9-right": Panel("Fig. 9", 10_000, 1, _FIG_9, (1.0,) * 5, 50.0, (), 1.403, (1.408, 1.450, 1.481, 1.509, 1.533)),
}
FIG_3_END, FIG_3_CONSTANT = 584.0, 0.006  # chi at the end of the slowest decoder's curve, and the C_0 that gives it

_DEFINITIONS = {
    "steps": ("steps", "times of each panel"),
    "bound": ("1", "B of the premise, integrated numerically"),
    "bound_at_snap": ("1", "the same at t0"),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

    overlap_constant: float = FIG_3_CONSTANT
    """C_0 of Fig. 3, positive; the paper does not give it. Fig. 9 has 1"""
    n_times: int = 40
    """samples of each curve"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    from saccade.records.schema import make_record

    started = time.perf_counter()
    checked_number("overlap_constant", config.overlap_constant, low=0.0, open_low=True)
    n_times = checked_count("n_times", config.n_times, low=2)
    most = max(len(panel.lr_attention) for panel in PANELS.values())
    steps, bound = np.empty((len(PANELS), n_times)), np.full((len(PANELS), most, n_times), np.nan)
    at_snap = np.full((len(PANELS), most), np.nan)
    for i, (name, panel) in enumerate(PANELS.items()):
        steps[i] = panel.t_end * np.arange(1, n_times + 1) / n_times
        for j, curve in enumerate(_curves(name, config.overlap_constant)):
            bound[i, j], at_snap[i, j] = _integrated(steps[i], curve)
        on_progress((i + 1) / len(PANELS))
    record = make_record(
        dynamics="premise of [tian2023, Theorem 4]",
        variables={
            "steps": (("panel", "sample"), steps),
            "bound": (("panel", "curve", "sample"), bound),
            "bound_at_snap": (("panel", "curve"), at_snap),
        },
        coords={"panel": list(PANELS)},
        time_unit="steps",
        config={},
        wall_time=time.perf_counter() - started,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def _curves(name: str, overlap_constant: float) -> list[dict[str, Any]]:
    """Arguments of `theory.growth_bound` for every curve of a panel."""
    panel = PANELS[name]
    return [
        {
            "n_vocab": panel.n_vocab,
            "n_classes": panel.n_classes,
            "lr_decoder": rate * ratio,
            "lr_attention": rate,
            "overlap_constant": overlap_constant if name == "fig-3" else 1.0,
        }
        for rate, ratio in zip(panel.lr_attention, panel.ratio, strict=True)
    ]


def _clock(curve: dict[str, Any]) -> dict[str, Any]:
    return {name: curve[name] for name in ("n_vocab", "n_classes", "lr_decoder")}


def _integrated(t: NDArray[np.float64], curve: dict[str, Any]) -> tuple[NDArray[np.float64], float]:
    r"""B from $\dot B = \eta_Z\gamma e^{-4B}/C_0$ at `t` and at t0."""
    snap = theory.snap_time(**_clock(curve))

    def premise(s: float, bound: NDArray[np.float64]) -> NDArray[np.float64]:
        gamma = theory.speed(s, **_clock(curve))
        return curve["lr_attention"] * gamma * np.exp(-4 * bound) / curve["overlap_constant"]

    end = max(t[-1], snap)
    path = solve_ivp(premise, (0, end), [0.0], dense_output=True, method="LSODA", rtol=1e-10, atol=1e-12, max_step=end / 100).sol
    return path(t)[0], float(path(snap)[0])


def claims(record: xr.Dataset) -> list[Claim]:
    constant = json.loads(record.attrs["settings"])["overlap_constant"]
    return [
        _premise_claim(record, constant),
        *_factor_claims(record, constant),
        *_bound_claims(record, "fig-9-left"),
        *_bound_claims(record, "fig-9-right"),
    ]


def _factor_claims(record: xr.Dataset, constant: float) -> list[Claim]:
    source = "[tian2023, Fig. 3], independent replication"
    curves = _curves("fig-3", constant)
    found = [
        Claim(f"t0 (steps) at eta_Y = {curve['lr_decoder']:g}", source, expected, theory.snap_time(**_clock(curve)), 0.5)
        for curve, expected in zip(curves, PANELS["fig-3"].snap_times, strict=True)
    ]
    end = float(theory.growth_factor(record.bound.sel(panel="fig-3")[0, -1]))
    as_replicated = {f"C_0 = {FIG_3_CONSTANT:g}, which the paper leaves open": constant == FIG_3_CONSTANT}
    return [*found, Claim("growth factor at t = 700, eta_Y = 0.5", source, FIG_3_END, end, 1.0, as_replicated)]


def _bound_claims(record: xr.Dataset, name: str) -> list[Claim]:
    panel, at, source = PANELS[name], record.sel(panel=name), "[tian2023, Fig. 9], independent replication"
    setting = f"M = {panel.n_vocab}, eta_Y / eta_Z = {panel.ratio[0]:g}"
    heights = at.bound_at_snap.values[: len(panel.lr_attention)]
    ends = [
        Claim(f"growth bound at t = {panel.t_end:g}, {setting}, eta_Z = {rate:g}", source, expected, float(at.bound[j, -1]), 1e-3)
        for j, (rate, expected) in enumerate(zip(panel.lr_attention, panel.at_end, strict=True))
    ]
    return [
        Claim(f"growth bound at t0, {setting}", source, panel.at_snap, float(heights.mean()), 1e-3),
        Claim(
            f"spread of the growth bound at t0 over rates, {setting}", "[tian2023, Theorem 4]", 0.0, float(np.ptp(heights)), 1e-6
        ),
        *ends,
    ]


def _premise_claim(record: xr.Dataset, constant: float) -> Claim:
    gaps = [
        np.abs(theory.growth_bound(record.steps.sel(panel=name).values, **curve) - record.bound.sel(panel=name)[j].values).max()
        for name in PANELS
        for j, curve in enumerate(_curves(name, constant))
    ]
    what = "growth bound against its premise integrated, largest gap over the 14 curves"
    return Claim(what, "[tian2023, Theorem 4]", 0.0, float(np.max(gaps)), 1e-6)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    constant = json.loads(record.attrs["settings"])["overlap_constant"]
    return [
        {"panel": name}
        | curve
        | {
            "snap_time": theory.snap_time(**_clock(curve)),
            "t": float(t),
            "bound_integrated": float(record.bound.sel(panel=name)[j, i]),
            "bound_theory": float(theory.growth_bound(t, **curve)),
            "bound_printed": float(theory.growth_bound(t, **curve, as_printed=True)),
        }
        for name in PANELS
        for j, curve in enumerate(_curves(name, constant))
        for i, t in enumerate(record.steps.sel(panel=name).values)
    ]


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure, sequential

    constant = json.loads(record.attrs["settings"])["overlap_constant"]
    drawing = new_figure(width=15.0, height=4.8)
    for axes, (name, panel) in zip(drawing.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        t = np.linspace(0, panel.t_end, 400)
        curves = _curves(name, constant)
        for j, curve in enumerate(curves):
            _draw_curve(axes, record.sel(panel=name), name, j, curve, t, sequential(j, len(curves)))
        _describe(axes, name, panel, constant)
    return drawing


def _draw_curve(axes: Any, at: xr.Dataset, name: str, j: int, curve: dict[str, Any], t: NDArray[np.float64], color: Any) -> None:
    def shown(bound: Any) -> Any:
        return theory.growth_factor(bound) if name == "fig-3" else bound

    snap = theory.snap_time(**_clock(curve))
    rates = rf"$\eta_Y$ = {curve['lr_decoder']:g}" + ("" if name == "fig-3" else rf", $\eta_Z$ = {curve['lr_attention']:g}")
    axes.plot(t, shown(theory.growth_bound(t, **curve)), color=color, label=rates)
    axes.plot(at.steps, shown(at.bound[j].values), "o", ms=3, color=color)
    if name == "fig-3":
        axes.axvline(snap, color=color, ls=":", lw=1.2)
    elif snap <= t[-1]:
        axes.plot(snap, float(at.bound_at_snap[j]), "*", ms=13, color=color, mec="black")


def _describe(axes: Any, name: str, panel: Panel, constant: float) -> None:
    label = r"growth factor $\chi = e^{2B}$" if name == "fig-3" else "growth bound $B$"
    axes.set(xlabel="$t$ (steps)", ylabel=label, xlim=(0, panel.t_end), ylim=(0, None))
    shared = (
        rf"$\eta_Z$ = {panel.lr_attention[0]:g}, $C_0$ = {constant:g}"
        if name == "fig-3"
        else rf"$\eta_Y/\eta_Z$ = {panel.ratio[0]:g}, $C_0$ = 1"
    )
    axes.set_title(f"{panel.source}: M = {panel.n_vocab}, K = {panel.n_classes}, {shared}", loc="left", fontsize=10)
    axes.legend(fontsize=8)
