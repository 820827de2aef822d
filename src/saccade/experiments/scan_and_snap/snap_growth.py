r"""How far the most frequent distinct token has come, how fast, and when it slows: measured, and
predicted.

In the theory's flow its logit moves as $\dot z_l = \eta_Z P(n) f_l^2 \xi_n$ [tian2023, eq. 98], so
its log growth $B_n = \eta_Z P(n) \int \xi_n$ is read off a run as $\int dz_l / f_l^2$, without a
theory of $\xi_n$. In plain descent the same integral still says how far the token has come, in the
same unit. Functions of a task and a run; no claims, no settings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import cumulative_trapezoid, solve_ivp

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import checked_count, checked_number
from saccade.lab.experiment import conditions_of
from saccade.measures import distinct_entropy, fits
from saccade.measures.fits import Array
from saccade.theories import scan_and_snap as theory
from saccade.theories.condition import Condition, at_least

LARGE_VOCABULARY = "ours, large vocabulary"
SCANS_FIRST = "ours, scans before it snaps"
SIDES = {
    "scanning": "log growth per ln t from t0'/3 to t0'",
    "snapping": "log growth per ln ln(M η_Y t / K) from t0 on",
}
GAIN = "distinct tokens gain attention"
LOSE = "common tokens lose attention"
ORDER = "of two distinct tokens the more frequent gains more"
# A token that does not move is against the theorem too: else a flow at rest would confirm it.
ROUNDING = 1e-9  # logits closer than this, about the solver's own error, count as equal


class Leader(NamedTuple):
    """The most frequent distinct token of all, by its feature at the start, and its class."""

    row: int
    token: int
    prob: Array  # of its class, by token
    feature: Array  # the same, normalised
    distinct: NDArray[np.bool_]  # the tokens that only its class has


class SnapTheory(NamedTuple):
    """What theory says of one task at one pair of rates. Where nothing overlaps, every curve is
    missing.
    """

    clock: dict[str, Any]  # n_vocab, n_classes, lr_decoder
    lr_attention: float
    normaliser: float  # ρ_0: the leader's class overlaps others by 1 / ρ_0²
    concentration: float  # sum of f⁴ over the leader's distinct tokens
    scan_time: float  # t0'
    snap_time: float  # t0, missing for M < 4, where its ω_1 is not defined

    @classmethod
    def of_task(cls, task: SequenceClasses, lr_decoder: float, lr_attention: float) -> SnapTheory:
        found = leader_of(task)
        rho_0 = np.nan
        if found and (overlap := overlap_of(task, found)) > 0:
            rho_0 = overlap**-0.5
        own = found.feature[found.distinct] if found else 0.0
        clock: dict[str, Any] = {
            "n_vocab": task.n_vocab,
            "n_classes": task.n_classes,
            "lr_decoder": lr_decoder,
        }
        snap_time = theory.snap_time(**clock) if task.n_vocab >= 4 else np.nan
        concentration = float(np.sum(own**4))
        return cls(clock, lr_attention, rho_0, concentration, theory.scan_time(**clock), snap_time)

    @property
    def _settings(self) -> dict[str, Any]:
        return self.clock | {
            "lr_attention": self.lr_attention,
            "normaliser": self.normaliser,
            "distinct_concentration": self.concentration,
        }

    def growth(self, t: ArrayLike) -> Array:
        """B with the common token falling through all classes and the coupling's floor of 1/M."""
        return theory.floored_growth_bound(t, **self._settings)

    def printed_growth(self, t: ArrayLike) -> Array:
        """Theorem 4's B. It prints no P(n), but training steps count it, so the rate is η_Z / K."""
        K = self.clock["n_classes"]
        constant = theory.overlap_constant(self.normaliser, n_classes=K)
        rate = self.lr_attention / K
        return theory.growth_bound(
            t,
            **self.clock,
            lr_attention=rate,
            overlap_constant=constant,
        )

    def plain_growth(self, t: Array) -> Array:
        """B under plain descent while the overlap is still what it was at the start; t starts at 0."""
        K = self.clock["n_classes"]
        rho = self.normaliser**-2
        coupling = theory.plain_backprop(t, overlap=rho, **self.clock).other
        pushed = self.lr_attention / K * (K - 1) * rho * coupling
        return cumulative_trapezoid(pushed, t, initial=0.0)

    @property
    def depth(self) -> float:
        """The argument of growth's logarithm at t0', less 1: below 1 attention freezes before it
        has left its linear start.
        """
        scanned = theory.self_consistent_growth_bound(self.scan_time, **self._settings)
        return float(np.expm1(4 * (self.clock["n_classes"] + self.concentration) * scanned))


class Growth(NamedTuple):
    """One flow after t = 0, and what theory says of it."""

    leader: Leader
    theory: SnapTheory
    t: Array
    measured: Array  # log growth B
    predicted: Array  # of the corrected theory
    printed: Array  # of Theorem 4 as printed
    logits: Array  # of the leader's class (time, token), from t = 0 on
    attention: Array  # the same
    conditions: dict[str, Condition]

    @property
    def onset(self) -> float:
        """When growth stops being logarithmic: its local exponent falls to half its peak."""
        slope = self.exponent(self.measured)
        peaks = np.flatnonzero((slope[1:-1] >= slope[:-2]) & (slope[1:-1] > slope[2:])) + 1
        if len(peaks) == 0:
            return np.nan
        peak = peaks[np.argmax(slope[peaks])]
        below = np.flatnonzero(slope[peak:] < slope[peak] / 2)
        if len(below) == 0:
            return np.nan
        around = [peak + below[0], peak + below[0] - 1]
        return float(np.exp(np.interp(slope[peak] / 2, slope[around], np.log(self.t[around]))))

    def exponent(self, growth: Array) -> Array:
        """dB / d ln t: flat while growth is logarithmic, falling once it is slower."""
        return np.gradient(growth, np.log(self.t))

    def inside(self, side: str) -> NDArray[np.bool_]:
        """Samples of one side of the snap."""
        t = self.t
        scan_time = self.theory.scan_time
        if side == "snapping":
            return t >= self.theory.snap_time
        return (t >= scan_time / 3) & (t <= scan_time)

    def clock(self, side: str) -> Array:
        """What growth is proportional to on that side."""
        t = self.t[self.inside(side)]
        at = self.theory.clock
        if side == "scanning":
            return np.log(t)
        return np.log(np.log(at["n_vocab"] * at["lr_decoder"] * t / at["n_classes"]))

    def slope(self, side: str, growth: Array) -> float:
        """Of growth over that clock; NaN where fewer than three samples lie there."""
        at = self.inside(side)
        x = self.clock(side)
        return fits.slope(x, growth[at]) if len(x) >= 3 else np.nan

    @property
    def entropy(self) -> Array:
        """Of attention among the distinct tokens, rescaled to one (nats)."""
        return distinct_entropy(self.attention, self.leader.distinct)


def growth_of(run: xr.Dataset, task: SequenceClasses) -> Growth:
    """Read from a run, which must hold `attention_logits`."""
    found = leader_of(task)
    t = run.time.values
    assert found is not None, "the task has no distinct token"
    z = class_logits(run, task, found.row)
    attention = theory.limit_attention(found.prob, z)
    feature = theory.normalised_feature(attention)[:, found.token]
    told = SnapTheory.of_task(task, float(run.lr_decoder), float(run.lr_attention))
    why = "Theorem 1 drops terms of 1/M"
    quantity = "argument of growth's logarithm at t0', less 1"
    ours = (
        at_least(LARGE_VOCABULARY, task.n_vocab, 100, "M", why),
        at_least(SCANS_FIRST, told.depth, 10, quantity),
    )
    measured = cumulative_trapezoid(feature**-2.0, z[:, found.token], initial=0.0)
    return Growth(
        leader=found,
        theory=told,
        t=t[1:],
        measured=measured[1:],
        predicted=told.growth(t)[1:],
        printed=told.printed_growth(t)[1:],
        logits=z,
        attention=attention,
        conditions=conditions_of(run) | {one.name: one for one in ours},
    )


def leader_of(task: SequenceClasses) -> Leader | None:
    """None where every token occurs in several classes."""
    prob = task.token_prob
    distinct = theory.distinct_tokens(task.token_prob)
    feature = theory.normalised_feature(prob)
    if not distinct.any():
        return None
    row, token = np.unravel_index(np.argmax(np.where(distinct, feature, 0.0)), feature.shape)
    return Leader(int(row), int(token), prob[row], feature[row], distinct[row])


def overlap_of(task: SequenceClasses, found: Leader) -> float:
    """Mean overlap of the leader's class with the others, Theorem 4's 1 / ρ_0²."""
    overlaps = theory.class_overlap(theory.normalised_feature(task.token_prob))[found.row]
    return float(overlaps.sum() / max(1, task.n_classes - 1))


def class_logits(run: xr.Dataset, task: SequenceClasses, row: int) -> Array:
    """Attention logits (time, token) of the query that ends sequences of a class."""
    place = int(np.searchsorted(np.unique(task.query), task.query[row]))
    return run.attention_logits.isel(query=place).transpose("time", "token").values


def against_theorem_2(run: xr.Dataset, task: SequenceClasses) -> dict[str, list[list[int]]]:
    """Tokens [class, token] at the end of a flow that contradict it, by rule."""
    prob = task.token_prob
    distinct = task.distinct
    z = np.stack([class_logits(run, task, row)[-1] for row in range(task.n_classes)])
    rising = (prob > 0) & task.common & ~(z < -ROUNDING)
    overtaken = []
    for row in range(task.n_classes):
        own = np.flatnonzero(distinct[row])
        p = prob[row, own]
        grown = z[row, own]
        _, rarer = np.nonzero((p[:, None] > p) & ~(grown[:, None] > grown + ROUNDING))
        overtaken += [[row, token] for token in own[rarer].tolist()]
    return {
        GAIN: np.argwhere(distinct & ~(z > ROUNDING)).tolist(),
        LOSE: np.argwhere(rising).tolist(),
        ORDER: overtaken,
    }


def attention_at(log_growth: Array, found: Leader, n_classes: int) -> Array:
    r"""Attention (B, token) once log growth is B: $dz_l/dB = f_l^2$, $dz_c/dB = -K(1-f_c^2)$.

    By Theorem 2, for a distinct token l and the common token c.
    Holds for: one common token, one query, classes alike.
    """

    def velocity(_: float, z: Array) -> Array:
        f_squared = theory.normalised_feature(theory.limit_attention(found.prob, z)) ** 2
        falls = np.where(found.prob > 0, -n_classes * (1 - f_squared), 0.0)
        return np.where(found.distinct, f_squared, falls)

    order = np.argsort(log_growth)
    grown = np.maximum(np.sort(log_growth), 0.0)
    start = np.zeros(len(found.prob))
    path = solve_ivp(
        velocity,
        (0, grown[-1]),
        start,
        t_eval=grown,
        rtol=1e-10,
        atol=1e-12,
    ).y
    return theory.limit_attention(found.prob, path.T)[np.argsort(order)]


def one_common_token(
    *, n_classes: int, common_feature: float, n_distinct: int, n_vocab: int
) -> SequenceClasses:
    """Theorem 4's setting: one query, one common token, and distinct ones that rise linearly from
    0.1 to 1 before they are normalised.

    `common_feature` is f(0) of the common token, so any two classes overlap by its square.
    """
    K = checked_count("n_classes", n_classes, low=2)
    D = checked_count("n_distinct", n_distinct)
    f_c = checked_number(
        "common_feature",
        common_feature,
        low=0.0,
        high=1.0,
        open_low=True,
    )
    distinct = np.linspace(0.1, 1.0, D) if D > 1 else np.ones(1)
    distinct *= np.sqrt(1 - f_c**2) / np.linalg.norm(distinct)
    prob = np.concatenate([np.full((K, 1), f_c), np.kron(np.eye(K), distinct)], axis=1)
    return SequenceClasses(
        prob,
        n_vocab=n_vocab,
        normalise=True,
        name=f"one-common-{K}",
    )
