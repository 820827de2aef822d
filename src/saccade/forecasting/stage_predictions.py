"""Sentences of the Focus-and-Dilution side, from the record of a forecast: one for each stage.

What Adam keeps is what experiments/focus_and_dilution/focus_dilution_adam.py measures: mini-batches
of Adam focus on the most frequent token, all queries at once and far more than the flow does, then
dilute; without noise it mostly stays frozen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from saccade.data.markov import MarkovChain
from saccade.forecasting.prediction import CLOSED_FORM, RANK_ONE, Prediction, chosen, listed, spread
from saccade.measures.turning_points import VISIBLE
from saccade.models.embedded import Embedded
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import Condition

if TYPE_CHECKING:
    import xarray as xr

_ROUNDING = 1e-9  # of the condensation rate, and of a pattern of norm one

_ADAM = {
    "condensation": "one direction first, too; but the rate and, without noise, the pattern are different",
    "focus sign": "does not carry over: with mini-batches Adam focuses on the most frequent token whatever the sign",
    "focus": "does not carry over: Adam has its own times and rate",
    "dilution": "the order, focus then dilution, carries over; the times do not",
    "next direction": "not measured",
}


def chain_conditions(
    chain: MarkovChain, model: Embedded, *, lr_decoder: float, lr_attention: float, context: float
) -> list[Condition]:
    """What the theory assumes of this chain, the start and the contexts."""
    return theory.check_assumptions(
        chain.stationary,
        chain.transition,
        n_context=context,
        init_scale=model.init_scale,
        d_model=model.d_model,
        phi_scale=model.phi_scale,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
    )


def stage_predictions(record: xr.Dataset, conditions: list[Condition]) -> list[Prediction]:
    data, first = (
        chosen(conditions, ("data",)),
        chosen(conditions, ("data, stationary", "stage I,")),
    )
    frequent = str(record.word.values[int(record.frequency.values.argmax())])
    said = [
        _said("condensation", _condensation(record), CLOSED_FORM, "[chen2026, Theorem 3.2]", first),
        _said(
            "focus sign",
            _sign(record, frequent),
            CLOSED_FORM,
            "[derived, sign rule]",
            chosen(conditions, ("data", "stage I, unequal")),
        ),
    ]
    if "focus_onset" not in record:
        return said
    linear = (*data, *chosen(conditions, ("stage I, small", "stage I, attention")))
    opening = (*data, *chosen(conditions, ("stage IV",)))
    return [
        *said,
        _said("focus", _focus(record), RANK_ONE, "[chen2026, Propositions 3.3, 3.4]", linear),
        _said("dilution", _dilution(record), RANK_ONE, "[chen2026, Proposition 3.6]", linear),
        _said(
            "next direction",
            _next(record),
            "rule s1(B) at the end of the rank-one flow",
            "[derived, next-direction rule]",
            opening,
        ),
    ]


def _said(
    about: str, text: str, method: str, source: str, assumptions: tuple[Condition, ...]
) -> Prediction:
    return Prediction(about, about, text, method, source, _ADAM[about], assumptions)


def _condensation(record: xr.Dataset) -> str:
    rate = float(record.condensation_rate)
    if "condensed_time" not in record:
        return f"embeddings grow at rate {rate:.3g} per step; all tokens are equally frequent, so no stage follows"
    return (
        f"embeddings condense to one direction, in proportion to frequency, at rate {rate:.3g} per step: by step "
        f"{spread(record.condensed_time.values)}; the unigram plateau is reached at step {spread(record.plateau_time.values)}"
    )


def _sign(record: xr.Dataset, frequent: str) -> str:
    rate, sign = float(record.focus_rate), int(record.focus_sign)
    if sign == 0:
        return "attention turns neither to frequent tokens nor away from them"
    way = (
        f'to the most frequent token, "{frequent}"'
        if sign > 0
        else f'away from the most frequent token, "{frequent}"'
    )
    return f"attention first turns {way}; once the plateau is reached query and key grow at rate {abs(rate):.3g} per step"


def _focus(record: xr.Dataset) -> str:
    height = record.turn_height.values[0]
    i = int(np.abs(height).argmax())
    size = "" if abs(height[i]) >= VISIBLE else ", too little to see"
    return (
        f"query and key matrices start to grow at step {spread(record.focus_onset.values)}, at rate "
        f"{spread(record.focus_growth.values)} per step on average; the query that moves most, "
        f'"{record.word.values[i]}", moves {height[i]:+.2g} from its share{size}'
    )


def _dilution(record: xr.Dataset) -> str:
    turned = np.isfinite(record.turn_time.values).all(axis=0)
    if not turned.any():
        return "no query turns back within the first cycle"
    earliest = np.nanmin(record.turn_time.values[:, turned], axis=1)
    gone = record.gone_time.values[:, turned]
    ends = (
        f"; the first is back at its share at step {spread(np.nanmin(gone, axis=1))}"
        if np.isfinite(gone).any(axis=1).all()
        else ""
    )
    return f"queries begin to turn back at step {spread(earliest)}, {turned.sum()} of {len(turned)} of them{ends}"


def _next(record: xr.Dataset) -> str:
    pattern, rate = record.next_embedding.values, float(record.next_rate)
    if not rate > _ROUNDING * float(record.condensation_rate):
        return "at the end of the rank-one flow no second embedding direction grows"
    order = np.argsort(-np.abs(pattern), kind="stable")
    sides = [
        listed([str(record.word.values[i]) for i in order if sign * pattern[i] > _ROUNDING][:3])
        for sign in (1, -1)
    ]
    way = (
        f"separates {sides[0]} from {sides[1]}"
        if all(sides)
        else f"has all tokens on one side, {sides[0] or sides[1]} farthest"
    )
    return f"a second embedding direction grows at rate {rate:.3g} per step and {way}"
