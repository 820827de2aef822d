"""After a look a model is what it was: modules, modes, plain attributes, configurations, kernels,
and the caches of its probe.
"""

from __future__ import annotations

import copy
from collections import deque

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.watching.self_check import UnfaithfulError  # noqa: E402
from saccade.watching.undisturbed import undisturbed  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402


def state(model):
    """All that can be compared of a model: names, classes, modes, plain attributes, parameters and
    buffers.
    """
    return {
        name: (
            type(module),
            module.training,
            {key: repr(value) for key, value in vars(module).items() if key != "_modules"},
        )
        for name, module in model.named_modules()
    }


class Remembering(nn.Module):
    """Counts its passes, keeps what it saw in every way there is, and swaps a part of itself."""

    def __init__(self):
        super().__init__()
        self.body, self.part = zoo.HandWritten("fused"), nn.Linear(2, 2)
        self.passes, self.memory, self.seen, self.recent = (
            0,
            torch.zeros(3),
            [torch.zeros(2)],
            deque([1, 2], maxlen=2),
        )
        self.array = np.zeros(3)
        self.table, self.tags = {"inner": {"count": 0}}, {"a"}
        self.config = transformers.PretrainedConfig(note=1)

    def forward(self, tokens):
        self.passes += 1
        self.memory += 1
        self.array += 1
        self.seen.append(torch.ones(2))
        self.seen[0].fill_(7)
        self.recent.append(self.passes)
        self.table["inner"]["count"] += 1
        self.tags.add("b")
        self.config.note = self.fresh = 2
        self.part = nn.Conv1d(1, 1, 1)
        self.extra = nn.Dropout()
        return self.body(tokens)


def test_attributes_containers_and_parts_are_put_back_with_their_identity():
    model = Remembering().train()
    before, held = (
        state(model),
        (model.memory, model.seen, model.part, model.table["inner"], model.array),
    )
    with undisturbed(model):
        model(zoo.ids())
        model(zoo.ids())
    assert state(model) == before
    assert all(
        one is other
        for one, other in zip(
            held,
            (model.memory, model.seen, model.part, model.table["inner"], model.array),
            strict=True,
        )
    )
    assert model.memory.tolist() == model.array.tolist() == [0, 0, 0]
    assert model.config.note == 1
    assert not hasattr(model, "fresh")
    assert all(module.training for module in model.modules())


def test_a_look_leaves_the_seed_of_an_accelerator_that_has_not_started(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    torch.manual_seed(7)
    with undisturbed(zoo.HandWritten("fused")):
        drawn = torch.rand(3)
    with undisturbed(zoo.HandWritten("fused")):
        assert torch.equal(torch.rand(3), drawn)
    assert seeds == [7]


def test_a_model_whose_capacity_a_pass_in_evaluation_changes_trains_as_unwatched():
    class Capacity(zoo.HandWritten):
        capacity = 1.0

        def forward(self, tokens, mask=None):
            if not self.training:
                self.capacity = self.capacity / 2  # as NLLB-MoE sets the capacity of its experts
            return self.capacity * super().forward(tokens, mask)

    def loss(watched):
        torch.manual_seed(0)
        model = Capacity("fused").train()
        if watched:
            zoo.watched(model, zoo.ids())
        torch.manual_seed(1)
        return model(zoo.ids()).square().mean().item()

    assert loss(True) == loss(False)


def test_big_bird_pegasus_keeps_its_sparse_attention():
    config = transformers.BigBirdPegasusConfig(
        vocab_size=zoo.N_VOCAB, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        attention_type="block_sparse", decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20,
        max_position_embeddings=64, block_size=4,
    )  # fmt: skip
    model = transformers.BigBirdPegasusForConditionalGeneration(config).train()
    before, kinds = state(model), [type(module) for module in model.modules()]
    record = zoo.watched(
        model, {"input_ids": zoo.ids(), "decoder_input_ids": zoo.ids()[:, :5]}
    )  # too short for blocks: the pass swaps modules
    assert record.sizes["layer"] == 3
    assert [type(module) for module in model.modules()] == kinds
    assert state(model) == before


@pytest.mark.parametrize("n_sequences", [1, 3])
def test_a_cache_in_the_probe_does_not_grow_and_is_cut_with_the_sequences(n_sequences):
    model = zoo.transformers_case("llama-grouped", "sdpa", None).model.eval()
    text = zoo.ids()[:n_sequences]
    with torch.set_grad_enabled(n_sequences > 1):  # a cache may come with gradients
        cache = model(text[:, :6], use_cache=True).past_key_values
    probe = {"input_ids": text[:, 6:], "past_key_values": cache}
    kept = cache.layers[0].keys.detach().clone()
    with saccade.watch(model, probe) as recorder:
        recorder.observe(0)
        recorder.observe(1)
    assert cache.get_seq_length() == 6
    torch.testing.assert_close(cache.layers[0].keys, kept, rtol=0, atol=0)
    entropy = recorder.record.entropy.values
    np.testing.assert_array_equal(entropy[0], entropy[1])
    exact = copy.deepcopy(model).double()
    exact.set_attn_implementation("eager")
    with torch.no_grad():
        maps = exact(text, output_attentions=True, use_cache=False).attentions
    expected = [-torch.special.xlogy(each, each).sum(-1)[:, :, 6:].mean((0, 2)) for each in maps]
    np.testing.assert_allclose(entropy[0], torch.stack(expected), atol=1e-5)


class Recurrent(nn.Module):
    """Attends to the batch before as well, as Transformer-XL does; `kept` says in what it
    remembers.
    """

    def __init__(self, kept=lambda memory: memory):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(zoo.N_VOCAB, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.memory, self.kept, self.temperature = None, kept, torch.ones(1, 1)

    def forward(self, tokens):
        x = self.table(tokens) * self.temperature
        before = (
            []
            if self.memory is None
            else [self.memory[0] if isinstance(self.memory, list) else self.memory]
        )
        keys = torch.cat([*before, x], dim=1)
        self.memory = self.kept(x.detach())
        return self.attention(x, keys, keys)[0]


@pytest.mark.parametrize(
    "kept", [lambda memory: memory, lambda memory: [memory]], ids=["tensor", "list"]
)
def test_memories_of_another_batch_are_left_out_of_a_look_and_are_there_after_it(kept, capsys):
    model, alone = Recurrent(kept), Recurrent()
    with saccade.watch(model, zoo.ids(), weights=False) as recorder:
        recorder.step(0)
        for step in (1, 2):
            model(torch.zeros(8, 5, dtype=torch.long))
            model.temperature.fill_(3)  # no memory: its shape is what it was
            held = model.memory
            recorder.step(step)
            assert model.memory is held
    alone.temperature.fill_(3)
    expected = alone.attention(*[alone.table(zoo.ids()) * 3] * 3, average_attn_weights=False)[1]
    entropy = -torch.special.xlogy(expected, expected).sum(-1).mean((0, 2))
    assert recorder.record.time.values.tolist() == [0, 1, 2]
    np.testing.assert_allclose(
        recorder.record.entropy.values[1:, 0], entropy.detach().expand(2, -1), rtol=1e-5
    )
    assert capsys.readouterr().err.count("training has left in `memory`") == 1


@pytest.mark.parametrize("n_trained", [3, 8])
def test_memories_from_before_watching_are_named_where_the_probe_does_not_fit_them(n_trained):
    model = nn.Sequential(Recurrent())
    model(torch.zeros(n_trained, 5, dtype=torch.long))
    with pytest.raises(
        (saccade.InputError, UnfaithfulError), match=rf"`0\.memory` of shape \({n_trained}, 5, 8\)"
    ):
        saccade.watch(model, zoo.ids()).__enter__()
