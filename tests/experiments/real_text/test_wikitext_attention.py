"""Sparsity on WikiText: a small run from end to end, and claims that see the opposite."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.errors import InputError
from saccade.experiments.real_text import runs
from saccade.experiments.real_text import wikitext_attention as experiment
from saccade.records.claim import FAILS, HOLDS, OUTSIDE

SMALL = experiment.Config(text="sotu", n_vocab=97, layers=(1, 2), iterations=(0, 3, 5), every=2, batch=3, context=11, n_windows=5)


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_cores", lambda: 1)  # starting processes would take longer than the runs
        return experiment.run(SMALL)


def test_a_run_has_maps_and_numbers_at_all_looks(record: xr.Dataset) -> None:
    assert record.time.values.tolist() == [0, 2, 3, 4, 5]
    assert record.lowest_map.shape == (2, 1, 5, 11, 11)
    np.testing.assert_allclose(record.lowest_map.sum("key_position"), 1, atol=1e-5)
    assert np.isfinite(record.relative_entropy).all()
    assert len(experiment.table(record)) == 2 * 5


def test_the_figure_shows_a_map_for_each_iteration_and_depth(record: xr.Dataset) -> None:
    images = [axes for axes in experiment.figure(record).axes if axes.images and axes.images[0].get_array().shape == (11, 11)]
    assert len(images) == 2 * 3


def test_too_few_updates_neither_confirm_nor_refute(record: xr.Dataset) -> None:
    assert {claim.verdict for claim in experiment.claims(record)} == {OUTSIDE}


def fabricated(relative_entropy: list[float], self_mass: list[float]) -> xr.Dataset:
    """One layer, one seed, looks at 0 and 1500; rows with entropy e have 1 - e on the largest key and 1 + 10 e keys that matter."""
    e = np.array(relative_entropy)
    measured = {"relative_entropy": e, "top_mass": 1 - e, "effective_keys": 1 + 10 * e, "self_mass": np.array(self_mass)}
    variables = {name: (("n_layers", "seed", "time"), values[None, None]) for name, values in measured.items()}
    return xr.Dataset(
        variables, {"n_layers": [1], "seed": [0], "time": [0, 1500]}, {"config": json.dumps(asdict(experiment.Config()))}
    )


def test_attention_that_becomes_sparse_off_the_diagonal_confirms_every_claim() -> None:
    assert {claim.verdict for claim in experiment.claims(fabricated([0.97, 0.2], [0.1, 0.1]))} == {HOLDS}


def test_attention_that_spreads_out_refutes_every_claim_of_sparsity() -> None:
    verdicts = [claim.verdict for claim in experiment.claims(fabricated([0.6, 0.9], [0.1, 0.1]))]
    assert verdicts.count(FAILS) == 4
    assert verdicts.count(HOLDS) == 1


def test_attention_on_the_diagonal_refutes_that_most_is_off_it() -> None:
    failed = [claim.statement for claim in experiment.claims(fabricated([0.97, 0.2], [0.1, 0.8])) if claim.verdict == FAILS]
    assert len(failed) == 1
    assert "diagonal" in failed[0]


@pytest.mark.parametrize("iterations", [(0,), (10, 20), (0, 20, 10)])
def test_iterations_that_do_not_rise_from_zero_are_refused(iterations: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="iterations"):
        experiment.run(experiment.Config(text="sotu", iterations=iterations))
