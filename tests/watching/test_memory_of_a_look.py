"""A look holds blocks of weights, never a whole map: its largest tensor is a block, or a byte for
each query and key.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from saccade.watching import free_memory  # noqa: E402
from saccade.watching.attention_call import BYTES_PER_BLOCK  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402

N_HEADS = zoo.HEADS


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that any operation gives out."""

    n_bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple | list) else [out]:
            if isinstance(part, torch.Tensor):
                self.n_bytes = max(self.n_bytes, part.untyped_storage().nbytes())
        return out


def largest_of_a_look(length):
    tokens = torch.arange(2 * length).reshape(2, length) % zoo.N_VOCAB
    model = zoo.HandWritten("fused")
    with Largest() as largest:
        zoo.watched(model, tokens, budget=None)
    return largest.n_bytes


def test_no_tensor_of_a_look_is_larger_than_a_block_or_a_byte_for_each_query_and_key():
    for length in (1021, 2039):
        meaning = 2 * length**2  # a byte for each query and key
        whole_map = N_HEADS * 4 * meaning
        assert max(2 * BYTES_PER_BLOCK, meaning) < whole_map / 3  # a whole map would be seen
        assert largest_of_a_look(length) <= max(
            2 * BYTES_PER_BLOCK, meaning
        )  # float64 in the self-check is twice as wide


def test_free_memory_is_handed_back_where_the_system_allows_it_and_a_look_is_large(monkeypatch):
    asked = []
    monkeypatch.setattr(free_memory, "_trim", lambda: asked.append)
    length = 1021
    assert N_HEADS * 2 * 4 * length**2 > BYTES_PER_BLOCK
    largest_of_a_look(length)
    assert asked
    monkeypatch.setattr(free_memory, "_trim", lambda: None)  # another system
    assert largest_of_a_look(length) > 0


def test_a_small_look_does_not_ask_for_it_since_that_takes_longer_than_what_is_measured(
    monkeypatch,
):
    asked = []
    monkeypatch.setattr(free_memory, "_trim", lambda: asked.append)
    largest_of_a_look(31)
    assert not asked
