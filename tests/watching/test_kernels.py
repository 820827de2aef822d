"""Weights of PyTorch's fused attention, computed again from what it was given, against the formula
written out.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F

from saccade.watching.kernels import of_dot_product
from saccade.watching.layout import Axes

N_QUERIES, N_KEYS, WIDTH = 5, 7, 11
SEEN = torch.ones(N_QUERIES, N_KEYS, dtype=torch.bool).tril()  # no query sees the last two keys
FAR = -0.3 * torch.arange(float(N_KEYS), dtype=torch.float64).flip(0).expand(
    N_QUERIES, N_KEYS
)  # nothing is added to the last key
HIDDEN = torch.zeros(N_QUERIES, N_KEYS, dtype=torch.float64).masked_fill(~SEEN, -torch.inf)


@pytest.mark.parametrize(
    ("mask", "added"),
    [(None, 0 * FAR), (SEEN, HIDDEN), (HIDDEN, HIDDEN), (FAR, FAR)],
    ids=["none", "bool", "hidden", "bias"],
)
def test_weights_are_those_of_the_formula_whatever_the_mask_is_made_of(mask, added):
    generator = torch.Generator().manual_seed(3)
    query, key, value = (
        torch.randn(2, 3, n, WIDTH, dtype=torch.float64, generator=generator)
        for n in (N_QUERIES, N_KEYS, N_KEYS)
    )
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    call = of_dot_product(Axes(3, False, (1,)), output, query, key, value, mask)
    found = call.rows(0, N_QUERIES, torch.float64)
    expected = torch.softmax(query @ key.mT / WIDTH**0.5 + added, dim=-1)
    torch.testing.assert_close(F.pad(found, (0, N_KEYS - found.shape[-1])), expected)
    assert found.shape[-1] == (N_QUERIES if mask is SEEN else N_KEYS), (
        "keys that no row may see are not computed"
    )
    assert call.reproduced(0, N_QUERIES, torch.float64) < 1e-12
