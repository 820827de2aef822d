"""The figure of scan-then-snap: growth and local exponent of the theory's flow, growth of the plain flow, entropy against rates."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.scan_and_snap.case_claims import case_of, series
from saccade.experiments.scan_and_snap.log_growth import exponent
from saccade.experiments.scan_and_snap.snap_theory import CaseTheory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_DECODERS = ("slower decoder", "base", "faster decoder")
_EVERY = 4  # samples between dots


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=12.0, height=9.0)
    if not np.isfinite(CaseTheory.of(record, 0).growth(1.0)) or not np.isfinite(record.log_growth).any():
        drawing.text(0.5, 0.5, "\n".join(json.loads(record.attrs["left_out"])), ha="center", va="center", wrap=True)
        return drawing
    growth, local, plain, entropy = drawing.subplots(2, 2).ravel()
    _growth_panel(growth, record, "C")
    _exponent_panel(local, record)
    _growth_panel(plain, record, "B")
    _entropy_panel(entropy, record)
    return drawing


def _growth_panel(axes: Any, record: xr.Dataset, dynamics: str) -> None:
    from saccade.report.style import categorical

    for i, role in enumerate(_DECODERS):
        case = case_of(record, role)
        at = CaseTheory.of(record, case)
        t, B = series(record, case, dynamics)
        rates = rf"$\eta_Y$ = {at.lr_decoder:g}, $\eta_Z$ = {at.lr_attention:g}"
        axes.plot(t[::_EVERY], B[::_EVERY], "o", ms=3.5, color=categorical(i), label=rates)
        if dynamics == "C":
            axes.plot(t, at.growth(t), color=categorical(i), lw=1.2)
        axes.axvline(at.scan_time, color=categorical(i), ls=":", lw=1)
        axes.axvline(at.snap_time, color=categorical(i), ls="--", lw=1)
    axes.plot([], [], ":", color="black", lw=1, label=r"$t_0' = K\ln M/\eta_Y$")
    axes.plot([], [], "--", color="black", lw=1, label=r"$t_0 = 2(1+\omega_1)\,t_0'$")
    axes.set(xscale="log", xlabel="$t$ (steps)", ylabel=r"log growth $B = \int dz\,/f^2$", xlim=(1e-1, None))
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
    name = "theory's flow (C): dots flow, lines theory" if dynamics == "C" else "plain gradient flow (B), the same rates"
    axes.set_title(name, loc="left")
    axes.legend(loc="upper left", fontsize=8, ncols=2)
    if dynamics == "C":
        _log_log_inset(axes.inset_axes((0.6, 0.13, 0.37, 0.2)), record)


def _log_log_inset(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    for i, role in enumerate(_DECODERS):
        case = case_of(record, role)
        at = CaseTheory.of(record, case)
        t, B = (values[series(record, case)[0] >= at.snap_time] for values in series(record, case))
        axes.plot(at.log_height(t)[::_EVERY], B[::_EVERY], "o", ms=2.5, color=categorical(i))
        axes.plot(at.log_height(t), at.growth(t), color=categorical(i), lw=1)
    axes.set_xlabel(r"$\ln\ln(M\eta_Y t/K)$, $t \geq t_0$", fontsize=8)
    axes.tick_params(labelsize=7)


def _exponent_panel(axes: Any, record: xr.Dataset) -> None:
    """Over t / t0', so that vocabularies (or a user's rates) can be told apart by shape alone."""
    from saccade.report.style import COMMON, sequential

    base = case_of(record, "base")
    varied = np.flatnonzero(record.group.values == "vocabulary")
    cases = (
        sorted([base, *varied], key=lambda case: record.n_vocab.values[case])
        if len(varied)
        else [case_of(record, r) for r in _DECODERS]
    )
    for i, case in enumerate(cases):
        at = CaseTheory.of(record, case)
        t, B = series(record, case)
        color, name = sequential(i, len(cases)), f"M = {at.n_vocab}" if len(varied) else rf"$\eta_Y$ = {at.lr_decoder:g}"
        axes.plot(t[::_EVERY] / at.scan_time, exponent(B, t)[::_EVERY], "o", ms=3.5, color=color, label=name)
        axes.plot(t / at.scan_time, exponent(at.growth(t), t), color=color, lw=1.2)
    at, (t, _) = CaseTheory.of(record, base), series(record, base)
    axes.plot(t / at.scan_time, exponent(at.printed_growth(t), t), "--", color="black", lw=1.2, label="Theorem 4 as printed")
    axes.axvspan(1, at.snap_time / at.scan_time, color=COMMON, alpha=0.4, lw=0, label=r"$t_0'$ to $t_0$")
    axes.set(xscale="log", yscale="log", xlabel="$t\\,/\\,t_0'$", ylabel=r"local exponent $dB\,/\,d\ln t$", xlim=(1e-2, None))
    axes.set_ylim(1e-3, 1)
    axes.set_title("scanning is flat, snapping falls: flow (C)", loc="left")
    axes.legend(loc="upper right", fontsize=8)


def _entropy_panel(axes: Any, record: xr.Dataset) -> None:
    """Against the base rates of the same flow: the two flows differ a thousandfold, what is claimed is which way the rates push."""
    from saccade.report.style import categorical

    if CaseTheory.n_distinct(record) < 2:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "one distinct token: no entropy to lose", ha="center")
        return
    end = float(record.steps.max())
    base = CaseTheory.of(record, case_of(record, "base"))
    for i, (roles, name) in enumerate(
        ((("both slower", "base", "both faster"), "both rates scaled"), (_DECODERS, r"$\eta_Y$ alone scaled"))
    ):
        cases = [case_of(record, role) for role in roles]
        least, most = record.lr_decoder.values[[cases[0], cases[-1]]].tolist()
        scale = np.geomspace(least, most, 17) / base.lr_decoder
        scaled = [replace(base, lr_decoder=base.lr_decoder * x, lr_attention=base.lr_attention * (1 if i else x)) for x in scale]
        predicted = np.array([at.entropy_lost(end, record) for at in scaled]) / base.entropy_lost(end, record)
        axes.plot(scale * base.lr_decoder, predicted, color=categorical(i), lw=1.2)
        for dynamics, fill in (("C", categorical(i)), ("B", "none")):
            lost = _entropy_lost(record, dynamics)
            marks = {"color": categorical(i), "mfc": fill, "label": f"{name}, flow ({dynamics})"}
            axes.plot(record.lr_decoder.values[cases], lost[cases] / lost[cases[1]], "os"[i], ms=7, **marks)
    absolute = ", ".join(f"{_entropy_lost(record, name)[case_of(record, 'base')]:.2g} nats in ({name})" for name in ("C", "B"))
    absolute = f"at the base rates: {absolute}"
    axes.set(xscale="log", xlabel=r"$\eta_Y$ (per step)", ylabel="entropy lost, over that at the base rates")
    axes.set_title(f"entropy that distinct tokens have lost by t = {end:.0e}", loc="left")
    axes.legend(loc="upper right", fontsize=8, title=absolute, title_fontsize=8)


def _entropy_lost(record: xr.Dataset, dynamics: str) -> NDArray[np.float64]:
    entropy = record.distinct_entropy.sel(dynamics=dynamics)
    return (entropy.isel(sample=0) - entropy.isel(sample=-1)).values
