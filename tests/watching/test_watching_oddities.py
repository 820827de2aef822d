"""Models and loops that are not as tidy as one would wish: what is watched of them, what is left as
it was, and what is said.
"""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from saccade.watching.self_check import UnfaithfulError  # noqa: E402
from saccade.watching.undisturbed import undisturbed  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402
from tests.watching.test_recorder import WithFirstToken  # noqa: E402


class Growing(zoo.HandWritten):
    """Skips its second block until it is told to use it."""

    is_deep = False

    def forward(self, tokens, mask=None):
        blocks = self.blocks
        try:
            self.blocks = blocks if self.is_deep else blocks[:1]
            return super().forward(tokens, mask)
        finally:
            self.blocks = blocks


def test_a_layer_that_comes_later_has_a_place_and_is_missing_before():
    model = Growing("fused")
    with saccade.watch(model, zoo.ids(), budget=None) as recorder:
        recorder.observe(0)
        model.is_deep = True
        recorder.observe(1)
        model.is_deep = False
        recorder.observe(2)
    entropy = recorder.record.entropy
    assert entropy.layer.values.tolist() == ["blocks.0", "blocks.1"]
    assert entropy.isel(layer=1).isnull().all("head").values.tolist() == [True, False, True]
    assert entropy.isel(layer=0).notnull().all()


class Cached(nn.Module):
    """A pass replaces one buffer, fills another that was None, makes a third and writes a fourth in
    place.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("positions", torch.arange(3))
        self.register_buffer("empty", None)
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x):
        self.positions = torch.arange(x.shape[1])
        self.empty = torch.ones(5)
        self.register_buffer("made", torch.ones(1))
        self.count += 1
        return x


def test_buffers_are_put_back_whatever_a_pass_does_to_them():
    model = Cached()
    held = model.count
    with undisturbed(model):
        model(torch.zeros(2, 7))
    assert model.positions.tolist() == [0, 1, 2]
    assert model.empty is None
    assert "made" not in dict(model.named_buffers())
    assert model.count is held
    assert held.tolist() == [0, 0]


class Folded(zoo.Heads):
    """Sequences and heads in one axis; heads first if told so."""

    def __init__(self, heads_first):
        super().__init__()
        self.heads_first = heads_first

    def forward(self, tokens):
        heads = self.heads(tokens)
        folded = (heads.transpose(0, 1) if self.heads_first else heads).flatten(0, 1)
        return torch.bmm(torch.softmax(0.1 * torch.bmm(folded, folded.mT), dim=-1), folded)


def test_heads_folded_before_sequences_are_refused_unless_there_is_one_sequence():
    model = Folded(heads_first=True)
    with (
        pytest.raises(UnfaithfulError, match="heads before sequences"),
        saccade.watch(model, zoo.ids()),
    ):
        pass
    usual = Folded(heads_first=False)
    usual.load_state_dict(model.state_dict())
    found = []
    for each in (model, usual):
        record = zoo.watched(each, zoo.ids()[:1])
        found.append(record.entropy.values)
    np.testing.assert_array_equal(found[0], found[1])
    record = zoo.watched(usual, zoo.ids())
    assert record.sizes["head"] == zoo.HEADS


def losses(watched):
    """A short run of a Transformers model with gradient checkpointing."""
    torch.manual_seed(3)
    model = copy.deepcopy(zoo.transformers_case("gpt2", "sdpa", None).model)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    recorder = (
        saccade.watch(model, zoo.ids(), every=1, budget=None).__enter__() if watched else None
    )
    found = []
    for step in range(3):
        if recorder:
            recorder.step(torch.tensor(step), loss=torch.tensor(1.0))
        logits = model(zoo.ids(), use_cache=False).logits
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), zoo.ids()[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def test_gradient_checkpointing_trains_to_the_same_bits():
    assert losses(True) == losses(False)


def test_steps_that_go_back_are_left_out_with_a_warning():
    with zoo.watching(every=1, budget=None) as recorder:
        recorder.step(7)
        with pytest.warns(UserWarning, match="step 0 after step 7"):
            recorder.step(0)
        recorder.step(8)
    assert recorder.record.time.values.tolist() == [7, 8]


def test_what_a_probe_cannot_tell_is_said(capsys):
    record = zoo.watched(zoo.HandWritten("fused"), zoo.ids())
    assert float(record.judged_mass.max()) < 0.5
    assert "give more token ids as `text`" in capsys.readouterr().err
    text = np.tile(zoo.ids().numpy(), (1, 400))
    record = zoo.watched(zoo.HandWritten("fused"), zoo.ids(), text=text)
    assert float(record.judged_mass.min()) > 0.5
    assert "`text`" not in capsys.readouterr().err


def test_statistics_that_need_tokens_are_named_where_attention_is_not_over_them(capsys):
    record = zoo.watched(WithFirstToken("fused"), zoo.ids())
    untold = json.loads(record.attrs["config"])["untold"]
    assert {"sink_mass", "decile_focus", "judged_mass"} <= set(untold)
    assert "entropy" not in untold
    assert ", ".join(untold) in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings, word",
    [
        ({"out": 3}, "`out`"),
        ({"maps": 0}, "`maps`"),
        ({"every": []}, "`every`"),
        ({"text": [1.5, 2.5]}, "`text`"),
        ({"text": []}, "`text`"),
    ],
)
def test_a_mistake_in_the_call_is_named(settings, word):
    with pytest.raises(InputError, match=word):
        zoo.watching(**settings)


@pytest.mark.parametrize(
    "probe",
    [
        {"tokens": zoo.ids(), "colour": 3},
        zoo.ids() + zoo.N_VOCAB,
        (zoo.ids(), zoo.ids(), zoo.ids()),
    ],
    ids=str,
)
def test_a_probe_that_the_model_cannot_take_is_a_sentence_before_training(probe):
    with (
        pytest.raises(InputError, match="cannot be called with this probe"),
        saccade.watch(zoo.HandWritten("fused"), probe),
    ):
        pass


def test_an_empty_probe_is_named():
    with pytest.raises(InputError, match="empty"):
        saccade.watch(zoo.HandWritten("fused"), zoo.ids()[:0])


class MergingAdapter(nn.Module):
    """Adds its update to a weight on `eval()` and takes it off on `train()`, as adapters of low
    rank do.
    """

    def __init__(self):
        super().__init__()
        self.body, self.weight, self.update = (
            zoo.HandWritten("fused"),
            nn.Parameter(torch.ones(3)),
            nn.Parameter(torch.ones(3)),
        )
        self.is_merged = False

    def train(self, mode=True):
        super().train(mode)
        if mode == self.is_merged:
            self.weight.data += -self.update if mode else self.update
            self.is_merged = not mode
        return self

    def forward(self, tokens):
        return self.body(tokens)


def test_modules_that_do_more_in_eval_than_a_mode_are_left_alone():
    model = MergingAdapter().train()
    zoo.watched(model, zoo.ids())
    assert not model.is_merged
    assert model.weight.tolist() == [1, 1, 1]
    assert all(module.training for module in model.modules())


def test_what_is_known_of_tokens_goes_to_the_device_of_the_weights():
    from saccade.watching.attention_call import given_weights
    from saccade.watching.attention_statistics import statistics
    from saccade.watching.probe import Probe
    from saccade.watching.token_statistics import TokenStatistics

    probe = Probe(zoo.ids())
    tokens = probe.tokens(TokenStatistics.count(list(probe.ids.numpy())))
    call = given_weights(
        "softmax", torch.empty(zoo.BATCH, 2, zoo.LENGTH, zoo.LENGTH, device="meta")
    )
    found = statistics(call, tokens)
    assert {value.device.type for value in found.values()} == {"meta"}
    assert {"decile_focus", "judged_mass", "previous_mass"} <= set(found)


def test_movement_is_the_mean_total_variation_of_rows_that_are_in_both_maps():
    from saccade.measures.movement import total_variation

    rows = (
        np.random.default_rng(0).dirichlet(np.ones(5), (2, 1, 3, 2, 4)).astype(np.float32)
    )  # which, sequence, layer, head, query
    before, after = rows[0], rows[1]
    expected = 0.5 * np.abs(after - before).sum(-1).mean(-1)[0]
    np.testing.assert_allclose(total_variation(before, after), expected, rtol=1e-6)
    padded = np.pad(after, [(0, 0), (0, 0), (0, 1), (0, 3), (0, 2)], constant_values=np.nan)
    found = total_variation(before, padded)
    np.testing.assert_allclose(found[:, :2], expected, rtol=1e-6)
    assert np.isnan(found[:, 2]).all()
    one_layer = total_variation(before[:, :1], after)
    np.testing.assert_allclose(one_layer[0], expected[0], rtol=1e-6)
    assert np.isnan(one_layer[1:]).all()


class Sloped(zoo.Heads):
    """Scores fall with distance, so steeply that far keys are lost to rounding; the mask has axes
    (head, query, key).
    """

    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def bias(self, length):
        position = torch.arange(length)
        distance = position[:, None] - position
        per_head = self.slope * torch.arange(1, zoo.HEADS + 1)[:, None, None]
        return torch.where(distance >= 0, -per_head * distance, -torch.inf)

    def forward(self, tokens):
        heads = self.heads(tokens)
        return F.scaled_dot_product_attention(heads, heads, heads, self.bias(tokens.shape[1]))


def test_keys_that_are_visible_but_lost_to_rounding_still_count_as_visible():
    model, tokens = (
        Sloped(1.0),
        torch.randint(0, zoo.N_VOCAB, (2, 256), generator=torch.Generator().manual_seed(0)),
    )
    record = zoo.watched(model, tokens)
    heads = model.heads(tokens).detach().double()
    weights = torch.softmax(heads @ heads.mT / heads.shape[-1] ** 0.5 + model.bias(256), dim=-1)
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    expected = (entropy[..., 1:] / torch.arange(2, 257).double().log()).mean(dim=(0, 2))
    np.testing.assert_allclose(record.relative_entropy[0, 0], expected, atol=1e-5)


class PaddedLate(zoo.Heads):
    """Takes weights of padding away after the softmax: what is seen at the softmax is not what is
    used.
    """

    def forward(self, input_ids, attention_mask):
        x = self.embedding(input_ids)
        return torch.softmax(x @ x.mT, dim=-1).masked_fill(~attention_mask.bool()[:, None], 0.0) @ x


def test_padding_in_any_sequence_is_checked():
    probe = {
        "input_ids": zoo.ids(),
        "attention_mask": zoo.padding("right"),
    }  # none in the first sequence
    with pytest.raises(UnfaithfulError, match="differs"), saccade.watch(PaddedLate(), probe):
        pass


class FoldedKernel(zoo.Heads):
    """Sequences and heads in one axis of the fused kernel, or heads as the first axis of four."""

    def __init__(self, heads_first):
        super().__init__()
        self.heads_first = heads_first

    def forward(self, tokens):
        heads = self.heads(tokens)
        part = heads.transpose(0, 1) if self.heads_first else heads.flatten(0, 1)
        return F.scaled_dot_product_attention(part, part, part, is_causal=True)


def test_heads_are_found_in_a_folded_axis_of_the_fused_kernel():
    record = zoo.watched(FoldedKernel(False), zoo.ids())
    assert record.sizes["head"] == zoo.HEADS
    assert "sink_mass" in record
    square = zoo.ids()[[0, 1, 2, 0]]  # as many sequences as heads: shapes alone tell nothing
    with (
        pytest.raises(UnfaithfulError, match="heads before sequences"),
        saccade.watch(FoldedKernel(True), square),
    ):
        pass


def test_positions_first_is_found_out_and_then_watched():
    layer = nn.TransformerEncoderLayer(zoo.WIDTH, zoo.HEADS, 29, dropout=0.0)
    model = nn.Sequential(
        nn.Embedding(zoo.N_VOCAB, zoo.WIDTH),
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
    )
    turned = zoo.ids().T.contiguous()
    with pytest.raises(InputError, match="batch_axis=1"), saccade.watch(model, turned):
        pass
    record = zoo.watched(model, turned, batch_axis=1)
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.batch_first = True
    for encoder in model[1].layers:
        encoder.self_attn.batch_first = True
    usual = zoo.watched(model, zoo.ids())
    for name in ("entropy", "sink_mass", "decile_focus", "previous_mass"):
        np.testing.assert_allclose(record[name], usual[name], atol=1e-6, err_msg=name)


def test_documents_say_what_is_padding_and_where_a_document_begins():
    from saccade.watching.probe import Probe

    numbers = torch.tensor([[1, 1, 1, 2, 2, 7, 7, 7, 0, 0, 0]] * zoo.BATCH)
    tokens = Probe(zoo.ids(), documents=numbers).tokens(None)
    assert tokens.is_token[0].tolist() == [True] * 8 + [False] * 3
    assert tokens.document_start[0, :8].tolist() == [0, 0, 0, 3, 3, 5, 5, 5]
    with pytest.raises(InputError, match="documents"):
        zoo.watching(documents=numbers[:, :4])


class Bloomed(zoo.Heads):
    """Weights with four axes, folded into three on the way to the product."""

    def forward(self, tokens):
        heads = self.heads(tokens)
        weights = torch.softmax(heads @ heads.mT, dim=-1)
        return torch.bmm(weights.view(-1, *weights.shape[2:]), heads.flatten(0, 1))


def test_weights_that_are_folded_on_the_way_to_the_product_are_followed():
    record = zoo.watched(Bloomed(), zoo.ids())
    assert record.sizes["head"] == zoo.HEADS


def test_writing_and_sending_count_as_looking(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("saccade.watching.budget.time.perf_counter", lambda: clock[0])

    def send(step, values):
        clock[0] += 0.2

    with zoo.watching(every=1, forward=send) as recorder:
        recorder.step(0)
    config = json.loads(recorder.record.attrs["config"])
    assert config["looking_s"] == pytest.approx(0.2)
    assert config["training_s"] == pytest.approx(0)


def test_a_schedule_that_no_step_meets_is_said(capsys):
    recorder = zoo.watching(every=10)
    for step in (3, 7, 13):
        recorder.step(step)
    recorder.close()
    assert "no step was observed" in capsys.readouterr().err


def test_weights_dropped_at_random_are_said_not_to_be_compared(capsys):
    class Dropping(zoo.HandWritten):
        def forward(self, tokens):
            q = self.embedding(tokens).unflatten(2, (zoo.HEADS, -1)).transpose(1, 2)
            return torch.nn.functional.scaled_dot_product_attention(
                q, q, q, dropout_p=0.1, is_causal=True
            )

    with saccade.watch(Dropping("fused"), zoo.ids()) as recorder:
        recorder.step(0)
    assert recorder.check.output is None
    assert "its output not compared: it drops weights at random" in capsys.readouterr().err


def test_a_probe_of_one_axis_is_refused_with_its_shape():
    with pytest.raises(InputError, match=r"one axis, of shape \(11,\).*`probe\[None\]`"):
        saccade.watch(zoo.HandWritten("fused"), zoo.ids()[0])


def test_a_step_that_is_no_number_is_named():
    with zoo.watching() as recorder:
        with pytest.raises(InputError, match="`step` must be a whole number"):
            recorder.look("q")
        with pytest.warns(UserWarning, match="`step` must be a whole number.*training goes on"):
            recorder.observe("q")
        recorder.observe(3)
    assert recorder.record.time.values.tolist() == [3]
