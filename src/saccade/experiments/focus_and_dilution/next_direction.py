"""The flow leaves a critical point along the first singular pair of a matrix B, at the rate of its
first singular value.

Follows the flow on two chains from a tiny random start and compares each direction of the
embedding, as it opens, with B. Then finds the critical point near the second plateau. Expect:
growth s₁(B) to 1 % and patterns to a cosine of 0.999 wherever the state hardly moves (it does move
when the fourth and fifth direction of the Zipf chain open).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.linearise import speed
from saccade.dynamics.next_direction import opening_matrix
from saccade.errors import InputError, checked_count, checked_number
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.experiments.focus_and_dilution.embedded_gradients import setting
from saccade.experiments.focus_and_dilution.named_laws import lazy_chains
from saccade.lab.claim import CALCULUS, HOLDS, OUTSIDE, Case, Claim
from saccade.lab.panel import DASHES, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, padded, stretch
from saccade.model.embedded import Weights, velocity, weights_of
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import at_most, met
from saccade.theory.focus_and_dilution.statements import (
    ATTENTION_RATE,
    NEXT_DIRECTION,
    UNIGRAM_POINT,
)

CLOSE = 0.999  # least cosine of a new direction with the singular vectors of B
# A state that moves turns B, and the direction lags behind by about the angle that B turns in an
# e-fold: so far it may turn.
STILL = float(np.arccos(CLOSE))
KNOWN_TO_MOVE = (
    ("zipf-6", 4),
    ("zipf-6", 5),
)  # where the state is not near a critical point when the direction opens

STEPS = "steps of gradient descent at rate 1"
VARIABLES = {
    "opening_time": Variable(
        "law opening", STEPS, "when the direction reaches the fraction at which it is examined"
    ),
    "opening_rate": Variable(
        "law opening", "1/time", "slope of the logarithm of its singular value then"
    ),
    "opening_predicted_rate": Variable("law opening", "1/time", "s1(B) of the state then"),
    "opening_measured": Variable(
        "law opening component",
        "1",
        "components of embedding, projection, query and key along the direction, joined, of norm one",
    ),
    "opening_predicted": Variable("law opening component", "1", "the same from B"),
    "opening_embedding_cosine": Variable(
        "law opening", "1", "cosine of its pattern in the embedding with u1(B)"
    ),
    "opening_other_cosine": Variable(
        "law opening",
        "1",
        "cosine of its pattern in projection, query and key with -v1(B), signs as those of the embedding",
    ),
    "opening_drift": Variable(
        "law opening",
        "1",
        "|dB/dt| / s1(B)^2: how much B changes during an e-fold; 0 at a critical point",
    ),
    "origin_gap": Variable(
        "law", "1", "largest difference between B at the origin and -pi (pi - 1/d)^T"
    ),
    "residual": Variable("law", "1/time", "norm of the velocity at the unigram point"),
    "n_unstable": Variable("law", "1", "growing modes of the unigram point"),
    "rate_gap": Variable("law", "1", "largest relative difference of their rates to |c|"),
    "attention_share": Variable(
        "law", "1", "least part of a growing mode that lies in query and key"
    ),
    "plateau_residual": Variable(
        "law", "1/time", "norm of the velocity at the critical point found from the second plateau"
    ),
    "plateau_rate_gap": Variable(
        "law", "1", "largest relative difference of its d_model - 1 fastest rates to s1(B)"
    ),
    "singular_values": Variable(
        "law time rank", "1", "singular values of the embedding, largest first"
    ),
}


@dataclass(frozen=True)
class Settings:
    laws: tuple[str, ...] = ("paper", "zipf-6")
    """token frequencies of the chains: paper, zipf-6, '0.6 of 4' (0.6 for the first of four
    tokens), or numbers: 0.5,0.3,0.2
    """
    stays: tuple[float, ...] = (0.3, 0.5)
    """chance of repeating the last token in each, or one for all"""
    init_scale: float = 1e-5
    """size of the random start; from larger ones new directions open before the plateau is reached
    """
    fraction: float = 0.03
    """singular value, over the largest, at which a new direction is examined"""
    t1: float = 5000.0
    """end of the flows, steps"""
    n_times: int = 1500
    """samples of each flow, log-spaced"""
    seed: int = 0
    """seed of the random start"""


class Path(NamedTuple):
    """One flow, time first."""

    time: Array
    weights: Weights
    singular_values: Array  # of the embedding: time, rank
    directions: Array  # of the width: time, rank, width
    chain: saccade.MarkovChain
    system: saccade.Embedded

    def at(self, i: Any) -> Weights:
        return Weights(*(matrix[i] for matrix in self.weights))

    def opening(self, rank: int, fraction: float) -> int | None:
        """The sample at which a direction opens: at a fraction of the largest one; the first one,
        of the unigram point's norm.

        Small enough not to act back on the rest, large enough to stand above the start.
        """
        s = self.singular_values
        whole = s[:, 0] if rank else theory.embedding_norm(stationary=self.chain.stationary)
        return fits.rise_index(s[:, rank] / whole, fraction)


def measure(settings: Settings, on_progress: Progress) -> Measured:
    checked_number("fraction", settings.fraction, low=0.0, high=0.5, open_low=True)
    if 0 in settings.stays:
        raise InputError(
            "`stays` must not be 0: there the next token does not depend on the last, and the unigram point is never left."
        )
    laws = lazy_chains(settings.laws, settings.stays)
    n = len(laws)
    paths = [
        _path(chain, settings, stretch(on_progress, i / n, (i + 1) / n))
        for i, chain in enumerate(laws.values())
    ]
    found = [
        _openings(path, settings.fraction) | _at_points(path, settings.fraction) for path in paths
    ]
    values = {name: padded([of_law[name] for of_law in found]) for name in found[0]}
    n_opening = values["opening_time"].shape[1]
    coords = {"law": list(laws), "opening": 1 + np.arange(n_opening), "time": paths[0].time}
    return Measured(
        values | {"singular_values": padded([path.singular_values for path in paths])}, coords
    )


def _path(chain: saccade.MarkovChain, settings: Settings, on_progress: Progress) -> Path:
    scale = checked_number("init_scale", settings.init_scale, low=1e-8, high=0.1)
    system = saccade.Embedded(
        chain, d_model=max(8, chain.n_vocab), init_scale=scale
    )  # with room for all directions, and one more
    n_times = checked_count("n_times", settings.n_times, low=10)
    run = saccade.flow(
        system, t1=settings.t1, n_times=n_times, seeds=[settings.seed], on_progress=on_progress
    )
    weights = weights_of(run.isel(seed=0))
    _, values, directions = np.linalg.svd(weights.embedding, full_matrices=False)
    return Path(run.time.values, weights, values, directions, chain, system)


def _openings(path: Path, fraction: float) -> dict[str, Any]:
    """All directions that a chain of d tokens can open, d - 1 of them; NaN for those that did not."""
    indices = [path.opening(rank, fraction) for rank in range(path.chain.n_vocab - 1)]
    found = [{} if i is None else _opening(path, rank, i) for rank, i in enumerate(indices)]
    names = [name for name in VARIABLES if name.startswith("opening_")]
    missing = {"opening_measured": [np.nan], "opening_predicted": [np.nan]}
    return {
        name: padded([one.get(name, missing.get(name, np.nan)) for one in found]) for name in names
    }


def _opening(path: Path, rank: int, i: int) -> dict[str, Any]:
    direction, near, weights = path.directions[i, rank], slice(i - 1, i + 2), path.at(i)
    following = theory.next_direction(
        *weights, stationary=path.chain.stationary, transition=path.chain.transition
    )
    x, w = (
        weights.embedding @ direction,
        direction @ np.concatenate([weights.projection, weights.query, weights.key], axis=1),
    )
    u, v = (
        following.embedding,
        np.concatenate([following.projection, following.query, following.key]),
    )
    sign = np.sign(u @ x)
    return {
        "opening_time": path.time[i],
        "opening_rate": np.gradient(np.log(path.singular_values[near, rank]), path.time[near])[1],
        "opening_predicted_rate": following.rate,
        "opening_measured": _unit(np.concatenate([x, w])),
        "opening_predicted": sign * _unit(np.concatenate([u, v])),
        "opening_embedding_cosine": sign * _unit(u) @ _unit(x),
        "opening_other_cosine": sign * _unit(v) @ _unit(w),
        "opening_drift": _drift(path, i) / following.rate**2,
    }


def _drift(path: Path, i: int) -> float:
    ends, chain = path.at([i - 1, i + 1]), path.chain
    before, after = theory.opening_matrix(
        *ends, stationary=chain.stationary, transition=chain.transition
    )
    return float(np.linalg.norm(after - before, 2) / (path.time[i + 1] - path.time[i - 1]))


def _unit(vector: Array) -> Array:
    return vector / np.linalg.norm(vector)


def _critical(path: Path, name: str) -> Weights:
    """The critical point by its closed form, in the direction that the flow condenses to."""
    start, law = path.at(0), path.chain.stationary
    if name == "origin":
        return Weights(*(np.zeros_like(matrix) for matrix in start))
    direction = theory.condensed_direction(start.embedding, start.projection, stationary=law)
    return Weights(
        *theory.unigram_weights(stationary=law, direction=direction, d_key=start.query.shape[1])
    )


def _at_points(path: Path, fraction: float) -> dict[str, float]:
    chain, unigram, around = path.chain, _critical(path, "unigram point"), setting(path.chain)
    modes = saccade.linearise(path.system, at=unigram, blocks={"attention": ["query", "key"]})
    at_origin = opening_matrix(_critical(path, "origin"), around)[:, : chain.n_vocab]
    return {
        "origin_gap": float(
            np.abs(at_origin + theory.condensation_drive(stationary=chain.stationary)).max()
        ),
        "residual": speed(velocity, unigram, around),
        "n_unstable": float(modes.n_unstable),
        "rate_gap": float(
            np.abs(modes.growth_rates / abs(stages.focus_rate(chain)) - 1).max(initial=0.0)
        ),
        "attention_share": float(modes.shares["attention"][: modes.n_unstable].min(initial=np.inf)),
        **_second_plateau(path, fraction),
    }


def _second_plateau(path: Path, fraction: float) -> dict[str, float]:
    """Newton's method from the weights at which the second direction opens, without that direction."""
    i, chain = path.opening(1, fraction), path.chain
    if i is None:
        return {"plateau_residual": np.nan, "plateau_rate_gap": np.nan}
    W0, WQ, WK, W1 = path.at(i)
    used = np.outer(path.directions[i, 0], path.directions[i, 0])
    found = saccade.critical_point(
        path.system, near=Weights(W0 @ used, used @ WQ, used @ WK, used @ W1)
    )
    rates = saccade.linearise(path.system, at=found).eigenvalues[: len(used) - 1]
    predicted = theory.next_direction(
        *found.state, stationary=chain.stationary, transition=chain.transition
    ).rate
    return {
        "plateau_residual": found.residual,
        "plateau_rate_gap": float(np.abs(rates / predicted - 1).max()),
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    by_default = EXPERIMENT.settings_of(record) == Settings()
    for law in record.law.values:
        at = record.sel(law=law)
        for k in _opened(at):
            moves = by_default and (str(law), int(k)) in KNOWN_TO_MOVE
            yield from _of_opening(at.sel(opening=k), str(law), OUTSIDE if moves else HOLDS)
        yield from _of_points(at, Case({"law": str(law)}, against=CALCULUS))


def _opened(record: xr.Dataset) -> Any:
    """Numbers of the directions that opened by the end of the run of one law."""
    return record.opening.values[np.isfinite(record.opening_time.values)]


def _of_opening(one: xr.Dataset, law: str, expected: str) -> Iterator[Claim]:
    still = at_most(
        "stage IV, state hardly moves",
        float(one.opening_drift),
        STILL,
        "angle that B turns in an e-fold",
    )
    case = Case({"direction": one.opening.item(), "law": law}, [still])
    rate, cosines = (
        float(one.opening_predicted_rate),
        np.minimum(one.opening_embedding_cosine, one.opening_other_cosine),
    )
    yield case.near(
        NEXT_DIRECTION,
        "growth rate of a direction as it opens, against s₁(B)",
        one.opening_rate,
        rate,
        relative=0.01,
        expected=expected,
        sentence="A new direction of the embedding grows at the rate of the first singular value of B.",
    )
    yield case.near(
        NEXT_DIRECTION,
        "cosine of a direction with the singular vectors of B, lower of both sides",
        cosines,
        1,
        within=1 - CLOSE,
        expected=expected,
    )


def _of_points(at: xr.Dataset, case: Case) -> Iterator[Claim]:
    yield case.at_most(
        NEXT_DIRECTION,
        "largest gap between B at the origin and -π (π - 1/d)ᵀ",
        at.origin_gap,
        1e-14,
    )
    yield case.at_most(
        UNIGRAM_POINT, "norm of the velocity at the unigram point", at.residual, 1e-14
    )
    yield case.near(
        ATTENTION_RATE,
        "growing modes at the unigram point",
        at.n_unstable,
        saccade.Embedded().d_key,
        within=0,
    )
    yield case.at_most(
        ATTENTION_RATE, "largest relative gap of the growing modes' rates to |c|", at.rate_gap, 1e-6
    )
    yield case.near(
        ATTENTION_RATE,
        "least share of a growing mode in query and key",
        at.attention_share,
        1,
        within=1e-6,
    )
    second = met(
        "a second direction opens by the end of the run", bool(np.isfinite(at.plateau_residual))
    )
    found = at_most(
        "Newton's method finds the critical point",
        at.plateau_residual,
        1e-12,
        "norm of the velocity there",
    )
    title = "d_model - 1 fastest rates at the second plateau against s₁(B), largest relative gap"
    yield case.but(given=[second, found]).at_most(NEXT_DIRECTION, title, at.plateau_rate_gap, 1e-6)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each direction that opened."""
    numbers = ("time", "predicted_rate", "rate", "embedding_cosine", "other_cosine", "drift")
    opened = [
        record.sel(law=law, opening=k)
        for law in record.law.values
        for k in _opened(record.sel(law=law))
    ]
    return [
        {"law": one.law.item(), "direction": one.opening.item()}
        | {name: one[f"opening_{name}"].item() for name in numbers}
        for one in opened
    ]


def panels(record: xr.Dataset) -> Layout:
    return [_growth(record.isel(law=-1)), _patterns(record)]


def _growth(record: xr.Dataset) -> Lines:
    t, lines = record.time.values, []
    for i, k in enumerate(record.opening.values):
        values = record.singular_values.values[:, i]
        at, rate = float(record.opening_time[i]), float(record.opening_predicted_rate[i])
        size, near = np.interp(at, t, values), np.linspace(at - 4 / rate, at + 3 / rate, 20)
        lines += [
            Line(t, values, f"direction {k}", tone=i),
            Line([at], [size], "", POINTS, i),
            Line(near, size * np.exp(rate * (near - at)), "" if i else "slope s₁(B)", DASHES, None),
        ]
    return Lines(
        f"directions open in turn, {record.law.item()}",
        "time",
        "singular values of the embedding",
        lines,
        "xy",
        (10, t[-1]),
        (1e-5, 10),
    )


def _patterns(record: xr.Dataset) -> Lines:
    lines = [Line([-1, 1], [-1, 1], "", tone=None)]
    for law in record.law.values:
        at = record.sel(law=law)
        for k in _opened(at):
            one = at.sel(opening=k)
            style = POINTS if one.opening_drift <= STILL else RINGS
            lines.append(
                Line(
                    one.opening_predicted,
                    one.opening_measured,
                    f"{law}, direction {k}",
                    style,
                    len(lines) - 1,
                )
            )
    return Lines(
        "what opens, in all four matrices",
        "component predicted by B",
        "component in the run",
        lines,
    )


EXPERIMENT = Experiment(
    "next-direction",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: singular values of the embedding, last chain; a point marks where a direction opens, the dashed line has the "
        "slope s₁(B) that theory predicts there. Panel 2: components of each new direction in all four matrices, from the run "
        "against those from B; on the line they agree. Rings: states that still move."
    ),
    finding=(
        "new directions grow at rates {growth rate of a direction*(direction 1, law paper):.3g} and {growth rate of a "
        "direction*(direction 2, law paper):.3g} (s₁(B) within 1 %), with a cosine above 0.999 to the predicted ones"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model",
    time_unit=STEPS,
    table=table,
)
