"""Models and loops that are not as tidy as one would wish: what is watched of them, what is left as it was, and what is said."""

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
from saccade.observe.self_check import UnfaithfulError  # noqa: E402
from saccade.observe.undisturbed import undisturbed  # noqa: E402
from tests.observe import model_zoo as zoo  # noqa: E402
from tests.observe.test_recorder import WithFirstToken  # noqa: E402


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
    """A pass replaces one buffer, fills another that was None, makes a third and writes a fourth in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positions", torch.arange(3))
        self.register_buffer("empty", None)
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
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


class Folded(nn.Module):
    """Sequences and heads in one axis; heads first if told so."""

    def __init__(self, heads_first: bool) -> None:
        super().__init__()
        self.heads_first, self.embedding = heads_first, nn.Embedding(zoo.N_VOCAB, zoo.WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        heads = self.embedding(tokens).unflatten(-1, (zoo.HEADS, -1)).permute(2, 0, 1, 3)
        folded = (heads if self.heads_first else heads.transpose(0, 1)).flatten(0, 1)
        return torch.bmm(torch.softmax(0.1 * torch.bmm(folded, folded.mT), dim=-1), folded)


def test_heads_folded_before_sequences_are_refused_unless_there_is_one_sequence():
    model = Folded(heads_first=True)
    with pytest.raises(UnfaithfulError, match="heads first"), saccade.watch(model, zoo.ids()):
        pass
    usual = Folded(heads_first=False)
    usual.load_state_dict(model.state_dict())
    found = []
    for each in (model, usual):
        with saccade.watch(each, zoo.ids()[:1]) as recorder:
            recorder.observe(0)
        found.append(recorder.record.entropy.values)
    np.testing.assert_array_equal(found[0], found[1])
    with saccade.watch(usual, zoo.ids()) as recorder:
        recorder.observe(0)
    assert recorder.record.sizes["head"] == zoo.HEADS


def losses(watched: bool) -> list[float]:
    """A short run of a Transformers model with gradient checkpointing."""
    torch.manual_seed(3)
    model = copy.deepcopy(zoo.transformers_case("gpt2", "sdpa", None).model)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    recorder = saccade.watch(model, zoo.ids(), every=1, budget=None).__enter__() if watched else None
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
    with saccade.watch(zoo.HandWritten("fused"), zoo.ids(), every=1, budget=None) as recorder:
        recorder.step(7)
        with pytest.warns(UserWarning, match="step 0 after step 7"):
            recorder.step(0)
        recorder.step(8)
    assert recorder.record.time.values.tolist() == [7, 8]


def test_what_a_probe_cannot_tell_is_said(capsys):
    with saccade.watch(zoo.HandWritten("fused"), zoo.ids()) as recorder:
        recorder.observe(0)
    assert float(recorder.record.judged_mass.max()) < 0.5
    assert "give more of it as `text`" in capsys.readouterr().err
    text = np.tile(zoo.ids().numpy(), (1, 400))
    with saccade.watch(zoo.HandWritten("fused"), zoo.ids(), text=text) as recorder:
        recorder.observe(0)
    assert float(recorder.record.judged_mass.min()) > 0.5
    assert "`text`" not in capsys.readouterr().err


def test_statistics_that_need_tokens_are_named_where_attention_is_not_over_them(capsys):
    with saccade.watch(WithFirstToken("fused"), zoo.ids()) as recorder:
        recorder.observe(0)
    untold = json.loads(recorder.record.attrs["config"])["untold"]
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
        saccade.watch(zoo.HandWritten("fused"), zoo.ids(), **settings)


@pytest.mark.parametrize(
    "probe", [{"tokens": zoo.ids(), "colour": 3}, zoo.ids() + zoo.N_VOCAB, (zoo.ids(), zoo.ids(), zoo.ids())], ids=str
)
def test_a_probe_that_the_model_cannot_take_is_a_sentence_before_training(probe):
    with pytest.raises(InputError, match="cannot be called with this probe"), saccade.watch(zoo.HandWritten("fused"), probe):
        pass


def test_an_empty_probe_and_a_loss_that_is_no_number_are_named():
    with pytest.raises(InputError, match="empty"):
        saccade.watch(zoo.HandWritten("fused"), zoo.ids()[:0])
    with saccade.watch(zoo.HandWritten("fused"), zoo.ids()) as recorder, pytest.raises(InputError, match="`loss`"):
        recorder.step(0, loss="low")
