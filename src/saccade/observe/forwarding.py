"""Send the numbers of a watched run to TensorBoard, Weights & Biases, MLflow, trackio, or a function.

None of them is imported here: what is given is asked what it can do. Keys are paths, `saccade/layer0/head3/entropy`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from saccade.errors import InputError, shortened

Sender = Callable[[int, Mapping[str, np.ndarray], Mapping[str, Sequence[str]]], None]
_NOT_SCALARS = ("map_query", "rank", "place", "measure")  # maps, whole spectra and errors are in the record, not among scalars


def forwarders(targets: Any) -> list[Sender]:
    """A sender for each target: one, or a list of them."""
    listed = list(targets) if isinstance(targets, list | tuple) else [targets]
    return [_sender(target) for target in listed]


def _sender(target: Any) -> Sender:
    if hasattr(target, "add_scalar"):  # torch.utils.tensorboard.SummaryWriter

        def send(step: int, scalars: dict[str, float]) -> None:
            for key, value in scalars.items():
                target.add_scalar(key, value, step)

    elif hasattr(target, "log_metrics"):  # mlflow, and Lightning's loggers

        def send(step: int, scalars: dict[str, float]) -> None:
            target.log_metrics(scalars, step=step)

    elif hasattr(target, "log") and not isinstance(target, logging.Logger):  # a wandb run, wandb or trackio themselves

        def send(step: int, scalars: dict[str, float]) -> None:
            target.log(scalars, step=step)

    elif callable(target):

        def send(step: int, scalars: dict[str, float]) -> None:
            target(step, scalars)

    else:
        raise InputError(
            "`forward` must be a TensorBoard writer, a Weights & Biases run, mlflow, trackio or a function of (step, numbers); "
            f"got {shortened(target)}."
        )
    return lambda step, arrays, axes: send(step, scalars_of(arrays, axes))


def scalars_of(arrays: Mapping[str, np.ndarray], axes: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Every finite number by path: `saccade/layer0/head3/entropy`, `saccade/layer0/head3/decile9/decile_focus`."""
    scalars = {}
    for name, values in arrays.items():
        if any(axis in _NOT_SCALARS for axis in axes[name]):
            continue
        for index in np.ndindex(values.shape):
            places = "".join(f"{axis}{i}/" for axis, i in zip(axes[name], index, strict=True))
            if np.isfinite(values[index]):
                scalars[f"saccade/{places}{name}"] = float(values[index])
    return scalars
