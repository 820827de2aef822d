r"""How far the most frequent distinct token has come, how fast, and how sparse attention is then:
measured, and predicted.

In the theory's flow the logit of a distinct token l of class n moves as $\dot z_l = \eta_Z P(n)
f_l^2 \xi_n$ [tian2023, eq. 98], so its log growth $B_n = \eta_Z P(n) \int \xi_n$ is read off the
record as $\int dz_l / f_l^2$, with no theory of $\xi_n$. The plain flow does not obey this
equation; there the same integral is still how far the token has come, in the same unit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import cumulative_trapezoid, solve_ivp

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import checked_count, checked_number
from saccade.observe.measures import distinct_entropy
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import at_least

ROUNDING = 1e-9  # logits closer than this, about the solver's own error, count as equal
VOCABULARY, SCANS_FIRST = (
    "ours, large vocabulary",
    "ours, scans before it snaps",
)  # names of two conditions of our own
LEAST_VOCABULARY = 100  # Theorem 1 has M >> 100; at 100 the terms it drops are 1 %
DEPTH = 10.0  # how far above 1 the argument of growth's logarithm must be by t0' for growth to have been logarithmic at all


# What each fate is called, and what of it is an exception.
FATES = {
    "falling_distinct": "distinct tokens whose logit is negative at the end",
    "rising_common": "common tokens whose logit is positive at the end",
    "out_of_order": "pairs of distinct tokens of a class of which the rarer has the larger logit at the end",
}


class Leader(NamedTuple):
    """The most frequent distinct token of all, by its feature at the start, and the class it
    belongs to.
    """

    n: int
    token: int
    features: NDArray[np.float64]  # of all classes at the start (class, token)
    every_distinct: NDArray[np.bool_]  # where a token belongs to one class alone (class, token)
    rarest_first: NDArray[np.int64]  # the distinct tokens of the leader's class

    @property
    def distinct(self) -> NDArray[np.bool_]:
        """Tokens that only the leader's class has."""
        return self.every_distinct[self.n]


class Growth(NamedTuple):
    """What is looked at along a flow (axis: time); the class is the leader's."""

    log_growth: NDArray[np.float64]  # B_n
    top_logit: NDArray[np.float64]  # z of the leader
    common_logit: NDArray[
        np.float64
    ]  # z of the class's most frequent common token, NaN without one
    common_share: NDArray[np.float64]  # f^2 summed over common tokens
    distinct_entropy: NDArray[np.float64]  # nats
    top_attention: NDArray[np.float64]  # on the leader
    common_attention: NDArray[np.float64]  # on all common tokens
    attention: NDArray[
        np.float64
    ]  # (time, bar): on all common tokens, then on each distinct one, the rarest first


class Fates(NamedTuple):
    """What became of the tokens by the end of a flow: exceptions to Theorem 2, and the worst error
    of Theorem 3.
    """

    falling_distinct: list[tuple[int, int]]  # (class, token): distinct tokens whose logit fell
    rising_common: list[
        tuple[int, int]
    ]  # (class, token): common tokens whose logit rose, once for each query that meets them
    out_of_order: list[
        tuple[int, int]
    ]  # (class, token): distinct tokens, once for each more frequent one that grew less
    gain_error: float  # largest |r(t) / (r(0) chi) - 1|, -inf if no class has two distinct tokens of different frequency


@dataclass(frozen=True)
class SnapTheory:
    """What theory says of one task at one pair of rates. Where nothing overlaps, every curve is
    missing.

    `scan_time` is t0', `snap_time` t0: missing for M < 4, where its omega_1 is not defined.
    """

    n_classes: int
    n_vocab: int
    lr_decoder: float
    lr_attention: float
    normaliser: float
    concentration: float
    leader: Leader | None = field(
        default=None, compare=False, repr=False
    )  # None: made from a record, or no class has one
    scan_time: float = field(init=False)
    snap_time: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scan_time", theory.scan_time(**self.clock))
        object.__setattr__(
            self, "snap_time", theory.snap_time(**self.clock) if self.n_vocab >= 4 else float("nan")
        )

    @classmethod
    def of_task(cls, task: SequenceClasses, lr_decoder: float, lr_attention: float) -> SnapTheory:
        """The normaliser is Theorem 4's: the leader's class overlaps others by 1 / rho_0^2."""
        prob, found = task.token_prob, leader(task.token_prob)
        overlap = (
            theory.class_overlap(found.features)[found.n].sum() / max(1, len(prob) - 1)
            if found
            else 0.0
        )
        rho_0 = float(overlap**-0.5) if overlap > 0 else np.nan
        s = float(np.sum(found.features[found.n, found.distinct] ** 4)) if found else 0.0
        return cls(len(prob), task.n_vocab, lr_decoder, lr_attention, rho_0, s, found)

    @classmethod
    def of_record(cls, record: xr.Dataset, **rates: Any) -> SnapTheory:
        """From a record that keeps the numbers as scalars; rates that are given replace those it
        has.
        """
        return cls(
            **{
                each.name: rates.get(each.name) or record[each.name].item()
                for each in fields(cls)
                if each.init and each.compare
            }
        )

    @property
    def clock(self) -> dict[str, Any]:
        return {"n_vocab": self.n_vocab, "n_classes": self.n_classes, "lr_decoder": self.lr_decoder}

    @property
    def _settings(self) -> dict[str, Any]:
        rest = {
            "lr_attention": self.lr_attention,
            "normaliser": self.normaliser,
            "distinct_concentration": self.concentration,
        }
        return self.clock | rest

    def growth(self, t: ArrayLike) -> NDArray[np.float64]:
        """B with the common token falling through all classes and the coupling's floor of 1/M."""
        return theory.floored_growth_bound(t, **self._settings)

    def growth_with_factor_only(self, t: ArrayLike) -> NDArray[np.float64]:
        """B with the common token falling through all classes and nothing else mended."""
        return self._without_floor(t, 0.0)

    def printed_growth(self, t: ArrayLike) -> NDArray[np.float64]:
        """Theorem 4's B. Its rate is eta_Z / K, as training steps count it, so that only its own
        factor K is in question.
        """
        constant = theory.overlap_constant(self.normaliser, n_classes=self.n_classes)
        return theory.growth_bound(
            t,
            **self.clock,
            lr_attention=self.lr_attention / self.n_classes,
            overlap_constant=constant,
        )

    def plain_growth(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """B under plain descent while the overlap is still what it was at the start; t starts at 0."""
        K, rho = self.n_classes, self.normaliser**-2
        coupling = theory.plain_backprop(t, overlap=rho, **self.clock).other
        return cumulative_trapezoid(
            self.lr_attention / K * (K - 1) * rho * coupling, t, initial=0.0
        )

    def depth_at(self, t: float) -> float:
        """The argument of growth's logarithm, less 1: well above 1 growth is logarithmic, below it
        is still linear in Gamma.
        """
        kappa = self.n_classes + self.concentration
        return float(np.expm1(4 * kappa * self._without_floor(t, self.concentration)))

    def _without_floor(self, t: ArrayLike, concentration: float) -> NDArray[np.float64]:
        return theory.self_consistent_growth_bound(
            t, **(self._settings | {"distinct_concentration": concentration})
        )

    @property
    def depth(self) -> float:
        """The same at t0': attention that has not left its linear start by then freezes before it
        has moved.
        """
        return self.depth_at(self.scan_time)

    def entropy_lost(self, t: float, token_prob: NDArray[np.float64]) -> float:
        """Among the distinct tokens of the leader's class (nats); `token_prob` (class, token)."""
        start, end = entropy_at(np.array([0.0, float(self.growth(t))]), token_prob)
        return float(start - end)


def one_common_token(
    *, n_classes: int, common_feature: float, n_distinct: int, n_vocab: int
) -> SequenceClasses:
    """Theorem 4's setting: one query, one token common to all classes, and distinct ones that rise
    linearly from 0.1 to 1.

    `common_feature` is f_nl(0) of the common token, so that any two classes overlap by its square.
    """
    K, D = checked_count("n_classes", n_classes, low=2), checked_count("n_distinct", n_distinct)
    f_c = checked_number("common_feature", common_feature, low=0.0, high=1.0, open_low=True)
    distinct = np.linspace(0.1, 1.0, D) if D > 1 else np.ones(1)
    distinct *= np.sqrt(1 - f_c**2) / np.linalg.norm(distinct)
    prob = np.concatenate([np.full((K, 1), f_c), np.kron(np.eye(K), distinct)], axis=1)
    return SequenceClasses(prob, n_vocab=n_vocab, normalise=True, name=f"one-common-{K}")


def leader(token_prob: NDArray[np.float64]) -> Leader | None:
    """None where no class has a distinct token."""
    distinct, feature = theory.distinct_tokens(token_prob), theory.normalised_feature(token_prob)
    if not distinct.any():
        return None
    n, token = np.unravel_index(np.argmax(np.where(distinct, feature, 0.0)), feature.shape)
    own = np.flatnonzero(distinct[n])
    return Leader(
        int(n), int(token), feature, distinct, own[np.argsort(token_prob[n, own], kind="stable")]
    )


def _leader(token_prob: NDArray[np.float64]) -> Leader:
    found = leader(token_prob)
    if found is None:
        raise ValueError("no class has a distinct token")
    return found


def seen(path: xr.Dataset, at: SnapTheory) -> dict[str, Any]:
    """What a case keeps of its flow, with theory beside it."""
    t = path.time.values
    own = (
        at_least(
            VOCABULARY,
            at.n_vocab,
            LEAST_VOCABULARY,
            "M",
            "context tokens, queries and next tokens; Theorem 1 drops terms of 1/M",
        ),
        at_least(SCANS_FIRST, at.depth, DEPTH, "argument of growth's logarithm at t0', less 1"),
    )
    return growth(path)._asdict() | {
        "steps": t,
        "theory_growth": at.growth(t),
        "printed_growth": at.printed_growth(t),
        "factor_growth": at.growth_with_factor_only(t),
        "theory_attention": _predicted_bars(at.growth(t), path.token_prob.values),
        "entropy_lost_theory": at.entropy_lost(float(t[-1]), path.token_prob.values),
        **_ended(path),
        "stop_reason": str(path.stop_reason.values),
        "conditions": f'{{"assumed": {path.attrs["assumptions"]}, "own": {json.dumps([*map(asdict, own)])}}}',
    }


def _ended(path: xr.Dataset) -> dict[str, Any]:
    """How many tokens, or pairs of them, came to each of `FATES`, and which."""
    ends = fates(path)._asdict()
    names = path.token.values if "token" in path.coords else np.arange(path.sizes["token"])
    classes = names[path.class_next.values]
    return {
        "gain_error": ends["gain_error"],
        **{name: float(len(ends[name])) for name in FATES},
        **{
            f"{name}_named": _named(
                [f"{names[token]} in class {classes[n]}" for n, token in ends[name]]
            )
            for name in FATES
        },
    }


def _named(said: list[str]) -> str:
    """`of in class A, the in class B`."""
    return ", ".join(said[:5]) + (f" and {len(said) - 5} more" if len(said) > 5 else "")


def growth(record: xr.Dataset) -> Growth:
    """Measured along one flow; the record must hold `attention_logits` and a distinct token."""
    prob = record.token_prob.values
    found = _leader(prob)
    own, z = prob[found.n], _class_logits(record, found.n)
    attention, feature = _attended(own, z)
    common = (own > 0) & ~found.distinct
    return Growth(
        log_growth=cumulative_trapezoid(
            feature[:, found.token] ** -2.0, z[:, found.token], initial=0.0
        ),
        top_logit=z[:, found.token],
        common_logit=z[:, np.argmax(np.where(common, own, 0.0))]
        if common.any()
        else np.full(len(z), np.nan),
        common_share=np.sum(feature[:, common] ** 2, axis=1),
        distinct_entropy=_entropy(attention, found),
        top_attention=attention[:, found.token],
        common_attention=attention[:, common].sum(axis=1),
        attention=_bars(attention, found, own),
    )


def _bars(
    attention: NDArray[np.float64], found: Leader, own: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Attention (time, token) of the leader's class as bars."""
    common = attention[:, (own > 0) & ~found.distinct].sum(axis=1, keepdims=True)
    return np.hstack([common, attention[:, found.rarest_first]])


def fates(record: xr.Dataset) -> Fates:
    """Measured at the end of one flow that started at Z = 0."""
    prob = record.token_prob.values
    distinct = _leader(prob).every_distinct
    z = np.stack([_class_logits(record, n)[-1] for n in range(len(prob))])
    _, first = np.unique(record.class_query.values, return_index=True)
    met = np.array(
        [
            (prob[record.class_query.values == record.class_query.values[n]] > 0).any(axis=0)
            for n in first
        ]
    )
    return Fates(
        falling_distinct=[
            (n, token) for n, token in np.argwhere(distinct & (z < -ROUNDING)).tolist()
        ],
        rising_common=[
            (int(first[m]), token)
            for m, token in np.argwhere(
                (z[first] > ROUNDING) & met & ~distinct.any(axis=0)
            ).tolist()
        ],
        out_of_order=[
            (n, token)
            for n in range(len(prob))
            for token in _overtaking(np.flatnonzero(distinct[n]), prob[n], z[n])
        ],
        gain_error=max(
            _gain_error(prob[n, distinct[n]], z[n, distinct[n]]) for n in range(len(prob))
        ),
    )


def exponent(log_growth: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Local exponent dB / d ln t (last axis: time, all positive): flat while growth is logarithmic,
    falling once it is slower.
    """
    return np.gradient(log_growth, np.log(t), axis=-1)


def onset(log_growth: NDArray[np.float64], t: NDArray[np.float64]) -> float:
    """When growth stops being logarithmic: after its peak the local exponent first falls below half
    of it. NaN if it never does.
    """
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


def entropy_at(
    log_growth: NDArray[np.float64], token_prob: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Entropy among the distinct tokens of the leader's class in `attention_at`."""
    return _entropy(attention_at(log_growth, token_prob), _leader(token_prob))


def _entropy(attention: NDArray[np.float64], found: Leader) -> NDArray[np.float64]:
    return distinct_entropy(attention, found.distinct)


def _predicted_bars(
    log_growth: NDArray[np.float64], token_prob: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The bars of `attention_at`; missing where theory is silent, or several tokens are common."""
    found = _leader(token_prob)
    told = np.full((len(log_growth), 1 + int(found.distinct.sum())), np.nan)
    if (
        np.isfinite(log_growth).all()
        and np.count_nonzero((token_prob[found.n] > 0) & ~found.distinct) == 1
    ):
        told[:] = _bars(attention_at(log_growth, token_prob), found, token_prob[found.n])
    return told


def attention_at(
    log_growth: NDArray[np.float64], token_prob: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""Attention (B, token) of the leader's class once its log growth is B, by Theorem 2 alone:
    $dz_l/dB = f_l^2$, $dz_c/dB = -K(1-f_c^2)$.

    Domain: a distinct token, one common token, one query, classes alike. `token_prob` (class,
    token).
    """
    found, K = _leader(token_prob), len(token_prob)
    prob, distinct = token_prob[found.n], found.distinct

    def velocity(_: float, z: NDArray[np.float64]) -> NDArray[np.float64]:
        f_squared = _attended(prob, z)[1] ** 2
        return np.where(distinct, f_squared, np.where(prob > 0, -K * (1 - f_squared), 0.0))

    order, grown = (
        np.argsort(log_growth),
        np.maximum(np.sort(log_growth), 0.0),
    )  # the first is 0 up to rounding
    path = solve_ivp(
        velocity, (0, grown[-1]), np.zeros(len(prob)), t_eval=grown, rtol=1e-10, atol=1e-12
    ).y
    return _attended(prob, path.T)[0][np.argsort(order)]


def _attended(
    prob: NDArray[np.float64], z: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Attention of a class and its feature."""
    attention = theory.limit_attention(prob, z)
    return attention, theory.normalised_feature(attention)


def _class_logits(record: xr.Dataset, n: int) -> NDArray[np.float64]:
    place = np.flatnonzero(
        np.unique(record.class_query) == record.class_query.values[n]
    ).item()  # queries stand in order
    return record.attention_logits.isel(query=place).transpose("time", "token").values


def _overtaking(
    tokens: NDArray[np.int64], prob: NDArray[np.float64], z: NDArray[np.float64]
) -> list[int]:
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
