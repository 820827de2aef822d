from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap import decoder_dynamics as experiment
from saccade.records.claim import FAILS


@pytest.fixture(scope="module")
def record():
    return experiment.run(experiment.Config())


def verdicts(record):
    return {claim.statement: claim.verdict for claim in experiment.claims(record)}


def test_every_verdict_is_the_expected_one(record):
    claims = experiment.claims(record)
    assert len(claims) == 11
    assert [claim.statement for claim in claims if not claim.as_expected] == []


def test_remark_1_has_the_published_numbers(record):
    numbers = {round(claim.predicted, 3) for claim in experiment.claims(record) if "K = 4, M = 200" in claim.statement}
    assert 6.215 in numbers  # 6.211 with the continuous height
    assert float(record.plain_logit[0]) == pytest.approx(7.774, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "change", "n_more"),
    [("ray_error", 1e-11, 1), ("disturbance", 1e-11, 1), ("height", -1e-9, 1), ("height", 0.1, 3), ("plain_logit", 0.5, 2)],
)
def test_wrong_measurements_make_the_claims_fail(record, name, change, n_more):
    before, after = (
        sum(verdict == FAILS for verdict in verdicts(run).values())
        for run in (record, record.assign({name: record[name] + change}))
    )
    assert after >= before + n_more


def test_figure_and_table_show_the_same_draws(record):
    drawing = experiment.figure(record)
    assert [axes.get_title(loc="left") for axes in drawing.axes] == ["$M$ = 50", "$M$ = 1000"]
    rows = experiment.table(record)
    assert len(rows) == record.height.size
    assert np.isfinite([[row["height_measured"], row["height_continuous"]] for row in rows]).all()


def test_settings_that_make_no_sense_are_named():
    with pytest.raises(InputError, match="lr_decoder"):
        experiment.run(experiment.Config(lr_decoder=(float("nan"),)))
