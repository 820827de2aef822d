"""Watch attention learn in any PyTorch model: `saccade.watch(model, probe)` around a training loop that stays as it is.

At the steps of a schedule the probe is run through the model and measured (`look.py`); nothing of the model or of the random
generators is different afterwards (`undisturbed.py`), and the time it takes is kept within a budget (`budget.py`). Before the
first step what is seen is checked against what the model computes (`self_check.py`). From there on no error in watching, a full
disk among them, reaches the training loop (`guard.py`).
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from saccade.errors import InputError, checked_count, checked_kind, is_list_like, shortened
from saccade.observe import attention_statistics, weight_statistics
from saccade.observe.budget import Budget, schedule
from saccade.observe.drive import AttentionDrive, attention_drive
from saccade.observe.forwarding import forwarders
from saccade.observe.guard import Guard, guarded, say, warn
from saccade.observe.look import Look, look, map_rows, moved
from saccade.observe.probe import LayerTokens, Probe
from saccade.observe.self_check import Check, self_check, tried
from saccade.observe.token_statistics import TokenStatistics
from saccade.observe.undisturbed import check_whole, unwrapped
from saccade.records.observation_log import ObservationLog
from saccade.records.provenance import provenance
from saccade.records.store import save_record
from saccade.report.watched_figure import write_watched

if TYPE_CHECKING:
    import xarray as xr

_SAMPLED = 32  # numbers of a parameter that tell whether it has changed

_AXES = {name: ["layer", "head"] for name in attention_statistics.DEFINITIONS} | {
    "decile_focus": ["layer", "head", "decile"],
    "attention_map": ["sequence", "layer", "head", "map_query", "key"],
    "moved": ["layer", "head"],
    "loss": [],
    "look_seconds": [],
    "drive_rate": ["weight_layer", "weight_head"],
    "drive_query_to": ["weight_layer", "weight_head", "query_input"],
    "drive_key_to": ["weight_layer", "weight_head", "key_input"],
}
_DEFINITIONS = attention_statistics.DEFINITIONS | {
    "attention_map": ("1", "attention of some query rows of chosen sequences: a row sums to one; padding of the array is missing"),
    "moved": ("1/log step", "total variation of the kept maps since the last look, over the log of the steps: 0 = frozen"),
    "time": ("", "when the model was looked at: the step as the caller numbers it"),
    "loss": ("", "loss as the caller told it"),
    "look_seconds": ("s", "time this look took, without writing it"),
    "drive_rate": ("1", "largest singular value of F = -dL/d(W_Q W_K^T) at uniform attention: growth per step at rate 1"),
    "drive_query_to": ("1", "its left vector: what of the input the queries will read"),
    "drive_key_to": ("1", "its right vector: what of the input they will look for"),
}


def watch(
    model: nn.Module,
    probe: Any,
    *,
    every: str | int | Sequence[int] = "log",
    text: Any = None,
    budget: float | None = 0.02,
    out: str | Path | None = None,
    maps: Sequence[int] = (0,),
    weights: bool = True,
    forward: Any = (),
    batch_axis: int = 0,
    documents: Any = None,
    decode: Callable[[list[int]], str] | None = None,
    drive: Callable[[nn.Module, Any], torch.Tensor] | None = None,
) -> Recorder:
    """A recorder to use in a `with` block around training; call `recorder.step(step)` once per step.

    | argument     | meaning                                                                                                    |
    |--------------|------------------------------------------------------------------------------------------------------------|
    | `model`      | any module; inside `torch.compile` and `DistributedDataParallel` the original one is observed              |
    | `probe`      | a batch the model can be called with: a tensor, a tuple of arguments, or named ones                        |
    | `every`      | `"log"` (0, 1, 2, 4, ... 512, then every 1000), a number of steps, or a list of steps; the end always      |
    | `text`       | token ids of the user's own text, for frequencies and distinct tokens; default: the probe's                |
    | `budget`     | largest share of training time for observing; observations beyond it are skipped, except the first three   |
    |              | and the last; None: no limit                                                                               |
    | `out`        | a new folder for every observation as it is made, and a record at the end; None: all stays in memory       |
    | `maps`       | sequences of the probe whose attention maps are kept                                                       |
    | `weights`    | whether to compute singular values of weights too, each time the step has at least doubled                 |
    | `forward`    | also send numbers to: a TensorBoard writer, a Weights & Biases run, `mlflow`, `trackio`, or a function     |
    | `batch_axis` | axis of sequences in the probe's tensors: 1 for models that take positions first                           |
    | `documents`  | (sequence, position) 0 on padding, else the number of the token's document; default: from the probe's      |
    |              | `attention_mask` and `position_ids`, if it names them                                                      |
    | `decode`     | from token ids to text, such as a tokenizer's `decode`, so that the page shows words, not numbers          |
    | `drive`      | `loss(model, probe)`: keep the top singular value and pair of F of each head too, `saccade.attention_drive` |
    |              | of the probe; a backward pass for each multiple of the head's width in the model's, within the budget      |
    """
    return Recorder(model, probe, every, text, budget, out, maps, weights, forward, batch_axis, documents, decode, drive)


class Recorder:
    """What `watch` returns: observes the model at the chosen steps and holds the record. It never raises during training."""

    def __init__(
        self,
        model: nn.Module,
        probe: Any,
        every: str | int | Sequence[int],
        text: Any,
        budget: float | None,
        out: str | Path | None,
        maps: Sequence[int],
        weights: bool,
        forward: Any,
        batch_axis: int = 0,
        documents: Any = None,
        decode: Callable[[list[int]], str] | None = None,
        drive: Callable[[nn.Module, Any], torch.Tensor] | None = None,
    ) -> None:
        self._drive = None if drive is None else partial(attention_drive, model, drive, probe)
        self._model = unwrapped(checked_kind("model", model, nn.Module))
        check_whole(self._model)
        self._probe = Probe(probe, batch_axis, documents)
        self._maps = _sequences(maps, self._probe.n_batch)
        self._due = schedule(every)
        self._budget = Budget(budget)
        self._weights = weights
        self._forward = forwarders(forward)
        self._decode = _checked_decode(decode)
        started = time.perf_counter()
        self._counted = _counted(text, self._probe)
        self._tokens = LayerTokens(self._model, self._probe, self._counted)
        self._counting = time.perf_counter() - started  # s
        self.guard = Guard()
        self._is_first_rank = not _is_distributed() or torch.distributed.get_rank() == 0
        if not isinstance(out, str | Path | None):
            raise InputError(f"`out` must be a new folder, or None to keep all in memory; got {shortened(out)}.")
        self._out = None if out is None or not self._is_first_rank else Path(out)
        self._log = ObservationLog(self._out, self._about(every))
        self._has_begun = False
        self._next_step = 0
        self._weights_due = 0
        self._seen_weights = b""
        self._last: tuple[int, np.ndarray] | None = None
        self.check: Check | None = None

    def __enter__(self) -> Recorder:
        self._begin()
        if self._is_first_rank:
            self._log.save()
        return self

    def _begin(self) -> None:
        """The self-check, once and before anything is written; a model that fails it is not looked at."""
        if self._is_first_rank and not self._has_begun:
            self._has_begun = True
            started = time.perf_counter()
            tried(self._model, self._probe)
            self.check = self_check(self._model, self._probe, self._tokens)
            if self._drive is not None:
                self._drive()  # what it cannot read, it says now
            self._budget.start(self._counting + time.perf_counter() - started)
            seen = f"{self.check.n_calls} attention calls seen, largest error against the model's own {self.check.worst:.1e}"
            dropped = "" if self.check.output is not None else " (its output not compared: it drops weights at random)"
            say(f"{seen}{dropped}")
            self._log.about["config"]["check"] = self.check.as_dict()

    @guarded
    def step(self, step: int | None = None, loss: float | None = None) -> None:
        """Once a step of training, before or after the update; looks at the model if it is time. Without a number it counts."""
        number = self._next_step if step is None else checked_count("step", _plain(step), low=0)
        if number + 1 < self._next_step:
            warn(f"step {number} after step {self._next_step - 1} is not looked at: steps must grow.")
            return
        self._next_step = number + 1
        if not self._is_first_rank:
            return
        self._begin()
        if self.check is not None and self._due(number) and number not in self._log.observations:
            if self._budget.allows_a_look():
                self.look(number, loss)
            else:
                self._log.about["config"]["thinned"].append(number)

    @guarded
    def observe(self, step: int, loss: float | None = None) -> None:
        """Look now, whatever the schedule and the budget say."""
        self.look(step, loss)

    def look(self, step: int, loss: float | None = None) -> None:
        """The same outside training: an error is raised."""
        started = time.perf_counter()
        try:
            arrays = self._looked(step)
            if loss is not None:
                with self.guard("the loss was left out"):
                    arrays["loss"] = np.asarray(_checked_loss(loss))
            arrays["look_seconds"] = np.asarray(time.perf_counter() - started)
            self._log.append(step, arrays)
            with self.guard("looks are kept in memory until they can be written"):
                self._log.save()
            for send in self._forward:
                with self.guard("numbers could not be sent on"):
                    send(step, arrays, self._log.about["axes"])
        finally:
            took = time.perf_counter() - started  # with what writing and sending cost, and also if it failed
            self._budget.took(took)
            self._log.about["wall_time_s"] += took

    def _looked(self, step: int) -> dict[str, np.ndarray]:
        """What is measured now."""
        found = look(self._model, self._probe, self._tokens, self._maps)
        self._seen_weights = self._weights_now()
        arrays = found.arrays(self._noted_layers(found))
        self._note_axes(found, arrays)
        if self._weights and step >= self._weights_due:
            arrays |= self._of_weights()
            self._weights_due = 2 * step + 1  # weights move slowly, and their spectra cost more than attention does
        if self._drive is not None:
            with self.guard("what drives attention was left out"):
                arrays |= self._of_drive(self._drive())
        if "attention_map" in arrays:
            if self._last is not None and self._last[0] < step:
                arrays["moved"] = moved(self._last[1], arrays["attention_map"], self._last[0], step).astype(np.float32)
            self._last = step, arrays["attention_map"]
        return arrays

    @property
    def record(self) -> xr.Dataset:
        """All looks so far as a record."""
        if not self._log.observations:
            reason = "call `recorder.step(step)` in the training loop" if self._next_step == 0 else "no step told of was in `every`"
            raise InputError(f"nothing has been observed yet: {reason}.")
        self._log.about["config"] |= {"looking_s": self._budget.looking, "training_s": self._budget.training}
        return self._log.record()

    @guarded
    def __exit__(self, kind: Any, *details: Any) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()

    @guarded
    def finish(self, loss: float | None = None) -> None:
        """Training is over: look at what its last update has left, whatever schedule and budget say, unless that is done; close."""
        with self.guard("the end of training was not looked at"):
            if self.check is not None and self._next_step > 0 and self._seen_weights != self._weights_now():
                self.look(self._next_step, loss)
        self.close()

    @torch.no_grad()
    def _weights_now(self) -> bytes:
        """Some numbers of every parameter: an update changes them. PyTorch's own count of changes leaves fused optimisers out."""
        sampled = (weight.detach().flatten()[:: max(1, weight.numel() // _SAMPLED)] for weight in self._model.parameters())
        return b"".join(numbers.double().cpu().numpy().tobytes() for numbers in sampled)

    @guarded
    def close(self) -> None:
        """Write what was left out beside the looks, and all of them as one record."""
        thinned, lost = (self._log.about["config"].get(name, []) for name in ("thinned", "lost"))
        if self.check is not None and not self._log.observations:
            why = (
                "none that `recorder.step` was told of is in the schedule"
                if self._next_step
                else "`recorder.step` was never called"
            )
            say(f"no step was looked at: {why}")
        if thinned:
            share = self._budget.looking / max(self._budget.training, 1e-9)
            say(
                f"{len(thinned)} of {len(thinned) + len(self._log.observations)} looks were left out, from step "
                f"{thinned[0]} to {thinned[-1]} (`thinned` in the record's config lists them), for a budget of "
                f"{self._budget.share:.3g} of training time; with the check, the first three and the last, which are always made, "
                f"looking took {share:.2g} of it; `budget=None` makes all"
            )
        if lost:
            say(f"{len(lost)} looks that could not be written are lost: memory holds no more (`lost` in the config)")
        if self._out is not None and self.check is not None:
            self._write(self._out)

    def _write(self, out: Path) -> None:
        """All that can be written at the end: looks that wait for it, then the record, then its page."""
        with self.guard("some looks could not be written; `recorder.record` has them, for `saccade.save_record` to another disk"):
            self._log.save()
        if self._log.observations:
            record = self.record
            save_record(record, out / "record.zarr")
            write_watched(out, record, "saccade.watch")
            self._log.save(ended=True)

    def _about(self, every: Any) -> dict[str, Any]:
        config = {
            "task": type(self._model).__name__,
            "every": every if isinstance(every, str | int) else [int(step) for step in every],
            "budget": self._budget.share,
            "n_parameters": sum(parameter.numel() for parameter in self._model.parameters()),
            "thinned": [],
        }
        axes, definitions = dict(_AXES), {name: list(pair) for name, pair in _DEFINITIONS.items()}
        return {"config": config, "axes": axes, "coords": {}, "definitions": definitions, "wall_time_s": 0.0, **provenance()}

    def _noted_layers(self, found: Look) -> list[str]:
        """All layers seen so far, in the order in which they came; a model may call more of them later, or fewer."""
        _, layers = self._log.about["coords"].setdefault("layer", ("layer", []))
        layers += [layer for layer in found.layers if layer not in layers]
        return layers

    def _note_axes(self, found: Look, arrays: dict[str, np.ndarray]) -> None:
        """What the axes of maps mean, once; and, loudly, what was not seen or cannot be told."""
        if "unseen" in self._log.about["config"]:
            return
        for what in dict.fromkeys(found.unseen):
            warn(f"not seen: {what}.")
        untold = self._untold(arrays)
        self._log.about["config"] |= {"unseen": found.unseen, "untold": untold}
        if "attention_map" in arrays:
            self._log.about["coords"] |= {"sequence": ("sequence", self._maps)}
            if self._probe.ids is not None:
                self._log.about["config"]["map_tokens"] = [self._words(row) for row in self._probe.ids[self._maps].tolist()]
            if len(set(found.n_queries)) == 1:
                self._log.about["coords"] |= {"map_query": ("map_query", map_rows(found.n_queries[0]))}

    def _words(self, ids: list[int]) -> list[Any]:
        """Tokens of a kept map, for those who look at it."""
        return ids if self._decode is None else [str(self._decode([token])) for token in ids]

    def _untold(self, arrays: dict[str, np.ndarray]) -> list[str]:
        """Statistics that no layer has; said aloud, as is a text too short to judge tokens by."""
        untold = [name for name in attention_statistics.DEFINITIONS if name not in arrays or np.isnan(arrays[name]).all()]
        if untold:
            reason = "it is too short, or its tokens are not in the text"
            if "sink_mass" in untold:
                reason = "it holds no token ids" if self._tokens.main is None else "attention does not run over its tokens"
            say(f"not told by this probe: {', '.join(untold)} ({reason})")
        elif np.nanmean(arrays["judged_mass"]) < 0.5:
            say(
                "most attention is on tokens too rare to call distinct or common; give more token ids as `text` (without it the "
                "probe itself is counted)"
            )
        return untold

    def _of_drive(self, drive: AttentionDrive) -> dict[str, np.ndarray]:
        """The top singular value of F and its pair, head by head."""
        self._log.about["coords"].setdefault("weight_layer", ("weight_layer", list(drive.layers)))
        return {f"drive_{name}": getattr(drive, name).astype(np.float32) for name in ("rate", "query_to", "key_to")}

    def _of_weights(self) -> dict[str, np.ndarray]:
        found, axes, unrecognised = weight_statistics.weight_statistics(self._model)
        self._log.about["axes"] |= {name: list(of) for name, of in axes.items()}
        self._log.about["definitions"] |= {name: _of_some_looks(*weight_statistics.DEFINITIONS[name]) for name in found}
        self._log.about["config"]["weights_not_recognised"] = unrecognised
        if "weight_layer" not in self._log.about["coords"]:
            for sentence in unrecognised:
                say(f"weights: {sentence}")
            self._log.about["coords"]["weight_layer"] = ("weight_layer", weight_statistics.weight_layers(self._model))
        return {name: values.astype(np.float32) for name, values in found.items()}


def _counted(text: Any, probe: Probe) -> TokenStatistics | None:
    """Token statistics of the user's text, or of the probe itself, padding left out; None if the probe holds no token ids."""
    if probe.ids is None:
        if text is not None:
            raise InputError(f"`text` was given, but the probe holds no token ids to look up in it: {shortened(text)}.")
        return None
    documents = probe.documents() if text is None else text
    return TokenStatistics.count(documents, probe_ids=probe.all_ids(), name="text")


def _sequences(maps: Any, n_batch: int) -> list[int]:
    if not is_list_like(maps):
        raise InputError(f"`maps` must list sequences of the probe, from 0 to {n_batch - 1}; got {shortened(maps)}.")
    return [checked_count(f"maps[{place}]", index, low=0, high=n_batch - 1) for place, index in enumerate(maps)]


def _checked_decode(decode: Any) -> Any:
    if decode is not None and not callable(decode):
        raise InputError(
            f"`decode` must be a function from token ids to text, such as `tokenizer.decode`; got {shortened(decode)}."
        )
    return decode


def _of_some_looks(unit: str, definition: str) -> list[str]:
    return [unit, f"{definition}; taken when the step has doubled, missing between"]


def _checked_loss(loss: Any) -> float:
    number = _plain(loss)
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise InputError(f"`loss` must be one number; got {shortened(loss)}.")
    return float(number)


def _plain(number: Any) -> Any:
    """A tensor of one number as that number."""
    return number.item() if isinstance(number, torch.Tensor) and number.numel() == 1 else number


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
