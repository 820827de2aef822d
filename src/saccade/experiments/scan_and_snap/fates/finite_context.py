"""Theorem 2(a) outside its assumption: at finite length the rarest distinct tokens lose attention.

Only the length changes (Fig. 4's training, one query, two classes); the task breaks Assumption 2 at every length alike. That the
tokens fall because most short sequences do not show them is our reading: what is measured is that they fall, and at which length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.experiments.progress import stretch
from saccade.experiments.scan_and_snap.fates.settings import Config, row, settings
from saccade.records.claim import HOLDS, OUTSIDE, Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr

_LR, _MOMENTUM, _BATCH = 1.0, 0.9, 128
_TOO_SHORT = (32, 128)  # default lengths that Theorem 2 is outside of; known, whatever the validator says

# "None falls" is a limit. Where the rarest token is shown three times a sequence (T = 512) it still falls in one run of
# twenty, 0.5 % of all distinct tokens; from ten times on not once in 200 (T = 2048).
_OFTEN, _SELDOM_FALLING = 10.0, 0.01

DEFINITIONS = {
    "finite_logits": ("1", "z of each class's distinct tokens, rarest first, after training on sequences of length T"),
    "rarest_count": ("tokens", "how often a sequence of length T shows its rarest distinct token, on average"),
    "long_context": ("", "whether Assumption 1(b) counts as met: the rarest token is shown three times a sequence"),
}


def measure(config: Config, on_progress: Callable[[float], None]) -> tuple[dict[str, Any], dict[str, Any]]:
    task = saccade.SequenceClasses.syn_medium(1)
    tokens = _rarest_first(task)
    found = []
    for i, length in enumerate(config.lengths):
        record = saccade.train(
            task,
            steps=config.steps,
            lr_decoder=_LR,
            lr_attention=_LR,
            momentum=_MOMENTUM,
            batch=_BATCH,
            context=length - 1,
            seeds=config.seeds,
            save=[config.steps],
            keep=("attention_logits",),
            on_progress=stretch(on_progress, i / len(config.lengths), (i + 1) / len(config.lengths)),
        )
        found.append(record.attention_logits.values[:, 0, 0][:, tokens])
    condition = [_long_context(task, length) for length in config.lengths]
    variables = {
        "finite_logits": (("length", "seed", "class_of_two", "rank"), np.stack(found)),
        "rarest_count": (("length",), [c.value for c in condition]),
        "long_context": (("length",), [c.holds for c in condition]),
    }
    ranks = np.arange(1, tokens.shape[1] + 1)
    return variables, {"length": list(config.lengths), "rank": ranks, "seed": checked_seeds(config.seeds)}


def _rarest_first(task: saccade.SequenceClasses) -> NDArray[np.int64]:
    """Distinct tokens of each class (class, rank)."""
    return np.stack([own[np.argsort(prob[own])] for prob, own in zip(task.token_prob, map(np.flatnonzero, task.distinct))])


def _long_context(task: saccade.SequenceClasses, length: int) -> theory.Condition:
    found = theory.check_assumptions(
        task.token_prob,
        task.query,
        task.class_weight,
        n_vocab=task.n_vocab,
        lr_decoder=_LR,
        lr_attention=_LR,
        n_context=length - 1,
    )
    return next(condition for condition in found if condition.name.startswith("1(b)"))


def falling(record: xr.Dataset) -> NDArray[np.float64]:
    """Share of runs and classes in which a distinct token ends below where it started (length, rank)."""
    return (record.finite_logits.transpose("length", "rank", "seed", "class_of_two").values < 0).mean(axis=(2, 3))


def claims(record: xr.Dataset) -> list[Claim]:
    share = falling(record)
    found = [
        Claim(
            statement=f"share of distinct tokens that lose attention logit in SGD, T = {length}",
            source="[tian2023, Theorem 2(a)], at finite length",
            predicted=0,
            measured=float(by_rank.mean()),
            tolerance=0.0 if record.rarest_count[i] >= _OFTEN else _SELDOM_FALLING,
            assumptions={"1(b) long context": bool(record.long_context[i])},
            expected=OUTSIDE if length in _TOO_SHORT else HOLDS,
        )
        for i, (length, by_rank) in enumerate(zip(record.length.values, share, strict=True))
    ]
    return found + _replication_claims(record, dict(zip(record.length.values.tolist(), share, strict=True)))


def _replication_claims(record: xr.Dataset, share: dict[int, NDArray[np.float64]]) -> list[Claim]:
    """What an independent replication saw; it stopped at an unknown step, but nothing here moves after the 48th."""
    source = "[tian2023, Theorem 2(a)], at finite length, independent replication"
    same = {"the training of Fig. 4": settings(record).steps >= Config().steps}
    found = []
    if 32 in share:
        often = int((share[32] > 0.5).sum())
        found.append(Claim("how many of the ten distinct tokens fall in most runs, T = 32", source, 3, often, 0, same))
    if 128 in share:
        mean = float(record.finite_logits.sel(length=128, rank=1).mean())
        found += [
            Claim("share of runs in which the rarest distinct token falls, T = 128", source, 1, float(share[128][0]), 0.03, same),
            Claim("mean z of the rarest distinct token, T = 128", source, -0.013, mean, 0.002, same),
        ]
    return found


def rows(record: xr.Dataset) -> list[dict[str, Any]]:
    mean = record.finite_logits.mean(("seed", "class_of_two")).transpose("length", "rank").values
    share = falling(record)
    found = []
    for i, length in enumerate(record.length.values):
        for j, rank in enumerate(record["rank"].values):
            found += [
                row(f"SGD, T = {length}", f"distinct token of rank {rank}", "share of runs with z < 0", 0, share[i, j]),
                row(f"SGD, T = {length}", f"distinct token of rank {rank}", "mean z", None, mean[i, j]),
            ]
    return found


def draw(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import sequential

    axes.axhline(0, color="black", lw=1.2, label="Theorem 2(a): none")
    for i, (length, share) in enumerate(zip(record.length.values, falling(record), strict=True)):
        count, color = float(record.rarest_count[i]), sequential(i, record.sizes["length"])
        label = f"T = {length}: rarest shown {count:.2g} times"
        axes.plot(record["rank"], share, "o:", ms=5, lw=0.8, color=color, label=label)
    axes.set(xlabel="distinct token, rarest first", ylabel="share of runs with z < 0", ylim=(-0.04, 1.04))
    axes.set_xticks(record["rank"].values)
    axes.set_title("Theorem 2(a) at finite length", loc="left", fontsize=10)
    axes.legend(loc="upper right", fontsize=8)
