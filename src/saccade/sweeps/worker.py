"""The process that computes units: `python -m saccade.sweeps.worker FILE_DESCRIPTOR MEMORY`.

A process of its own and not a fork, so that it inherits no threads; it reads units from the pipe it is given and answers with
outcomes, until the pipe closes. It ends with its parent, even one that is killed. Only plain standard library here, until the first
unit: the parent's limits on threads must be in place before NumPy and JAX load.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from multiprocessing.connection import Connection


def main(descriptor: int, memory: int) -> None:
    _end_with_parent()
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    pipe = Connection(descriptor)
    while True:
        try:
            unit = pipe.recv()
        except (EOFError, OSError):
            return
        from saccade.sweeps.execution import execute

        outcomes = execute(unit)
        try:
            pipe.send(outcomes)
        except OSError:  # the parent is gone, and with it whoever would want them
            return


def _end_with_parent() -> None:
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
