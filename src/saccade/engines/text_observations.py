"""What is recorded of a training run on text: loss, validation loss, attention on a probe and the
caller's own measures.

Looks are made at given steps, before the update of that step, with the model undisturbed
(`watching/undisturbed.py`). Attention is measured by the recorder that watches any model
(`watching/recorder.py`); a look that it leaves out for its budget is missing there.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from saccade.engines.text_batches import Batch
from saccade.engines.text_checkpoints import checkpoint_steps
from saccade.errors import InputError
from saccade.models.blocked_loss import blocked_cross_entropy
from saccade.models.transformer import Transformer
from saccade.records.json_files import parsed_json
from saccade.records.schema import VARIABLES, make_record
from saccade.watching.recorder import Recorder, watch
from saccade.watching.undisturbed import undisturbed, unwrapped

if TYPE_CHECKING:
    import xarray as xr

Measures = Callable[[Transformer, int], Mapping[str, Any]]

_DEFINITIONS = {
    "valid_loss": (
        "nats",
        "cross-entropy of the next token on fixed windows of the validation text, without dropout",
    )
}


def next_token_loss(model: torch.nn.Module, batch: Batch, last_only: bool) -> Tensor:
    """Mean cross-entropy, of the last position of each window alone if `last_only`. `model` may be
    wrapped.
    """
    own = cast(Transformer, unwrapped(model))
    targets = (batch.following[:, -1:] if last_only else batch.following).flatten()
    if last_only and own is model and own.config.averages_tokens and torch.is_grad_enabled():
        return own.averaged_loss(batch.ids, targets)
    hidden = model(batch.ids, last_only, True).flatten(0, 1)
    return blocked_cross_entropy(hidden, own.unembedding.weight, own.unembedding.bias, targets)


class Looks:
    """Looks at one run, in the order of their steps."""

    def __init__(
        self,
        model: Transformer,
        steps: np.ndarray,
        *,
        probe: Tensor,
        valid: Batch | None,
        last_only: bool,
        measures: Measures | None,
        is_watched: bool,
        budget: float | None,
        weights: bool,
    ) -> None:
        self.steps = set(steps.tolist())
        self.checkpoint_steps = checkpoint_steps(steps)
        self._model, self._valid, self._last_only, self._measures = (
            model,
            valid,
            last_only,
            measures,
        )
        self._found: dict[int, dict[str, Any]] = {}
        self._looked = False
        self._recorder: Recorder | None = None
        if is_watched:
            every = sorted(self.steps)
            self._recorder = watch(
                model, (probe, last_only, True), every=every, budget=budget, weights=weights
            )

    def resume(self, record: xr.Dataset, step: int) -> None:
        """The run goes on at a step; `record` is of the part before it."""
        if self._recorder is not None:
            self._recorder.recall(record, step)

    def look(self, step: int, loss: float) -> None:
        """`loss`: of the batch that is about to be learned from."""
        if self._recorder is not None:
            with contextlib.redirect_stderr(
                io.StringIO()
            ):  # the recorder says what it checked; the record says so too
                self._recorder.step(step)
        found: dict[str, Any] = {"loss": loss}
        if self._valid is not None or self._measures is not None:
            with undisturbed(self._model):
                if self._valid is not None:
                    found["valid_loss"] = next_token_loss(
                        self._model, self._valid, self._last_only
                    ).item()
                if self._measures is not None:
                    found |= self._measures(self._model, step)
        self._found[step] = found
        self._looked = True

    def diverged(self, step: int) -> None:
        """The model is not looked at: everything of it is missing at this step."""
        self._found[step] = {"loss": math.nan}

    def record(
        self, config: Mapping[str, Any], stop_reason: str, stop_time: int, wall_time: float
    ) -> xr.Dataset:
        """All looks so far."""
        names = dict.fromkeys(name for found in self._found.values() for name in found)
        series = {name: _over_time(name, list(self._found.values())) for name in names}
        seen = self._recorder.record if self._recorder is not None and self._looked else None
        record = make_record(
            dynamics="training on text",
            variables={name: (dims, values) for name, (dims, values, _) in series.items()}
            | {"stop_reason": stop_reason, "stop_time": stop_time},
            coords={"time": list(self._found)},
            time_unit="updates",
            config=dict(config)
            | {"watching": None if seen is None else parsed_json(seen.attrs["config"])},
            wall_time=wall_time,
            definitions={name: about for name, (_, _, about) in series.items()},
        )
        if seen is None:
            return record
        seen = seen.reindex(time=record["time"])  # a look that the budget left out is missing
        return record.assign_coords(seen.coords).assign(
            {name: seen[name] for name in seen.data_vars if name not in record}
        )


def _over_time(
    name: str, looks: list[dict[str, Any]]
) -> tuple[tuple[str, ...], np.ndarray, tuple[str, str]]:
    """One measure of all looks: axes, values with missing ones as NaN, and unit and definition."""
    known = [_measured(name, found[name]) for found in looks if name in found]
    dims, first, about = known[0]
    for _, values, _ in known:
        if values.shape != first.shape:
            raise InputError(
                f"measure `{name}` must have one shape at all observations; got {first.shape} and {values.shape}."
            )
    missing = np.full(first.shape, np.nan)
    return (
        ("time", *dims),
        np.stack(
            [_measured(name, found[name])[1] if name in found else missing for found in looks]
        ),
        about,
    )


def _measured(name: str, value: Any) -> tuple[tuple[str, ...], np.ndarray, tuple[str, str]]:
    """An array, or as xarray has it (axes, array) or (axes, array, attributes), the latter with
    `units` and `definition`.
    """
    dims, values, attributes = (*value, {})[:3] if isinstance(value, tuple) else (None, value, {})
    array = np.asarray(values)
    own = tuple(f"{name}_{i}" for i in range(array.ndim))
    named = own if dims is None else (dims,) if isinstance(dims, str) else tuple(dims)
    if len(named) != array.ndim:
        raise InputError(
            f"measure `{name}` has {array.ndim} axes, but names for {len(named)} of them."
        )
    unit, definition = _DEFINITIONS.get(name, VARIABLES.get(name, ("", "measured by the caller")))
    return named, array, (attributes.get("units", unit), attributes.get("definition", definition))
