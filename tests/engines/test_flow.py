"""Dynamics (B) and (C): the flows against training, against explicit formulas and against what they
must conserve.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import solve_ivp

from saccade import flow, reduced_flow, train
from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError
from saccade.models.pairwise import Pairwise


def one_query_task(
    n_classes: int = 3, n_common: int = 2, n_distinct: int = 3, n_vocab: int = 29
) -> SequenceClasses:
    prob = np.zeros((n_classes, n_common + n_classes * n_distinct))
    prob[:, :n_common] = np.linspace(1, 2, n_common)
    for n in range(n_classes):
        prob[n, n_common + n * n_distinct :][:n_distinct] = np.linspace(0.3, 1.7, n_distinct) * (
            1 + 0.1 * n
        )
    return SequenceClasses(prob, n_vocab=n_vocab, normalise=True)


KEPT = ("attention_logits", "decoder")
STRETCH = 40.0


def full_batch_descent(task: SequenceClasses, n_steps: int, model: Pairwise) -> xr.Dataset:
    """The same stretch of time as the flow, in `n_steps` steps."""
    rate = STRETCH / n_steps
    settings = {
        "lr_decoder": rate,
        "lr_attention": 2 * rate,
        "batch": math.inf,
        "context": math.inf,
    }
    return train(
        task, steps=n_steps, save=[n_steps], keep=KEPT, dtype="float64", model=model, **settings
    )


@pytest.mark.parametrize(
    "model",
    [Pairwise(), Pairwise(residual=True, init="uniform"), Pairwise(normalise=False)],
    ids=str,
)
def test_halving_the_learning_rate_halves_the_distance_to_the_flow(model):
    task = one_query_task()
    path = flow(
        task,
        t1=STRETCH,
        lr_attention=2.0,
        keep=KEPT,
        n_times=2,
        rtol=1e-11,
        atol=1e-13,
        model=model,
    )
    distances = []
    for n_steps in (400, 800, 1600):
        record = full_batch_descent(task, n_steps, model)
        distances.append(
            max(np.abs(record[name].values[0, 0] - path[name].values[-1]).max() for name in KEPT)
        )
    assert distances[0] / distances[1] == pytest.approx(2, rel=0.05)
    assert distances[1] / distances[2] == pytest.approx(2, rel=0.03)


def test_every_solver_gives_the_same_flow():
    task = one_query_task()
    reference = flow(task, n_times=20, method="Radau", rtol=1e-9, atol=1e-11)
    for method in ("LSODA", "BDF", "DOP853"):
        other = flow(task, n_times=20, method=method)
        np.testing.assert_allclose(
            other.attention_logits.values, reference.attention_logits.values, atol=1e-6
        )
        np.testing.assert_allclose(other.loss.values, reference.loss.values, rtol=1e-5)


def test_row_sums_are_conserved_along_the_flow():
    record = flow(one_query_task(), t1=1e12, keep=("attention_logits", "decoder"))
    assert np.abs(record.attention_logits.values.sum(axis=-1)).max() < 1e-8
    assert np.abs(record.decoder.values.sum(axis=-1)).max() < 1e-8


def test_late_in_the_flow_the_loss_falls_like_one_over_time():
    """1/t, from a gradient that is e^-margin: to sixteen orders below what a float resolves at 1."""
    record = flow(one_query_task(), t1=1e16, n_times=100)
    late = record.sel(time=slice(1e12, 1e16))
    slope = np.polyfit(np.log(late.time), np.log(late.loss), 1)[0]
    assert slope == pytest.approx(-1, abs=0.01)


def dense_reduced_flow(
    task: SequenceClasses, t1: float, lr_decoder: float, lr_attention: float
) -> tuple[np.ndarray, np.ndarray]:
    """(C) written out with dense matrices: W by its own gradient, Y = F (F^T F)^-1 W, one query."""
    n_classes, n_vocab = task.n_classes, task.n_vocab
    targets = np.eye(n_vocab)[task.next_token]

    def velocity(s: float, y: np.ndarray) -> np.ndarray:
        w, z = y[: n_classes * n_vocab].reshape(n_classes, n_vocab), y[n_classes * n_vocab :]
        exponent = np.exp(w - w.max(axis=1, keepdims=True))
        error = targets - exponent / exponent.sum(axis=1, keepdims=True)
        weights = task.token_prob * np.exp(z)
        features = (weights / np.linalg.norm(weights, axis=1, keepdims=True)).T
        decoder = features @ np.linalg.solve(features.T @ features, w)
        z_dot = np.zeros(n_vocab)
        for n in range(n_classes):
            f, g = features[:, n], decoder @ error[n]
            z_dot += task.class_weight[n] * f * (g - f * (f @ g))
        w_dot = lr_decoder * task.class_weight[:, None] * error
        return np.exp(s) * np.concatenate([w_dot.ravel(), lr_attention * z_dot])

    start = np.zeros(n_classes * n_vocab + n_vocab)
    solved = solve_ivp(velocity, (0, np.log1p(t1)), start, method="DOP853", rtol=1e-10, atol=1e-12)
    end = solved.y[:, -1]
    return end[: n_classes * n_vocab].reshape(n_classes, n_vocab), end[n_classes * n_vocab :]


def test_the_reduced_flow_in_blocks_equals_the_dense_one():
    task = one_query_task()
    uneven = SequenceClasses(
        task.token_prob,
        query=task.query,
        next_token=task.next_token,
        n_vocab=29,
        class_weight=[2, 3, 5],
    )
    record = reduced_flow(uneven, t1=1e6, lr_decoder=1.3, lr_attention=0.4, rtol=1e-10, atol=1e-12)
    w, z = dense_reduced_flow(uneven, 1e6, 1.3, 0.4)
    np.testing.assert_allclose(record.attention_logits.values[-1, 0], z, atol=1e-8)
    np.testing.assert_allclose(
        record.own_logit.values[-1], w[np.arange(3), uneven.next_token], rtol=1e-8
    )
    np.testing.assert_allclose(record.other_logit.values[-1], w[:, 0], rtol=1e-6)


def test_the_reduced_decoder_obeys_its_implicit_equation():
    """[tian2023, Lemma 6]: e^{Mh} + (M-1) M h = M eta t / K + 1, with M h the margin; to t = 1e12."""
    task = one_query_task(n_classes=5, n_vocab=101)
    record = reduced_flow(task, lr_decoder=0.7, rtol=1e-11, atol=1e-13)
    margin = (record.own_logit - record.other_logit).values
    right = 101 * 0.7 * record.time.values[:, None] / 5 + 1
    np.testing.assert_allclose(
        np.exp(margin) + 100 * margin, np.broadcast_to(right, margin.shape), rtol=1e-7
    )


def test_the_loss_of_the_reduced_flow_is_the_mean_cross_entropy_over_all_tokens():
    """Logits written out, token by token: the next token's own, and the other one for each of the
    rest.
    """
    even = one_query_task()
    task = SequenceClasses(
        even.token_prob,
        query=even.query,
        next_token=even.next_token,
        n_vocab=29,
        class_weight=[2, 3, 5],
    )
    record = reduced_flow(task, t1=100.0)
    logits = np.repeat(record.other_logit.values[..., None], 29, axis=-1)
    for n, token in enumerate(task.next_token):
        logits[:, n, token] = record.own_logit.values[:, n]
    chance = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    own = chance[:, np.arange(3), task.next_token]
    np.testing.assert_allclose(record.loss.values, -np.log(own) @ [0.2, 0.3, 0.5], rtol=1e-9)
    assert record.loss.values[0] == pytest.approx(math.log(29))


def test_relative_gain_is_conserved_along_the_reduced_flow():
    """[tian2023, Theorem 3]: f_l^2 / f_l'^2 - 1 grows exactly like e^{2 z_l} for two distinct
    tokens of a class.
    """
    task = one_query_task()
    record = reduced_flow(task, rtol=1e-11, atol=1e-13)
    z = record.attention_logits.values[:, 0]
    rare, frequent = np.flatnonzero(task.distinct[1])[[0, -1]]
    weight = task.token_prob[1] * np.exp(z)
    gain = (weight[:, frequent] / weight[:, rare]) ** 2 - 1
    np.testing.assert_allclose(gain, gain[0] * np.exp(2 * z[:, frequent]), rtol=1e-8)


def test_classes_that_coincide_are_refused_by_the_reduced_flow():
    with pytest.raises(InputError, match="independent"):
        reduced_flow(SequenceClasses([[0.5, 0.5], [0.5, 0.5]]))


def test_the_three_dynamics_are_labelled():
    task = one_query_task()
    labels = [
        train(task, steps=1),
        flow(task, t1=1.0, n_times=2),
        reduced_flow(task, t1=1.0, n_times=2),
    ]
    assert [record.attrs["dynamics"][0] for record in labels] == ["A", "B", "C"]
