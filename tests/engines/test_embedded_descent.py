"""Dynamics (A) of the embedded model: addresses of randomness, limits, and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from saccade.data.markov import MarkovChain
from saccade.engines import embedded_descent
from saccade.engines.randomness import Purpose, generator
from saccade.errors import InputError
from saccade.models.embedded import Embedded
from saccade.runs import train

CHAIN = MarkovChain.zipf(5, stay=0.4)
SMALL = {
    "steps": 30,
    "batch": 17,
    "context": 23,
    "sequences": 101,
    "model": Embedded(d_model=7, d_key=3, init_scale=0.1),
}


def test_a_seed_gives_the_same_run_alone_and_among_others():
    among, alone = (
        train(CHAIN, seeds=seeds, dtype="float64", **SMALL) for seeds in ([4, 9, 2], [9])
    )
    np.testing.assert_allclose(among.embedding.values[1], alone.embedding.values[0], atol=1e-13)
    assert np.abs(among.embedding.values[1, -1] - among.embedding.values[0, -1]).max() > 1e-3


def test_what_is_saved_and_how_steps_are_cut_does_not_change_the_run(monkeypatch):
    whole = train(CHAIN, save=[30], **SMALL)
    monkeypatch.setattr("saccade.engines.train._STEPS_AT_ONCE", 7)
    np.testing.assert_array_equal(
        train(CHAIN, save="log", **SMALL).projection.values[0, -1], whole.projection.values[0, 0]
    )


def test_counts_are_of_the_context_and_the_target_is_not_in_them():
    contexts = embedded_descent.contexts(CHAIN, seed=6, sequences=101, context=23)
    assert (contexts.counts.sum(axis=1) == 23).all()
    assert (np.take_along_axis(contexts.counts, contexts.last_token[:, None], axis=1) > 0).all()


def test_batches_are_not_picked_by_the_stream_that_drew_the_sequences():
    drew = generator(4, Purpose.DATA).integers(101, size=17, dtype=np.int32)
    picks = embedded_descent.picked(4, range(3), batch=17, sequences=101)
    assert len({tuple(row) for row in (drew, *picks)}) == 4


def test_all_sequences_at_once_is_the_mean_over_batches():
    """One step of SGD from all sequences moves the weights by the mean of the single steps from
    each of them.
    """
    one_step = SMALL | {
        "steps": 1,
        "save": [1],
        "optimiser": "sgd",
        "lr_decoder": 0.1,
        "lr_attention": 0.1,
        "dtype": "float64",
    }
    whole = train(CHAIN, **one_step | {"batch": math.inf, "sequences": 3})
    start = train(CHAIN, **one_step | {"steps": 0, "save": [0], "sequences": 3})
    data = embedded_descent.contexts(CHAIN, seed=0, sequences=3, context=23)
    moves = []
    for row in range(3):
        only = embedded_descent.Contexts(*(part[row : row + 1] for part in data))
        moves.append(_one_step(start, only, 0.1))
    expected = start.embedding.values[0, 0] + np.mean(moves, axis=0)
    np.testing.assert_allclose(whole.embedding.values[0, 0], expected, atol=1e-12)


def test_contexts_that_are_alike_are_computed_once_and_filling_up_changes_nothing():
    data = embedded_descent.contexts(CHAIN, seed=9, sequences=200, context=2)
    once = embedded_descent.distinct(data)
    assert len(once.last_token) < 26
    np.testing.assert_allclose(
        200 * once.next_share.sum(axis=1), np.bincount(data.next_token, minlength=5)
    )
    whole = SMALL | {"batch": math.inf, "context": 2, "sequences": 12, "dtype": "float64"}
    among, alone = (train(CHAIN, seeds=seeds, **whole) for seeds in ([4, 9, 2], [9]))
    np.testing.assert_allclose(among.embedding.values[1], alone.embedding.values[0], atol=1e-13)


def _one_step(start, contexts, rate):
    import jax

    from saccade.models.embedded import composite, context_loss, weights_of

    with jax.enable_x64(True):
        slope = jax.grad(lambda w: context_loss(composite(w, 1.0), *contexts))(
            weights_of(start.isel(seed=0, time=0))
        )
    return -rate * np.asarray(slope.embedding)


def test_mini_batch_sgd_learns_the_chain_from_finite_contexts():
    record = train(
        CHAIN,
        steps=4000,
        optimiser="sgd",
        lr_decoder=0.5,
        lr_attention=0.5,
        batch=256,
        context=64,
        sequences=5000,
        model=Embedded(init_scale=0.1),
        save="linear",
    )
    loss = record.loss.values[0]
    assert loss[0] == pytest.approx(np.log(5), abs=0.01)
    assert loss[-5:].mean() - CHAIN.optimal_loss < 0.3 * (CHAIN.unigram_loss - CHAIN.optimal_loss)


def test_a_run_that_diverges_says_when_and_leaves_the_others_alone():
    record = train(CHAIN, optimiser="sgd", lr_decoder=1e8, lr_attention=1e8, **SMALL)
    assert record.stop_reason.item() == "diverged"
    assert np.isfinite(record.loss.values[0, 0])
    assert np.isnan(record.loss.values[0, -1])
    assert np.isnan(record.attention.values[0, -1]).all()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"context": math.inf}, "batch"),
        ({"sequences": 0}, "sequences"),
        ({"optimiser": "adagrad"}, "optimiser"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"dtype": "float16"}, "dtype"),
        ({"steps": 2.5}, "steps"),
    ],
)
def test_bad_settings_are_named(settings, word):
    with pytest.raises(InputError, match=word):
        train(CHAIN, **(SMALL | settings))
