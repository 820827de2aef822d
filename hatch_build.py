"""Builds the C code of Saccade into the wheel, or into the source folder of an editable install.

Without a C compiler, or where it fails, one line says so and the package is installed without it:
training and the flow of the embedded model are slower then, and their numbers agree to rounding and
to the solver's tolerance.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = ("engines/descent", "models/flow", "models/rows")
FLAGS = (
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-Wno-psabi",
)  # not -ffast-math: it would change all of Python


class CompiledKernels(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        kernels = [Path(self.root, "src", "saccade", f"{kernel}_kernel.c") for kernel in KERNELS]
        libraries = [
            kernel.with_name(f"lib{kernel.stem.removesuffix('_kernel')}.so") for kernel in kernels
        ]
        for library in libraries:
            library.unlink(missing_ok=True)
        if not all(map(compiled, kernels, libraries)):
            return
        build_data["artifacts"] += [
            f"/{library.relative_to(self.root).as_posix()}" for library in libraries
        ]
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data |= {
            "pure_python": False,
            "tag": f"py3-none-{platform}",
        }  # they know nothing of Python's version


def compiled(source: Path, library: Path) -> bool:
    """Whether a compiler made the library; it appears whole or not at all, and knows which source
    it was made from.
    """
    made_from = f'-DSOURCE="{hashlib.sha256(source.read_bytes()).hexdigest()}"'
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder, library.name)
        try:
            done = subprocess.run(
                [*compiler, *FLAGS, made_from, "-o", made, source, "-lm"],
                capture_output=True,
                text=True,
            )
            why = (
                next(iter(done.stderr.splitlines()), f"exit code {done.returncode}")
                if done.returncode
                else ""
            )
        except OSError as error:
            why = str(error)
        if not why:
            made.replace(library)
    if why:
        print(f"saccade is installed without its C code and will be slower: {why}", file=sys.stderr)
    return not why
