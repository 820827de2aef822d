"""How fast attention moves while a model trains, and when it has slowed for good."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from saccade.observe.movement import total_variation

FROZEN = 0.1  # of the peak speed: what a reader would take for stopped, set before any run


@dataclass
class Speed:
    """How fast each layer's attention moves on given windows. A mean over the time between two looks."""

    windows: Tensor
    last: tuple[int, NDArray[np.float32]] | None = field(default=None, init=False)

    def __call__(self, model: Any, step: int) -> dict[str, Any]:
        maps = np.stack([model.attention_of(self.windows, layer).numpy() for layer in range(model.config.n_layers)], axis=1)
        speed = np.full(maps.shape[1:3], np.nan)
        if self.last is not None:
            speed = total_variation(self.last[1], maps) / np.log((step + 1) / (self.last[0] + 1))
        self.last = step, maps
        about = {
            "units": "1/log step",
            "definition": "total variation of attention since the last observation, over the log of the steps",
        }
        return {"speed": (("layer", "head"), speed, about)}


def below_for_good(speed: NDArray, times: NDArray, share: float) -> float:
    """The time from which a speed stays below a share of its peak; infinite if it does not. Looks without a speed are left out."""
    known = np.isfinite(speed)
    speed, times = speed[known], times[known]
    if not len(speed):
        return np.inf
    still = np.logical_and.accumulate((speed < share * speed.max())[::-1])[::-1]
    return float(times[still.argmax()]) if still.any() else np.inf
