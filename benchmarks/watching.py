"""What watching costs: one look against one forward pass, extra memory on twelve layers and heads of 1024 tokens, memory of closing
a run, and time in the training of a small GPT.

Memory is that of a process which looks once, self-check included, less that of one which only runs the probe, as often as watching
does (to try it, to check it, to look), since an allocator keeps more after several passes: the most of three processes less the
least of three. Beside it, what all attention maps would take. Time is of 300 steps, a look every 100, with no budget to thin them.
Beside it, the same statistics of attention taken the plain way, from all maps that an eager model returns. A look and a forward
pass are compared by processor time in one process, one after the other. Closing writes the record of looks of 144 heads and 128
tokens: its peak is that of Python's own memory, above what is held before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import fresh_process, publish

LAYERS, HEADS, LENGTH, BATCH = 12, 12, 1024, 4
MEMORY_BAR, TIME_BAR, RATIO_BAR = 0.05, 0.02, 3.0
LOOKS = (25, 100)  # of runs that are closed
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
    forward, look = fresh_process("from benchmarks.watching import compared; answer = compared()").answer
    rows = [{"what": "one look", "forward (s)": forward, "look (s)": look, "ratio": look / forward, "bar": RATIO_BAR}]
    publish("watching_look", f"{LAYERS} layers, {HEADS} heads, {LENGTH} tokens, one sequence, processor time", rows)
    rows = [
        {"looks": n, "extra (MB)": fresh_process(f"from benchmarks.watching import closed; answer = closed({n})").answer}
        for n in LOOKS
    ]
    publish("watching_close", f"peak memory of closing a run of {LAYERS} layers, {HEADS} heads, 128 tokens", rows)
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


def compared() -> tuple[float, float]:
    """Processor seconds of a forward pass, the least of two, and of all that a look does but weights, taken more rarely."""
    import torch

    from saccade.observe.look import look
    from saccade.observe.probe import LayerTokens, Probe, RepeatedProbe
    from saccade.observe.token_statistics import TokenStatistics

    model, ids = _large()
    probe = Probe(ids[:1])
    tokens = LayerTokens(model, probe, TokenStatistics.count(probe.documents(), probe_ids=probe.all_ids()))
    model.eval()

    def forward() -> None:
        with torch.no_grad():
            model(ids[:1], use_cache=False)

    forward()
    before = _seconds(forward)
    looked = _seconds(lambda: look(model, probe, tokens, [0], RepeatedProbe.of(probe)))
    return min(before, _seconds(forward)), looked


def _seconds(run: Callable[[], Any]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def closed(n_looks: int) -> float:
    """Megabytes at the peak of closing a run, above what is held before."""
    import tempfile
    import tracemalloc

    import numpy as np

    from saccade.observe.watched_variables import AXES, DEFINITIONS
    from saccade.records.observation_log import ObservationLog
    from saccade.records.store import save_record
    from saccade.report.watched_files import write_watched

    rng = np.random.default_rng(0)
    heads = {name: rng.random((LAYERS, HEADS)) for name in ("entropy", "relative_entropy", "sink_mass", "moved")}
    definitions = {name: list(DEFINITIONS[name]) for name in DEFINITIONS}
    config = {"task": "made up", "thinned": []}
    about = {"config": config, "axes": dict(AXES), "coords": {}, "definitions": definitions, "wall_time_s": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        log = ObservationLog(folder, about)
        for step in range(n_looks):
            maps = np.tril(rng.random((1, LAYERS, HEADS, 128, 128), np.float32))
            log.append(step, heads | {"attention_map": maps})
            log.save()
        tracemalloc.start()  # not the peak of the process, to which the system adds pages of files that it may take back
        record = log.record()
        save_record(record, Path(folder) / "record.zarr")
        write_watched(Path(folder), record)
        return tracemalloc.get_traced_memory()[1] / 1e6


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
