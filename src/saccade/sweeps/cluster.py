"""Units over a Dask cluster, one that exists or one that is started here. Dask carries units there
and outcomes back; each is computed in the same kind of process as on this machine, so the numbers
are the same.

A worker that dies has its units done by another. If the scheduler is lost, a new one is waited for
at the same address, and what was not answered yet is sent again. Only this process writes, so
nothing finished is done twice. Not here: starting workers on other machines, which is the work of
the cluster's own tools.
"""

from __future__ import annotations

import itertools
import logging
import queue
import sys
import threading
import time
import weakref
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from saccade.errors import InputError
from saccade.experiments import own_file
from saccade.identity import computation, differences
from saccade.processes import Worker
from saccade.sweeps.outcome_file import FAILED, Outcome
from saccade.sweeps.processes import outcome_of
from saccade.sweeps.units import Unit

_CONNECT = 10.0  # seconds for a scheduler to answer
_PATIENCE = 120.0  # seconds to wait for a scheduler that was lost: a job that restarts it needs about a minute
_FETCH = 600.0  # seconds for the outcomes of one unit to arrive, once they are computed
_COUNT = 2.0  # seconds between two counts of the cluster's threads: workers come and go
_IDLE = 60.0  # seconds after which a process there that has nothing to do is ended: the cluster may be another's
_AHEAD = 4  # units sent for each thread of the cluster: enough that none waits, few enough that little is done twice
_LOUD = ("distributed", "distributed.client", "tornado.application")  # loggers

_of_thread = threading.local()


class _LostError(Exception):
    """The scheduler does not answer any more."""


def on_cluster(
    units: Sequence[Unit], cluster: Any, n_workers: int, memory: int | None
) -> Iterator[Outcome]:
    """The outcome of each unit, as they come.

    `cluster`: a scheduler's address, a cluster object of Dask's, or `local` for `n_workers`
    processes here. `memory`: bytes for all processes of one Dask worker; None: what that worker was
    started with.
    """
    waiting = dict(enumerate(units))
    is_first = True
    with (
        _quiet(),
        _local(n_workers, memory) if cluster == "local" else nullcontext(cluster) as place,
    ):
        while waiting:
            with suppress(_LostError), _client(place, is_first) as client:
                if is_first:
                    _warn_if_open(client.scheduler.address)
                is_first = False
                for number, outcome in _answers(client, waiting, memory):
                    del waiting[number]
                    yield outcome


def _warn_if_open(address: str) -> None:
    """Certificates are all the authentication that Dask has; `inproc` never leaves this process."""
    if not address.startswith(("tls://", "inproc://")):
        print(
            f"saccade: the Dask cluster at {address} has no authentication: whoever can reach it can run code on its workers and "
            "on this machine. Keep it inside your own network, or use Dask's TLS settings.",
            file=sys.stderr,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask says at length what is said here in a sentence."""
    import distributed  # noqa: F401  # sets the levels of its loggers

    levels = {logger: logger.level for logger in map(logging.getLogger, _LOUD)}
    try:
        for logger in levels:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


@contextmanager
def _local(n_workers: int, memory: int | None) -> Iterator[Any]:
    """A scheduler and a worker as threads of this process, for as long as the block lasts; what
    computes is a process anyway.
    """
    import distributed

    settings = {
        "n_workers": 1,
        "threads_per_worker": n_workers,
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
    }
    with distributed.LocalCluster(
        **settings, memory_limit="auto" if memory is None else memory
    ) as cluster:
        try:
            yield cluster
        finally:
            for kept in list(
                _all_kept
            ):  # the cluster would wait for units under way; nobody else does
                kept.close()


@contextmanager
def _client(place: Any, is_first: bool) -> Iterator[Any]:
    """A connection to the scheduler. The first must come about at once; a scheduler that was lost
    is waited for.
    """
    client = _connected(place, patience=0.0 if is_first else _PATIENCE)
    if isinstance(client, Exception):
        address = getattr(place, "scheduler_address", place)
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({client}); an address is tcp://HOST:PORT, or `local`."
            if is_first
            else f"the scheduler at {address} was lost; what is finished is kept. Repeat the command when it is back."
        )
    try:
        yield client
    except InputError:
        raise
    except (Exception, CancelledError) as error:
        if (
            isinstance(error, OSError) or client.status != "running"
        ):  # whatever it says, the connection is gone
            raise _LostError from None
        raise
    finally:
        _close(client)


def _connected(place: Any, patience: float) -> Any:
    """A client, or the error that was still there when patience was over."""
    import distributed

    end = time.monotonic() + patience
    while True:
        client: Any = distributed.Client.__new__(
            distributed.Client
        )  # held before it connects: a failure leaves it half open
        try:
            client.__init__(place, timeout=_CONNECT, set_as_default=False)
            return client
        except (OSError, ValueError, TypeError) as error:
            _close(client)
            if time.monotonic() >= end:
                return error
        print("saccade: the scheduler does not answer; waiting for it", file=sys.stderr)
        time.sleep(1)


def _close(client: Any) -> None:
    """Also a client that found no scheduler, or lost it: Dask says that such a one is closed, and
    its event loop runs on.
    """
    if hasattr(client, "_loop_runner"):
        with suppress(TimeoutError):
            client.close(timeout=1)
        client._loop_runner.stop()


def _answers(
    client: Any, units: dict[int, Unit], memory: int | None
) -> Iterator[tuple[int, Outcome]]:
    """Number and outcome of each unit. Only a few are with the cluster at a time, more when it
    grows.
    """
    numbers = iter(list(units))
    sent: dict[int, Any] = {}  # futures: the cluster forgets a unit when its future is let go
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    threads = _Threads(client)
    while True:
        for number in itertools.islice(numbers, max(0, _AHEAD * threads.count() - len(sent))):
            unit = units[number]
            code = computation(own_file(unit.name))
            sent[number] = client.submit(_remote, unit, memory, code, pure=False)
            sent[number].add_done_callback(lambda _, number=number: done.put(number))
        if not sent:
            return
        try:
            number = done.get(timeout=_COUNT)
        except queue.Empty:
            continue
        yield number, _outcome(sent.pop(number), units[number])


class _Threads:
    """How many threads the cluster has, counted now and then."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._counted_at = -_COUNT
        self._count = -1

    def count(self) -> int:
        """At least one, so that there is something to do for the first that comes."""
        if time.monotonic() - self._counted_at >= _COUNT:
            before, self._count = self._count, sum(self._client.nthreads().values())
            self._counted_at = time.monotonic()
            if self._count == 0 and before != 0:
                print("saccade: the cluster has no workers; waiting for some", file=sys.stderr)
        return max(1, self._count)


def _outcome(future: Any, unit: Unit) -> Outcome:
    from distributed import KilledWorker

    try:
        return future.result(timeout=_FETCH)
    except InputError:
        raise
    except KilledWorker:
        reason = (
            "the workers that tried it were lost one after the other; it may take too much memory"
        )
        return Outcome(unit.identity, FAILED, reason, 0.0)
    except (Exception, CancelledError) as error:
        if future.status != "error":
            raise _LostError from None
        what = f"{type(error).__name__}: {error}"
        raise InputError(
            f"a worker of the cluster cannot compute runs ({what}); install Saccade and its libraries there."
        ) from None


def _remote(unit: Unit, memory: int | None, code: dict[str, str]) -> Outcome:
    """Computed there: by a process that this thread of the worker keeps."""
    from distributed import get_worker

    here = computation(own_file(unit.name))
    if different := differences(code, here, ("on your machine", "there")):
        raise InputError(
            f"a worker of the cluster would compute other numbers ({different}). Install the same there."
        )
    worker = get_worker()  # a process for each of its threads, which share its memory; 0: no limit
    share = (memory or worker.memory_manager.memory_limit or 0) // worker.state.nthreads
    kept = getattr(_of_thread, "kept", None)
    if kept is None or kept.memory != share:
        kept = _of_thread.kept = _Kept(share)
    return kept.run(unit)


class _Kept:
    """A process that computes units, and ends when it has had nothing to do for a while."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._worker = Worker(memory)
        self._lock = threading.Lock()
        self._end = threading.Timer(_IDLE, self._stop)
        _all_kept.add(self)

    def run(self, unit: Unit) -> Outcome:
        self._end.cancel()
        with self._lock:
            outcome = outcome_of(self._worker, unit)
        self._end = threading.Timer(_IDLE, self._stop)
        self._end.daemon = True
        self._end.start()
        return outcome

    def close(self) -> None:
        """For good, also a unit that is being computed."""
        self._end.cancel()
        self._worker.close()

    def _stop(self) -> None:
        with self._lock:
            self._worker.stop()


_all_kept: weakref.WeakSet[_Kept] = weakref.WeakSet()  # of this process
