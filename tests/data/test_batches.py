"""Mini-batches are what the task says they are, and the same wherever in a run they are asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from saccade import InputError, SequenceClasses
from saccade.engines.batches import arrange, draw, population, rows_needed
from saccade.engines.randomness import Purpose, checked_seeds, generator
from saccade.engines.schedule import save_steps
from saccade.models import Pairwise

# 3 classes over 2 common and 2 + 3 + 4 distinct tokens; two queries, uneven weights.
PROB = np.zeros((3, 11))
PROB[:, :2] = [[0.3, 0.1], [0.15, 0.25], [0.2, 0.05]]
PROB[0, 2:4] = [0.5, 0.1]
PROB[1, 4:7] = [0.05, 0.15, 0.4]
PROB[2, 7:11] = [0.05, 0.1, 0.2, 0.4]
TASK = SequenceClasses(PROB, query=[11, 11, 12], class_weight=[5, 3, 2])
MODEL = Pairwise()
BLOCKS = MODEL.blocks(TASK)
BATCH, CONTEXT, N_ROWS = 7, 19, 17


def by_context(counts: np.ndarray, blocks) -> np.ndarray:
    """Counts as (step, class, row, slot), in whichever order the compiled code likes to read the
    last two.
    """
    n_slots = blocks.token_prob.shape[1]
    assert counts.shape.count(n_slots) == 1
    return np.moveaxis(counts, counts.shape.index(n_slots), -1)


def test_a_batch_is_the_same_in_whatever_stretch_of_steps_it_is_drawn():
    at_once = draw(TASK, BLOCKS, 3, range(11), BATCH, CONTEXT)
    for step in reversed(range(11)):
        alone = draw(TASK, BLOCKS, 3, range(step, step + 1), BATCH, CONTEXT)
        assert np.array_equal(alone.classes[0], at_once.classes[step])
        assert np.array_equal(alone.counts[0], at_once.counts[step])


def test_steps_seeds_and_purposes_each_have_randomness_of_their_own():
    addresses = [
        (seed, purpose, step)
        for seed in (0, 1, 2**63 - 1)
        for purpose in Purpose
        for step in (0, 1, 10**9)
    ]
    drawn = {address: generator(*address).random(5).tobytes() for address in addresses}
    assert len(set(drawn.values())) == len(addresses)
    assert all(generator(*address).random(5).tobytes() == bits for address, bits in drawn.items())
    at_0, at_1 = (draw(TASK, BLOCKS, seed, range(5), BATCH, CONTEXT) for seed in (0, 1))
    assert not np.array_equal(at_0.counts, at_1.counts)
    assert not np.array_equal(at_0.counts[0], at_0.counts[1])


@pytest.mark.parametrize("context", [1, CONTEXT, 1_000_003, 10**12])
def test_counts_of_a_context_sum_to_its_length_and_stay_within_its_class(context):
    classes, counts = draw(TASK, BLOCKS, 0, range(5), BATCH, context)
    assert counts.shape == (5, BATCH, BLOCKS.token_prob.shape[1])
    assert np.all(counts.sum(axis=-1, dtype=np.float64) == context)
    assert not counts[BLOCKS.token_prob[classes] == 0].any()


def test_classes_are_drawn_as_often_as_their_weights_say():
    n_steps, batch = 31, 101
    classes = draw(TASK, BLOCKS, 5, range(n_steps), batch, 1).classes
    frequency = np.bincount(classes.ravel(), minlength=3) / classes.size
    sigma = np.sqrt(TASK.class_weight * (1 - TASK.class_weight) / classes.size)
    assert np.all(np.abs(frequency - TASK.class_weight) < 4 * sigma)


def test_tokens_are_drawn_as_often_as_their_class_says():
    classes, counts = draw(TASK, BLOCKS, 5, range(31), 101, 23)
    for n in range(3):
        prob = BLOCKS.token_prob[n]
        mine = counts[classes == n]
        sigma = np.sqrt(prob * (1 - prob) / mine.sum())
        assert np.all(np.abs(mine.sum(axis=0) / mine.sum() - prob) <= 4 * sigma)


def test_counts_vary_from_context_to_context_as_a_multinomial_does():
    classes, counts = draw(TASK, BLOCKS, 5, range(31), 101, 23)
    for n in range(3):
        mine, prob = counts[classes == n], BLOCKS.token_prob[n]
        expected = 23 * prob * (1 - prob)
        spread = math.sqrt(
            2 / len(mine)
        )  # of a sample variance, near enough for counts that are not too rare
        assert mine.var(axis=0)[prob >= 0.1] == pytest.approx(expected[prob >= 0.1], rel=4 * spread)


def test_an_infinite_context_is_its_class_itself():
    classes, counts = draw(TASK, BLOCKS, 0, range(5), BATCH, math.inf)
    assert np.array_equal(counts, BLOCKS.token_prob[classes])


def test_an_infinite_context_meets_the_same_classes_as_a_finite_one():
    finite, infinite = (
        draw(TASK, BLOCKS, 2, range(5), BATCH, context).classes for context in (CONTEXT, math.inf)
    )
    assert np.array_equal(finite, infinite)


def test_blocks_are_as_high_as_the_fullest_class_of_any_step():
    draws = draw(TASK, BLOCKS, 0, range(13), BATCH, CONTEXT)
    assert rows_needed(draws, 3) == max((row == n).sum() for row in draws.classes for n in range(3))


def test_every_context_stands_in_the_block_of_its_class_and_fillers_weigh_nothing():
    draws = draw(TASK, BLOCKS, 0, range(13), BATCH, CONTEXT)
    counts, weight, _ = arrange(draws, N_ROWS, MODEL, BLOCKS, CONTEXT, "float64")
    counts = by_context(counts, BLOCKS)
    assert weight.shape == counts.shape[:-1] == (13, 3, N_ROWS)
    assert weight.sum(axis=(1, 2)) == pytest.approx(1, rel=1e-14)
    for step in range(13):
        for n in range(3):
            mine = draws.counts[step][draws.classes[step] == n]
            assert np.array_equal(counts[step, n, : len(mine)], mine)
            assert np.all(weight[step, n, : len(mine)] == 1 / BATCH)
            assert not counts[step, n, len(mine) :].any()
            assert not weight[step, n, len(mine) :].any()


@pytest.mark.parametrize("query_key", [False, True])
def test_with_more_classes_than_contexts_only_the_classes_drawn_get_a_block(query_key):
    model = Pairwise(query_key=query_key)
    blocks = model.blocks(TASK)
    draws = draw(TASK, blocks, 0, range(13), 2, CONTEXT)
    batches = arrange(draws, N_ROWS, model, blocks, CONTEXT, "float64")
    counts = by_context(batches.counts, blocks)
    assert batches.weight.shape == counts.shape[:-1] == (13, 2, N_ROWS)
    assert batches.weight.sum(axis=(1, 2)) == pytest.approx(1, rel=1e-14)
    for step in range(13):
        for n in range(3):
            mine = draws.counts[step][draws.classes[step] == n] + query_key * (
                blocks.slots[n] == TASK.query[n]
            )
            found = counts[step][(batches.weight[step] > 0) & (batches.classes[step] == n)[:, None]]
            assert np.array_equal(found, mine)


def test_a_query_among_the_keys_is_one_more_token_of_each_context():
    model = Pairwise(query_key=True)
    blocks = model.blocks(TASK)
    draws = draw(TASK, blocks, 0, range(5), BATCH, CONTEXT)
    counts, weight, _ = arrange(draws, N_ROWS, model, blocks, CONTEXT, "float64")
    counts = by_context(counts, blocks)
    assert np.all(counts.sum(axis=-1)[weight > 0] == CONTEXT + 1)
    assert not counts[weight == 0].any()
    for n in range(3):
        at_query = blocks.slots[n] == TASK.query[n]
        assert at_query.sum() == 1
        assert np.all(
            counts[:, n][weight[:, n] > 0][:, at_query] == 1
        )  # the query is no context token of this task


def test_among_infinitely_many_keys_the_query_weighs_nothing():
    model = Pairwise(query_key=True)
    blocks = model.blocks(TASK)
    draws = draw(TASK, blocks, 0, range(5), BATCH, math.inf)
    counts, weight, _ = arrange(draws, N_ROWS, model, blocks, math.inf, "float64")
    counts = by_context(counts, blocks)
    assert counts.sum(axis=-1)[weight > 0] == pytest.approx(1, rel=1e-14)


def test_the_population_is_every_class_once_with_its_weight():
    counts, weight, _ = population(MODEL, BLOCKS, TASK, "float64")
    assert np.array_equal(by_context(counts, BLOCKS), BLOCKS.token_prob[None, :, None, :])
    assert np.array_equal(weight, TASK.class_weight[None, :, None])


def test_the_log_schedule_looks_at_both_ends_and_ever_more_rarely():
    steps = save_steps(100_003, "log")
    assert (steps[0], steps[-1]) == (0, 100_003)
    assert len(steps) <= 51
    gaps = np.diff(steps)
    assert np.all(gaps > 0)
    assert np.all(np.diff(gaps[gaps > 1]) >= 0)
    assert steps[5:][1:] / steps[5:][:-1] == pytest.approx(
        100_003 ** (1 / 49), rel=0.35
    )  # rounded to whole steps


def test_the_linear_schedule_looks_at_both_ends_and_evenly():
    assert save_steps(7, "linear").tolist() == list(range(8))
    steps = save_steps(1009, "linear")
    assert (steps[0], steps[-1], len(steps)) == (0, 1009, 51)
    assert np.ptp(np.diff(steps)) <= 1


@pytest.mark.parametrize("save", ["log", "linear", [0]])
def test_a_run_of_no_steps_has_its_start_to_look_at(save):
    assert save_steps(0, save).tolist() == [0]


def test_listed_steps_are_taken_in_order_and_once():
    assert save_steps(13, [11, 3, 3, 0, 13]).tolist() == [0, 3, 11, 13]
    assert save_steps(13, np.array([5, 2])).tolist() == [2, 5]
    assert save_steps(13, range(2, 14, 5)).tolist() == [2, 7, 12]


@pytest.mark.parametrize(
    ("save", "sentence"),
    [
        (
            "logarithmic",
            "`save` must be 'log', 'linear' or a list of whole steps; got 'logarithmic'",
        ),
        ([], r"`save` must name steps from 0 to 13 \(the run's length\), at least one; got \[\]"),
        ([0, 14], "`save` must name steps from 0 to 13"),
        ([0.5], "`save` must be 'log', 'linear' or a list of whole steps"),
        ([math.nan], "`save` must be 'log', 'linear' or a list of whole steps"),
        ([1e300], "`save` must"),
        (["first"], "`save` must be 'log', 'linear' or a list of whole steps"),
        (None, "`save` must"),
        (math.inf, "`save` must"),
    ],
)
def test_schedules_that_cannot_be_used_are_refused(save, sentence):
    with pytest.raises(InputError, match=sentence):
        save_steps(13, save)


def test_a_count_of_seeds_stands_for_the_first_ones():
    assert checked_seeds(3) == [0, 1, 2]
    assert checked_seeds(np.int64(2)) == [0, 1]
    assert checked_seeds([7, 2]) == [7, 2]
    assert checked_seeds(range(5, 8)) == [5, 6, 7]
    assert checked_seeds(np.array([3, 2**62])) == [3, 2**62]


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        (0, "`seeds` must be a count of at least 1, or a list of seeds; got 0"),
        (1.5, "`seeds` must be a count of at least 1"),
        (True, "`seeds` must be a count of at least 1"),
        (None, "`seeds` must be a count of at least 1"),
        ([], "`seeds` must be a count of at least 1"),
        ([0, -1], r"`seeds` must be whole numbers from 0 to 2\*\*63 - 1; got -1"),
        ([0, 2**63], r"`seeds` must be whole numbers from 0 to 2\*\*63 - 1"),
        ([0, True], "`seeds` must be whole numbers"),
        ([3, 3], "`seeds` must not name the same seed twice"),
        (10**18, "`seeds` must"),
    ],
)
def test_seeds_that_cannot_be_used_are_refused(seeds, sentence):
    with pytest.raises(InputError, match=sentence):
        checked_seeds(seeds)
