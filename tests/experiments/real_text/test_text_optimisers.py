"""Optimisers and positions on text: how runs differ, noise that samples share, forces by loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from saccade.experiments.real_text import text_optimisers as asked
from saccade.experiments.real_text.token_fates import same_gains
from saccade.experiments.real_text.token_groups import Text, TokenGroups
from saccade.experiments.real_text.token_scores import place_scores
from saccade.models.transformer import Transformer
from saccade.models.transformer_config import TransformerConfig

RATES = {"lr_decoder": 10.0, "lr_attention": 1.0}
TEXT = Text("sotu", 199, 3, 11)


def test_adam_moves_a_score_by_at_most_about_its_rate_a_step_and_momentum_takes_a_tenth():
    """Each of the first steps of Adam is at most the rate over root(1 - 0.999), here far less:
    moments agree early on.
    """
    kinds = asked.optimisers(RATES, (0.1, 0.01))
    assert list(kinds) == ["SGD", "momentum", "Adam 0.01", "Adam 0.1"]
    assert kinds["momentum"]["lr_decoder"] == pytest.approx(1.0)
    for rate in (0.01, 0.1):
        given = {"text": TEXT, "n_windows": 499, "steps": 5, "kinds": kinds}
        gain = asked.one_optimiser(optimiser=f"Adam {rate:g}", sample=0, **given).gain
        assert rate <= np.abs(gain).max() <= 1.5 * 5 * rate


def test_noise_that_a_sample_brings_to_both_optimisers_does_not_make_them_alike():
    rng, shape = np.random.default_rng(3), (3, 199)
    none = np.zeros(shape)
    groups = TokenGroups(
        np.arange(3), np.full(shape, 1 / 199), none.astype(int) - 1, none, none > 0
    )
    signal, shared = rng.normal(size=(2, 1, *shape)), rng.normal(size=(8, *shape))
    one, other = signal + shared
    assert np.mean([same_gains(a, b, groups) for a, b in zip(one, other, strict=True)]) > 0.35
    assert abs(asked.noise_corrected(one, other, groups).mean()) < 0.25
    noise = rng.normal(size=(2, *shared.shape))  # as large as the signal, which is the same
    same = asked.noise_corrected(*(signal[0] + noise), groups)
    assert same.mean() == pytest.approx(1, abs=0.1)


def test_matched_sinusoids_are_as_large_as_the_tokens_and_plain_ones_are_not():
    sizes = {}
    for kind in ("sinusoidal", "matched sinusoidal"):
        torch.manual_seed(1)
        model = Transformer(TransformerConfig(499, d_model=64, **asked.ENCODINGS[kind]))
        tokens = model.embedding.weight.detach().std() * model.config.embedding_scale
        sizes[kind] = float(tokens / model.sinusoids.square().mean().sqrt())
    assert sizes["matched sinusoidal"] == pytest.approx(1, rel=0.02)
    assert sizes["sinusoidal"] < 0.03


def test_alibi_bends_attention_in_four_heads_and_hardly_in_one():
    """Log attention over the window, first place to last: slopes of 1/4 .. 1/256 against 1/256
    alone, eleven tokens apart.
    """
    for n_heads, reach in ((1, 10 / 256), (asked.N_HEADS, 10 / 4)):
        torch.manual_seed(1)
        config = TransformerConfig(499, d_model=64, n_heads=n_heads, positions="alibi")
        scores = place_scores(Transformer(config).eval(), [3], 11)[:, 0]
        bend = (scores[:, :, -1] - scores[:, :, 0]).mean(dim=1).max().item()
        assert bend == pytest.approx(reach, abs=0.02)


def test_the_force_under_a_prior_is_that_of_windows_whose_tokens_count_by_its_slope():
    """A second way: D and F by loops over windows and places; without the prior it is another."""
    slope = [-0.25 * distance for distance in range(1, 12)]
    _, (plain, found) = asked.under_prior(TEXT, 997, 0, [slope])
    windows = TEXT.corpus.windows(11, n_windows=997, prior=slope)
    counts = windows.counts.toarray()
    feature = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    told = np.eye(199)[windows.next_token] - 1 / 199
    decoder = feature.T @ told / 997
    back = np.einsum("nl,nl->n", told @ decoder.T, feature)
    pull = feature * (told @ decoder.T - feature * back[:, None])
    by_hand = pull[windows.query == TEXT.queries[1]].sum(axis=0) / 997
    np.testing.assert_allclose(found[1], by_hand, atol=1e-15)
    assert np.abs(plain[1] - by_hand).max() > 1e-6
