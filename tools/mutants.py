"""Do the tests bite? `python -m tools.mutants [N]` plants bugs, one at a time, and counts those
that no test notices.

First come the bugs of `PLANTED`, which once went unnoticed, then N slips for each part (12 if N is
not given), drawn at random but the same ones as long as their lines stand: `<` for `<=`, `+` for
`-`, a sign or a `not` forgotten. Each is put into a copy of the project, where one of the three
files of tests that are most about the changed file must fail. In the end the tests that failed are
run without any bug, and those that fail again have caught nothing. Prints every survivor; exits
with 1 if fewer than 95 % were caught. A survivor is a missing test, or a slip that changes nothing.
About half an hour on one core.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from saccade.processes import cores

PARTS = ("theories", "models", "engines", "measures", "watching", "sweeps")
ASKED = 0.95
_ALSO = {
    "models": ("agreement", "engines"),
    "engines": ("agreement",),
}  # folders of tests that answer for a part, next to its own
_ELSEWHERE = {  # tests of what is reached only through something else
    "identity.py": ("tests/sweeps/test_identity.py",),
    **dict.fromkeys(
        (
            "theories/focus_and_dilution/expansion.py",
            "theories/focus_and_dilution/focus.py",
            "theories/joma/laws.py",
            "theories/scan_and_snap/clock.py",
            "theories/scan_and_snap/concentration.py",
            "theories/scan_and_snap/decoder.py",
            "theories/scan_and_snap/embedded_terms.py",
            "theories/scan_and_snap/features.py",
            "theories/scan_and_snap/snapping.py",
        ),
        ("tests/experiments/test_answers.py",),  # formulas
    ),
    "experiments/scan_and_snap/attention_tree.py": ("tests/experiments/test_joma.py",),
    "models/attention_classifier.py": ("tests/theories/rank_collapse/test_closed_forms.py",),
    "experiments/scan_and_snap/joint_layer.py": ("tests/experiments/test_joma.py",),
    "experiments/scan_and_snap/placed_pairwise.py": ("tests/experiments/test_positional_prior.py",),
    "models/pairwise_start.py": ("tests/engines/test_starts.py",),
    "models/reduced_pairwise.py": ("tests/engines/test_flow.py",),
    "engines/window_descent.py": ("tests/models/test_pairwise_text.py",),
    "sweeps/command.py": (
        "tests/sweeps/test_command.py",
        "tests/sweeps/test_repair.py",
        "tests/cli/test_report.py",
    ),
    "sweeps/execution.py": ("tests/sweeps/test_results.py",),
}
_MOST_FILES = 3  # of tests for one mutant: those that know its file best
_SECONDS = 900  # for the tests of one mutant; one that hangs is caught
_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "src/saccade"
_COPIED = (
    "src",
    "tests",
    "tools",
    "docs",
    "examples",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "NOTATION.md",
    "mkdocs.yml",
)
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """One slip: a file of `src/saccade`, the text that stands there once, and what stands there
    then.
    """

    file: str
    old: str
    new: str


PLANTED = (
    Mutant(
        "identity.py", '"Saccade": written, "compiled C": compiled_code(), ', '"Saccade": written, '
    ),
    Mutant("identity.py", 'path.suffix in (".py", ".c")', 'path.suffix == ".py"'),
    Mutant("identity.py", '"numpy", "optax", "scipy"', '"numpy", "scipy"'),
    Mutant(
        "sweeps/grid.py",
        "contents(named(vars(self.config), self.axes))",
        "contents(vars(self.config).items())",
    ),
    Mutant(
        "data/text/cache.py",
        "return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()",
        "return hashlib.blake2b(file.read(2**20), digest_size=16).digest()",
    ),
    Mutant("forecasting/stages.py", "_turn(time, sign * (curve", "_turn(time, (curve"),
    Mutant("forecasting/stages.py", "[sign * found[2]", "[found[2]"),
    Mutant("watching/token_statistics.py", "next_same[back] >= at", "next_same[back] > at"),
    Mutant("data/text/context_law.py", "(self.count + 1) /", "self.count /"),
    Mutant(
        "theories/scan_and_snap/concentration.py",
        "np.log(2 / failure_prob) / (2 *",
        "np.log(2 / failure_prob) / (1 *",
    ),
    Mutant(
        "theories/scan_and_snap/concentration.py", "return K / np.sqrt(", "return 2 * K / np.sqrt("
    ),
    Mutant(
        "theories/scan_and_snap/gain.py",
        "np.exp(2 * initial_feature**2 * B)",
        "np.exp(1 * initial_feature**2 * B)",
    ),
    Mutant(
        "experiments/real_text/text_cycle.py",
        "n_moved, wrong = int(side.notnull().sum()), (side != wanted) & side.notnull()",
        "n_moved, wrong = int(side.notnull().sum()), side != wanted",
    ),
    Mutant("measures/events.py", "int(moved.argmax()) - 1 if", "int(moved.argmax()) if"),
    Mutant(
        "watching/recorder.py",
        "self.check is None or not (is_first",
        "self.check is None and not (is_first",
    ),
    Mutant(
        "engines/embedded_descent.py",
        "generator(seed, Purpose.DATA, step + 1)",
        "generator(seed, Purpose.DATA, step)",
    ),
    Mutant("engines/text_batches.py", "((length - 1) // self.context)", "(length // self.context)"),
)


@cache
def drawn(part: str, n: int) -> list[Mutant]:
    """Slips of one part, at random over all places where one could be made; other changes of the
    part leave them as they are.
    """
    places = [
        Mutant(str(path.relative_to(_PACKAGE)), old, new)
        for path in sorted((_PACKAGE / part).rglob("*.py"))
        for old, new in _slips(path.read_text(encoding="utf-8"))
    ]
    return sorted(places, key=lambda slip: hashlib.sha256("\n".join(slip).encode()).digest())[:n]


def _slips(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of source that stand once in a file, each with what it could be by mistake."""
    for node in ast.walk(ast.parse(text)):
        new = _slip(node)
        old = ast.get_source_segment(text, node) if new is not None else None
        if old is not None and new is not None and text.count(old) == 1:
            yield old, new


def _is_text(node: ast.expr) -> bool:
    """What is added or divided as text would end in a TypeError, whatever the tests."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _slip(node: ast.AST) -> str | None:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        return ast.unparse(
            ast.Compare(node.left, [_SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        )  # type: ignore[list-item]
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in _SWAPS
        and not _is_text(node.left)
        and not _is_text(node.right)
    ):
        return ast.unparse(ast.BinOp(node.left, _SWAPS[type(node.op)](), node.right))  # type: ignore[arg-type]
    if isinstance(node, ast.BoolOp):
        return ast.unparse(ast.BoolOp(_SWAPS[type(node.op)](), node.values))  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return f"({ast.unparse(node.operand)})"
    return None


@cache
def concerning(file: str) -> list[str]:
    """The files of tests that know a file best: named after it, then those that name most of what
    it, or what uses it, defines.
    """
    own = _defined(_PACKAGE / file)
    users = [
        path
        for path in sorted(_PACKAGE.rglob("*.py"))
        if own & _words(path) and path != _PACKAGE / file
    ]
    around = set().union(*(_defined(path) for path in users))

    def nearness(path: Path) -> tuple[bool, int, int]:
        return (
            path.stem == f"test_{Path(file).stem}",
            len(own & _words(path)),
            len(around & _words(path)),
        )

    part = Path(file).parts[0]
    tests = [
        path
        for name in (part, *_ALSO.get(part, ()))
        for path in sorted((_ROOT / "tests" / name).rglob("test_*.py"))
    ]
    nearest = [str(path.relative_to(_ROOT)) for path in sorted(tests, key=nearness, reverse=True)]
    return list(dict.fromkeys([*_ELSEWHERE.get(file, ()), *nearest]))[:_MOST_FILES]


@cache
def _defined(path: Path) -> set[str]:
    """Functions and classes of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))


def failing_test(mutant: Mutant) -> str:
    """The first test that fails on it, in a copy of the project; empty if none does."""
    with _copied() as folder:
        file = folder / "src/saccade" / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.file} must have this once: {mutant.old}")
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        return next(iter(failures(folder, concerning(mutant.file))), "")


@contextmanager
def _copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="saccade-mutant-") as folder:
        for name in _COPIED:
            copy = shutil.copytree if (_ROOT / name).is_dir() else shutil.copy
            copy(_ROOT / name, Path(folder) / name)
        (_ROOT / ".pytest_cache").mkdir(exist_ok=True)
        (Path(folder) / ".pytest_cache").symlink_to(
            _ROOT / ".pytest_cache"
        )  # JAX knows compiled code by its program
        yield Path(folder)


def failures(folder: Path, tests: Sequence[str], *options: str) -> list[str]:
    """Tests that fail, or files that cannot be read; the first only unless `options` say otherwise."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        "-p",
        "no:cacheprovider",
        *(options or ("-x",)),
        *tests,
    ]
    environment = os.environ | {
        "PYTHONPATH": f"{folder}/src",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ["timeout"]
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ended.stdout, re.MULTILINE)


def main(arguments: list[str]) -> int:
    n = int(arguments[0]) if arguments else 12
    mutants = [*PLANTED, *(mutant for part in PARTS for mutant in drawn(part, n))]
    found: list[str] = []
    with ThreadPoolExecutor(cores()) as pool:
        for mutant, test in zip(mutants, pool.map(failing_test, mutants)):
            found.append(test)
            print(
                f"{'caught' if test else 'SURVIVES':9} {mutant.file}: {mutant.old!r} -> {mutant.new!r} {test}",
                flush=True,
            )
    with _copied() as folder:
        always = failures(
            folder, sorted({test for test in found if test} - {"timeout"}), "--maxfail=0"
        )
    if always:
        print("\n".join(["these fail without a bug, and caught nothing:", *always]))
    n_caught = sum(bool(test) and test not in always for test in found)
    print(f"{n_caught} of {len(found)} caught")
    return int(n_caught < ASKED * len(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
