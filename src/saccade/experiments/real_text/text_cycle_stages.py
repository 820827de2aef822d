"""The stages of one run of `text-cycle`: how far it condensed, focused, diluted and opened new
directions.

An independent replication gave times and values point by point (`replicated`). It trained on
batches of 512 windows; smaller batches are another experiment, so it is judged at its own settings
alone. Times within 20 % and values within 0.1 were asked for before any run. Where seeds differ by
more than that, it cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from saccade.experiments.real_text.every_run import every_run_near
from saccade.experiments.real_text.text_cycle_runs import Array, first_move
from saccade.lab.case import Case
from saccade.lab.claim import REPLICATION, Claim
from saccade.observe.events import OPEN, find_events
from saccade.observe.fits import first_time
from saccade.observe.measures import entropy, top_share
from saccade.records.events import Event
from saccade.theory.questions import CYCLE_ON_TEXT

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
        """Where the probe is drawn; dilution is where its attention is most spread after the joint
        focus.
        """
        focus, _ = self.probe_focus()
        spread = focus + int(entropy(self.probe[focus:]).mean(axis=1).argmax())
        return {"start": 0, "focus": focus, "dilution": spread, "end": len(self.step) - 1}


def cycle_of(record: xr.Dataset, text: str, seed: int = 0) -> Cycle:
    run = record.sel(text=text).isel(seed=seed)
    looks = np.isfinite(
        run.singular_values.values[:, 0]
    )  # none after the end, or after a run diverged
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
    moved, focus, events = (
        first_move(run.on_frequent - share),
        int(run.joint.argmax()),
        run.events(),
    )
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


WHOLE = 0.99  # attention that counts as all of it


def _left(run: Cycle) -> float:
    """The first look after the last at which all were on the token."""
    above = np.flatnonzero(run.joint >= WHOLE)
    return (
        float(run.step[above[-1] + 1]) if len(above) and above[-1] + 1 < len(run.step) else np.nan
    )


SETTINGS: dict[str, dict[str, Any]] = {
    "wikitext-2": {"n_vocabs": 2000, "rates": 1e-3, "init_scales": 1e-3, "scaled": True},
    "tinystories": {"n_vocabs": 512, "rates": 3e-4, "init_scales": 1e-2, "scaled": False},
}
SIZES = {"d_model": 64, "batch": 512, "context": 64}
# (what, step, value): medians over queries; where the replication gave a range of queries, its
# middle.
VALUES = {
    "wikitext-2": [
        ("share", 40, 0.996), ("growth", 40, 1.0), ("attention", 100, 0.25), ("attention", 136, 0.67), ("attention", 185, 1.0),
        ("attention", 1000, 1.0), ("attention", 1170, 0.99), ("attention", 1590, 0.615), ("attention", 2940, 0.325),
        ("ratio", 2160, 0.056), ("ratio", 2940, 0.106), ("ratio", 4000, 0.305),
    ],
    "tinystories": [("attention", 240, 1.0), ("attention", 2280, 1.0), ("ratio", 6000, 0.29)],
}  # fmt: skip
TIMES = {
    "wikitext-2": {"reached": 185, "left": 1170, "opened": 2940},
    "tinystories": {"reached": 240, "left": 3150},
}
_SERIES: dict[str, tuple[str, Callable[[Cycle], Array]]] = {
    "share": ("share of the embedding's first direction", lambda run: top_share(run.values)),
    "growth": ("|W_Q| over its start", lambda run: run.query_norm / run.query_norm[0]),
    "attention": (
        "attention on the most frequent token, median over queries",
        lambda run: np.median(run.on_frequent, axis=1),
    ),
    "ratio": ("second singular value of the embedding over the first", lambda run: run.ratio),
}
_TIMES: dict[str, tuple[str, Callable[[Cycle], float]]] = {
    "reached": (
        f"step at which every query is above {WHOLE} on the most frequent token",
        lambda run: first_time(run.step, run.joint >= WHOLE),
    ),
    "left": (f"step at which the first query is below {WHOLE} again", _left),
    "opened": (
        f"step at which the second direction is open, s2 / s1 above {OPEN}",
        lambda run: first_time(
            run.step, (run.step > run.step[run.joint.argmax()]) & (run.ratio >= OPEN)
        ),
    ),
}


def replicated(text: str, runs: Sequence[Cycle], settings: Any) -> Iterator[Claim]:
    """Nothing for other settings, and nothing of steps that the runs did not reach."""
    if text not in SETTINGS or not _same(text, settings):
        return
    last = min(float(run.step[-1]) for run in runs)
    case = Case({"text": text}, against=REPLICATION)
    for name, step, value in VALUES[text]:
        title, series = _SERIES[name]
        found = [np.interp(step, run.step, series(run)) for run in runs]
        if step <= last:
            within = 0.01 if name == "share" else 0.1
            yield every_run_near(
                case.but(step=step), CYCLE_ON_TEXT, title, found, value, within=within
            )
    for name, step in TIMES[text].items():
        title, time_of = _TIMES[name]
        if 1.2 * step <= last:
            yield every_run_near(
                case, CYCLE_ON_TEXT, title, [time_of(run) for run in runs], step, within=0.2 * step
            )


def _same(text: str, settings: Any) -> bool:
    place = settings.texts.index(text)
    of_text = all(getattr(settings, name)[place] == value for name, value in SETTINGS[text].items())
    return of_text and all(getattr(settings, name) == value for name, value in SIZES.items())
