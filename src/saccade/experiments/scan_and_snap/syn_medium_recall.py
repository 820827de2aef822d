"""Recall falls less steeply with its threshold at a higher attention rate: attention is sparser [tian2023, Figs. 11, 12].

For the 640 runs of `syn-medium-entropy`: a query marks the tokens whose attention, softmax(z) over the whole vocabulary, is
above a threshold near one over the number of context tokens; recall is the share of the distinct tokens of its classes that
are marked. Sparse attention is clear-cut, so its recall falls little over the range of thresholds; even attention hovers at
the threshold and falls steeply. Expected: the fall shrinks with the attention rate in all 48 comparisons; for one query and
attention rate .5, recall goes from .67 to .325 (ratio 1) and from .85 to .20 (ratio 10). About 9 s on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import saccade
from saccade.experiments.scan_and_snap.syn_medium import TOGETHER as TOGETHER
from saccade.experiments.scan_and_snap.syn_medium import Config as Config
from saccade.experiments.scan_and_snap.syn_medium import as_published, cells, run_grids
from saccade.records.claim import Claim

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 9
WHAT = "Figs. 11, 12, recall"
EXPECTED = (
    "recall falls less over the thresholds at a higher attention rate, with {recall falls less*:.0f} exceptions among "
    "neighbouring rates; with one query token and equal rates from {*0.028*ratio 1 *:.3f} to {*0.038*ratio 1 *:.3f}"
)

# The paper's range of thresholds for each number of query tokens, read off its axes.
THRESHOLDS = {1: (0.028, 0.038), 3: (0.012, 0.016), 5: (0.0075, 0.0105), 10: (0.0040, 0.0050)}
_N_LEVELS = 11

# One query, attention rate .5: ratio -> recall at the lowest and at the highest threshold. From an independent replication of
# ten seeds whose curves fill the paper's axes; the paper prints no numbers.
REPLICATED = {1.0: (0.67, 0.325), 10.0: (0.85, 0.20)}
REPLICATED_LR_ATTENTION, REPLICATED_SEEDS = 0.5, 10

DEFINITIONS = {
    "recall": ("1", "share of the distinct tokens of a query's classes with softmax(z) above the threshold, mean over queries"),
    "threshold": ("1", "attention above which a token counts as marked"),
}

CAPTION = (
    "Share of distinct tokens that a query marks, against the threshold of marking; mean over ten seeds. Above (Fig. 11): one "
    "panel for each attention rate, one line for each ratio of the rates. Below (Fig. 12): the same numbers, one panel for each "
    "ratio, one line for each attention rate. Look at the slopes: the higher the attention rate (darker, below) the flatter the "
    "line, because attention is sparse and few tokens are near the threshold. Black circles: ends of two lines in an independent "
    "replication. Dotted: one over the number of context tokens."
)


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    return together([config], on_progress)[0]


def together(configs: Sequence[Config], on_progress: Callable[[float], None] = lambda fraction: None) -> list[xr.Dataset]:
    records = run_grids(configs, _recall, keep="attention_logits", definitions=DEFINITIONS, on_progress=on_progress)
    unit, definition = DEFINITIONS["threshold"]
    levels = np.stack([_thresholds(n) for n in configs[0].n_queries])
    threshold = (("n_queries", "level"), levels, {"units": unit, "definition": definition})
    return [record.assign(threshold=threshold) for record in records]


def _thresholds(n_queries: int) -> np.ndarray:
    n_context_tokens = 10 + 20 * n_queries
    return np.linspace(*THRESHOLDS.get(n_queries, (0.85 / n_context_tokens, 1.1 / n_context_tokens)), _N_LEVELS)


def _recall(task: saccade.SequenceClasses, last: xr.Dataset) -> xr.DataArray:
    import xarray as xr
    from scipy.special import softmax

    attention = softmax(last.attention_logits.values, axis=-1)  # rate, seed, query, token
    mine = np.stack([task.distinct[task.query == query].any(axis=0) for query in last["query"].values])
    n_queries = len(mine)
    marked = [((attention > level) & mine).sum(axis=-1) / mine.sum(axis=-1) for level in _thresholds(n_queries)]
    recall = np.where(np.isfinite(last.loss.values)[..., None], np.stack(marked, axis=-1).mean(axis=2), np.nan)
    return xr.DataArray(recall, dims=("rate", "seed", "level"), name="recall")


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Diverged runs do not count: `n_seeds` says how many did."""
    recall = record.recall.transpose("n_queries", "lr_attention", "ratio", "level", "seed").values
    axes = [record[name].values for name in ("n_queries", "lr_attention", "ratio")]
    rows = []
    for i, j, k, level in np.ndindex(recall.shape[:-1]):
        kept = recall[i, j, k, level][np.isfinite(recall[i, j, k, level])]
        rows.append(
            {
                "n_queries": int(axes[0][i]),
                "lr_attention": float(axes[1][j]),
                "ratio": float(axes[2][k]),
                "threshold": float(record.threshold.values[i, level]),
                "recall_mean": kept.mean() if len(kept) else None,
                "recall_std": kept.std(ddof=1) if len(kept) > 1 else None,
                "n_seeds": len(kept),
            }
        )
    return rows


def measures(record: xr.Dataset) -> dict[str, float]:
    """Recall at both ends of the range of thresholds and its fall between them, mean over seeds; `diverged` is a share of them."""
    lowest, highest = record.recall.values[..., 0], record.recall.values[..., -1]
    return cells(record, {"recall_at_lowest": lowest, "recall_at_highest": highest, "recall_fall": lowest - highest})


def claims(record: xr.Dataset) -> list[Claim]:
    assumptions = as_published(record)
    return [*_replication_claims(record, assumptions), _slope_claim(record, assumptions)]


def _replication_claims(record: xr.Dataset, assumptions: dict[str, bool]) -> list[Claim]:
    found = []
    for ratio, ends in REPLICATED.items():
        here = {"n_queries": 1, "lr_attention": REPLICATED_LR_ATTENTION, "ratio": ratio}
        if record.sizes["seed"] < 2 or any(value not in record[name] for name, value in here.items()):
            continue
        for level, predicted in zip((0, -1), ends, strict=True):
            recall = record.recall.sel(here).isel(level=level).dropna("seed")
            error = float(recall.std("seed", ddof=1)) * np.sqrt(1 / recall.sizes["seed"] + 1 / REPLICATED_SEEDS)
            found.append(
                Claim(
                    statement=f"recall at threshold {float(record.threshold.sel(n_queries=1)[level]):g}, one query, attention rate "
                    f"{REPLICATED_LR_ATTENTION:g}, ratio {ratio:g} (tolerance: three combined standard errors)",
                    source="[tian2023, Fig. 11], independent replication",
                    assumptions=assumptions,
                    predicted=predicted,
                    measured=float(recall.mean()),
                    tolerance=3 * error,
                )
            )
    return found


def _slope_claim(record: xr.Dataset, assumptions: dict[str, bool]) -> Claim:
    mean = record.recall.mean("seed").sortby("lr_attention")
    fall = mean.isel(level=0) - mean.isel(level=-1)
    flatter = fall.diff("lr_attention") < 0
    return Claim(
        statement=f"recall falls less over the range of thresholds when the attention rate is higher: exceptions among "
        f"{flatter.size} neighbouring pairs",
        source="[tian2023, Fig. 12]",
        assumptions=assumptions,
        predicted=0,
        measured=int((~flatter).sum()),
        tolerance=0,
    )


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    n_rows, n_columns = record.sizes["n_queries"], max(record.sizes["lr_attention"], record.sizes["ratio"])
    drawing = new_figure(width=2.9 * n_columns + 1.6, height=4.1 * n_rows + 1.2)
    halves: Any = drawing.subfigures(2, 1)
    above, below = halves
    _draw(above, record, "Fig. 11: ratios compared", panel="lr_attention", line="ratio")
    _draw(below, record, "Fig. 12: attention rates compared", panel="ratio", line="lr_attention")
    return drawing


def _draw(part: Any, record: xr.Dataset, title: str, *, panel: str, line: str) -> None:
    from saccade.report.style import sequential

    symbol = {"lr_attention": r"$\eta_Z$", "ratio": r"$\eta_Y/\eta_Z$"}
    grid = part.subplots(record.sizes["n_queries"], record.sizes[panel], sharey=True, sharex="row", squeeze=False)
    mean = record.recall.mean("seed")
    for row, n in zip(grid, record.n_queries.values, strict=True):
        threshold = record.threshold.sel(n_queries=n)
        for axes, value in zip(row, record[panel].values, strict=True):
            axes.axvline(1 / (10 + 20 * n), color="black", lw=0.8, ls=":")
            for i, other in enumerate(record[line].values):
                recall = mean.sel({"n_queries": n, panel: value, line: other})
                style = {"color": sequential(i, record.sizes[line]), "label": f"{symbol[line]} = {other:g}"}
                axes.plot(threshold, recall, "o-", ms=2.5, lw=1, **style)
            _draw_replicated(axes, n, **{panel: value})
            axes.set_title(f"{symbol[panel]} = {value:g}, {n} quer{'y' if n == 1 else 'ies'}", fontsize=9)
            axes.tick_params(labelsize=8)
            axes.locator_params(axis="x", nbins=4)
        row[0].set_ylabel("recall")
    grid[0, 0].set_ylim(0, 1)
    for axes in grid[-1]:
        axes.set_xlabel("threshold on softmax(z)")
    part.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    part.suptitle(title, x=0.01, ha="left", weight="bold")


def _draw_replicated(axes: Any, n: int, *, lr_attention: float = REPLICATED_LR_ATTENTION, ratio: float | None = None) -> None:
    if n != 1 or lr_attention != REPLICATED_LR_ATTENTION:
        return
    shown = {own: ends for own, ends in REPLICATED.items() if ratio in (None, own)}
    for i, ends in enumerate(shown.values()):
        axes.plot(THRESHOLDS[1], ends, "o", ms=7, mfc="none", color="black", label="replication" if i == 0 else None)
