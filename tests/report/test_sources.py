"""Everything that lies in a folder of results is found and told apart."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.records.store import save_record
from saccade.report.page import json_text, write_page, write_report
from saccade.report.sources import results_of
from tests.report.watched_records import watched_record


def test_a_tree_of_results_is_read_in_the_order_of_its_runs(results):
    assert [result.name for result in results_of([results])] == ["descent", "growth", "cycle"]


def test_sources_of_all_kinds_go_into_one_page(results, tmp_path):
    save_record(watched_record(3, 2, 2, 5), tmp_path / "mine.zarr")
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "summary.csv").write_text("lr,loss\n0.1,2.0\n0.2,1.5\n")
    (sweep / "figure.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>')
    save_record(
        xr.Dataset({"loss": (("lr", "time"), np.ones((2, 3)))}, {"lr": [0.1, 0.2], "time": [0, 1, 2]}), sweep / "dataset.zarr"
    )
    (unfinished := tmp_path / "watched" / "observations").mkdir(parents=True)
    about = {"axes": {"loss": []}, "coords": {}, "definitions": {}, "config": {"task": "net"}, "wall_time_s": 1.0}
    (unfinished / "about.json").write_text(json.dumps(about))
    np.savez(unfinished / "000000000003.npz", loss=np.asarray(1.5))
    found = results_of([results / "growth", tmp_path / "mine.zarr", sweep, tmp_path / "watched"])
    assert [result.name for result in found] == ["growth", "mine", "sweep", "watched"]
    assert "2 runs" in found[2].about["statement"]
    assert "net" in found[3].about["statement"]
    page = write_report([results / "growth", tmp_path], tmp_path / "report.html").read_text("utf-8")
    assert page.count('<section class="result"') == 4


def test_a_sweep_shows_its_table(visit, tmp_path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "summary.csv").write_text('lr,note\n0.1,"two, of ""them"""\n0.2,<b>x</b>\n')
    page = visit(write_report(tmp_path / "sweep", tmp_path / "report.html"))
    page.locator(".plain-table td").first.wait_for()
    assert page.locator(".plain-table td").all_inner_texts() == ["0.1", 'two, of "them"', "0.2", "<b>x</b>"]
    assert page.locator("#claims, #claims-table").count() == 0  # nothing is claimed


def test_a_long_table_is_cut_and_its_numbers_are_short(visit, tmp_path):
    (tmp_path / "sweep").mkdir()
    rows = "".join(f"{seed},r{seed},{1 / 3 + seed},4.1556e-7,nan\n" for seed in range(123450, 123550))
    (tmp_path / "sweep" / "summary.csv").write_text("seed,run,final_loss,rate,share_of_claims_holding\n" + rows)
    page = visit(write_report(tmp_path / "sweep", tmp_path / "report.html"))
    page.locator(".plain-table td").first.wait_for()
    assert page.locator(".plain-table th").all_inner_texts() == ["seed", "final loss", "run"]
    assert page.locator(".plain-table tbody tr").first.locator("td").all_inner_texts() == [
        "123450", "1.235×10⁵", "r123450",
    ]  # fmt: skip
    assert page.locator(".plain-table tbody tr").count() == 50
    note = page.locator(".table-place .note").inner_text()
    assert "first 50 of 100 rows" in note
    assert "in all of them: rate 4.156×10⁻⁷." in note  # and not a word of the share of claims, which no run has


def test_two_results_of_one_name_are_told_apart_by_their_folders(results, tmp_path):
    for parent in ("slow", "fast"):
        shutil.copytree(results / "growth", tmp_path / parent / "growth")
    named = [result.name for result in results_of([tmp_path / "slow", results / "descent", tmp_path / "fast"])]
    assert named == ["slow/growth", "descent", "fast/growth"]


def test_a_folder_that_is_given_twice_is_shown_once(results):
    named = [result.name for result in results_of([results / "growth", results / "growth"])]
    assert named == ["growth"]


def test_leftovers_and_other_peoples_folders_are_passed_over(results, tmp_path):
    shutil.copytree(results / "growth", tmp_path / "growth")
    shutil.copytree(results / "growth", tmp_path / ".growth.0123.unfinished")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "about.json").write_text("{}")
    (tmp_path / "yours" / "record.zarr").mkdir(parents=True)
    (tmp_path / "yours" / "about.json").write_text("not JSON")
    assert [result.name for result in results_of([tmp_path])] == ["growth"]
    assert write_page(tmp_path) == tmp_path / "report.html"


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
