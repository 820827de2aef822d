"""A user's own classes in `scan-then-snap`: names, assumptions, refusals."""

from __future__ import annotations

import re

import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.scan_then_snap import scan_then_snap
from saccade.lab.claim import HOLDS, UNMET
from saccade.panels import specs

OWN = "class,query,the,of,a,b,c,d\nA,q,.4,.2,.3,.1,0,0\nB,q,.3,.3,0,0,.3,.1\n"


def run_on(tmp_path, text, **settings):
    path = tmp_path / "classes.csv"
    path.write_text(text)
    short = {"classes": str(path), "t1": 1e6, "n_times": 80}
    return scan_then_snap.run(scan_then_snap.settings(**short | settings))


def test_a_user_s_classes_name_the_assumptions_they_break(tmp_path):
    found = run_on(tmp_path, OWN)
    assert found.left_out == []
    assert {claim.verdict for claim in found.claims} <= {HOLDS, UNMET}
    slopes = [claim for claim in found.claims if claim.title.startswith("log growth per")]
    assert {claim.verdict for claim in slopes} == {UNMET}
    assert [condition.name for condition in slopes[0].unmet] == [
        "Assumption 2, classes overlap little",
        "Theorem 2(b), one common token",
        "ours, large vocabulary",
    ]
    corollary = next(claim for claim in found.claims if claim.statement.number == "Corollary 2")
    assert [condition.name for condition in corollary.unmet] == [
        "Corollary 2(3), common tokens alike in all classes"
    ]
    assert found.answer.startswith("Undecided: ")


def test_a_user_s_names_are_in_claims_film_and_figure(tmp_path):
    found = run_on(tmp_path, OWN)
    slope = next(claim for claim in found.claims if claim.title.startswith("log growth per"))
    # f of c in B is larger than of a in A
    assert (slope.case["token"], slope.case["class"]) == ("c", "B")
    attention, growth, _ = specs(found.panels)[0]
    assert attention["y"]["label"] == "attention of class B"
    assert [line["name"] for line in attention["series"]][::2] == ["c", "2 common tokens"]
    assert "of c in class B" in growth["y"]["label"]
    assert found.film["tokens"] == ["common", "d", "c"]


def test_nothing_is_claimed_of_the_order_of_tokens_where_a_class_has_no_pair(tmp_path):
    """One distinct token a class, or equally frequent ones."""
    for text in (
        "class,the,a,b\nA,.5,.5,0\nB,.5,0,.5\n",
        "class,the,a,b,c,d\nA,.5,.25,.25,0,0\nB,.5,0,0,.25,.25\n",
    ):
        found = run_on(tmp_path, text)
        titles = [claim.title for claim in found.claims]
        assert "distinct tokens gain attention in every flow" in titles
        assert not any("more frequent" in title or "entropy" in title for title in titles)
        sentences = [said.split(" is left out")[0] for said in found.left_out]
        assert sentences == ["The order of tokens", "Entropy"]


def test_tokens_that_contradict_theorem_2_are_named(tmp_path):
    found = run_on(tmp_path, "class,the,of,a,c\nA,.3,.6,.1,0\nB,.3,.01,0,.69\n")
    rising = next(claim for claim in found.claims if claim.title.startswith("common tokens lose"))
    assert not rising.agrees
    assert rising.sentence == "In the flow with most exceptions: of in class A, of in class B."


def test_more_tokens_than_the_file_names_fill_up_the_vocabulary(tmp_path):
    found = run_on(tmp_path, OWN, n_vocab=301)
    slope = next(claim for claim in found.claims if claim.title.startswith("log growth per"))
    assert "ours, large vocabulary" not in [condition.name for condition in slope.unmet]


@pytest.mark.parametrize("setting", [{"n_vocab": 5}, {"n_distinct": 3}, {"common_feature": 0.1}])
def test_what_a_user_s_classes_cannot_follow_is_refused(tmp_path, setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        run_on(tmp_path, OWN, **setting)


def test_a_user_s_classes_within_the_assumptions_are_held_to_them(tmp_path):
    unused = [f"u{i}" for i in range(200)]
    names = ["class", "the", *(f"{name}{i}" for name in "abcde" for i in (1, 2)), *unused]
    rows = [",".join(names)]
    for n, name in enumerate("ABCDE"):
        own = ["0"] * 10
        own[2 * n : 2 * n + 2] = [".57", ".3"]
        rows.append(",".join([name, ".13", *own, *["0"] * len(unused)]))
    found = run_on(tmp_path, "\n".join(rows) + "\n")
    assert found.left_out == []
    assert {claim.verdict for claim in found.claims} == {HOLDS}
    assert len(found.claims) > 10


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
    found = run_on(tmp_path, text)
    assert found.claims == []
    (sentence,) = found.left_out
    assert re.search(reason.replace(", .*", ".*"), sentence)
    assert found.answer.startswith("Undecided: ")
