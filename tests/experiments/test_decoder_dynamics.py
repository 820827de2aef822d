from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.decoder_dynamics import EXPERIMENT, Settings
from saccade.lab.claim import FAILS
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("decoder-dynamics")


def failing(record):
    return sum(claim.verdict == FAILS for claim in EXPERIMENT.claims(record))


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 10
    assert [claim.label for claim in claims if not claim.as_expected] == []


def test_remark_1_has_the_published_numbers(record):
    *_, few, _ = EXPERIMENT.claims(record)
    assert few.relation.printed == pytest.approx(
        6.215, abs=1e-3
    )  # 6.211 with the continuous height
    assert float(record.plain_logit[0]) == pytest.approx(7.774, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "change", "n_more"),
    [
        ("ray_error", 1e-11, 1),
        ("disturbance", 1e-11, 1),
        ("height", -1e-9, 1),
        ("height", 0.1, 3),
        ("plain_logit", 0.5, 2),
    ],
)
def test_wrong_measurements_make_the_claims_fail(record, name, change, n_more):
    assert failing(record.assign({name: record[name] + change})) >= failing(record) + n_more


def test_figure_and_table_show_the_same_draws(record):
    assert [panel["title"] for panel in EXPERIMENT.specs(record)[0]] == ["1. M = 50", "2. M = 1000"]
    rows = EXPERIMENT.rows(record)
    assert len(rows) == record.height.size
    assert np.isfinite([[row["height"], row["continuous_height"]] for row in rows]).all()


def test_settings_that_make_no_sense_are_named():
    with pytest.raises(InputError, match="lr_decoder"):
        EXPERIMENT.run(Settings(lr_decoder=(float("nan"),)))
    with pytest.raises(InputError, match="`n_vocab` must not list a value twice"):
        EXPERIMENT.run(Settings(n_vocab=(20, 20)))
