"""Watch a hand-written GPT train and see why its loss falls: a head learns to look at the token
before the last.

In the data the next token is, nine times in ten, one more than the token before the last, so a
model that does not look back can only guess. The training loop is an ordinary one; Saccade adds the
`with` block and one line in it. Needs `pip install '.[torch]'`.
"""

import math
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

import saccade

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
torch.set_num_threads(1)  # so small a model loses more by sharing its work than it gains
n_vocab, length, width, n_heads = 17, 24, 32, 2


# %% A GPT as one writes it: attention through `scaled_dot_product_attention`, nothing of Saccade in
# it.
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n_head = n_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (n_heads, -1)).transpose(1, 2)
            for part in self.c_attn(self.norm_1(x)).chunk(3, dim=-1)
        )
        x = x + self.c_proj(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        )
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, n_layers=1):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(n_vocab, width), nn.Embedding(length, width)
        self.blocks, self.head = (
            nn.Sequential(*(Block() for _ in range(n_layers))),
            nn.Linear(width, n_vocab),
        )

    def forward(self, tokens):
        return self.head(self.blocks(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]))


# %% The data: with chance .9 a token is one more than the token two places before it, else any.
data = torch.randint(n_vocab, (20_000, length + 1))
for i in range(2, length + 1):
    data[:, i] = torch.where(
        torch.rand(len(data)) < 0.9, (data[:, i - 2] + 1) % n_vocab, data[:, i]
    )

# %% The loop, watched: the model trains as it would without. The probe is data that it never learns
# from.
model, steps = GPT(), 100 if small else 600
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
with saccade.watch(
    model, data[:32, :-1], text=data[32:2000], every=steps // 20, budget=None
) as recorder:
    for step in range(steps):
        tokens = data[torch.randint(32, len(data), (32,))]
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        recorder.step(step, loss=loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

# %% `previous_mass` of a head is the attention of a query on the position before it: 1 is a
# previous-token head.
record = recorder.record
looks = record.previous_mass.max(("layer", "head")).sel(time=record.time < steps)
loss = record.loss.sel(time=looks.time)
right, wrong = (
    0.9 + 0.1 / n_vocab,
    0.1 / n_vocab,
)  # chances of the token that the law names, and of each other one
guessing, best = math.log(n_vocab), -right * math.log(right) - (1 - right) * math.log(wrong)
print(
    f"attention on the token before: {float(looks[0]):.2f} at first, {float(looks[-1]):.2f} in the end"
)
print(
    f"loss: {float(loss[0]):.2f} at first, {float(loss[-3:].mean()):.2f} in the end; guessing {guessing:.2f}, best {best:.2f}"
)
assert looks[0] < 0.2
assert looks[-1] > 0.7
assert loss[-3:].mean() < (guessing + best) / 2, "it must have learnt"
assert (looks[loss.values < (guessing + best) / 2] > 0.4).all(), "and at no look without the head"
assert (loss[looks.values < 0.2] > 0.8 * guessing).all()

# %% Loss and head side by side.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(loss.time, loss / guessing, label="loss, over that of guessing")
axes.plot(looks.time, looks, "--", label="attention of the best head on the token before")
axes.set(xlabel="step", ylim=(0, 1.1))
axes.legend()
figure.savefig(out / "watch_nanogpt.png", dpi=150)
