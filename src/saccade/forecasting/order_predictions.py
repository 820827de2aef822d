"""Sentences of the Scan-and-Snap side of a forecast: two for each query, and one on timing.

Queries come in the order of how often they are met.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from saccade.data.class_tables import SHARED_QUERY
from saccade.data.sequence_classes import SequenceClasses
from saccade.forecasting.prediction import CLOSED_FORM, FLOW, Prediction, chosen, listed
from saccade.theories import scan_and_snap as theory
from saccade.theories.condition import Condition
from saccade.theories.scan_and_snap.assumptions import ZERO_START

if TYPE_CHECKING:
    import xarray as xr

LISTED = 6  # tokens of a query that a sentence names; the table has all
_ADAM_ORDER = "does not carry over: Adam's steps do not scale with the gradient, and which distinct tokens win depends on its rate"
_ADAM_LOSS = "does not carry over: on text other tokens gain with Adam than with SGD (`saccade reproduce text-optimisers`)"
_ADAM_CLOCK = "does not carry over: a step of Adam is not the rate times the gradient"


def order_predictions(record: xr.Dataset, conditions: list[Condition]) -> list[Prediction]:
    frequent = np.argsort(-record.query_weight.values, kind="stable")
    said = [
        sentence
        for row in frequent
        for sentence in _of_query(record.isel(query=int(row)), conditions)
    ]
    return [*said, _clock(record, conditions)]


def class_conditions(
    classes: SequenceClasses, *, lr_decoder: float, lr_attention: float, context: float
) -> list[Condition]:
    """What the theorems assume of these classes, rates and contexts."""
    return theory.check_assumptions(
        classes.token_prob,
        classes.query,
        classes.class_weight,
        n_vocab=classes.n_vocab,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
        n_context=context,
    )


def ranked(query: xr.Dataset, *, distinct: bool) -> list[str]:
    """Distinct tokens that gain, most first; or others that lose, most first. Only tokens that the
    query's contexts show.
    """
    gain, mine = (
        query.gain.values,
        (query.distinct.values == distinct) & (query.attention_start.values > 0),
    )
    order = np.argsort(-gain if distinct else gain, kind="stable")
    wanted = mine & (gain > 0 if distinct else gain < 0)
    return [str(query.token.values[i]) for i in order if wanted[i]]


def _of_query(query: xr.Dataset, conditions: list[Condition]) -> list[Prediction]:
    name = _called(query["query"].values)
    gaining, losing = ranked(query, distinct=True), ranked(query, distinct=False)
    distinct = query.distinct.values & (query.attention_start.values > 0)
    others = ~query.distinct.values & (query.attention_start.values > 0)
    start, end = (
        float(query[part].values[others].sum()) for part in ("attention_start", "attention_end")
    )
    order = (
        f"distinct tokens gain attention in this order: {listed(gaining, LISTED)}"
        if gaining
        else "no distinct token gains attention"
    )
    loss = (
        f"of the other tokens these lose attention first: {listed(losing, LISTED)}"
        if losing
        else "no other token loses attention"
    )
    return [
        Prediction(
            about=name,
            topic="order of distinct tokens",
            text=f"{order} ({len(gaining)} of {distinct.sum()} gain); half way at step {float(query.half_way_time):.3g}",
            method=FLOW,
            source="[tian2023, Theorem 2(a) and Theorem 3]",
            under_adam=_ADAM_ORDER,
            assumptions=chosen(conditions, ("Assumption 1", "Assumption 2", ZERO_START)),
        ),
        Prediction(
            about=name,
            topic="tokens that lose attention",
            text=f"{loss}; attention on all tokens that are not distinct goes from {start:.2f} to {end:.2f}",
            method=FLOW,
            source="[tian2023, Theorem 2(b) and Corollary 2]",
            under_adam=_ADAM_LOSS,
            assumptions=chosen(
                conditions, ("Assumption 1", "Assumption 2", "Theorem 2", "Corollary 2")
            ),
        ),
    ]


def _called(name: object) -> str:
    return "the query" if str(name) == SHARED_QUERY else f'query "{name}"'


def _clock(record: xr.Dataset, conditions: list[Condition]) -> Prediction:
    scan, snap = record.scan_time.values, record.snap_time.values
    first, last = int(snap.argmin()), int(snap.argmax())
    names = [str(name) for name in record["query"].values]
    latest = (
        ""
        if math.isclose(snap[first], snap[last])
        else f'; of "{names[last]}" last, at step {snap[last]:.3g}'
    )
    horizon = float(record.time.values[-1])
    late = [
        f"{what} of {(times > horizon).sum()}"
        for what, times in (("end of scan", scan), ("snap", snap))
        if (times > horizon).any()
    ]
    unseen = (
        f"; beyond the {horizon:.3g} steps of the forecast: {', '.join(late)} of {len(scan)} queries"
        if late
        else ""
    )
    return Prediction(
        about="timing",
        topic="timing",
        text="in the theory's own flow (C), which is not plain SGD, attention scans until step "
        f"{scan[first]:.3g} and snaps from step {snap[first]:.3g} on "
        f"({_called(names[first])}){latest}; afterwards it moves as ln ln t{unseen}",
        method=CLOSED_FORM,
        source="[tian2023, Lemma 9 and Theorem 4], with the share of each class for 1/K",
        under_adam=_ADAM_CLOCK,
        assumptions=chosen(conditions, ("Assumption 1(c)", "Assumption 2", "Theorem 1")),
    )
