"""The figure of `wikitext-entropy`: entropy against the rate, and on its way there; a column for each text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saccade.experiments.real_text.wikitext_training import even_entropy

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset, n_context: int) -> Figure:
    from saccade.report.style import new_figure

    even = even_entropy(n_context)
    n_texts = record.sizes["text"]
    drawing = new_figure(width=5.4 * n_texts + 0.8, height=7.0)
    panels = drawing.subplots(2, n_texts, sharey=True, squeeze=False)
    for column, text in enumerate(record.text.values):
        at = record.entropy.sel(text=text)
        _against_rate(panels[0, column], at.isel(time=-1))
        _over_updates(panels[1, column], at)
        panels[0, column].set_title(f"{text}: after {int(record.time[-1])} updates", loc="left")
        for axes in panels[:, column]:
            axes.axhline(even, color="black", ls=":", lw=1)
            axes.set_ylim(0, 1.1 * even)
    panels[1, -1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axes in panels[:, 0]:
        axes.set_ylabel("entropy of attention (nats)")
    return drawing


def _against_rate(axes: Any, entropy: xr.DataArray) -> None:
    from saccade.report.style import COMMON, categorical

    for seed in entropy.seed:
        axes.plot(entropy.lr, entropy.sel(seed=seed), "o", ms=4, color=COMMON)
    axes.plot(entropy.lr, entropy.mean("seed"), "o-", color=categorical(0))
    axes.set(xlabel="learning rate", xticks=entropy.lr.values)


def _over_updates(axes: Any, entropy: xr.DataArray) -> None:
    from saccade.report.style import sequential

    for i, lr in enumerate(entropy.lr.values):
        axes.plot(entropy.time, entropy.sel(lr=lr).mean("seed"), color=sequential(i, entropy.sizes["lr"]), label=f"rate {lr:g}")
    axes.set(xlabel="updates")
