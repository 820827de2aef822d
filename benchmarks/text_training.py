"""Training on text with the recorder on, against the same model in a plain PyTorch loop with whole
logits, at the paper's sizes.

28,782 words, width 200, batches of 20 x 35 tokens, plain SGD with clipping, one layer as in Fig. 7
of [tian2023]. Memory is the peak of a process that trains, less what was resident in it before,
after both ways had trained on a hundred words: libraries are left out; parameters, gradients, what
malloc keeps back and what looking takes are in. Whole logits are larger than anything malloc keeps
for later (32 MB), so the plain loop gives them back at every step. Speed is measured in one
process, in turns, so that a slow minute of the machine falls on both.
"""

from __future__ import annotations

import resource
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.measuring import fresh_process, interleaved, median, publish

N_VOCAB, FEW_WORDS, BATCH, CONTEXT = 28_782, 101, 20, 35
STEPS, REPEATS = 30, 2  # a run's fixed cost, self-check and record, weighs little then
STEPS_TO_PEAK = 8
SPEED_BAR, MEMORY_BAR = 1.0, 0.5
WAYS = {
    "plain_loop": "plain loop, whole logits",
    "watched_loop": "train_text, recorder on, 2 % of the time",
    "every_look": "train_text, recorder on, every look made",
}


def main() -> None:
    speed = fresh_process("from benchmarks.text_training import timed; answer = timed()").answer
    extra = {way: _memory(way) for way in WAYS}
    asked = (f"at least {SPEED_BAR}", f"at most {MEMORY_BAR}")
    bars = {"plain_loop": ("", ""), "watched_loop": asked, "every_look": asked}
    rows = [
        {
            "what": what,
            "tokens/s": speed[way],
            "speed": speed[way] / speed["plain_loop"],
            "bar (speed)": bars[way][0],
            "memory (MB)": extra[way] / 1e6,
            "of plain": extra[way] / extra["plain_loop"],
            "bar (of plain)": bars[way][1],
        }
        for way, what in WAYS.items()
    ]
    publish("text_training", f"{N_VOCAB:,} words, width 200, {BATCH} x {CONTEXT} tokens", rows)


def _memory(way: str) -> int:
    """Bytes that one way of training takes at most."""
    process = fresh_process(
        f"from benchmarks import text_training as t; answer = t.resident(); t.{way}({STEPS_TO_PEAK})"
    )
    return process.peak_bytes - process.answer


def resident() -> int:
    """Bytes of a process that has everything loaded and nothing to train."""
    for way in WAYS:
        globals()[way](2, FEW_WORDS)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def timed() -> dict[str, float]:
    """Tokens a second of each way, the median over turns."""
    times = interleaved(
        {way: partial(globals()[way], STEPS) for way in WAYS}, REPEATS, "training on text"
    )
    return {way: STEPS * BATCH * CONTEXT / median(seconds) for way, seconds in times.items()}


def corpus(n_vocab: int) -> Any:
    """Words with the frequencies of a text, Zipf's law."""
    import numpy as np

    chance = 1 / np.arange(1, n_vocab + 1)
    words = (
        np.random.default_rng(0).choice(n_vocab, 100_000, p=chance / chance.sum()).astype(np.uint16)
    )
    return SimpleNamespace(train=words, valid=words[:10_000], n_vocab=n_vocab, name="zipf", hash="")


def every_look(steps: int, n_vocab: int = N_VOCAB) -> None:
    """`train_text` as it is: its log-spaced looks, most of the steps of so short a run, are all
    made.
    """
    watched_loop(steps, n_vocab, budget=None)


def watched_loop(steps: int, n_vocab: int = N_VOCAB, budget: float | None = 0.02) -> None:
    """The same, its looks within the budget that `saccade.watch` has by default: in so short a run
    the first three.
    """
    from saccade.engines.train_text import train_text
    from saccade.models.transformer import TransformerConfig

    train_text(
        corpus(n_vocab),
        model=TransformerConfig.wikitext(n_vocab),
        steps=steps,
        batch=BATCH,
        context=CONTEXT,
        order="stream",
        lr=5.0,
        lr_mlp=10.0,
        clip=0.5,
        budget=budget,
        evaluate=0,
    )


def plain_loop(steps: int, n_vocab: int = N_VOCAB) -> None:
    """The same model, batches and optimiser as anybody would write them."""
    import torch
    import torch.nn.functional as F

    from saccade.models.transformer import Transformer, TransformerConfig

    torch.manual_seed(0)
    model = Transformer(TransformerConfig.wikitext(n_vocab))
    mlp = {id(parameter) for parameter in model.mlp_parameters()}
    groups = [
        {"params": [p for p in model.parameters() if id(p) not in mlp], "lr": 5.0},
        {"params": list(model.mlp_parameters()), "lr": 10.0},
    ]
    optimiser = torch.optim.SGD(groups, fused=True)
    streams = torch.tensor(corpus(n_vocab).train.astype("int64"))[: 100_000 // BATCH * BATCH].view(
        BATCH, -1
    )
    for step in range(steps):
        ids, following = (
            streams[:, step * CONTEXT + shift : (step + 1) * CONTEXT + shift] for shift in (0, 1)
        )
        optimiser.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), following.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()


if __name__ == "__main__":
    main()
