"""With Adam the learning rate chooses which distinct tokens win attention: rare, middling or frequent ones [tian2023, Fig. 5].

Adam on Syn-Small, both rates .1, .5 and 1, zero start, 100 steps. Adam divides every gradient by its size, so frequency no longer
sets the pace: at rate 1 the logits of all distinct tokens end near 5.5, at lower rates those of frequent ones end lower, and
attention, which is frequency times exp(z), peaks in between. Expected: attention is highest at the 4th rarest of ten distinct
tokens, at the 5th or 6th, and at the most frequent one; common tokens keep .305, .007 and nothing. About 4 s on two cores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import checked_list
from saccade.experiments.together import Share, checked_alike, parts, train_together
from saccade.records.claim import Claim

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 4
WHAT = "Fig. 5, Adam"
EXPECTED = (
    "of ten distinct tokens, number {rank*rate 0.1:.0f} from the rarest gets most attention at rate 0.1, {rank*rate 0.5:.0f} at "
    "0.5, {rank*rate 1:.0f} at 1"
)
TOGETHER = ("lrs", "seeds")


# Class 1 in an independent replication with three seeds; the paper shows the picture only. By rate: rank of the distinct token
# with most attention (1 = rarest), its attention, attention on common tokens, entropy among distinct tokens.
REPLICATED = {0.1: (4, 0.081, 0.305, 2.294), 0.5: (5.5, 0.15, 0.007, 2.195), 1.0: (10, 0.16, 0.0, 2.181)}
REPLICATED_SEEDS = 3
_ROUNDING = (0.005, 0.0005, 0.0005)  # of the last three
_RANKS = 2

CAPTION = (
    "Attention on each distinct token of class 1 after 100 steps of Adam, rarest first. Look at where the dots peak: at a low rate "
    "among the rare tokens, at .5 in the middle, at 1 on the most frequent one. Dots and bars: mean and range over seeds. Line: "
    "attention before training, which is each token's frequency. In the titles: attention left on common tokens, and entropy "
    "among distinct ones."
)


@dataclass(frozen=True)
class Config:
    """Settings; the defaults are the published ones."""

    lrs: tuple[float, ...] = (0.1, 0.5, 1.0)
    """rates of decoder and attention alike, per step"""
    steps: int = 100
    """updates"""
    batch: int = 128
    """sequences in a batch"""
    context: int = 127
    """context tokens before the query"""
    seeds: int | tuple[int, ...] = 10
    """number of seeds (0, 1, 2, ...), or a list of seeds"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    return together([config], on_progress)[0]


def together(configs: Sequence[Config], on_progress: Callable[[float], None] = lambda fraction: None) -> list[xr.Dataset]:
    shared = checked_alike(configs, TOGETHER)
    shares = [Share([(lr, lr) for lr in checked_list("lrs", config.lrs, low=0)], checked_seeds(config.seeds)) for config in configs]
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
    found = parts(record, shares)
    for part, config in zip(found, configs, strict=True):
        part.attrs["settings"] = json.dumps(asdict(config))
    return found


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
    attention = record.attention.isel(rate=rate, time=-1).isel({"class": n}).transpose("seed", "token").values
    distinct = attention[:, _distinct(record, n)]
    top = int(distinct.mean(axis=0).argmax())
    return Seen(distinct, top + 1, distinct[:, top], 1 - distinct.sum(axis=1), saccade.measures.entropy(distinct))


def claims(record: xr.Dataset) -> list[Claim]:
    settings = json.loads(record.attrs["settings"])
    free = {"lrs": [], "seeds": 0}
    assumptions = {"the published settings": settings | free == asdict(Config()) | free}
    found = []
    for rate, lr in enumerate(record.lr_attention.values):
        if lr in REPLICATED:
            found += _replication_claims(record, rate, lr, assumptions)
    ranks = [_seen(record, rate, 0).favoured for rate in np.argsort(record.lr_attention.values)]
    rising = Claim(
        statement=f"the favoured distinct token is more frequent at a higher rate: exceptions among {len(ranks) - 1} pairs",
        source="[tian2023, Fig. 5]",
        assumptions=assumptions,
        predicted=0,
        measured=int(np.sum(np.diff(ranks) <= 0)),
        tolerance=0,
    )
    return [*found, rising]


def _replication_claims(record: xr.Dataset, rate: int, lr: float, assumptions: dict[str, bool]) -> list[Claim]:
    """Ranks to within two; the rest to within rounding and three standard errors of both means."""
    seen, source = _seen(record, rate, 0), "[tian2023, Fig. 5], independent replication"
    rank, *means = REPLICATED[lr]
    where = f"class 1, Adam at rate {lr:g}"
    place = f"rank of the distinct token with most attention (1 = rarest), {where}"
    found = [Claim(place, source, rank, seen.favoured, _RANKS, assumptions)]
    names = ("attention on that token", "attention on common tokens", "entropy among distinct tokens")
    values = (seen.peak, seen.common_mass, seen.entropy)
    for name, predicted, value, rounding in zip(names, means, values, _ROUNDING, strict=True):
        error = value.std() * np.sqrt(1 / len(value) + 1 / REPLICATED_SEEDS)
        found.append(Claim(f"{name}, {where}", source, predicted, float(value.mean()), float(rounding + 3 * error), assumptions))
    return found


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for rate, lr in enumerate(record.lr_attention.values):
        for n in range(record.sizes["class"]):
            seen = _seen(record, rate, n)
            for rank, token in enumerate(_distinct(record, n)):
                rows.append(
                    {
                        "lr": float(lr),
                        "class": n + 1,
                        "rank": rank + 1,
                        "token_prob": float(record.token_prob[n, token]),
                        "attention_mean": float(seen.distinct[:, rank].mean()),
                        "attention_min": float(seen.distinct[:, rank].min()),
                        "attention_max": float(seen.distinct[:, rank].max()),
                        "common_mass_mean": float(seen.common_mass.mean()),
                        "distinct_entropy_mean": float(seen.entropy.mean()),
                        "n_seeds": record.sizes["seed"],
                    }
                )
    return rows


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import categorical, new_figure

    drawing = new_figure(width=3.8 * max(2, record.sizes["rate"]), height=4.2)
    panels = drawing.subplots(1, record.sizes["rate"], sharey=True, squeeze=False)[0]
    own = _distinct(record, 0)
    ranks = np.arange(1, len(own) + 1)
    for rate, axes in enumerate(panels):
        seen, lr = _seen(record, rate, 0), float(record.lr_attention[rate])
        mean = seen.distinct.mean(axis=0)
        spread = np.stack([mean - seen.distinct.min(axis=0), seen.distinct.max(axis=0) - mean])
        axes.plot(ranks, record.token_prob.values[0, own], color="black", lw=1, label="before training")
        axes.errorbar(ranks, mean, yerr=spread, fmt="o", ms=5, capsize=2, color=categorical(rate), label="after")
        left = f"common {seen.common_mass.mean():.3f}, H = {seen.entropy.mean():.2f}"
        axes.set_title(rf"$\eta_Y = \eta_Z$ = {lr:g}" + f"\n{left}", fontsize=10)
        axes.set(xticks=ranks, xlabel="distinct token, rarest first")
    panels[0].set(ylabel=r"attention $c_1$", ylim=(0, None))
    panels[0].legend(loc="upper left", fontsize=8)
    return drawing
