"""Settings that leave a question without an answer are refused in a sentence that names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saccade.errors import InputError
from saccade.experiments import NEED_TORCH, experiment

REFUSED = {
    "condensation": [
        ({"init_scales": (1e-3,)}, "init_scales"),
        ({"equal_scales": (1e-3,)}, "equal_scales"),
        ({"equal_laws": ("paper",) * 3}, "equal_laws"),
    ],
    "context-length": [
        ({"lengths": (64, 32)}, "lengths"),
        ({"lengths": (32,)}, "lengths"),
        ({"lengths": (32, 10**6)}, "too few"),
    ],
    "cycle": [
        ({"stationary": (0.5, 0.6)}, "`stationary` must sum to 1"),
        ({"stationary": (1.0,)}, "`stationary` must have"),
        ({"stationary": (1.5, -0.5)}, "`stationary` must be positive"),
        ({"stay": 1.0}, "`stay`"),
        ({"init_scale": 0.0}, "`init_scale`"),
        ({"lr_attention": 0.0}, "`lr_attention`"),
        ({"seed": -1}, "`seed`"),
        ({"t1": float("nan")}, "`t1`"),
    ],
    "dilution": [
        ({"stays": (0.0, 0.5)}, "paper"),
        ({"even_laws": ("paper",), "even_stays": (0.6,)}, "`laws`"),
        ({"init_scale": 0.2}, "init_scale"),
    ],
    "escape": [
        ({"starts": (3,)}, "`starts`"),
        ({"widths": (2, 4)}, "`widths`"),
        ({"widths": (1, 2)}, "`widths`"),
        ({"scales": (1.0, 1e-3)}, "`scales`"),
    ],
    "focus": [
        ({"stays": (0.3, 0.0, 0.5)}, "zipf-6"),
        ({"zipf_stays": (0.0,)}, "stay 0"),
        ({"random_starts": ("nonsense",)}, "random_starts"),
        ({"init_scales": (1e-3,)}, "init_scales"),
    ],
    "long-contexts": [
        ({"failure_prob": 0.0}, "failure_prob"),
        ({"shortest": 6, "longest": 7}, "longest"),
    ],
    "markov-contexts": [({"lengths": (5, 20)}, "lengths")],
    "next-direction": [
        ({"stays": (0.3, 0.0)}, "stays"),
        ({"asymmetries": (0.01,)}, "asymmetries"),
    ],
    "positional-prior": [
        ({"slopes": (0.1, 0.2, 0.3)}, "`slopes` must"),
        ({"slopes": (0.0, 0.1)}, "`slopes` must"),
        ({"slopes": (0.0, 0.1, 11.0)}, "`slopes` must"),
    ],
    "published-figures": [
        ({"n_queries": ()}, "n_queries"),
        ({"ratios": (0.0,)}, "ratios"),
        ({"seeds": (3, 3)}, "seeds"),
    ],
    "rank-collapse": [({"scales": (1e-3,)}, "`scales`")],
    "saddle": [
        ({"stays": (0.3, 0.0)}, "stays"),
        ({"displacements": (1e-3,)}, "displacements"),
        ({"displacements": (1, 1e-3)}, "displacements"),
    ],
    "scan-then-snap": [({"common_feature": 0.0}, "common_feature")],
    "symmetric-escape": [({"stays": (0.8,)}, "one value for each flow")],
    "text-cycle": [({"texts": ("sotu",)}, "entry for each of 1 texts")],
    "text-entropy": [
        ({"rates": (3.0, 1.0)}, "rates"),
        ({"rates": (1.0,)}, "rates"),
        ({"steps": (6, 6, 6, 3)}, "steps"),
    ],
    "text-fates": [
        ({"repetitions": 0}, "repetitions"),
        ({"queries": 10**6}, "queries"),
    ],
    "text-forecast": [
        ({"texts": ("sotu",), "samples": 2}, "samples"),
        ({"texts": ("sotu",), "seeds": 0}, "seeds"),
    ],
    "text-optimisers": [
        ({"adam_rates": (0.1,)}, "at least two rates"),
        ({"seeds": 0}, "seeds"),
    ],
    "when-it-breaks": [({"ratios": (1.0, 10.0)}, "`ratios` must have one below 1")],
}


@pytest.mark.parametrize(
    ("name", "wrong", "words"), [(name, *row) for name, rows in REFUSED.items() for row in rows]
)
def test_settings_without_an_answer_are_refused(name, wrong, words):
    if name in NEED_TORCH:
        pytest.importorskip("torch")
        pytest.importorskip("tokenizers")
    asked = experiment(name)
    settings = asked.settings(**wrong)
    with pytest.raises(InputError, match=words):
        asked.run(replace(settings, text="sotu") if hasattr(settings, "text") else settings)
