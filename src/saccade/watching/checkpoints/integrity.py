r"""Is a series of checkpoints consistent? Duplicates, missing steps, and steps off the path of
their neighbours.

Of each checkpoint two things are kept, whatever its size: a hash of all its tensors, and a sketch
of them, a linear map to few dimensions that keeps distances: every weight is added, with a random
sign, to one of `SKETCH` random places. Distances between sketches are those between weights to
about $1/\sqrt{2 \cdot \text{SKETCH}}$, one per cent.

A step is off the path if its distance from the line segment between its two neighbours, over their
distance from each other, is

- above `FLOOR`, midway between $\sqrt{3}/2$, what steps scattered independently around one point have, and 1, what two steps on a
  straight path have if they change places (a random walk has 1/2, a smooth path less), and
- above the median of the other steps by `SPREAD` times their median absolute deviation (as a standard deviation).

Limits: the first and the last step have no two neighbours, and neighbours that are off together
hold each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SKETCH = 4096
FLOOR = 0.93
SPREAD = 3.5  # the usual cut for outliers by median and median absolute deviation (Iglewicz and Hoaglin, 1993)
_FEWEST = 2  # other distances to compare with, so five checkpoints
_ALIKE = 0.1  # spacings that differ by less than a tenth are the same: steps spaced evenly in their logarithm are rounded
_FEWEST_ALIKE = 3  # around a gap: two can be alike by chance, as 200 to 300 and 2000 to 3000 are in their logarithm
_WIDER = 1.5  # a spacing is a gap if it is nearer to two regular ones than to one
_MOST_MISSING = 1000  # that are listed
_BLOCK = 2**20  # weights at a time

Array = NDArray[np.float64]


class Finding(NamedTuple):
    """Something to know about some of the steps, in a sentence."""

    kind: str
    steps: list[int]
    sentence: str


class Fingerprint(NamedTuple):
    """What is kept of a checkpoint."""

    layout: str  # hash of names and shapes
    content: str  # hash of names, shapes, types and values
    sketch: Array


def fingerprint(tensors: Mapping[str, Tensor]) -> Fingerprint:
    layout, content, sketch = hashlib.blake2b(), hashlib.blake2b(), np.zeros(SKETCH)
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous().reshape(-1)
        place = f"{name} {tuple(tensors[name].shape)}".encode()
        layout.update(place)
        content.update(place + str(tensor.dtype).encode())
        content.update(tensor.view(torch.uint8).numpy().data)
        if tensor.is_floating_point():
            generator = torch.Generator().manual_seed(
                int.from_bytes(hashlib.blake2b(place, digest_size=7).digest())
            )
            sums = np.zeros(SKETCH)
            for block in tensor.split(_BLOCK):
                code = torch.randint(
                    0, 2 * SKETCH, block.shape, generator=generator, dtype=torch.int16
                ).numpy()
                # Infinity is left out: masks saved beside the weights hold it.
                numbers = block.double().nan_to_num(posinf=0.0, neginf=0.0).numpy()
                sums += np.bincount(
                    code >> 1, weights=np.where(code & 1, numbers, -numbers), minlength=SKETCH
                )
            sketch += sums
    return Fingerprint(layout.hexdigest(), content.hexdigest(), sketch)


def weight_findings(prints: Mapping[int, Fingerprint]) -> tuple[list[Finding], Array]:
    """Duplicates, other tensors than most have, steps off the path; and the distance from the path
    (step), missing where none is.

    `prints` are by step, in order.
    """
    twins = duplicates(prints)
    layouts = [found.layout for found in prints.values()]
    usual = max(layouts, key=layouts.count)
    others = [step for step, found in prints.items() if found.layout != usual]
    said = [
        Finding("duplicate", list(pair), f"steps {pair[0]} and {pair[1]} hold the same weights.")
        for pair in twins
    ]
    if others:
        numbers = ", ".join(str(step) for step in others)
        said.append(
            Finding(
                "other tensors",
                others,
                f"names or shapes of tensors at {_steps(others)} {numbers} are not those of the others.",
            )
        )
    left_out = {later for _, later in twins} | set(others)
    path = {step: found.sketch for step, found in prints.items() if step not in left_out}
    distance = dict(zip(path, path_distances(list(path.values())), strict=True))
    return said + off_path(distance), np.array([distance.get(step, np.nan) for step in prints])


def duplicates(prints: Mapping[int, Fingerprint]) -> list[tuple[int, int]]:
    """Pairs of a step and a later one with the same weights."""
    first: dict[str, int] = {}
    return [
        (first[found.content], step)
        for step, found in prints.items()
        if first.setdefault(found.content, step) != step
    ]


def path_distances(points: Sequence[Array]) -> Array:
    """Distance of each point from the segment between its neighbours, over their distance from each
    other.

    Missing at both ends, and where the neighbours are in the same place.
    """
    distances = np.full(len(points), np.nan)
    for i in range(1, len(points) - 1):
        before, here, after = points[i - 1 : i + 2]
        along = after - before
        if along.any():
            share = np.clip((here - before) @ along / (along @ along), 0, 1)
            distances[i] = np.linalg.norm(here - before - share * along) / np.linalg.norm(along)
    return distances


def off_path(distance: Mapping[int, float]) -> list[Finding]:
    """A finding for each step that is off the path, from distances by step."""
    steps, said = list(distance), []
    known = {step: value for step, value in distance.items() if np.isfinite(value)}
    for step, value in known.items():
        others = np.array([known[other] for other in known if other != step])
        if len(others) < _FEWEST:
            continue
        usual = float(np.median(others))
        deviation = 1.4826 * float(np.median(np.abs(others - usual)))
        if value > max(FLOOR, usual + SPREAD * deviation):
            before, after = steps[steps.index(step) - 1], steps[steps.index(step) + 1]
            sentence = (
                f"step {step} is off the path of its neighbours: its weights are {value:.2g} times as far from the line between "
                f"steps {before} and {after} as these are apart; {usual:.2g} is usual here."
            )
            said.append(Finding("off path", [step], sentence))
    return said


def missing_steps(steps: Sequence[int]) -> list[Finding]:
    """Gaps in a spacing that is otherwise regular, in steps or in their logarithm.

    A gap is wider than the nearest narrower spacing before it and after it, and these two and one
    more beside them are alike: where a schedule changes for good, they are not.
    """
    said: dict[tuple[int, int], Finding] = {}
    for i, spacing, n_missing in _gaps(np.array(steps, float)):
        before, after = steps[i], steps[i + 1]
        missing = [round(before + k * spacing) for k in range(1, n_missing + 1)]
        said[before, after] = _gap(
            before, after, f"{after - before} apart where {spacing:.6g} is regular", missing
        )
    positive = [step for step in steps if step > 0]
    for i, spacing, n_missing in _gaps(np.log(positive)):
        before, after = positive[i], positive[i + 1]
        missing = [round(before * np.exp(k * spacing)) for k in range(1, n_missing + 1)]
        how = f"a factor {after / before:.3g} apart where {np.exp(spacing):.3g} is regular"
        said.setdefault(
            (before, after), _gap(before, after, how, missing, "about ")
        )  # steps of such a schedule are rounded
    return list(said.values())


def _gap(before: int, after: int, how: str, missing: list[int], nearly: str = "") -> Finding:
    numbers = ", ".join(str(step) for step in missing[:8]) + (", ..." if len(missing) > 8 else "")
    verb = "is" if len(missing) == 1 else "are"
    return Finding(
        "missing",
        missing,
        f"{nearly}{_steps(missing)} {numbers} {verb} missing: steps {before} and {after} are {how}.",
    )


def _gaps(places: Array) -> list[tuple[int, float, int]]:
    """Where each gap begins, the regular spacing around it, and how many places are missing in it."""
    spacings = np.diff(places)
    found = []
    for i, spacing in enumerate(spacings):
        narrower = np.flatnonzero(spacings * _WIDER <= spacing)
        left, right = narrower[narrower < i], narrower[narrower > i]
        if not len(left) or not len(right):
            continue
        regular = (spacings[left[-1]] + spacings[right[0]]) / 2
        around = np.concatenate(
            [spacings[max(left[-1] - 1, 0) : left[-1] + 1], spacings[right[0] : right[0] + 2]]
        )
        is_alike = np.abs(around - regular) <= _ALIKE * regular
        if (
            is_alike.sum() >= _FEWEST_ALIKE
            and abs(spacings[left[-1]] - regular) <= _ALIKE * regular
        ):
            found.append((i, float(regular), min(round(spacing / regular) - 1, _MOST_MISSING)))
    return found


def _steps(steps: Sequence[int]) -> str:
    return "step" if len(steps) == 1 else "steps"
