"""Everything that lies in a folder of results is found and told apart."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.errors import InputError
from saccade.lab.case import Case
from saccade.records.checksums import seal
from saccade.records.observation_log import ObservationLog
from saccade.records.store import load_claims, save_record
from saccade.report.page import write_page, write_report
from saccade.report.page_data import json_text
from saccade.report.sources import result_of_record, results_of
from saccade.report.specs import figures
from tests.browser import expect
from tests.cli.calls import called
from tests.report.made_results import THEOREM_4, written
from tests.report.watched_records import watched_record


def test_a_tree_of_results_is_read_in_the_order_of_its_runs(results):
    assert [result.name for result in results_of([results])] == ["descent", "growth", "cycle"]


def test_a_place_of_any_size_is_a_place(results, tmp_path):
    shutil.copytree(results / "growth", tmp_path / "growth")
    about = tmp_path / "growth" / "about.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"place": 10**400}))
    seal(tmp_path / "growth")
    shutil.copytree(results / "cycle", tmp_path / "cycle")
    assert {result.name for result in results_of([tmp_path])} == {"cycle", "growth"}


def test_sources_of_all_kinds_go_into_one_page(results, tmp_path):
    save_record(watched_record(3, 2, 2, 5), tmp_path / "mine.zarr")
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "summary.csv").write_text("lr,loss\n0.1,2.0\n0.2,1.5\n")
    (sweep / "figure.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>')
    save_record(
        xr.Dataset(
            {"loss": (("lr", "time"), np.ones((2, 3)))}, {"lr": [0.1, 0.2], "time": [0, 1, 2]}
        ),
        sweep / "dataset.zarr",
    )
    seal(sweep)
    about = {
        "axes": {"loss": []},
        "coords": {},
        "definitions": {},
        "config": {"task": "net"},
        "wall_time_s": 1.0,
    }
    log = ObservationLog(tmp_path / "watched", about)
    log.append(3, {"loss": np.asarray(1.5)})
    log.save()
    found = results_of([results / "growth", tmp_path / "mine.zarr", sweep, tmp_path / "watched"])
    assert [result.name for result in found] == ["growth", "mine", "sweep", "watched"]
    assert "2 runs" in found[2].about["statement"]
    assert "net" in found[3].about["statement"]
    page = write_report([results / "growth", tmp_path], tmp_path / "report.html").read_text("utf-8")
    assert page.count('class="card result"') == 4


def test_a_sweep_shows_its_table(visit, tmp_path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "summary.csv").write_text(
        'lr,note\n0.1,"two, of ""them"""\n0.2,<b>x</b>\n'
    )
    seal(tmp_path / "sweep")
    page = visit(write_report(tmp_path / "sweep", tmp_path / "report.html"))
    page.locator(".plain-table td").first.wait_for()
    assert page.locator(".plain-table td").all_inner_texts() == [
        "0.1",
        'two, of "them"',
        "0.2",
        "<b>x</b>",
    ]
    expect(page.locator("#claims, #claims-table")).to_have_count(0)  # nothing is claimed


def test_a_long_table_is_cut_and_its_numbers_are_short(visit, tmp_path):
    (tmp_path / "sweep").mkdir()
    rows = "".join(
        f"{seed},r{seed},{1 / 3 + seed},4.1556e-7,nan\n" for seed in range(123450, 123550)
    )
    (tmp_path / "sweep" / "summary.csv").write_text(
        "seed,run,final_loss,rate,share_of_claims_holding\n" + rows
    )
    seal(tmp_path / "sweep")
    page = visit(write_report(tmp_path / "sweep", tmp_path / "report.html"))
    page.locator(".plain-table td").first.wait_for()
    assert page.locator(".plain-table th").all_inner_texts() == ["seed", "final loss", "run"]
    assert page.locator(".plain-table tbody tr").first.locator("td").all_inner_texts() == [
        "123450", "1.235×10⁵", "r123450",
    ]  # fmt: skip
    expect(page.locator(".plain-table tbody tr")).to_have_count(50)
    note = page.locator(".table-place .note").inner_text()
    assert "first 50 of 100 rows" in note
    assert (
        "in all of them: rate 4.156×10⁻⁷." in note
    )  # and not a word of the share of claims, which no run has


def test_two_results_of_one_name_are_told_apart_by_their_folders(results, tmp_path):
    for parent in ("slow", "fast"):
        shutil.copytree(results / "growth", tmp_path / parent / "growth")
    named = [
        result.name
        for result in results_of([tmp_path / "slow", results / "descent", tmp_path / "fast"])
    ]
    assert named == ["slow/growth", "descent", "fast/growth"]


def test_a_folder_that_is_given_twice_is_shown_once(results):
    named = [result.name for result in results_of([results / "growth", results / "growth"])]
    assert named == ["growth"]


def test_leftovers_and_other_peoples_folders_are_passed_over(results, tmp_path):
    shutil.copytree(results / "growth", tmp_path / "growth")
    shutil.copytree(results / "growth", tmp_path / ".growth.0123.unfinished")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "about.json").write_text("{}")
    (tmp_path / "yours").mkdir()
    (tmp_path / "yours" / "about.json").write_text("not JSON")
    assert [result.name for result in results_of([tmp_path])] == ["growth"]
    assert write_page(tmp_path) == tmp_path / "report.html"


def flipped(path):
    content = path.read_text()
    path.write_text(content.replace('"measured": 1', '"measured": 0', 1))
    assert path.read_text() != content


HARMS = {
    "flipped": (
        lambda folder: flipped(folder / "claims.json"),
        "claims.json is not what was written",
    ),
    "truncated": (
        lambda folder: os.truncate(folder / "claims.json", 99),
        "claims.json is not what was written",
    ),
    "lost": (lambda folder: (folder / "claims.json").unlink(), "claims.json is lost"),
    "unsealed": (lambda folder: (folder / "checksums.json").unlink(), "checksums.json is lost"),
    "empty": (
        lambda folder: (folder / "checksums.json").write_text(""),
        "checksums.json is not what was written",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_claims_that_are_not_what_was_written_are_not_shown_and_the_page_and_the_caller_are_told(
    tmp_path, harm
):
    for name in ("whole", "harmed"):
        written(
            tmp_path / name,
            claims=[Case().near(THEOREM_4, f"growth, {name}", 1.3597, 1.0, within=0.5)],
        )
    harmed, sentence = HARMS[harm]
    harmed(tmp_path / "harmed")
    told = []
    page = write_report(tmp_path, tmp_path / "report.html", told.append).read_text("utf-8")
    assert "growth, whole" in page
    assert "growth, harmed" not in page
    assert len(told) == 1
    assert f"{tmp_path / 'harmed'}: {sentence}" in told[0]
    assert (
        f"Could not be read, and is not shown:</p><ul><li>{tmp_path / 'harmed'}: {sentence}" in page
    )
    with pytest.warns(UserWarning, match=re.escape(sentence)):
        write_report(tmp_path, tmp_path / "report.html")
    with pytest.raises(InputError, match=re.escape(sentence)):
        load_claims(tmp_path / "harmed")


def test_a_page_that_is_not_ours_is_not_written_over(results, tmp_path):
    shutil.copytree(results / "growth", tmp_path / "growth")
    (tmp_path / "report.html").write_text("<title>a thesis</title>")
    for _ in range(2):
        assert write_page(tmp_path) == tmp_path / "saccade-report.html"
    assert (tmp_path / "report.html").read_text() == "<title>a thesis</title>"
    (tmp_path / "report.html").unlink()
    for _ in range(2):
        assert write_page(tmp_path) == tmp_path / "report.html"


def test_a_page_that_nobody_named_replaces_only_one_of_saccade(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = "<title>a thesis</title>"
    Path("report.html").write_text(mine)
    for _ in range(2):
        assert write_report(results / "growth") == Path("saccade-report.html")
    assert called("report", results / "growth")[1] == "report: saccade-report.html\n"
    Path("saccade-report.html").write_text(mine)
    with pytest.raises(InputError, match=r"report\.html and saccade-report\.html"):
        write_report(results / "growth")
    assert {file.read_text() for file in tmp_path.iterdir()} == {mine}
    assert write_report(results / "growth", "report.html") == Path("report.html")


def test_files_that_are_not_listed_are_neither_shown_nor_waited_for(results, tmp_path):
    shutil.copytree(results / "growth", tmp_path / "growth")
    (before,) = results_of([tmp_path / "growth"])
    os.mkfifo(tmp_path / "growth" / "pipe.csv")
    (tmp_path / "growth" / "own.csv").write_text("mine")
    (after,) = results_of([tmp_path / "growth"])
    assert list(after.tables) == list(before.tables)


def test_a_file_that_is_damaged_does_not_hide_the_others(results, tmp_path):
    folder = tmp_path / "cycle"
    shutil.copytree(results / "cycle", folder)
    damaged = ["about.json", "figure.svg", "record.zarr/loss/.zarray"]
    for name in damaged:
        (folder / name).write_text("[]")
    (found,) = results_of([folder])
    assert [
        sentence.removeprefix(f"{folder}: ").partition(" ")[0] for sentence in sorted(found.unread)
    ] == damaged
    assert (found.svg, found.record) == ("", None)
    assert found.claims == load_claims(results / "cycle")


def test_where_nothing_can_be_read_no_page_is_written(results, tmp_path):
    shutil.copytree(results / "growth", tmp_path / "growth")
    (tmp_path / "growth" / "checksums.json").unlink()
    with pytest.raises(InputError, match=r"growth: checksums\.json is lost"):
        write_report(tmp_path, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


WRONG = {
    "claims.json": [[3], [[]], {"a": 1}, [{"title": "x"}], "deep"],
    "panels.json": [
        [3],
        [[3]],
        [[{"kind": []}]],
        [[{"kind": "line", "series": 3}]],
        {"a": 1},
        "deep",
    ],
    "about.json": [[], {"statement": [1]}, {"command": {}}, 3, "deep"],
}


@pytest.mark.parametrize(
    "name, content", [(name, content) for name, contents in WRONG.items() for content in contents]
)
def test_files_of_the_wrong_shape_are_passed_over_without_a_traceback(tmp_path, name, content):
    folder = written(
        tmp_path / "mine", claims=[Case().near(THEOREM_4, "growth", 1.0, 1.0, within=0.5)]
    )
    (folder / name).write_text("[" * 10**5 if content == "deep" else json.dumps(content))
    seal(folder)
    assert write_report(folder, tmp_path / "page.html", lambda sentence: None).exists()


@pytest.mark.parametrize("name", ["nothing", "file.txt", "empty"])
def test_what_cannot_be_reported_is_said_in_a_sentence(tmp_path, name):
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=name):
        write_report(tmp_path / name, tmp_path / "report.html")


def test_json_in_the_page_cannot_end_its_element():
    text = json_text({"</script>": ["<!--", float("nan"), float("inf")]})
    assert "<" not in text
    assert json.loads(text) == {"</script>": ["<!--", None, None]}


def test_a_folder_whose_name_is_not_text_is_shown_with_escapes(tmp_path):
    folder = written(tmp_path / "mine").rename(tmp_path / os.fsdecode(b"\xff-mine"))
    assert r"\udcff-mine" in write_report(folder, tmp_path / "page.html").read_text("utf-8")


def test_a_table_that_is_none_has_no_rows(tmp_path):
    folder = written(
        tmp_path / "mine", tables={"events.csv": [{"event": "x" * 200_000, "time": 1}]}
    )
    assert results_of([folder])[0].rows("events.csv") == []
    assert write_report(folder, tmp_path / "page.html").exists()


def test_the_page_of_a_system_of_ones_own_says_its_name_once_and_numbers_its_parameters():
    class Slope(saccade.System):
        def start(self, rng):
            return {"height": np.ones(3)}

        def loss(self, parameters):
            return (parameters["height"] ** 2).sum()

    record = saccade.flow(Slope(), t1=2.0, n_times=3)
    assert result_of_record(record).about["statement"] == "Slope: population gradient flow."
    [heights] = [figure for figure in figures(record) if figure["name"] == "parameter_height"]
    assert heights["names"] == [["height 0", "height 1", "height 2"]]
    assert heights["title"] == "Height, a parameter of the system"
