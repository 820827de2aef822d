"""What `reproduce` and `run` answer and write: exit codes, claims, tables, JSON."""

from __future__ import annotations

import json
import os

import pytest

from saccade import load_record
from saccade.lab.claim import INCONCLUSIVE, UNMET, Claim
from saccade.theories import scan_and_snap as theory
from tests.cli.calls import SHORT, called, strictly

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


def test_reproduce_exits_with_0_when_all_is_as_expected_and_prints_a_line_for_the_experiment(
    reproduced,
):
    out, code, printed = reproduced
    claims = strictly((out / "long-contexts" / "claims.json").read_text())
    assert code == 0
    assert [claim["verdict"] for claim in claims] == [claim["expected"] for claim in claims]
    first, nothing, report = printed.splitlines()
    assert first.startswith("long-contexts: 2 claims: 2 hold; 1 control, ")
    assert (nothing, report) == ("", f"report: {out / 'report.html'}")


def test_reproduce_exits_with_1_when_a_verdict_is_not_as_expected_and_prints_every_claim_if_asked(
    tmp_path, monkeypatch
):
    bound = theory.frequency_bound
    monkeypatch.setattr(theory, "frequency_bound", lambda *n, **delta: bound(*n, **delta) / 10)
    code, printed, _ = called("reproduce", "long-contexts", "--verbose", "--out", tmp_path)
    lines = [line.strip() for line in printed.splitlines()]
    claims = strictly(
        (tmp_path / "long-contexts" / "claims.json").read_text()
    )  # an unexpected verdict is a result too
    assert code == 1
    assert [line.startswith("fails (expected: holds)") for line in lines].count(True) == 1
    for claim in claims:
        (line,) = [line for line in lines if line.endswith(f"{claim['label']}: {claim['says']}")]
        assert line.startswith(claim["verdict"])


@pytest.mark.parametrize(("verdict", "code"), [(INCONCLUSIVE, 0), (UNMET, 1)])
def test_reproduce_exits_with_1_where_claims_that_should_hold_are_outside_and_with_0_where_they_cannot_be_told(
    tmp_path, monkeypatch, verdict, code
):
    monkeypatch.setattr(Claim, "verdict", property(lambda claim: verdict))
    found, printed, _ = called("reproduce", "long-contexts", "--out", tmp_path)
    assert found == code
    assert printed.count("(expected: holds)") == 2 * code


def test_a_claim_outside_its_assumptions_is_an_answer_to_a_run_with_other_settings(medium):
    (result,) = strictly(medium[1])["experiments"]  # the run ended with 0
    verdicts = [claim["verdict"] for claim in result["claims"]]
    assert verdicts.count("holds") == 1  # the erratum on a published number alone
    assert set(verdicts) == {"holds", "outside"}


def test_a_result_is_headed_with_its_own_answer(reproduced, medium):
    headed = [
        strictly((out / name / "about.json").read_text())["statement"]
        for out, name in ((reproduced[0], "long-contexts"), (medium[0], "published-figures"))
    ]
    assert headed[0].startswith("Yes: ")
    assert headed[1].startswith("Undecided: ")


def test_every_file_of_a_result_is_there_and_nothing_else(reproduced, medium):
    for out, name in ((reproduced[0], "long-contexts"), (medium[0], "published-figures")):
        assert set(os.listdir(out)) == {name, "report.html"}
        assert set(os.listdir(out / name)) == FILES
        assert (out / name / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / name / "figure.svg").read_text()
        for file in ("claims.json", "panels.json", "about.json"):
            assert strictly((out / name / file).read_text())


def test_the_answer_as_json_is_what_was_written(medium):
    out, printed = medium
    answer = strictly(printed)
    (result,) = answer["experiments"]
    assert answer["report"] == str(out / "report.html")
    assert result["folder"] == str(out / "published-figures")
    assert result["claims"] == strictly((out / "published-figures" / "claims.json").read_text())


def test_a_run_that_diverges_is_still_answered_in_json_that_any_program_reads(tmp_path):
    code, printed, err = called(
        "run", "published-figures", "--lr-attention", 1e10, "--json", "--out", tmp_path
    )
    assert code in (0, 1), err
    answer = strictly(printed)
    assert answer["experiments"][0]["claims"] == strictly(
        (tmp_path / "published-figures" / "claims.json").read_text()
    )


def test_one_seed_is_enough_to_run(tmp_path):
    code, _, err = called(*SHORT, "--seeds", 1, "--out", tmp_path)
    assert code in (0, 1), err
    assert err == ""


def test_settings_reach_the_record(medium):
    record = load_record(medium[0] / "published-figures" / "record.zarr")
    settings = json.loads(record.attrs["settings"])
    assert (settings["steps"], settings["batch"], settings["context"], settings["seeds"]) == (
        3,
        2,
        5,
        2,
    )
    assert record.ratio.values.tolist() == [1, 5]
