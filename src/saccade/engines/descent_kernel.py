"""Dynamics (A): mini-batch training of the pairwise model by compiled C, a run at a time, runs
spread over threads.

`descent_kernel.c` is built with the package where there is a C compiler. It trains by SGD in
float32, with the paper's normalisation; all else, and everything where it was not built, is left to
`descent_scan.py`. Both read the same contexts and agree to rounding. A run belongs to one thread,
so its bits do not depend on how many there are, nor on which other runs are trained beside it.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.compiled import built_from
from saccade.engines.batches import draw
from saccade.engines.descent_scan import Plan, Saved, starting, stretches
from saccade.engines.optimiser import DIVERGED
from saccade.engines.randomness import Purpose
from saccade.engines.workers import workers
from saccade.models.pairwise import Rows
from saccade.models.token_blocks import TokenBlocks

SOURCE, LIBRARY = (Path(__file__).with_name(name) for name in ("descent_kernel.c", "libdescent.so"))
_PRODUCTS_AT_ONCE = 5e8  # of features and decoder entries, in one call: some 50 ms
_LANES = 8  # columns are padded to a multiple of it
_COUNTS = (
    "n_steps",
    "n_classes",
    "n_shared",
    "n_own",
    "n_queries",
    "n_columns",
    "most_contexts",
    "step_stride",
)
_TABLES = ("counts", "order", "first", "weight", "query", "target", "log_size", "per_token")
_RATES = ("lr_decoder", "lr_attention", "momentum", "largest_loss")
_STATE = ("decoder_shared", "decoder_own", "attention_shared", "attention_own")
_SAVED = (
    "loss",
    "saved_attention_shared",
    "saved_attention_own",
    "saved_decoder_shared",
    "saved_decoder_own",
)


class _Run(ctypes.Structure):
    """`struct run` of the C code."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _COUNTS),
        *((name, ctypes.c_void_p) for name in _TABLES),
        *((name, ctypes.c_float) for name in _RATES),
        *(
            (name, ctypes.c_void_p)
            for name in (*_STATE, *(f"{name}_m" for name in _STATE), "saved_as", *_SAVED)
        ),
    ]


class _Contexts(NamedTuple):
    """Contexts of consecutive steps of one seed: counts (step, row, slot) as drawn, and their rows
    sorted by class.
    """

    counts: np.ndarray
    order: np.ndarray  # step, row
    first: np.ndarray  # step, class and one more: where a class begins in `order`


@cache
def _library() -> ctypes.CDLL | None:
    library = built_from(SOURCE, LIBRARY)
    if library is None:
        return None
    sizes, tables = [ctypes.c_int64] * 7, [ctypes.c_void_p] * 4
    library.saccade_descend.argtypes = [ctypes.POINTER(_Run), ctypes.c_int64, ctypes.c_void_p]
    library.saccade_descend.restype = ctypes.c_int64
    library.saccade_draw.argtypes, library.saccade_draw.restype = (
        [ctypes.c_void_p, *sizes, *tables],
        ctypes.c_int64,
    )
    return library


def is_for(plan: Plan) -> bool:
    """Whether this is the engine for a plan."""
    plain = plan.model.normalise and not plan.model.residual
    return (
        plain
        and plan.optimiser.name == "sgd"
        and plan.dtype == "float32"
        and _library() is not None
    )


def descend(plan: Plan, on_progress: Callable[[float], None]) -> tuple[Saved, TokenBlocks]:
    """Run the plan; every array of the result has the leading axes rate and seed."""
    blocks = plan.model.blocks(plan.task)
    # The fewer calls, the less they wait for Python's lock: one does several runs in turn.
    n_rows = plan.task.n_classes if math.isinf(plan.batch) else plan.batch
    of_run = min(plan.steps + 1, 250) * n_rows * blocks.token_prob.shape[1] * len(blocks.columns)
    for_all_cores = len(plan.seeds) * len(plan.rates) // (4 * (os.cpu_count() or 1))
    size = int(np.clip(_PRODUCTS_AT_ONCE // of_run, 1, max(for_all_cores, 1)))
    of_seed = range(len(plan.rates))
    tables = _tables(plan, blocks)
    groups = [
        (seed, of_seed[i : i + size])
        for seed in range(len(plan.seeds))
        for i in range(0, len(of_seed), size)
    ]
    saved, states = _nothing_saved(plan, blocks), dict[tuple[int, int], dict[str, np.ndarray]]()
    starts = [_start(plan, blocks, seed) for seed in plan.seeds]
    diverged_at = np.full((len(plan.rates), len(plan.seeds)), plan.steps + 1)

    def advance(steps: range, streams: list[_Contexts], group: tuple[int, range]) -> None:
        seed, rates = group
        runs = [(rate, seed) for rate in rates if diverged_at[rate, seed] > plan.steps]
        for run in runs:
            # Parameters of a run, and its momentum at rest.
            start = starts[seed]
            states.setdefault(
                run,
                {name: part.copy() for name, part in start.items()}
                | {f"{name}_m": np.zeros_like(part) for name, part in start.items()},
            )
        arrays = [
            tables | states[run] | {name: part[run] for name, part in saved.items()} for run in runs
        ]
        own_rates = [plan.rates[rate] for rate, _ in runs]
        for run, taken in zip(
            runs, _advanced(plan, steps, streams[seed], arrays, own_rates), strict=True
        ):
            diverged_at[run] = steps.start + taken if taken < len(steps) else plan.steps + 1
            if steps.stop > plan.steps:
                del states[run]

    with workers(os.cpu_count()) as pool:
        for steps in stretches(plan, blocks):
            streams = _streams(plan, blocks, steps, pool)
            saved_as = np.where(np.isin(steps, plan.saves), np.searchsorted(plan.saves, steps), -1)
            tables["saved_as"] = saved_as.astype(np.int32)
            # each lambda is used up before the loop goes round
            ran = pool.map(lambda group: advance(steps, streams, group), groups)  # noqa: B023
            for done, _ in enumerate(ran, 1):
                on_progress((steps.start + len(steps) * done / len(groups)) / (plan.steps + 1))
    attention, decoder = (
        Rows(*(saved.get(f"saved_{part}_{rows}") for rows in Rows._fields))
        for part in ("attention", "decoder")
    )
    n_columns = len(blocks.columns)
    shown = Rows(*(part[..., :n_columns] for part in decoder)) if plan.keep_decoder else None
    return Saved(saved["loss"], attention, shown, diverged_at), blocks


def _at(array: np.ndarray) -> int:
    """Where an array is, whose rows follow each other; it must outlive the call that is told."""
    if not array.flags.c_contiguous:
        raise ValueError("C code reads arrays row by row")
    return array.ctypes.data


def _padded(columns: np.ndarray, fill: float = 0.0) -> np.ndarray:
    """In float32, row by row, the last axis filled up to a multiple of the lanes."""
    more = [(0, 0)] * (columns.ndim - 1) + [(0, -columns.shape[-1] % _LANES)]
    return np.pad(np.ascontiguousarray(columns, np.float32), more, constant_values=fill)


def _tables(plan: Plan, blocks: TokenBlocks) -> dict[str, np.ndarray]:
    share = (
        plan.task.class_weight
        if math.isinf(plan.batch)
        else np.full(plan.task.n_classes, 1 / plan.batch)
    )
    return {
        "weight": share.astype(np.float32),
        "query": blocks.has_query.argmax(axis=1).astype(np.int32),
        "target": blocks.is_target.argmax(axis=1).astype(np.int32),
        "log_size": _padded(np.log(blocks.column_size), -np.inf),
        "per_token": _padded(1 / blocks.column_size),
    }


def _start(plan: Plan, blocks: TokenBlocks, seed: int) -> dict[str, np.ndarray]:
    decoder, attention = starting(plan, blocks, seed)
    return dict(
        zip(
            _STATE,
            (*map(_padded, decoder), *(np.array(part, order="C") for part in attention)),
            strict=True,
        )
    )


def _nothing_saved(plan: Plan, blocks: TokenBlocks) -> dict[str, np.ndarray]:
    n_classes, n_own = blocks.own.shape
    n_shared, n_columns = len(blocks.shared), -(-len(blocks.columns) // _LANES) * _LANES
    shapes: dict[str, tuple[int, ...]] = {
        "loss": (),
        "saved_attention_shared": (len(blocks.queries), n_shared),
        "saved_attention_own": (n_classes, n_own),
    }
    if plan.keep_decoder:
        shapes |= {
            "saved_decoder_shared": (n_shared, n_columns),
            "saved_decoder_own": (n_classes, n_own, n_columns),
        }
    leading = len(plan.rates), len(plan.seeds), len(plan.saves)
    return {name: np.zeros((*leading, *shape), np.float32) for name, shape in shapes.items()}


def _streams(
    plan: Plan, blocks: TokenBlocks, steps: range, pool: ThreadPoolExecutor
) -> list[_Contexts]:
    """The contexts of `steps`, a stream for each seed; of the population, the same for all."""
    n_classes = plan.task.n_classes
    if math.isinf(plan.batch):
        each = np.arange(n_classes + 1, dtype=np.int32)
        return [_Contexts(_padded(blocks.token_prob[None]), each[None, :-1], each[None])] * len(
            plan.seeds
        )

    def of_seed(seed: int) -> _Contexts:
        classes, counts = _drawn(plan, blocks, seed, steps)
        if plan.model.query_key and not math.isinf(plan.context):
            counts += _padded(blocks.query_slot)[classes]
        order = np.argsort(classes, axis=1, kind="stable").astype(np.int32)
        place = np.arange(len(steps))[:, None] * n_classes + classes
        sizes = np.bincount(place.ravel(), minlength=len(steps) * n_classes).reshape(
            len(steps), n_classes
        )
        first = np.pad(np.cumsum(sizes, axis=1), ((0, 0), (1, 0))).astype(np.int32)
        return _Contexts(counts, order, first)

    return list(pool.map(of_seed, plan.seeds))


def _drawn(
    plan: Plan, blocks: TokenBlocks, seed: int, steps: range
) -> tuple[np.ndarray, np.ndarray]:
    """What `draw` draws, to the last count, with padded slots. From the first step on that C cannot
    do, NumPy does it.
    """
    shape, (n_classes, n_slots), done = (len(steps), int(plan.batch)), blocks.token_prob.shape, 0
    classes, counts = (
        np.empty(shape, np.int64),
        np.zeros((*shape, -(-n_slots // _LANES) * _LANES), np.float32),
    )
    if plan.context < 2**24:  # as many as float32 can count
        sizes = (steps.start, *shape, int(plan.context), n_classes, n_slots, counts.shape[-1])
        key, bounds = np.array([seed, Purpose.DATA], np.uint64), np.cumsum(plan.task.class_weight)
        law = np.ascontiguousarray(blocks.token_prob)
        done = _library().saccade_draw(_at(key), *sizes, *map(_at, (bounds, law, classes, counts)))  # type: ignore[union-attr]
    if done < len(steps):
        classes[done:], counts[done:, :, :n_slots] = draw(
            plan.task, blocks, seed, steps[done:], shape[1], plan.context
        )
    return classes, counts


def _advanced(
    plan: Plan,
    steps: range,
    contexts: _Contexts,
    arrays: list[dict[str, np.ndarray]],
    rates: Sequence[np.ndarray],
) -> list[int]:
    """Some runs of one seed through a stretch of steps; how many each took before it diverged."""
    most_contexts = int(np.diff(contexts.first, axis=1).max())
    stride = 0 if math.isinf(plan.batch) else int(plan.batch)
    runs, taken = (_Run * len(arrays))(), np.zeros(len(arrays), np.int64)
    for run, own, (lr_decoder, lr_attention) in zip(runs, arrays, rates, strict=True):
        n_classes, n_own, n_columns = own["decoder_own"].shape
        n_queries, n_shared = own["attention_shared"].shape
        counts = (
            len(steps),
            n_classes,
            n_shared,
            n_own,
            n_queries,
            n_columns,
            most_contexts,
            stride,
        )
        named = dict(zip(_COUNTS, counts, strict=True)) | {
            name: _at(part) for name, part in (contexts._asdict() | own).items()
        }
        for name, value in named.items():
            setattr(run, name, value)
        run.lr_decoder, run.lr_attention = lr_decoder, lr_attention
        run.momentum, run.largest_loss = (
            plan.optimiser.momentum,
            DIVERGED * math.log(plan.task.n_vocab),
        )
    if _library().saccade_descend(runs, len(runs), _at(taken)):  # type: ignore[union-attr]  # `is_for` has seen that it is there
        raise MemoryError
    return taken.tolist()
