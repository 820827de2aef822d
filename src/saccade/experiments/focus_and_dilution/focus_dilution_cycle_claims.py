"""Claims of focus-dilution-cycle: those of the replicated event table, and what holds for any law and start."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.data.markov_presets import PAPER_LAW, zipf_law
from saccade.experiments.focus_and_dilution.embedded_events import embedding_values, events_of, query_norm
from saccade.experiments.focus_and_dilution.focus_dilution_replication import is_lazy, replicated_claims, until
from saccade.observe.events import CONDENSED, Event
from saccade.observe.measures import top_share
from saccade.records.claim import Claim
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr

_SOLVER = 1e-8  # what the flow promises of its invariants; its steps are accurate to 1e-10 of the state
_UNCHANGED = 5e-5  # "1.0000" as printed by the replication
_LEAST_SAMPLES = 100  # ten an e-fold of time over 0.1 to 5000
STAGES = ("condensation", "attention_frozen", "focus_onset", "focus_peak", "dilution", "new_direction", "next_cycle")


def formed(record: xr.Dataset) -> list[Claim]:
    events = events_of(record)
    settings = json.loads(record.attrs["settings"])
    return [
        *replicated_claims(record, events, settings),
        *_solver_claims(record),
        *_condensation_claims(record, events, settings),
        *_stage_claims(record, events, settings),
    ]


def _solver_claims(record: xr.Dataset) -> list[Claim]:
    """The flow conserves two matrices and never climbs."""
    # In here: with it comes JAX, which a list of experiments can do without.
    from saccade.dynamics.embedded_flow import invariants, weights_of

    reached = record.isel(seed=0, time=np.isfinite(record.loss.values[0]))
    weights = weights_of(reached)
    names = ("W0'W0 - W1 W1' - WQ WQ' - WK WK'", "WQ'WQ - WK'WK")
    kept = invariants(weights, lr_attention=float(record.lr_attention))
    drifts = [float(np.abs(matrix - matrix[0]).max()) for matrix in kept]
    rise = max(0.0, float(np.diff(reached.loss.values).max(initial=0.0)))
    return [
        *(
            Claim(f"{name} is conserved: largest drift", "[derived, invariants]", 0, drift, _SOLVER)
            for name, drift in zip(names, drifts, strict=True)
        ),
        Claim("the loss never rises: largest rise, nats", "[derived, gradient flow]", 0, rise, _SOLVER),
    ]


def _condensation_claims(record: xr.Dataset, events: list[Event], settings: dict[str, Any]) -> list[Claim]:
    conditions = _conditions(record, settings, ("I small start", "I unequal tokens", "I frozen attention"))
    conditions |= _is_seen(settings)
    needs = conditions | _outlasts_condensation(record, settings, met=all(conditions.values()))
    run, growth = record.isel(seed=0), query_norm(record.isel(seed=0))
    with np.errstate(invalid="ignore", divide="ignore"):  # squares of a tiny start are zero
        share, growth = top_share(embedding_values(run)), growth / growth[0]
    condensed = [event.time for event in events if event.name == "condensation"]
    onset = min((event.time for event in events if event.name == "focus_onset"), default=math.inf)
    before = share[(record.time.values <= onset) & np.isfinite(share)]
    at_event = float(growth[np.searchsorted(record.time.values, condensed[0])]) if condensed else math.nan
    source = "[chen2026, Theorem 3.2]"
    return [
        Claim(
            "embeddings condense to one direction before focus: largest share of the top direction",
            source,
            1,
            float(before.max(initial=0.0)),
            1 - CONDENSED,
            needs,
        ),
        Claim("attention does not move meanwhile: query matrix against its start", source, 1, at_event, _UNCHANGED, needs),
    ]


def _outlasts_condensation(record: xr.Dataset, settings: dict[str, Any], met: bool) -> dict[str, bool]:
    """Asked only where condensation is predicted: without unequal tokens it takes forever."""
    if not met:
        return {}
    start = record.isel(seed=0, time=0)
    due = theory.condensation_time(start.embedding.values, start.projection.values, stationary=record.stationary.values)
    return {f"t1 beyond condensation ({settings['t1']:.4g}, due at {due:.3g})": settings["t1"] >= due}


def _stage_claims(record: xr.Dataset, events: list[Event], settings: dict[str, Any]) -> list[Claim]:
    first = {name: min((event.time for event in events if event.name == name), default=math.inf) for name in STAGES}
    # Turns and directions have no common order: without a token that stands out, the second direction may open before any turn.
    beginning = [first["condensation"], first["focus_onset"], min(first["focus_peak"], first["new_direction"])]
    beyond = 1 + sum(event.name == "new_direction" for event in events) - (len(record.stationary) - 1)
    small = _conditions(record, settings, ("I small start",))
    begins = small | _conditions(record, settings, ("I unequal tokens", "I frozen attention")) | _is_seen(settings)
    known = is_lazy(record, settings, zipf_law(6), 0.5) or is_lazy(record, settings, PAPER_LAW, 0.3)
    shown = begins | {"zipf(6) with stay 0.5, or the paper's law with stay 0.3": known, **until(2500, settings["t1"])}
    what = "first condensation, then growing attention matrices, then turns and directions: times out of order"
    return [
        Claim(what, "[chen2026]", 0, sum(later < earlier for earlier, later in pairwise(beginning)), 0, begins),
        Claim("stages seen in order, of seven: condensation to next cycle", "[chen2026]", len(STAGES), _in_order(first), 0, shown),
        Claim("embedding directions beyond one fewer than tokens", "[derived, next cycle]", 0, max(0, beyond), 0, small),
    ]


def _in_order(first: dict[str, float]) -> int:
    """Stages that are seen, and before all that should follow."""
    return sum(first[name] < math.inf and first[name] <= min(first[later] for later in STAGES[i:]) for i, name in enumerate(STAGES))


def _is_seen(settings: dict[str, Any]) -> dict[str, bool]:
    """An embedding of width 1 has one direction from the start, and what falls between samples is not seen."""
    return {
        "d_model of at least 2": settings["d_model"] > 1,
        f"n_times of at least {_LEAST_SAMPLES}": settings["n_times"] >= _LEAST_SAMPLES,
    }


def _conditions(record: xr.Dataset, settings: dict[str, Any], names: Iterable[str]) -> dict[str, bool]:
    """Some of the validator's conditions, with their numbers; one that cannot be formed for this law is not met."""
    phi_scale = settings["logit_scale"] / (math.sqrt(settings["d_model"]) if settings["scaled"] else 1.0)
    found = theory.check_assumptions(
        record.stationary.values,
        record.transition.values,
        n_context=math.inf,
        init_scale=settings["init_scale"],
        phi_scale=phi_scale,
        lr_attention=settings["lr_attention"],
    )
    by_name = {condition.name: condition for condition in found}
    shown = {name: f"{name} ({by_name[name].value:.3g}, bound {by_name[name].bound:.3g})" for name in names if name in by_name}
    return {shown.get(name, name): name in by_name and by_name[name].holds for name in names}
