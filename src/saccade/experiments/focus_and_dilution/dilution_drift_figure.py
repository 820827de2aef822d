"""The figure of `dilution_drift`: the drift's growth, where it goes, and where focus turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.focus_and_dilution import stage_fits as fits
from saccade.experiments.focus_and_dilution.drift_measures import Case, case_of, unigram_gamma

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

CAPTION = (
    "Left: how far the embedding has left the stationary law, from the unigram point with tiny attention; dotted: growth as "
    "e^{2ct}, grey: as e^{ct}, as the paper's summary reads. Middle: where it goes, token by token, at the end of the linear "
    "regime, as a share of the whole; circles: measured from a random start, crosses: predicted. The frequent token gains, all "
    "others lose. Right: the tilt of each query to token 0, over its largest, against the query's own embedding, on the "
    "rank-one manifold; time runs to the right. Dots: the peak, in or near the grey band. The tilt is gone where the embedding "
    "crosses zero; query 1 of zipf-6 turns back before it does."
)


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=14.5, height=4.6)
    growth, shares, turning = drawing.subplots(1, 3)
    _growth(growth, [case_of(record, law, "unigram") for law in fits.LAWS])
    _shares(shares, [case_of(record, law, "random") for law in fits.LAWS])
    _turning(turning, [case_of(record, law, "manifold") for law in fits.LAWS])
    return drawing


def _growth(axes: Any, paths: list[Case]) -> None:
    from saccade.report.style import COMMON, categorical

    for i, case in enumerate(paths):
        t, moved, inside = case.time, np.linalg.norm(case.displacement(), axis=1), case.window
        axes.plot(
            t[1:],
            moved[1:],
            color=categorical(i),
            lw=2,
            label=f"{case.law}: $2c$ = {2 * case.rate:.4g}, found {case.exponent():.4g}",
        )
        if not inside.any():
            continue
        t, last, first = t[inside], moved[inside][-1], i == 0
        axes.plot(t, 2 * last * np.exp(2 * case.rate * (t - t[-1])), ":", color="black", label="slope $2c$" if first else None)
        if first:
            axes.plot(t, 2 * last * np.exp(case.rate * (t - t[-1])), color=COMMON, label="slope $c$")
    axes.set(yscale="log", ylim=(1e-9, 1), xlabel="time", ylabel=r"$|\gamma_\perp|$, embedding off the law")
    axes.set_title("drift", loc="left")
    axes.legend(fontsize=8, loc="upper left")


def _shares(axes: Any, paths: list[Case]) -> None:
    from saccade.report.style import categorical

    for i, case in enumerate(paths):
        measured, predicted = case.displacement()[case.window_end], case.predicted_displacement()[case.window_end]
        size, tokens = np.linalg.norm(predicted), np.arange(case.chain.n_vocab) + 0.12 * (2 * i - 1)
        axes.plot(tokens, measured / size, "o", ms=9, mfc="none", mew=1.5, color=categorical(i), label=f"{case.law}, measured")
        axes.plot(tokens, predicted / size, "x", ms=6, color=categorical(i), label="predicted")
    axes.axhline(0, color="black", lw=1)
    axes.set(xlabel="token, frequent to rare", ylabel="displacement / its predicted norm")
    axes.set_title("which tokens gain and lose", loc="left")
    axes.legend(fontsize=8)


def _turning(axes: Any, paths: list[Case]) -> None:
    from saccade.report.style import sequential

    axes.axvspan(0.45, 0.51, color="0.88")
    for case, style in zip(paths, ("-", "--"), strict=True):
        turn, at, n = case.turning(), unigram_gamma(case.chain), case.chain.n_vocab
        for query in range(1, n):
            tilt = case.on_frequent[:, query] - case.chain.stationary[0]
            until = case.time <= 1.05 * max(turn.crossing_time[np.isfinite(turn.crossing_time)], default=np.inf)
            height, share = np.interp(turn.peak_time[query], case.time, tilt), case.gamma[until, query] / at[query]
            label = f"query {query}" if style == "--" else None
            colour = sequential(query - 1, 5)
            axes.plot(share, tilt[until] / height, style, color=colour, lw=1.5, label=label)
            axes.plot(turn.gamma_at_peak[query], 1.0, "o", ms=5, color=colour)
    axes.axhline(0, color="black", lw=1)
    axes.axvline(0, color="black", lw=1)
    axes.set(
        xlim=(1.05, -0.3), ylim=(-0.7, 1.2), xlabel=r"$\gamma_i$ over its value at the unigram point", ylabel="tilt / largest tilt"
    )
    axes.set_title("where focus turns (dashed: zipf-6)", loc="left")
    axes.legend(fontsize=8, loc="lower left")
