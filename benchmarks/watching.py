"""What watching costs: extra memory on twelve layers and heads of 1024 tokens, and time in the training of a small GPT.

Memory is that of a process which looks once, self-check included, less that of one which only runs the probe, as often as watching
does (to try it, to check it, to look), since an allocator keeps more after several passes: the most of three processes less the
least of three. Beside it, what all attention maps would take. Time is of 300 steps, a look every 100, with no budget to thin them.
Beside it, the same statistics of attention taken the plain way, from all maps that an eager model returns.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measuring import fresh_process, publish

LAYERS, HEADS, LENGTH, BATCH = 12, 12, 1024, 4
MEMORY_BAR, TIME_BAR = 0.05, 0.02
STEPS, EVERY = 300, 100
PASSES = 3
PROCESSES = 3  # of each kind: peaks differ by some 30 MB from one to the next


def main() -> None:
    peaks = {way: [_peak(way) for _ in range(PROCESSES)] for way in ("ran", "watched")}
    least = min(peaks["ran"])
    maps = LAYERS * BATCH * HEADS * LENGTH**2 * 4
    rows = [
        {"what": what, "extra (MB)": extra / 1e6, "of all maps": extra / maps, "bar": bar}
        for what, extra, bar in (
            ("watch, one look", max(peaks["watched"]) - least, MEMORY_BAR),
            ("output_attentions=True", _peak("kept") - least, ""),
            ("all maps, by arithmetic", maps, ""),
        )
    ]
    publish("watching_memory", f"{LAYERS} layers, {HEADS} heads, {LENGTH} tokens, batch {BATCH}", rows)
    looking, naive, training = fresh_process("from benchmarks.watching import timed; answer = timed()").answer
    rows = [
        {"what": "watch", "looking (s)": looking, "training (s)": training, "overhead": looking / training, "bar": TIME_BAR},
        {"what": "output_attentions=True", "looking (s)": naive, "training (s)": training, "overhead": naive / training, "bar": ""},
    ]
    publish("watching_time", f"a small GPT, {STEPS} steps, a look every {EVERY}", rows)


def _peak(way: str) -> int:
    return fresh_process(f"from benchmarks.watching import {way}; {way}()").peak_bytes


def _large(kernel: str = "sdpa") -> tuple[Any, Any]:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=LAYERS, n_head=HEADS, n_positions=LENGTH)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation=kernel)
    model.lm_head = torch.nn.Identity()  # logits of 50,257 words would hide everything else
    return model, torch.randint(0, 50_000, (BATCH, LENGTH))


def ran() -> None:
    import torch
    import xarray  # noqa: F401  # and what else a record needs: modules are not what a look takes

    from saccade.observe import recorder  # noqa: F401

    model, probe = _large()
    with torch.no_grad():
        for _ in range(PASSES):
            model.eval()(probe, use_cache=False)


def watched() -> None:
    import saccade

    model, probe = _large()
    with saccade.watch(model, probe) as recorder:
        recorder.observe(0)


def kept() -> None:
    import torch

    model, probe = _large("eager")
    with torch.no_grad():
        model.eval()(probe, use_cache=False, output_attentions=True)


def timed() -> tuple[float, float, float]:
    """Seconds spent looking in a watched run, taking the same looks the plain way, and training."""
    import torch
    import transformers

    import saccade

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=4, n_head=4, n_embd=128, n_positions=128, vocab_size=512)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    probe = torch.randint(0, 512, (8, 128))
    naive = 0.0
    with saccade.watch(model, probe, every=EVERY, budget=None) as recorder:
        for step in range(STEPS):
            recorder.step(step)
            if step % EVERY == 0:
                naive += _plain_look(model, probe, recorder._tokens.main)
            batch = torch.randint(0, 512, (32, 128))
            loss = model(batch, labels=batch).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    budget = recorder._budget
    return budget.looking, naive, budget.training - naive


def _plain_look(model: Any, probe: Any, tokens: Any) -> float:
    """Seconds for the same statistics of attention, of all maps that an eager model returns."""
    import torch

    from saccade.observe.attention_call import given_weights
    from saccade.observe.attention_statistics import statistics

    started = time.perf_counter()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for weights in model.eval()(probe, output_attentions=True).attentions:
            statistics(given_weights("eager", weights), tokens)
    model.set_attn_implementation("sdpa")
    model.train()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
