"""A user's own experiment file is run, swept, resumed and repaired like any other; a change of the
file makes other runs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import saccade
from saccade.cli import main
from saccade.errors import InputError
from saccade.experiments import experiment
from saccade.experiments.reproduce import reproduce
from saccade.report.sources import results_of
from saccade.sweeps.execution import execute
from saccade.sweeps.grid import Grid
from saccade.sweeps.outcome_file import FINISHED
from saccade.sweeps.units import units_of
from tests.docs.pages import DOCS, blocks

TEXT = next(
    block.code for block in blocks(DOCS / "extend" / "experiment.md") if block.title
).replace("n_times=30", "n_times=5")
OVER = {"lr_attention": [0.5, 1.0]}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the documentation, under the name of a module of Python's own, in the folder that
    commands are given from.
    """
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "types.py"
    path.write_text(TEXT)
    return path


def _runs(path: Path, **config: float) -> list[str]:
    name = str(path)
    return [
        run.identity for run in Grid.of(name, OVER, None, experiment(name).settings(**config)).runs
    ]


def test_a_sweep_of_a_file_is_resumed_and_repaired(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["sweep", "./types.py", "--setting", "t1=10", "--workers", "2", "--over"]
    assert main([*asked, "lr_attention=0.5,1"]) == 0
    folder = Path("results/sweeps/common-tokens-fall")
    first = sorted((folder / "runs").iterdir())
    assert main([*asked, "lr_attention=0.5,1,2"]) == 0
    assert set(first) < set((folder / "runs").iterdir())  # what was finished is not done again
    dataset = saccade.load_record(folder / "dataset.zarr")
    assert dataset.share_of_claims_holding.values.tolist() == [1, 1, 1]
    assert dataset.attrs["dynamics"] == "sweep of common-tokens-fall"
    first[0].write_bytes(b"damaged")
    capsys.readouterr()
    assert main(["verify", str(folder), "--repair", "--file", "types.py"]) == 0
    assert "it has been repaired" in capsys.readouterr().out
    assert saccade.load_record(folder / "dataset.zarr").identical(dataset)
    assert main(["sweep", "--status", str(folder), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["name"], status["finished"], status["missing"]) == ("common-tokens-fall", 3, 0)


def test_one_process_finds_what_others_find(mine: Path) -> None:
    config = experiment(str(mine)).settings(t1=10.0)
    dataset = saccade.sweep("types.py", OVER, config=config, out="swept", workers=1)
    grid = Grid.of("types.py", OVER, None, config)
    outcomes = [
        outcome
        for unit in units_of(grid.name, grid.runs, _runs(mine, t1=10.0))
        for outcome in execute(unit)
    ]
    assert [outcome.status for outcome in outcomes] == [FINISHED] * 2
    for place, outcome in enumerate(outcomes):
        assert (
            outcome.record[1]["attention"] == dataset.attention.isel(lr_attention=place).values
        ).all()


def test_another_file_is_another_run_but_another_place_is_not(mine: Path, tmp_path: Path) -> None:
    first = _runs(mine)
    (tmp_path / "moved").mkdir()
    moved = shutil.copy(mine, tmp_path / "moved" / mine.name)
    assert _runs(moved) == first
    mine.write_text(TEXT.replace("n_times=5", "n_times=6"))
    assert not set(_runs(mine)) & set(first)
    assert (
        experiment(str(mine)).run().sizes["time"] == 7
    )  # the start, and the six samples of the edited file


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
    mine.write_text(TEXT.replace("    task = ", "    import rates\n\n    task = "))
    found = [_runs(mine)]
    for file in files:
        file.write_text(file.read_text() + "\nOTHER = 2.0\n")
        found.append(_runs(mine))
    assert len({tuple(runs) for runs in found}) == 4


def test_a_swept_text_that_was_rewritten_is_another_run(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command computes it, and verify goes by the text that the runs had."""
    mine.write_text(TEXT.replace("    t1: float", '    text: str = ""\n    t1: float'))
    texts = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for text in texts:
        text.write_text("all is well. " * 99)
    asked = ["sweep", "types.py", "--setting", "t1=10", "--workers", "1", "--json"]
    asked += ["--over", "text=one.txt,two.txt"]
    assert main(asked) == 0
    texts[1].write_text("all is hell. " * 99)
    folder = tmp_path / "results" / "sweeps" / "common-tokens-fall"
    assert main(["verify", str(folder)]) == 0
    capsys.readouterr()
    assert main(["sweep", "--status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == 1
    assert main(asked) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["finished"], counts["of other settings or code"]) == (2, 1)


def test_a_damaged_result_of_a_file_is_run_again_from_anywhere(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "types.py", "--t1", "10"]) == 0
    folder = tmp_path / "results" / "own" / "common-tokens-fall"
    whole = saccade.load_record(folder / "record.zarr")
    next((folder / "record.zarr" / "attention").glob("[0-9]*")).unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["verify", str(folder.parent), "--repair", "--file", str(mine)]) == 0
    assert (saccade.load_record(folder / "record.zarr").attention == whole.attention).all()
    (result,) = results_of([folder])
    assert [claim["verdict"] for claim in result.claims] == ["holds"]
    mine.unlink()
    (folder / "table.csv").write_text("")
    (folder / "record.zarr" / ".zattrs").unlink()
    capsys.readouterr()
    assert main(["verify", str(folder.parent), "--repair", "--file", str(mine)]) == 1
    assert f"it cannot be run again: there is no file {mine}" in capsys.readouterr().out


def test_a_file_that_only_a_folder_names_is_never_run(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is looked at or repaired there: a folder may come from a stranger, and so may its
    file.
    """
    assert (
        main(
            [
                "sweep",
                "types.py",
                "--setting",
                "t1=10",
                "--workers",
                "1",
                "--over",
                "lr_attention=0.5,1",
            ]
        )
        == 0
    )
    assert main(["run", "types.py", "--t1", "10"]) == 0
    sweep, result = (
        Path("results/sweeps/common-tokens-fall"),
        Path("results/own/common-tokens-fall"),
    )
    next((sweep / "runs").iterdir()).write_bytes(b"damaged")
    next((result / "record.zarr" / "attention").glob("[0-9]*")).unlink()
    mine.write_text("import pathlib; pathlib.Path('ran').touch()\n" + TEXT)
    capsys.readouterr()
    assert (
        main(["sweep", "--status", str(sweep)]) == 0
    )  # it is read as text: the edited file makes other runs
    assert "0 finished, 2 missing, 2 of other settings or code" in capsys.readouterr().out
    assert main(["verify", str(sweep)]) == 1
    assert main(["verify", "results"]) == 1
    assert main(["verify", str(sweep), "--repair"]) == 2
    assert (
        "which is not run just because a folder names it; if you trust it, add --file and its path."
        in capsys.readouterr().err
    )
    assert main(["verify", "results", "--repair"]) == 1
    assert capsys.readouterr().out.count("add --file and its path") == 2
    assert not Path("ran").exists()
    assert (
        main(["verify", str(sweep), "--repair", "--file", "types.py"]) == 2
    )  # run, since it is named, and found to be another
    assert "what these numbers depend on has changed (types.py: " in capsys.readouterr().err
    assert Path("ran").exists()
    mine.write_text(TEXT)
    assert main(["verify", "results", "--repair", "--file", "types.py"]) == 0
    assert main(["verify", "results"]) == 0


def test_the_result_of_a_file_that_was_edited_since_is_not_replaced_silently(mine: Path) -> None:
    for _ in range(2):  # the same again is no loss
        reproduce(str(mine), "out")
    claims = Path("out/common-tokens-fall/claims.json").read_bytes()
    mine.write_text(TEXT.replace("n_times=5", "n_times=6"))
    with pytest.raises(
        InputError,
        match=r"types\.py has changed\); give --out another folder, or --replace to write over it",
    ):
        reproduce(str(mine), "out")
    assert Path("out/common-tokens-fall/claims.json").read_bytes() == claims
    reproduce(str(mine), "out", replace=True)


def test_help_of_a_setting_that_is_on_by_default_describes_it_and_names_its_opposite(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(
        TEXT.replace(
            "    lr_attention:",
            '    plain: bool = True\n    """plain descent"""\n    lr_attention:',
        )
    )
    with pytest.raises(SystemExit, match="0"):
        main(["run", "types.py", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--plain, --no-plain" in said
    assert "plain descent (default: True)" in said
    assert "--no-json" not in said


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_broken_file_is_one_sentence(
    mine: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(TEXT.replace("@dataclass", "@datacalss"))
    assert main([command, "types.py"]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    line = TEXT[: TEXT.index("@dataclass")].count("\n") + 1
    assert (
        sentence
        == f"saccade: {mine}, line {line}, cannot be loaded: NameError: name 'datacalss' is not defined"
    )


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "common(record).sum()",
            "record.no_such_variable",
            r"types.py, line \d+: AttributeError: .*no_such_variable",
        ),
        (
            "yield case.in_order",
            "return None; case.in_order",
            r"`claims` of common-tokens-fall must give claims, .* it gave None",
        ),
        (
            'caption="It falls, and then freezes."',
            "caption=3",
            r"what .*types.py gives cannot be used: TypeError",
        ),
        (
            "    t1: float",
            "    texts: int = 3\n    t1: float",
            r"the corpus '3' is not known",
        ),
        (
            "yield case.in_order",
            "yield 'true'; case.in_order",
            r"must give claims, which a Case makes; it gave 'true'",
        ),
    ],
)
def test_a_mistake_while_a_file_of_ones_own_runs_is_a_sentence(
    mine: Path, right: str, wrong: str, said: str
) -> None:
    assert right in TEXT
    mine.write_text(TEXT.replace(right, wrong))
    with pytest.raises(InputError, match=said):
        reproduce(str(mine), "out")
    assert not Path("out/common-tokens-fall").exists()


def test_seeds_that_are_a_count_cannot_be_swept_one_by_one(mine: Path) -> None:
    mine.write_text(
        TEXT.replace("lr_attention: float = 1.0", "seeds: int = 3").replace(
            "settings.lr_attention", "1.0"
        )
    )
    with pytest.raises(
        InputError,
        match=r"`seeds` of types.py is a count; .* declare `seeds: int \| tuple\[int, \.\.\.\]`",
    ):
        Grid.of("types.py", (), 2)


def test_a_module_beside_a_file_is_no_part_of_it(mine: Path) -> None:
    mine.with_name("beside_it.py").write_text("N = 1")
    mine.write_text(TEXT.replace("from dataclasses", "import beside_it\nfrom dataclasses"))
    with pytest.raises(
        InputError, match=r"line 3, cannot be loaded: .* put what it needs of beside_it into it"
    ):
        experiment("types.py")
