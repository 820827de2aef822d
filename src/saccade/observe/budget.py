"""When to observe a training run, and how much of its time observing may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from saccade.errors import InputError, checked_count, checked_number, is_list_like, shortened

_LAST_POWER, _EVERY = 512, 1000  # "log": 0, 1, 2, 4, ... 512, then every thousand steps
_FREE = 3  # first looks that are always made: before them there is no training time to take a share of; later ones pay for them


def schedule(every: str | int | Sequence[int]) -> Callable[[int], bool]:
    """Whether a step is to be looked at: `"log"`, every n-th one, or those of a list."""
    if every == "log":
        return lambda step: step % _EVERY == 0 or (step <= _LAST_POWER and step & (step - 1) == 0)
    if is_list_like(every):
        wanted = {checked_count("every", step, low=0) for step in every}  # type: ignore[union-attr]
        if not wanted:
            raise InputError("`every` lists no step to observe.")
        return lambda step: step in wanted
    if isinstance(every, str):
        raise InputError(f"`every` must be 'log', a number of steps or a list of steps; got {shortened(every)}.")
    period = checked_count("every", every)
    return lambda step: step % period == 0


class Budget:
    """Keeps the time of looking below a share of the time of training, by leaving looks out.

    All looks count, the first ones too; a look is made if with it, at the cost of the last one, the share is still kept.
    """

    def __init__(self, share: float | None) -> None:
        self.share = None if share is None else checked_number("budget", share, low=0.0, high=1.0)
        self.looking = 0.0  # s, all looks
        self.n_looks = 0
        self._last = 0.0
        self._started: float | None = None

    @property
    def training(self) -> float:
        """Seconds since the first step that were not spent looking."""
        return 0.0 if self._started is None else time.perf_counter() - self._started - self.looking

    def start(self, already: float) -> None:
        """Training begins; `already` were spent on what comes before the first look: counting the text, the check."""
        self.looking += already
        self._started = time.perf_counter() - already

    def allows_a_look(self) -> bool:
        if self.share is None or self.n_looks < _FREE:
            return True
        return self.looking + self._last <= self.share * self.training

    def took(self, seconds: float) -> None:
        self._last, self.looking, self.n_looks = seconds, self.looking + seconds, self.n_looks + 1
