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
from saccade.observe.look import Look, look, map_rows
from saccade.observe.movement import Movement
from saccade.observe.probe import LayerTokens, Probe, RepeatedProbe, on_device_of
from saccade.observe.self_check import WORST, Check, self_check, tried
from saccade.observe.token_statistics import TokenStatistics
from saccade.observe.undisturbed import check_whole, unwrapped
from saccade.records.observation_log import ObservationLog
from saccade.records.provenance import provenance
from saccade.records.store import save_record
from saccade.report.watched_figure import write_watched

if TYPE_CHECKING:
    import xarray as xr

SINK = 0.3  # mean attention on the first token above which a head is called a sink [gu2024]
_SAMPLED = 32  # numbers of a parameter that tell whether it has changed

_OF_HEADS = attention_statistics.DEFINITIONS | attention_statistics.REPEATED_DEFINITIONS
_AXES = {name: ["layer", "head"] for name in _OF_HEADS} | {
    "decile_focus": ["layer", "head", "decile"],
    **{name: list(axes) for name, axes in attention_statistics.AXES.items()},
    "sink_share": [],
    "attention_map": ["sequence", "layer", "head", "map_query", "key"],
    "moved": ["layer", "head"],
    "loss": [],
    "look_seconds": [],
    "drive_rate": ["weight_layer", "weight_head"],
    "drive_query_to": ["weight_layer", "weight_head", "query_input"],
    "drive_key_to": ["weight_layer", "weight_head", "key_input"],
}
_DEFINITIONS = (
    _OF_HEADS
    | attention_statistics.SEVERAL
    | {
        "attention_map": (
            "1",
            "attention of some query rows of chosen sequences: a row sums to one; padding of the array is missing",
        ),
        "moved": (
            "1",
            "total variation between the kept maps and those of half the step: 0 = frozen, 1 = all attention is elsewhere; missing "
            "where no look is as early",
        ),
        "sink_share": (
            "1",
            f"share of heads with more than {SINK:g} of their attention on the first token, on average: 0 = none, 1 = all of them",
        ),
        "time": ("", "when the model was looked at: the step as the caller numbers it"),
        "loss": ("", "loss as the caller told it"),
        "look_seconds": ("s", "time this look took, without writing it"),
        "drive_rate": ("1", "largest singular value of F = -dL/d(W_Q W_K^T) at uniform attention: growth per step at rate 1"),
        "drive_query_to": ("1", "its left vector: what of the input the queries will read"),
        "drive_key_to": ("1", "its right vector: what of the input they will look for"),
    }
)


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
    label: str = "",
) -> Recorder:
    """A recorder to use in a `with` block around training; call `recorder.step(step)` once per step.

    | argument     | meaning                                                                                                    |
    |--------------|------------------------------------------------------------------------------------------------------------|
    | `model`      | any module; inside `torch.compile` and `DistributedDataParallel` the original one is observed              |
    | `probe`      | a batch the model can be called with: a tensor, a tuple of arguments, or named ones                        |
    | `every`      | `"log"` (0 to 7, then five to a doubling, and every 1000), a number of steps, or a list; the end always    |
    | `text`       | token ids of the user's own text, for frequencies and distinct tokens; default: the probe's                |
    | `budget`     | largest share of training time for observing; observations beyond it are skipped, except the first three,  |
    |              | the last, and some 30 that take seconds in total, spread evenly in log step; None: no limit                |
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
    | `label`      | what the run is called on pages, "lr 3e-4, seed 2" say; default: the name of its folder                    |
    """
    return Recorder(model, probe, every, text, budget, out, maps, weights, forward, batch_axis, documents, decode, drive, label)


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
        label: str = "",
    ) -> None:
        if not (drive is None or callable(drive)):
            raise InputError(f"`drive` must be a function of the model and the probe that gives the loss; got {shortened(drive)}.")
        self._model = unwrapped(checked_kind("model", model, nn.Module))
        check_whole(self._model)
        self._probe = Probe(probe, batch_axis, documents)
        self._drive = None if drive is None else partial(attention_drive, self._model, drive, on_device_of(self._model, probe))
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
        self._log = ObservationLog(self._out, self._about(every, checked_kind("label", label, str)))
        self._has_begun = False
        self._next_step = self._first_step = 0
        self._weights_due = 0
        self._seen_weights = b""
        self._movement = Movement()
        self._repeated: RepeatedProbe | None = None
        self.check: Check | None = None

    def __enter__(self) -> Recorder:
        self._begin()
        if self._is_first_rank:
            self._log.save()
        return self

    @property
    def _page(self) -> Path:
        return (self._out or Path()) / "report.html"

    def _begin(self) -> None:
        """The self-check, once and before anything is written; a model that fails it is not looked at."""
        if self._is_first_rank and not self._has_begun:
            self._has_begun = True
            started = time.perf_counter()
            tried(self._model, self._probe)
            self.check = self_check(self._model, self._probe, self._tokens)
            self._repeated = self._checked_repeated()
            self._budget.start(self._counting + time.perf_counter() - started)
            if self._drive is not None:
                self._drive()  # what it cannot read, it says now
            seen = f"{self.check.n_calls} attention calls seen, largest error against the model's own {self.check.worst:.1e}"
            dropped = "" if self.check.output is not None else " (its output not compared: it drops weights at random)"
            where = f"the page will be {self._page}" if self._out is not None else "nothing is written; for a page, pass `out`"
            say(f"{seen}{dropped}; {where}")
            if self.check.eager is not None and self.check.eager > WORST >= self.check.worst:
                say(
                    f"the weights that this model returns differ by {self.check.eager:.1e} from those that give its output; the "
                    "latter are recorded"
                )
            self._log.about["config"]["check"] = self.check.as_dict()

    def recall(self, record: xr.Dataset, before: int) -> None:
        """Go on from what an earlier part of this run saw until a step: movement is measured against the maps of half the step."""
        if "attention_map" not in record:
            return
        maps = record.attention_map.transpose("time", *_AXES["attention_map"])
        for step, seen in zip(record.time.values.tolist(), maps.values, strict=True):
            if step < before and not np.isnan(seen).all():
                self._movement.add(int(step), seen)

    def _checked_repeated(self) -> RepeatedProbe | None:
        """The repeated probe, if there can be one and the model takes it."""
        repeated = RepeatedProbe.of(self._probe)
        if repeated is not None:
            try:
                tried(self._model, repeated.probe)
            except InputError:
                return None
        return repeated

    @guarded
    def step(self, step: int | None = None, loss: float | None = None) -> None:
        """Once a step of training, before or after the update; looks at the model if it is time. Without a number it counts."""
        number = self._next_step if step is None else checked_count("step", _plain(step), low=0)
        if number + 1 < self._next_step:
            warn(f"step {number} after step {self._next_step - 1} is not looked at: steps must grow.")
            return
        if self._next_step == 0:
            self._first_step = number
        self._next_step = number + 1
        if not self._is_first_rank:
            return
        self._begin()
        if self.check is not None and self._due(number) and number not in self._log.observations:
            if self._budget.allows_a_look(number - self._first_step):
                self.look(number, loss)
            else:
                self._leave_out(number)

    def _leave_out(self, step: int) -> None:
        thinned = self._log.about["config"]["thinned"]
        if not thinned:
            cost = self._budget.looking / max(self._budget.n_looks, 1)
            say(
                f"from step {step} on some looks are left out: one takes {cost:.2g} s, and all may take {self._budget.share:.3g} "
                "of training time; `budget=None` makes all"
            )
        thinned.append(step)

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
        found = look(self._model, self._probe, self._tokens, self._maps, self._repeated)
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
            moved = self._movement.add(step, arrays["attention_map"])
            if moved is not None:
                arrays["moved"] = moved.astype(np.float32)
        if "sink_mass" in arrays and (known := np.isfinite(arrays["sink_mass"])).any():
            arrays["sink_share"] = np.asarray((arrays["sink_mass"][known] > SINK).mean())
        return arrays

    @property
    def record(self) -> xr.Dataset:
        """All looks so far as a record."""
        if not self._log.observations:
            reason = "call `recorder.step(step)` in the training loop" if self._next_step == 0 else "no step told of was in `every`"
            raise InputError(f"nothing has been observed yet: {reason}.")
        spent = {"looking_s": self._budget.looking, "training_s": self._budget.training, "preparing_s": self._budget.preparing}
        self._log.about["config"] |= spent
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
                f"{len(thinned)} of {len(thinned) + len(self._log.observations)} looks were left out (`thinned` in the record's "
                f"config lists them); looking took {self._budget.looking:.2g} s, {share:.2g} of training time"
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
            page = write_watched(out, record, "saccade.watch")
            self._log.save(ended=True)
            say(f"{record.sizes['time']} looks; page: {page}")

    def _about(self, every: Any, label: str) -> dict[str, Any]:
        config = {
            "task": type(self._model).__name__,
            "label": label,
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
        self._log.about["coords"] |= {
            "measure": ("measure", list(attention_statistics.MEASURES)),
            "place": ("place", list(attention_statistics.PLACES)),
        }
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
        untold = [name for name in _OF_HEADS if name not in arrays or np.isnan(arrays[name]).all()]
        reasons: dict[str, list[str]] = {}
        for name in untold:
            reasons.setdefault(self._why_untold(name, untold), []).append(name)
        for reason, names in reasons.items():
            say(f"not told by this probe: {', '.join(names)} ({reason})")
        if "judged_mass" not in untold and np.nanmean(arrays["judged_mass"]) < 0.5:
            say(
                "most attention is on tokens too rare to call distinct or common; give more token ids as `text` (without it the "
                "probe itself is counted)"
            )
        return untold

    def _of_drive(self, drive: AttentionDrive) -> dict[str, np.ndarray]:
        """The top singular value of F and its pair, head by head."""
        self._log.about["coords"].setdefault("weight_layer", ("weight_layer", list(drive.layers)))
        return {f"drive_{name}": getattr(drive, name).astype(np.float32) for name in ("rate", "query_to", "key_to")}

    def _why_untold(self, name: str, untold: list[str]) -> str:
        if name in ("largest_logit", "entropy_bound", "entropy_slack"):
            return "its attention gives weights without the logits they are made from"
        if "sink_mass" in untold:
            return "it holds no token ids" if self._tokens.main is None else "attention does not run over its tokens"
        if name in attention_statistics.REPEATED_DEFINITIONS:
            return "it is not a text alone, is shorter than 8 tokens or has fewer than 4 different ones"
        return "it is too short, or its tokens are not in the text"

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
