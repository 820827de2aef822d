from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap import speed_control as experiment
from saccade.records.claim import FAILS, HOLDS, OUTSIDE


@pytest.fixture(scope="module")
def record():
    return experiment.run(experiment.Config(n_vocab=(100, 1_000), n_classes=3))


def failing(record):
    return {claim.statement for claim in experiment.claims(record) if claim.verdict == FAILS}


def test_every_verdict_is_the_expected_one(record):
    claims = experiment.claims(record)
    assert len(claims) == 17
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert (record.stop_reason == "finished").all()


def test_the_regimes_meet_where_an_independent_computation_put_them():
    published = {100: 0.403, 1_000: 0.320, 10_000: 0.267, 100_000: 0.230, 1_000_000: 0.203}
    for n_vocab, omega_1 in published.items():
        assert experiment._balance(n_vocab)[1] / np.log(n_vocab) - 1 == pytest.approx(omega_1, abs=1e-3)


def test_a_decoder_a_tenth_too_slow_fails_wherever_height_or_speed_is_measured(record):
    before = failing(record)
    after = failing(record.assign(own_logit=0.9 * record.own_logit))
    assert len(after - before) >= 8
    assert not any("omega" in statement or "Lambert" in statement for statement in after)


def test_a_wrong_balance_fails_lemma_8(record):
    more = failing(record.assign(balance_high=1.01 * record.balance_high, balance_low=1.01 * record.balance_low))
    assert len([statement for statement in more if "omega" in statement]) == 4


def test_a_flow_that_ends_early_is_outside_the_late_claims():
    record = experiment.run(experiment.Config(n_vocab=(1_000,), t1=30.0, n_times=100))
    verdicts = {claim.statement: claim.verdict for claim in experiment.claims(record)}
    late = [verdict for statement, verdict in verdicts.items() if "20 t_0" in statement or "late speed" in statement]
    assert late == [OUTSIDE] * 4
    assert [verdict for statement, verdict in verdicts.items() if "highest speed" in statement] == [HOLDS] * 4


def test_the_figure_marks_the_peak_before_scanning_ends(record):
    labels = [line.get_label() for line in experiment.figure(record).axes[0].lines]
    assert "peak: 4.416 at 0.82 $t_0'$" in labels
    assert {tuple(row) for row in experiment.table(record)} == {tuple(experiment.table(record)[0])}


def test_the_vocabulary_shown_must_be_one_of_those_run():
    with pytest.raises(InputError, match="shown"):
        experiment.run(experiment.Config(n_vocab=(100,)))
