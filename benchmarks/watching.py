"""What watching costs: one look against one forward pass and how it grows with tokens, extra memory
on twelve layers and heads of 1024 tokens, memory of closing a run, and time in the training of a
small GPT.

Extra memory is the highest that the process reaches while a look computes statistics, above what it
holds at the same place of a plain forward pass: whatever a model needs elsewhere cannot hide it.
Beside it, how far the highest of a whole look is above that of a whole forward pass, by turns in
one process (a model's feed-forward layers may need more than a look does), and what all attention
maps would take. Modules are loaded before, and free memory is handed back before the kernel's
high-water mark is set back (Linux). A look and a forward pass are compared by processor time in one
process, by turns. Closing writes the record of looks of 144 heads and 128 tokens: its peak is that
of Python's own memory, above what is held before. Training is 200 steps, a look every 100, with no
budget to thin them; beside it, the same statistics of attention taken the plain way, from all maps
that an eager model returns.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import fresh_process, median, progress, publish, publish_figure

LAYERS, HEADS, BATCH = 12, 12, 4
LENGTHS = (128, 256, 512, 1024)
N_VOCAB = 1000  # of the large model, whose attention is what costs
MEMORY_BAR, TIME_BAR, RATIO_BAR = 0.05, 0.02, 3.0
LOOKS = (10, 20, 40, 80)  # of runs that are closed
STEPS, EVERY = 200, 100
TURNS = 2  # of a look and a forward pass
MEMORY_TURNS = 2


def main() -> None:
    (extra, beyond), maps = _answer("memory()"), LAYERS * BATCH * HEADS * LENGTHS[-1] ** 2 * 4
    rows = [
        {
            "what": "watch, one look",
            "extra (MB)": extra / 1e6,
            "of all maps": extra / maps,
            "bar": MEMORY_BAR,
        },
        {
            "what": "its peak above that of a forward pass",
            "extra (MB)": beyond / 1e6,
            "of all maps": beyond / maps,
            "bar": "",
        },
        {
            "what": "all maps, by arithmetic",
            "extra (MB)": maps / 1e6,
            "of all maps": 1.0,
            "bar": "",
        },
    ]
    publish(
        "watching_memory",
        f"{LAYERS} layers, {HEADS} heads, {LENGTHS[-1]} tokens, batch {BATCH}",
        rows,
    )
    looks = [_look_row(length) for length in progress(LENGTHS, "a look by tokens")]
    publish("watching_look", f"{LAYERS} layers, {HEADS} heads, one sequence, processor time", looks)
    held = [_answer(f"closed({n})") for n in progress(LOOKS, "closing")]
    closing = [
        {"looks": n, "extra (MB)": extra, "times the fewest": extra / held[0], "bar": "flat"}
        for n, extra in zip(LOOKS, held, strict=True)
    ]
    publish(
        "watching_close",
        f"peak memory of closing a run of {LAYERS} layers, {HEADS} heads, 128 tokens",
        closing,
    )
    _draw(looks, closing)
    looking, naive, training = _answer("timed()")
    rows = [
        {
            "what": "watch",
            "looking (s)": looking,
            "training (s)": training,
            "overhead": looking / training,
            "bar": TIME_BAR,
        },
        {
            "what": "output_attentions=True",
            "looking (s)": naive,
            "training (s)": training,
            "overhead": naive / training,
            "bar": "",
        },
    ]
    publish("watching_time", f"a small GPT, {STEPS} steps, a look every {EVERY}", rows)


def _answer(call: str) -> Any:
    return fresh_process(f"from benchmarks import watching; answer = watching.{call}").answer


def _look_row(length: int) -> dict[str, Any]:
    forward, look = _answer(f"compared({length})")
    return {
        "tokens": length,
        "forward (s)": forward,
        "look (s)": look,
        "ratio": look / forward,
        "bar": RATIO_BAR,
    }


def _large(length: int, batch: int) -> tuple[Any, Any]:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=LAYERS, n_head=HEADS, n_positions=length, vocab_size=N_VOCAB
    )
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
    model.lm_head = torch.nn.Identity()  # logits would hide everything else
    return model.eval(), torch.randint(0, N_VOCAB, (batch, length))


def memory() -> tuple[float, float]:
    """Bytes of a look while it computes statistics, and of its peak, each above those of a forward
    pass.
    """
    import tempfile
    from unittest import mock

    import torch

    import saccade
    from saccade.watching import look
    from saccade.watching.capture import Capture

    model, probe = _large(LENGTHS[-1], BATCH)
    held, reached, computed = [], [], look.statistics

    def forward() -> None:
        with torch.no_grad():
            model(probe, use_cache=False)

    def noted(*args: Any, **named: Any) -> Any:
        _set_back()
        found = computed(*args, **named)
        reached.append(_highest())
        return found

    with (
        tempfile.TemporaryDirectory() as folder,
        saccade.watch(model, probe, out=f"{folder}/run", weights=False) as recorder,
    ):
        recorder.observe(0)  # whatever is loaded once is there now
        with Capture(lambda call: held.append(_set_back()), model):
            forward()
        turns = [
            (_rise(forward), _rise(lambda turn=turn: recorder.observe(turn)))
            for turn in range(1, MEMORY_TURNS + 1)
        ]
        with mock.patch.object(look, "statistics", noted):
            recorder.observe(MEMORY_TURNS + 1)
    plain, looking = zip(*turns, strict=True)
    return max(reached) - held[0], median(looking) - median(plain)


def _rise(run: Callable[[], Any]) -> int:
    """Bytes from what is held before to the highest."""
    before = _set_back()
    run()
    return _highest() - before


def _set_back() -> int:
    """Bytes held now, from which the high-water mark begins anew."""
    from saccade.watching.free_memory import give_back

    gc.collect()
    give_back()
    Path("/proc/self/clear_refs").write_text("5")
    return _highest()


def _highest() -> int:
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def compared(length: int) -> tuple[float, float]:
    """Processor seconds of a forward pass, the least of two, and of all that a look does but
    weights, taken more rarely.
    """
    import torch

    from saccade.watching.look import look
    from saccade.watching.probe import LayerTokens, Probe, RepeatedProbe
    from saccade.watching.token_statistics import TokenStatistics

    model, ids = _large(length, 1)
    probe = Probe(ids)
    tokens = LayerTokens(
        model, probe, TokenStatistics.count(probe.documents(), probe_ids=probe.all_ids())
    )

    def forward() -> None:
        with torch.no_grad():
            model(ids, use_cache=False)

    def one_look() -> None:
        look(model, probe, tokens, [0], RepeatedProbe.of(probe))

    forward()
    turns = [(_seconds(forward), _seconds(one_look)) for _ in range(TURNS)]
    return tuple(map(min, zip(*turns, strict=True)))


def _seconds(run: Callable[[], Any]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def closed(n_looks: int) -> float:
    """Megabytes at the peak of closing a run, above what is held before."""
    import tempfile
    import tracemalloc

    import numpy as np

    from saccade.records.observation_log import ObservationLog
    from saccade.records.store import save_record
    from saccade.report.watched_files import write_watched
    from saccade.watching.watched_variables import AXES, DEFINITIONS

    rng = np.random.default_rng(0)
    heads = {
        name: rng.random((LAYERS, HEADS))
        for name in ("entropy", "relative_entropy", "sink_mass", "moved")
    }
    definitions = {name: list(DEFINITIONS[name]) for name in DEFINITIONS}
    config = {"task": "made up", "thinned": []}
    about = {
        "config": config,
        "axes": dict(AXES),
        "coords": {},
        "definitions": definitions,
        "wall_time_s": 0.0,
    }
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


def timed() -> tuple[float, float, float]:
    """Seconds spent looking in a watched run, taking the same looks the plain way, and training."""
    import torch
    import transformers

    import saccade

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=4, n_head=4, n_embd=128, n_positions=128, vocab_size=512
    )
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

    from saccade.watching.attention_call import given_weights
    from saccade.watching.attention_statistics import statistics

    started = time.perf_counter()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for weights in model.eval()(probe, output_attentions=True).attentions:
            statistics(given_weights("eager", weights), tokens)
    model.set_attn_implementation("sdpa")
    model.train()
    return time.perf_counter() - started


def _draw(looks: list[dict[str, Any]], closing: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    from saccade.report.style import categorical

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    tokens = [row["tokens"] for row in looks]
    for tone, (quantity, label) in enumerate(
        {"look (s)": "a look", "forward (s)": "a forward pass"}.items()
    ):
        left.plot(
            tokens, [row[quantity] for row in looks], "o-", color=categorical(tone), label=label
        )
    left.plot(
        tokens,
        [RATIO_BAR * row["forward (s)"] for row in looks],
        "k--",
        lw=1,
        label=f"bar: {RATIO_BAR:g} forward passes",
    )
    left.set(
        xscale="log",
        yscale="log",
        xlabel="tokens of the probe",
        ylabel="processor time (s)",
        xticks=tokens,
        xticklabels=tokens,
    )
    left.xaxis.set_minor_locator(NullLocator())
    left.legend()
    held = [row["extra (MB)"] for row in closing]
    right.plot([row["looks"] for row in closing], held, "o-", color=categorical(0))
    right.set(
        xlabel="looks of the run",
        ylabel="peak memory of closing it (MB)",
        xlim=(0, None),
        ylim=(0, 1.3 * max(held)),
    )
    publish_figure(figure, "watching")


if __name__ == "__main__":
    main()
