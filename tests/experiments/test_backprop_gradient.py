from __future__ import annotations

import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.backprop_gradient import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.lab.relation import Erratum
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("backprop-gradient")


def failing(record):
    return {claim.label for claim in EXPERIMENT.claims(record) if claim.verdict == FAILS}


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 20
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []


def test_plain_descent_has_the_published_share_of_theorem_1(record):
    share = {
        row["time_over_scan_time"]: row["plain_over_theorem_1"] for row in EXPERIMENT.rows(record)
    }
    published = {0.5: 0.010, 1.0: 0.026, 2.0: 0.050, 10.0: 0.100, 40.0: 0.151}
    for look, value in published.items():
        assert share[look] == pytest.approx(value, rel=0.1)


def test_equal_overlaps_have_the_published_coefficients():
    """M = 2000, K = 4, overlap .05: beta .046248, as printed .045247; outside Assumption 2, exact
    all the same.
    """
    record = record_of("backprop-gradient", overlaps=(0.05,) * 6, looks=(0.5, 1.0), random_sets=2)
    claims = list(EXPERIMENT.claims(record))
    sign = next(
        claim
        for claim in claims
        if isinstance(claim.relation, Erratum) and claim.relation.number == "0.8"
    )
    assert sign.relation.printed == pytest.approx(0.045247, abs=1e-6)
    assert sign.measured == pytest.approx(0.046248, abs=1e-6)
    assert sign.verdict == HOLDS
    assert {claim.verdict for claim in claims if "ξ_n" in claim.title} == {OUTSIDE}


@pytest.mark.parametrize(
    ("name", "change", "n_more"),
    [
        ("sent_back", lambda weights: -weights, 6),
        ("sent_back", lambda weights: weights * (1 + 1e-8), 2),
        ("residual", lambda residual: residual + 1e-11, 1),
        ("coupling", lambda coupling: 1.2 * coupling, 3),
        ("random_coupling", lambda coupling: -coupling, 3),
        ("random_overlap", lambda overlap: 0.5 * overlap, 3),
    ],
)
def test_wrong_measurements_make_the_claims_fail(record, name, change, n_more):
    assert len(failing(record.assign({name: change(record[name])})) - failing(record)) >= n_more


def test_the_figure_has_dots_for_both_gradients_and_lines_for_both_theories(record):
    ((panel,),) = EXPERIMENT.specs(record)
    assert [series["style"] for series in panel["series"]] == ["line", "points"] * 2
    assert all(None not in series["y"] for series in panel["series"])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"overlaps": (0.1, 0.2)}, "overlaps"),
        ({"overlaps": (0.6, 0.6, 0.6)}, "overlaps"),
        ({"looks": (1.0, 1.001)}, "looks"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, named):
    with pytest.raises(InputError, match=named):
        EXPERIMENT.run(Settings(**settings))
