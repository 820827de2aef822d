"""The centrepiece: every verdict as expected, none of them for free, and a user's own classes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap import scan_then_snap
from saccade.records.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.store import load_record, save_record


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """As it comes back from disk: claims must need nothing else."""
    path = tmp_path_factory.mktemp("record") / "record.zarr"
    save_record(scan_then_snap.run(scan_then_snap.Config()), path)
    return load_record(path)


def verdicts(record):
    return {claim.statement: claim.verdict for claim in scan_then_snap.claims(record)}


def test_every_verdict_is_the_expected_one(record):
    claims = scan_then_snap.claims(record)
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert json.loads(record.attrs["left_out"]) == []
    by_verdict = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS, OUTSIDE)}
    assert by_verdict == {HOLDS: 58, FAILS: 10, OUTSIDE: 6}
    assert len({claim.statement for claim in claims}) == len(claims)


def test_only_claims_on_the_plain_flow_at_fast_attention_are_outside_assumption_1c(record):
    outside = [claim for claim in scan_then_snap.claims(record) if claim.verdict == OUTSIDE]
    broken = {name for claim in outside for name, met in claim.assumptions.items() if not met}
    assert all("flow (B)" in claim.statement for claim in outside)
    assert all(name.startswith("1(c) fast decoder") for name in broken)


def test_each_erratum_comes_as_a_pair(record):
    sources = [claim.source for claim in scan_then_snap.claims(record) if "erratum" in claim.source]
    for number in ("0.4", "0.5", "0.10"):
        printed = sum(f"erratum {number} as printed" in source for source in sources)
        assert printed == sum(f"erratum {number} corrected" in source for source in sources) > 0


def test_growth_that_is_a_tenth_off_fails_the_slopes_and_the_factor(record):
    wrong = verdicts(record.assign(log_growth=0.89 * record.log_growth))
    slopes = [verdict for text, verdict in wrong.items() if text.startswith("log growth per")]
    assert set(slopes) == {FAILS}
    factors = [verdict for text, verdict in wrong.items() if "common token over log growth" in text]
    assert factors.count(FAILS) == 5  # of six: K = 2 allows 25 %


def test_growth_that_never_snaps_fails_both_onset_and_slopes(record):
    scanning = record.log_growth * 0 + 0.05 * np.log1p(record.steps)
    wrong = verdicts(record.assign(log_growth=scanning))
    about_c = [verdict for text, verdict in wrong.items() if "onset" in text and "flow (C)" in text]
    assert len(about_c) == 10
    assert set(about_c) == {FAILS}
    assert all(verdict == FAILS for text, verdict in wrong.items() if text.startswith("log growth per ln ln"))


def test_wrong_ends_fail_the_fates_and_the_entropy(record):
    one = {name: record[name] + 1 for name in ("falling_distinct", "rising_common", "out_of_order", "gain_error")}
    wrong = verdicts(record.assign(**one, distinct_entropy=1.1 * record.distinct_entropy))
    assert sum(verdict == FAILS for text, verdict in wrong.items() if "any flow (C)" in text or "relative gain" in text) == 4
    assert sum(verdict == FAILS for text, verdict in wrong.items() if "have lost" in text) == 5


def test_a_wrong_premise_fails_theorem_4_and_its_errata(record):
    wrong = record.assign(premise_growth=record.premise_growth + 1e-5, late_crossing=2 * record.late_crossing)
    wrong = verdicts(wrong.assign(premise_distance=1.001 * record.premise_distance))
    assert sum(verdict == FAILS for text, verdict in wrong.items() if "premise" in text or "integral of the speed" in text) == 2
    assert (
        sum(verdict == FAILS for text, verdict in wrong.items() if "corrected" in text and "fall" not in text and "per" not in text)
        == 2
    )


def test_a_plain_flow_that_followed_theory_would_contradict_us(record):
    reduced = record.log_growth.sel(dynamics="C").drop_vars("dynamics")
    as_theory = record.assign(log_growth=reduced.expand_dims(dynamics=record.dynamics).transpose("dynamics", "case", "sample"))
    unexpected = [claim.statement for claim in scan_then_snap.claims(as_theory) if not claim.as_expected]
    assert len(unexpected) == 3
    assert all("plain flow (B)" in text for text in unexpected)


def test_table_and_figure_show_both_flows(record):
    rows = scan_then_snap.table(record)
    assert len(rows) == (14 + 10) * 200
    assert {row["dynamics"] for row in rows} == {"B", "C"}
    assert len(scan_then_snap.figure(record).axes) == 4


SHORT = {"t1": 1e6, "n_times": 80, "plain": False}


def run_on(tmp_path, text):
    path = tmp_path / "classes.csv"
    path.write_text(text)
    record = scan_then_snap.run(scan_then_snap.Config(classes=str(path), **SHORT))
    scan_then_snap.figure(record)
    assert scan_then_snap.table(record)
    return scan_then_snap.claims(record), json.loads(record.attrs["left_out"])


def test_a_user_s_classes_name_the_assumptions_they_break(tmp_path):
    claims, left_out = run_on(tmp_path, "class,query,the,of,a,b,c,d\nA,q,.4,.2,.3,.1,0,0\nB,q,.3,.3,0,0,.3,.1\n")
    assert left_out == []
    assert all(claim.as_expected or claim.verdict == OUTSIDE for claim in claims)
    slopes = [claim for claim in claims if claim.statement.startswith("log growth per")]
    assert {claim.verdict for claim in slopes} == {OUTSIDE}
    broken = [name.split(" (")[0] for name, met in slopes[0].assumptions.items() if not met]
    assert broken == ["2 largest eigenvalue", "T2(b) one common token", "vocabulary"]
    corollary = next(claim for claim in claims if claim.source == "[tian2023, Corollary 2]")
    assert [name.split(" (")[0] for name, met in corollary.assumptions.items() if not met] == ["C2(3) alike common tokens"]
    assert {claim.verdict for claim in claims if claim.source == "[tian2023, Theorem 3]"} == {HOLDS}


def test_a_user_s_classes_within_the_assumptions_are_held_to_them(tmp_path):
    unused = [f"u{i}" for i in range(200)]
    head = ",".join(["class", "the", "a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2", "e1", "e2", *unused])
    rows = []
    for n, name in enumerate("ABCDE"):
        own = ["0"] * 10
        own[2 * n : 2 * n + 2] = [".57", ".3"]
        rows.append(",".join([name, ".13", *own, *["0"] * len(unused)]))
    claims, left_out = run_on(tmp_path, "\n".join([head, *rows]) + "\n")
    assert left_out == []
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert sum(claim.verdict == HOLDS for claim in claims) > 20
    assert {claim.verdict for claim in claims} == {HOLDS, FAILS}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class,x,y\nA,.2,.8\n", "single class"),
        ("class,x,y\nA,.2,.8\nB,.6,.4\n", "none is distinct"),
        ("class,x,y,z\nA,.5,.5,0\nB,.5,.5,0\nC,.2,.2,.6\n", "mixture of the others"),
        ("class,x,y,z\nA,.5,.5,0\nB,0,0,1\n", "overlaps no other"),
    ],
)
def test_what_cannot_be_formed_is_said_in_a_sentence(tmp_path, text, reason):
    claims, left_out = run_on(tmp_path, text)
    assert claims == []
    assert len(left_out) == 1
    assert reason in left_out[0]


def test_one_distinct_token_a_class_leaves_out_entropy_and_gain_only(tmp_path):
    claims, left_out = run_on(tmp_path, "class,c,x,y\nA,.1,.9,0\nB,.1,0,.9\n")
    assert [sentence.split(" is left out")[0] for sentence in left_out] == ["Theorem 3", "Entropy"]
    assert len(claims) > 15


def test_mistakes_in_settings_are_named():
    for settings in (
        {"factor": 1.0},
        {"common_feature": 0.0},
        {"slow_lr_attention": -1.0},
        {"other_n_classes": (2,)},
        {"n_vocab": 7},
    ):
        with pytest.raises(InputError, match=next(iter(settings))):
            scan_then_snap.run(scan_then_snap.Config(**settings))
