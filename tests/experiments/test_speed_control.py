from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.speed_control import EXPERIMENT, Settings, _balance
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("speed-control", n_vocab=(100, 1_000))


def failing(record):
    return {claim.label for claim in EXPERIMENT.claims(record) if claim.verdict == FAILS}


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 16
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert (record.stop_reason == "finished").all()


def test_the_regimes_meet_where_an_independent_computation_put_them():
    published = {100: 0.403, 1_000: 0.320, 10_000: 0.267, 100_000: 0.230, 1_000_000: 0.203}
    for n_vocab, omega_1 in published.items():
        assert _balance(n_vocab)[1] / np.log(n_vocab) - 1 == pytest.approx(omega_1, abs=1e-3)


def test_a_decoder_a_tenth_too_slow_fails_wherever_height_or_speed_is_measured(record):
    before = failing(record)
    after = failing(record.assign(own_logit=0.9 * record.own_logit))
    assert len(after - before) >= 8
    assert not any("ω" in label or "e^(Mh)" in label for label in after)


def test_a_wrong_balance_fails_lemma_8(record):
    more = failing(
        record.assign(
            balance_high=1.01 * record.balance_high, balance_low=1.01 * record.balance_low
        )
    )
    assert len([label for label in more if "ω" in label]) == 4


def test_a_flow_that_ends_early_is_outside_the_late_claims():
    record = record_of("speed-control", n_vocab=(1_000,), t1=30.0, n_times=100)
    verdicts = {claim.label: claim.verdict for claim in EXPERIMENT.claims(record)}
    late = [
        verdict for label, verdict in verdicts.items() if "20 t₀" in label or "late speed" in label
    ]
    assert late == [OUTSIDE] * 3
    assert [verdict for label, verdict in verdicts.items() if "highest speed" in label] == [
        HOLDS
    ] * 4


def test_the_figure_marks_the_peak_before_scanning_ends(record):
    names = [series["name"] for series in EXPERIMENT.specs(record)[0][0]["series"]]
    assert "peak: 4.416 at 0.82 t₀'" in names
    assert [row["n_vocab"] for row in EXPERIMENT.rows(record)] == [100, 1_000]


def test_the_vocabulary_shown_must_be_one_of_those_run():
    with pytest.raises(InputError, match="shown"):
        EXPERIMENT.run(Settings(n_vocab=(100,)))
