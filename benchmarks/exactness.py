"""How far float32 training is from float64, for Saccade and for the opponent: same start, same
batches, number by number; and whether the number of threads changes a bit.

Agreement in float64 to the last digits says that both train the same model; what float32 loses is
then each one's own.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import torch

from benchmarks import opponent
from saccade import SequenceClasses, measures, train
from saccade.engines.batches import draw
from saccade.models import Pairwise

_STEPS = 100
torch.set_num_threads(1)  # the matrices are small: more would wait for each other


def errors(
    n_queries: int = 3, lr_attention: float = 1.0, ratio: float = 2.0
) -> dict[str, dict[str, float]]:
    """Largest distance from PyTorch in float64 at the last step, of runs with the same start and
    the same batches.
    """
    task = SequenceClasses.syn_medium(n_queries)
    rates = {"lr_decoder": ratio * lr_attention, "lr_attention": lr_attention}
    found = {}
    for dtype in ("float32", "float64"):
        start, ours = _trained_by_saccade(task, dtype, rates)
        # The reference starts from the same numbers, rounded to float32 or not: what is left is the
        # error of the training.
        truth = _trained_by_opponent(task, "float64", rates, start)
        for name, z in (
            ("Saccade", ours),
            ("PyTorch", _trained_by_opponent(task, dtype, rates, start)),
        ):
            gaps = {
                "attention_logits": np.abs(z - truth).max(),
                "entropy": np.abs(_entropy(task, z) - _entropy(task, truth)).max(),
            }
            found[f"{name}, {dtype}"] = {measure: float(gap) for measure, gap in gaps.items()}
    return found


def same_bits(threads: tuple[int, ...] = (1, 2, 5)) -> bool:
    """Whether 40 runs end with the same numbers on each number of threads."""
    ends = []
    for count in threads:
        with mock.patch("os.cpu_count", return_value=count):
            rates = {"lr_decoder": [1.0, 2.0, 5.0, 10.0], "lr_attention": 1.0}
            kept = {"save": [_STEPS], "keep": ("attention_logits", "decoder")}
            record = train(
                SequenceClasses.syn_medium(3), **rates, **kept, steps=_STEPS, momentum=0.9, seeds=10
            )
        ends.append(record.attention_logits.values.tobytes() + record.decoder.values.tobytes())
    return len(set(ends)) == 1


def _trained_by_saccade(
    task: SequenceClasses, dtype: str, rates: dict[str, float]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Y and Z at the start, token by token, and Z (query, token) at the end."""
    keep = ("attention_logits", "decoder")
    settings = {
        "steps": _STEPS,
        "momentum": 0.9,
        "save": [0, _STEPS],
        "dtype": dtype,
        "keep": keep,
        "model": Pairwise(init="uniform"),
    }
    record = train(task, **rates, **settings).isel(seed=0)
    start = {
        "decoder": record.decoder.values[0],
        "attention_logits": np.zeros((task.n_vocab, task.n_vocab)),
    }
    start["attention_logits"][np.unique(task.query)] = record.attention_logits.values[0]
    return start, record.attention_logits.values[-1].astype(np.float64)


def _trained_by_opponent(
    task: SequenceClasses, dtype: str, rates: dict[str, float], start: dict[str, np.ndarray]
) -> np.ndarray:
    """Z (query, token) at the end, on the batches that Saccade draws for seed 0."""
    blocks = Pairwise(init="uniform").blocks(task)
    model = opponent.OneLayerTransformer(task.n_vocab).to(getattr(torch, dtype))
    model.load_state_dict({name: torch.tensor(values) for name, values in start.items()})
    opponent.train(
        model,
        opponent.given_batches(task, blocks, draw(task, blocks, 0, range(_STEPS), 128, 127)),
        **rates,
    )
    return model.attention_logits.detach().numpy()[np.unique(task.query)].astype(np.float64)


def _entropy(task: SequenceClasses, attention_logits: np.ndarray) -> np.ndarray:
    _, query_of_class = np.unique(task.query, return_inverse=True)
    attention = measures.class_attention(attention_logits[query_of_class], task.token_prob)
    return measures.distinct_entropy(attention, task.distinct)
