r"""What a flow says about growth: how far the most frequent distinct token has come, how fast, and how sparse attention is then.

In the theory's flow the logit of a distinct token l of class n moves as $\dot z_l = \eta_Z P(n) f_l^2 \xi_n$ [tian2023, eq. 98],
so its log growth $B_n = \eta_Z P(n) \int \xi_n$ is read off the record as $\int dz_l / f_l^2$, with no theory of $\xi_n$. The
plain flow obeys no such law; there the same integral is still how far the token has come, in the same unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid

import saccade
from saccade.errors import checked_count, checked_number
from saccade.theory import scan_and_snap as theory

ROUNDING = 1e-9  # logits closer than this, about the solver's own error, count as equal


class Leader(NamedTuple):
    """The most frequent distinct token of all, by its feature at the start, and the class it belongs to."""

    n: int
    token: int


class Growth(NamedTuple):
    """What is looked at along a flow (axis: time); the class is the leader's."""

    log_growth: NDArray[np.float64]  # B_n
    top_logit: NDArray[np.float64]  # z of the leader
    common_logit: NDArray[np.float64]  # z of the class's most frequent common token, NaN without one
    common_share: NDArray[np.float64]  # f^2 summed over common tokens
    distinct_entropy: NDArray[np.float64]  # nats


class Fates(NamedTuple):
    """What became of the tokens by the end of a flow: exceptions to Theorem 2, and the worst error of Theorem 3."""

    falling_distinct: list[tuple[int, int]]  # (class, token): distinct tokens whose logit fell
    rising_common: list[tuple[int, int]]  # (class, token): common tokens whose logit rose, once for each query that meets them
    out_of_order: list[tuple[int, int]]  # (class, token): distinct tokens, once for each more frequent one that grew less
    gain_error: float  # largest |r(t) / (r(0) chi) - 1|, -inf if no class has two distinct tokens of different frequency


def one_common_token(*, n_classes: int, common_feature: float, n_distinct: int, n_vocab: int) -> saccade.SequenceClasses:
    """Theorem 4's setting: one query, one token common to all classes, and distinct ones that rise linearly from 0.1 to 1.

    `common_feature` is f_nl(0) of the common token, so that any two classes overlap by its square.
    """
    K, D = checked_count("n_classes", n_classes, low=2), checked_count("n_distinct", n_distinct)
    f_c = checked_number("common_feature", common_feature, low=0.0, high=1.0, open_low=True)
    distinct = np.linspace(0.1, 1.0, D) if D > 1 else np.ones(1)
    distinct *= np.sqrt(1 - f_c**2) / np.linalg.norm(distinct)
    prob = np.concatenate([np.full((K, 1), f_c), np.kron(np.eye(K), distinct)], axis=1)
    return saccade.SequenceClasses(prob, n_vocab=n_vocab, normalise=True, name=f"one-common-{K}")


def leader(token_prob: NDArray[np.float64]) -> Leader | None:
    distinct = theory.distinct_tokens(token_prob)
    if not distinct.any():
        return None
    strength = np.where(distinct, theory.normalised_feature(token_prob), 0.0)
    return Leader(*(int(index) for index in np.unravel_index(np.argmax(strength), strength.shape)))


def growth(record: xr.Dataset) -> Growth:
    """Measured along one flow; the record must hold `attention_logits` and a distinct token."""
    prob = record.token_prob.values
    found = leader(prob)
    if found is None:
        raise ValueError("no class has a distinct token")
    n, token = found
    z = _class_logits(record, n)
    attention = theory.limit_attention(prob[n], z)
    feature = theory.normalised_feature(attention)
    common = theory.common_tokens(prob) & (prob[n] > 0)
    return Growth(
        log_growth=cumulative_trapezoid(feature[:, token] ** -2.0, z[:, token], initial=0.0),
        top_logit=z[:, token],
        common_logit=z[:, np.argmax(np.where(common, prob[n], 0.0))] if common.any() else np.full(len(z), np.nan),
        common_share=np.sum(feature[:, common] ** 2, axis=1),
        distinct_entropy=saccade.measures.distinct_entropy(attention, theory.distinct_tokens(prob)[n]),
    )


def fates(record: xr.Dataset) -> Fates:
    """Measured at the end of one flow that started at Z = 0."""
    prob = record.token_prob.values
    distinct, common = theory.distinct_tokens(prob), theory.common_tokens(prob)
    z = np.stack([_class_logits(record, n)[-1] for n in range(len(prob))])
    _, first = np.unique(record.class_query.values, return_index=True)
    met = np.array([(prob[record.class_query.values == record.class_query.values[n]] > 0).any(axis=0) for n in first])
    return Fates(
        falling_distinct=[(n, token) for n, token in np.argwhere(distinct & (z < -ROUNDING)).tolist()],
        rising_common=[(int(first[m]), token) for m, token in np.argwhere((z[first] > ROUNDING) & met & common).tolist()],
        out_of_order=[(n, token) for n in range(len(prob)) for token in _overtaking(np.flatnonzero(distinct[n]), prob[n], z[n])],
        gain_error=max(_gain_error(prob[n, distinct[n]], z[n, distinct[n]]) for n in range(len(prob))),
    )


def exponent(log_growth: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Local exponent dB / d ln t (last axis: time, all positive): flat while growth is logarithmic, falling once it is slower."""
    return np.gradient(log_growth, np.log(t), axis=-1)


def onset(log_growth: NDArray[np.float64], t: NDArray[np.float64]) -> float:
    """When growth stops being logarithmic: after its peak the local exponent first falls below half of it. NaN if it never does."""
    slope = exponent(log_growth, t)
    peaks = np.flatnonzero((slope[1:-1] >= slope[:-2]) & (slope[1:-1] > slope[2:])) + 1
    if len(peaks) == 0:
        return float("nan")
    peak = peaks[np.argmax(slope[peaks])]
    below = np.flatnonzero(slope[peak:] < slope[peak] / 2)
    if len(below) == 0:
        return float("nan")
    after = peak + below[0]
    around = [after, after - 1]
    return float(np.exp(np.interp(slope[peak] / 2, slope[around], np.log(t[around]))))


def _class_logits(record: xr.Dataset, n: int) -> NDArray[np.float64]:
    place = np.flatnonzero(np.unique(record.class_query) == record.class_query.values[n]).item()  # queries stand in order
    return record.attention_logits.isel(query=place).transpose("time", "token").values


def _overtaking(tokens: NDArray[np.int64], prob: NDArray[np.float64], z: NDArray[np.float64]) -> list[int]:
    """Tokens that grew more than a more frequent one, once for each such pair."""
    p, own = prob[tokens], z[tokens]
    return tokens[np.nonzero((p[:, None] > p) & (own[:, None] < own - ROUNDING))[1]].tolist()


def _gain_error(prob: NDArray[np.float64], z: NDArray[np.float64]) -> float:
    """Of the most frequent distinct token over the others; ties have no gain to compare."""
    if len(prob) < 2 or np.ptp(prob) == 0:
        return -np.inf
    top = np.argmax(prob)
    others = prob < prob[top]
    start = theory.relative_gain(prob[top], prob[others])
    end = theory.relative_gain(prob[top] * np.exp(z[top]), prob[others] * np.exp(z[others]))
    return float(np.max(np.abs(end / theory.relative_gain_forecast(start, z[top]) - 1)))
