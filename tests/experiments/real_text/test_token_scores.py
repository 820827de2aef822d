"""Scores read off the weights are those that attention itself uses, for every positional encoding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from saccade.experiments.real_text.token_scores import head_scores, place_scores
from saccade.models.transformer import Transformer, TransformerConfig
from saccade.models.transformer_config import POSITIONS

N_VOCAB, WINDOW, QUERIES = 13, 5, [2, 7, 11]


def a_model(positions="none", n_heads=1, **settings):
    torch.manual_seed(3)
    sizes = {"d_model": 12, "d_mlp": 17, "context": 11, "init_scale": 0.7}
    return Transformer(
        TransformerConfig(N_VOCAB, positions=positions, n_heads=n_heads, **(sizes | settings))
    ).eval()


@pytest.mark.parametrize("n_heads", [1, 3])
@pytest.mark.parametrize("positions", POSITIONS)
def test_scores_of_places_give_the_attention_of_the_model(positions, n_heads):
    """Of a window and its query, with the query's own key left out: attention among the others is
    the softmax of their scores.
    """
    model = a_model(positions, n_heads)
    scores = place_scores(model, QUERIES, WINDOW)
    context = torch.tensor([4, 2, 9, 9, 12])
    for row, query in enumerate(QUERIES):
        ids = torch.cat([context, torch.tensor([query])])[None]
        attention = model.attention_of(ids, last_only=True)[0, :, 0, :WINDOW]
        ours = torch.softmax(scores[:, row, context, torch.arange(WINDOW)], dim=-1)
        torch.testing.assert_close(ours, attention / attention.sum(dim=-1, keepdim=True))


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_head_has_its_own_scores_over_all_places(positions):
    """Odds of two tokens in one head: how much each would get if it alone stood at any of the
    places, by attention of the model.
    """
    model, n_heads = a_model(positions, n_heads=3), 3
    found = head_scores(model, QUERIES, WINDOW)
    assert found.shape == (n_heads, len(QUERIES), N_VOCAB)
    for row, query in enumerate(QUERIES):
        for token, other in ((4, 9), (12, 0)):
            weights = [
                model.attention_of(torch.tensor([[kind] * WINDOW + [query]]), last_only=True)[
                    0, :, 0
                ]
                for kind in (token, other)
            ]
            ratio = [
                (weight[:, :WINDOW].sum(dim=-1) / weight[:, WINDOW]).log().detach().numpy()
                for weight in weights
            ]
            np.testing.assert_allclose(
                found[:, row, token] - found[:, row, other], ratio[0] - ratio[1], atol=1e-4
            )


def test_without_positions_the_place_does_not_matter():
    model = a_model()
    scores = place_scores(model, QUERIES, WINDOW)
    torch.testing.assert_close(scores, scores[..., :1].expand_as(scores))
    one = scores[0, :, :, 0].double().detach().numpy()
    np.testing.assert_allclose(
        head_scores(model, QUERIES, WINDOW)[0], one - one.mean(axis=1, keepdims=True), atol=1e-6
    )


def test_in_the_pairwise_model_scores_are_the_rows_of_z():
    model = Transformer(TransformerConfig.scan_and_snap(N_VOCAB))
    table = torch.randn(N_VOCAB, N_VOCAB, generator=torch.Generator().manual_seed(1))
    table -= table.mean(dim=1, keepdim=True)
    model.pairwise_attention.scores.weight.data.copy_(table)
    np.testing.assert_allclose(
        head_scores(model, QUERIES, WINDOW)[0], table[QUERIES].numpy(), atol=1e-6
    )
