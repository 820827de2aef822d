"""A start given as whole matrices is where flows and training begin, and going on from a record is
going on.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import saccade
from saccade.errors import InputError

TASK = saccade.SequenceClasses(np.array([[0.5, 0.2, 0.3, 0, 0], [0.5, 0, 0, 0.1, 0.4]]), name="two")
RNG = np.random.default_rng(5)
Z, Y = RNG.standard_normal((1, TASK.n_vocab)), RNG.standard_normal((TASK.n_vocab, TASK.n_vocab))


def test_flow_and_training_begin_where_they_are_told():
    start = {"decoder": Y, "attention_logits": Z}
    seen = TASK.token_prob.any(axis=0)
    for record in (
        saccade.flow(TASK, t1=1.0, n_times=2, start=start, keep=("decoder", "attention_logits")),
        saccade.train(
            TASK, steps=1, start=start, keep=("decoder", "attention_logits"), dtype="float64"
        ).isel(seed=0),
    ):
        first = record.isel(time=0)
        np.testing.assert_allclose(first.attention_logits.values[0, seen], Z[0, seen], rtol=1e-12)
        np.testing.assert_allclose(first.decoder.values[seen], Y[seen], rtol=1e-12)
    reduced = saccade.reduced_flow(TASK, t1=1.0, n_times=2, start={"attention_logits": Z})
    np.testing.assert_allclose(reduced.attention_logits.values[0, 0, seen], Z[0, seen], rtol=1e-12)


def test_a_flow_that_goes_on_from_a_record_ends_where_one_flow_does():
    keep, tight = ("decoder", "attention_logits"), {"rtol": 1e-11, "atol": 1e-13}
    whole = saccade.flow(TASK, t1=20.0, n_times=3, keep=keep, **tight)
    half = saccade.flow(TASK, t1=10.0, n_times=3, keep=keep, **tight)
    rest = saccade.flow(TASK, t1=10.0, n_times=3, keep=keep, start=half.isel(time=-1), **tight)
    np.testing.assert_allclose(
        rest.attention_logits.values[-1], whole.attention_logits.values[-1], atol=1e-9
    )


def test_the_validator_knows_that_the_start_is_not_zero():
    record = saccade.flow(TASK, t1=1.0, n_times=2, start={"attention_logits": Z})
    (zero,) = [
        one
        for one in json.loads(record.attrs["assumptions"])[0]["conditions"]
        if one["name"] == "Theorem 1, start at zero"
    ]
    assert not zero["holds"]


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"logits": Z}, "attention_logits"),
        ({"attention_logits": Z[0]}, "axes"),
        ({"attention_logits": Z[:, :-1]}, "must have the shape"),
        ({"decoder": np.full((TASK.n_vocab, TASK.n_vocab), np.nan)}, "decoder"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_by_name(start, said):
    with pytest.raises(InputError, match=said):
        saccade.flow(TASK, t1=1.0, start=start)


def test_the_reduced_flow_has_no_decoder_to_start_from():
    with pytest.raises(InputError, match="has no `decoder`"):
        saccade.reduced_flow(TASK, t1=1.0, start={"decoder": Y})
