"""The published experiment: what is read off a run, against plain computations."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade import InputError
from saccade.dynamics.embedded_descent import contexts, distinct
from saccade.experiments.focus_and_dilution import focus_dilution_published as published
from saccade.experiments.focus_and_dilution.focus_dilution_published import EXPERIMENT, Settings
from saccade.experiments.focus_and_dilution.published_events import EVENTS, PEAK, Path
from saccade.lab.claim import OUTSIDE
from saccade.model.embedded import Weights
from tests.experiments.default_runs import record_of

CHAIN = saccade.MarkovChain.paper(0.8)


@pytest.fixture(scope="module")
def small():
    return record_of("focus-dilution-published", steps=60, short=20, width=12, sequences=300, batch=50, seeds=2, lr=5e-3)


def path(**changed) -> Path:
    """Attention of all queries on token 0 rises to step 20 and leaves from step 30 on, the second query first."""
    time = np.arange(0, 60, 10)
    on_first = np.array(
        [[0.75] * 4, [0.9, 0.85, 0.85, 0.85], [1, 0.99, 0.98, 0.99], [1, 0.05, 0.9, 0.9], [1, 0, 0, 0.9], [1, 0, 0, 0]]
    )
    norms = np.array([[1, 1, 1, 1], [2, 2, 2, 2], [2, 0.5, 2, 2], [2, 0.3, 1, 2], [2, 0.9, 0.4, 1], [2, 1.5, 0.9, 0.2]])
    grown = np.linspace(0, 1, 6)
    return Path(time, 0.75, on_first, 1 - grown, norms, np.outer(grown, [0, 1, 0.8, 0.2]), grown, grown)._replace(**changed)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("all queries above 0.8 on token 0", 10),
        (PEAK, 20),
        ("least attention on token 0 at the peak", 0.98),
        ("loss at the peak", 0.6),
        ("query 1 back below the share of token 0", 30),
        ("query 2 below 0.1 on token 0", 40),
        ("query 3 below 0.1 on token 0", 50),
        ("row 1 of the embedding smallest after the focus", 30),
        ("norm of row 2 when smallest", 0.4),
        ("σ₂ above 0.5 σ₁ after the focus", 30),
        ("row 1 off the direction of row 0 by 0.3", 30),
        ("row 2 longer than 1", np.nan),
    ],
)
def test_events_are_read_at_the_step_where_they_happen(what, expected):
    np.testing.assert_allclose(EVENTS[what].read(path()), expected)


def test_the_loss_by_last_token_is_the_mean_over_the_sequences_that_end_with_it():
    rng = np.random.default_rng(0)
    weights = Weights(*(rng.standard_normal(shape) for shape in ((4, 5), (5, 5), (5, 5), (5, 4))))
    found = contexts(CHAIN, 0, 400, 7)
    logits = weights.embedding @ weights.query @ (weights.embedding @ weights.key).T
    losses = []
    for counts, last, target in zip(*found, strict=True):
        attention = counts * np.exp(logits[last])
        expect = np.exp(attention / attention.sum() @ weights.embedding @ weights.projection)
        losses.append(-np.log(expect[target] / expect.sum()))
    plain = [np.mean(np.array(losses)[found.last_token == token]) for token in range(4)]
    np.testing.assert_allclose(published._group_loss(weights, distinct(found)), plain, rtol=2e-6)


def test_the_first_direction_of_a_matrix_has_the_share_that_its_singular_values_say():
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((30, 30)) + 4 * np.outer(rng.standard_normal(30), rng.standard_normal(30))
    values = np.linalg.svd(matrix, compute_uv=False)
    assert published._top_share(matrix) == pytest.approx(values[0] ** 2 / np.sum(values**2), rel=1e-9)


def test_the_part_off_the_first_embedding_is_none_of_its_own(small):
    np.testing.assert_allclose(small.off_first.isel(token=0), 0, atol=1e-6)
    assert (small.off_first <= small.row_norm + 1e-6).all()
    assert small.off_first.isel(token=1).min() > 1e-3


def test_other_settings_are_outside_the_claims(small):
    assert {claim.verdict for claim in EXPERIMENT.claims(small)} == {OUTSIDE}


def test_a_law_of_three_tokens_is_refused():
    with pytest.raises(InputError, match="at least four tokens"):
        EXPERIMENT.run(Settings(stationary=(0.5, 0.3, 0.2)))
