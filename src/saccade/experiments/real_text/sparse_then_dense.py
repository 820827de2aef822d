"""Under Adam at ten times the published rate the entropy of attention falls, and 36 % of the fall
returns: sparse, then dense [tian2024, Fig. 6].

Transformers as in `wikitext-attention` (dropout 0.2), trained by Adam; entropy of attention in
every layer on validation text. JoMA's explanation: salient components are learned first, weaker
ones catch up. The default is its model with 2,000 words at a rate of 1e-3, where entropy comes back
within 10,000 updates; at its own rate of 1e-4 it takes longer. A replication with all words, 58,000
updates and rate 1e-4 lists start, minimum and end; its numbers only judge the full settings, which
take days. That its gradients were clipped as in `wikitext-attention` is inferred. The number of
updates was set when 2,000 had shown no rise, and the times at which the rise is compared (.2, .5
and all of 10,000 updates) when earlier runs had shown where it grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_count, checked_list
from saccade.experiments.real_text import wikitext_training as training
from saccade.experiments.real_text.every_run import every_run, same_answer
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import REPLICATION, Case, Claim
from saccade.lab.panel import RINGS, Layout, Line, Lines, over_seeds
from saccade.lab.protocol import Experiment, Progress
from saccade.observe.fits import agreement
from saccade.theory.condition import at_least
from saccade.theory.questions import JOMA_FIG_6

# Rise after the minimum over the fall before it. In the replication: 0.69 for one layer, 0.42 and
# 0.11 for the lowest of two and of five, 0.03 for the lowest of ten, which it calls no bounce.
BOUNCE = 0.1
FALLEN = 0.1  # nats: starts of different seeds differ by less
COLLAPSED = 0.1  # nats, of the replication's "collapses to 0": a row with 98 % on one key and the rest on another has that entropy
ALIKE = 0.15  # nats; the replication gives no spread. Starts of ours differ by up to 0.05 between seeds, ends may by more


class Replicated(NamedTuple):
    """Start, minimum and end of the lowest layer's entropy in nats."""

    start: float
    minimum: float
    end: float


REPLICATED = {
    1: Replicated(2.51, 1.55, 2.21),
    2: Replicated(2.51, 1.34, 1.83),
    5: Replicated(2.51, 1.29, 1.43),
}  # by depth
PUBLISHED_RATE = REPLICATED_RATE = 1e-4  # of Adam, in Fig. 6 and in the replication
REPLICATED_UPDATES = 58_000
PARTS = (0.2, 0.5, 1.0)  # of a run, after which the return is told


@dataclass(frozen=True)
class Settings:
    text: str = "wikitext-2"
    """corpus: a name or a path"""
    n_vocab: int | None = 2000
    """words kept; all others become one token; None: keep all"""
    layers: tuple[int, ...] = (1,)
    """depths"""
    rates: tuple[float, ...] = (1e-3,)
    """learning rates of Adam"""
    seeds: int | tuple[int, ...] = 3
    """number of random starts (seeds 0, 1, 2, ...), or a list of seeds"""
    steps: int = 10_000
    """updates"""
    n_looks: int = 50
    """number of measurements of attention after the start"""
    batch: int = 10
    """streams of text per batch; 20 in the replication"""
    context: int = 35
    """tokens per window"""
    n_windows: int = 64
    """windows of validation text that attention is measured on"""
    width: int = 200
    """width of the model"""
    resumable: bool = False
    """whether a stopped run resumes from its last checkpoint, kept in the user's cache folder"""


def measure(settings: Settings, on_progress: Progress) -> xr.Dataset:
    rates = checked_list("rates", settings.rates, low=0.0, high=1e3)
    if checked_count("n_looks", settings.n_looks) < 6:
        raise InputError(
            f"`n_looks` must be at least 6, for a fall and a rise of means of three; got {settings.n_looks}."
        )
    looks = np.unique(
        np.linspace(0, checked_count("steps", settings.steps), settings.n_looks + 1)
        .round()
        .astype(int)
    ).tolist()
    axes = {"n_layers": settings.layers, "lr": rates, "seed": checked_seeds(settings.seeds)}
    return training.text_runs(
        settings, looks, axes, on_progress, optimiser="adam", dropout=0.2
    ).drop_vars("lowest_map")


class Bounce(NamedTuple):
    """Of a curve of entropy: its start, its minimum and the update of it, its end, and the rise
    over the fall (0: none).
    """

    start: float
    minimum: float
    minimum_at: float
    end: float
    rebound: float


def bounce(steps: np.ndarray, entropy: np.ndarray) -> Bounce:
    """From means of three neighbouring looks, the start as it is. A curve that never falls has no
    rebound: NaN.

    The minimum of a noisy curve lies below what it stands for and the end seems to rise above it;
    means of three make that less.
    """
    smooth, middles = np.convolve(entropy, np.ones(3) / 3, "valid"), steps[1:-1]
    if len(entropy) < 3 or not np.isfinite(smooth).all():
        return Bounce(float(entropy[0]), *[np.nan] * 4)
    lowest = int(smooth.argmin())
    fall, rise = entropy[0] - smooth[lowest], smooth[-1] - smooth[lowest]
    rebound = float(rise / fall) if fall > 0 else np.nan
    return Bounce(
        float(entropy[0]), float(smooth[lowest]), float(middles[lowest]), float(smooth[-1]), rebound
    )


def bounces(record: xr.Dataset, **where: Any) -> list[Bounce]:
    """One for each seed."""
    curves = record.entropy.sel(**where).transpose("seed", "time")
    return [bounce(record.time.values, curve.values) for curve in curves]


def rebounds_by_part(record: xr.Dataset, **where: Any) -> np.ndarray:
    """Rise over fall (seed, part) as if the run had ended after each of `PARTS`."""
    ends = [record.sel(time=slice(0, part * float(record.time[-1]))) for part in PARTS]
    return np.array([[one.rebound for one in bounces(end, **where)] for end in ends]).T


def claims(record: xr.Dataset) -> Iterator[Claim]:
    depths, rates = record.n_layers.values.tolist(), record.lr.values.tolist()
    for depth in depths:
        for lr in rates:
            yield from _run_claims(record, depth, lr)
    if len(depths) > 1 and _is_replicated(record):
        lowest = min(rates)  # where the replication has all its depths
        rebounds = np.array(
            [
                [one.rebound for one in bounces(record, n_layers=n, lr=lowest, layer=0)]
                for n in sorted(depths)
            ]
        )
        case = Case({"rate": lowest}, against=REPLICATION).under(
            same_answer((np.diff(rebounds, axis=0) < 0).T)
        )
        yield case.in_order(
            JOMA_FIG_6,
            "entropy of the lowest layer comes back less in deeper models",
            -rebounds.mean(axis=1),
        )


def _is_replicated(record: xr.Dataset) -> bool:
    """Whether the replication's numbers can judge this record: all words, as many updates, as many
    tokens an update.
    """
    used = EXPERIMENT.settings_of(record)
    text = used.text == "wikitext-2" and used.n_vocab is None
    return bool(text and used.steps == REPLICATED_UPDATES and used.batch * used.context == 20 * 35)


def _run_claims(record: xr.Dataset, depth: int, lr: float) -> Iterator[Claim]:
    """Of the lowest layer. A return can only be asked of a run that goes on for as long again as it
    took to its minimum.
    """
    lowest, case = (
        bounces(record, n_layers=depth, lr=lr, layer=0),
        Case({"layers": depth, "rate": _rate_said(lr)}),
    )
    last, turned = float(record.time[-1]), max(one.minimum_at for one in lowest)
    long_enough = case.but([at_least("updates over those until the minimum", last / turned, 2)])
    asked: tuple[tuple[Case, str, list[float], float], ...] = (
        (case, "fall of entropy, nats", [one.start - one.minimum for one in lowest], FALLEN),
        (
            long_enough,
            "rise of entropy after its minimum / fall before it",
            [one.rebound for one in lowest],
            BOUNCE,
        ),
    )
    for of_case, title, values, bound in asked:
        among = len(asked) * record.sizes["n_layers"] * record.sizes["lr"]
        yield every_run(
            of_case, JOMA_FIG_6, title, values, bound, possible=(0.0, np.inf), among=among
        )
    of_parts = rebounds_by_part(record, n_layers=depth, lr=lr, layer=0)
    yield (
        long_enough.under(Ceiling("two seeds", agreement(of_parts), more="updates")).in_order(
            JOMA_FIG_6,
            "more entropy has come back after 1/2 of the updates than 1/5, and most at the end",
            of_parts.mean(axis=0),
        )
    )
    if not _is_replicated(record):
        return
    replication = case.but(against=REPLICATION)
    if lr == REPLICATED_RATE and depth in REPLICATED:
        for name, target in REPLICATED[depth]._asdict().items():
            by_seed = np.array([getattr(one, name) for one in lowest])
            alike = replication.under(same_answer(np.abs(by_seed - target) <= ALIKE))
            yield alike.near(
                JOMA_FIG_6, f"entropy at its {name}, nats", by_seed.mean(), target, within=ALIKE
            )
    if lr == 1e-3 and depth == 5:
        collapsed = np.array([one.end < COLLAPSED for one in lowest])
        title = f"share of runs in which entropy ends below {COLLAPSED:g} nats"
        yield replication.under(same_answer(collapsed)).at_least(
            JOMA_FIG_6, title, collapsed.mean(), 1
        )


def _rate_said(lr: float) -> str:
    """`0.001, 10 times the paper's`: Fig. 6 is about 1e-4."""
    return (
        f"{lr:g}" if lr == PUBLISHED_RATE else f"{lr:g}, {lr / PUBLISHED_RATE:g} times the paper's"
    )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each layer of each run."""
    rows = []
    for depth in record.n_layers.values.tolist():
        for lr in record.lr.values.tolist():
            for layer in range(depth):
                where = {"n_layers": depth, "lr": lr, "layer": layer}
                for seed, one, parts in zip(
                    record.seed.values.tolist(),
                    bounces(record, **where),
                    rebounds_by_part(record, **where),
                    strict=True,
                ):
                    loss = float(record.valid_loss.sel(n_layers=depth, lr=lr, seed=seed).min())
                    after = {
                        f"rebound_after_{part:g}": value
                        for part, value in zip(PARTS, parts, strict=True)
                    }
                    rows.append(
                        where | {"seed": seed, "best_valid_loss": loss} | one._asdict() | after
                    )
    return rows


def panels(record: xr.Dataset) -> Layout:
    highest = 1.05 * float(record.entropy.max())
    return [
        [
            Lines(
                f"{depth} layer{'s' if depth > 1 else ''}, Adam at {lr:g}",
                "updates",
                "entropy of attention (nats)",
                [line for layer in range(depth) for line in _layer(record, depth, lr, layer)],
                ylim=(0, highest),
                levels=_replicated_levels(depth, lr),
            )
            for lr in record.lr.values.tolist()
        ]
        for depth in record.n_layers.values.tolist()
    ]


def _layer(record: xr.Dataset, depth: int, lr: float, layer: int) -> list[Line]:
    where = {"n_layers": depth, "lr": lr, "layer": layer}
    tone, found = 1.0 - layer / max(depth - 1, 1), bounces(record, **where)
    lowest = Line(
        [one.minimum_at for one in found], [one.minimum for one in found], "", RINGS, tone
    )
    return [over_seeds(record.entropy.sel(**where), f"layer {layer}", tone=tone), lowest]


def _replicated_levels(depth: int, lr: float) -> dict[float, str]:
    if lr != REPLICATED_RATE or depth not in REPLICATED:
        return {}
    return {
        REPLICATED[depth].minimum: "replication: minimum",
        REPLICATED[depth].end: "replication: end",
    }


EXPERIMENT = Experiment(
    "sparse-then-dense",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Entropy of attention in each layer over the updates, dark for low layers; a panel for each rate and depth. Look for "
        "curves that turn upwards again: the ring is the minimum of a seed, taken on means of three observations. Dashed, at the "
        "replication's rate: where its lowest layer has its minimum and its end, with all words. Band: lowest and highest seed."
    ),
    question="Does attention become dense again after it was sparse?",
    finding=(
        "at rate 0.001, ten times the paper's, entropy falls by {fall of entropy*rate 0.001*:.2f} nats, and {rise of entropy*rate "
        "0.001*:.0%} of that has come back by update 10,000"
    ),
    caveat=(
        "A lower rate, with which entropy comes back only after these runs end; smaller batches or fewer "
        "words, with which less of it comes back, or none; other depths."
    ),
    full=Settings(
        n_vocab=None,
        layers=(1, 2, 5),
        rates=(1e-4, 1e-3),
        seeds=3,
        steps=REPLICATED_UPDATES,
        n_looks=116,
        batch=20,
        resumable=True,
    ),
    table=table,
)
