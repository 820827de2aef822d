"""With Adam, the learning rate decides whether rare, medium or frequent distinct tokens win
attention.

Fig. 5 of Scan and Snap: Adam on Syn-Small, both rates .1, .5 and 1, zero start, 100 steps. Adam
divides every gradient by its size, so frequency no longer sets the pace, and flat attention is best
(`adam-sign-limit` derives this). At a low rate attention has time to become flat; at a high rate
training ends before distinct tokens differ. Expect the favoured token within two ranks of that
noise-free theory and of an independent replication; attention on it, common mass and entropy within
rounding and three standard errors of the replication.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import checked_list
from saccade.experiments.together import Share, checked_alike, parts, train_together
from saccade.lab.claim import REPLICATION, Case, Claim
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Progress
from saccade.theory.condition import met
from saccade.theory.scan_and_snap import adam_limit, limit_attention
from saccade.theory.scan_and_snap.statements import ADAM_LIMIT, FIG_5

# Class 1 in an independent replication with three seeds; the paper shows the picture only. By rate:
# rank of the distinct token with most attention (1 = rarest), its attention, attention on common
# tokens, entropy among distinct tokens.
REPLICATED = {
    0.1: (4, 0.081, 0.305, 2.294),
    0.5: (5.5, 0.15, 0.007, 2.195),
    1.0: (10, 0.16, 0.0, 2.181),
}
REPLICATED_SEEDS = 3
_ROUNDING = (0.005, 0.0005, 0.0005)  # of the last three
_FREE = ("lrs", "seeds")


@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are the published ones."""

    lrs: tuple[float, ...] = (0.1, 0.5, 1.0)
    """rates of decoder and attention, per step"""
    steps: int = 100
    """updates"""
    batch: int = 128
    """sequences in a batch"""
    context: int = 127
    """context tokens before the query"""
    seeds: int | tuple[int, ...] = 10
    """number of seeds (0, 1, 2, ...), or a list of seeds"""


def together(several: Sequence[Settings], on_progress: Progress) -> list[xr.Dataset]:
    shared = checked_alike(several, _FREE)
    shares = [
        Share([(lr, lr) for lr in checked_list("lrs", one.lrs, low=0)], checked_seeds(one.seeds))
        for one in several
    ]
    record = train_together(
        saccade.SequenceClasses.syn_small(),
        shares,
        steps=shared.steps,
        optimiser="adam",
        batch=shared.batch,
        context=shared.context,
        save=[0, shared.steps],
        on_progress=on_progress,
    )
    return parts(record, shares)


def _distinct(record: xr.Dataset, n: int) -> NDArray[np.int64]:
    """Distinct tokens of class n, rarest first."""
    prob = record.token_prob.values
    own = np.flatnonzero((prob[n] > 0) & ((prob > 0).sum(axis=0) == 1))
    return own[np.argsort(prob[n, own])]


class Seen(NamedTuple):
    """Class n at the end of training, by seed."""

    distinct: NDArray[np.float64]  # attention on distinct tokens, rarest first (seed, rank)
    favoured: int  # rank of the one with most attention on average, 1 = rarest
    peak: NDArray[np.float64]  # attention on it
    common_mass: NDArray[np.float64]
    entropy: NDArray[np.float64]  # among distinct tokens, nats


def _seen(record: xr.Dataset, rate: int, n: int) -> Seen:
    attention = (
        record.attention.isel(rate=rate, time=-1)
        .isel({"class": n})
        .transpose("seed", "token")
        .values
    )
    distinct = attention[:, _distinct(record, n)]
    top = int(distinct.mean(axis=0).argmax())
    return Seen(
        distinct,
        top + 1,
        distinct[:, top],
        1 - distinct.sum(axis=1),
        saccade.measures.entropy(distinct),
    )


def _predicted(record: xr.Dataset, rate: int, n: int) -> NDArray[np.float64]:
    """Attention on the distinct tokens of class n, rarest first, by a theory without noise."""
    prob, own, steps = (
        record.token_prob.values[n],
        _distinct(record, n),
        EXPERIMENT.settings_of(record).steps,
    )
    sizes: dict[str, Any] = {"n_vocab": len(prob), "n_classes": record.sizes["class"]}
    seen = np.append(own, np.setdiff1d(np.flatnonzero(prob), own))
    path = adam_limit(
        prob[seen], np.isin(seen, own), lr=float(record.lr_attention[rate]), steps=steps, **sizes
    )
    return limit_attention(prob[seen], path.logits[-1])[: len(own)]


def claims(record: xr.Dataset) -> Iterator[Claim]:
    case, lrs = Case(given=[EXPERIMENT.as_published(record, *_FREE)]), record.lr_attention.values
    for rate, lr in enumerate(lrs):
        at, predicted = case.but(rate=float(lr)), int(_predicted(record, rate, 0).argmax()) + 1
        title = "rank of the favoured distinct token, by theory"
        yield at.near(ADAM_LIMIT, title, _seen(record, rate, 0).favoured, predicted, within=2)
    slowest, fastest = int(np.argmin(lrs)), int(np.argmax(lrs))
    if lrs[fastest] >= 10 * lrs[slowest]:
        other, at = (
            int(_predicted(record, fastest, 0).argmax()) + 1,
            case.but(rate=float(lrs[slowest])),
        )
        yield at.breaking(met("theory is given the rate", False)).near(
            ADAM_LIMIT, title, _seen(record, slowest, 0).favoured, other, within=2
        )
    for rate, lr in enumerate(lrs):
        if lr not in REPLICATED:
            continue
        seen, (rank, *means), at = (
            _seen(record, rate, 0),
            REPLICATED[lr],
            case.but(against=REPLICATION, rate=float(lr)),
        )
        yield at.near(
            FIG_5,
            "rank of the distinct token with most attention (1 = rarest)",
            seen.favoured,
            rank,
            within=2,
            sentence="With Adam the learning rate decides whether rare, medium or frequent distinct tokens win attention.",
        )
        names = (
            "attention on the favoured token",
            "attention on common tokens",
            "entropy among distinct tokens",
        )
        values = (seen.peak, seen.common_mass, seen.entropy)
        for name, target, value, rounding in zip(names, means, values, _ROUNDING, strict=True):
            error = value.std() * np.sqrt(1 / len(value) + 1 / REPLICATED_SEEDS)
            yield at.near(FIG_5, name, value.mean(), target, within=rounding + 3 * error)
    ranks = [_seen(record, rate, 0).favoured for rate in np.argsort(lrs)]
    yield case.in_order(
        FIG_5, "the favoured distinct token is more frequent at a higher rate", ranks
    )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for rate, n in np.ndindex(record.sizes["rate"], record.sizes["class"]):
        seen = _seen(record, rate, n)
        for rank, token in enumerate(_distinct(record, n)):
            attention = seen.distinct[:, rank]
            rows.append(
                {
                    "lr": float(record.lr_attention[rate]),
                    "class": n + 1,
                    "rank": rank + 1,
                    "token_prob": float(record.token_prob[n, token]),
                    "attention_mean": float(attention.mean()),
                    "attention_min": float(attention.min()),
                    "attention_max": float(attention.max()),
                    "common_mass_mean": float(seen.common_mass.mean()),
                    "distinct_entropy_mean": float(seen.entropy.mean()),
                    "n_seeds": record.sizes["seed"],
                }
            )
    return rows


def panels(record: xr.Dataset) -> Layout:
    own = _distinct(record, 0)
    ranks, highest = (
        np.arange(1, len(own) + 1),
        float(record.attention.isel(time=-1, token=own).max()),
    )
    drawn = []
    for rate, lr in enumerate(record.lr_attention.values):
        seen = _seen(record, rate, 0)
        low, mean, high = (getattr(seen.distinct, name)(axis=0) for name in ("min", "mean", "max"))
        lines = [
            Line(ranks, record.token_prob.values[0, own], "before training", tone=None),
            Line(ranks, _predicted(record, rate, 0), "theory, no noise", DASHES, rate),
            Line(ranks, mean, "after", POINTS, rate, low, high),
        ]
        title = f"rate {lr:g}: {seen.common_mass.mean():.0%} on common tokens, entropy {seen.entropy.mean():.2f}"
        drawn.append(
            Lines(
                title,
                "distinct token, rarest first",
                "attention of class 1",
                lines,
                ylim=(0, 1.05 * highest),
            )
        )
    return drawn


EXPERIMENT = Experiment(
    "adam-subsets",
    Settings,
    lambda settings, on_progress: together([settings], on_progress)[0],
    claims,
    panels,
    caption=(
        "Attention on each distinct token of class 1 after 100 steps of Adam, rarest first. The peak moves with the rate: among "
        "rare tokens at a low rate, in the middle at .5, on the most frequent token at 1. Dots and band: mean and range over "
        "seeds. Line: attention before training, which is each token's frequency. Dashed: theory without noise, the decoder "
        "reduced to one number. The titles give the attention left on common tokens and the entropy among distinct ones."
    ),
    finding=(
        "of ten distinct tokens, ranked from rare to frequent, Adam favours number {rank of the distinct*rate 0.1):.0f} at rate "
        "0.1, number {rank of the distinct*rate 0.5):.0f} at 0.5 and number {rank of the distinct*rate 1):.0f} at 1"
    ),
    table=table,
    together=together,
    free=_FREE,
)
