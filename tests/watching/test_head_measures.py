"""Largest logit, entropy bound, sinks, induction and duplicate tokens: against their definitions,
computed another way.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.watching.attention_call import given_weights  # noqa: E402
from saccade.watching.attention_statistics import entropy_bound, repeated_statistics, statistics  # noqa: E402
from saccade.watching.probe import Probe, RepeatedProbe  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402


def entropy(logits):
    law = np.exp(logits - logits.max())
    law /= law.sum()
    return float(-(law * np.log(np.maximum(law, 1e-300))).sum())


@pytest.mark.parametrize("n", [2, 3, 7, 20])
@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0, 9.0])
def test_no_logits_of_a_spread_have_less_entropy_than_the_bound_and_some_have_as_little(n, spread):
    """Least entropy over the sphere of centred logits, by descent from many starts."""
    rng = np.random.default_rng(n)
    bound = float(entropy_bound(torch.tensor(spread, dtype=torch.float64), torch.tensor(n)))

    def on_sphere(free):
        centred = free - free.mean()
        return spread * centred / np.linalg.norm(centred)

    starts = [*rng.standard_normal((12, n)), *(np.arange(n) < k for k in range(1, n))]
    least = min(
        minimize(lambda free: entropy(on_sphere(free)), np.asarray(start, float), tol=1e-12).fun
        for start in starts
    )
    assert least >= bound - 1e-9
    assert least == pytest.approx(bound, abs=1e-6)


def test_the_bound_is_the_log_of_the_keys_where_logits_are_alike_and_0_for_one_key_or_a_wide_spread():
    at = [
        float(entropy_bound(torch.tensor(s), torch.tensor(n)))
        for s, n in ((0.0, 13), (3.0, 1), (200.0, 13))
    ]
    np.testing.assert_allclose(at, [math.log(13), 0, 0], atol=1e-6)


class Fused(nn.Module):
    """One layer of attention with logits that are known, through the fused kernel or by hand."""

    def __init__(self, by_hand):
        super().__init__()
        self.embedding, self.by_hand = nn.Embedding(zoo.N_VOCAB, 8), by_hand
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def logits(self, tokens):
        x = self.embedding(tokens)
        q, k = (layer(x).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (self.query, self.key))
        return 5 * q @ k.mT / 2, q, k, x.unflatten(-1, (2, 4)).transpose(1, 2)

    def forward(self, tokens):
        logits, q, k, v = self.logits(tokens)
        if not self.by_hand:
            return F.scaled_dot_product_attention(5 * q, k, v, is_causal=True)
        later = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
        return torch.softmax(logits.masked_fill(later, -1e9), dim=-1) @ v


@pytest.mark.parametrize("by_hand", [False, True])
def test_the_largest_logit_is_that_of_keys_a_query_may_see(by_hand):
    model, probe = Fused(by_hand), zoo.ids()
    probe[:, 0], probe[:, -1] = 50, 51
    with torch.no_grad():  # the first query would like the last key best of all, if it could see it
        model.embedding.weight[50] = torch.tensor([6.0, 0.0] * 4)
        model.embedding.weight[51] = torch.tensor([0.0, 6.0] * 4)
        model.query.weight.copy_(torch.eye(8))
        model.key.weight.copy_(
            torch.eye(8).roll(1, dims=1) * torch.tensor([[1.0], [0.0]] * 4)
        )  # from odd to even components
    record = zoo.watched(model, probe)
    logits = model.logits(probe)[0].detach()
    seen = logits.masked_fill(torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    assert bool((seen.amax(dim=(0, 2, 3)) < logits.amax(dim=(0, 2, 3))).all())  # the mask matters
    np.testing.assert_allclose(record.largest_logit[0, 0], seen.amax(dim=(0, 2, 3)), rtol=1e-5)
    slack = record.entropy - record.entropy_bound
    np.testing.assert_allclose(record.entropy_slack, slack, atol=1e-6)
    assert float(record.entropy_slack.min()) > 0


def test_the_share_of_sinks_counts_heads_with_more_than_three_tenths_on_the_first_token():
    class Sinks(nn.Module):
        """Heads with so much on the first key: 0.9 and, from the second query on, little."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(zoo.N_VOCAB, 4)

        def forward(self, tokens):
            v = self.embedding(tokens).unsqueeze(1).expand(-1, 2, -1, -1)
            logits = torch.zeros(len(tokens), 2, tokens.shape[1], tokens.shape[1])
            logits[:, 0, :, 0], logits[:, 1, :, 0] = 5.0, -5.0
            return torch.softmax(logits, dim=-1) @ v

    with saccade.watch(Sinks(), zoo.ids()) as recorder:
        recorder.observe(3)
    assert float(recorder.record.sink_share[0]) == 0.5
    assert recorder.record.sink_share.dims == ("time",)


def test_induction_and_duplicate_masses_are_sums_over_all_earlier_rounds():
    periods, length = (4, 5), 11
    rng = np.random.default_rng(0)
    weights = np.tril(rng.random((2, 3, length, length)))
    weights /= weights.sum(-1, keepdims=True)
    found = repeated_statistics(
        given_weights("softmax", torch.tensor(weights)), torch.tensor(periods)
    )
    for name, shift in (("duplicate_mass", 0), ("induction_mass", 1)):
        totals, uniform = np.zeros((2, 3)), []
        for sequence, period in enumerate(periods):
            tokens = [place % period for place in range(length)]
            for query in range(period, length):
                keys = [key + shift for key in range(query) if tokens[key] == tokens[query]]
                totals[sequence] += weights[sequence, :, query, keys].sum(0)
                uniform.append(len(keys) / (query + 1))
        counts = length - np.array(periods)[:, None]
        mean = totals.sum(0) / counts.sum()
        np.testing.assert_allclose(found[name], mean, rtol=1e-5)
        place = ("sink_mass", "previous_mass", "induction_mass", "duplicate_mass").index(name)
        np.testing.assert_allclose(found["uniform_mass"][:, place], np.mean(uniform), rtol=1e-6)
        error = np.sqrt(2 * np.square(totals - counts * mean).sum(0)) / counts.sum()
        np.testing.assert_allclose(found["standard_error"][:, 1 + place], error, rtol=1e-5)


def test_the_repeated_probe_has_the_probes_tokens_once_in_a_period_and_no_padding():
    mask = zoo.padding("right")
    repeated = RepeatedProbe.of(
        Probe({"input_ids": zoo.ids(), "attention_mask": mask, "use_cache": False})
    )
    assert repeated is not None
    ids = repeated.probe.ids
    assert ids is not None
    assert ids.shape == zoo.ids().shape
    assert repeated.periods.tolist() == [5, 4, 3]
    assert set(ids.flatten().tolist()) <= set(zoo.ids()[mask.bool()].tolist())
    for row, period in zip(ids, repeated.periods.tolist(), strict=True):
        assert len(set(row[:period].tolist())) == period
        assert torch.equal(row[period:], row[:-period])
    assert bool(repeated.probe.tokens(None).is_token.all())


@pytest.mark.parametrize(
    "probe",
    [
        torch.zeros(2, 20, dtype=torch.long),
        zoo.ids()[:, :9],
        zoo.ids() % 4,
        torch.rand(2, 11, 4),
        (zoo.ids(), torch.rand(2, 3)),
    ],
    ids=["one token", "short", "four tokens", "no tokens", "more than a text"],
)
def test_where_no_repeated_probe_can_be_made_there_is_none(probe):
    assert RepeatedProbe.of(Probe(probe)) is None


def test_scatter_over_sequences_is_the_standard_error_of_the_mean():
    """Sequences whose first-token mass is drawn anew: the error said is that of the mean over many
    probes.
    """
    rng = np.random.default_rng(1)
    means, errors = [], []
    for _ in range(400):
        mass = rng.uniform(0.1, 0.9, (6, 1, 1))
        weights = np.concatenate(
            [np.broadcast_to(mass, (6, 5, 1)), np.broadcast_to((1 - mass) / 4, (6, 5, 4))], axis=-1
        )
        probe = Probe(torch.arange(30).view(6, 5))
        found = statistics(
            given_weights("softmax", torch.tensor(weights[:, None])), probe.tokens(None)
        )
        means.append(float(found["sink_mass"][0]))
        errors.append(float(found["standard_error"][0, 1]))
    assert np.std(means) == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.1)


def test_looks_at_a_model_that_draws_random_numbers_see_the_same():
    class Random(Fused):
        def forward(self, tokens):
            shuffled = tokens.gather(1, torch.rand(tokens.shape).argsort(dim=1))
            return super().forward(shuffled)

    model = Random(by_hand=False)
    with saccade.watch(model, zoo.ids(), budget=None, every=1) as recorder:
        for step in range(3):
            before = torch.get_rng_state()
            recorder.step(step)
            assert torch.equal(before, torch.get_rng_state())
            torch.rand(5)
    assert float(np.ptp(recorder.record.entropy.values, axis=0).max()) == 0
