"""The figure of `relative-gain`: logits along the flow, leads against Theorem 3, and the order in SGD."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.scan_and_snap.leads import descent_leads, flow_leads, sgd_leads, sgd_order
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=14, height=4.6)
    left, middle, right = drawing.subplots(1, 3)
    _draw_flow(left, record)
    _draw_lag(middle, record)
    _draw_sgd(right, record)
    return drawing


def _draw_flow(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import sequential

    c = flow_leads(record)[1]
    times, dots = record.time.values[1:], slice(None, None, 14)
    n_tokens = len(c.prob)
    for i, p in enumerate(c.prob):
        color, z = sequential(i, n_tokens), c.logits[1:, i]
        if i < n_tokens - 1:
            axes.plot(times, theory.follower_logit_gain(c.logits[1:, -1], c.initial[i]), color=color, lw=1.2)
            axes.axhline(0.5 * np.log1p(1 / c.initial[i]), color=color, lw=0.8, ls=":")
        axes.plot(times[dots], z[dots], "o", ms=3.5, color=color, label=f"P = {p:.3f}")
    axes.set(xscale="log", xlabel="t (steps of SGD)", ylabel="attention logit z", xlim=(1, times[-1]))
    axes.set_title("flow (C): the frequent gain faster", loc="left", fontsize=10)
    axes.legend(loc="upper left", fontsize=8, reverse=True)


def _draw_lag(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    axes.axhline(1, color="black", lw=1.2, label="Theorem 3")
    shares = [c.lead / c.forecast for c in flow_leads(record)]
    inside = (record.time.values >= 1) & (record.time.values <= record.step.values[-1])
    flow = np.min(np.concatenate(shares, axis=1), axis=1)[inside][::6]
    axes.plot(record.time.values[inside][::6], flow, "o", ms=4, color="black", label="flow (C)")
    for i, ratio in enumerate(record.ratio.values):
        worst = np.min(np.concatenate([c.lead / c.forecast for c in descent_leads(record, ratio)], axis=1), axis=1)
        axes.plot(record.step[1:], worst[1:], "o", ms=3.5, color=categorical(i), label=rf"descent, $\eta_Y/\eta_Z$ = {ratio:g}")
    axes.set(xscale="log", ylim=(0, 1.1), xlabel="t (steps of SGD)", ylabel=r"$r(t)\,/\,r(0)\chi(t)$, worst token (1)")
    axes.set_title("plain descent lags behind", loc="left", fontsize=10)
    axes.legend(loc="lower left", fontsize=8)


def _draw_sgd(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    for n, c in enumerate(sgd_leads(record)):
        axes.plot(c.prob, c.logits.T, ".-", lw=0.6, ms=4, color=categorical(n), alpha=0.7)
    axes.axhline(0, color="grey", lw=0.6)
    axes.set(xlabel=r"$P(l|n)$ of a distinct token", ylabel="attention logit z")
    order = sgd_order(record)
    length = json.loads(record.attrs["settings"])["context"] + 1
    axes.set_title(f"SGD, T = {length}: rank correlation {order.min():.3f} to {order.max():.3f}", loc="left", fontsize=10)
