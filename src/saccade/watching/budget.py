"""When to observe a training run, and how much of its time observing may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from saccade.errors import InputError, checked_count, checked_number, is_list_like, shortened

# "log": 0, 1, 2, ... 7, then five to each doubling of the step: 33 by step 200, 50 by 2,000; and
# every thousand steps.
_PER_DOUBLING, _EVERY = 5, 1000
_FREE = 3  # first looks that are always made: before them there is no training time to take a share of; later ones pay for them
_SHORT = 2000  # steps of a run for which a share is enough to see anything
_FLOOR = 31  # looks that a run has if they take no more than `_MOST_FREE`: thirty, and one for those that are dearer than the mean
_LEAST_FREE, _MOST_FREE = 5.0, 7.5  # s: with loading and the check, below ten
_LOADING = 1.0  # s: imports, and what record and page take whatever is in them; measured .8
_CLOSING = 0.25  # of a look's time, to put it into record and page at the end: .23 with 12 layers of 12 heads and 128 tokens


def schedule(every: str | int | Sequence[int]) -> Callable[[int], bool]:
    """Whether a step is to be looked at: `"log"`, every n-th one, or those of a list."""
    if every == "log":
        return lambda step: step % _EVERY == 0 or _is_log_spaced(step)
    if is_list_like(every):
        wanted = {checked_count("every", step, low=0) for step in every}  # type: ignore[union-attr]
        if not wanted:
            raise InputError("`every` lists no steps to observe.")
        return lambda step: step in wanted
    if isinstance(every, str):
        raise InputError(
            f"`every` must be 'log', a number of steps or a list of steps; got {shortened(every)}."
        )
    period = checked_count("every", every)
    return lambda step: step % period == 0


def _is_log_spaced(step: int) -> bool:
    """Whether it is the nearest whole number to some power of the fifth root of two."""
    place = round(_PER_DOUBLING * math.log2(step))
    return any(round(2 ** (near / _PER_DOUBLING)) == step for near in (place - 1, place, place + 1))


class Budget:
    """Keeps the time of looking below a share of the time of training, by leaving looks out.

    All looks count, the first ones too, with what each adds to the end of the run, when record and
    page are written (`_CLOSING`); a look is made if with it, at the cost of the last one, the share
    is still kept. Beside the share there is a sum for free, so that a short run is worth watching:
    what `_FLOOR` looks take, or the share of a run of `_SHORT` steps at the pace so far if that is
    more, but from `_LEAST_FREE` to `_MOST_FREE` seconds. It may be spent as the logarithm of the
    step grows, so that looks which are dear spread over the run too. So a run of `_SHORT` steps or
    more spends at most the share, or a few seconds. Loading, the check and counting the text come
    once: they are paid from the share, so that it is that of all that watching costs, and not from
    the free sum, so that they take no look from a short run.
    """

    def __init__(self, share: float | None) -> None:
        self.share = None if share is None else checked_number("budget", share, low=0.0, high=1.0)
        self.looking = 0.0  # s, all looks
        self.preparing = 0.0  # s, before the first look
        self.n_looks = 0
        self._last = 0.0
        self._started: float | None = None

    @property
    def training(self) -> float:
        """Seconds since the first step that were not spent looking."""
        return 0.0 if self._started is None else time.perf_counter() - self._started - self.looking

    def start(self, already: float) -> None:
        """Training begins; `already` were spent on what comes before the first look: counting the
        text, the check.
        """
        self.preparing += already
        self._started = time.perf_counter()

    def allows_a_look(self, n_steps: int) -> bool:
        """After so many steps of training."""
        if self.share is None or self.n_looks < _FREE:
            return True
        spent = (1 + _CLOSING) * (self.looking + self._last)
        once = _LOADING + self.preparing
        return spent <= max(self.share * self.training - once, self._free(n_steps))

    def _free(self, n_steps: int) -> float:
        """Seconds that may be spent by now, whatever the share."""
        if not self.share or n_steps < 1:
            return 0.0
        whole = max(
            self.share * self.training / n_steps * _SHORT,
            (1 + _CLOSING) * _FLOOR * self.looking / self.n_looks,
        )
        return min(max(whole, _LEAST_FREE), _MOST_FREE) * min(
            1.0, math.log1p(n_steps) / math.log1p(_SHORT)
        )

    def took(self, seconds: float) -> None:
        self._last, self.looking, self.n_looks = seconds, self.looking + seconds, self.n_looks + 1
