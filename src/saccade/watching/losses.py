"""Losses of a watched run between its observations: each is kept with the next one or, if the run
ends without, with the last.

A loss may be a tensor on a device, and reading it waits for the device; so it is read when a model
is looked at anyway.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from saccade.records.step_losses import told

_MOST_UNREAD = 1024  # losses that may wait on the device
_MOST_BACK = (
    2**14
)  # steps before an observation whose losses are kept with it: every observation of a record has room for as many


class Losses:
    """Those that no observation holds yet."""

    def __init__(self) -> None:
        self._unread: list[tuple[int, Any]] = []  # (step, loss)
        self._read = np.empty((0, 2))  # the same as rows of numbers

    def __len__(self) -> int:
        return len(self._unread) + len(self._read)

    def add(self, step: int, loss: Any) -> None:
        """If it is one number: anything else could hold much memory, a graph for the backward pass
        say.
        """
        if isinstance(loss, torch.Tensor) and loss.numel() == 1 and not loss.is_complex():
            self._unread.append((step, loss.detach().clone()))
        elif isinstance(loss, numbers.Real):
            self._unread.append((step, loss))
        if len(self._unread) >= _MOST_UNREAD:
            self._read_all()

    def _read_all(self) -> None:
        waiting, self._unread = self._unread, []
        self._add_rows([(step, float(plain(loss))) for step, loss in waiting])

    def _add_rows(self, rows: Any) -> None:
        told = np.concatenate([self._read, np.asarray(rows, np.float64).reshape(-1, 2)])
        self._read = told[told[:, 0] > told[:, 0].max(initial=0) - _MOST_BACK]

    def until(self, step: int) -> dict[str, np.ndarray]:
        """For the observation of this step, by how many steps back they are."""
        self._read_all()
        told, self._read = self._read, self._read[self._read[:, 0] > step]
        back = step - told[:, 0].astype(np.int64)
        is_kept = (back >= 0) & (back < _MOST_BACK)
        found = np.full(back[is_kept].max(initial=-1) + 1, np.nan, np.float32)
        found[back[is_kept]] = told[is_kept, 1]
        return {"step_loss": found} if is_kept.any() else {}

    def after(self, step: int) -> dict[str, np.ndarray]:
        """For the last observation of a run that ends without another one."""
        self._read_all()
        later = self._read[self._read[:, 0] > step]
        return (
            {"later_step": later[:, 0], "later_loss": later[:, 1].astype(np.float32)}
            if len(later)
            else {}
        )

    def recall(self, step: int, arrays: Mapping[str, np.ndarray], after: int, before: int) -> None:
        """From an observation of an earlier part of the run: those of steps between the two, which
        none that is kept holds.
        """
        rows = told(step, arrays)
        self._add_rows(rows[(rows[:, 0] > after) & (rows[:, 0] < before)])


def plain(number: Any) -> Any:
    """A tensor of one number as that number."""
    return number.item() if isinstance(number, torch.Tensor) and number.numel() == 1 else number
