"""Watch attention learn in any PyTorch model: `saccade.watch(model, probe)` around a training loop
that stays as it is.

At the steps of a schedule the probe is run through the model and measured (`observer.py`); nothing
of the model or of the random generators is different afterwards (`undisturbed.py`), and the time it
takes is kept within a budget (`budget.py`). Before the first step what is seen is checked against
what the model computes (`self_check.py`). From there on no error in watching, a full disk among
them, reaches the training loop (`guard.py`).
"""

from __future__ import annotations

import hashlib
import io
import numbers
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from saccade.errors import InputError, checked_count, checked_kind, is_list_like, shortened
from saccade.records.observation_log import ObservationLog, empty_record
from saccade.records.store import save_record
from saccade.report.watched_files import write_watched
from saccade.watching.account import Account
from saccade.watching.attention_statistics import MEASURES, PLACES
from saccade.watching.attention_weights import Names, check_names
from saccade.watching.budget import Budget, schedule
from saccade.watching.drive import attention_drive
from saccade.watching.forwarding import forwarders
from saccade.watching.guard import Guard, guarded, say, warn
from saccade.watching.losses import Losses, plain
from saccade.watching.observer import Observer
from saccade.watching.probe import LayerTokens, Probe, held, on_device_of
from saccade.watching.self_check import WORST, Check
from saccade.watching.token_statistics import TokenStatistics
from saccade.watching.undisturbed import is_spread, unwrapped
from saccade.watching.watched_variables import AXES

if TYPE_CHECKING:
    import xarray as xr


def watch(
    model: nn.Module,
    probe: Any,
    *,
    every: str | int | Sequence[int] = "log",
    text: Any = None,
    budget: float | None = 0.02,
    out: str | Path | None = None,
    maps: Sequence[int] = (0,),
    weights: bool | Mapping[str, Any] = True,
    forward: Any = (),
    batch_axis: int = 0,
    documents: Any = None,
    decode: Callable[[list[int]], str] | None = None,
    drive: Callable[[nn.Module, Any], torch.Tensor] | None = None,
    label: str = "",
    resume: bool = False,
    forward_heads: bool = False,
) -> Recorder:
    """A recorder to use in a `with` block around training; call `recorder.step(step)` once per
    step.

    | argument     | meaning                                                                                                    |
    |--------------|------------------------------------------------------------------------------------------------------------|
    | `model`      | any module; inside `torch.compile` and `DistributedDataParallel` the original one is observed; with FSDP2  |
    |              | (`fully_shard`) all processes run the probe together, so all must call the recorder                        |
    | `probe`      | a batch the model can be called with: a tensor, a tuple of arguments, or named ones                        |
    | `every`      | `"log"` (0 to 7, then five to a doubling, and every 1000), a number of steps, or a list; the end always    |
    | `text`       | token ids of your text, for frequencies and distinct tokens; default: the probe's                          |
    | `budget`     | largest share of training time for observing; observations beyond it are skipped, except the first three,  |
    |              | the last, and some 30 that take seconds in total, spread evenly in log step; None: no limit                |
    | `out`        | a new folder for every observation as it is made, and a record at the end; None: keep all in memory        |
    | `maps`       | sequences of the probe whose attention maps are kept                                                       |
    | `weights`    | whether to compute singular values of weights too, each time the step has at least doubled; or the names   |
    |              | of the matrices of attention, `{"q": "attn.q", "k": "attn.k", "v": "attn.v", "o": "attn.out"}` or          |
    |              | `{"qkv": ..., "o": ...}`, with `"heads": 8` if the module does not say; `qkv_by_head` if heads come first  |
    | `forward`    | where else to send numbers: a TensorBoard writer, a W&B run, `mlflow`, `trackio`, or a function of         |
    |              | (step, numbers); those of each layer, or of each head if `forward_heads`                                   |
    | `batch_axis` | axis of sequences in the probe's tensors: 1 for models that take positions first                           |
    | `documents`  | (sequence, position) 0 on padding, else the number of the token's document; default: from the probe's      |
    |              | `attention_mask` and `position_ids`, if it names them                                                      |
    | `decode`     | from token ids to text, such as a tokenizer's `decode`, so that the page shows words, not numbers          |
    | `drive`      | `loss(model, probe)`: keep the top singular value and pair of F of each head too, `saccade.watching.attention_drive` |
    |              | of the probe; a backward pass for each multiple of the head's width in the model's, within the budget      |
    | `label`      | name of the run on pages, such as "lr 3e-4, seed 2"; default: the name of its folder                       |
    | `resume`     | resume the run in `out`, if there is one with this label, model and probe; then give every step its number  |
    """
    arguments = (
        every,
        text,
        budget,
        out,
        maps,
        weights,
        forward,
        batch_axis,
        documents,
        decode,
        drive,
        label,
        resume,
        forward_heads,
    )
    return Recorder(model, probe, *arguments)


_MOST_STEPS = 10**15  # so that file names and float64 hold every step


class Recorder:
    """What `watch` returns: observes the model at the chosen steps and holds the record. It never
    raises during training.
    """

    def __init__(
        self,
        model: nn.Module,
        probe: Any,
        every: str | int | Sequence[int],
        text: Any,
        budget: float | None,
        out: str | Path | None,
        maps: Sequence[int],
        weights: bool | Mapping[str, Any],
        forward: Any,
        batch_axis: int = 0,
        documents: Any = None,
        decode: Callable[[list[int]], str] | None = None,
        drive: Callable[[nn.Module, Any], torch.Tensor] | None = None,
        label: str = "",
        resume: bool = False,
        forward_heads: bool = False,
    ) -> None:
        if not (drive is None or callable(drive)):
            raise InputError(
                f"`drive` must be a function of the model and the probe that gives the loss; got {shortened(drive)}."
            )
        self._model = unwrapped(checked_kind("model", model, nn.Module))
        self._together = is_spread(
            self._model
        )  # all processes look, since each needs the others' weights; the first one writes
        self._probe = Probe(probe, batch_axis, documents)
        if self._together and drive is not None:
            raise InputError(
                "`drive` needs whole weights, and this model's are spread over processes."
            )
        driven = (
            None
            if drive is None
            else partial(
                attention_drive, self._model, drive, on_device_of(self._model, held(probe))
            )
        )
        n_batch = self._probe.n_batch
        if not is_list_like(maps):
            raise InputError(
                f"`maps` must list sequences of the probe, from 0 to {n_batch - 1}; got {shortened(maps)}."
            )
        kept = [
            checked_count(f"maps[{place}]", index, low=0, high=n_batch - 1)
            for place, index in enumerate(maps)
        ]
        measured = weights if isinstance(weights, bool) else Names.of(weights)
        if isinstance(measured, Names):
            check_names(self._model, measured)
        self._due = schedule(every)
        self._budget = Budget(budget)
        self._forward = forwarders(forward, forward_heads)
        started = time.perf_counter()
        self._tokens = LayerTokens(self._model, self._probe, _counted(text, self._probe))
        self._counting = time.perf_counter() - started  # s
        self.guard = Guard()
        self._is_first_rank = (
            not (torch.distributed.is_available() and torch.distributed.is_initialized())
            or torch.distributed.get_rank() == 0
        )
        if not isinstance(out, str | Path | None) or "\0" in str(out):
            raise InputError(
                f"`out` must be a new folder, or None to keep everything in memory; got {shortened(out)}."
            )
        if resume and out is None:
            raise InputError("`resume` needs `out`, the folder of the run to resume.")
        # Absolute: a script may change its folder while it trains.
        self._out = None if out is None or not self._is_first_rank else Path(out).absolute()
        if decode is not None and not callable(decode):
            raise InputError(
                f"`decode` must be a function from token ids to text, such as `tokenizer.decode`; got {shortened(decode)}."
            )
        account = Account(
            {
                "task": type(self._model).__name__,
                "label": checked_kind("label", label, str),
                "every": every if isinstance(every, str | int) else [int(step) for step in every],
                "budget": self._budget.share,
                "n_parameters": sum(parameter.numel() for parameter in self._model.parameters()),
            },
            self._probe,
            kept,
            decode,
        )
        self._observer = Observer(
            self._model,
            self._probe,
            self._tokens,
            partial(_counted, text),
            kept,
            measured,
            driven,
            account,
            self.guard,
        )
        # What must be the same in a run that goes on in the same folder.
        shapes = [
            (name, tuple(parameter.shape)) for name, parameter in self._model.named_parameters()
        ]
        account.config["identity"] = {
            "label": label,
            "model": _digest(repr(shapes)),
            "probe": _digest(*self._probe.parts()),
            "text": "" if self._tokens.text is None else _digest(self._tokens.text),
            "maps": kept,
            "set of measures": _digest(repr((AXES, MEASURES, PLACES))),
        }
        self._log = ObservationLog(self._out, account.about, resume=resume)
        self._goes_on = self._log.is_resumed  # and has not been told yet where
        self._has_begun = False
        self._next_step = self._first_step = 0
        self._losses = Losses()
        self.check: Check | None = None

    def __enter__(self) -> Recorder:
        self._begin()
        if self._is_first_rank:
            self._log.save()
        return self

    def _begin(self) -> None:
        """The self-check, once and before anything is written; a model that fails it is not looked
        at.
        """
        if (self._is_first_rank or self._together) and not self._has_begun:
            self._has_begun = True
            started = time.perf_counter()
            with self._one_voice():
                self.check = self._observer.checked()
                self._budget.start(self._counting + time.perf_counter() - started)
                self._observer.check_drive()
                self._say(self.check)
            self._log.about["config"]["check"] = self.check.as_dict()

    @contextmanager
    def _one_voice(self) -> Iterator[None]:
        """Of several processes that look together, the first speaks."""
        if self._is_first_rank:
            yield
        else:
            with redirect_stderr(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield

    def _agreed(self, wanted: bool) -> bool:
        """Whether to look: the first process, which has the clock and the record, decides for all."""
        if self._together:
            said = [wanted]
            torch.distributed.broadcast_object_list(said, src=0)
            return said[0]
        return wanted

    def _say(self, check: Check) -> None:
        """What the check found, and where the page will be."""
        seen = f"{check.n_calls} attention calls seen, largest error against the model's own {check.worst:.1e}"
        dropped = (
            ""
            if check.output is not None
            else " (its output not compared: it drops weights at random)"
        )
        where = (
            f"the page will be {self._out / 'report.html'}"
            if self._out is not None
            else "nothing is written; for a page, pass `out`"
        )
        say(f"{seen}{dropped}; {where}")
        if check.eager is not None and check.eager > WORST >= check.worst:
            say(
                f"the weights that this model returns differ by {check.eager:.1e} from those that give its output; the latter are "
                "recorded"
            )

    def recall(self, record: xr.Dataset, before: int) -> None:
        """Go on from what an earlier part of this run saw until a step."""
        self._observer.recall(record, before)

    @guarded
    def step(self, step: int | None = None, loss: float | None = None) -> None:
        """Once a step of training, before or after the update; observes the model if it is time.
        Without a number it counts.
        """
        if step is None and self._goes_on:
            raise InputError(
                "a resumed run needs the number of each step: call `recorder.step(step)`"
            )
        number = (
            self._next_step
            if step is None
            else checked_count("step", plain(step), low=0, high=_MOST_STEPS)
        )
        if number + 1 < self._next_step:
            warn(
                f"step {number} after step {self._next_step - 1} is not observed: steps must increase."
            )
            return
        is_first = self._next_step == 0
        if is_first:
            self._first_step = number
        self._next_step = number + 1
        if self._is_first_rank:
            self._losses.add(number, loss)
        self._begin()
        if self.check is None or not (is_first or self._due(number)):
            return
        seen_before = (
            number in self._log.observations
        )  # by a run that was stopped: what is there now may be another model
        self._go_on(number)
        is_wanted = (self._due(number) or seen_before) and number not in self._log.observations
        is_allowed = is_wanted and self._budget.allows_a_look(number - self._first_step)
        if self._agreed(is_allowed):
            self.look(number, loss)
        elif is_wanted and self._is_first_rank:
            thinned = self._log.about["config"]["thinned"]
            if not thinned:
                cost = self._budget.looking / max(self._budget.n_looks, 1)
                say(
                    f"from step {number} on some observations are skipped: one takes {cost:.2g} s, and all together may take "
                    f"{100 * (self._budget.share or 0.0):.3g} % of training time, or a few seconds; `budget=None` skips none"
                )
            thinned.append(number)

    def _go_on(self, step: int) -> None:
        """Of a run that was stopped, what comes before this step is kept, and what comes after
        gives way to what is seen now.
        """
        if not self._goes_on:
            return
        self._goes_on = False
        n_before = len(self._log.observations)
        last = max((each for each in self._log.observations if each < step), default=-1)
        with self.guard("losses before this step were left out"):
            for each in sorted(each for each in self._log.observations if each >= last):
                self._losses.recall(each, self._log.arrays(each), last, step)
        with self.guard("that the run was resumed could not be written"):
            self._log.go_on_from(step)
        n_kept = len(self._log.observations)
        gone = (
            f"; {n_before - n_kept} of later steps are replaced (their files are kept)"
            if n_kept < n_before
            else ""
        )
        say(f"resuming from step {step}: {n_kept} earlier observations{gone}")
        if n_kept:
            with self.guard("movement of attention is measured from here on"):
                self.recall(self._log.record(), step)

    @guarded
    def observe(self, step: int, loss: float | None = None) -> None:
        """Look now, whatever the schedule and the budget say."""
        self.look(step, loss)

    def look(self, step: int, loss: float | None = None) -> None:
        """The same outside training: an error is raised."""
        step = checked_count("step", plain(step), low=0, high=_MOST_STEPS)
        self._go_on(step)
        started = time.perf_counter()
        try:
            with self._one_voice():
                arrays = self._observer.observed(step)
            if not self._is_first_rank:
                return
            if loss is not None:
                with self.guard("the loss was left out"):
                    number = plain(loss)
                    if isinstance(number, bool) or not isinstance(number, numbers.Real):
                        raise InputError(f"`loss` must be one number; got {shortened(loss)}.")
                    arrays["loss"] = np.asarray(float(number))
            with self.guard("losses between observations were left out"):
                self._losses.add(step, loss)
                arrays |= self._losses.until(step)
            arrays["look_seconds"] = np.asarray(time.perf_counter() - started)
            self._log.append(step, arrays)
            with self.guard("observations are kept in memory until they can be written"):
                self._log.save()
            for send in self._forward:
                with self.guard("numbers could not be sent on", may_exit=False):
                    send(step, arrays, self._log.about["axes"])
        finally:
            took = (
                time.perf_counter() - started
            )  # with what writing and sending cost, and also if it failed
            self._budget.took(took)
            self._log.about["wall_time_s"] += took

    @property
    def record(self) -> xr.Dataset:
        """All observations so far as a record. Of several processes the first one records; in the
        others the record is empty and says so.
        """
        if not self._is_first_rank:
            rank = torch.distributed.get_rank()
            why = f"Process {rank} records nothing: the record is in the first process (rank 0)."
            return empty_record(self._log.about, why)
        if not self._log.observations:
            reason = (
                "call `recorder.step(step)` in the training loop"
                if self._next_step == 0
                else "no step so far was in `every`"
            )
            raise InputError(f"nothing has been observed yet: {reason}.")
        spent = {
            "looking_s": self._budget.looking,
            "training_s": self._budget.training,
            "preparing_s": self._budget.preparing,
        }
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
        """Training is over: observe what its last update has left, whatever schedule and budget
        say, unless that is done; close.
        """
        with self.guard("the end of training was not observed"):
            if (
                self.check is not None
                and self._next_step > 0
                and self._agreed(self._observer.has_changed())
            ):
                self.look(self._next_step, loss)
        self.close()

    @guarded
    def close(self) -> None:
        """Write what was left out beside the observations, and all of them as one record."""
        thinned, lost = (self._log.about["config"].get(name, []) for name in ("thinned", "lost"))
        if self.check is not None and not self._log.observations and self._is_first_rank:
            why = (
                "no step given to `recorder.step` is in the schedule"
                if self._next_step
                else "`recorder.step` was never called"
            )
            say(f"no step was observed: {why}")
        if thinned:
            share = self._budget.looking / max(self._budget.training, 1e-9)
            say(
                f"{len(thinned)} of {len(thinned) + len(self._log.observations)} observations were skipped (`thinned` in the "
                f"record's config lists them); observing took {self._budget.looking:.2g} s, {100 * share:.1f} % of training time"
            )
        if lost:
            say(
                f"{len(lost)} observations are lost: they could not be written, and memory is full (`lost` in the config)"
            )
        with self.guard("losses after the last observation could not be written"):
            last = max(self._log.observations, default=-1)
            if last >= 0 and (later := self._losses.after(last)):
                self._log.extend(last, later)
        if self._out is not None and self.check is not None:
            try:
                with self.guard(
                    "some observations could not be written; `recorder.record` has them, for `saccade.save_record` to another disk"
                ):
                    self._log.save()
                if self._log.observations:
                    record = self.record
                    save_record(record, self._out / "record.zarr")
                    page = write_watched(self._out, record)
                    self._log.save(ended=True)
                    say(f"{record.sizes['time']} observations; page: {page}")
            finally:
                self._log.release()


def _digest(*parts: Any) -> str:
    """Of texts and arrays, in their order."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).data)
    return found.hexdigest()[:16]


def _counted(text: Any, probe: Probe) -> TokenStatistics | None:
    """Token statistics of the user's text, or of the probe itself, padding left out; None if the
    probe holds no token ids.
    """
    if probe.ids is None:
        if text is not None:
            raise InputError(
                f"`text` was given, but the probe holds no token ids to look up in it: {shortened(text)}."
            )
        return None
    documents = probe.documents() if text is None else text
    return TokenStatistics.count(documents, probe_ids=probe.all_ids(), name="text")
