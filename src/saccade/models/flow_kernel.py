r"""Gradient flow of the embedded model by compiled C: no Jacobian is made, so 64 tokens cost hardly
more than their velocities do.

`flow_kernel.c` is built with the package where there is a C compiler; without it SciPy's solvers
follow the same flow (`engines/flat_flow.py`), to the same digits and far slower.

The factor s in front of attention logits goes into the weights: with $\sqrt s\, W_Q$ and $\sqrt s\,
W_K$ for $W_Q$ and $W_K$ it is 1, and the two move s times as fast.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.compiled import built_from
from saccade.models.system import Followed

if TYPE_CHECKING:
    from saccade.models.embedded import Setting, Weights

SOURCE, LIBRARY = (Path(__file__).with_name(name) for name in ("flow_kernel.c", "libflow.so"))
METHOD = "BDF with conjugate gradients"
_LANES = 4  # rows and columns are padded to a multiple of it
_STEPS = 200  # at a time: Ctrl-C waits for them
_MOST_EVALUATIONS = (
    1_000_000  # a hundred times what the staircase of six tokens takes; weights of 1000 need more
)


class _Problem(ctypes.Structure):
    """`struct problem` of the C code."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("n_tokens", "tokens", "width", "key_width")),
        *((name, ctypes.c_double) for name in ("lr_decoder", "lr_attention", "rtol", "atol")),
        *((name, ctypes.c_void_p) for name in ("stationary", "transition", "start")),
    ]


class _Progress(ctypes.Structure):
    """`struct progress` of the C code."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("n_reached", "n_steps", "n_velocities", "n_derivatives", "failed")
        ),
        ("time", ctypes.c_double),
    ]


@cache
def _library() -> ctypes.CDLL | None:
    library = built_from(SOURCE, LIBRARY)
    if library is None or not library.saccade_flow_runs_here():
        return None
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    library.saccade_flow_begin.argtypes, library.saccade_flow_begin.restype = (
        [pointer, pointer],
        pointer,
    )
    library.saccade_flow_advance.argtypes = [pointer, count, pointer, count, pointer, pointer]
    library.saccade_flow_advance.restype, library.saccade_flow_end.argtypes = None, [pointer]
    return library


def follow(
    setting: Setting,
    start: Weights,
    times: NDArray,
    *,
    rtol: float,
    atol: float,
    on_time: Callable[[float], None],
) -> Followed | None:
    """The flow at `times`, which begin with 0; None if this solver cannot, or takes too long.
    `on_time` hears where it is.
    """
    library = _library()
    if library is None or setting.phi_scale <= 0:
        return None
    shapes = [part.shape for part in start]
    padded = [tuple(-(-size // _LANES) * _LANES for size in shape) for shape in shapes]
    root = math.sqrt(setting.phi_scale)
    factors = (1.0, root, root, 1.0)
    first = np.concatenate(
        [
            _padded(part * by, shape).ravel()
            for part, by, shape in zip(start, factors, padded, strict=True)
        ]
    )
    (tokens, width), (_, key_width) = padded[:2]
    tables = _padded(setting.stationary, (tokens,)), _padded(setting.transition, (tokens, tokens))
    times, so_far = np.ascontiguousarray(times, dtype=np.float64), _Progress()
    states, losses = np.empty((len(times), len(first))), np.empty(len(times))
    rates = setting.lr_decoder, setting.lr_attention * setting.phi_scale
    problem = _Problem(
        shapes[0][0],
        tokens,
        width,
        key_width,
        *rates,
        rtol,
        atol,
        *(part.ctypes.data for part in (*tables, first)),
    )
    flow = library.saccade_flow_begin(ctypes.byref(problem), ctypes.byref(so_far))
    if not flow:
        raise MemoryError
    try:
        while so_far.n_reached < len(times):
            where = times.ctypes.data, _STEPS, states.ctypes.data, losses.ctypes.data
            library.saccade_flow_advance(flow, len(times), *where)
            if (
                so_far.failed
                or (n_evaluations := so_far.n_velocities + so_far.n_derivatives) > _MOST_EVALUATIONS
            ):
                return None
            on_time(so_far.time)
    finally:
        library.saccade_flow_end(flow)
    parts = np.split(states, np.cumsum([math.prod(shape) for shape in padded])[:-1], axis=1)
    real = (
        part.reshape(-1, *shape)[:, : there[0], : there[1]] / by
        for part, shape, there, by in zip(parts, padded, shapes, factors, strict=True)
    )
    path = np.concatenate([part.reshape(len(part), -1) for part in real], axis=1)
    return Followed(METHOD, path, losses, n_evaluations)


def _padded(values: NDArray, shape: tuple[int, ...]) -> NDArray[np.float64]:
    values = np.asarray(values, dtype=np.float64)
    return np.pad(
        values, [(0, size - there) for size, there in zip(shape, values.shape, strict=True)]
    )
