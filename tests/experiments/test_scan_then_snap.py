"""The centrepiece: every verdict as expected, none of them for free, and a user's own classes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.scan_then_snap import CONTROLS, EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.lab.outcome import Outcome, own_statement
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    """As it comes back from disk: claims must need nothing else."""
    return record_of("scan-then-snap")


def verdicts(record, *, controls=False):
    return {
        claim.label: claim.verdict
        for claim in EXPERIMENT.claims(record)
        if bool(claim.breaks) == controls
    }


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert json.loads(record.attrs["left_out"]) == []
    by_verdict = {
        verdict: sum(claim.verdict == verdict for claim in claims)
        for verdict in (HOLDS, FAILS, OUTSIDE)
    }
    assert by_verdict == {HOLDS: 48, FAILS: 1 + 5, OUTSIDE: 0}
    assert len({claim.label for claim in claims}) == len(claims)


def test_each_control_breaks_one_assumption_of_theorem_4_and_repeats_a_claim_that_holds(record):
    claims = list(EXPERIMENT.claims(record))
    kept = {(claim.statement, claim.title) for claim in claims if claim.verdict == HOLDS}
    controls = [claim for claim in claims if claim.breaks]
    assert {claim.breaks for claim in controls} == set(CONTROLS.values())
    assert all(
        [condition.name for condition in claim.unmet] == [claim.breaks] for claim in controls
    )
    assert all((claim.statement, claim.title) in kept for claim in controls)


def test_a_control_that_met_the_theory_would_be_seen(record):
    """With the flow of the base case in their place, all controls hold."""
    as_base = record.log_growth.where(
        record.group != "control", record.log_growth.isel(case=0).values
    )
    assert set(verdicts(record.assign(log_growth=as_base), controls=True).values()) == {HOLDS}


def test_errata_hold_as_pairs(record):
    numbers = [
        claim.relation.number
        for claim in EXPERIMENT.claims(record)
        if claim.relation.kind == "erratum" and not claim.breaks
    ]
    assert {number: numbers.count(number) for number in set(numbers)} == {"0.5": 5}


def test_growth_that_is_a_tenth_off_fails_the_slopes_and_the_factor(record):
    wrong = verdicts(record.assign(log_growth=0.89 * record.log_growth))
    assert {verdict for text, verdict in wrong.items() if text.startswith("log growth per")} == {
        FAILS
    }
    factors = {
        text: verdict for text, verdict in wrong.items() if "common token over log growth" in text
    }
    assert {text for text, verdict in factors.items() if verdict == HOLDS} == {
        text for text in factors if "K 2," in text
    }  # allows 25 %


def test_growth_that_never_snaps_fails_both_onset_and_slopes(record):
    scanning = record.log_growth * 0 + 0.05 * np.log1p(record.steps)
    wrong = verdicts(record.assign(log_growth=scanning))
    onsets = [verdict for text, verdict in wrong.items() if "onset" in text]
    assert onsets == [FAILS] * 10
    assert all(
        verdict == FAILS
        for text, verdict in wrong.items()
        if text.startswith("log growth per ln ln")
    )


def test_wrong_ends_fail_the_fates_and_the_entropy(record):
    one = {
        name: record[name] + 1
        for name in ("falling_distinct", "rising_common", "out_of_order", "gain_error")
    }
    wrong = verdicts(record.assign(**one, distinct_entropy=1.1 * record.distinct_entropy))
    assert [
        verdict
        for text, verdict in wrong.items()
        if "in every flow" in text or "relative gain" in text
    ] == [FAILS] * 4
    assert sum(verdict == FAILS for text, verdict in wrong.items() if "have lost" in text) == 5


def test_table_and_figure_show_every_flow(record):
    assert len(EXPERIMENT.rows(record)) == (14 + 2) * 200
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_headlines_are_numbers_of_the_claims_and_of_the_table(record):
    found, measured = (
        EXPERIMENT.headlines(record),
        {claim.measured for claim in EXPERIMENT.claims(record)},
    )
    assert {
        found[name] for name in ("onset", "scanning_slope", "snapping_slope", "entropy_lost")
    } <= measured
    assert found["onset_over_snap_time"] < 1
    base = [
        row for row in EXPERIMENT.rows(record) if (row["group"], row["role"]) == ("rates", "base")
    ]
    assert found["log_growth"] == base[-1]["log_growth"]


SHORT = {"t1": 1e6, "n_times": 80}
OWN = "class,query,the,of,a,b,c,d\nA,q,.4,.2,.3,.1,0,0\nB,q,.3,.3,0,0,.3,.1\n"


def run_on(tmp_path, text, **settings):
    path = tmp_path / "classes.csv"
    path.write_text(text)
    record = EXPERIMENT.run(Settings(**{"classes": str(path), **SHORT, **settings}))
    EXPERIMENT.figure(record)
    assert EXPERIMENT.rows(record)
    return list(EXPERIMENT.claims(record)), json.loads(record.attrs["left_out"]), record


def test_a_user_s_classes_name_the_assumptions_they_break(tmp_path):
    claims, left_out, _ = run_on(tmp_path, OWN)
    assert left_out == []
    assert all(claim.as_expected or claim.verdict == OUTSIDE for claim in claims)
    slopes = [claim for claim in claims if claim.title.startswith("log growth per")]
    assert {claim.verdict for claim in slopes} == {OUTSIDE}
    assert [condition.name for condition in slopes[0].unmet] == [
        "Assumption 2, classes overlap little",
        "Theorem 2(b), one common token",
        "ours, large vocabulary",
    ]
    corollary = next(claim for claim in claims if claim.statement.number == "Corollary 2")
    assert [condition.name for condition in corollary.unmet] == [
        "Corollary 2(3), common tokens alike in all classes"
    ]
    assert {claim.verdict for claim in claims if claim.statement.number == "Theorem 3"} == {HOLDS}


def test_a_user_s_names_are_in_claims_table_and_figure(tmp_path):
    claims, _, record = run_on(tmp_path, OWN)
    slopes = [claim for claim in claims if claim.title.startswith("log growth per")]
    assert all(
        (claim.case["token"], claim.case["class"]) == ("c", "B") for claim in slopes
    )  # f of c in B is larger than of a in A
    assert {(row["token"], row["class"]) for row in EXPERIMENT.rows(record)} == {("c", "B")}
    attention, growth = EXPERIMENT.specs(record)[0]
    assert attention["y"]["label"] == "attention of class B"
    assert attention["series"][0]["name"] == "c"
    assert "of c in class B" in growth["y"]["label"]
    assert list(record.token.values) == ["the", "of", "a", "b", "c", "d"]
    assert list(record["class"].values) == ["A", "B"]


def test_nothing_is_claimed_of_pairs_of_distinct_tokens_where_a_class_has_none(tmp_path):
    """One distinct token a class, or equally frequent ones: nothing can be out of order, and
    Theorem 3 has nothing to compare.
    """
    for text in (
        "class,the,a,b\nA,.5,.5,0\nB,.5,0,.5\n",
        "class,the,a,b,c,d\nA,.5,.25,.25,0,0\nB,.5,0,0,.25,.25\n",
    ):
        claims, left_out, record = run_on(tmp_path, text)
        assert not any(
            "more frequent" in claim.title or claim.statement.number == "Theorem 3"
            for claim in claims
        )
        assert any(
            claim.title == "distinct tokens gain attention in every flow" for claim in claims
        )
        assert (
            "Theorem 3 is left out: no class has two distinct tokens of different frequency."
            in left_out
        )
        assert np.isneginf(record.gain_error).all()
        assert any("Entropy is left out" in said for said in left_out) == (
            record.sizes["token"] == 3
        )


def test_tokens_that_contradict_theorem_2_are_named(tmp_path):
    claims, _, _ = run_on(tmp_path, "class,the,of,a,c\nA,.3,.6,.1,0\nB,.3,.01,0,.69\n")
    rising = next(claim for claim in claims if claim.title.startswith("common tokens lose"))
    assert not rising.agrees
    assert rising.sentence == "In the flow with most exceptions: of in class A."


def test_the_record_of_a_user_s_classes_does_not_say_that_they_are_built_in(tmp_path):
    _, _, record = run_on(tmp_path, OWN)
    own = EXPERIMENT.settings_of(record)
    assert (own.n_classes, own.common_feature, own.n_distinct) == (None, None, None)
    assert set(record.n_classes.values.tolist()) == {2}
    assert EXPERIMENT.panels(record)[0][0].lines[-1].label == "2 common tokens"
    outcome = Outcome("scan-then-snap", "Attention snaps.", tmp_path, record, [])
    assert own_statement(outcome, own, Settings()).startswith(
        f"With your classes in {own.classes}, t1 = 10⁶, n_times = 80:"
    )


def test_more_tokens_than_the_file_names_fill_up_the_vocabulary(tmp_path):
    claims, _, record = run_on(tmp_path, OWN, n_vocab=301)
    assert set(record.n_vocab.values.tolist()) == {301}
    slope = next(claim for claim in claims if claim.title.startswith("log growth per"))
    assert "vocabulary" not in [condition.name for condition in slope.unmet]


@pytest.mark.parametrize("setting", [{"n_vocab": 8}, {"n_distinct": 3}, {"vocabularies": ()}])
def test_what_a_user_s_classes_cannot_follow_is_refused(tmp_path, setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        run_on(tmp_path, OWN, **setting)


def test_a_user_s_classes_within_the_assumptions_are_held_to_them(tmp_path):
    unused = [f"u{i}" for i in range(200)]
    head = ",".join(
        ["class", "the", "a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2", "e1", "e2", *unused]
    )
    rows = []
    for n, name in enumerate("ABCDE"):
        own = ["0"] * 10
        own[2 * n : 2 * n + 2] = [".57", ".3"]
        rows.append(",".join([name, ".13", *own, *["0"] * len(unused)]))
    claims, left_out, _ = run_on(tmp_path, "\n".join([head, *rows]) + "\n")
    assert left_out == []
    assert {claim.verdict for claim in claims} == {HOLDS}
    assert len(claims) > 20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class,x,y\nA,.2,.8\n", "single class"),
        ("class,x,y\nA,.2,.8\nB,.6,.4\n", "none is distinct"),
        (
            "class,x,y,z\nA,.5,.5,0\nB,.5,.5,0\nC,.2,.2,.6\n",
            "classes A, B one is a mixture of the others",
        ),
        ("class,x,y,z\nA,.5,.5,0\nB,0,0,1\n", "class B, .* overlaps no other"),
    ],
)
def test_what_cannot_be_formed_is_said_in_a_sentence(tmp_path, text, reason):
    claims, left_out, record = run_on(tmp_path, text)
    assert claims == []
    assert len(left_out) == 1
    assert re.search(reason, left_out[0])
    assert EXPERIMENT.caption_of(record).endswith(left_out[0])
    assert np.isnan(list(EXPERIMENT.headlines(record).values())).all()


def test_one_distinct_token_a_class_leaves_out_entropy_and_gain_only(tmp_path):
    claims, left_out, _ = run_on(tmp_path, "class,c,x,y\nA,.1,.9,0\nB,.1,0,.9\n")
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
            EXPERIMENT.run(Settings(**settings))
