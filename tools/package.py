"""Wheel and sdist in clean environments: `python -m tools.package [--ends|--oldest]` builds them,
installs them, and runs the core's tests there, in two environments at a time.

| environment | installs      | with                                                                                        |
|-------------|---------------|---------------------------------------------------------------------------------------------|
| oldest      | the wheel     | the lower bounds of pyproject.toml (`constraints-oldest.txt`), on the oldest Python, 3.11   |
| newest      | the sdist     | the newest versions that the registry has, on each of Python 3.11, 3.12 and 3.13 that is here |

`--ends` tries the oldest and, on the newest Python that is here, the newest. `--oldest`, a part of
`make test`, tries the oldest alone, with few tests. Tests run from another
folder, so that what is imported is what was installed. A Python is here if its command runs, or if
pyenv has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venv" / "package"
OLDEST, *NEWER = "3.11", "3.12", "3.13"
CORE_TESTS = (
    "tests/records",
    "tests/theory",
    "tests/engines/test_flow.py",
    "tests/engines/test_descent.py",
    "tests/experiments/test_snap_growth.py",
)
FEW_TESTS = ("tests/records/test_store.py",)


def main(arguments: list[str]) -> None:
    shutil.rmtree(ENVIRONMENTS, ignore_errors=True)
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    wheel, sdist = (next((ROOT / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    pythons = dict(_pythons())
    tried: list[tuple[str | Path, ...]] = [
        (
            "oldest",
            pythons.get(OLDEST, sys.executable),
            wheel,
            "--constraint",
            ROOT / "constraints-oldest.txt",
        )
    ]
    newest: list[tuple[str | Path, ...]] = [
        (f"newest-{version}", python, sdist) for version, python in pythons.items()
    ]
    tests = CORE_TESTS
    if "--oldest" in arguments:
        tests = FEW_TESTS
    else:
        tried += newest[-1:] if "--ends" in arguments else newest
    with ThreadPoolExecutor(2) as pool:
        for said in pool.map(lambda environment: _tried(tests, *environment), tried):
            print(said, flush=True)


def _pythons() -> Iterator[tuple[str, str]]:
    """Version and path of each supported Python that is here."""
    for version in (OLDEST, *NEWER):
        from_pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
        found = next(
            (str(python) for python in (f"python{version}", *from_pyenv) if _runs(python)), None
        )
        if found is not None:
            yield version, found
        else:
            print(f"Python {version} is not here: not tried", flush=True)


def _runs(python: str | Path) -> bool:
    return (
        shutil.which(python) is not None
        and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0
    )


def _tried(
    tests: tuple[str, ...],
    name: str | Path,
    python: str | Path,
    archive: str | Path,
    *options: str | Path,
) -> str:
    """What the tests say in an environment of that name."""
    folder = ENVIRONMENTS / name
    _run(python, "-m", "venv", folder)
    _run(
        folder / "bin" / "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *options,
        archive,
        "pytest",
        "hypothesis",
    )
    # Figures and a page: what users do first, and what the tests hardly reach.
    _run(folder / "bin" / "saccade", "reproduce", "long-contexts", "first-force")
    # Warnings of versions that we do not choose are theirs, not ours: here they do not fail a test.
    said = _run(
        folder / "bin" / "python",
        "-m",
        "pytest",
        "-q",
        "-o",
        "filterwarnings=default",
        "-p",
        "no:cacheprovider",
        *(ROOT / path for path in tests),
    )
    return f"{name}: {Path(archive).name}\n{said}"


def _run(*command: str | Path) -> str:
    """What a command prints; all is over if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=elsewhere,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{done.stdout}{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
