"""The stages of one run of `text-cycle`: how far it condensed, focused, diluted and opened new directions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from saccade.experiments.real_text.text_cycle_runs import Array, first_move
from saccade.observe.events import find_events
from saccade.observe.measures import entropy, top_share
from saccade.records.events import Event

FOCUSED = 0.9  # attention that counts as all of it: of ten parts one is left


class Cycle(NamedTuple):
    """One run, without what is missing."""

    step: Array
    on_frequent: Array
    values: Array
    query_norm: Array
    loss: Array
    probe: Array

    @property
    def joint(self) -> Array:
        """Attention that every query has on the frequent token at the same time: the least of them."""
        return self.on_frequent.min(axis=1)

    @property
    def ratio(self) -> Array:
        return self.values[:, 1] / self.values[:, 0]

    def events(self) -> list[Event]:
        return find_events(
            self.step,
            attention_on_frequent=self.on_frequent,
            embedding_singular_values=self.values,
            query_norm=self.query_norm,
            loss=self.loss,
        )

    def probe_focus(self) -> tuple[int, int]:
        """The look and the word at which all probe words attend most to one word at once."""
        together = self.probe.min(axis=1)
        look, word = np.unravel_index(int(together.argmax()), together.shape)
        return int(look), int(word)

    def stage_looks(self) -> dict[str, int]:
        """Where the probe is drawn; dilution is where its attention is most spread after the joint focus."""
        focus, _ = self.probe_focus()
        spread = focus + int(entropy(self.probe[focus:]).mean(axis=1).argmax())
        return {"start": 0, "focus": focus, "dilution": spread, "end": len(self.step) - 1}


def cycle_of(record: xr.Dataset, text: str, seed: int = 0) -> Cycle:
    run = record.sel(text=text).isel(seed=seed)
    looks = np.isfinite(run.singular_values.values[:, 0])  # none after the end, or after a run diverged
    queries, probe = run.query_word.values != "", run.probe_word.values != ""
    return Cycle(
        run.step.values[looks],
        run.on_frequent.values[looks][:, queries],
        run.singular_values.values[looks],
        run.query_norm.values[looks],
        run.loss.values[looks],
        run.probe_attention.values[looks][:, probe][:, :, probe],
    )


def stages(run: Cycle, share: float) -> dict[str, float]:
    """How far one run came in each stage."""
    moved, focus, events = first_move(run.on_frequent - share), int(run.joint.argmax()), run.events()
    opened = [event.time for event in events if event.name == "new_direction" and event.value == 2]
    look, word = run.probe_focus()
    return {
        "condensation": np.nan if moved is None else top_share(run.values)[moved],
        "focus": run.joint.max(),
        "focused": run.joint.max() >= FOCUSED,
        "dilution": _fallen(run.on_frequent, focus),
        "direction": bool(opened) and opened[0] > run.step[focus],
        "focus again": any(event.name == "next_cycle" for event in events),
        "probe": run.probe[look, :, word].min(),
        "probe on the frequent": word == 0,
        "probe gives up": _fallen(run.probe[:, :, word], look),
        "probe on itself": run.probe[-1, -1].argmax() == len(run.probe[-1]) - 1,
    }


def _fallen(curves: Array, peak: int) -> float:
    """Share of curves that fall below half of what they have at the place `peak` later."""
    return float(np.mean(curves[peak:].min(axis=0) < curves[peak] / 2))
