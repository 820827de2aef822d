"""Padding and texts are told by what attention does, whatever arguments and modules are called."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.watching.account import _together  # noqa: E402
from saccade.watching.probe import Probe  # noqa: E402

N_HEADS = 2


class Padded(nn.Module):
    """Attention with a mask of tokens, under a name of its own."""

    def __init__(self, is_causal, written_out):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.mixed = nn.Embedding(20, 8), nn.Linear(8, 24)
        self.is_causal, self.written_out = is_causal, written_out

    def forward(self, words, kept):
        q, k, v = (
            part.unflatten(-1, (N_HEADS, -1)).transpose(1, 2)
            for part in (4 * self.mixed(self.table(words))).chunk(3, -1)
        )
        n = words.shape[1]
        mask = kept[:, None, None].bool() & (
            torch.ones(n, n, dtype=torch.bool).tril() if self.is_causal else True
        )
        if self.written_out:
            return torch.softmax((q @ k.mT / 2).masked_fill(~mask, -1e9), -1) @ v
        return F.scaled_dot_product_attention(q, k, v, mask.expand(-1, -1, n, -1))


class Inside(Padded):
    """The mask is made from the ids: 0 is padding."""

    def forward(self, words):
        return super().forward(words, words != 0)


def seen(model, probe):
    with saccade.watch(model, probe, weights=False) as recorder:
        recorder.look(0)
    record = recorder.record
    return {
        name: record[name].values
        for name in ("entropy", "relative_entropy", "self_mass", "sink_mass", "previous_mass")
    }


def expected(model, words, kept):
    """Mean entropy of the queries that are tokens (head), in float64, one query at a time."""
    with torch.no_grad():
        q, k, _ = (
            part.unflatten(-1, (N_HEADS, -1)).double().numpy()
            for part in (4 * model.mixed(model.table(words))).chunk(3, -1)
        )
    rows = [[] for _ in range(N_HEADS)]
    for b, h, i in np.ndindex(len(words), N_HEADS, words.shape[1]):
        keys = [j for j in range(words.shape[1]) if kept[b, j] and (j <= i or not model.is_causal)]
        if kept[b, i]:
            weights = np.exp([q[b, i, h] @ k[b, j, h] / 2 for j in keys])
            weights /= weights.sum()
            rows[h].append(-(weights * np.log(weights)).sum())
    return np.array([np.mean(of) for of in rows])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("written_out", [True, False])
def test_padding_is_told_by_attention_whatever_the_mask_is_called(side, is_causal, written_out):
    torch.manual_seed(1)
    words, kept = torch.randint(1, 20, (3, 8)), torch.ones(3, 8, dtype=torch.long)
    kept[1, 5:], kept[2, 3:] = 0, 0
    kept = kept.flip(1) if side == "left" else kept
    words = words * kept
    model = Padded(is_causal, written_out)
    found = [
        seen(model, (words, kept)),
        seen(model, {"words": words, "kept": kept}),
        seen(Inside(is_causal, written_out), words),
    ]
    for each in found:
        np.testing.assert_allclose(each["entropy"][0, 0], expected(model, words, kept), atol=1e-5)
        assert {name: values.tolist() for name, values in each.items()} == {
            name: values.tolist() for name, values in found[0].items()
        }


@pytest.mark.parametrize("says", ["position_ids", "documents"])
def test_documents_of_a_packed_probe_begin_where_they_did_though_attention_tells_its_padding(says):
    document = torch.tensor([[1, 1, 1, 2, 2, 2, 2, 0], [0, 1, 1, 1, 1, 2, 2, 2]])
    starts = torch.tensor([[0, 0, 0, 3, 3, 3, 3, 7], [0, 1, 1, 1, 1, 5, 5, 5]])
    words = torch.randint(1, 20, (2, 8))
    probe = (
        Probe({"words": words, "position_ids": torch.arange(8) - starts})
        if says == "position_ids"
        else Probe((words, words), documents=document)
    )
    known = probe.with_tokens(document > 0).tokens(None)
    assert torch.equal(known.is_token, document > 0)
    assert torch.equal(known.document_start[document > 0], starts[document > 0])


def test_what_a_model_is_to_say_is_no_second_text():
    class Learns(Inside):
        def forward(self, words, targets=None):
            made = super().forward(words).transpose(1, 2).flatten(2)
            return (
                made
                if targets is None
                else F.cross_entropy(made.flatten(0, 1), targets.flatten() % 8, ignore_index=7)
            )

    model, words = Learns(True, False), torch.randint(1, 20, (3, 8))
    targets = words.roll(-1, 1).index_fill(1, torch.tensor([2, 7]), -1)
    found = [
        seen(model, probe)
        for probe in (words, (words, targets), {"words": words, "targets": targets})
    ]
    for name, values in found[0].items():
        for other in found[1:]:
            np.testing.assert_array_equal(other[name], values)


def test_attention_that_is_not_a_number_is_missing_and_not_collapsed():
    model, words = Inside(True, False), torch.randint(1, 20, (2, 8))
    with saccade.watch(model, words, weights=False) as recorder:
        recorder.look(0)
        with torch.no_grad():
            model.mixed.weight.fill_(torch.nan)
        recorder.look(5)
    assert np.isnan(recorder.record.entropy.values[1]).all()
    told = saccade.timeline(recorder.record).sentences
    assert told[0] == "From step 5 on attention is not a number in any head: the run has diverged."
    assert "Nothing collapsed." in told


class FixedLags(nn.Module):
    """Head n looks back by n positions, the last one to what came after the last occurrence before;
    both to themselves if there is none.
    """

    def __init__(self, n_lags, takes=()):
        super().__init__()
        self.table, self.n_lags, self.takes = nn.Embedding(64, 4), n_lags, takes

    def forward(self, words):
        if self.takes and len(words) not in self.takes:
            raise ValueError(f"takes {self.takes} sequences only")
        n = words.shape[1]
        places, visible = torch.arange(n), torch.ones(n, n, dtype=torch.bool).tril()
        keys = torch.stack(
            [torch.where(places >= lag, places - lag, places) for lag in range(self.n_lags)]
        )
        fixed = F.one_hot(keys, n).expand(len(words), -1, -1, -1)
        follows = (
            (words[:, :, None] == words.roll(1, 1)[:, None])
            & (places[:, None] >= places)
            & (places > 0)
        )
        last = torch.where(follows.any(-1), (follows * (places + 1)).argmax(-1), places)
        weights = torch.cat([fixed, F.one_hot(last, n)[:, None]], 1).float()
        return (
            saccade.mark_attention(weights, visible.expand_as(weights)) @ self.table(words)[:, None]
        )


@pytest.mark.parametrize("n_sequences", [1, 2, 8])
@pytest.mark.parametrize(("length", "n_words"), [(24, 50), (64, 50), (10, 50), (24, 5), (64, 6)])
def test_no_head_that_looks_back_by_a_fixed_number_is_called_an_induction_head(
    n_sequences, length, n_words
):
    words = torch.arange(n_sequences * length).reshape(n_sequences, length) * 7 % n_words
    n_lags = length // 2 + 1
    with saccade.watch(FixedLags(n_lags), words, weights=False) as recorder:
        recorder.look(0)
    timeline = saccade.timeline(recorder.record)
    assert {event.head for event in timeline.events if event.name == "induction"} == {n_lags}


@pytest.mark.parametrize(
    ("takes", "length", "n_words"), [((1,), 24, 50), ((), 24, 4), ((), 8, 50), ((), 9, 50)]
)
def test_where_the_two_cannot_be_told_apart_induction_is_not_measured_and_that_is_said(
    takes, length, n_words, capsys
):
    words = torch.arange(length)[None] % n_words
    with saccade.watch(FixedLags(4, takes), words, weights=False) as recorder:
        recorder.look(0)
    assert "induction_mass" not in recorder.record
    assert (
        "induction_mass, duplicate_mass (texts that repeat after three different periods"
        in capsys.readouterr().err
    )


def test_a_model_that_takes_one_number_of_sequences_is_asked_for_induction_with_as_many():
    """And with one, of which the self-check asks."""
    words = torch.arange(5 * 24).reshape(5, 24) * 7 % 50
    with saccade.watch(FixedLags(13, takes=(1, 5)), words, weights=False) as recorder:
        recorder.look(0)
    assert {
        event.head
        for event in saccade.timeline(recorder.record).events
        if event.name == "induction"
    } == {13}


def test_layers_that_are_not_seen_for_one_reason_are_named_in_one_warning():
    class Features(nn.Module):
        num_heads = 2

        def __init__(self):
            super().__init__()
            self.mixed = nn.Linear(8, 8)

        def forward(self, x):
            x = self.mixed(x).unflatten(-1, (2, -1)).permute(0, 2, 3, 1)
            return (torch.softmax(x @ x.mT, -1) @ x).permute(0, 3, 1, 2).flatten(2)

    layers = [Features() for _ in range(6)]
    model = nn.Sequential(
        nn.Embedding(20, 8), *layers, nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    )
    with (
        pytest.warns(UserWarning, match="over features") as warned,
        saccade.watch(model, torch.arange(24).reshape(2, 12) % 20) as seen,
    ):
        seen.look(0)
    assert [str(each.message) for each in warned if "over features" in str(each.message)] == [
        "saccade: not seen: attention in `1`, `2`, `3`, `4` and 2 more, which is over features, not over tokens."
    ]


def test_the_model_itself_is_named_as_other_layers_are():
    assert _together(["numbers of ``, of one", "numbers of `a`, of one", "no name"]) == [
        "numbers of ``, `a`, of one",
        "no name",
    ]
    assert _together(["numbers of ``, of one"]) == ["numbers of ``, of one"]


class Registered(nn.Module):
    """A learned token in front of the text; every position attends to itself alone."""

    def __init__(self, n_front):
        super().__init__()
        self.table, self.front = nn.Embedding(50, 8), nn.Parameter(torch.zeros(n_front, 8))

    def forward(self, words):
        x = torch.cat([self.front.expand(len(words), -1, -1), self.table(words)], 1)[:, None]
        own = torch.zeros(2 * x.shape[2:3]).fill_diagonal_(20.0)
        return F.scaled_dot_product_attention(0 * x, 0 * x, x, attn_mask=own)[:, 0]


@pytest.mark.parametrize("n_front", [0, 1])
def test_with_tokens_in_front_of_the_text_no_head_collapses_and_no_word_is_shifted(n_front):
    words = torch.randint(0, 50, (3, 17), generator=torch.Generator().manual_seed(1))
    with saccade.watch(Registered(n_front), words, weights=False) as recorder:
        recorder.look(0)
    story = str(saccade.timeline(recorder.record))
    shown = json.loads(recorder.record.config).get("map_tokens")
    if n_front:
        assert "first token, previous token, duplicate, induction, own token" in story
        assert "collapsed is not known" in story
        assert shown is None
    else:
        assert "looks at its own token" in story
        assert shown == words[:1].tolist()
