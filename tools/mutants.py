"""Do the tests bite? `python -m tools.mutants [N]` plants bugs, one at a time, and counts those that no test notices.

First the tests must pass as they are. Then come the bugs of `PLANTED`, which once went unnoticed, and N slips for each part (12 if
N is not given), drawn at random but always the same ones: `<` for `<=`, `+` for `-`, a sign or a `not` forgotten. Each is put into
a copy of the project, where the part's own tests must then fail. Prints every survivor; exits with 1 if fewer than 95 % were
caught. A survivor is a missing test, or a slip that changes nothing.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PARTS = {  # folders of tests that answer for a part, the quick ones first
    "theory": ("theory", "agreement"),
    "model": ("model", "agreement", "dynamics"),
    "dynamics": ("dynamics", "agreement"),
    "observe": ("observe",),
    "sweeps": ("sweeps",),
}
ASKED = 0.95
_SECONDS = 900  # for the tests of one mutant; one that hangs is caught
_ROOT = Path(__file__).parents[1]
_COPIED = ("src", "tests", "tools", "docs", "examples", "benchmarks", "pyproject.toml", "README.md", "NOTATION.md", "mkdocs.yml")
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """One slip: a file of `src/saccade`, the text that stands there once, and what stands there then."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _planted(file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(file, old, new, tests or PARTS[file.split("/")[0]])


PLANTED = (
    _planted("sweeps/identity.py", "[saccade._PUBLIC[node.attr]] if node.attr in saccade._PUBLIC else []", "[]"),
    _planted("sweeps/identity.py", '_SHOWS = ("saccade.report",', '_SHOWS = ("saccade.report", "saccade.observe",'),
    _planted("sweeps/identity.py", '"numpy", "optax", "scipy"', '"numpy", "scipy"'),
    _planted(
        "data/text/cache.py",
        "return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()",
        "return hashlib.blake2b(file.read(2**20), digest_size=16).digest()",
        "sweeps/test_identity.py",
        "data/text",
    ),
    _planted("forecasting/stages.py", "_turn(time, sign * (curve", "_turn(time, (curve", "forecasting"),
    _planted("forecasting/stages.py", "[sign * found[2]", "[found[2]", "forecasting"),
    _planted("observe/token_statistics.py", "next_same[back] >= at", "next_same[back] > at"),
    _planted("data/text/context_law.py", "(self.count + 1) /", "self.count /", "data/text"),
    _planted("theory/scan_and_snap/concentration.py", "np.log(2 / failure_prob) / (2 *", "np.log(2 / failure_prob) / (1 *"),
    _planted("theory/scan_and_snap/concentration.py", "return K / np.sqrt(", "return 2 * K / np.sqrt("),
    _planted("theory/scan_and_snap/gain.py", "np.exp(2 * initial_feature**2 * B)", "np.exp(1 * initial_feature**2 * B)"),
    _planted("observe/events.py", "int(moved.argmax()) - 1 if", "int(moved.argmax()) if"),
    _planted("dynamics/embedded_descent.py", "generator(seed, Purpose.DATA, step + 1)", "generator(seed, Purpose.DATA, step)"),
    _planted("dynamics/training_batches.py", "((length - 1) // self.context)", "(length // self.context)"),
)


def drawn(part: str, n: int, seed: int = 0) -> list[Mutant]:
    """Slips of one part, at random over all places where one could be made."""
    places = [
        Mutant(str(path.relative_to(_ROOT / "src/saccade")), old, new, PARTS[part])
        for path in sorted((_ROOT / "src/saccade" / part).rglob("*.py"))
        for old, new in _slips(path.read_text(encoding="utf-8"))
    ]
    return random.Random(f"{part} {seed}").sample(places, n)


def _slips(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of source that stand once in a file, each with what it could be by mistake."""
    for node in ast.walk(ast.parse(text)):
        old = ast.get_source_segment(text, node) if isinstance(node, ast.expr) else None
        if old is not None and text.count(old) == 1 and (new := _slip(node)) is not None:
            yield old, new


def _slip(node: ast.AST) -> str | None:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        return ast.unparse(ast.Compare(node.left, [_SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators))  # type: ignore[list-item]
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPS and not isinstance(node.left, ast.Constant | ast.JoinedStr):
        return ast.unparse(ast.BinOp(node.left, _SWAPS[type(node.op)](), node.right))  # type: ignore[arg-type]
    if isinstance(node, ast.BoolOp):
        return ast.unparse(ast.BoolOp(_SWAPS[type(node.op)](), node.values))  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return f"({ast.unparse(node.operand)})"
    return None


def caught(mutant: Mutant) -> bool:
    """Whether a test fails on it, in a copy of the project."""
    with _copied() as folder:
        file = folder / "src/saccade" / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.file} must have this once: {mutant.old}")
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        own = sorted((folder / "tests").rglob(f"test_{Path(mutant.file).stem}.py"))  # the likeliest to fail, so they come first
        return not _tests_pass(folder, (*(str(path.relative_to(folder / "tests")) for path in own), *mutant.tests))


def passing(tests: tuple[str, ...]) -> bool:
    """Whether these tests pass without a bug: else they would catch anything."""
    with _copied() as folder:
        return _tests_pass(folder, tests)


@contextmanager
def _copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="saccade-mutant-") as folder:
        for name in _COPIED:
            copy = shutil.copytree if (_ROOT / name).is_dir() else shutil.copy
            copy(_ROOT / name, Path(folder) / name)
        yield Path(folder)


def _tests_pass(folder: Path, tests: tuple[str, ...]) -> bool:
    named = [str(folder / "tests" / name) for name in dict.fromkeys(tests)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *named]
    environment = os.environ | {"PYTHONPATH": f"{folder}/src", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def main(arguments: list[str]) -> int:
    n = int(arguments[0]) if arguments else 12
    mutants = [*PLANTED, *(mutant for part in PARTS for mutant in drawn(part, n))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        asked = list(dict.fromkeys(mutant.tests for mutant in mutants))
        if failing := [tests for tests, pass_ in zip(asked, pool.map(passing, asked)) if not pass_]:
            raise SystemExit(f"these tests fail without a bug: {failing}")
        found = []
        for mutant, bites in zip(mutants, pool.map(caught, mutants)):
            found.append(bites)
            print(f"{'caught' if bites else 'SURVIVES':9} {mutant.file}: {mutant.old!r} -> {mutant.new!r}", flush=True)
    print(f"{sum(found)} of {len(found)} caught")
    return int(sum(found) < ASKED * len(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
