"""What tests ask of the command line: its answer in this process or in one of its own, and a short
experiment.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys

from saccade.cli import main
from tests.patience import PATIENCE
from tests.sweeps.small_sweeps import NAME as QUICK

SHORT = ("run", QUICK, "--draws", "5")  # a run of milliseconds, with settings of its own


def called(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def strictly(text: str) -> object:
    """JSON without Python's own NaN and Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def one_sentence(err: str) -> bool:
    return (
        err.startswith("saccade: ")
        and err.count("\n") == 1
        and err.endswith(".\n")
        and "Traceback" not in err
    )


def started(*command: object, **options) -> subprocess.Popen:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COV_")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen([sys.executable, *map(str, command)], **pipes | options)


def finished(*command: object) -> tuple[int, str, str]:
    """Long enough for a busy machine; what hangs is ended, so that it is not another test's."""
    with started(*command) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return process.returncode, out, err
