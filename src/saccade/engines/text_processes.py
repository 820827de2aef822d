"""One run in several processes: `torchrun --nproc-per-node N script.py`, where the script calls
`train_text` as usual.

Every process holds the whole model and takes its share of each batch; gradients are averaged
(`DistributedDataParallel`). Only the first looks and writes.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import math
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Processes:
    """Which of how many this is."""

    rank: int = 0
    n_processes: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wrapped(self, model: nn.Module) -> nn.Module:
        """`model`, its gradients averaged over the processes."""
        return model if self.n_processes == 1 else nn.parallel.DistributedDataParallel(model)

    def mean(self, loss: Tensor) -> float:
        """Mean over the processes; not finite for all of them if it is not for one, so that all
        stop together.
        """
        if self.n_processes == 1:
            return loss.item()
        total = loss.detach().double().clone()
        dist.all_reduce(total)
        value = total.item() / self.n_processes
        return value if math.isfinite(value) else math.nan


def joined_processes() -> Processes:
    """The processes of this run: those that are joined already, those that `torchrun` started, or
    this one alone.
    """
    if not dist.is_available() or not (dist.is_initialized() or dist.is_torchelastic_launched()):
        return Processes()
    if not dist.is_initialized():
        dist.init_process_group("gloo")
        atexit.register(_part)  # not after each run: a sweep in one process joins once
    return Processes(dist.get_rank(), dist.get_world_size())


def _part() -> None:
    """Leave together, and with no wrapped model left in a reference cycle: it would hold on to the
    group's threads, which must end before the process does.
    """
    if dist.is_initialized():
        gc.collect()
        with contextlib.suppress(RuntimeError):  # the other has gone already
            dist.barrier()
        dist.destroy_process_group()
