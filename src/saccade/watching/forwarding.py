"""Send the numbers of a watched run to TensorBoard, Weights & Biases, MLflow, trackio, or a
function.

None of them is imported here: what is given is asked what it can do. A group is a measure, a curve
in it a layer, the mean over its heads: `saccade_entropy/layer0`. With `heads` there is a curve for
each: `saccade_entropy/layer0/head3`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from saccade.errors import InputError, shortened

Sender = Callable[[int, Mapping[str, np.ndarray], Mapping[str, Sequence[str]]], None]
_NOT_SCALARS = (
    "steps_back",
    "map_query",
    "rank",
    "place",
    "measure",
    "query_input",
    "key_input",
)  # in the record: maps, spectra, vectors, errors
_HEADS = ("head", "weight_head")
_SHORT = {"weight_layer": "layer", "weight_head": "head"}
_LARGEST = ("largest_logit",)  # of a layer: not a mean over its heads
STEP = "saccade/step"


def forwarders(targets: Any, heads: bool = False) -> list[Sender]:
    """A sender for each target: one, or a list of them."""
    listed = list(targets) if isinstance(targets, list | tuple) else [targets]
    return [_scalar_sender(_sender(target), heads) for target in listed]


def _scalar_sender(send: Callable[[int, dict[str, float]], None], heads: bool) -> Sender:
    return lambda step, arrays, axes: send(step, scalars_of(arrays, axes, heads))


def _sender(target: Any) -> Callable[[int, dict[str, float]], None]:
    if hasattr(target, "add_scalar"):  # torch.utils.tensorboard.SummaryWriter

        def send(step: int, scalars: dict[str, float]) -> None:
            for key, value in scalars.items():
                target.add_scalar(key, value, step)

    elif hasattr(target, "log_metrics"):  # mlflow, and Lightning's loggers

        def send(step: int, scalars: dict[str, float]) -> None:
            target.log_metrics(scalars, step=step)

    elif hasattr(target, "define_metric"):  # a wandb run, or wandb itself
        is_defined: list[bool] = []

        def send(step: int, scalars: dict[str, float]) -> None:
            # A step of its own: W&B counts the loop's own calls of `log`, and drops what comes with
            # a smaller number.
            if not is_defined:
                target.define_metric(STEP, hidden=True)
                target.define_metric("saccade*", step_metric=STEP)
                is_defined.append(True)
            target.log(scalars | {STEP: step})

    elif hasattr(target, "log") and not isinstance(target, logging.Logger):  # trackio

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
    return send


def scalars_of(
    arrays: Mapping[str, np.ndarray], axes: Mapping[str, Sequence[str]], heads: bool = False
) -> dict[str, float]:
    """Every finite number by path, of a layer or, if `heads`, of a head; what is of the whole model
    is in the group `saccade`.
    """
    scalars = {}
    for name, values in arrays.items():
        over = tuple(axes[name])
        if any(axis in _NOT_SCALARS for axis in over):
            continue
        if (
            not heads
            and (place := next((place for place, axis in enumerate(over) if axis in _HEADS), None))
            is not None
        ):
            if len(over) > place + 1:  # deciles of each head
                continue
            known = np.isfinite(values)
            if name in _LARGEST:
                summary = np.where(
                    known.any(axis=-1), np.where(known, values, -np.inf).max(axis=-1), np.nan
                )
            else:
                summary = np.where(
                    known.any(axis=-1),
                    np.where(known, values, 0).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1),
                    np.nan,
                )
            values, over = summary, over[:place]
        for index in np.ndindex(values.shape):
            places = "/".join(
                f"{_SHORT.get(axis, axis)}{i}" for axis, i in zip(over, index, strict=True)
            )
            if np.isfinite(values[index]):
                scalars[f"saccade_{name}/{places}" if over else f"saccade/{name}"] = float(
                    values[index]
                )
    return scalars
