"""Small files that would take gigabytes, and a process of their own to open them in, with its
memory measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.patience import PATIENCE

LARGE = 1_300_000_000  # bytes a bomb unpacks to: above the gigabyte that nothing may take
_BLOCK = bytes(2**24)

_CHILD = """
import json, resource, sys, traceback
resource.setrlimit(resource.RLIMIT_DATA, (3 * 10**9, 3 * 10**9))  # so that a bomb that goes off harms this process alone
from saccade.errors import InputError
said = []
for code in json.load(sys.stdin):
    try:
        exec(code)
        said.append("read")
    except InputError as error:
        said.append(str(error))
    except BaseException:
        said.append(traceback.format_exc())
# Not `ru_maxrss`: it begins with the memory of the process that started this one.
peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"said": said, "peak": peak}))
"""


def opened(*codes: str) -> tuple[list[str], int]:
    """What each piece of code is told, and the largest memory of the process that ran them all, in
    bytes.
    """
    ended = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[1],
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    return found["said"], found["peak"]


def write_zeros(archive: zipfile.ZipFile, name: str, start: bytes, n_bytes: int) -> None:
    """A member of an archive: some bytes, then zeros."""
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(member, "w", force_zip64=True) as file:
        file.write(start)
        while n_bytes > 0:
            file.write(_BLOCK[:n_bytes])
            n_bytes -= len(_BLOCK)
