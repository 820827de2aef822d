"""Leads: how far the most frequent distinct token of a class is ahead of the others, measured and as Theorem 3 has it.

Reads the three kinds of run in a record of `relative-gain`. Not here: what is claimed about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr


class Leads(NamedTuple):
    """Distinct tokens of one class, rarest first (last axis); the last is the leader, the others its followers."""

    prob: NDArray[np.float64]
    logits: NDArray[np.float64]
    initial: NDArray[np.float64]  # lead over each follower at the start
    lead: NDArray[np.float64]
    forecast: NDArray[np.float64]  # the lead that Theorem 3 makes of the leader's growth


def leads(logits: NDArray[np.float64], prob: NDArray[np.float64], n: int) -> Leads:
    """Leads of class n from logits (..., class, token), zero at the start."""
    own = np.flatnonzero(theory.distinct_tokens(prob)[n])
    own = own[np.argsort(prob[n, own])]
    p, z = prob[n, own], logits[..., n, :][..., own]
    weight = p * np.exp(z)
    initial = theory.relative_gain(p[-1], p[:-1])
    lead = theory.relative_gain(weight[..., -1:], weight[..., :-1])
    return Leads(p, z, initial, lead, theory.relative_gain_forecast(initial, z[..., -1:]))


def flow_leads(record: xr.Dataset) -> list[Leads]:
    z, prob = record.flow_logits.transpose("time", "class", "token").values, record.flow_prob.values
    return [leads(z, prob, n) for n in range(len(prob))]


def descent_leads(record: xr.Dataset, ratio: float) -> list[Leads]:
    z = record.descent_logits.sel(ratio=ratio).transpose("step", "class_of_two", "token_of_two").values
    return [leads(z, record.two_prob.values, n) for n in range(len(record.two_prob))]


def sgd_leads(record: xr.Dataset) -> list[Leads]:
    z = record.sgd_logits.transpose("seed", "class_of_two", "token_of_two").values
    return [leads(z, record.two_prob.values, n) for n in range(len(record.two_prob))]


def rank_correlation(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's correlation along the last axis with the order of that axis itself: 1 = rising throughout, -1 = falling."""
    from scipy.stats import rankdata

    n = logits.shape[-1]
    ranks = rankdata(logits, axis=-1) - (n + 1) / 2
    order = np.arange(n) - (n - 1) / 2
    return (ranks * order).sum(axis=-1) / np.sqrt((ranks**2).sum(axis=-1) * (order**2).sum())


def sgd_order(record: xr.Dataset) -> NDArray[np.float64]:
    """Rank correlation of each seed, the lesser of its two classes."""
    return np.min([rank_correlation(c.logits) for c in sgd_leads(record)], axis=0)
