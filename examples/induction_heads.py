"""Induction heads form in a two-layer attention-only model: the timeline names them, the heads they
build on, and the steps.

The second half of every sequence can only be predicted from the first: find where the token came
before, and copy what followed. A head of layer 0 has to look at the previous token, one of layer 1
to use what that one wrote. How long a sequence takes to repeat differs from one to the next, so
that counting positions does not help. Needs `pip install '.[torch]'`.
"""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade

N_VOCAB, LENGTH, WIDTH, HEADS = 32, 32, 64, 2


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        return self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )


class AttentionOnly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(N_VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(3)])
        self.attention = nn.ModuleList([Attention(), Attention()])
        self.head = nn.Linear(WIDTH, N_VOCAB, bias=False)
        for table in (self.embedding, self.position):
            nn.init.normal_(table.weight, std=0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.position.weight[: tokens.shape[1]]
        for norm, attention in zip(self.norms, self.attention, strict=False):
            x = x + attention(norm(x))
        return self.head(self.norms[-1](x))


def repeated(generator: torch.Generator, n: int) -> Tensor:
    """Random tokens (sequence, position) that begin again after a quarter to a half of the length."""
    period = torch.randint(LENGTH // 4, LENGTH // 2 + 1, (n, 1), generator=generator)
    tokens = torch.randint(N_VOCAB, (n, LENGTH), generator=generator)
    return tokens.gather(1, torch.arange(LENGTH).expand(n, -1) % period)


def trained(n_steps: int = 300, out: str | None = None, on_step=lambda step, model: None):
    """A model watched while it learns; `on_step` is called before each update."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model, probe = AttentionOnly(), repeated(generator, 8)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    names = {"qkv": "qkv", "o": "out", "heads": HEADS}
    with saccade.watch(model, probe, out=out, budget=None, weights=names) as recorder:
        for step in range(n_steps):
            batch = repeated(generator, 48)
            half = LENGTH // 2  # before it nothing can be known
            loss = F.cross_entropy(
                model(batch[:, :-1])[:, half:].flatten(0, 1), batch[:, half + 1 :].flatten()
            )
            recorder.step(step, loss)
            on_step(step, model)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        on_step(n_steps, model)
    return recorder.record


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = (
        None if "--small" in sys.argv else "results/examples/induction_heads"
    )  # with a page that draws the timeline
    timeline = saccade.timeline(trained(160 if "--small" in sys.argv else 400, folder))
    print(timeline)
    found = {(event.layer, event.name) for event in timeline.events}
    assert {(0, "previous token"), (1, "induction")} <= found
    assert not {(1, "previous token"), (0, "induction")} & found
