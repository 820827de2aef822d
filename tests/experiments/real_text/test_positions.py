"""Positional encodings on real text: a small run from end to end, and every claim able to fail."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch

from saccade.errors import InputError
from saccade.experiments.real_text.positions import ENCODINGS, EXPERIMENT, Settings
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.experiments.real_text.token_runs import model_config
from saccade.experiments.real_text.token_scores import place_scores
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE
from saccade.model.transformer import Transformer
from tests.experiments.default_runs import record_of

SMALL = Settings(text="sotu", n_vocab=199, queries=3, window=11, steps=7, seeds=2, batch=5)


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.processes.cores", lambda: 1)  # starting processes would take longer than the runs
        return record_of("positions", **asdict(SMALL))


def rewritten(record, sign):
    """Distinct tokens gain and common ones lose in every encoding and seed, or the other way round."""
    groups = TokenGroups.of_record(record)
    ramp = np.exp(np.linspace(0, 1, record.sizes["time"]))
    gain = sign * (1.0 * groups.distinct - groups.common) + groups.frequency
    changes = {"mass_distinct": ramp**sign, "mass_common": ramp**-sign}
    changed = {name: record[name].copy(data=np.broadcast_to(values, record[name].shape)) for name, values in changes.items()}
    return record.assign(gain=record.gain.copy(data=np.broadcast_to(gain, record.gain.shape).copy()), **changed)


def test_every_encoding_has_its_own_run(record):
    assert list(record.positions.values) == ["none", "sinusoidal", "learned", "rotary", "alibi", "matched sinusoidal"]
    ends = record.gain.isel(seed=0).values
    assert all(np.abs(ends[i] - ends[j]).max() > 1e-6 for i in range(6) for j in range(i))


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


def test_claims_hold_where_gains_are_alike_and_the_theorem_is_never_failed(record):
    claims = list(EXPERIMENT.claims(rewritten(record, 1)))
    assert len(claims) == 11
    assert {(claim.statement.number, claim.verdict, claim.agrees) for claim in claims} == {
        ("positions on text", HOLDS, True),
        ("Theorem 2(b)", OUTSIDE, True),
    }
    back = [claim for claim in EXPERIMENT.claims(rewritten(record, -1)) if claim.statement.number == "Theorem 2(b)"]
    assert {(claim.verdict, claim.agrees) for claim in back} == {(OUTSIDE, False)}


def test_an_encoding_that_turns_the_order_round_fails_and_one_whose_seeds_differ_cannot_be_told(record):
    turned = rewritten(record, 1)
    turned.gain.loc[{"positions": "rotary"}] *= -1
    turned.gain.loc[{"positions": "alibi"}] = np.random.default_rng(0).normal(size=turned.gain.sel(positions="alibi").shape)
    found = {claim.case["positions"]: claim.verdict for claim in EXPERIMENT.claims(turned) if claim.title.startswith("rank")}
    assert (found["rotary"], found["alibi"], found["learned"]) == (FAILS, CANNOT_TELL, HOLDS)


def test_table_and_figure_have_every_encoding(record):
    assert [row["positions"] for row in EXPERIMENT.rows(record)] == list(ENCODINGS)
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="seeds"):
        EXPERIMENT.run(Settings(text="sotu", seeds=0))
