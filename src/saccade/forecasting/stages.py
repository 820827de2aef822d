r"""The Focus-and-Dilution side of a forecast: condensation, focus, dilution, next direction, each
with its time.

| what                          | from                                                                                            |
|-------------------------------|-------------------------------------------------------------------------------------------------|
| condensation rate, focus rate | closed forms of the law and the table                                                           |
| condensation                  | the linear flow at the origin, solved, from random starts                                       |
| plateau, focus, dilution      | the rank-one flow from the same starts (`starts.py`): 2d + 2 unknowns for the whole first cycle |
| next direction                | the rule s1(B) at the end of the rank-one flow                                                  |

Times are steps of gradient descent at the given rates, which the rates already scale: a rate twice
as large halves them. The first cycle only: after the second direction has opened the rank-one flow
is no guide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade import runs as laboratory
from saccade.data.markov import MarkovChain
from saccade.forecasting.score import TURN, exponential_rate
from saccade.forecasting.starts import Start, random_start
from saccade.measures import singular_values, top_share
from saccade.measures.events import CONDENSED, GROWN, LEARNT
from saccade.measures.fits import first_time
from saccade.models.embedded import Embedded
from saccade.models.rank_one import RankOne
from saccade.theories import focus_and_dilution as theory

Array = NDArray[np.float64]
_BEYOND = 3.0  # the flow is followed to this many times the last crossing to first order, which drift.py has right to about a third
_N_TIMES = 600  # log-spaced: a step is 2 % of the time over the usual five decades
_RTOL = 1e-6  # times on six Zipf tokens and on 64 words are the same, to all digits sampled, at 1e-5 and at 1e-8
_SEEN = (
    1e-5  # height of a focus that is none of the start's: a start of 1e-2 moves attention by 1e-8
)


class Rates(NamedTuple):
    """Learning rates and the scale of attention logits: what every closed form asks for."""

    lr_decoder: float
    lr_attention: float
    phi_scale: float


def stages(
    chain: MarkovChain, model: Embedded, *, lr_decoder: float, lr_attention: float, starts: int
) -> dict[str, Any]:
    """Variables of the record; `start` is the axis of random starts, `word` that of the chain's
    tokens.
    """
    rates = Rates(lr_decoder, lr_attention, model.phi_scale)
    mu_0 = theory.condensation_rate(stationary=chain.stationary, lr_decoder=lr_decoder)
    rate = (
        theory.focus_rate(
            stationary=chain.stationary, transition=chain.transition, phi_scale=rates.phi_scale
        )
        * lr_attention
    )
    constant: dict[str, Any] = {
        "condensation_rate": mu_0,
        "focus_rate": rate,
        "focus_sign": theory.focus_sign(stationary=chain.stationary, transition=chain.transition),
        "frequency": (("word",), chain.stationary),
    }
    if mu_0 <= 0 or rate == 0:
        return constant
    runs = [_first_cycle(chain, model, rates, seed) for seed in range(starts)]
    times: dict[str, Any] = {
        name: (("start",), np.array([run[name] for run in runs]))
        for name in ("condensed_time", "half_time", "plateau_time")
    }
    times |= {
        name: (("start",), np.array([run[name] for run in runs]))
        for name in ("focus_onset", "focus_growth")
    }
    times |= {
        name: (("start", "word"), np.array([run[name] for run in runs]))
        for name in ("turn_time", "gone_time", "turn_height")
    }
    shown = runs[0]
    paths: dict[str, Any] = {
        name: (("stage_time", "word"), shown[name]) for name in ("on_frequent", "embedding_path")
    }
    paths["query_path"] = (("stage_time",), shown["query_path"])
    return (
        constant
        | times
        | paths
        | {"stage_time": shown["time"], **_opening(chain, rates, shown["end"])}
    )


def _first_cycle(chain: MarkovChain, model: Embedded, rates: Rates, seed: int) -> dict[str, Any]:
    """What one random start does until its focus is gone."""
    start = random_start(chain, model, seed)
    half = theory.condensation_time(
        start.weights.embedding,
        start.weights.projection,
        stationary=chain.stationary,
        lr_decoder=rates.lr_decoder,
    )
    path = laboratory.reduced_flow(
        chain,
        t1=_end(chain, rates, start, half),
        lr_decoder=rates.lr_decoder,
        lr_attention=rates.lr_attention,
        n_times=_N_TIMES,
        model=model,
        start=start.point,
        rtol=_RTOL,
        atol=_RTOL * 1e-2 * model.init_scale,
    )
    time, frequent = path.time.values, int(chain.stationary.argmax())
    on_frequent = path.attention.values[..., frequent]
    sign = theory.focus_sign(stationary=chain.stationary, transition=chain.transition)
    turns = [_turn(time, sign * (curve - chain.stationary[frequent])) for curve in on_frequent.T]
    query = np.sqrt(start.rest_of_query + path.query_scale.values**2)
    last = path.isel(time=-1)
    # When the top direction of the embedding has the share that the event finder calls condensed.
    times = np.linspace(0, max(2 * half, 1 / rates.lr_decoder), 400)
    grown = theory.linear_weights(
        times,
        start.weights.embedding,
        start.weights.projection,
        stationary=chain.stationary,
        lr_decoder=rates.lr_decoder,
    )
    # The loss that counts as the plateau's, as in the event finder.
    plateau = chain.unigram_loss + (1 - LEARNT) * (path.loss.values[0] - chain.unigram_loss)
    return {
        "condensed_time": first_time(
            times, top_share(singular_values(grown.embedding)) >= CONDENSED
        ),
        "half_time": half,
        "plateau_time": first_time(time, path.loss.values <= plateau),
        "focus_onset": first_time(time, query >= GROWN * query[0]),
        "focus_growth": exponential_rate(time, np.abs(path.query_scale.values)),
        "query_path": np.abs(path.query_scale.values),
        "turn_time": [found[0] for found in turns],
        "gone_time": [found[1] for found in turns],
        "turn_height": [sign * found[2] for found in turns],
        "time": time,
        "on_frequent": on_frequent,
        "embedding_path": path.gamma.values,
        "end": RankOne(
            last.gamma.values, last.beta.values, float(last.query_scale), float(last.key_scale)
        ),
    }


def _end(chain: MarkovChain, rates: Rates, start: Start, half: float) -> float:
    """Well past the time at which, to first order, the last query's focus is gone."""
    scaled = rates.phi_scale, rates.lr_attention / rates.lr_decoder
    crossing = theory.crossing_strength(
        stationary=chain.stationary,
        transition=chain.transition,
        phi_scale=scaled[0],
        rate_ratio=scaled[1],
    )
    largest = np.abs(crossing[np.isfinite(crossing)]).max(initial=1.0)
    grown = abs(start.point.query) + abs(start.point.key)
    rate = theory.drift_exponent(
        stationary=chain.stationary,
        transition=chain.transition,
        phi_scale=rates.phi_scale,
        lr_attention=rates.lr_attention,
    )
    focus = max(0.0, np.log(4 * largest / (rates.phi_scale * grown**2))) / rate
    return float(_BEYOND * (max(half, 0.0) + focus) + 10 / rates.lr_decoder)


def _turn(time: Array, height: Array) -> tuple[float, float, float]:
    """When a focus turns, when it is gone, and its height: the first maximum that later loses a
    tenth, and zero after it.
    """
    top = np.maximum.accumulate(height)
    lost = (top > _SEEN) & (height < (1 - TURN) * top)
    if not lost.any():
        return float("nan"), float("nan"), float(height[np.abs(height).argmax()])
    i = int(height[: lost.argmax()].argmax())
    return (
        float(time[i]),
        first_time(time, (np.arange(len(time)) > i) & (height <= 0)),
        float(height[i]),
    )


def _opening(chain: MarkovChain, rates: Rates, end: RankOne) -> dict[str, Any]:
    """The next direction where the rank-one flow has come to: its rate, and what it says of each
    token.
    """
    state = theory.RankOneState(end.gamma, end.beta, end.query, end.key)
    one = np.ones(1)
    W0, WQ, WK, W1 = theory.rank_one_weights(state, direction=one, key_direction=one)
    following = theory.next_direction(
        W0,
        WQ,
        WK,
        W1,
        stationary=chain.stationary,
        transition=chain.transition,
        phi_scale=rates.phi_scale,
        lr_decoder=rates.lr_decoder,
        lr_attention=rates.lr_attention,
    )
    sign = np.sign(following.embedding[np.abs(following.embedding).argmax()])
    return {
        "next_rate": following.rate,
        "next_embedding": (("word",), sign * following.embedding),
        "next_projection": (("word",), sign * following.projection),
    }
