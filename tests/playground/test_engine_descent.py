"""Descent without noise in the browser against the Python engine's, which offers it for both
models: infinite batch and context.
"""

from __future__ import annotations

import math

import pytest

import saccade

from .comparison import (
    CLOSE,
    THREE,
    chain_errors,
    chain_settings,
    said,
    task_errors,
    task_settings,
)
from .engine_page import followed

OPTIMISERS = {
    "sgd": ({"optimiser": "sgd"}, {"optimiser": "sgd"}),
    "momentum": ({"optimiser": "momentum", "momentum": 0.8}, {"optimiser": "sgd", "momentum": 0.8}),
    "adam": ({"optimiser": "adam"}, {"optimiser": "adam"}),
}
POPULATION = {"batch": math.inf, "context": math.inf, "dtype": "float64"}  # descent without noise


@pytest.mark.parametrize("name", OPTIMISERS)
def test_noiseless_descent_on_classes_is_that_of_python(page, name):
    browser, python = OPTIMISERS[name]
    steps = [0, 1, 2, 5, 20, 100, 300]
    keep = ("attention", "attention_logits", "decoder")
    record = saccade.train(
        THREE,
        steps=300,
        lr_decoder=0.5,
        lr_attention=0.2,
        save=steps,
        keep=keep,
        **POPULATION,
        **python,
    ).isel(seed=0)
    runs = followed(
        page, "ScanAndSnap", task_settings(THREE, lrDecoder=0.5, lrAttention=0.2, **browser), steps
    )
    assert said(f"{name} on classes, 300 steps", task_errors(runs, record)) < CLOSE


@pytest.mark.parametrize("name", OPTIMISERS)
def test_noiseless_descent_on_a_chain_is_that_of_python(page, name):
    browser, python = OPTIMISERS[name]
    chain, steps, rate = (
        saccade.MarkovChain.zipf(5, 0.4),
        [0, 1, 2, 10, 100, 250],
        0.01 if name == "adam" else 0.5,
    )
    shared = {"lr_decoder": rate, "lr_attention": rate / 2}
    model = saccade.models.Embedded(d_model=7, d_key=3, init_scale=0.02)
    record = saccade.train(
        chain, steps=250, save=steps, model=model, **shared, **POPULATION, **python
    ).isel(seed=0)
    settings = chain_settings(chain, 0.4, record, lrDecoder=rate, lrAttention=rate / 2, **browser)
    runs = followed(page, "FocusAndDilution", settings, steps)
    assert said(f"{name} on a chain, 250 steps", chain_errors(runs, record)) < CLOSE
