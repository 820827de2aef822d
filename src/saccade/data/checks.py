"""Checks that the data models share: arrays of numbers, names of tokens, rows of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.errors import InputError, shortened

SUM_TOLERANCE = 1e-5  # a dozen probabilities typed with six decimals pass; they are then rescaled to sum to one exactly
MOST_ENTRIES = (
    2**31
)  # of an array, 17 GB: a mistyped size asks for more than that before anything else can go wrong


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """What is wrong with the content of a file is said with the name of the file."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def checked_numbers(name: str, values: ArrayLike, n_axes: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):
            raise TypeError
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"`{name}` must be an array of numbers with {n_axes} axes; got {shortened(values)}."
        ) from None
    if array.ndim != n_axes:
        raise InputError(f"`{name}` must have {n_axes} axes; got an array of shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"`{name}` must be finite; it contains NaN or infinity.")
    return array


def checked_names(names: Any, n_vocab: int) -> tuple[str, ...]:
    try:
        listed = tuple(str(name) for name in names)
    except TypeError:
        raise InputError(
            f"`token_names` must be a list of names; got {shortened(names)}."
        ) from None
    if listed and len(listed) != n_vocab:
        raise InputError(
            f"`token_names` must name all {n_vocab} tokens of the vocabulary; got {len(listed)}."
        )
    if len(set(listed)) < len(listed):
        raise InputError("`token_names` must be different for every token.")
    return listed


def checked_rows(
    name: str,
    table: NDArray[np.float64],
    *,
    axis: str,
    label: Callable[[int], str] = str,
    column: Callable[[int], str] = str,
    n_columns: int,
    normalise: bool,
) -> NDArray[np.float64]:
    """Rows that are chances of `n_columns` tokens (a new array), or an error that says which row is
    not and what to do.

    A row is named by its `axis` and the `label` of its number, a token by what `column` makes of
    its number.
    """
    if (table < 0).any():
        i, j = (int(place) for place in np.argwhere(table < 0)[0])
        raise InputError(
            f"`{name}` must not be negative; {axis} {label(i)} gives token {column(j)} {table[i, j]:g}."
        )
    largest = table.max(axis=1, keepdims=True)
    if (largest == 0).any():
        raise InputError(
            f"`{name}` must give every {axis} at least one token; {axis} {label(int(largest.argmin()))} has none."
        )
    whole = np.zeros(
        (len(table), n_columns)
    )  # the one copy: a large vocabulary with many rows is most of a task's memory
    shares = np.divide(
        table, largest, out=whole[:, : table.shape[1]]
    )  # first, so that no sum overflows
    sums = shares.sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        totals = (sums * largest)[:, 0]
    off = np.abs(totals - 1) > SUM_TOLERANCE
    if off.any() and not normalise:
        i = int(off.argmax())
        raise InputError(
            f"`{name}` must sum to 1 over tokens in every row; {axis} {label(i)} sums to {totals[i]:.6g}. "
            "Divide each row by its sum; in Python, `normalise=True` does that."
        )
    shares /= sums
    return whole
