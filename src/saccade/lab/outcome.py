"""The outcome of an experiment: its finding, its record, its claims, and the folder they are in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from saccade.lab.claim import Claim


@dataclass(frozen=True)
class Outcome:
    """The result of one run of an experiment; `finding` is the sentence that its file opens with."""

    name: str
    finding: str
    folder: Path
    record: xr.Dataset
    claims: list[Claim]
