"""What watching adds to whole runs of a small GPT with the default settings: processor seconds of
two fresh processes, one of which watches, from the first import to the page on disk. `python -m
benchmarks.watched_runs`: two minutes, not part of `make bench`.

A run costs loading and closing, whatever it is, and some 30 to 50 looks; so there is a shortest run
of which that is 2 %.
"""

from __future__ import annotations

import resource
import tempfile
from typing import Any

from benchmarks.measuring import fresh_process, publish

SHARE = 0.02
RUNS = (
    (1, 32, 8, 300),
    (2, 32, 8, 2000),
    (2, 64, 8, 2000),
)  # layers, width and length, sequences in a batch, steps


def main() -> None:
    rows = []
    for layers, size, batch, steps in RUNS:
        plain, watched = (
            _seconds(f"{layers}, {size}, {batch}, {steps}, {way}") for way in (False, True)
        )
        more = watched - plain
        one = {
            "layers": layers,
            "tokens": size,
            "steps": steps,
            "step (ms)": 1000 * plain / steps,
            "training (s)": plain,
        }
        rows.append(
            one | {"more (s)": more, "overhead": more / plain, "2 % from (s)": more / SHARE}
        )
    publish("watched_runs", "a small GPT, default settings, processor time", rows)


def _seconds(arguments: str) -> float:
    return fresh_process(
        f"from benchmarks.watched_runs import run; answer = run({arguments})", OMP_NUM_THREADS="1"
    ).answer


def run(layers: int, size: int, batch: int, steps: int, is_watched: bool) -> float:
    """Processor seconds of the run without importing PyTorch, which both do."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=layers, n_head=2, n_embd=size, n_positions=size, vocab_size=64
    )
    model = transformers.GPT2LMHeadModel(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(recorder: Any = None) -> None:
        for step in range(steps):
            tokens = torch.randint(0, 64, (batch, size))
            loss = model(tokens, labels=tokens).loss
            if recorder is not None:
                recorder.step(step, loss)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    started = _processor()
    if is_watched:
        import saccade

        probe = torch.randint(0, 64, (8, size))
        with (
            tempfile.TemporaryDirectory() as folder,
            saccade.watch(model, probe, out=f"{folder}/run") as recorder,
        ):
            train(recorder)
    else:
        train()
    return _processor() - started


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
