"""Attention as models write it: sinks, shared values, head masks, approximations, many masks,
weights told by the author.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention.bias import causal_lower_right  # noqa: E402

import saccade  # noqa: E402
from saccade.watching.self_check import UnfaithfulError  # noqa: E402
from saccade.watching.weight_statistics import weight_statistics  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402
from tests.watching.dense_statistics import dense_statistics  # noqa: E402

SHAPES = ("entropy", "relative_entropy", "top_mass", "effective_keys")
PLACES = ("sink_mass", "self_mass", "previous_mass")
CAUSAL = torch.ones(zoo.LENGTH, zoo.LENGTH, dtype=torch.bool).tril()


class Model(zoo.Heads):
    """Embeddings, and a function that makes attention of (sequence, head, token, width)."""

    def __init__(self, attend):
        torch.manual_seed(0)
        super().__init__()
        self.attend, self.num_heads = attend, zoo.HEADS

    def forward(self, tokens):
        return self.attend(self.heads(tokens))

    def scores(self):
        """Causal scores of the probe in float64."""
        x = self.heads(zoo.ids()).detach().double()
        return (x @ x.mT).masked_fill(~CAUSAL, -torch.inf)


def watched(model, probe=None):
    return zoo.watched(model, zoo.ids() if probe is None else probe).isel(time=0)


def check(record, weights, layer=0, names=SHAPES + PLACES, keys=None):
    """Against whole maps; of places, only the first `keys` columns are keys."""
    n_batch, _, _, n_keys = weights.shape
    tokens, start = np.ones((n_batch, n_keys), bool), np.zeros((n_batch, n_keys), int)
    for name in names:
        maps = weights if name in SHAPES else weights[..., :keys]
        part = maps.shape[-1]
        expected = dense_statistics(maps.numpy(), tokens[:, :part], start[:, :part], least=0.0)[
            name
        ]
        np.testing.assert_allclose(record[name][layer], expected, atol=2e-5, err_msg=name)


def masked(x):
    return (x @ x.mT).masked_fill(~CAUSAL, -torch.inf)


def test_a_learned_sink_is_one_more_key_that_takes_attention_and_gives_nothing():
    sink = torch.linspace(-1, 2, zoo.HEADS)

    def attend(x):
        column = sink[:, None, None].expand(len(x), -1, x.shape[2], 1)
        return torch.softmax(torch.cat([masked(x), column], dim=-1), dim=-1)[..., :-1] @ x

    model = Model(attend)
    scores = model.scores()
    whole = torch.softmax(
        torch.cat([scores, sink.double()[:, None, None].expand(*scores.shape[:-1], 1)], -1), -1
    )
    record = watched(model)
    check(record, whole, keys=zoo.LENGTH)
    assert float(record.attention_map.sum("key").min()) < 0.99  # the rest is on the sink


def test_values_that_all_heads_share_are_found_in_an_einsum():
    for equation in ("bhqk,bkd->bhqd", "bhqk,bkd->bqhd", "b h i j, b j d -> b h i d"):
        model = Model(
            lambda x, e=equation: torch.einsum(e, torch.softmax(masked(x), dim=-1), x[:, 0])
        )
        check(watched(model), torch.softmax(model.scores(), -1))


def test_a_head_mask_scales_what_a_head_gives_not_where_it_looks():
    model = Model(
        lambda x: (
            (torch.softmax(masked(x), dim=-1) * torch.tensor([1.0, 0.0, 0.5, 1.0])[:, None, None])
            @ x
        )
    )
    check(watched(model), torch.softmax(model.scores(), -1))


class Talking(nn.Module):
    """Heads are mixed after the softmax: by a layer over the axis of heads, or by a convolution of
    one pixel.
    """

    def __init__(self, way):
        super().__init__()
        self.mix = (
            nn.Conv2d(zoo.HEADS, zoo.HEADS, 1, bias=False)
            if way == "convolution"
            else nn.Linear(zoo.HEADS, zoo.HEADS)
        )
        self.way = way

    def forward(self, x):
        weights = torch.softmax(masked(x), dim=-1)
        if self.way == "convolution":
            return self.mix(weights) @ x
        mixed = self.mix(weights.permute(0, 2, 3, 1))
        if self.way == "not a mixture":
            mixed = mixed.transpose(1, 2)  # queries are where keys were
        return mixed.permute(0, 3, 1, 2) @ x


@pytest.mark.parametrize("way", ["layer", "convolution"])
def test_of_talking_heads_the_softmax_of_each_head_is_recorded(way):
    model = Model(Talking(way))
    check(watched(model), torch.softmax(model.scores(), -1))


def test_weights_that_are_no_mixture_of_heads_are_not_taken_for_one():
    with pytest.raises(UnfaithfulError, match="no matrix product"):
        watched(Model(Talking("not a mixture")))


def test_weights_that_are_changed_key_by_key_after_the_softmax_are_not_taken_for_it():
    model = Model(
        lambda x: (torch.softmax(masked(x), dim=-1) * torch.linspace(0, 1, zoo.LENGTH)) @ x
    )
    with pytest.raises(UnfaithfulError, match="no matrix product"):
        watched(model)


@pytest.mark.parametrize("hidden", [-100.0, -1e4, torch.finfo(torch.float32).min, -torch.inf])
def test_written_out_attention_sees_every_key_that_the_mask_leaves_and_no_other(hidden):
    """A slope so steep that most weights are below any number of float32; a mask that is added."""
    places = torch.arange(zoo.LENGTH)
    slope = -30.0 * (places[:, None] - places).clamp_min(0)
    mask = torch.where(CAUSAL, 0.0, hidden)
    model = Model(lambda x: torch.softmax(x @ x.mT + slope + mask, dim=-1) @ x)
    record = watched(model)
    weights = torch.softmax(model.scores() + slope.double(), -1)
    assert float(weights[..., -1, 0].max()) < 1e-100
    check(record, weights)
    share = record.uniform_mass.sel(place="sink_mass").values
    np.testing.assert_allclose(share, np.mean(1 / np.arange(1, zoo.LENGTH + 1)), rtol=1e-5)


class Biased(nn.Module):
    """A bias and a mask, added to scores in one tensor."""

    def __init__(self, mask, bias, *, fused, once):
        super().__init__()
        self.bias, self.added, self.fused = nn.Parameter(bias), bias + mask if once else None, fused
        self.mask = mask

    def forward(self, x):
        added = (
            (self.bias + self.mask).expand(len(x), -1, -1, -1) if self.added is None else self.added
        )
        if self.fused:
            return F.scaled_dot_product_attention(x, x, x, attn_mask=added, scale=1.0)
        return torch.softmax(x @ x.mT + added, dim=-1) @ x


@pytest.mark.parametrize("hidden", [-100.0, -1e3, -1e4, -torch.inf])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("once", [True, False])
def test_a_mask_that_is_added_to_a_bias_first_hides_the_same_keys(hidden, fused, once):
    bias = torch.randn(
        1, zoo.HEADS, zoo.LENGTH, zoo.LENGTH, generator=torch.Generator().manual_seed(1)
    )
    model = Model(Biased(torch.where(CAUSAL, 0.0, hidden), bias, fused=fused, once=once))
    check(watched(model), torch.softmax(model.scores() + bias.double(), -1))


@pytest.mark.parametrize("fused", [True, False])
def test_a_mask_of_minus_100_is_told_from_a_bias_by_distance_that_reaches_as_low(fused):
    """Their sum has no gap; only the way in which it was made tells which keys are visible."""
    places = torch.arange(float(zoo.LENGTH))
    slopes = torch.logspace(-1, 1.3, zoo.HEADS)[:, None, None]
    bias = -slopes * (places[:, None] - places).abs()[None, None]
    assert float(bias.min()) < -100
    model = Model(Biased(torch.where(CAUSAL, 0.0, -100.0), bias, fused=fused, once=False))
    check(watched(model), torch.softmax(model.scores() + bias.double(), -1))


def test_a_mask_of_minus_100_hides_keys_in_pytorchs_own_attention():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(zoo.WIDTH, zoo.HEADS, batch_first=True)

    def attended(mask):
        def attend(x):
            tokens = x.transpose(1, 2).flatten(2)
            return layer(tokens, tokens, tokens, attn_mask=mask, need_weights=False)[0]

        return watched(Model(attend))

    soft, hard = (attended(torch.where(CAUSAL, 0.0, hidden)) for hidden in (-100.0, -torch.inf))
    np.testing.assert_allclose(soft.relative_entropy, hard.relative_entropy, atol=1e-6)


def test_a_softmax_over_features_is_not_attention_and_other_layers_are_recorded_all_the_same():
    class Linear(nn.Module):
        """Efficient attention: features of queries, times what keys and values make together."""

        def forward(self, x):
            return torch.softmax(x, dim=-1) @ (torch.softmax(x.mT, dim=-1) @ x)

    class Usual(nn.Module):
        def forward(self, x):
            return torch.softmax(masked(x), dim=-1) @ x

    model = Model(None)
    model.linear, model.usual = Linear(), Usual()
    model.attend = lambda x: model.usual(x + model.linear(x))
    with pytest.warns(UserWarning, match="`linear`, which approximates it"):
        record = watched(model)
    assert record.layer.values.tolist() == ["usual"]


def test_a_layer_of_a_class_that_is_seen_elsewhere_is_named_if_it_is_not_seen():
    class Mixer(nn.Module):
        def __init__(self, by_hand):
            super().__init__()
            self.by_hand = by_hand

        def forward(self, x):
            if not self.by_hand:
                return F.scaled_dot_product_attention(x, x, x, is_causal=True)
            raised = masked(x).exp()
            return raised / raised.sum(-1, keepdim=True) @ x

    model = Model(None)
    model.blocks = nn.ModuleList([Mixer(False), Mixer(True), Mixer(False)])
    model.attend = nn.Sequential(*model.blocks)
    with pytest.warns(UserWarning, match=r"attention in `blocks\.1`, of class Mixer"):
        record = watched(model)
    assert record.layer.values.tolist() == ["blocks.0", "blocks.2"]


class OneByOne(nn.Module):
    """Each sequence and head alone; `route` is a softmax of two axes that is no attention."""

    def __init__(self, way):
        super().__init__()
        self.way, self.experts = way, nn.Parameter(torch.randn(3, zoo.WIDTH // zoo.HEADS))

    def forward(self, x):
        if self.way == "vmap":
            return torch.vmap(torch.vmap(self.attended))(x)
        return torch.stack(
            [torch.stack([self.attended(head) for head in sequence]) for sequence in x]
        )

    def attended(self, x):
        if self.way == "route":
            return torch.softmax(x @ self.experts.T, dim=-1) @ self.experts
        weights = F.dropout(torch.softmax(x @ x.T, dim=-1), 0.1, False)
        return torch.mm(weights, x) if self.way == "mm" else weights @ x


@pytest.mark.parametrize("way", ["loop", "mm", "vmap", "route"])
def test_attention_of_one_sequence_and_head_at_a_time_is_named_beside_what_is_seen(way):
    alone = OneByOne(way)
    model = Model(lambda x: alone(torch.softmax(masked(x), dim=-1) @ x))
    with saccade.watch(model, zoo.ids()) as recorder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        recorder.look(0)
    named = [
        str(each.message)
        for each in said
        if "a softmax over (11, 11) times values" in str(each.message)
    ]
    assert len(named) == (way != "route")
    assert not any("(11, 3)" in str(each.message) for each in said)


class Beside(nn.Module):
    """Attention that is seen, and what its name says."""

    class AttentionOutput(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

        def forward(self, x):
            return self.norm(self.dense(x))

    class AttentionStructure(nn.Module):
        def prepared(self, x):
            return x

    class LinearAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(6, 18)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return q.relu() @ (k.relu().mT @ v)

    class SeenAttention(nn.Module):
        def forward(self, x):
            return torch.softmax(masked(x), dim=-1) @ x

    def __init__(self):
        super().__init__()
        self.own, self.output = self.SeenAttention(), self.AttentionOutput()
        self.structure, self.linear = self.AttentionStructure(), self.LinearAttention()

    def forward(self, x):
        return self.linear(self.output(self.own(self.structure.prepared(x))))


def test_parts_of_attention_without_attention_of_their_own_are_not_named_and_others_are():
    model = Model(None)
    model.inner = Beside()
    model.attend = model.inner
    with (
        saccade.watch(model, zoo.ids()) as recorder,
        pytest.warns(UserWarning, match="of class LinearAttention") as said,
    ):
        recorder.look(0)
    assert not [
        each for each in said if "Output" in str(each.message) or "Structure" in str(each.message)
    ]


def test_a_mask_that_is_a_name_only_is_read():
    def attend(x):
        return F.scaled_dot_product_attention(
            x[:, :, -7:], x, x, attn_mask=causal_lower_right(7, zoo.LENGTH), scale=1.0
        )

    model = Model(attend)
    record = watched(model)
    weights = torch.softmax(model.scores()[:, :, -7:], -1)
    check(record, weights, names=(*SHAPES, "sink_mass"))


def test_attention_inside_vmap_is_refused_with_a_sentence():
    def attend(x):
        return torch.vmap(lambda one: F.scaled_dot_product_attention(one, one, one))(x)

    with pytest.raises(UnfaithfulError, match="vmap"):
        watched(Model(attend))


def test_an_author_tells_attention_that_cannot_be_seen():
    def attend(x):
        raised = masked(x).exp()
        return saccade.mark_attention(raised / raised.sum(-1, keepdim=True), visible=CAUSAL) @ x

    model = Model(attend)
    check(watched(model), torch.softmax(model.scores(), -1))
    with pytest.raises(saccade.InputError, match="sum to one"):
        watched(Model(lambda x: saccade.mark_attention(masked(x).exp()) @ x))
    with pytest.raises(saccade.InputError, match="sequence, head, query, key"):
        watched(Model(lambda x: saccade.mark_attention(x[0]) @ x[0].mT))
    assert saccade.mark_attention("anything") == "anything"  # outside of a look it does nothing


def test_telling_attention_does_not_break_a_compiled_graph():
    model = Model(lambda x: saccade.mark_attention(torch.softmax(masked(x), dim=-1)) @ x)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(zoo.ids()), model(zoo.ids()))
    record = watched(compiled)
    assert record.sizes["layer"] == 1  # told and seen, recorded once
    check(record, torch.softmax(model.scores(), -1))


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("multi_query", [True, False])
def test_circuits_of_gptbigcode_are_those_of_its_own_queries_and_keys(multi_query, monkeypatch):
    torch.manual_seed(0)
    config = transformers.GPTBigCodeConfig(
        vocab_size=zoo.N_VOCAB,
        n_embd=16,
        n_layer=1,
        n_head=4,
        n_inner=20,
        multi_query=multi_query,
        n_positions=32,
    )
    model = transformers.GPTBigCodeModel._from_config(config, attn_implementation="sdpa").eval()
    found = weight_statistics(model).values["qk_singular_values"][0, :, :4]
    seen = []
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda q, k, v, **_: (seen.extend((q[0], k[0])), q)[1]
    )
    with torch.no_grad():
        model.h[0].attn.c_attn.bias.zero_()
        model.h[0].attn(torch.eye(16)[None])  # queries and keys of unit inputs: the circuit itself
    query, key = (part.double() for part in seen)
    np.testing.assert_allclose(
        found, torch.linalg.svdvals(query @ key.expand(4, -1, -1).mT)[:, :4], rtol=1e-5
    )


class OverFeatures(nn.Module):
    """As XCiT has it: features attend to features, and each value is a whole sequence; `tokens`
    attends as usual beside it.
    """

    def __init__(self, fused, tokens=None):
        super().__init__()
        self.num_heads, self.fused, self.tokens = zoo.HEADS, fused, tokens
        self.embedding, self.qkv = (
            nn.Embedding(zoo.N_VOCAB, zoo.WIDTH),
            nn.Linear(zoo.WIDTH, 3 * zoo.WIDTH),
        )

    def forward(self, x):
        if self.tokens is not None:
            self.tokens(x)
        x = x if x.is_floating_point() else self.embedding(x)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 4, 1)
        return F.scaled_dot_product_attention(q, k, v) if self.fused else (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize("fused", [True, False])
def test_attention_over_features_is_not_taken_for_attention_over_tokens(fused):
    for probe in (zoo.ids(), torch.randn(2, 7, zoo.WIDTH)):
        with (
            pytest.raises(UnfaithfulError, match="over features, not over tokens"),
            saccade.watch(OverFeatures(fused), probe),
        ):
            pass
    model = OverFeatures(fused, zoo.HandWritten("fused"))
    with pytest.warns(UserWarning, match="over features"):
        record = zoo.watched(model, zoo.ids())
    assert record.layer.values.tolist() == ["tokens.blocks.0", "tokens.blocks.1"]


@pytest.mark.parametrize("n_padding", [0, 5])
def test_a_band_of_near_keys_is_recorded_as_weights_of_queries_on_keys(n_padding):
    """Longformer, against its weights from queries and keys in float64, every token with every
    other.
    """
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 60,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 32,
    }
    config = transformers.LongformerConfig(**sizes, attention_window=8, max_position_embeddings=40)
    model, ids = transformers.LongformerModel(config).eval(), torch.randint(5, 60, (2, 32))
    mask, inputs, layers = (
        torch.ones_like(ids),
        [],
        [layer.attention.self for layer in model.encoder.layer],
    )
    mask[1, 32 - n_padding :] = 0
    for layer in layers:
        torch.nn.init.normal_(layer.query.weight, std=0.5)
        layer.register_forward_pre_hook(lambda layer, given: inputs.append(given[0].double()))
    probe = {"input_ids": ids, "attention_mask": mask}
    with torch.no_grad():
        model(**probe)
    hidden = inputs[:2]
    record = watched(model, probe)
    places, is_token = torch.arange(32), mask.bool()
    visible = (
        ((places[:, None] - places).abs() <= 4)
        & is_token[:, None, None, :]
        & is_token[:, None, :, None]
    )
    for number, (layer, x) in enumerate(zip(layers, hidden, strict=True)):
        q, k = (
            F.linear(x, of.weight.double(), of.bias.double()) for of in (layer.query, layer.key)
        )
        q, k = (each.unflatten(-1, (4, -1)).transpose(1, 2) for each in (q, k))
        weights = (q @ k.mT / 8**0.5).masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num(0.0)
        expected = dense_statistics(
            weights.detach().numpy(), is_token.numpy(), np.zeros((2, 32), int)
        )
        for name in (*SHAPES, *PLACES):
            np.testing.assert_allclose(
                record[name][number], expected[name], atol=1e-5, err_msg=name
            )
