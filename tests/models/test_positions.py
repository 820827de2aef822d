"""Positional encodings: what they add, and that scores see nothing but distances where that is
promised.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from saccade.models import positions  # noqa: E402
from saccade.models.transformer import Transformer, TransformerConfig  # noqa: E402

N_POSITIONS, WIDTH = 23, 6


def test_rotated_scores_depend_on_the_distance_alone():
    turned = positions.angles(N_POSITIONS, WIDTH)
    torch.manual_seed(0)
    query, key = torch.randn(2, WIDTH, dtype=torch.float64)
    rows = [
        positions.rotated(vector.expand(N_POSITIONS, WIDTH), turned.cos(), turned.sin())
        for vector in (query, key)
    ]
    scores = rows[0] @ rows[1].T
    for distance in range(-5, 6):
        along = torch.diagonal(scores, distance)
        torch.testing.assert_close(along, along[:1].expand_as(along))
    assert torch.diagonal(scores, 3)[0] != pytest.approx(
        torch.diagonal(scores, 4)[0].item(), abs=1e-3
    )
    torch.testing.assert_close(
        torch.diagonal(scores)[0], query @ key
    )  # distance zero: not turned at all


def test_a_rotated_pair_turns_by_its_angle():
    """Entries i and i + width / 2 as one complex number, multiplied by exp(i angle)."""
    turned = positions.angles(N_POSITIONS, WIDTH)
    x = torch.randn(N_POSITIONS, WIDTH, dtype=torch.float64)
    first, second = x.numpy()[:, :3], x.numpy()[:, 3:]
    expected = (first + 1j * second) * np.exp(1j * turned.numpy())
    ours = positions.rotated(x, turned.cos(), turned.sin()).numpy()
    np.testing.assert_allclose(
        ours, np.concatenate([expected.real, expected.imag], axis=1), atol=1e-14
    )


def test_alibi_takes_slope_times_distance_off_each_score():
    """With queries of zero all scores are the bias: attention falls by exp(-slope) a step back."""
    model = (
        Transformer(TransformerConfig(29, n_heads=4, d_model=8, positions="alibi")).double().eval()
    )
    with torch.no_grad():
        for parameter in model.attention_parameters():
            parameter.zero_()
    weights = model.attention_of(torch.randint(0, 29, (1, N_POSITIONS)))[0]
    ratios = weights[:, -1, :-1] / weights[:, -1, 1:]
    for head, slope in enumerate(
        (1 / 4, 1 / 16, 1 / 64, 1 / 256)
    ):  # the published slopes of four heads
        np.testing.assert_allclose(ratios[head], np.exp(-slope), rtol=1e-12)


@pytest.mark.parametrize("encoding", ["sinusoidal", "learned", "rotary", "alibi"])
def test_with_positions_the_order_of_the_context_matters_and_without_it_does_not(encoding):
    torch.manual_seed(1)
    ids = torch.randint(0, 29, (1, N_POSITIONS))
    shuffled = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    for positions_ in ("none", encoding):
        model = (
            Transformer(TransformerConfig(29, d_model=8, positions=positions_, init_scale=0.5))
            .double()
            .eval()
        )
        gap = (model(ids, last_only=True) - model(shuffled, last_only=True)).abs().max().item()
        assert gap < 1e-12 if positions_ == "none" else gap > 1e-4
