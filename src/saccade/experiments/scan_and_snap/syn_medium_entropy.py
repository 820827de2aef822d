"""A higher attention rate makes attention sparser; a moderate ratio of the two rates makes it
sparsest.

Figs. 6, 11 and 12 of Scan and Snap: 1, 3, 5 and 10 query tokens with two classes each, four
attention rates, four ratios of decoder to attention rate and ten seeds, 640 runs of 100 steps from
the uniform start of the paper's code. Fig. 6, the entropy of attention among distinct tokens:
expect the 32 published means within 0.03 or three combined standard errors, less entropy at a
higher attention rate, and for 3 and more queries least at ratio 2. Figs. 11 and 12, recall, the
share of a query's distinct tokens with softmax(z) above a threshold: expect it to fall less from
the lowest threshold to the highest where the attention rate is higher.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.workers import workers
from saccade.errors import checked_list
from saccade.experiments.together import Share, checked_alike, parts, train_together
from saccade.lab.claim import PUBLISHED, REPLICATION, Case, Claim
from saccade.lab.panel import RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Progress, by_cell
from saccade.later import xr
from saccade.records.schema import make_record
from saccade.theory.condition import at_least
from saccade.theory.scan_and_snap.statements import FIG_6, FIG_11, FIG_12

# Mean and standard deviation over ten seeds, stored with the paper's code for 1 and 3 query tokens.
# Rows: attention rate .5, 1, 2, 3; columns: ratio 1, 2, 5, 10.
PUBLISHED_LR_ATTENTION, PUBLISHED_RATIOS, PUBLISHED_SEEDS = (
    (0.5, 1.0, 2.0, 3.0),
    (1.0, 2.0, 5.0, 10.0),
    10,
)
PUBLISHED_ENTROPY = {
    1: (
        [
            [1.971, 2.007, 2.066, 2.092],
            [1.871, 1.937, 2.022, 2.053],
            [1.699, 1.810, 1.934, 1.900],
            [1.551, 1.708, 1.786, 1.825],
        ],
        [
            [0.028, 0.032, 0.017, 0.016],
            [0.052, 0.052, 0.036, 0.030],
            [0.101, 0.099, 0.068, 0.200],
            [0.155, 0.152, 0.170, 0.331],
        ],
    ),
    3: (
        [
            [2.019, 1.988, 2.031, 2.063],
            [1.963, 1.920, 1.982, 2.024],
            [1.842, 1.809, 1.899, 1.955],
            [1.737, 1.715, 1.821, 1.839],
        ],
        [
            [0.010, 0.012, 0.007, 0.005],
            [0.015, 0.018, 0.009, 0.008],
            [0.024, 0.027, 0.018, 0.020],
            [0.032, 0.038, 0.030, 0.100],
        ],
    ),
}
# The paper's range of thresholds for each number of query tokens, read off its axes.
THRESHOLDS = {1: (0.028, 0.038), 3: (0.012, 0.016), 5: (0.0075, 0.0105), 10: (0.0040, 0.0050)}
_N_LEVELS = 11
# One query, attention rate .5: ratio -> recall at the lowest and at the highest threshold. From an
# independent replication of ten seeds whose curves fill the paper's axes; the paper prints no
# numbers.
REPLICATED = {1.0: (0.67, 0.325), 10.0: (0.85, 0.20)}
REPLICATED_LR_ATTENTION, REPLICATED_SEEDS = 0.5, 10
DEFINITIONS = {
    "recall": (
        "1",
        "share of the distinct tokens of a query's classes with softmax(z) above the threshold, mean over queries",
    ),
    "threshold": ("1", "attention above which a token counts as marked"),
}
FREE = ("lr_attention", "ratios", "seeds")


@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are the published ones."""

    n_queries: tuple[int, ...] = (1, 3, 5, 10)
    """query tokens, each with two next tokens"""
    lr_attention: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0)
    """attention rates, per step"""
    ratios: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)
    """decoder rate over attention rate"""
    steps: int = 100
    """updates"""
    momentum: float = 0.9
    """momentum of SGD, in [0, 1)"""
    batch: int = 128
    """sequences in a batch"""
    context: int = 127
    """context tokens before the query"""
    seeds: int | tuple[int, ...] = 10
    """number of seeds (0, 1, 2, ...), or a list of seeds"""


def together(several: Sequence[Settings], on_progress: Progress) -> list[xr.Dataset]:
    """One record for each of `several` settings, which may differ in what `FREE` names: entropy and
    recall at the last step.
    """
    started = time.perf_counter()
    shared, shares = checked_alike(several, FREE), [_share(settings) for settings in several]
    checked_list("n_queries", shared.n_queries, low=1)
    tasks = [saccade.SequenceClasses.syn_medium(n) for n in shared.n_queries]
    fractions = dict.fromkeys(shared.n_queries, 0.0)
    stopped = threading.Event()

    def final(task: saccade.SequenceClasses, n: int) -> list[xr.Dataset]:
        def report(fraction: float) -> None:
            if stopped.is_set():
                raise CancelledError
            fractions[n] = fraction
            on_progress(sum(fractions.values()) / len(fractions))

        last = _last_step(task, shared, shares, report)
        measured = last[["loss", "stop_reason"]].assign(
            entropy=_entropy(task, last), recall=_recall(task, last)
        )
        return parts(measured.drop_attrs(deep=False), shares)

    # The tasks have different shapes, so each is compiled by itself; side by side they keep all
    # cores busy meanwhile.
    with workers(len(tasks)) as pool:
        try:
            of_tasks = pool.map(final, tasks, shared.n_queries)
            xr.Variable((), 0.0)  # what records are made of loads while the runs go on
            by_task = list(of_tasks)
        finally:
            stopped.set()  # after Ctrl-C the others end at their next report instead of running on
    wall_time = (time.perf_counter() - started) / len(several)
    of_settings = zip(zip(*by_task, strict=True), several, strict=True)
    return [_joined(of_one, settings, wall_time) for of_one, settings in of_settings]


def _share(settings: Settings) -> Share:
    rates, ratios = (
        checked_list("lr_attention", settings.lr_attention, low=0),
        checked_list("ratios", settings.ratios, low=0),
    )
    return Share(
        [(lr * ratio, lr) for lr in rates for ratio in ratios], checked_seeds(settings.seeds)
    )


def _last_step(
    task: saccade.SequenceClasses, shared: Settings, shares: Sequence[Share], on_progress: Progress
) -> xr.Dataset:
    record = train_together(
        task,
        shares,
        steps=shared.steps,
        momentum=shared.momentum,
        batch=shared.batch,
        context=shared.context,
        save=[shared.steps],
        model=saccade.Pairwise(init="uniform"),
        keep=("attention", "attention_logits"),
        on_progress=on_progress,
    )
    return record.isel(time=0)


def _joined(by_task: Sequence[xr.Dataset], settings: Settings, wall_time: float) -> xr.Dataset:
    shape = (len(by_task), len(settings.lr_attention), len(settings.ratios))
    variables = {}
    for name, first in by_task[0].data_vars.items():
        values = np.stack([part[name].transpose(*first.dims).values for part in by_task])
        variables[str(name)] = (
            ("n_queries", "lr_attention", "ratio", *first.dims[1:]),
            values.reshape(shape + first.shape[1:]),
        )
    variables["threshold"] = (
        ("n_queries", "level"),
        np.stack([_thresholds(n) for n in settings.n_queries]),
    )
    return make_record(
        dynamics="A: mini-batch training",
        variables=variables,
        coords={
            "n_queries": list(settings.n_queries),
            "lr_attention": list(settings.lr_attention),
            "ratio": list(settings.ratios),
            "seed": checked_seeds(settings.seeds),
        },
        time_unit="updates",
        config={"tasks": [f"syn-medium-{n}" for n in settings.n_queries], "init": "uniform"},
        wall_time=wall_time,
        definitions=DEFINITIONS,
    )


def _entropy(task: saccade.SequenceClasses, last: xr.Dataset) -> xr.DataArray:
    by_class = saccade.measures.distinct_entropy(last.attention.values, task.distinct)
    return last.loss.copy(data=by_class.mean(axis=-1))


def _thresholds(n_queries: int) -> np.ndarray:
    n_context_tokens = 10 + 20 * n_queries
    return np.linspace(
        *THRESHOLDS.get(n_queries, (0.85 / n_context_tokens, 1.1 / n_context_tokens)), _N_LEVELS
    )


def _recall(task: saccade.SequenceClasses, last: xr.Dataset) -> xr.DataArray:
    attention = softmax(last.attention_logits.values, axis=-1)  # rate, seed, query, token
    mine = np.stack(
        [task.distinct[task.query == query].any(axis=0) for query in last["query"].values]
    )
    marked = [
        ((attention > level) & mine).sum(axis=-1) / mine.sum(axis=-1)
        for level in _thresholds(len(mine))
    ]
    recall = np.where(
        np.isfinite(last.loss.values)[..., None], np.stack(marked, axis=-1).mean(axis=2), np.nan
    )
    return xr.DataArray(recall, dims=("rate", "seed", "level"))


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each setting; recall at the lowest and at the highest threshold. `n_seeds` counts
    those that did not diverge.
    """
    axes = {name: record[name].values for name in ("n_queries", "lr_attention", "ratio")}
    ends = {
        "recall_at_lowest": record.recall.isel(level=0),
        "recall_at_highest": record.recall.isel(level=-1),
    }
    rows = []
    for place in np.ndindex(*map(len, axes.values())):
        row: dict[str, Any] = {
            name: values[i].item() for i, (name, values) in zip(place, axes.items(), strict=True)
        }
        for name, variable in ({"entropy": record.entropy} | ends).items():
            kept = variable.transpose(*axes, "seed").values[place]
            kept = kept[np.isfinite(kept)]
            row |= {
                f"{name}_mean": kept.mean() if len(kept) else None,
                f"{name}_std": kept.std(ddof=1) if len(kept) > 1 else None,
            }
            row.setdefault("n_seeds", len(kept))
        rows.append(row)
    return rows


def claims(record: xr.Dataset) -> Iterator[Claim]:
    published = EXPERIMENT.as_published(record, "n_queries", *FREE)
    for n in PUBLISHED_ENTROPY:
        given = [published, at_least("seeds, for a standard error", record.sizes["seed"], 2)]
        yield from _published_means(record, n, Case({"query tokens": n}, given, PUBLISHED))
    yield from _recall_claims(record, Case(given=[published]))
    case = Case(given=[published])
    mean = record.entropy.mean("seed")
    rates = mean.sortby("lr_attention").transpose(..., "lr_attention")
    yield case.in_order(
        FIG_6, "entropy falls with the attention rate, neighbouring pairs", -rates.values
    )
    if not {1.0, 2.0, 5.0} <= set(record.ratio.values):
        return
    for n in record.n_queries.values.tolist():
        best = 1.0 if n == 1 else 2.0
        least = record.ratio.values[mean.sel(n_queries=n).fillna(np.inf).argmin("ratio").values]
        at = case.but(**{"query tokens": n}, against=PUBLISHED)
        yield at.none(
            FIG_6, f"entropy is least at ratio {best:g}, at every attention rate", least != best
        )


def _published_means(record: xr.Dataset, n: int, case: Case) -> Iterator[Claim]:
    here = [
        np.isin(PUBLISHED_LR_ATTENTION, record.lr_attention),
        np.isin(PUBLISHED_RATIOS, record.ratio),
    ]
    if n not in record.n_queries or not (here[0].any() and here[1].any()):
        return
    rates, ratios = np.array(PUBLISHED_LR_ATTENTION)[here[0]], np.array(PUBLISHED_RATIOS)[here[1]]
    entropy = record.entropy.sel(n_queries=n, lr_attention=rates, ratio=ratios)
    means, stds = (np.array(values)[np.ix_(*here)] for values in PUBLISHED_ENTROPY[n])
    error = np.sqrt(
        stds**2 / PUBLISHED_SEEDS + entropy.std("seed", ddof=1) ** 2 / entropy.notnull().sum("seed")
    ).values
    gap = np.abs(entropy.mean("seed").values - means)
    for errors, words, allowed in ((3, "three", 1), (5, "five", 0)):
        off = ~(gap <= np.maximum(0.03, errors * error))
        yield case.none(
            FIG_6,
            f"mean entropies within 0.03 or {words} standard errors of the published ones",
            off,
            allowed=allowed,
        )


def _recall_claims(record: xr.Dataset, case: Case) -> Iterator[Claim]:
    for ratio, ends in REPLICATED.items():
        here = {"n_queries": 1, "lr_attention": REPLICATED_LR_ATTENTION, "ratio": ratio}
        if record.sizes["seed"] < 2 or any(
            value not in record[name] for name, value in here.items()
        ):
            continue
        for level, target in zip((0, -1), ends, strict=True):
            recall = record.recall.sel(here).isel(level=level).dropna("seed")
            error = float(recall.std("seed", ddof=1)) * np.sqrt(
                1 / recall.sizes["seed"] + 1 / REPLICATED_SEEDS
            )
            threshold = float(record.threshold.sel(n_queries=1)[level])
            at = case.but(against=REPLICATION, threshold=threshold, ratio=ratio)
            yield at.near(
                FIG_11,
                "recall, one query, η_Z = 0.5 (± 3 standard errors)",
                recall.mean(),
                target,
                within=3 * error,
            )
    mean = record.recall.mean("seed").sortby("lr_attention").transpose(..., "lr_attention")
    fall = mean.isel(level=0) - mean.isel(level=-1)
    yield case.in_order(
        FIG_12,
        "recall falls less over the thresholds at a higher attention rate",
        -fall.values,
        sentence="The faster attention learns, the fewer tokens it ends on, so a stricter threshold costs less recall.",
    )


def headlines(record: xr.Dataset) -> dict[str, float]:
    """At the last step, mean over seeds; recall at both ends of the range of thresholds and its
    fall; `diverged` is a share.
    """
    lowest, highest = record.recall.values[..., 0], record.recall.values[..., -1]
    recall = {
        "recall_at_lowest": lowest,
        "recall_at_highest": highest,
        "recall_fall": lowest - highest,
    }
    measured = {"entropy": record.entropy.values, "loss": record.loss.values, **recall}
    axes = {name: record[name].values for name in ("n_queries", "lr_attention", "ratio")}
    return by_cell({**measured, "diverged": record.stop_reason.values == "diverged"}, axes)


def panels(record: xr.Dataset) -> Layout:
    """Entropy of each task, then recall: along the thresholds of the first task, and how far it
    falls in all.
    """
    tasks = record.n_queries.values.tolist()
    return [
        [_of_task(record.sel(n_queries=n), n, n == tasks[0]) for n in tasks[i : i + 2]]
        for i in range(0, len(tasks), 2)
    ] + [[_recall_panel(record.isel(n_queries=0, ratio=0)), _fall_panel(record)]]


def _named(n: int) -> str:
    return f"{n} quer{'y' if n == 1 else 'ies'}"


def _of_task(record: xr.Dataset, n: int, named: bool) -> Lines:
    lines = []
    for i, rate in enumerate(record.lr_attention.values):
        entropy = record.entropy.sel(lr_attention=rate).dropna(
            "ratio", how="all"
        )  # no dot where all diverged
        mean, spread = entropy.mean("seed"), entropy.std("seed")
        shade = (i + 1) / record.sizes["lr_attention"]
        lines.append(
            Line(
                entropy.ratio,
                mean,
                f"η_Z = {rate:g}" if named else "",
                tone=float(shade),
                low=mean - spread,
                high=mean + spread,
            )
        )
    for i, means in enumerate(PUBLISHED_ENTROPY.get(n, ([], []))[0]):
        lines.append(
            Line(PUBLISHED_RATIOS, means, "published" if i == 0 and named else "", RINGS, None)
        )
    lost = int((record.stop_reason == "diverged").sum())
    title = f"{_named(n)}, {2 * n} classes" + (f", {lost} runs diverged" if lost else "")
    ticks = {float(ratio): f"{ratio:g}" for ratio in record.ratio.values}
    return Lines(title, "η_Y/η_Z", "entropy among distinct tokens (nats)", lines, "x", ticks=ticks)


def _recall_panel(at: xr.Dataset) -> Lines:
    mean, n, ratio = at.recall.mean("seed"), int(at.n_queries), float(at.ratio)
    lines = [
        Line(
            at.threshold,
            mean.sel(lr_attention=rate),
            f"η_Z = {rate:g}",
            tone=(i + 1) / at.sizes["lr_attention"],
        )
        for i, rate in enumerate(at.lr_attention.values)
    ]
    if n == 1 and ratio in REPLICATED and REPLICATED_LR_ATTENTION in at.lr_attention:
        lines.append(Line(THRESHOLDS[1], REPLICATED[ratio], "replication, η_Z = 0.5", RINGS, None))
    title = f"recall, {_named(n)}, η_Y/η_Z = {ratio:g}"
    return Lines(
        title, "threshold of attention", "share of distinct tokens marked", lines, ylim=(0, 1)
    )


def _fall_panel(record: xr.Dataset) -> Lines:
    mean = record.recall.mean("seed")
    fall = (mean.isel(level=0) - mean.isel(level=-1)).mean("ratio")
    lines = [
        Line(record.lr_attention, fall.sel(n_queries=n), _named(n), tone=i)
        for i, n in enumerate(record.n_queries.values.tolist())
    ]
    title, y = "recall falls less at a higher attention rate", "fall of recall over the thresholds"
    ticks = {float(rate): f"{rate:g}" for rate in record.lr_attention.values}
    return Lines(title, "η_Z (per step)", y, lines, "x", ylim=(0, None), ticks=ticks)


EXPERIMENT = Experiment(
    "syn-medium-entropy",
    Settings,
    lambda settings, on_progress: together([settings], on_progress)[0],
    claims,
    panels,
    caption=(
        "Entropy of attention among a class's distinct tokens after training; ln 10 = 2.30 would be uniform attention. Note the "
        "order of the lines (the higher the attention rate, the sparser) and the dip at ratio 2 from three query tokens on. Lines "
        "and bands: mean and standard deviation over seeds. Rings: published means (1 and 3 query tokens only). Last two panels: "
        "the share of distinct tokens that a query marks, against the threshold, and how far it falls from the lowest threshold "
        "to the highest, mean over ratios. Sparse attention has few tokens near the threshold and falls less."
    ),
    finding=(
        "published mean entropies are reproduced to within 0.03 or three standard errors, with {*three standard errors* (query "
        "tokens 1):.0f} exceptions among 16 for one query token and {*three standard errors* (query tokens 3):.0f} among 16 for "
        "three; at a higher attention rate recall falls less as its threshold rises, with {recall falls less*:.0f} exceptions"
    ),
    table=table,
    headlines=headlines,
    together=together,
    free=FREE,
)
