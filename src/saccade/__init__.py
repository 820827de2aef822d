"""Saccade: a laboratory for how attention learns.

Data with known statistics feeds a model. Dynamics move its parameters. Observation measures what is seen. Theory predicts
what should be seen. An experiment runs the dynamics, evaluates the theory and keeps both in a record. The report only shows.

The names below load on first use: importing Saccade imports neither JAX nor PyTorch and changes nothing global.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "SequenceClasses": "saccade.data.sequence_classes",
    "MarkovChain": "saccade.data.markov",
    "Pairwise": "saccade.model.pairwise",
    "Embedded": "saccade.model.embedded",
    "train": "saccade.laboratory",
    "flow": "saccade.laboratory",
    "reduced_flow": "saccade.laboratory",
    "measures": "saccade.observe",
    "Claim": "saccade.records.claim",
    "save_record": "saccade.records.store",
    "load_record": "saccade.records.store",
    "EXPERIMENTS": "saccade.experiments",
    "InputError": "saccade.errors",
}
__all__ = list(_PUBLIC)

if TYPE_CHECKING:
    from saccade.data.markov import MarkovChain as MarkovChain
    from saccade.data.sequence_classes import SequenceClasses as SequenceClasses
    from saccade.errors import InputError as InputError
    from saccade.experiments import EXPERIMENTS as EXPERIMENTS
    from saccade.laboratory import flow as flow
    from saccade.laboratory import reduced_flow as reduced_flow
    from saccade.laboratory import train as train
    from saccade.model.embedded import Embedded as Embedded
    from saccade.model.pairwise import Pairwise as Pairwise
    from saccade.observe import measures as measures
    from saccade.records.claim import Claim as Claim
    from saccade.records.store import load_record as load_record
    from saccade.records.store import save_record as save_record


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'saccade' has no attribute {name!r}; it has {', '.join(_PUBLIC)}")
    module = importlib.import_module(_PUBLIC[name])
    value = importlib.import_module(f"{_PUBLIC[name]}.{name}") if name == "measures" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_PUBLIC, "__version__"]
