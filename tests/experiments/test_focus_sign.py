"""The sign of focus: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import focus_sign
from saccade.experiments.focus_and_dilution.sign_chains import sign_chains
from saccade.experiments.focus_and_dilution.stage_fits import focus_rate
from saccade.records.claim import FAILS, HOLDS
from saccade.records.store import load_record, save_record
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("sign") / "record.zarr"
    save_record(focus_sign.run(focus_sign.Config()), path)
    return load_record(path)


def verdicts(record, words):
    found = [claim.verdict for claim in focus_sign.claims(record) if words in claim.statement]
    assert found
    return found


def test_every_verdict_is_the_expected_one(record):
    claims = focus_sign.claims(record)
    assert len(claims) == 10
    assert [claim.statement for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("focus-sign", claims)


def test_both_signs_are_among_what_is_seen(record):
    assert set(focus_sign.seen_signs(record)) == {-1, 1}


def test_lazy_chains_have_the_sign_of_their_stay_and_text_turns_away():
    chains = sign_chains((-0.07, -0.02, 0.1, 0.8), (-0.01, 0.3), 0)
    for name, chain in chains.items():
        if "stay" in name:
            assert np.sign(focus_rate(chain)) == np.sign(float(name.split()[-1])), name
        if name.startswith("text"):
            assert focus_rate(chain) < 0, name


def test_one_query_of_one_chain_on_the_wrong_side_is_seen(record):
    tilt = record.tilt.copy(deep=True)
    tilt[1, 3] = -tilt[1, 3]
    assert verdicts(record.assign(tilt=tilt), "against the sign") == [FAILS, HOLDS]


def test_a_sign_that_is_always_positive_is_seen(record):
    assert verdicts(record.assign(tilt=np.abs(record.tilt)), "against the sign") == [FAILS, FAILS]
    assert verdicts(record.assign(key_cosine=np.abs(record.key_cosine)), "queries and keys") == [FAILS, FAILS]
    assert verdicts(record.assign(logit_cosine=np.abs(record.logit_cosine)), "pi pi^T") == [FAILS, FAILS]


def test_rates_one_percent_off_and_missing_ones_are_seen(record):
    assert verdicts(record.assign(rate=1.01 * record.rate), "growth rate") == [FAILS, FAILS]
    assert verdicts(record.assign(rate=record.rate.where(record.start == "random")), "growth rate") == [FAILS, HOLDS]


def test_a_tilt_ten_percent_off_the_replication_is_seen(record):
    assert verdicts(record.assign(tilt=1.1 * record.tilt), "at |WQ| = 0.15") == [FAILS, FAILS]


def test_table_and_figure_hold_every_run(record):
    rows = focus_sign.table(record)
    assert len(rows) == record.sizes["run"] == 21
    assert {row["sign_seen"] for row in rows} == {-1, 1}
    assert len(focus_sign.figure(record).axes) == 2


def test_a_chain_without_memory_or_without_a_name_is_an_error():
    with pytest.raises(InputError, match="stay 0"):
        focus_sign.run(focus_sign.Config(stays=(0.0,)))
    with pytest.raises(InputError, match="random_starts"):
        focus_sign.run(focus_sign.Config(random_starts=("nonsense",)))
