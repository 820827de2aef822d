"""The small Transformer against PyTorch's encoder and against the exact models of both papers."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from saccade.errors import InputError  # noqa: E402
from saccade.models.embedded import Embedded, composite, context_attention, context_loss  # noqa: E402
from saccade.models.pairwise import Pairwise, forward, gradients  # noqa: E402
from saccade.models.transformer import Transformer, TransformerConfig  # noqa: E402
from saccade.models.transformer_config import NORMS, POSITIONS  # noqa: E402
from saccade.watching.capture import Capture  # noqa: E402
from tests.agreement.test_counts_and_sequences import (  # noqa: E402
    as_counts,
    drawn_sequences,
    random_parameters,
    uneven_task,
)

N_VOCAB, N_ROWS, N_POSITIONS = 31, 3, 13


def ids(seed=0):
    return torch.randint(
        0, N_VOCAB, (N_ROWS, N_POSITIONS), generator=torch.Generator().manual_seed(seed)
    )


def made(config, scale=0.3):
    """In evaluation mode and float64, with parameters large enough for every part to matter."""
    torch.manual_seed(5)
    model = Transformer(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, scale)
    return model


def named(config):
    """What differs from the defaults."""
    plain = vars(TransformerConfig(N_VOCAB))
    return ",".join(
        f"{name}={value}" for name, value in vars(config).items() if value != plain[name]
    )


ORDINARY = [
    TransformerConfig(
        N_VOCAB, 2, 2, d_model=12, d_mlp=17, positions=p, norm=n, norm_first=first, residual=first
    )
    for p, n, first in itertools.product(POSITIONS, NORMS, (True, False))
]
PAPERS = [
    TransformerConfig.scan_and_snap(N_VOCAB),
    TransformerConfig.focus_and_dilution(N_VOCAB, 11),
    TransformerConfig.wikitext(N_VOCAB, 3),
]
KEYLESS = TransformerConfig(N_VOCAB, 2, 3, d_model=12, query_key=False, positions="alibi")
EVERY = [
    *ORDINARY,
    *PAPERS,
    KEYLESS,
    TransformerConfig(N_VOCAB, d_mlp=0, d_model=6, tied=True, values=False),
]


@pytest.mark.parametrize("config", EVERY, ids=named)
def test_no_position_sees_a_later_token_and_the_last_one_can_be_had_alone(config):
    model, tokens = made(config), ids()
    logits = model(tokens)
    assert logits.shape == (N_ROWS, N_POSITIONS, N_VOCAB)
    torch.testing.assert_close(model(tokens, last_only=True), logits[:, -1:])
    torch.testing.assert_close(model.unembedding(model(tokens, hidden=True)), logits)
    changed = tokens.clone()
    changed[:, 7:] = ids(1)[:, 7:]
    torch.testing.assert_close(model(changed)[:, :7], logits[:, :7])
    assert (model(changed)[:, 7:] - logits[:, 7:]).abs().max() > 1e-6


@pytest.mark.parametrize("config", EVERY, ids=named)
def test_attention_as_told_is_what_the_kernel_used(config):
    model, tokens = made(config), ids()
    seen = []
    with (
        torch.no_grad(),
        Capture(lambda call: seen.append(call.rows(0, N_POSITIONS, torch.float64)), model),
    ):
        model(tokens)
    assert len(seen) == config.n_layers
    for layer, weights in enumerate(seen):
        torch.testing.assert_close(model.attention_of(tokens, layer), weights)
    last = model.attention_of(tokens, config.n_layers - 1, last_only=True)
    torch.testing.assert_close(last, seen[-1][:, :, -1:])


@pytest.mark.parametrize("config", EVERY, ids=named)
def test_groups_of_parameters_share_nothing_and_gradients_are_finite(config):
    model = made(config)
    groups = [
        list(part())
        for part in (model.attention_parameters, model.decoder_parameters, model.mlp_parameters)
    ]
    named = [id(parameter) for group in groups for parameter in group]
    assert len(named) == len(set(named)) <= len(list(model.parameters()))
    F.cross_entropy(model(ids()).flatten(0, 1), ids(2).flatten()).backward()
    assert all(
        parameter.grad is not None and parameter.grad.isfinite().all()
        for parameter in model.parameters()
    )


def test_the_wikitext_setting_is_pytorchs_own_encoder():
    config = TransformerConfig.wikitext(N_VOCAB, 3)
    model, tokens = made(config, 0.1), ids()
    layer = nn.TransformerEncoderLayer(200, 1, 200, dropout=0.3, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).double().eval()
    for theirs, ours in zip(encoder.layers, model.blocks, strict=True):
        attention = ours.attention
        for kind in ("weight", "bias"):
            fused = torch.cat(
                [
                    getattr(part, kind)
                    for part in (attention.q_proj, attention.k_proj, attention.v_proj)
                ]
            )
            getattr(theirs.self_attn, f"in_proj_{kind}").data = fused.data
            pairs = (
                (theirs.self_attn.out_proj, attention.o_proj),
                (theirs.linear1, ours.mlp[0]),
                (theirs.linear2, ours.mlp[3]),
                (theirs.norm1, ours.attention_norm),
                (theirs.norm2, ours.mlp_norm),
            )
            for target, source in pairs:
                getattr(target, kind).data = getattr(source, kind).data
    position = np.arange(N_POSITIONS)[:, None] / 10000 ** (np.arange(0, 200, 2) / 200)
    added = np.stack([np.sin(position), np.cos(position)], axis=-1).reshape(N_POSITIONS, 200)
    x = model.embedding(tokens) * 200**0.5 + torch.tensor(added)
    seen = encoder(
        x,
        mask=nn.Transformer.generate_square_subsequent_mask(N_POSITIONS, dtype=torch.float64),
        is_causal=True,
    )
    torch.testing.assert_close(
        model(tokens), model.unembedding(seen), atol=1e-6, rtol=1e-6
    )  # sinusoids are kept in float32


def test_the_wikitext_setting_starts_as_pytorchs_encoder_does():
    """Bounds of the uniform starts, entry by entry: the largest of many draws lies just below its
    bound.
    """
    model = Transformer(TransformerConfig.wikitext(997))
    theirs = nn.TransformerEncoderLayer(200, 1, 200)
    attention, mlp = model.blocks[0].attention, model.blocks[0].mlp
    q, k, v = theirs.self_attn.in_proj_weight.chunk(3)
    for ours, other in [
        (attention.q_proj.weight, q),
        (attention.k_proj.weight, k),
        (attention.v_proj.weight, v),
        (attention.o_proj.weight, theirs.self_attn.out_proj.weight),
        (mlp[0].weight, theirs.linear1.weight),
        (mlp[3].weight, theirs.linear2.weight),
    ]:
        assert ours.abs().max().item() == pytest.approx(other.abs().max().item(), rel=2e-3)
    for table in (model.embedding.weight, model.unembedding.weight):
        assert 0.0999 < table.abs().max().item() <= 0.1
    assert all(
        part.bias.count_nonzero() == 0
        for part in (attention.q_proj, attention.o_proj, model.unembedding)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"residual": True},
        {"query_key": True},
        {"norm": "none", "residual": True, "query_key": True},
    ],
)
def test_the_scan_and_snap_setting_is_the_pairwise_model(options):
    """Loss and both gradients against the form from token counts, in every option that the two
    share.
    """
    task = uneven_task()
    theirs = Pairwise(
        normalise=options.get("norm", "unit") == "unit",
        residual=options.get("residual", False),
        query_key=options.get("query_key", False),
        init="uniform",
    )
    blocks, parameters, sequences = (
        theirs.blocks(task),
        random_parameters(theirs, task),
        drawn_sequences(task),
    )
    weight = np.full((task.n_classes, 2), 1 / (2 * task.n_classes))
    with jax.enable_x64(True):
        seen = forward(parameters, as_counts(sequences, theirs, task), theirs, blocks)
        downhill = jax.tree.map(np.asarray, gradients(seen, parameters, weight, theirs, blocks))
    model = Transformer(
        TransformerConfig(**(vars(TransformerConfig.scan_and_snap(task.n_vocab)) | options))
    ).double()
    z = model.pairwise_attention.scores.weight
    with torch.no_grad():
        model.unembedding.weight.copy_(torch.tensor(blocks.dense_decoder(*parameters.decoder).T))
        z[torch.tensor(blocks.queries)] = torch.tensor(
            blocks.dense_attention_logits(*parameters.attention)
        )
    rows = [(*s, task.query[n]) for n, pair in enumerate(sequences) for s in pair]
    logits = model(torch.tensor(np.array(rows)), last_only=True)[:, 0]
    np.testing.assert_allclose(
        logits.detach(), np.asarray(seen.logits).reshape(-1, task.n_vocab), atol=1e-10
    )
    F.cross_entropy(logits, torch.tensor(np.repeat(task.next_token, 2))).backward()
    np.testing.assert_allclose(
        model.unembedding.weight.grad.T, -blocks.dense_decoder(*downhill.decoder), atol=1e-10
    )
    np.testing.assert_allclose(
        z.grad[blocks.queries], -blocks.dense_attention_logits(*downhill.attention), atol=1e-10
    )


def test_an_empty_context_gives_no_logits_and_no_gradient_to_the_scores():
    """The first position of the pairwise model has no key: the decoder reads 0, as in the form from
    counts.
    """
    model = made(TransformerConfig.scan_and_snap(N_VOCAB))
    logits = model(ids())
    assert logits[:, 0].abs().max() == 0
    logits[:, 0].sum().backward()
    assert model.pairwise_attention.scores.weight.grad.abs().max() == 0


@pytest.mark.parametrize("scaled", [False, True])
def test_the_focus_and_dilution_setting_is_the_embedded_model(scaled):
    theirs = Embedded(d_model=7, d_key=7, init_scale=0.7, scaled=scaled)
    weights = theirs.initial(N_VOCAB, np.random.default_rng(3))
    tokens, following = ids().numpy(), ids(2).numpy()[:, -1]
    counts = np.stack([np.bincount(row, minlength=N_VOCAB) for row in tokens])
    with jax.enable_x64(True):
        matrices = composite(weights, theirs.phi_scale)
        logits = np.asarray(
            context_attention(matrices.attention_logits, counts, tokens[:, -1]) @ matrices.decoder
        )
        slopes = jax.grad(
            lambda w: context_loss(composite(w, theirs.phi_scale), counts, tokens[:, -1], following)
        )(weights)
    model = Transformer(TransformerConfig.focus_and_dilution(N_VOCAB, 7, scaled=scaled)).double()
    attention = model.blocks[0].attention
    ours = (
        model.embedding.weight,
        attention.q_proj.weight,
        attention.k_proj.weight,
        model.unembedding.weight,
    )
    is_transposed = (False, True, True, True)  # a linear map of PyTorch's has its outputs in rows
    with torch.no_grad():
        for parameter, matrix, turned in zip(ours, weights, is_transposed, strict=True):
            parameter.copy_(torch.tensor(matrix.T if turned else matrix))
    seen = model(ids(), last_only=True)[:, 0]
    np.testing.assert_allclose(seen.detach(), logits, atol=1e-10)
    F.cross_entropy(seen, torch.tensor(following)).backward()
    for parameter, slope, turned in zip(ours, slopes, is_transposed, strict=True):
        np.testing.assert_allclose(
            parameter.grad.T if turned else parameter.grad, slope, atol=1e-10
        )


def test_the_papers_models_start_as_the_papers_say():
    pairwise = Transformer(TransformerConfig.scan_and_snap(N_VOCAB))
    assert all(parameter.count_nonzero() == 0 for parameter in pairwise.parameters())
    embedded = Transformer(TransformerConfig.focus_and_dilution(1999, 64, init_scale=1e-3))
    for parameter in embedded.parameters():
        assert parameter.std().item() == pytest.approx(1e-3, rel=0.05)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"positions": "rotery"}, "rotary"),
        ({"n_heads": 3}, "multiple"),
        ({"d_model": 7, "positions": "sinusoidal"}, "even"),
        ({"d_model": 6, "n_heads": 2, "positions": "rotary"}, "even"),
        ({"dropout": 1.0}, "below 1"),
        ({"pairwise": True}, "scan_and_snap"),
        ({"n_layers": 0}, "n_layers"),
        ({"tied": 1}, "True or False"),
    ],
)
def test_settings_that_make_no_model_get_a_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        TransformerConfig(N_VOCAB, **settings)


def test_a_sequence_longer_than_the_context_gets_a_sentence():
    with pytest.raises(InputError, match="longer"):
        Transformer(TransformerConfig(N_VOCAB, d_model=4, context=5))(ids())
