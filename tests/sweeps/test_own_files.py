"""A user's own experiment file is run, swept, resumed and repaired like any other; a change of the
file makes other runs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from saccade.cli import main
from saccade.errors import InputError
from saccade.experiments import experiment
from saccade.experiments.reproduce import reproduce
from saccade.sweeps.grid import Grid
from tests.sweeps.small_sweeps import NAME

TEXT = Path(NAME).read_text()
SWEPT = ["sweep", "types.py", "--workers", "1", "--over"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A quick file, under the name of a module of Python's own, in the folder that
    commands are given from.
    """
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "types.py"
    path.write_text(TEXT)
    return path


def _runs(path: Path) -> list[str]:
    over = {"lr_decoder": [0.5, 1.0]}
    return [run.identity for run in Grid.of(str(path), over).runs]


def test_another_file_is_another_run_but_another_place_is_not(mine: Path, tmp_path: Path) -> None:
    first = _runs(mine)
    (tmp_path / "moved").mkdir()
    moved = shutil.copy(mine, tmp_path / "moved" / mine.name)
    assert _runs(moved) == first
    mine.write_text(TEXT.replace("arange(1, 4)", "arange(1, 5)"))
    assert not set(_runs(mine)) & set(first)
    assert experiment(str(mine)).run().record.sizes["power"] == 4  # of the edited file


def test_what_a_file_imports_is_part_of_its_runs(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also through another file, inside a function, and any file of a package."""
    library = tmp_path / "library"
    (library / "speeds").mkdir(parents=True)
    files = [
        library / "rates.py",
        library / "speeds" / "__init__.py",
        library / "speeds" / "deep.py",
    ]
    for file, content in zip(files, ("import speeds.deep", "", "SPEED = 1.0"), strict=True):
        file.write_text(content)
    monkeypatch.syspath_prepend(library)
    mine.write_text(TEXT.replace("    for _ in", "    import rates\n\n    for _ in"))
    found = [_runs(mine)]
    for file in files:
        file.write_text(file.read_text() + "\nOTHER = 2.0\n")
        found.append(_runs(mine))
    assert len({tuple(runs) for runs in found}) == 4


def test_a_swept_text_that_was_rewritten_is_another_run(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command computes it, and verify goes by the text that the runs had."""
    mine.write_text(TEXT.replace("classes: str", "text: str"))
    texts = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for text in texts:
        text.write_text("all is well. " * 99)
    asked = [*SWEPT, "text=one.txt,two.txt", "--json"]
    assert main(asked) == 0
    texts[1].write_text("all is hell. " * 99)
    folder = tmp_path / "results" / "sweeps" / "quick"
    assert main(["check", str(folder)]) == 0
    capsys.readouterr()
    assert main(["sweep", "--status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == 1
    assert main(asked) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["finished"], counts["of other settings or code"]) == (2, 1)


def test_a_file_that_only_a_folder_names_is_never_run(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is looked at or repaired there: a folder may come from a stranger, and so may its
    file.
    """
    assert main([*SWEPT, "lr_decoder=0.5,1"]) == 0
    assert main(["run", "types.py"]) == 0
    sweep, result = (
        Path("results/sweeps/quick"),
        Path("results/own/quick"),
    )
    next((sweep / "runs").iterdir()).write_bytes(b"damaged")
    next((result / "record.zarr" / "drawn").glob("[0-9]*")).unlink()
    mine.write_text("import pathlib; pathlib.Path('ran').touch()\n" + TEXT)
    capsys.readouterr()
    assert (
        main(["sweep", "--status", str(sweep)]) == 0
    )  # it is read as text: the edited file makes other runs
    assert "0 finished, 2 missing, 2 of other settings or code" in capsys.readouterr().out
    assert main(["check", str(sweep)]) == 1
    assert main(["check", "results"]) == 1
    assert main(["check", str(sweep), "--repair"]) == 2
    assert (
        "which is not run just because a folder names it; if you trust it, add --file and its path."
        in capsys.readouterr().err
    )
    assert main(["check", "results", "--repair"]) == 1
    assert capsys.readouterr().out.count("add --file and its path") == 2
    assert not Path("ran").exists()
    assert (
        main(["check", str(sweep), "--repair", "--file", "types.py"]) == 2
    )  # run, since it is named, and found to be another
    assert "what these numbers depend on has changed (types.py: " in capsys.readouterr().err
    assert Path("ran").exists()
    mine.write_text(TEXT)
    assert main(["check", "results", "--repair", "--file", "types.py"]) == 0
    assert main(["check", "results"]) == 0


def test_the_result_of_a_file_that_was_edited_since_is_not_replaced_silently(mine: Path) -> None:
    for _ in range(2):  # the same again is no loss
        reproduce(str(mine), "out")
    claims = Path("out/quick/claims.json").read_bytes()
    mine.write_text(TEXT.replace("arange(1, 4)", "arange(1, 5)"))
    with pytest.raises(
        InputError,
        match=r"types\.py has changed\); give --out another folder, or --replace to write over it",
    ):
        reproduce(str(mine), "out")
    assert Path("out/quick/claims.json").read_bytes() == claims
    reproduce(str(mine), "out", replace=True)


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_broken_file_is_one_sentence(
    mine: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(TEXT.replace("@saccade.experiment", "@saccda.experiment"))
    assert main([command, "types.py"]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    line = TEXT[: TEXT.index("@saccade")].count("\n") + 1
    why = "NameError: name 'saccda' is not defined"
    assert sentence == f"saccade: {mine}, line {line}, cannot be loaded: {why}"


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("drawn.mean() **", "drawn.meen() **", r"types.py, line \d+: AttributeError: .*meen"),
        ("return f", "return 3 or f", r"quick must return its answer, a sentence; got "),
        ("at_most(MEAN", "at_most('true'", r"`statement` of a claim must be a saccade.Statement"),
        ("[0]", "3", r"types.py, line \d+: TypeError"),
        ('classes: str = ""', "texts: int = 3", r"the corpus '3' is not known"),
        (
            'classes: str = ""',
            'classes=""',
            r"setting `classes` of quick needs a type and a default",
        ),
        ('    """Do random', '    _ = """Do random', r"quick needs a docstring: the question"),
    ],
)
def test_a_mistake_while_a_file_of_ones_own_runs_is_a_sentence(
    mine: Path, right: str, wrong: str, said: str
) -> None:
    assert right in TEXT
    mine.write_text(TEXT.replace(right, wrong))
    with pytest.raises(InputError, match=said):
        reproduce(str(mine), "out")
    assert not Path("out/quick").exists()


def test_seeds_that_are_a_count_cannot_be_swept_one_by_one(mine: Path) -> None:
    mine.write_text(TEXT.replace("seed: int", "seeds: int"))
    with pytest.raises(InputError, match=r"`seeds` of types.py is a count; .* declare `seeds: "):
        Grid.of("types.py", (), 2)


def test_a_module_beside_a_file_is_no_part_of_it(mine: Path) -> None:
    mine.with_name("beside_it.py").write_text("N = 1")
    mine.write_text(TEXT.replace("import time", "import beside_it\nimport time"))
    with pytest.raises(
        InputError, match=r"line 3, cannot be loaded: .* put what it needs of beside_it into it"
    ):
        experiment("types.py")
