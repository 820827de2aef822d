"""Narrow types, kernels that differ between parts, padding in models with two texts, labels: what
decided wrongly before.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.report.sources import results_of  # noqa: E402
from saccade.watching import self_check as check_module  # noqa: E402
from saccade.watching.self_check import UnfaithfulError  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402
from tests.watching.dense_statistics import dense_statistics  # noqa: E402

TINY = {
    "vocab_size": zoo.N_VOCAB,
    "d_model": 16,
    "decoder_layers": 2,
    "encoder_layers": 2,
    "max_position_embeddings": 32,
}
HEADS = {
    "decoder_attention_heads": 2,
    "encoder_attention_heads": 2,
    "decoder_ffn_dim": 20,
    "encoder_ffn_dim": 20,
}


@pytest.mark.parametrize("family", ["gpt2", "llama-grouped", "bert"])
@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_bfloat16_models_are_watched_and_the_kernels_output_decides(family, kernel):
    case = zoo.transformers_case(family, kernel, None, torch.bfloat16)
    with saccade.watch(case.model, case.probe) as recorder:
        recorder.observe(0)
    assert recorder.check.eager is None  # it rounds its weights
    assert recorder.check.output <= 1e-3


def test_where_the_output_is_reproduced_other_returned_weights_do_not_refuse_a_model(
    monkeypatch, capsys
):
    case = zoo.transformers_case("gpt2", "sdpa", None)
    real = check_module.returned_weights
    monkeypatch.setattr(
        check_module,
        "returned_weights",
        lambda answer: [weights.flip(-1) for weights in real(answer)],
    )
    with saccade.watch(case.model, case.probe) as recorder:
        recorder.observe(0)
    assert recorder.check.eager > 1e-3
    assert "weights that this model returns differ" in capsys.readouterr().err
    monkeypatch.setattr("saccade.watching.kernels.relative_error", lambda ours, made: 0.5)
    with pytest.raises(UnfaithfulError):
        saccade.watch(case.model, case.probe).__enter__()


def test_after_the_check_every_part_has_the_kernel_it_had():
    model = zoo.transformers_case("gpt2", "sdpa", None).model
    model.transformer.config = copy.deepcopy(model.config)
    model.transformer.config._attn_implementation = "eager"
    configurations = model.config, model.transformer.config
    before = [dict(vars(config)) for config in configurations]
    with saccade.watch(model, zoo.ids()) as recorder:
        recorder.observe(0)
    assert recorder.check.eager is not None, "the eager weights were asked for"
    assert [dict(vars(config)) for config in configurations] == before
    assert [config._attn_implementation for config in configurations] == ["sdpa", "eager"]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_queries_of_a_decoder_cut_out_of_an_encoder_decoder_do_not_count(side):
    torch.manual_seed(0)
    model = transformers.BartForCausalLM(
        transformers.BartConfig(**TINY, **HEADS, attn_implementation="sdpa")
    ).eval()
    mask = zoo.padding(side)
    record = zoo.watched(model, {"input_ids": zoo.ids(), "attention_mask": mask})
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model.double()(
            zoo.ids(), attention_mask=mask, output_attentions=True, use_cache=False
        ).attentions
    start = mask.argmax(dim=1, keepdim=True).expand_as(mask)
    for layer, weights in enumerate(maps):
        expected = dense_statistics(weights.numpy(), mask.bool().numpy(), start.numpy())
        for name in ("entropy", "top_mass", "sink_mass"):
            np.testing.assert_allclose(record[name][0, layer], expected[name], atol=1e-5)


class TwoTexts(nn.Module):
    """An encoder and a decoder under names of their own."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(zoo.N_VOCAB, 8)
        self.enc, self.dec, self.mix = (nn.Linear(8, 8) for _ in range(3))

    @staticmethod
    def attend(layer, queries, keys, mask=None):
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2) for part in (layer(queries), keys, keys)
        )
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)

    def forward(self, src, tgt):
        read = self.attend(self.enc, self.table(src), self.table(src), (src >= 2)[:, None, None])
        made = self.attend(self.dec, self.table(tgt), self.table(tgt), (tgt >= 2)[:, None, None])
        return self.attend(self.mix, made, read, (src >= 2)[:, None, None])


def test_of_two_texts_each_layer_has_its_own_by_length_or_by_what_a_shorter_second_one_changes():
    texts = zoo.ids().clamp_min(2), zoo.ids().clamp_min(2)[:, :7]
    for second in (texts[1], texts[0].flip(1)):
        record = zoo.watched(TwoTexts(), (texts[0], second))
        self_mass = record.self_mass.isel(time=0).values
        assert np.isfinite(self_mass[:2]).all()
        assert np.isnan(self_mass[2]).all()  # across
        assert np.isfinite(record.sink_mass.values).all()


def test_numbers_of_a_layer_in_which_padding_cannot_be_told_are_left_out_with_a_warning():
    texts = zoo.ids().clamp_min(2), zoo.ids().clamp_min(2).flip(1)
    padded = texts[0].masked_fill(zoo.padding("right") == 0, -1)

    class Clamped(TwoTexts):
        def forward(self, src, tgt):
            assert src.shape == tgt.shape, "texts of one length only"
            return super().forward(src.clamp_min(0), tgt)

    with pytest.warns(UserWarning, match="padding cannot be distinguished"):
        record = zoo.watched(Clamped(), (padded, texts[1]))
    assert "entropy" not in record


def test_a_mask_of_whole_numbers_before_the_text_is_not_taken_for_it():
    class MaskFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = TwoTexts()

        def forward(self, mask, tokens):
            return self.inner.attend(
                self.inner.enc, *(self.inner.table(tokens),) * 2, mask.bool()[:, None, None]
            )

    text = zoo.ids().clamp_min(2)
    with saccade.watch(MaskFirst(), (torch.ones_like(text), text), text=text) as recorder:
        recorder.observe(0)
    assert recorder._probe.ids.equal(text)


def test_a_label_names_a_run_on_pages_and_a_run_is_loaded_by_its_folder(tmp_path):
    for seed in (1, 2):
        zoo.watched(
            zoo.HandWritten("fused"), zoo.ids(), out=tmp_path / f"run-{seed}", label=f"seed {seed}"
        )
    found = results_of([tmp_path / "run-1", tmp_path / "run-2"])
    assert [result.name for result in found] == ["seed 1", "seed 2"]
    assert saccade.load_record(tmp_path / "run-1").equals(
        saccade.load_record(tmp_path / "run-1" / "record.zarr")
    )
    assert saccade.timeline(saccade.load_record(tmp_path / "run-2")).layers


def test_layers_with_different_numbers_of_heads_share_one_axis(tmp_path):
    class Uneven(nn.Module):
        """Two heads over the tokens; then three over one more position, of which nothing is known."""

        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(zoo.N_VOCAB, 12)

        def forward(self, tokens):
            x = self.table(tokens)
            for heads, tokens_in in ((2, x), (3, F.pad(x, (0, 0, 1, 0)))):
                q = tokens_in.unflatten(-1, (heads, -1)).transpose(1, 2)
                made = F.scaled_dot_product_attention(q, q, q, is_causal=True)
            return made

    zoo.watched(Uneven(), zoo.ids(), out=tmp_path / "run")
    record = saccade.load_record(tmp_path / "run")
    assert record.sizes["head"] == 3
    assert np.isfinite(record.entropy.values[0]).sum(axis=-1).tolist() == [2, 3]
    assert np.isfinite(record.sink_mass.values[0]).sum(axis=-1).tolist() == [2, 0]
    assert len(saccade.timeline(record).state(0, 2)) == 1
    assert set(saccade.timeline(record).state(0, 2)) == {""}
    assert (tmp_path / "run" / "report.html").exists()
