"""All that is measured of a model at one step: attention on the probe, how far it has moved,
weights, and what drives them.

What one observation must know of those before it is here: the maps of earlier steps, when weights
are due again. Not here: when to observe, for how long, and where it is kept (`recorder.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from saccade.errors import InputError
from saccade.measures.movement import Movement
from saccade.watching.account import Account
from saccade.watching.attention_weights import Names
from saccade.watching.drive import AttentionDrive
from saccade.watching.guard import Guard, say
from saccade.watching.layout import Layout
from saccade.watching.look import Look, listed, look
from saccade.watching.memories import Memories, hint
from saccade.watching.plain_weights import dequantised
from saccade.watching.probe import MAIN, SECOND, LayerTokens, Probe, RepeatedProbe
from saccade.watching.self_check import Check, UnfaithfulError, layout_of, self_check, tried
from saccade.watching.texts import attended, texts_of
from saccade.watching.token_statistics import TokenStatistics
from saccade.watching.watched_variables import AXES, SINK
from saccade.watching.weight_statistics import weight_statistics

if TYPE_CHECKING:
    import xarray as xr

_SAMPLED = 32  # numbers of a parameter that tell whether it has changed


class Observer:
    """A model and what is run through it; `weights` and `drive` say what is measured beside
    attention.
    """

    def __init__(
        self,
        model: nn.Module,
        probe: Probe,
        tokens: LayerTokens,
        counted: Callable[[Probe], TokenStatistics | None],
        maps: list[int],
        weights: bool | Names,
        drive: Callable[[], AttentionDrive] | None,
        account: Account,
        guard: Guard,
    ) -> None:
        self._model, self._probe, self._tokens, self._counted, self._maps = (
            model,
            probe,
            tokens,
            counted,
            maps,
        )
        self._weights, self._drive, self._account, self._guard = weights, drive, account, guard
        self._weights_due = 0
        self._seen_weights = b""
        self._movement = Movement()
        self._repeated: RepeatedProbe | None = None
        self._layout = Layout()
        self._memories, self._leaves_memories_out = Memories(model), False

    def checked(self) -> Check:
        """The self-check, before the first observation; a model that fails it is not observed."""
        tried(self._model, self._probe)
        try:
            self._layout = layout_of(self._model, self._probe)
            self._tell_texts()
            check = self_check(self._model, self._probe, self._tokens, self._layout)
        except (InputError, UnfaithfulError):
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or "no reason given"
            raise UnfaithfulError(
                f"attention of this model cannot be read ({type(error).__name__}: {reason}); nothing was recorded."
                f"{hint(self._model)}"
            ) from error
        self._repeated = self._checked_repeated()
        return check

    def _tell_texts(self) -> None:
        """Where the probe does not say which text a layer runs over, or what is padding, attention
        does.
        """
        roles = texts_of(self._model, self._probe, self._layout) if self._tokens.are_alike else {}
        self._tokens.tell(roles)
        seen = (
            {}
            if self._probe.tells_padding
            else attended(self._model, self._probe, self._tokens, self._layout)
        )
        if MAIN in seen:
            self._probe = self._probe.with_tokens(seen[MAIN])
            self._tokens = LayerTokens(self._model, self._probe, self._counted(self._probe))
            self._tokens.tell(roles)
        self._tokens.leave_out(seen)
        for text in (MAIN, SECOND):
            if text in seen:
                left = int((~seen[text]).sum())
                say(f"{left} positions of {text} are left out as padding: no query attends to them")

    def check_drive(self) -> None:
        """What it cannot read, it says now."""
        if self._drive is not None:
            self._drive()

    def _checked_repeated(self) -> RepeatedProbe | None:
        """The repeated probe, if there can be one and the model takes it: some take one length or
        one number of sequences only.
        """
        shapes = [(), (self._probe.n_positions,), (self._probe.n_positions, self._probe.n_batch)]
        for shape in shapes:
            repeated = RepeatedProbe.of(self._probe, *shape)
            if repeated is not None:
                with suppress(InputError):
                    tried(self._model, repeated.probe)
                    return repeated
        return None

    def recall(self, record: xr.Dataset, before: int) -> None:
        """Movement is measured against the maps of half the step, those of an earlier part of the
        run among them.
        """
        if "attention_map" not in record:
            return
        maps = record.attention_map.transpose("time", *AXES["attention_map"])
        for step, seen in zip(record.time.values.tolist(), maps.values, strict=True):
            if step < before and not np.isnan(seen).all():
                self._movement.add(int(step), seen)

    def observed(self, step: int) -> dict[str, np.ndarray]:
        """What is measured now."""
        found = self._look()
        self._seen_weights = self._weights_now()
        arrays = found.arrays(self._account.layers_with(found))
        self._account.note(found, arrays)
        if self._weights and step >= self._weights_due:
            names = self._weights if isinstance(self._weights, Names) else None
            parts = weight_statistics(self._model, names, found.n_heads)
            self._account.note_weights(parts)
            arrays |= {
                name: self._account.in_place(parts.layers, values)
                if "weight_layer" in parts.axes[name]
                else values.astype(np.float32)
                for name, values in parts.values.items()
            }
            self._weights_due = (
                2 * step + 1
            )  # weights move slowly, and their spectra cost more than attention does
        if self._drive is not None:
            with self._guard("what drives attention was left out"):
                drive = self._drive()
                layers = list(drive.layers)
                arrays |= {
                    f"drive_{name}": self._account.in_place(layers, getattr(drive, name))
                    for name in ("rate", "query_to", "key_to")
                }
        if "attention_map" in arrays:
            moved = self._movement.add(step, arrays["attention_map"])
            if moved is not None:
                arrays["moved"] = moved.astype(np.float32)
        if "sink_mass" in arrays and (known := np.isfinite(arrays["sink_mass"])).any():
            arrays["sink_share"] = np.asarray((arrays["sink_mass"][known] > SINK).mean())
        return arrays

    def _look(self) -> Look:
        """With what the model holds; if that fails, and from then on, without memories of batches
        that it was trained on.
        """
        given = self._probe, self._tokens, self._maps, self._repeated, self._layout
        if not self._leaves_memories_out:
            try:
                return look(self._model, *given)
            except (RuntimeError, ValueError, IndexError):
                if not self._memories.new():
                    raise
        names = self._memories.new()
        with self._memories.left_out():
            found = look(self._model, *given)
        if not self._leaves_memories_out:
            say(
                f"the probe does not fit what training has left in {listed(names)}: from here on it is run without"
            )
        self._leaves_memories_out = True
        return found

    def has_changed(self) -> bool:
        """Whether the model has been updated since it was last observed."""
        return self._seen_weights != self._weights_now()

    @torch.no_grad()
    def _weights_now(self) -> bytes:
        """Some numbers of every parameter: an update changes them. PyTorch's own count of changes
        leaves fused optimisers out.
        """
        here: list[Any] = [
            each.to_local() if hasattr(each, "to_local") else each
            for each in self._model.parameters()
        ]
        return b"".join(_sample(weight) for weight in here)


def _sample(weight: torch.Tensor) -> bytes:
    """Some of its numbers; of one that does not give any, a quantised one of an unknown kind, which
    it is and how often written.
    """
    try:
        numbers = dequantised(weight.detach()).flatten()[:: max(1, weight.numel() // _SAMPLED)]
        return numbers.double().cpu().numpy().tobytes()
    except Exception:  # whatever such tensors raise at what they cannot do
        return f"{id(weight)} {weight._version}".encode()
