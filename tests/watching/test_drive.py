"""What drives attention in a PyTorch model: F against the slope along a matrix added to the logits,
and what is refused.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import saccade
from saccade.errors import InputError

WIDTH, HEADS, D_HEAD, LENGTH, TOKENS = 10, 2, 5, 7, 11


class Attention(nn.Module):
    """One fused matrix, with biases, and the kernel of PyTorch or scores by hand with a matrix
    added to the product.
    """

    n_head = HEADS

    def __init__(self, fused=True):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fused, self.extra = fused, torch.zeros(HEADS, WIDTH, WIDTH, dtype=torch.float64)

    def forward(self, x):
        parts = (
            part.unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2)
            for part in self.c_attn(x).chunk(3, -1)
        )
        q, k, v = parts
        if self.fused:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.mT + torch.einsum("bie,hef,bjf->bhij", x, self.extra, x)) / D_HEAD**0.5
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            mixed = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ v
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, fused=True):
        super().__init__()
        self.embedding, self.low, self.high = (
            nn.Embedding(TOKENS, WIDTH),
            Attention(fused),
            Attention(fused),
        )
        self.head, self.dropout = nn.Linear(WIDTH, TOKENS), nn.Dropout(0.3)

    def forward(self, ids):
        x = self.embedding(ids)
        x = self.dropout(x + self.low(x))
        return self.head(x + self.high(x))


def loss(model, ids):
    return nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@pytest.fixture
def ids():
    return torch.randint(0, TOKENS, (13, LENGTH), generator=torch.Generator().manual_seed(0))


def made(fused=True, small=1e-3):
    torch.manual_seed(3)
    model = Model(fused).double()
    with torch.no_grad():
        for part in (model.low, model.high):
            part.c_attn.weight[: 2 * WIDTH] *= small
            part.c_attn.bias[:WIDTH] *= small
    return model


def test_the_matrix_is_the_slope_along_the_product_of_queries_and_keys(ids):
    drive = saccade.watching.attention_drive(made(), loss, ids)
    by_hand = made(fused=False).eval()
    with torch.no_grad():
        for part in (by_hand.low, by_hand.high):
            part.c_attn.weight[: 2 * WIDTH] = 0
            part.c_attn.bias[: 2 * WIDTH] = 0
    extras = [part.extra.requires_grad_() for part in (by_hand.low, by_hand.high)]
    told = torch.stack(torch.autograd.grad(loss(by_hand, ids), extras)).neg().numpy()
    np.testing.assert_allclose(drive.matrix, told, atol=1e-14)
    assert drive.layers == ("low", "high")
    np.testing.assert_allclose(drive.rate, np.linalg.norm(told, 2, axis=(-2, -1)), rtol=1e-10)
    pair = np.einsum("lhi,lhij,lhj->lh", drive.query_to, told, drive.key_to)
    np.testing.assert_allclose(pair, drive.rate, rtol=1e-10)


def test_small_queries_obey_it_and_large_ones_do_not(ids):
    assert saccade.watching.attention_drive(made(small=1e-4), loss, ids).opened.max() < 1e-6
    assert saccade.watching.attention_drive(made(small=10.0), loss, ids).opened.max() > 0.5


def test_weights_gradients_modes_and_generators_are_left_as_they_were(ids):
    model = made()
    loss(model, ids).backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    slopes = [parameter.grad.clone() for parameter in model.parameters()]
    state = torch.random.get_rng_state()
    model.low.c_attn.weight.requires_grad_(False)
    saccade.watching.attention_drive(model, loss, ids)
    assert model.training
    assert not model.low.c_attn.weight.requires_grad
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(
        torch.equal(parameter.grad, slope)
        for parameter, slope in zip(model.parameters(), slopes, strict=True)
    )


def test_a_backward_pass_that_is_still_to_come_does_not_notice(ids):
    model = Model().double()
    value = loss(model, ids)
    saccade.watching.attention_drive(model, loss, ids)
    value.backward()  # would raise if a weight had been written in a way that autograd counts
    assert model.low.c_attn.weight.grad.abs().sum() > 0


def test_the_amplitude_is_that_along_the_growing_pair(ids):
    model = made()
    drive = saccade.watching.attention_drive(model, loss, ids)
    for layer, part in enumerate((model.low, model.high)):
        weight = part.c_attn.weight.detach().numpy()
        for head in range(HEADS):
            rows = slice(head * D_HEAD, (head + 1) * D_HEAD)
            query, key = weight[:WIDTH][rows], weight[WIDTH : 2 * WIDTH][rows]
            u, v = drive.query_to[layer, head], drive.key_to[layer, head]
            assert drive.amplitude[layer, head] == pytest.approx(
                np.linalg.norm(query @ u + key @ v) / 2, rel=1e-10
            )


def test_a_head_that_is_open_does_not_open_first(ids):
    model = Model().double()
    drive = saccade.watching.attention_drive(model, loss, ids)
    level = float(np.median(drive.amplitude))
    layer, head = drive.first(level=level)
    assert drive.amplitude[drive.layers.index(layer), head] < level
    assert np.isnan(drive.wait(0.1, level)).sum() == (drive.amplitude >= level).sum() > 0
    with pytest.raises(InputError, match="all are open already"):
        drive.first(level=float(drive.amplitude.min()))


def test_weights_are_put_back_when_the_loss_fails(ids):
    model, calls = made(), []

    def failing(model, ids):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("no")
        return loss(model, ids)

    before = model.low.c_attn.weight.clone()
    with pytest.raises(RuntimeError, match="no"):
        saccade.watching.attention_drive(model, failing, ids)
    assert torch.equal(before, model.low.c_attn.weight)


def test_descent_from_small_queries_grows_at_the_rate_and_along_the_pair(ids):
    """With all other weights held fixed, F is constant and eq. 14 is exact as long as attention is
    nearly uniform.
    """
    model = made(small=1e-6).eval()
    drive = saccade.watching.attention_drive(model, loss, ids)
    fast = np.unravel_index(drive.rate.argmax(), drive.rate.shape)
    layer = (model.low, model.high)[fast[0]]
    layer.c_attn.bias.requires_grad_(False)
    lr, steps = 2.0, 0
    wait = drive.wait(lr, level=1e-3)[fast]
    rows = slice(fast[1] * D_HEAD, (fast[1] + 1) * D_HEAD)
    while True:
        weight = layer.c_attn.weight
        along = weight[:WIDTH][rows] @ torch.tensor(drive.query_to[fast]) + weight[
            WIDTH : 2 * WIDTH
        ][rows] @ torch.tensor(drive.key_to[fast])
        if along.norm() / 2 >= 1e-3 or steps > 10 * wait:
            break
        slope = torch.autograd.grad(loss(model, ids), weight)[0]
        with torch.no_grad():
            weight[: 2 * WIDTH] -= lr * slope[: 2 * WIDTH]
        steps += 1
    assert steps == pytest.approx(wait, rel=0.1)


def test_heads_of_torch_and_of_gpt2_are_read(ids):
    transformers = pytest.importorskip("transformers")
    encoder = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True).double()
    inputs = torch.randn(
        5, LENGTH, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    drive = saccade.watching.attention_drive(
        encoder, lambda model, x: (model(x)[:, -1, 0] - 1).pow(2).mean(), inputs
    )
    assert drive.matrix.shape == (1, HEADS, WIDTH, WIDTH)
    config = transformers.GPT2Config(
        vocab_size=TOKENS,
        n_embd=12,
        n_layer=2,
        n_head=3,
        n_positions=LENGTH,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config).double()
    drive = saccade.watching.attention_drive(
        model, lambda model, ids: model(ids, labels=ids).loss, ids
    )
    assert drive.matrix.shape == (2, 3, 12, 12)
    assert "step 0" in str(drive)
    assert "Adam" in str(drive)
    assert drive.opened.max() < 0.05  # GPT-2 starts with queries and keys of size .02


def test_rotated_queries_are_refused_with_a_sentence(ids):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=12,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=3,
        max_position_embeddings=16,
    )
    with pytest.raises(InputError, match="RoPE"):
        saccade.watching.attention_drive(
            transformers.LlamaForCausalLM(config),
            lambda model, ids: model(ids, labels=ids).loss,
            ids,
        )


def test_wrong_arguments_are_named(ids):
    with pytest.raises(InputError, match="no attention"):
        saccade.watching.attention_drive(nn.Linear(2, 2), loss, ids)
    with pytest.raises(InputError, match="one finite number"):
        saccade.watching.attention_drive(made(), lambda model, ids: model(ids), ids)
    with pytest.raises(InputError, match="`loss` must be a function"):
        saccade.watching.attention_drive(made(), 3, ids)


def test_a_recorder_keeps_the_top_pair_of_every_head(ids):
    model = made().float()
    descent = torch.optim.SGD(model.parameters(), lr=0.1)
    with saccade.watch(model, ids, every=1, budget=None, drive=loss) as recorder:
        for step in range(3):
            recorder.step(step)
            descent.zero_grad()
            loss(model, ids).backward()
            descent.step()
    record = recorder.record
    assert record.drive_rate.dims == ("time", "weight_layer", "weight_head")
    told = saccade.watching.attention_drive(model, loss, ids)
    np.testing.assert_allclose(record.drive_rate.values[-1], told.rate, rtol=1e-4)
    assert np.linalg.norm(record.drive_query_to.values, axis=-1) == pytest.approx(
        np.ones((4, 2, HEADS)), rel=1e-4
    )
    with saccade.watch(model, ids, every=1, budget=None) as plain:
        plain.step(0)
    assert "drive_rate" not in plain.record
