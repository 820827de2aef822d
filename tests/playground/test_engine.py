"""Trajectories of the browser's engine against those of the Python engine: the same settings, the
same start, equal times.

The browser integrates with its own explicit Runge-Kutta method and gradients written out by hand;
Python with SciPy's LSODA and JAX's gradients. Late in Focus and Dilution every new direction
multiplies rounding, so Python's own distance from a run at a hundred times smaller tolerance is
measured beside it, and must leave room. Measures: `comparison.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.models.embedded import weights_of

from .comparison import (
    CLOSE,
    NOTHING,
    THREE,
    by_matrix,
    chain_errors,
    chain_settings,
    entrywise,
    errors_of,
    said,
    task_errors,
    task_settings,
)
from .engine_page import followed

TIGHT = {"rtol": 1e-11, "atol": 1e-13}  # of the Python engine


TASKS = {
    "syn-small": (saccade.SequenceClasses.syn_small(), 1.0, 0.5),
    "three unequal classes": (THREE, 0.7, 2.0),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_plain_flow_of_classes_is_that_of_python(page, name):
    task, lr_decoder, lr_attention = TASKS[name]
    keep = ("attention", "attention_logits", "decoder")
    record = saccade.flow(
        task,
        t1=1e6,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
        n_times=30,
        keep=keep,
        **TIGHT,
    )
    runs = followed(
        page,
        "ScanAndSnap",
        task_settings(task, lrDecoder=lr_decoder, lrAttention=lr_attention),
        record.time.values,
    )
    assert said(f"plain flow, {name}, t to 1e6", task_errors(runs, record)) < CLOSE


@pytest.mark.parametrize("name", TASKS)
def test_the_reduced_flow_of_classes_is_that_of_python(page, name):
    task, lr_decoder, lr_attention = TASKS[name]
    record = saccade.reduced_flow(
        task, t1=1e6, lr_decoder=lr_decoder, lr_attention=lr_attention, n_times=30, **TIGHT
    )
    settings = task_settings(
        task, lrDecoder=lr_decoder, lrAttention=lr_attention, optimiser="reduced"
    )
    runs = followed(page, "ScanAndSnap", settings, record.time.values)
    errors = errors_of(
        runs,
        record,
        {
            "ownLogit": "own_logit",
            "otherLogit": "other_logit",
            "attentionLogits": "attention_logits",
        },
        lambda at: decoder_values(task, at),
    )
    assert said(f"reduced flow, {name}, t to 1e6", errors) < CLOSE


def decoder_values(task, state):
    """Singular values of Y = F (F^T F)^-1 W, from its definition."""
    feature = state.attention.values / np.linalg.norm(state.attention.values, axis=1, keepdims=True)
    logits = np.repeat(state.other_logit.values[:, None], task.n_vocab, axis=1)
    logits[np.arange(task.n_classes), task.next_token] = state.own_logit.values
    return np.linalg.svd(np.linalg.pinv(feature) @ logits, compute_uv=False)[: task.n_classes]


def test_the_plain_flow_from_a_random_start_is_that_of_python(page):
    model = saccade.models.Pairwise(init="uniform", init_scale=0.3)
    keep = ("attention", "attention_logits", "decoder")
    record = saccade.flow(THREE, t1=1e3, n_times=12, model=model, seed=3, keep=keep, **TIGHT)
    start = {
        "decoder": record.decoder.values[0].tolist(),
        "attentionLogits": record.attention_logits.values[0].tolist(),
    }
    runs = followed(page, "ScanAndSnap", task_settings(THREE, start=start), record.time.values)
    assert said("plain flow from a random start", task_errors(runs, record)) < CLOSE


def own_distance(record, tighter):
    """Of Python from itself at a smaller tolerance, in the same measure: the worst of attention and
    weights.
    """
    weights = [
        by_matrix(a, b)
        for pair in zip(weights_of(record), weights_of(tighter), strict=True)
        for a, b in zip(*pair, strict=True)
    ]
    return max(*weights, entrywise(record.attention, tighter.attention, NOTHING))


CHAINS = {
    # First focus at t = 175 to 180, dilution to about 310; the second direction opens near 500: the
    # rank goes from one to two.
    "zipf-6, through focus, dilution and a second direction": (
        saccade.MarkovChain.zipf(6, 0.5),
        0.5,
        600.0,
        {},
    ),
    "one frequent token": (
        saccade.MarkovChain.lazy([0.5, 0.2, 0.12, 0.09, 0.06, 0.03], 0.3),
        0.3,
        400.0,
        {},
    ),
    "repeats avoided, fast attention": (
        saccade.MarkovChain.zipf(6, -0.05),
        -0.05,
        250.0,
        {"lr_decoder": 0.5, "lr_attention": 20.0},
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_flow_of_a_chain_is_that_of_python(page, name):
    chain, stay, t1, rates = CHAINS[name]
    wide = {"model": saccade.models.Embedded(d_model=7, d_key=5), "n_times": 25, "t1": t1, **rates}
    record = saccade.flow(chain, **wide).isel(seed=0)
    tighter = saccade.flow(chain, **wide, method="DOP853", rtol=1e-12, atol=1e-14).isel(seed=0)
    own = own_distance(record, tighter)
    settings = chain_settings(
        chain,
        stay,
        record,
        lrDecoder=rates.get("lr_decoder", 1.0),
        lrAttention=rates.get("lr_attention", 1.0),
    )
    runs = followed(page, "FocusAndDilution", settings, record.time.values)
    print(f"{name}: python at its default tolerance is {own:.1e} from itself")
    assert own < CLOSE / 2
    assert said(f"{name}, from the default", chain_errors(runs, record)) < CLOSE
    assert said(f"{name}, from the tighter", chain_errors(runs, tighter)) < CLOSE / 100
