"""The package as it is installed: its names without the extras, and who else owns its files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import saccade

ROOT = Path(__file__).parents[1]
_EXTRAS = ("torch", "transformers", "safetensors", "lightning", "tokenizers", "distributed")


def run(code: str, **options: object) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_help_and_inspection_leave_out_what_needs_an_extra_and_its_name_says_which():
    lines = run(f"""
import sys
sys.modules |= dict.fromkeys({_EXTRAS})  # as if they were missing
import inspect, pydoc, saccade
members = dict(inspect.getmembers(saccade))
print(hasattr(saccade, "watch"), "watch" in members, "train" in members)
print(len(pydoc.render_doc(saccade)) > 1000)
try:
    saccade.watch
except AttributeError as error:
    print(error)
try:
    from saccade import watch
except ImportError as error:
    print(error)
""").splitlines()
    hint = "`saccade.watch` needs torch, which is not installed: pip install '.[torch]' in the folder of Saccade"
    assert lines == ["False False True", "True", hint, hint]


@pytest.mark.parametrize(
    "owner, owns, is_named",
    [
        ("saccade-0.1.0", "saccade/__init__.py", True),
        ("saccade_vision-0.3.0", "saccade/__init__.py", True),
        (f"saccade_attention-{saccade.__version__}", "saccade/__init__.py", False),
        ("saccade_plugin-1.0", "saccade_plugin/__init__.py", False),
    ],
)
def test_importing_warns_if_another_distribution_owns_files_of_the_package(
    tmp_path, owner, owns, is_named
):
    (tmp_path / "saccade").mkdir()
    for name in ("__init__.py", "__init__.pyi", "lazy.py"):
        shutil.copy(Path(saccade.__file__).with_name(name), tmp_path / "saccade")
    (tmp_path / f"{owner}.dist-info").mkdir()
    (tmp_path / f"{owner}.dist-info" / "RECORD").write_text(f"x/RECORD,,\n{owns},,\n")
    printed = run("import sys; sys.path.insert(0, '.'); import saccade", cwd=tmp_path)
    assert (f"{owner.replace('-', ' ')} also installed files into" in printed) == is_named
    assert bool(printed) == is_named


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds_that_are_declared():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    tested = dict(
        line.partition(" ")[0].split("==")
        for line in (ROOT / "constraints-oldest.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    for name, bound in (dependency.split(">=") for dependency in declared):
        assert re.fullmatch(rf"{re.escape(bound)}(\.0)*", tested[name]), name
