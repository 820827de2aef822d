"""Which axes are heads: neither the number of sequences nor their length may change how many there
are.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.watching.self_check import UnfaithfulError  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402
from tests.watching.dense_statistics import dense_statistics  # noqa: E402

HEADS, WINDOW = 4, 3
TEXT = torch.randint(0, zoo.N_VOCAB, (2, 12), generator=torch.Generator().manual_seed(1))


class Windows(nn.Module):
    """Attention inside windows of three tokens; `order` says where the axes of heads and windows
    lie.
    """

    def __init__(self, order, kernel, says_heads):
        super().__init__()
        self.order, self.kernel = order, kernel
        self.table = nn.Embedding(zoo.N_VOCAB, 24)
        if says_heads:
            self.num_heads = HEADS

    def heads(self, x):
        """(sequence, window, head, token, width)"""
        return x.unflatten(1, (-1, WINDOW)).unflatten(-1, (HEADS, -1)).transpose(2, 3)

    def forward(self, tokens):
        return self.attended(self.table(tokens))

    def attended(self, x):
        parts = self.heads(x)
        if self.order == "heads, windows":
            parts = parts.transpose(1, 2)
        elif self.order == "folded":
            parts = parts.flatten(0, 2)
        elif self.order == "windows are sequences":
            parts = parts.flatten(0, 1)
        if self.kernel == "fused":
            return F.scaled_dot_product_attention(parts, parts, parts)
        return torch.softmax(parts @ parts.mT / parts.shape[-1] ** 0.5, dim=-1) @ parts

    def weights(self, tokens):
        parts = self.heads(self.table(tokens).detach().double())
        return torch.softmax(parts @ parts.mT / parts.shape[-1] ** 0.5, dim=-1).flatten(0, 1)


@pytest.mark.parametrize("kernel", ["fused", "by hand"])
@pytest.mark.parametrize("says_heads", [True, False], ids=["module says", "by evidence"])
@pytest.mark.parametrize("order", ["windows, heads", "heads, windows", "windows are sequences"])
def test_windows_are_not_heads(order, kernel, says_heads):
    model = Windows(order, kernel, says_heads)
    for text in (TEXT, TEXT[:1], TEXT[:, :6]):
        record = zoo.watched(model, text)
        expected = dense_statistics(model.weights(text).numpy())
        assert record.sizes["head"] == HEADS
        for name in ("entropy", "top_mass", "effective_keys", "relative_entropy"):
            np.testing.assert_allclose(record[name][0, 0], expected[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kernel", ["fused", "by hand"])
def test_windows_and_heads_folded_into_one_axis_are_told_apart_by_what_the_module_says_or_refused(
    kernel,
):
    record = zoo.watched(Windows("folded", kernel, True), TEXT)
    assert record.sizes["head"] == HEADS
    with pytest.raises(UnfaithfulError, match="changes with the length of sequences"):
        saccade.watch(Windows("folded", kernel, False), TEXT).__enter__()


def test_where_heads_cannot_be_told_from_windows_the_message_says_what_to_give():
    class OfPictures(Windows):
        def forward(self, x):
            return self.attended(x)

    pictures = torch.randn(2, 15, 24, generator=torch.Generator().manual_seed(1))
    with pytest.raises(UnfaithfulError, match="give its module an attribute `num_heads`"):
        saccade.watch(OfPictures("windows, heads", "fused", False), pictures).__enter__()
    record = zoo.watched(OfPictures("heads, windows", "fused", True), pictures)
    assert record.sizes["head"] == HEADS
    as_many_windows = pictures[:, : HEADS * WINDOW]
    with pytest.raises(UnfaithfulError, match="give a probe of another size"):
        saccade.watch(OfPictures("heads, windows", "fused", True), as_many_windows).__enter__()


class OneByOne(nn.Module):
    """One sequence after the other: calls have axes (head, token, width), and no axis of sequences."""

    def __init__(self, kernel, says_heads, loop):
        super().__init__()
        self.table, self.kernel, self.loop = nn.Embedding(zoo.N_VOCAB, 24), kernel, loop
        if says_heads:
            self.num_heads = HEADS

    def forward(self, tokens):
        x = self.table(tokens).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return torch.stack([self.attended(each) for each in x]) if self.loop else self.attended(x)

    def attended(self, x):
        if self.kernel == "fused":
            return F.scaled_dot_product_attention(x, x, x, is_causal=True)
        hidden = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)
        return (
            torch.softmax((x @ x.mT / x.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf), dim=-1)
            @ x
        )


@pytest.mark.parametrize("kernel", ["fused", "by hand"])
@pytest.mark.parametrize("says_heads", [True, False], ids=["module says", "by evidence"])
def test_in_a_loop_over_sequences_heads_are_not_taken_for_sequences(kernel, says_heads):
    found = {}
    for loop in (True, False):
        torch.manual_seed(0)
        record = zoo.watched(OneByOne(kernel, says_heads, loop), TEXT)
        found[loop] = record.entropy[0]
    assert found[True].sizes["head"] == found[False].sizes["head"] == HEADS
    np.testing.assert_allclose(found[True].mean("layer"), found[False].mean("layer"), atol=1e-6)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_heads_in_a_loop_over_heads_are_single(heads):
    class HeadByHead(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.num_heads = nn.Embedding(zoo.N_VOCAB, 24), heads

        def forward(self, tokens):
            parts = self.table(tokens).unflatten(-1, (heads, -1)).unbind(2)
            return torch.cat(
                [F.scaled_dot_product_attention(part, part, part) for part in parts], dim=-1
            )

    four = TEXT[[0, 1, 0, 1]]  # as many sequences as there may be heads
    record = zoo.watched(HeadByHead(), four)
    assert record.sizes["head"] == 1
    assert record.sizes["layer"] == heads


def test_grouped_keys_in_five_axes_are_heads():
    class Grouped(nn.Module):
        """Two keys, each for two query heads: (sequence, key head, group, token, width)."""

        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(zoo.N_VOCAB, 24)

        def forward(self, tokens):
            x = self.table(tokens)
            q = x.unflatten(-1, (2, 2, 6)).permute(0, 2, 3, 1, 4)
            k = x[..., :12].unflatten(-1, (2, 6)).transpose(1, 2)
            weights = torch.einsum("bkgtd,bksd->bkgts", q, k).softmax(-1)
            return torch.einsum("bkgts,bksd->bkgtd", weights, k)

    model = Grouped()
    record = zoo.watched(model, TEXT)
    x = model.table(TEXT).detach().double()
    q, k = (
        x.unflatten(-1, (4, 6)).transpose(1, 2),
        x[..., :12].unflatten(-1, (2, 6)).transpose(1, 2).repeat_interleave(2, 1),
    )
    expected = dense_statistics(torch.softmax(q @ k.mT, -1).numpy())
    np.testing.assert_allclose(record.entropy[0, 0], expected["entropy"], atol=1e-5)
