"""What `reproduce` and `run` answer and write: exit codes, claims, tables, JSON."""

from __future__ import annotations

import json
import os

import pytest

from saccade import load_record
from saccade.lab.claim import HOLDS, INCONCLUSIVE, UNMET, Claim
from saccade.records.claim_counts import tally
from tests.cli.calls import SHORT, called, strictly
from tests.cli.conftest import ANSWERS

FILES = {
    "about.json",
    "claims.json",
    "table.csv",
    "panels.json",
    "figure.svg",
    "figure.png",
    "record.zarr",
    "checksums.json",
}


def test_reproduce_exits_with_0_when_all_verdicts_are_those_that_are_stored(reproduced):
    out, code, printed = reproduced
    claims = strictly((out / "first-force" / "claims.json").read_text())
    answer = strictly((out / "first-force" / "about.json").read_text())["statement"]
    first, second, nothing, report = printed.splitlines()
    assert code == 0
    assert first.startswith(f"first-force: {tally(claims)}, ")
    assert (second.strip(), nothing, report) == (answer, "", f"report: {out / 'report.html'}")


def test_reproduce_exits_with_1_when_a_verdict_differs_and_prints_every_claim_if_asked(
    reproduced, tmp_path, monkeypatch
):
    claims = strictly((reproduced[0] / "first-force" / "claims.json").read_text())
    label = next(claim["label"] for claim in claims if not claim["breaks"])
    stored = ANSWERS["first-force"] | {"verdicts": {label: "fails"}}
    monkeypatch.setattr("saccade.experiments.reproduce.ANSWERS", {"first-force": stored})
    code, printed, _ = called("reproduce", "first-force", "--verbose", "--out", tmp_path)
    assert code == 1
    assert "; 1 differ from the stored verdicts, " in printed.splitlines()[0]
    for claim in strictly((tmp_path / "first-force" / "claims.json").read_text()):
        ends = f"{claim['label']}: {claim['says']}"
        (line,) = [line.strip() for line in printed.splitlines() if line.endswith(ends)]
        assert line.startswith(claim["verdict"])


@pytest.mark.parametrize(("verdict", "code"), [(HOLDS, 0), (INCONCLUSIVE, 0), (UNMET, 0)])
def test_a_run_with_other_settings_fails_only_where_a_claim_does(
    tmp_path, monkeypatch, verdict, code
):
    monkeypatch.setattr(Claim, "verdict", property(lambda claim: verdict))
    assert called(*SHORT, "--out", tmp_path)[0] == code


def test_a_claim_that_fails_is_an_exit_code(tmp_path):
    assert called(*SHORT, "--overlap", 99, "--out", tmp_path)[0] == 1


def test_every_file_of_a_result_is_there_and_nothing_else(reproduced, own):
    for out, name in ((reproduced[0], "first-force"), (own[0], "quick")):
        assert set(os.listdir(out)) == {name, "report.html"}
        assert set(os.listdir(out / name)) == FILES
        assert (out / name / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / name / "figure.svg").read_text()
        for file in ("claims.json", "panels.json", "about.json"):
            assert strictly((out / name / file).read_text())


def test_the_answer_as_json_is_what_was_written(own):
    out, printed = own
    answer = strictly(printed)
    (result,) = answer["experiments"]
    assert answer["report"] == str(out / "report.html")
    assert result["folder"] == str(out / "quick")
    assert result["claims"] == strictly((out / "quick" / "claims.json").read_text())


def test_settings_reach_the_record(own):
    record = load_record(own[0] / "quick" / "record.zarr")
    assert json.loads(record.attrs["settings"])["draws"] == record.sizes["draw"] == 5
