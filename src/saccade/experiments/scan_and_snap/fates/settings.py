"""Settings of `attention-fates`, and how its parts read them back from a record."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Config:
    """Settings. The first five belong to the flow and to Lemma 4, on classes that meet Assumption 2."""

    n_vocab: int = 2000
    """vocabulary; Assumption 2 needs more than 1296 for three classes"""
    overlap: float = 0.15
    """f_n . f_n' of any two classes, between 6/sqrt(n_vocab) and 1/6"""
    lr_decoder: float = 0.5
    """decoder rate, per step, below 1"""
    lr_attention: float = 5.0
    """attention rate of the flow, per step; the flow has the decoder of the present features, so it need not be small"""
    t1: float = 1e6
    """end of the flow, in steps of SGD"""
    descent_ratio: float = 0.01
    """attention rate over decoder rate in the descent compared with Lemma 4"""
    descent_steps: int = 1000
    """steps of that descent, one class each"""
    descent_seeds: int = 4
    """orders of classes it is averaged over"""
    lengths: tuple[int, ...] = (32, 128, 512, 2048)
    """T: tokens of a sequence, the query included"""
    steps: int = 48
    """updates of the training at finite length, otherwise as in Fig. 4"""
    seeds: int | tuple[int, ...] = 50
    """number of seeds of that training (0, 1, 2, ...), or a list of seeds"""


def settings(record: xr.Dataset) -> Config:
    stored = json.loads(record.attrs["settings"])
    return Config(**{field.name: _frozen(stored[field.name]) for field in fields(Config)})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def row(case: str, token: str, quantity: str, predicted: float | None, measured: float) -> dict[str, Any]:
    """A row of the table; `predicted` is empty where the theory says nothing."""
    said = None if predicted is None else float(predicted)
    return {"case": case, "token": token, "quantity": quantity, "predicted": said, "measured": float(measured)}
