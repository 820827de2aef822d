"""Stages and turning points of a training run, found in what can be observed of it: any model, flow
or noisy descent.

| event              | when                                                            | value                                 |
|--------------------|-----------------------------------------------------------------|---------------------------------------|
| `condensation`     | embeddings lie along one direction                              | share of that direction               |
| `attention_frozen` | attention has not moved yet; all is learnt that can be before   | mean attention on the frequent token  |
| `focus_onset`      | the attention matrices have begun to grow, or to align          | growth, or effective rank             |
| `focus_peak`       | a query's attention on the frequent token is highest            | that attention                        |
| `dilution`         | a query's attention on it is lowest, or gone, after a focus     | that attention                        |
| `new_direction`    | embeddings open another direction                               | number of directions                  |
| `next_cycle`       | first focus peak after a new direction                          | attention at that peak                |
| `escape`           | the loss leaves the plateau that it starts on                   | loss                                  |
| `rank_collapse`    | the query matrix is nearly of rank one                          | s_2 / s_1                             |

| `NAME_peak`, `NAME_dip` | any other trajectory NAME has a local maximum or minimum | its value there                    |

On sequence classes, those of `scan_events.py` too. The frequent token is the most frequent one;
highest and lowest are local. Times are those of samples. Give what there is: an observable that is
left out leaves out its events. Noise: `turning_points.py`. Not here: what any theory says about
when or why.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from saccade.errors import InputError, checked_number
from saccade.measures import effective_rank, top_share
from saccade.measures.event import Event
from saccade.measures.observables import (
    Array,
    Observables,
    checked_observables,
    checked_trajectory,
    lacking_in,
    observables_of,
    whole_samples,
)
from saccade.measures.scan_events import scan_events
from saccade.measures.turning_points import (
    DEVIATIONS,
    VISIBLE,
    Turn,
    dips,
    local_noise,
    peaks,
    smoothed,
    thresholds,
)

CONDENSED = 0.999  # share of the top direction: the others together have 3 % of its length
GROWN = 3.0  # growth of the query matrix at which focus counts as begun; three times the start is out of reach of the start's noise
ALIGNED = 1.5  # effective rank of the product of query and key matrices; that of a random start is above 2, of one direction 1
OPEN = 0.1  # s_k / s_1 of a direction that counts as open: it then bears a hundredth of the top direction's square
CLOSED = (
    OPEN / 2
)  # where a direction must have been before it opens; at a random start some hover around the level itself
ESCAPED = 0.01  # share of the fall of the loss at which it has left its first plateau; ten times as much is a fall
LEARNT = 0.99  # share of the fall of the loss after which a plateau counts as reached


def find_events(
    time: ArrayLike | xr.Dataset,
    *,
    attention_on_frequent: ArrayLike | None = None,
    embedding_singular_values: ArrayLike | None = None,
    query_key_singular_values: ArrayLike | None = None,
    query_singular_values: ArrayLike | None = None,
    query_norm: ArrayLike | None = None,
    common_attention: ArrayLike | None = None,
    distinct_attention: ArrayLike | None = None,
    loss: ArrayLike | None = None,
    prominence: float | None = None,
    **others: ArrayLike,
) -> list[Event]:
    """Find the stages of a run: all events, in order of time.

    | argument                    | axes        | meaning                                                            |
    |-----------------------------|-------------|--------------------------------------------------------------------|
    | `time`                      | time        | times of the samples, rising; or the record of one run, from which |
    |                             |             | the other arguments are then taken                                 |
    | `attention_on_frequent`     | time, query | attention of each query on the most frequent token                 |
    | `embedding_singular_values` | time, rank  | of the embedding, largest first                                    |
    | `query_key_singular_values` | time, rank  | of query matrix times key matrix, largest first                    |
    | `query_singular_values`     | time, rank  | of the query matrix, largest first                                 |
    | `query_norm`                | time        | norm of the query matrix; gives the onset of focus                 |
    | `common_attention`          | time, class | attention of each class on tokens that several classes have        |
    | `distinct_attention`        | time, class,| attention of each class on tokens that no other has, 0 on others;  |
    |                             | token       | both are needed for the stages of Scan and Snap                    |
    | `loss`                      | time        | training loss; alone, it has turns like any other and its escape   |
    | any other name              | time, or    | any trajectory: its turns, if they stand out from its noise and by |
    |                             | time, curve | a hundredth of its range                                           |
    | `prominence`                |             | least prominence of a turn; default: from the noise of the run     |

    A run that diverged may end in NaN; the samples before are used. Of a record, samples that lack
    something are left out, as a watched run measures weights less often than attention. Few samples
    are not an error, but show few events. A record in which no stage can be looked for, or whose
    attention cannot be read, gives a warning that says what is missing.
    """
    if prominence is not None:
        checked_number("prominence", prominence, low=0.0, high=1.0)
    given: dict[str, ArrayLike | None] = {
        "attention_on_frequent": attention_on_frequent,
        "embedding_singular_values": embedding_singular_values,
        "query_key_singular_values": query_key_singular_values,
        "query_singular_values": query_singular_values,
        "query_norm": query_norm,
        "common_attention": common_attention,
        "distinct_attention": distinct_attention,
        "loss": loss,
    }
    if isinstance(time, xr.Dataset):
        if "time" not in time.dims:
            raise InputError(
                "`find_events` needs a record with the axis `time`; this one holds a single time or none."
            )
        given = observables_of(time) | {
            name: values for name, values in given.items() if values is not None
        }
        if not others and (lacking := lacking_in(time, given)):
            warnings.warn(lacking, stacklevel=2)
        time, given = whole_samples(time.time.values, given)
    told = {name: values for name, values in given.items() if values is not None}
    stages = []
    if set(told) == {"loss"}:  # of stages it tells little alone
        at, alone = checked_trajectory(time, "loss", told["loss"])
        stages, others = _escape(at, alone[:, 0]), others | {"loss": told.pop("loss")}
    stages += _stages(time, told, prominence) if told or not others else []
    return sorted([*_turns(time, others, prominence), *stages], key=lambda event: event.time)


def _turns(
    time: ArrayLike, trajectories: Mapping[str, Any], prominence: float | None
) -> list[Event]:
    """Peaks and dips of trajectories of any size: each is scaled to its own range first."""
    events = []
    for name, values in trajectories.items():
        at, series = checked_trajectory(time, name, values)
        for curve, column in enumerate(series.T):
            size = float(np.ptp(column)) or 1.0
            scaled = (column[:, None] - column.min()) / size
            noise = local_noise(scaled)
            shown, least = smoothed(scaled, noise)[:, 0], thresholds(noise, prominence)[:, 0]
            for kind, found in (("peak", peaks(shown, least)), ("dip", dips(shown, least))):
                definition = f"local {'maximum' if kind == 'peak' else 'minimum'} of {name}"
                of_curve = curve if np.ndim(values) > 1 else None
                events += [
                    Event(
                        f"{name}_{kind}",
                        of_curve,
                        float(at[i]),
                        float(column[i]),
                        height * size,
                        definition,
                    )
                    for i, _, height in found
                ]
    return events


def _stages(
    time: ArrayLike, given: Mapping[str, ArrayLike | None], prominence: float | None
) -> list[Event]:
    run = checked_observables(time, **given)
    if len(run.time) == 0:
        return []
    directions = _new_directions(run)
    turns = _focus_and_dilution(run, prominence)
    found: dict[tuple[int | None, float], Event] = {}
    for direction in directions:
        later = [turn for turn in turns if turn.name == "focus_peak" and turn.time > direction.time]
        if later:
            first = min(later, key=lambda turn: turn.time)
            definition = f"first focus peak after direction {direction.value:.0f} opened"
            found.setdefault(
                (first.query, first.time), replace(first, name="next_cycle", definition=definition)
            )
    events = [
        *_condensation(run),
        *_frozen(run),
        *_onset(run),
        *turns,
        *directions,
        *found.values(),
    ]
    if (
        run.attention_on_frequent is None
    ):  # where attention is seen, the stages of Focus and Dilution tell the same in its words
        events += [
            *_rank_collapse(run),
            *(_escape(run.time, run.loss) if run.loss is not None else []),
        ]
    if run.common_attention is not None and run.distinct_attention is not None:
        events += scan_events(run.time, run.common_attention, run.distinct_attention)
    return events


def _condensation(run: Observables) -> list[Event]:
    if run.embedding_singular_values is None:
        return []
    with np.errstate(invalid="ignore"):  # an embedding of zero has no share
        share = top_share(run.embedding_singular_values)
    return _rise(
        run.time,
        share,
        CONDENSED,
        "condensation",
        f"s_1^2 / sum s_k^2 of the embedding rises to {CONDENSED:g}",
    )


def _frozen(run: Observables) -> list[Event]:
    """Where the loss comes within a hundredth of the level that it keeps until attention moves (or
    within its noise).
    """
    if run.loss is None or run.attention_on_frequent is None:
        return []
    attention, noise = run.attention_on_frequent, float(local_noise(run.loss[:, None]).max())
    loss = smoothed(run.loss[:, None], np.array([[noise]]))[:, 0]
    moved = np.abs(attention - attention[0]).max(axis=1) > VISIBLE
    last = int(moved.argmax()) - 1 if moved.any() else len(loss) - 1
    fall = float(loss[0] - loss[last])
    if (
        fall <= VISIBLE + noise
    ):  # of the same size as noise, or as what counts as no change of attention
        return []
    i = int((loss <= loss[last] + max((1 - LEARNT) * fall, noise)).argmax())
    definition = (
        f"attention on the frequent token has not moved by {VISIBLE:g} yet, "
        f"and the loss has made {LEARNT:g} of the fall that it makes before that"
    )
    return [
        Event(
            "attention_frozen",
            None,
            float(run.time[i]),
            float(attention[i].mean()),
            float(loss[0] - loss[i]),
            definition,
        )
    ]


def _escape(time: Array, loss: Array) -> list[Event]:
    """Where the loss has made a hundredth of its fall (or what stands out from its noise), if until
    then it stood still for longer than it takes from there to ten times as much.
    """
    if len(time) < 3:
        return []
    noise = float(local_noise(loss[:, None]).max())
    shown = smoothed(loss[:, None], np.array([[noise]]))[:, 0]
    fallen = shown[0] - shown
    least = max(ESCAPED * float(fallen.max()), DEVIATIONS * noise)
    if 10 * least > fallen.max() or fallen.max() <= 0:
        return []
    left, fell = int((fallen >= least).argmax()), int((fallen >= 10 * least).argmax())
    if (
        np.abs(fallen[:left]).max() > least
        or time[left - 1] - time[0] <= time[fell] - time[left - 1]
    ):
        return []
    definition = f"the loss has made {least / fallen.max():.2g} of its fall, after it stood still for longer than it falls"
    return [
        Event("escape", None, float(time[left]), float(loss[left]), float(fallen.max()), definition)
    ]


def _rank_collapse(run: Observables) -> list[Event]:
    if run.query_singular_values is None or run.query_singular_values.shape[1] < 2:
        return []
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = run.query_singular_values[:, 1] / run.query_singular_values[:, 0]
    definition = f"s_2 / s_1 of the query matrix falls to {OPEN:g} from above {2 * OPEN:g}"
    fallen = _rise(run.time, -ratio, -OPEN, "rank_collapse", definition, rest=-2 * OPEN)
    return [replace(event, value=-event.value) for event in fallen]


def _onset(run: Observables) -> list[Event]:
    if run.query_norm is not None and run.query_norm[0] > 0:
        growth = run.query_norm / run.query_norm[0]
        return _rise(
            run.time,
            growth,
            GROWN,
            "focus_onset",
            f"norm of the query matrix rises to {GROWN:g} times its start",
        )
    if run.query_key_singular_values is None:
        return []
    with np.errstate(invalid="ignore"):
        rank = effective_rank(run.query_key_singular_values)
    definition = f"effective rank of query matrix times key matrix falls to {ALIGNED:g}"
    return [
        replace(event, value=-event.value)
        for event in _rise(run.time, -rank, -ALIGNED, "focus_onset", definition)
    ]


def _new_directions(run: Observables) -> list[Event]:
    if run.embedding_singular_values is None:
        return []
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = run.embedding_singular_values / run.embedding_singular_values[:, :1]
    found = []
    for k in range(2, ratio.shape[1] + 1):
        definition = (
            f"s_{k} / s_1 of the embedding rises to {OPEN:g} from below {CLOSED:g}; value: k"
        )
        opened = _rise(run.time, ratio[:, k - 1], OPEN, "new_direction", definition, rest=CLOSED)
        found += [replace(event, value=float(k)) for event in opened]
    return found


def _focus_and_dilution(run: Observables, prominence: float | None) -> list[Event]:
    """Peaks of every query, and dips after the first peak of any: a query whose own focus is too
    small to see dilutes as well.
    """
    if run.attention_on_frequent is None:
        return []
    noise = local_noise(run.attention_on_frequent)
    curves, least = smoothed(run.attention_on_frequent, noise), thresholds(noise, prominence)
    tops = [peaks(curve, level) for curve, level in zip(curves.T, least.T, strict=True)]
    first = min((turn.place for found in tops for turn in found), default=len(curves))
    rule = (
        "the one asked for"
        if prominence is not None
        else f"{VISIBLE:g} and {DEVIATIONS:g} times the noise there"
    )
    events = []
    for query, (curve, level) in enumerate(zip(curves.T, least.T, strict=True)):
        lows = [turn for turn in dips(curve, level) if turn.place > first]
        gone = _gone(curve, max(tops[query] + lows, default=None), lows, first)
        events += [
            _turn(run.time, query, turn, "focus_peak", f"local maximum, prominence at least {rule}")
            for turn in tops[query]
        ]
        events += [
            _turn(
                run.time,
                query,
                turn,
                "dilution",
                f"local minimum after a focus, prominence at least {rule}",
            )
            for turn in lows
        ]
        events += [
            _turn(run.time, query, turn, "dilution", f"falls below {VISIBLE:g} and stays there")
            for turn in gone
        ]
    return events


def _gone(curve: Array, last: Turn | None, lows: list[Turn], first: int) -> list[Turn]:
    """Attention that leaves for good turns no more, so it has no minimum that stands out: the first
    one below what is visible.
    """
    begin = first if last is None else last.place
    if last in lows or begin >= len(curve) or curve[begin] < VISIBLE or curve[-1] >= VISIBLE:
        return []
    start = int(np.flatnonzero(curve >= VISIBLE)[-1]) + 1
    low = dips(curve[start:], np.zeros(len(curve) - start))
    i = start + (low[0].place if low else 0)
    return [Turn(i, float(curve[i]), float(curve[begin] - curve[i]))]


def _rise(
    time: Array, series: Array, level: float, name: str, definition: str, rest: float | None = None
) -> list[Event]:
    """The first sample at which `series` has risen to `level`, if it was below it before (below
    `rest`, where that is given).
    """
    above, rested = (
        series >= level,
        np.logical_or.accumulate(series < (level if rest is None else rest)),
    )
    risen = np.flatnonzero(above[1:] & ~above[:-1] & rested[:-1]) + 1
    if len(risen) == 0:
        return []
    i = int(risen[0])
    return [
        Event(
            name,
            None,
            float(time[i]),
            float(series[i]),
            float(np.max(series[i:]) - np.min(series[:i])),
            definition,
        )
    ]


def _turn(time: Array, query: int, turn: Turn, name: str, definition: str) -> Event:
    return Event(name, query, float(time[turn.place]), turn.value, turn.prominence, definition)
