"""The higher the learning rate of SGD, the lower the entropy of attention on validation text
[tian2023, Fig. 10].

The one-layer Transformer of `wikitext-attention` with one rate for all parameters, 1 to 5, several
seeds; entropy of attention, mean over the queries of validation windows. How long the paper trained
is not known, and after as many updates a higher rate is also further on; so entropy is kept at
several times, and compared where rate times updates is equal. The full settings make one pass
through WikiText-2 with all its words, and as many updates on TinyStories; `texts` may name
"wikitext-103", the paper's second text. Expect: entropy falls with the rate, not by progress alone;
the sparsest attention is not the best in validation loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr

from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_count, checked_list
from saccade.experiments.real_text import wikitext_training as training
from saccade.experiments.real_text.every_run import every_run, same_answer
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import Case, Claim
from saccade.lab.panel import RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Progress
from saccade.observe.fits import agreement, interval, rank_correlation
from saccade.theory.condition import at_least, at_most
from saccade.theory.questions import ENTROPY_AT_EQUAL_PATH
from saccade.theory.scan_and_snap.statements import FIG_10


@dataclass(frozen=True)
class Settings:
    texts: tuple[str, ...] = ("wikitext-2",)
    """corpora: names or paths"""
    n_vocab: int | None = 2000
    """words kept; all others become one token; None: keep all"""
    rates: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)
    """learning rates of all parameters, rising"""
    seeds: int | tuple[int, ...] = 3
    """number of random starts (seeds 0, 1, 2, ...), or a list of seeds"""
    steps: int = 300
    """updates"""
    n_looks: int = 10
    """number of measurements of entropy after the start, evenly spaced"""
    batch: int = 10
    """streams of text per batch; 20 in the paper"""
    context: int = 35
    """tokens per window"""
    n_windows: int = 64
    """windows of validation text that attention is measured on"""
    width: int = 100
    """width of the model; 200 in the paper"""
    resumable: bool = False
    """whether a stopped run resumes from its last checkpoint, kept in the user's cache folder"""


def measure(settings: Settings, on_progress: Progress) -> xr.Dataset:
    rates = checked_list("rates", settings.rates, low=1e-9, high=1e6)
    if len(rates) < 2 or rates != sorted(set(rates)):
        raise InputError(f"`rates` must rise and name at least two; got {settings.rates!r}.")
    looks = np.linspace(
        0, checked_count("steps", settings.steps), checked_count("n_looks", settings.n_looks) + 1
    )
    axes = {"text": settings.texts, "lr": rates, "seed": checked_seeds(settings.seeds)}
    record = training.text_runs(
        settings, np.unique(looks.round().astype(int)).tolist(), axes, on_progress
    )
    return record.isel(layer=0, drop=True).drop_vars("lowest_map")


def claims(record: xr.Dataset) -> Iterator[Claim]:
    """Runs that diverged are left out of means, and count as exceptions among seeds.

    The first three claims were set before the first run, the one on equal rate times updates when
    the curves had been seen, the size of the fall when the others were known to hold.
    """
    lowest, highest = (float(record.lr[place]) for place in (0, -1))
    given = [
        at_least("seeds", record.sizes["seed"], 3),
        at_least("lowest rate", lowest, 1),
        at_most("highest rate", highest, 5),
    ]
    for text in record.text.values:
        at = record.sel(text=text)
        final, level = at.entropy.isel(time=-1).transpose("lr", "seed"), at_equal_distance(at)
        case, level_case = (
            Case({"text": str(text)}, given).under(
                Ceiling("order of rates in two seeds", agreement(found.T, same_order))
            )
            for found in (final, level)
        )
        correlations = np.array(
            [rank_correlation(record.lr, of_seed) for of_seed in final.values.T]
        )
        is_lower = final.isel(lr=-1) < final.isel(lr=0)
        yield case.in_order(
            FIG_10,
            "mean entropy falls from each rate to the next",
            -final.mean("seed"),
            sentence="The faster attention learns on text, the fewer tokens it ends on.",
        )
        less = f"every seed has less entropy at rate {highest:g} than at rate {lowest:g}"
        yield every_run(case, FIG_10, less, is_lower.values, 1)
        if len(record.lr) > 2:  # of two rates it would say the same once more
            yield every_run(
                case,
                FIG_10,
                "entropy falls with the rate (rank correlation) in every seed",
                correlations < 0,
                1,
            )
        yield level_case.in_order(
            ENTROPY_AT_EQUAL_PATH,
            "mean entropy at equal rate × updates falls from each rate to the next",
            -level.mean("seed"),
        )
        title = f"fall of entropy from rate {lowest:g} to rate {highest:g}, nats"
        fall = interval((final.isel(lr=0) - final.isel(lr=-1)).values)
        yield case.under(same_answer(is_lower.values)).at_least(FIG_10, title, fall, 0, strict=True)


def same_order(one: np.ndarray, other: np.ndarray) -> float:
    """Kendall's rank correlation of two seeds: 1 if every two rates come in the same order, -1 if
    none do. Also of two rates.
    """
    first, second = np.triu_indices(len(one), 1)
    return float(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second])))


def at_equal_distance(record: xr.Dataset) -> xr.DataArray:
    """Entropy (lr, seed) when rate times updates is what the lowest rate has at its end, linear
    between looks.

    If a higher rate did no more than walk the same way faster, this would not depend on the rate.
    """
    distance = record.lr[0] * record.time[-1]
    entropy = record.entropy.transpose("lr", "seed", "time")
    found = [
        [np.interp(distance / lr, record.time, curve) for curve in entropy.sel(lr=lr)]
        for lr in record.lr
    ]
    return entropy.isel(time=-1, drop=True).copy(data=np.array(found))


def table(record: xr.Dataset) -> list[dict[str, object]]:
    """At every look: means over the seeds that did not diverge, and the half width of the 95 %
    interval of entropy.
    """
    reach = xr.apply_ufunc(
        lambda by_seed: interval(by_seed).half_width,
        record.entropy,
        input_core_dims=[["seed"]],
        vectorize=True,
    )
    means = record[["entropy", "relative_entropy", "self_mass", "valid_loss"]].mean("seed")
    means = means.assign(entropy_half_width=reach, n_seeds=record.entropy.notnull().sum("seed"))
    return training.rows(means, "text", "lr", "time")


def panels(record: xr.Dataset) -> Layout:
    even, rates = training.even_entropy(EXPERIMENT.settings_of(record).context), record.lr.values
    y, limits, levels = "entropy of attention (nats)", (0, 1.1 * even), {even: "even attention"}
    rows = []
    for text in record.text.values:
        entropy = record.entropy.sel(text=text).transpose("lr", "seed", "time")
        final, ticks = entropy.isel(time=-1), {rate: f"{rate:g}" for rate in rates}
        lines = [Line(np.repeat(rates, final.shape[1]), final.values.ravel(), "seeds", RINGS, 1)]
        lines.append(Line(rates, final.mean("seed"), "mean"))
        title = f"{text}, after {int(record.time[-1])} updates"
        against_rate = Lines(
            title, "learning rate", y, lines, ylim=limits, levels=levels, ticks=ticks
        )
        means = entropy.mean("seed").values
        curves = [
            Line(record.time, means[i], f"rate {lr:g}", tone=i / (len(rates) - 1))
            for i, lr in enumerate(rates)
        ]
        rows.append(
            [
                against_rate,
                Lines(f"{text}, on the way", "updates", y, curves, ylim=limits, levels=levels),
            ]
        )
    return rows


EXPERIMENT = Experiment(
    "wikitext-entropy",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Entropy of attention on validation text. Panel 1: after training against the learning rate; rings are seeds, the line "
        "their mean; look whether it falls from left to right. Panel 2: over the updates, dark for high rates, mean over seeds; "
        "where lines cross, the order of the rates depends on when one stops."
    ),
    question="Does attention become sparse when a Transformer learns text, and more so at a higher rate?",
    finding=(
        "from learning rate 1 to 5 mean entropy falls in {mean entropy falls*:count} steps; it is lower at rate 5 than at rate 1 "
        "in {*at rate 5 than at rate 1*:count} seeds, by {fall of entropy*:interval .2f} nats"
    ),
    caveat="Comparing at equal validation loss: the sparsest attention is not the best one.",
    full=Settings(
        texts=("wikitext-2", "tinystories"),
        n_vocab=None,
        seeds=5,
        steps=2928,
        batch=20,
        width=200,
        resumable=True,
    ),
    table=table,
)
