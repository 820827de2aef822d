"""Loss and gradients of a model that averages embeddings, against the kernel that every other model
uses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from saccade.engines.text_batches import Batch  # noqa: E402
from saccade.engines.train_text import train_text  # noqa: E402
from saccade.models import token_average  # noqa: E402
from saccade.models.blocked_loss import blocked_cross_entropy  # noqa: E402
from saccade.models.transformer import Transformer, TransformerConfig  # noqa: E402
from tests.engines.text_runs import CORPUS, N_VOCAB  # noqa: E402

AVERAGES = TransformerConfig.focus_and_dilution(N_VOCAB, d_model=7, init_scale=0.5, scaled=False)


@pytest.fixture(params=["compiled", "by PyTorch"], autouse=True)
def _way(request, monkeypatch):
    if request.param == "by PyTorch":
        monkeypatch.setattr(token_average, "compiled", lambda name: None)
    elif token_average.compiled("attend") is None:
        pytest.skip("the C code is not built")


def loss_and_slopes(model, by_hand):
    """Loss of the last positions and its gradients, by hand or by the kernel and automatic
    differentiation.
    """
    ids = torch.randint(0, N_VOCAB, (5, 14), generator=torch.Generator().manual_seed(1))
    batch = Batch(ids[:, :-1], ids[:, 1:])
    model.zero_grad()
    if by_hand:
        loss = model.averaged_loss(batch.ids, batch.following[:, -1])
    else:
        loss = blocked_cross_entropy(
            model(batch.ids, True, True)[:, 0],
            model.unembedding.weight,
            None,
            batch.following[:, -1],
        )
        loss.backward()
    return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


@pytest.mark.parametrize("scaled", [False, True])
def test_loss_and_gradients_are_the_kernels_and_the_gap_is_rounding(scaled):
    gaps = {}
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(2)
        model = Transformer(replace(AVERAGES, scaled=scaled)).to(dtype)
        pairs = list(zip(loss_and_slopes(model, True), loss_and_slopes(model, False), strict=True))
        assert len(pairs) == 5  # and embedding, queries, keys, unembedding
        gaps[dtype] = max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)
    assert gaps[torch.float32] < 1e-4
    assert gaps[torch.float64] < 1e-6 * max(gaps[torch.float32], 1e-7)


def test_a_few_updates_by_hand_are_those_of_the_kernel(monkeypatch):
    def run():
        seen = {}
        settings = {
            "steps": 5,
            "batch": 6,
            "context": 11,
            "optimiser": "adam",
            "lr": 0.02,
            "loss": "last",
            "every": [5],
        }

        def weights(model, step):
            return (
                seen.update({name: value.clone() for name, value in model.state_dict().items()})
                or {}
            )

        record = train_text(
            CORPUS, model=AVERAGES, **settings, measures=weights, watch=False, evaluate=0
        )
        return record.loss.values, seen

    by_hand = run()
    monkeypatch.setattr(TransformerConfig, "averages_tokens", False)
    by_kernel = run()
    np.testing.assert_allclose(by_hand[0], by_kernel[0], rtol=1e-6)
    for name, value in by_kernel[1].items():
        torch.testing.assert_close(by_hand[1][name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"residual": True},
        {"positions": "learned"},
        {"values": True},
        {"norm": "unit"},
        {"d_mlp": 3},
        {"tied": True},
    ],
)
def test_any_other_model_goes_through_the_kernel(change):
    assert AVERAGES.averages_tokens
    assert not replace(AVERAGES, **change).averages_tokens
