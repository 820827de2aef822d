"""What became of each head of a watched model, and when: `saccade.timeline(record)`.

| state            | a head is in it if                                                                  |
|------------------|-------------------------------------------------------------------------------------|
| `induction`      | at least .3 of its attention goes to tokens that followed the query's token before  |
| `duplicate`      | at least .3 goes to earlier occurrences of the query's token                        |
| `previous token` | at least .3 goes to the token before the query                                      |
| `first token`    | at least .3 goes to the first token: a sink                                         |
| `own token`      | at least .3 goes to the query's own position                                        |
| `collapsed`      | none of these, all of them measured, and its relative entropy is at most .02        |
| `focused`        | none of these, and it is at most .5: as spread as the root of the number of keys    |
| `uniform`        | none of these, and it is at least .95                                               |
| `uneven`         | none of these                                                                       |

Of several places the one with most attention counts. .3 is the level at which [gu2024] calls a head
a sink; we use it for every place. It is asked of what is beyond uniform attention, (mass - uniform)
/ (1 - uniform), as on a short text uniform attention already gives .3 to the first token. The
levels of entropy are ours.

A place that was not measured (no tokens, tokens in front of the text, cross attention, a short
probe) names no head, and the sentences list it. A head of relative entropy .02 is then `focused`:
its one key may be that place. Where a place is missing at some observations only, the head's state
is missing there too.

Noise: a head enters a state when it is beyond the level by two standard errors over the sequences
of the probe, and leaves it when it is below by as much, so that a head at the level does not
flicker. With one sequence the error is not known and counts as 0.

`froze`: since that step its maps have moved by less than `FROZEN` while the step doubled, until the
end, and that has been so while the step grew by a fifth and in at least two observations. One alone
may be noise, or stand for a long gap. A head that has never moved is not called frozen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError
from saccade.measures.layer_names import short_names
from saccade.records.store import load_record

if TYPE_CHECKING:
    import xarray as xr

NAMED = 0.3  # [gu2024]: mean attention on the first token above which a head is called a sink
COLLAPSED = (
    0.02  # of the log of the visible keys: at 1,000 of them e^(.02 ln 1000), less than 1.2 keys
)
FOCUSED = 0.5  # entropy of the root of the number of visible keys
EVEN = 0.95  # at 1,000 keys the entropy of 700
FROZEN = 0.05  # of its attention: a twentieth, while the step doubles; the least that can be seen in a map
SETTLED = 2**0.25  # by which the step must have grown since movement fell below that
N_BELOW = 2  # observations below it that a freeze takes
ERRORS = 2.0  # standard errors beyond a level at which it counts as crossed: one in forty by chance
STATES = (
    "uniform",
    "uneven",
    "focused",
    "collapsed",
    "first token",
    "previous token",
    "duplicate",
    "induction",
    "own token",
)
PLACES = {
    "sink_mass": 4,
    "previous_mass": 5,
    "duplicate_mass": 6,
    "induction_mass": 7,
    "self_mass": 8,
}  # place in `STATES`
_MISSING = -1
_WORDS = {
    "uniform": "became uniform",
    "focused": "focused on few keys",
    "collapsed": "collapsed to one key",
    "first token": "became a first-token sink",
    "previous token": "became a previous-token head",
    "duplicate": "became a duplicate-token head",
    "induction": "became an induction head",
    "own token": "turned to its own token",
}
_FROM_THE_START = {
    "first token": "is a first-token sink",
    "previous token": "is a previous-token head",
    "duplicate": "is a duplicate-token head",
    "induction": "is an induction head",
    "own token": "looks at its own token",
    "collapsed": "has collapsed to one key",
}
_KINDS = {  # of several heads
    "uniform": "uniform",
    "uneven": "uneven",
    "focused": "focused on few keys",
    "collapsed": "collapsed",
    "first token": "first-token sinks",
    "previous token": "previous-token heads",
    "duplicate": "duplicate-token heads",
    "induction": "induction heads",
    "own token": "on their own token",
}

Floats = NDArray[np.float64]


class HeadEvent(NamedTuple):
    """A head enters a state (`name` is the state's), or freezes (`froze`)."""

    layer: int
    head: int
    name: str
    step: float  # of the observation that first has it; for `froze`, between two of them
    before: float  # the observation before, which has it not; NaN if it is so from the first
    value: float  # what the state is asked of: the share of attention on its place, or the relative entropy; for `froze` 0
    error: float  # standard error of the value; NaN if it is not known


@dataclass(frozen=True, eq=False)
class Timeline:
    """Heads over time. Printed, it is its sentences."""

    steps: Floats
    layers: list[str]
    states: NDArray[np.int8]  # (time, layer, head): place in `STATES`, -1 where it is not known
    frozen: Floats  # (layer, head): the step at which it froze; NaN if it has not
    events: list[HeadEvent]
    sentences: list[str]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def state(self, layer: int, head: int) -> list[str]:
        """The state of one head at every observation; nothing where it is missing."""
        try:
            numbers = self.states[:, layer, head]
        except IndexError:
            _, n_layers, n_heads = self.states.shape
            raise InputError(
                f"there are {n_layers} layers of up to {n_heads} heads, counted from 0; got {layer}, {head}."
            ) from None
        return ["" if number < 0 else STATES[number] for number in numbers]


def is_watched(record: xr.Dataset) -> bool:
    return "relative_entropy" in record and record.relative_entropy.dims == (
        "time",
        "layer",
        "head",
    )


def timeline(record: xr.Dataset | str | Path) -> Timeline:
    """States of each head over time, events with their steps, and sentences; from the record of a
    watched run or of checkpoints, or from the folder that holds it.
    """
    if isinstance(record, str | Path):
        record = load_record(record)
    if not hasattr(record, "data_vars") or not is_watched(record):
        raise InputError(
            "`record` must be that of a watched model: it has no `relative_entropy` by time, layer and head."
        )
    steps = record.time.values.astype(np.float64)
    if not len(steps):
        why = record.attrs.get("empty", "The record holds no observation.")
        return Timeline(steps, [], np.empty((0, 0, 0), np.int8), np.empty((0, 0)), [], [why])
    names = [str(name) for name in record.layer.values] if "layer" in record.coords else []
    layers = (
        short_names(names)
        if names
        else [f"layer {number}" for number in range(record.sizes["layer"])]
    )
    states = _states(record)
    frozen = freezing_steps(record)
    events = _events(record, steps, states, frozen)
    return Timeline(
        steps, layers, states, frozen, events, _sentences(record, layers, states, events)
    )


def freezing_steps(record: xr.Dataset) -> Floats:
    """Step (layer, head) since which maps moved less than `FROZEN` while the step doubled; NaN
    where they still do or never did.

    Movement looks back to half the step. Where it falls below the level at step t the head has been
    still since t/2.
    """
    shape = record.sizes["layer"], record.sizes["head"]
    found = np.full(shape, np.nan)
    if "moved" not in record:
        return found
    steps, moved = record.time.values.astype(np.float64), record.moved.values.astype(np.float64)
    for layer, head in np.ndindex(shape):
        known = np.isfinite(moved[:, layer, head]) & (steps > 0)
        found[layer, head] = _freezing_step(steps[known], moved[known, layer, head])
    return found


def _freezing_step(steps: Floats, moved: Floats) -> float:
    fast = np.flatnonzero(moved >= FROZEN)
    if not len(fast) or fast[-1] + N_BELOW >= len(steps):
        return np.nan
    last, still = fast[-1], fast[-1] + 1
    share = (moved[last] - FROZEN) / (moved[last] - moved[still])
    crossed = float(np.exp((1 - share) * np.log(steps[last]) + share * np.log(steps[still])))
    return crossed / 2 if steps[-1] >= SETTLED * crossed else np.nan


def _states(record: xr.Dataset) -> NDArray[np.int8]:
    entropy = record.relative_entropy.values.astype(np.float64)
    places = np.stack([_held(*beyond_uniform(record, name), NAMED) for name in PLACES])
    mass = np.stack([beyond_uniform(record, name)[0] for name in PLACES])
    known = np.isfinite(mass)
    is_interrupted = (~known & known.any(axis=1, keepdims=True)).any(axis=0)
    states = np.full(entropy.shape, STATES.index("uneven"), np.int8)
    error = _error(record, "relative_entropy")
    states[_held(entropy, error, EVEN)] = STATES.index("uniform")
    states[_held(-entropy, error, -FOCUSED)] = STATES.index("focused")
    states[_on_one_key(record) & known.all(axis=0)] = STATES.index("collapsed")
    states[is_interrupted] = _MISSING
    best = np.where(places, np.nan_to_num(mass, nan=-np.inf), -np.inf).argmax(axis=0)
    states = np.where(places.any(axis=0), np.array(list(PLACES.values()), np.int8)[best], states)
    return np.where(np.isnan(entropy), np.int8(_MISSING), states).astype(np.int8)


def _on_one_key(record: xr.Dataset) -> NDArray[np.bool_]:
    entropy = record.relative_entropy.values.astype(np.float64)
    return _held(-entropy, _error(record, "relative_entropy"), -COLLAPSED)


def _held(values: Floats, error: Floats, level: float) -> NDArray[np.bool_]:
    """Whether each head is at or above a level, over time: it enters and leaves only beyond
    `ERRORS` standard errors.
    """
    reach = ERRORS * np.nan_to_num(error, nan=0.0)
    held = np.zeros(values.shape, bool)
    now = np.zeros(values.shape[1:], bool)
    for time in range(len(values)):
        now = np.where(
            np.isnan(values[time]),
            False,
            np.where(now, values[time] + reach[time] >= level, values[time] - reach[time] >= level),
        )
        held[time] = now
    return held


def beyond_uniform(record: xr.Dataset, name: str) -> tuple[Floats, Floats]:
    """Attention on a place beyond what uniform attention puts there (time, layer, head), 0 = no
    more, 1 = all; its error.
    """
    missing = np.full(record.relative_entropy.shape, np.nan)
    if name not in record:
        return missing, missing
    mass, uniform = record[name].values.astype(np.float64), np.zeros(record.relative_entropy.shape)
    if "uniform_mass" in record and name in record.place:
        uniform = np.nan_to_num(record.uniform_mass.sel(place=name).values.astype(np.float64))
    left = np.maximum(1 - uniform, 1e-9)
    return (mass - uniform) / left, _error(record, name) / left


def _error(record: xr.Dataset, name: str) -> Floats:
    if "standard_error" not in record or name not in record.measure:
        return np.full(record.relative_entropy.shape, np.nan)
    return np.asarray(record.standard_error.sel(measure=name).values, np.float64)


def _events(
    record: xr.Dataset, steps: Floats, states: NDArray[np.int8], frozen: Floats
) -> list[HeadEvent]:
    measured = {number: name for name, number in PLACES.items()}
    found = []
    for layer, head in np.ndindex(states.shape[1:]):
        last, before = _MISSING, np.nan
        for time, state in enumerate(states[:, layer, head]):
            if state == _MISSING:
                continue
            if state == last:
                before = float(steps[time])
                continue
            name = measured.get(int(state), "relative_entropy")
            value, error = (
                float(of[time, layer, head]) for of in (record[name].values, _error(record, name))
            )
            if last != _MISSING or STATES[state] in _FROM_THE_START:
                found.append(
                    HeadEvent(layer, head, STATES[state], float(steps[time]), before, value, error)
                )
            last, before = state, float(steps[time])
        if np.isfinite(frozen[layer, head]):
            at = frozen[layer, head]
            found.append(
                HeadEvent(
                    layer,
                    head,
                    "froze",
                    float(at),
                    float(steps[steps <= at].max(initial=0.0)),
                    0.0,
                    np.nan,
                )
            )
    return sorted(found, key=lambda event: event.step)


def _sentences(
    record: xr.Dataset, layers: list[str], states: NDArray[np.int8], events: list[HeadEvent]
) -> list[str]:
    """A sentence for each head that ever had a name or collapsed, in order of time; one for all
    others; one for what collapsed.
    """
    told, others = [], []
    for layer, head in sorted(
        np.ndindex(states.shape[1:]), key=lambda of: _first_named(events, *of)
    ):
        if (states[:, layer, head] == _MISSING).all():
            continue
        own = [event for event in events if (event.layer, event.head) == (layer, head)]
        if any(event.name in _FROM_THE_START for event in own):
            known = states[states[:, layer, head] >= 0, layer, head]
            told.append(_sentence(f"{layers[layer]} head {head}", STATES[known[0]], own))
        elif states[-1, layer, head] != _MISSING:
            others.append((layer, head))
    unmeasured = _of_unmeasured(record, states)
    lead = "No head attends to one place. At the end"
    if told:
        lead = f"Of the other {len(others)}, at the end"
    elif unmeasured:
        lead = "At the end"
    ended = []
    if others:
        last = Counter(STATES[states[-1, layer, head]] for layer, head in others)
        kinds = ", ".join(f"{count} {_KINDS[name]}" for name, count in last.most_common())
        ended = [f"{lead}: {kinds}; {_of_movement(record, events, others)}."]
    # How many heads collapsed, and of how many the missing places leave it open.
    n_heads = np.isfinite(record.relative_entropy.values).any(axis=0).sum()
    collapsed = len({(event.layer, event.head) for event in events if event.name == "collapsed"})
    is_open = _on_one_key(record) & np.isin(states, (STATES.index("focused"), _MISSING))
    n_open = is_open.any(axis=0).sum()
    collapse = [f"{collapsed} of {n_heads} collapsed."] if collapsed else []
    if n_open:
        collapse.append(
            f"{n_open} of {n_heads} had one key for each query; whether they collapsed is not known."
        )
    collapse = collapse or ["Nothing collapsed." if n_heads else "No head was measured."]
    return [*_of_missing(record, states), *unmeasured, *told, *ended, *collapse, *_of_noise(record)]


def _first_named(events: list[HeadEvent], layer: int, head: int) -> float:
    steps = [
        event.step
        for event in events
        if (event.layer, event.head) == (layer, head) and event.name in _FROM_THE_START
    ]
    return min(steps, default=np.inf)


def _sentence(who: str, first: str, events: list[HeadEvent]) -> str:
    """Of a head that was in the state `first` to begin with."""
    parts = []
    for place, event in enumerate(events):
        is_again = np.isfinite(event.before) and event.name in (
            first,
            *(other.name for other in events[:place]),
        )
        parts.append(_words(events[place - 1] if place else None, event, is_again))
    return f"{who[:1].upper()}{who[1:]} {', '.join(part for part in parts if part)}."


def _words(before: HeadEvent | None, event: HeadEvent, is_again: bool) -> str:
    if event.name == "froze":
        return f"""froze at about step {(f"{float(f'{event.step:.2g}'):.0f}" if event.step >= 1 else f"{event.step:.1g}")}"""
    if event.name == "uneven":
        return (
            f"no longer so at step {event.step:.0f}"
            if before is not None and before.name in _WORDS
            else ""
        )
    at_place = event.name in PLACE_NAMES
    value = f" ({f'{event.value:.2f}'.removeprefix('0')} of its attention)" if at_place else ""
    if np.isnan(event.before):
        return f"{_FROM_THE_START[event.name]} from its first observation{value}"
    return f"{_WORDS[event.name]}{' again' if is_again else ''} at step {event.step:.0f}{value}"


PLACE_NAMES = tuple(STATES[number] for number in PLACES.values())


def _of_unmeasured(record: xr.Dataset, states: NDArray[np.int8]) -> list[str]:
    """Places without a measure, by the heads that lack it; and heads that lack one for a while."""
    is_known = np.isfinite(record.relative_entropy.values)
    is_head = is_known.any(axis=0)
    lacking: dict[bytes, list[str]] = {}
    for name, number in PLACES.items():
        lacks = is_head & ~np.isfinite(beyond_uniform(record, name)[0]).any(axis=0)
        lacking.setdefault(lacks.tobytes(), []).append(STATES[number])
    sentences = [
        f"Not measured{_of_heads(sum(of), is_head.sum())}: attention on {', '.join(places)}. "
        "Heads that attend there have no name."
        for of, places in lacking.items()
        if any(of)
    ]
    n_interrupted = (is_known & (states == _MISSING)).any(axis=0).sum()
    if n_interrupted:
        some = _of_heads(n_interrupted, is_head.sum())
        sentences.append(f"At some observations not every place was measured{some}.")
    return sentences


def _of_heads(some: int, every: int) -> str:
    return "" if some == every else f" in {some} of {every} heads"


def _of_movement(record: xr.Dataset, events: list[HeadEvent], heads: list[tuple[int, int]]) -> str:
    moved = np.empty(0)
    if "moved" in record:
        layers, places = np.transpose(heads)
        moved = record.moved.values[:, layers, places]
        moved = moved[np.isfinite(moved)]
    if not moved.size:
        return "movement is not known"
    if not (moved >= FROZEN).any():
        return "none has moved"
    frozen = {(event.layer, event.head) for event in events if event.name == "froze"} & set(heads)
    return f"{len(frozen) or 'none'} frozen"


def _of_missing(record: xr.Dataset, states: NDArray[np.int8]) -> list[str]:
    """Heads that have no numbers at the end: all of them, if the run has diverged."""
    known = states >= 0
    lost = known.any(axis=0) & ~known[-1]
    if not lost.any():
        return []
    last = int(np.flatnonzero(known[:, lost].any(axis=1))[-1])
    since = f"From step {int(record.time.values[last + 1])} on"
    n_heads = known.any(axis=0).sum()
    if not np.isfinite(record.relative_entropy.values[-1]).any():
        return [f"{since} attention is not a number in any head: the run has diverged."]
    return [
        f"{since} {lost.sum()} of {n_heads} heads are missing: their attention is not a number, was not run or not measured in full."
    ]


def _of_noise(record: xr.Dataset) -> list[str]:
    """Where there are numbers of the probe itself, and no error of any."""
    measures = [
        name for name in ("relative_entropy", "sink_mass", "previous_mass") if name in record
    ]
    is_known = any(np.isfinite(record[name].values).any() for name in measures)
    if not is_known or any(np.isfinite(_error(record, name)).any() for name in measures):
        return []
    return ["The probe has one sequence, so the noise is unknown and every crossing counts."]
