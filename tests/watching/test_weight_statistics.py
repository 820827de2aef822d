"""Spectra against explicit matrices that are measured from outside: what the model computes, not
where it keeps its weights.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import torch.nn.functional as F  # noqa: E402  # needs the extra
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade import measures  # noqa: E402
from saccade.watching.attention_weights import Names, check_names  # noqa: E402
from saccade.watching.weight_statistics import DEFINITIONS, TOP, weight_statistics  # noqa: E402

N_VOCAB, D_MODEL, N_LAYERS, N_HEADS = 101, 24, 2, 4


class HandWritten(nn.Module):
    """Attention as in nanoGPT, or with a fused matrix whose order nobody can know from outside."""

    def __init__(self, fused="c_attn", out="c_proj"):
        super().__init__()
        self.n_head, self.names = N_HEADS, (fused, out)
        setattr(self, fused, nn.Linear(D_MODEL, 3 * D_MODEL))
        setattr(self, out, nn.Linear(D_MODEL, D_MODEL))

    def forward(self, x):
        fused, out = (getattr(self, name) for name in self.names)
        q, k, v = (
            part.unflatten(-1, (N_HEADS, -1)).transpose(1, 2) for part in fused(x).chunk(3, dim=-1)
        )
        return out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )


class Small(nn.Module):
    """Token and position embeddings, attention layers, and a head."""

    def __init__(self, make_attention):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(N_VOCAB, D_MODEL), nn.Embedding(7, D_MODEL)
        self.layers = nn.ModuleList(make_attention() for _ in range(N_LAYERS))
        self.lm_head = nn.Linear(D_MODEL, N_VOCAB, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = x + (
                layer(x, x, x, need_weights=False)[0]
                if isinstance(layer, nn.MultiheadAttention)
                else layer(x)
            )
        return self.lm_head(x)


def from_config(kind, config, **settings):
    common = {"vocab_size": N_VOCAB, "attn_implementation": "sdpa", "tie_word_embeddings": False}
    return kind(config(**common | settings))


def _llama(**more):
    return {
        "hidden_size": D_MODEL,
        "intermediate_size": 31,
        "num_hidden_layers": N_LAYERS,
        "num_attention_heads": N_HEADS,
    } | more


T = transformers
GPT2 = {
    "n_embd": D_MODEL,
    "n_layer": N_LAYERS,
    "n_head": N_HEADS,
    "n_positions": 7,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
T5 = {
    "d_model": D_MODEL,
    "d_kv": 5,
    "d_ff": 31,
    "num_layers": N_LAYERS,
    "num_heads": N_HEADS,
    "decoder_start_token_id": 0,
}
MODELS = {
    "llama": lambda: from_config(
        T.LlamaForCausalLM, T.LlamaConfig, **_llama(num_key_value_heads=2, head_dim=10)
    ),
    "mistral": lambda: from_config(
        T.MistralForCausalLM, T.MistralConfig, **_llama(num_key_value_heads=1)
    ),
    "gpt2": lambda: from_config(T.GPT2LMHeadModel, T.GPT2Config, **GPT2),
    "neox": lambda: from_config(T.GPTNeoXForCausalLM, T.GPTNeoXConfig, **_llama()),
    "bert": lambda: from_config(T.BertForMaskedLM, T.BertConfig, **_llama()),
    "t5": lambda: from_config(T.T5ForConditionalGeneration, T.T5Config, **T5),
    "nanogpt": lambda: Small(HandWritten),
    "multi-head": lambda: Small(lambda: nn.MultiheadAttention(D_MODEL, N_HEADS, batch_first=True)),
    "encoder": lambda: Small(
        lambda: nn.TransformerEncoderLayer(D_MODEL, N_HEADS, 31, batch_first=True)
    ),
}


def made(name, dtype=torch.float64):
    """All parameters random: some families begin with zeros, or with heads alike."""
    torch.manual_seed(sum(map(ord, name)))
    model = MODELS[name]().eval().to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


class Outside:
    """One position, so no rotation and all attention on it; inputs of one attention module
    replaced, and one head let through.
    """

    def __init__(self, model, layer, monkeypatch):
        self.model, self.only, self.seen = model, None, {}
        self.inputs = torch.randn(N_VOCAB, 1, D_MODEL, dtype=torch.float64)
        module = model.get_submodule(layer)
        self.active = False
        module.register_forward_pre_hook(self._enter, with_kwargs=True)
        output = next(
            (part for name, part in module.named_modules() if name.endswith("output.dense")), module
        )  # BERT's adds more
        output.register_forward_hook(self._leave)
        self._attention = F.scaled_dot_product_attention
        monkeypatch.setattr(F, "scaled_dot_product_attention", self._look)

    def _enter(self, module, args, kwargs):
        def swap(value):
            return (
                self.inputs
                if isinstance(value, torch.Tensor) and value.shape == self.inputs.shape
                else value
            )

        self.active = True
        return tuple(map(swap, args)), {name: swap(value) for name, value in kwargs.items()}

    def _look(self, query, key, value, *args, **kwargs):
        if not self.active:
            return self._attention(query, key, value, *args, **kwargs)
        n_served = query.shape[1] // key.shape[1]
        self.seen |= {"query": query, "key": key.repeat_interleave(n_served, dim=1)}
        value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1).clone()
        if self.only is not None:
            value[:, torch.arange(value.shape[1]) != self.only] = 0
        return self._attention(
            query,
            self.seen["key"],
            value,
            *args,
            **{k: v for k, v in kwargs.items() if k != "enable_gqa"},
        )

    def _leave(self, module, args, output):
        if self.active:
            self.seen["output"] = output[0] if isinstance(output, tuple) else output
        self.active = False

    def linear_part(self, what, head):
        """The matrix (width in, width out) of one head's inputs to `what`."""
        values = self.seen[what][:, head, 0] if what != "output" else self.seen[what][:, 0]
        inputs = torch.cat([self.inputs[:, 0], torch.ones(N_VOCAB, 1, dtype=torch.float64)], dim=1)
        return torch.linalg.lstsq(inputs, values).solution[:-1].numpy()

    @torch.no_grad()
    def circuits(self, head):
        ids = torch.arange(N_VOCAB)[:, None]
        more = {"decoder_input_ids": ids} if hasattr(self.model, "decoder") else {}
        self.only = head
        self.model(ids, **more)
        return self.linear_part("query", head) @ self.linear_part("key", head).T, self.linear_part(
            "output", head
        )


def expected_of(matrix):
    values = np.linalg.svd(matrix, compute_uv=False)
    return {
        "top_share": measures.top_share(values),
        "effective_rank": measures.effective_rank(values),
        "stable_rank": np.linalg.norm(matrix) ** 2 / np.linalg.norm(matrix, ord=2) ** 2,
        "singular_values": values,
    }


def agrees(found, matrix, rank=TOP):
    """`found`: measure -> value, the singular values being missing beyond the rank."""
    for measure, expected in expected_of(matrix).items():
        value = found[measure]
        if measure == "singular_values":
            n = min(TOP, rank)
            assert np.isnan(value[n:]).all()
            value, expected = value[:n], expected[:n]
        np.testing.assert_allclose(value, expected, rtol=1e-7, err_msg=measure)


def of_head(values, part, layer, head):
    return {
        name.removeprefix(f"{part}_"): array[layer, head]
        for name, array in values.items()
        if name.startswith(f"{part}_")
    }


@pytest.fixture
def _slow_path():
    """The fused evaluation path of PyTorch's encoder goes by a function that cannot be looked into."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(enabled)


@pytest.mark.usefixtures("_slow_path")
@pytest.mark.parametrize("name", MODELS)
def test_spectra_of_heads_are_those_of_the_explicit_matrices_that_the_model_applies(
    name, monkeypatch
):
    model = made(name)
    values, _, unrecognised, layers = weight_statistics(model)
    assert unrecognised == []
    assert len(layers) == (3 * N_LAYERS if name == "t5" else N_LAYERS)
    assert values["qk_top_share"].shape == values["ov_top_share"].shape == (len(layers), N_HEADS)
    d_head = {"llama": 10, "t5": 5}.get(name, D_MODEL // N_HEADS)
    for index, layer in [(0, layers[0]), (len(layers) - 1, layers[-1])]:
        with monkeypatch.context() as patch:
            outside = Outside(model, layer, patch)
            for head in range(N_HEADS):
                qk, ov = outside.circuits(head)
                agrees(of_head(values, "qk", index, head), qk, d_head)
                agrees(of_head(values, "ov", index, head), ov, d_head)


@pytest.mark.parametrize("name", MODELS)
def test_spectra_of_embedding_and_unembedding_are_those_of_their_matrices(name):
    model = made(name)
    values, _, _, _ = weight_statistics(model)
    state = model.state_dict()
    embedding = next(key for key in state if state[key].shape == (N_VOCAB, D_MODEL))
    unembedding = [key for key in state if state[key].shape == (N_VOCAB, D_MODEL)][-1]
    for part, key in (("embedding", embedding), ("unembedding", unembedding)):
        found = {
            measure.removeprefix(f"{part}_"): array
            for measure, array in values.items()
            if measure.startswith(f"{part}_")
        }
        agrees(found, state[key].numpy())
    assert embedding != unembedding


def test_every_variable_is_defined_and_has_its_axes():
    values, axes, _, _ = weight_statistics(made("llama"))
    assert values.keys() == DEFINITIONS.keys() == axes.keys()
    assert {name: len(axes[name]) for name in axes} == {
        name: array.ndim for name, array in values.items()
    }
    assert axes["ov_singular_values"] == ("weight_layer", "weight_head", "rank")


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_tied_embeddings_have_one_spectrum():
    torch.manual_seed(0)
    model = from_config(T.GPT2LMHeadModel, T.GPT2Config, **GPT2, tie_word_embeddings=True)
    values, _, unrecognised, _ = weight_statistics(model)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert unrecognised == []
    np.testing.assert_array_equal(
        values["embedding_singular_values"], values["unembedding_singular_values"]
    )


def test_half_precision_is_read_and_computed_in_double():
    model = made("neox", torch.bfloat16)
    same(weight_statistics(model).values, weight_statistics(model.double()).values)


def test_wrappers_make_no_difference():
    model = made("mistral")
    expected = weight_statistics(model).values
    same(weight_statistics(torch.compile(model, backend="eager")).values, expected)
    same(weight_statistics(torch.compile(nn.DataParallel(model), backend="eager")).values, expected)
    layers = weight_statistics(model).layers
    model.model.layers[1] = torch.compile(model.model.layers[1], backend="eager")
    assert weight_statistics(model).layers == layers
    same(weight_statistics(model).values, expected)


def test_distributed_data_parallel_makes_no_difference():
    model = made("gpt2")
    expected = weight_statistics(model).values
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        same(weight_statistics(nn.parallel.DistributedDataParallel(model)).values, expected)
    finally:
        torch.distributed.destroy_process_group()


def test_nothing_larger_than_a_head_is_decomposed_and_nothing_of_the_model_moves(monkeypatch):
    model, largest = made("mistral"), []
    before, state = (
        {name: value.clone() for name, value in model.state_dict().items()},
        torch.get_rng_state(),
    )
    decompose = np.linalg.svd
    monkeypatch.setattr(
        np.linalg,
        "svd",
        lambda matrix, **more: largest.append(matrix.shape) or decompose(matrix, **more),
    )
    weight_statistics(model)
    assert {shape[-2:] for shape in largest} == {(D_MODEL // N_HEADS, D_MODEL // N_HEADS)}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(
        parameter.requires_grad and parameter.grad is None for parameter in model.parameters()
    )


class LowRank(nn.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.lora_A, self.lora_B = (
            nn.Parameter(torch.ones(2, self.in_features)),
            nn.Parameter(torch.ones(self.out_features, 2)),
        )


def test_weights_with_additions_are_not_taken_for_the_whole():
    model = made("llama")
    for layer in model.model.layers[1:]:
        layer.self_attn.v_proj = LowRank(D_MODEL, 20)
    values, _, unrecognised, _ = weight_statistics(model)
    assert weight_statistics(model).layers == ["model.layers.0.self_attn"]
    assert len(values["qk_top_share"]) == 1
    assert unrecognised == [
        "model.layers.1.self_attn: v_proj is a LowRank with parameters bias, lora_A, lora_B, weight, not a plain matrix."
    ]


def sentences(model):
    return " ".join(weight_statistics(model).unrecognised)


def test_attention_under_unknown_names_is_said():
    model = Small(lambda: HandWritten(fused="mixer", out="back"))
    model.attention = model.layers.pop(0)
    said = sentences(model)
    assert (
        'attention: HandWritten has no weights under a name that is known: pass `weights=` names of matrices, {"q": ..., '
        in said
    )
    assert "it holds mixer, back." in said
    assert ".py" not in said
    assert "qk_top_share" not in weight_statistics(model).values


@pytest.mark.parametrize(
    "fused, out",
    [
        ("qkv", "proj"),
        ("qkv", "out"),
        ("Wqkv", "out_proj"),
        ("qkv_proj", "o_proj"),
        ("to_qkv", "to_out"),
    ],
)
def test_common_names_of_fused_weights_are_known(fused, out):
    model, known = Small(lambda: HandWritten(fused, out)).double(), made("nanogpt")
    model.load_state_dict(dict(zip(model.state_dict(), known.state_dict().values(), strict=True)))
    same(weight_statistics(model).values, weight_statistics(known).values)


class Shared(nn.Module):
    """One key and value for each two heads, in one matrix with the queries; the output is dropped
    out.
    """

    def __init__(self, n_keys=D_MODEL // 2):
        super().__init__()
        self.mixer, self.back = (
            nn.Linear(D_MODEL, D_MODEL + 2 * n_keys),
            nn.Sequential(nn.Linear(D_MODEL, D_MODEL), nn.Dropout()),
        )


class Apart(nn.Module):
    """The same weights, one matrix each, under names that nobody knows; no number of heads either."""

    def __init__(self):
        super().__init__()
        self.seek, self.show = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, D_MODEL // 2)
        self.inner = nn.ModuleDict({"tell": nn.Linear(D_MODEL, D_MODEL // 2)})
        self.back = nn.Parameter(torch.randn(D_MODEL, D_MODEL))


def test_weights_under_any_name_are_read_once_they_are_told():
    torch.manual_seed(0)
    fused, apart, usual = (
        nn.ModuleDict({"mix": Shared()}),
        nn.ModuleDict({"mix": Apart()}),
        made("llama").model.layers[0].self_attn,
    )
    with torch.no_grad():
        query, key, value = fused.mix.mixer.weight.split([D_MODEL, D_MODEL // 2, D_MODEL // 2])
        for ours, theirs, weight in (
            (apart.mix.seek, usual.q_proj, query),
            (apart.mix.show, usual.k_proj, key),
            (apart.mix.inner.tell, usual.v_proj, value),
        ):
            ours.weight.copy_(weight)
            theirs.weight = nn.Parameter(weight.clone())
        apart.mix.back.copy_(fused.mix.back[0].weight)
        usual.o_proj.weight = nn.Parameter(fused.mix.back[0].weight.clone())
    expected = weight_statistics(nn.ModuleDict({"mix": usual})).values
    names = Names.of({"qkv": "mixer", "o": "back", "heads": N_HEADS})
    same(weight_statistics(fused, names).values, expected)
    names = Names.of(
        {"q": "mix.seek", "k": "mix.show", "v": "mix.inner.tell", "o": "mix.back", "heads": N_HEADS}
    )
    same(weight_statistics(apart, names).values, expected)
    assert weight_statistics(apart, names).layers == ["mix"]
    with pytest.raises(
        saccade.InputError, match=r"no module holds them all; the model has mix\.back, mix\.seek"
    ):
        check_names(apart, Names.of({"qkv": "mixer", "o": "back"}))
    with pytest.raises(
        saccade.InputError, match="`weights` must be true, false or names of matrices"
    ):
        Names.of({"q": "seek", "o": "back"})


def test_rows_that_are_ordered_by_head_are_read_so():
    model = made("neox")
    fused = weight_statistics(model).values
    for layer in model.gpt_neox.layers:
        layer.attention = nn.ModuleDict(
            {"mixer": layer.attention.query_key_value, "back": layer.attention.dense}
        )
    same(
        weight_statistics(
            model, Names.of({"qkv_by_head": "mixer", "o": "back", "heads": N_HEADS})
        ).values,
        fused,
    )


class Block(nn.Module):
    """Attention in a module called `attn`, whose fused matrix is called `attn` too; nothing says
    how many heads there are.
    """

    class Inner(HandWritten):
        def __init__(self):
            super().__init__("attn", "out")
            del self.n_head

    def __init__(self):
        super().__init__()
        self.attn = self.Inner()

    def forward(self, x):
        return x + self.attn(x)


class Unnamed(nn.Module):
    """Attention whose module does not say so."""

    def __init__(self, inner):
        super().__init__()
        self.table, self.mixer = nn.Embedding(10, D_MODEL), inner

    def forward(self, tokens):
        return self.mixer(self.table(tokens))


def told_of_weights(model, capsys, weights=True):
    with saccade.watch(model, torch.arange(10).view(2, 5), weights=weights) as recorder:
        recorder.look(0)
    said = [
        line.removeprefix("saccade: weights: ")
        for line in capsys.readouterr().err.split("\n")
        if "weights: " in line
    ]
    return recorder.record, [line for line in said if not line.startswith("unembedding")]


@pytest.mark.parametrize(("inner", "place"), [(Block(), "mixer.attn"), (Block.Inner(), "mixer")])
def test_weights_under_unknown_names_are_asked_of_the_module_in_which_attention_was_seen(
    inner, place, capsys
):
    _, said = told_of_weights(Unnamed(inner), capsys)
    assert len(said) == 1
    assert said[0].startswith(f"{place}: Inner has no weights under a name that is known")
    assert said[0].endswith("it holds attn, out.")
    record, said = told_of_weights(Unnamed(inner), capsys, {"qkv": "attn", "o": "out"})
    assert not said
    assert record.weight_layer.values.tolist() == [place]
    assert record.sizes["weight_head"] == N_HEADS  # as many as were seen


def test_weights_that_are_swapped_are_said_not_to_fit(capsys):
    _, said = told_of_weights(Unnamed(Block()), capsys, {"qkv": "attn.out", "o": "attn.attn"})
    assert (
        f"of shape {(D_MODEL, D_MODEL)} are not queries, keys and values of an output of shape {(3 * D_MODEL, D_MODEL)}"
        in said[0]
    )
    assert "swapped" in said[0]


def test_a_model_without_attention_or_tokens_says_so():
    said = sentences(nn.Sequential(nn.Linear(3, 5)))
    assert "embedding: the model has no nn.Embedding of tokens" in said
    assert "Sequential: no attention weights were found" in said


def test_a_fused_matrix_of_unknown_order_is_not_guessed_at():
    model = from_config(T.FalconForCausalLM, T.FalconConfig, **_llama())
    said = sentences(model)
    assert (
        f"and {N_LAYERS - 1} more: the order of rows in query_key_value of FalconAttention is not known."
        in said
    )


def _without_heads(model):
    for layer in model.layers:
        del layer.n_head


def _on_meta(model):
    model.layers.to("meta")


def _in_integers(model):
    for layer in model.layers:
        layer.c_attn.weight = nn.Parameter(layer.c_attn.weight.to(torch.int8), requires_grad=False)


def _of_another_shape(model):
    for layer in model.layers:
        layer.c_attn = nn.Linear(D_MODEL, 4 * D_MODEL)


@pytest.mark.parametrize(
    "change, reason",
    [
        (_without_heads, "not said how many heads"),
        (_on_meta, "the values of c_attn are not all in this process"),
        (_in_integers, "c_attn holds int8"),
        (_of_another_shape, "are not queries, keys and values"),
    ],
)
def test_weights_that_cannot_be_read_are_said_with_the_reason(change, reason):
    model = made("nanogpt")
    change(model)
    assert reason in sentences(model)
    assert f"and {N_LAYERS - 1} more" in sentences(model)


def test_several_embeddings_without_a_known_name_are_said():
    model = made("nanogpt")
    model.words, model.other = model.wte, nn.Embedding(13, D_MODEL)
    del model.wte
    assert "words, other could each be" in sentences(model)


def test_weights_of_zero_have_no_shares_and_weights_not_finite_are_missing():
    model = made("nanogpt")
    with torch.no_grad():
        model.layers[0].c_proj.weight.zero_()
        model.layers[1].c_proj.weight[0, 0] = torch.nan
        model.wte.weight[0, 0] = torch.inf
    values = weight_statistics(model).values
    np.testing.assert_array_equal(values["ov_singular_values"][0, :, : D_MODEL // N_HEADS], 0)
    assert np.isnan(values["ov_effective_rank"][0]).all()
    np.testing.assert_array_equal(
        np.isnan(values["ov_stable_rank"][1]), [True, False, False, False]
    )
    assert np.isnan(values["embedding_singular_values"]).all()
    assert np.isfinite(values["qk_stable_rank"]).all()
