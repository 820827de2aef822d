"""Threads that Ctrl-C does not wait for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def workers(count: int | None) -> Iterator[ThreadPoolExecutor]:
    """A pool whose queue is dropped on an exception. Compiled code under way cannot be interrupted
    and is left to end by itself.
    """
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
