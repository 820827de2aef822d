"""Which assumptions of the theory a chain and a training run meet, with the numbers.

The theory is about an infinite context, an infinitesimal start and a lazy chain whose tokens all
differ in frequency. Each is turned into a number and a threshold, both reported, so that a reader
can disagree with the threshold and keep the number. Not here: whether the stages appear anyway,
which they often do, and which is for experiments to measure.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..condition import Condition, above, at_least, at_most, below
from .condensation import condensation_rate
from .laws import chances, shares
from .unigram import focus_rate

__all__ = ["LazyFit", "check_assumptions", "lazy_fit"]

SHOWN = (
    1.0  # expected count of the rarest token: below it most contexts do not show the token at all
)
SMALL_START = 1e-3  # at 1e-2 and above stages I and II begin to merge, in the flow on a Zipf law of six tokens
TIE = 1e-9  # probabilities read from a file count as equal


class LazyFit(NamedTuple):
    """The lazy chain nearest to a table: its chance of staying, and by how much it misses the
    table's worst entry.
    """

    stay: float
    misfit: float


def lazy_fit(*, stationary: ArrayLike, transition: ArrayLike) -> LazyFit:
    r"""Least-squares $\lambda$ in $P = \lambda I + (1-\lambda)1\pi^\top$, the form of the chains in
    [chen2026, data].
    """
    pi, P = shares(stationary), chances(transition, np.size(stationary))
    shape = np.eye(len(pi)) - pi
    stay = np.sum((P - pi) * shape) / np.sum(shape**2)
    return LazyFit(float(stay), float(np.abs(P - pi - stay * shape).max()))


def check_assumptions(
    stationary: ArrayLike,
    transition: ArrayLike,
    *,
    n_context: float,
    init_scale: float,
    d_model: int | None = None,
    phi_scale: float = 1.0,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
) -> list[Condition]:
    r"""Every condition, in the order of the stages that need it: "data" for all of them, I to IV
    for one.

    Without `d_model` the room for new directions is not asked. [chen2026, data and Theorems 3.2 to
    3.9].

    | ours         | theirs                 | axes         |
    |--------------|------------------------|--------------|
    | d_model      | d_m                    |              |
    """
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    slow = condensation_rate(stationary=pi, lr_decoder=lr_decoder)
    c = focus_rate(stationary=pi, transition=P, phi_scale=phi_scale, lr_attention=lr_attention)
    return [
        *_data(pi, P, n_context=n_context),
        *_first_stages(mu_0=slow, c=c, init_scale=init_scale),
        *_new_directions(pi, d_model=d_model),
    ]


def _data(pi: NDArray[np.float64], P: NDArray[np.float64], *, n_context: float) -> list[Condition]:
    stay, misfit = lazy_fit(stationary=pi, transition=P)
    return [
        at_least(
            "data, long contexts", n_context * pi.min(), SHOWN, "expected count of the rarest token"
        ),
        at_most(
            "data, stationary law",
            np.abs(pi @ P - pi).max(),
            TIE,
            "largest |π P - π|",
            "the drift conserves mass only then",
        ),
        at_most(
            "data, lazy chain",
            misfit,
            TIE,
            f"largest entry off the lazy chain with stay {stay:.4g}",
        ),
    ]


def _first_stages(*, mu_0: float, c: float, init_scale: float) -> list[Condition]:
    conditions = [
        above(
            "stage I, unequal tokens",
            mu_0,
            TIE,
            "condensation rate",
            "equally frequent tokens have nothing to condense to",
        ),
        at_most(
            "stage I, small start",
            init_scale,
            SMALL_START,
            "initial scale",
            "the linear stages hold as it tends to 0",
        ),
    ]
    if mu_0 > TIE:
        conditions.append(
            below(
                "stage I, attention at rest", abs(c) / mu_0, 1.0, "|focus rate| / condensation rate"
            )
        )
    conditions.append(
        above(
            "stage II, positive focus rate",
            c,
            0.0,
            "c",
            "negative: attention first turns away from frequent tokens",
        )
    )
    return conditions


def _new_directions(pi: NDArray[np.float64], *, d_model: int | None) -> list[Condition]:
    gap = float(np.diff(np.sort(pi)).min())
    conditions = [
        above(
            "stage IV, distinct frequencies",
            gap,
            TIE,
            "smallest gap of two frequencies",
            "equal tokens stall the flow",
        )
    ]
    if d_model is not None:
        conditions.append(
            at_least(
                "stage IV, room for directions",
                d_model,
                len(pi) - 1,
                "d_model",
                "up to d - 1 directions open",
            )
        )
    return conditions
