"""The three dynamics as users call them. Each record also says which assumptions of the theory its task and rates meet.

Dynamics know no theory and theory knows no dynamics; this is where a run meets the validator.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from saccade.dynamics import descent
from saccade.dynamics import flow as flows
from saccade.theory.scan_and_snap import check_assumptions

if TYPE_CHECKING:
    import xarray as xr

P = ParamSpec("P")
_MOST_ENTRIES = 10_000_000  # of P(l|n); beyond it the validator's dense overlaps would cost more than the run


def with_assumptions(dynamics: Callable[P, xr.Dataset]) -> Callable[P, xr.Dataset]:
    """The same function, whose records hold the validator's answer as JSON in `attrs["assumptions"]`."""

    @functools.wraps(dynamics)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> xr.Dataset:
        record = dynamics(*args, **kwargs)
        record.attrs["assumptions"] = json.dumps(assumptions_of(record))
        return record

    return recorded


def assumptions_of(record: xr.Dataset) -> list[dict[str, Any]]:
    """Conditions of Assumptions 1 and 2 and of the theorems that add to them, for each pair of rates in the record."""
    if record.token_prob.size > _MOST_ENTRIES:
        return []
    config = json.loads(record.attrs["config"])
    model = config.get("model", {"init": "zero"})
    uniform = model["init"] == "uniform"
    pairs = np.atleast_2d(np.stack([record.lr_decoder, record.lr_attention], axis=-1))
    return [
        {
            "lr_decoder": float(lr_decoder),
            "lr_attention": float(lr_attention),
            "conditions": [
                asdict(condition)
                for condition in check_assumptions(
                    record.token_prob.values,
                    record.class_query.values,
                    record.class_weight.values,
                    n_vocab=record.sizes["token"],
                    lr_decoder=float(lr_decoder),
                    lr_attention=max(float(lr_attention), sys.float_info.min),
                    n_context=float(config.get("context", "inf")),
                    init_scale=(model.get("init_scale") or record.sizes["token"] ** -0.5) if uniform else 0.0,
                    n_steps=config.get("steps"),
                )
            ],
        }
        for lr_decoder, lr_attention in pairs
    ]


train = with_assumptions(descent.train)
flow = with_assumptions(flows.flow)
reduced_flow = with_assumptions(flows.reduced_flow)
