"""At a higher attention rate recall falls less as its threshold rises: attention is sparser.

Figs. 11 and 12 of Scan and Snap, for the 640 runs of `syn-medium-entropy`: a query marks the tokens whose attention, softmax(z)
over the whole vocabulary, is above a threshold near one over the number of context tokens; recall is the share of the distinct
tokens of its classes that are marked. Sparse attention is clear-cut, so its recall falls little over the range of thresholds; even
attention hovers at the threshold and falls steeply. Expect the fall to shrink with the attention rate in all comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

import saccade
from saccade.experiments.scan_and_snap.syn_medium import FREE, Settings, cells, run_grids
from saccade.lab.claim import REPLICATION, Case, Claim
from saccade.lab.experiment import Experiment, Progress
from saccade.lab.panel import RINGS, Layout, Line, Lines
from saccade.theory.scan_and_snap.statements import FIG_11, FIG_12

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


def together(several: Sequence[Settings], on_progress: Progress) -> list[xr.Dataset]:
    records = run_grids(several, _recall, keep="attention_logits", definitions=DEFINITIONS, on_progress=on_progress)
    unit, definition = DEFINITIONS["threshold"]
    levels = np.stack([_thresholds(n) for n in several[0].n_queries])
    threshold = (("n_queries", "level"), levels, {"units": unit, "definition": definition})
    return [record.assign(threshold=threshold) for record in records]


def _thresholds(n_queries: int) -> np.ndarray:
    n_context_tokens = 10 + 20 * n_queries
    return np.linspace(*THRESHOLDS.get(n_queries, (0.85 / n_context_tokens, 1.1 / n_context_tokens)), _N_LEVELS)


def _recall(task: saccade.SequenceClasses, last: xr.Dataset) -> xr.DataArray:
    attention = softmax(last.attention_logits.values, axis=-1)  # rate, seed, query, token
    mine = np.stack([task.distinct[task.query == query].any(axis=0) for query in last["query"].values])
    marked = [((attention > level) & mine).sum(axis=-1) / mine.sum(axis=-1) for level in _thresholds(len(mine))]
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


def headlines(record: xr.Dataset) -> dict[str, float]:
    """Recall at both ends of the range of thresholds and its fall between them, mean over seeds; `diverged` is a share of them."""
    lowest, highest = record.recall.values[..., 0], record.recall.values[..., -1]
    return cells(record, {"recall_at_lowest": lowest, "recall_at_highest": highest, "recall_fall": lowest - highest})


def claims(record: xr.Dataset) -> Iterator[Claim]:
    case = Case(given=[EXPERIMENT.as_published(record, "n_queries", *FREE)])
    for ratio, ends in REPLICATED.items():
        here = {"n_queries": 1, "lr_attention": REPLICATED_LR_ATTENTION, "ratio": ratio}
        if record.sizes["seed"] < 2 or any(value not in record[name] for name, value in here.items()):
            continue
        for level, target in zip((0, -1), ends, strict=True):
            recall = record.recall.sel(here).isel(level=level).dropna("seed")
            error = float(recall.std("seed", ddof=1)) * np.sqrt(1 / recall.sizes["seed"] + 1 / REPLICATED_SEEDS)
            threshold = float(record.threshold.sel(n_queries=1)[level])
            at = case.but(against=REPLICATION, threshold=threshold, ratio=ratio)
            yield at.near(FIG_11, "recall, one query, η_Z = 0.5 (± 3 standard errors)", recall.mean(), target, within=3 * error)
    mean = record.recall.mean("seed").sortby("lr_attention").transpose(..., "lr_attention")
    fall = mean.isel(level=0) - mean.isel(level=-1)
    yield case.in_order(
        FIG_12,
        "recall falls less over the thresholds at a higher attention rate",
        -fall.values,
        sentence="The faster attention learns, the fewer tokens it ends on, so a stricter threshold costs less recall.",
    )


def panels(record: xr.Dataset) -> Layout:
    """A row for each task and each of the paper's two ways to look at it: ratios compared, then attention rates compared."""
    return [
        [_of(record.sel({"n_queries": n, across: value}), n, line) for value in record[across].values]
        for across, line in (("lr_attention", "ratio"), ("ratio", "lr_attention"))
        for n in record.n_queries.values.tolist()
    ]


def _of(at: xr.Dataset, n: int, line: str) -> Lines:
    symbol = {"lr_attention": "η_Z", "ratio": "η_Y/η_Z"}
    mean, count = at.recall.mean("seed"), at.sizes[line]
    lines = [
        Line(at.threshold, mean.sel({line: other}), f"{symbol[line]} = {other:g}", tone=i / max(1, count - 1) * 1.0)
        for i, other in enumerate(at[line].values)
    ]
    across = "lr_attention" if line == "ratio" else "ratio"
    ratios = at.ratio.values.ravel().tolist()
    if n == 1 and REPLICATED_LR_ATTENTION in at.lr_attention.values.ravel():
        shown = [ends for ratio, ends in REPLICATED.items() if ratio in ratios]
        lines += [Line(THRESHOLDS[1], ends, "replication" if i == 0 else "", RINGS, None) for i, ends in enumerate(shown)]
    title = f"{symbol[across]} = {float(at[across]):g}, {n} quer{'y' if n == 1 else 'ies'}"
    return Lines(title, "threshold on softmax(z)", "recall", lines, ylim=(0, 1), marks={1 / (10 + 20 * n): "1/tokens"})


EXPERIMENT = Experiment(
    "syn-medium-recall",
    Settings,
    lambda settings, on_progress: together([settings], on_progress)[0],
    claims,
    panels,
    caption=(
        "Share of distinct tokens that a query marks, against the threshold of marking; mean over ten seeds. First half of the "
        "panels (Fig. 11): one for each attention rate, a line for each ratio of the rates. Second half (Fig. 12): the same "
        "numbers, one for each ratio, a line for each attention rate. Look at the slopes: the higher the attention rate (darker, "
        "second half) the flatter the line, because attention is sparse and few tokens are near the threshold. Rings: ends of two"
        " lines in an independent replication. Vertical line: one over the number of context tokens."
    ),
    finding=(
        "at a higher attention rate recall falls less as its threshold rises, with {recall falls less*:.0f} exceptions; with one "
        "query token and equal rates it falls from {*threshold 0.028, ratio 1):.3f} to {*threshold 0.038, ratio 1):.3f}"
    ),
    table=table,
    headlines=headlines,
    together=together,
    free=FREE,
)
