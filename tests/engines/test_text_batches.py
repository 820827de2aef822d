"""Windows of a token stream: the right tokens, at an address."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from saccade.engines.text_batches import Windows, fixed_windows
from saccade.errors import InputError
from tests.engines.text_runs import CORPUS, ArrayCorpus

COUNTING = ArrayCorpus(
    train=np.arange(1013, dtype=np.uint32), valid=np.arange(2000, 2211, dtype=np.uint32)
)


def test_streams_are_read_from_beginning_to_end_and_begin_again():
    """Seven streams of 144 tokens hold 28 windows of 5; what follows a window is the next token of
    its stream.
    """
    windows = Windows(COUNTING, batch=7, context=5, order="stream", seed=0)
    read = np.concatenate([windows.at(step)[0].ids.numpy() for step in range(28)], axis=1)
    np.testing.assert_array_equal(read, np.arange(7)[:, None] * 144 + np.arange(140))
    for step in (0, 27):
        (ids, following), _ = windows.at(step)
        np.testing.assert_array_equal(following, ids + 1)
    np.testing.assert_array_equal(windows.at(28)[0].ids, windows.at(0)[0].ids)


def test_a_window_whose_last_target_is_in_the_next_stream_is_left_out():
    """Streams of 144 tokens hold 24 windows of 6, but only 23 with the token that follows them."""
    windows = Windows(COUNTING, batch=7, context=6, order="stream", seed=0)
    for step in range(30):
        ids, following = windows.at(step)[0]
        np.testing.assert_array_equal(following[:, -1] // 144, ids[:, 0] // 144)
    np.testing.assert_array_equal(windows.at(23)[0].ids, windows.at(0)[0].ids)


def test_random_windows_start_everywhere_alike_and_end_inside_the_text():
    windows = Windows(COUNTING, batch=997, context=11, order="random", seed=5)
    ids, following = windows.at(0)[0]
    np.testing.assert_array_equal(following, ids + 1)
    starts = np.concatenate([windows.at(step)[0].ids[:, 0].numpy() for step in range(20)])
    assert (starts.min(), starts.max()) == (0, 1013 - 11 - 1)
    assert starts.mean() == pytest.approx(500.5, abs=5 * 289 / np.sqrt(len(starts)))


def test_a_batch_has_an_address():
    first, second = (Windows(CORPUS, 5, 7, "random", seed) for seed in (0, 1))
    np.testing.assert_array_equal(
        first.at(9)[0].ids, Windows(CORPUS, 5, 7, "random", 0).at(9)[0].ids
    )
    assert (first.at(9)[0].ids != first.at(8)[0].ids).any()
    assert (first.at(9)[0].ids != second.at(9)[0].ids).any()
    assert len({windows.at(step)[1] for windows in (first, second) for step in range(9)}) == 18


@pytest.mark.parametrize("order", ["random", "stream"])
def test_processes_share_the_rows_of_a_batch(order):
    whole = Windows(CORPUS, 6, 7, order, 2).at(4)[0]
    parts = [Windows(CORPUS, 6, 7, order, 2, shard, 3).at(4) for shard in range(3)]
    for shard, (batch, _) in enumerate(parts):
        np.testing.assert_array_equal(batch.ids, whole.ids[shard::3])
        np.testing.assert_array_equal(batch.following, whole.following[shard::3])
    assert len({random_seed for _, random_seed in parts}) == 3
    with pytest.raises(InputError, match="multiple"):
        Windows(CORPUS, 7, 7, order, 2, 0, 3)


def test_validation_windows_span_the_text_and_shrink_to_it():
    batch = fixed_windows(COUNTING, 5, 10)
    np.testing.assert_array_equal(batch.ids[:, 0], [2000, 2050, 2100, 2150, 2200])
    np.testing.assert_array_equal(batch.following, batch.ids + 1)
    assert fixed_windows(COUNTING, 5, 1000).ids.shape == (1, 210)
    with pytest.raises(InputError, match="validation"):
        fixed_windows(ArrayCorpus(valid=np.zeros(1, np.uint16)), 5, 10)
