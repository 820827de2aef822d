"""Which keys a mask of numbers hides: those far below any score, and -100 where a gap lies between
that and what is left.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

import saccade
from saccade.watching.masks import MASKED, left_by, masked_level

INF = float("inf")


@pytest.mark.parametrize(
    "hidden", [-99.0, -100.0, -1e4, -1e9, torch.finfo(torch.float32).min, -INF]
)
def test_a_key_that_a_mask_hides_is_not_left(hidden):
    mask = torch.tensor([[0.0, hidden, 0.0], [0.0, 0.0, hidden]])
    assert hidden <= masked_level(mask) < 0
    assert left_by(mask).tolist() == [[True, False, True], [True, True, False]]


@pytest.mark.parametrize("slope", [0.004, 0.5, 1.0, 30.0, 100.0])
@pytest.mark.parametrize("length", [13, 2003])
def test_a_bias_by_distance_is_no_mask_however_low_it_reaches(slope, length):
    places = torch.arange(float(length))
    bias = -slope * (places[:, None] - places).abs()
    bias = bias.clamp_min(MASKED + 1)
    assert left_by(bias) is None


def test_what_hides_nothing_is_no_mask():
    assert left_by(torch.zeros(2, 3)) is None
    assert left_by(torch.full((2, 3), -98.0)) is None
    assert left_by(torch.ones(2, 3, dtype=torch.bool)) is None
    assert left_by(torch.zeros(0, 3)) is None


class Biased(torch.nn.Module):
    """Two heads with a bias of their own, all in one type."""

    def forward(self, x):
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        bias = torch.linspace(-1, 1, x.shape[1], dtype=x.dtype).expand(1, 1, x.shape[1], -1)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=bias)


def test_a_bias_in_float64_makes_no_other_maps():
    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    maps = []
    for dtype in (torch.float32, torch.float64):
        with saccade.watch(Biased(), x.to(dtype), weights=False) as recorder:
            recorder.look(0)
        maps.append(recorder.record.attention_map.values)
    np.testing.assert_allclose(maps[0], maps[1], atol=1e-6)


class Padded(torch.nn.Module):
    """Attention of PyTorch's own with padding told by numbers."""

    def __init__(self, hidden, **settings):
        super().__init__()
        torch.manual_seed(1)
        self.attention, self.hidden = (
            torch.nn.MultiheadAttention(8, 2, batch_first=True, **settings),
            hidden,
        )

    def forward(self, x):
        padding = torch.zeros(x.shape[:2])
        padding[:, 4:] = self.hidden
        return self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]


@pytest.mark.parametrize(
    "settings", [{}, {"add_zero_attn": True}, {"add_bias_kv": True}], ids=["plain", "zero", "bias"]
)
def test_keys_hidden_as_padding_do_not_count_whatever_number_hides_them(settings):
    x, found = torch.randn(3, 7, 8, generator=torch.Generator().manual_seed(2)), []
    for hidden in (-100.0, -1e3, -INF):
        with saccade.watch(Padded(hidden, **settings), x, weights=False) as recorder:
            recorder.look(0)
        found.append(recorder.record.relative_entropy.values)
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    np.testing.assert_allclose(found[1], found[2], atol=1e-5)
