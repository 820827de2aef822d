"""The three dynamics as users call them, for any kind of data. Each record also says which assumptions of the theory it meets.

`SequenceClasses` are learnt by the pairwise model of Scan and Snap, a `MarkovChain` by the embedded model of Focus and Dilution, a
`Corpus` of real text by a Transformer; of text no assumption is known to hold, and none is listed.
Dynamics know no theory and theory knows no dynamics; this is where a run meets the validator.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.data.markov import MarkovChain
from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.corpus import Corpus
from saccade.dynamics import descent, embedded_descent, embedded_flow, rank_one_flow
from saccade.dynamics import flow as flows
from saccade.errors import InputError, checked_choice, shortened
from saccade.model.embedded import Embedded
from saccade.theory import focus_and_dilution, scan_and_snap

if TYPE_CHECKING:
    import xarray as xr

_listeners: list[list[dict[str, Any]]] = []
_MOST_ENTRIES = 10_000_000  # of P(l|n); beyond it the validator's dense overlaps would cost more than the run


def train(task: Any, **settings: Any) -> xr.Dataset:
    """(A) Mini-batch training.

    Settings of `dynamics.descent.train` for classes, `dynamics.embedded_descent.train` for a chain, and
    `dynamics.training.train_text` for a corpus, which needs the extra `torch`.
    """
    if isinstance(task, Corpus):
        from saccade.dynamics.training import train_text

        return train_text(task, **_checked_names(train_text, settings))
    return _recorded(embedded_descent.train if isinstance(task, MarkovChain) else descent.train, task, settings)


def flow(task: Any, **settings: Any) -> xr.Dataset:
    """(B) Population gradient flow. Settings of `dynamics.flow.flow` for classes, `dynamics.embedded_flow.flow` for a chain."""
    return _recorded(embedded_flow.flow if isinstance(task, MarkovChain) else flows.flow, task, settings)


def reduced_flow(task: Any, **settings: Any) -> xr.Dataset:
    """(C) The theory's own flow. Settings of `dynamics.flow.reduced_flow` for classes, `dynamics.rank_one_flow` for a chain."""
    return _recorded(rank_one_flow.rank_one_flow if isinstance(task, MarkovChain) else flows.reduced_flow, task, settings)


def _recorded(dynamics: Callable[..., xr.Dataset], task: Any, settings: dict[str, Any]) -> xr.Dataset:
    """Run, and keep the validator's answer as JSON in `attrs["assumptions"]`."""
    if not isinstance(task, SequenceClasses | MarkovChain):
        also = "; a corpus has no flow" if isinstance(task, Corpus) else "; for text, make a `saccade.corpus` first and train on it"
        raise InputError(f"`task` must be a SequenceClasses or a MarkovChain, got {shortened(task)}{also}.")
    record = dynamics(task, **_checked_names(dynamics, settings))
    found = assumptions_of(record)
    record.attrs["assumptions"] = json.dumps(found)
    for heard in _listeners:
        heard.extend(entry for entry in found if entry not in heard)
    return record


def _checked_names(dynamics: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    parameters = list(inspect.signature(dynamics).parameters.values())[1:]
    for name in settings:
        checked_choice("setting", name, [parameter.name for parameter in parameters])
    missing = [one.name for one in parameters if one.default is one.empty and one.name not in settings]
    if missing:
        raise InputError(f"settings are missing: {', '.join(missing)}.")
    return settings


@contextmanager
def heard_assumptions() -> Iterator[list[dict[str, Any]]]:
    """All that the validator says of runs inside the block, in any thread: an experiment joins many runs into one record."""
    heard: list[dict[str, Any]] = []
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)


def assumptions_of(record: xr.Dataset) -> list[dict[str, Any]]:
    """Conditions of the theory that this record's data belong to, for each pair of rates in the record.

    None for a task of more than ten million probabilities, where the validator would cost more than the run.
    """
    of_chain = "transition" in record
    if (record.transition if of_chain else record.token_prob).size > _MOST_ENTRIES:
        return []
    config = json.loads(record.attrs["config"])
    pairs = np.atleast_2d(np.stack([record.lr_decoder, record.lr_attention], axis=-1))
    check = _chain_conditions if of_chain else _class_conditions
    return [
        {
            "task": config["task"],
            "lr_decoder": float(lr_decoder),
            "lr_attention": float(lr_attention),
            "conditions": [asdict(condition) for condition in check(record, config, float(lr_decoder), float(lr_attention))],
        }
        for lr_decoder, lr_attention in pairs
    ]


def _class_conditions(record: xr.Dataset, config: dict[str, Any], lr_decoder: float, lr_attention: float) -> list[Any]:
    """Assumptions 1 and 2 of Scan and Snap, and of the theorems that add to them."""
    model = config.get("model", {"init": "zero"})
    uniform = model["init"] == "uniform"
    return scan_and_snap.check_assumptions(
        record.token_prob.values,
        record.class_query.values,
        record.class_weight.values,
        n_vocab=record.sizes["token"],
        lr_decoder=lr_decoder,
        lr_attention=max(lr_attention, sys.float_info.min),
        n_context=float(config.get("context", "inf")),
        init_scale=(model.get("init_scale") or record.sizes["token"] ** -0.5) if uniform else 0.0,
        n_steps=config.get("steps"),
    )


def _chain_conditions(record: xr.Dataset, config: dict[str, Any], lr_decoder: float, lr_attention: float) -> list[Any]:
    """What Focus and Dilution assumes of the chain, the context and the start."""
    return focus_and_dilution.check_assumptions(
        record.stationary.values,
        record.transition.values,
        n_context=float(config.get("context", "inf")),
        init_scale=config["model"]["init_scale"],
        d_model=config["model"]["d_model"],
        phi_scale=Embedded(**config["model"]).phi_scale,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
    )
