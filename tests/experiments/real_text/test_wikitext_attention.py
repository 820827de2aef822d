"""Sparsity on WikiText: a small run from end to end, and claims that see the opposite."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.errors import InputError
from saccade.experiments.real_text.wikitext_attention import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE, Claim
from saccade.lab.panel import Heat
from saccade.records.schema import with_settings
from tests.experiments.default_runs import record_of

SMALL = {
    "text": "sotu",
    "n_vocab": 97,
    "layers": (1, 2),
    "iterations": (0, 3, 5),
    "every": 2,
    "batch": 3,
    "context": 11,
}


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        return record_of("wikitext-attention", **SMALL)


def test_a_run_has_maps_and_numbers_at_all_looks(record: xr.Dataset) -> None:
    assert record.time.values.tolist() == [0, 2, 3, 4, 5]
    assert record.lowest_map.shape == (2, 2, 5, 11, 11)
    np.testing.assert_allclose(record.lowest_map.sum("key_position"), 1, atol=1e-5)
    assert np.isfinite(record.relative_entropy).all()
    assert [(row["n_layers"], row["time"]) for row in EXPERIMENT.rows(record)] == [
        (n, t) for n in (1, 2) for t in (0, 2, 3, 4, 5)
    ]


def test_the_figure_shows_a_map_for_each_iteration_and_depth(record: xr.Dataset) -> None:
    for row, depth in zip(EXPERIMENT.panels(record), (1, 2), strict=True):
        maps = [panel.values for panel in row if isinstance(panel, Heat)]
        np.testing.assert_array_equal(
            maps, record.lowest_map.sel(n_layers=depth, time=[0, 3, 5]).isel(seed=0)
        )
    EXPERIMENT.figure(record)


def test_too_few_updates_neither_confirm_nor_refute(record: xr.Dataset) -> None:
    claims = list(EXPERIMENT.claims(record))
    assert HOLDS not in {claim.verdict for claim in claims}
    assert FAILS not in {claim.verdict for claim in claims}
    assert OUTSIDE in {claim.verdict for claim in claims}


def claims_of(relative_entropy: list[float], self_mass: list[float]) -> list[Claim]:
    """One layer, two equal seeds, looks at 0 and 1500; rows of entropy e: 1 - e on the largest key,
    1 + 10 e keys that matter.
    """
    e = np.array(relative_entropy)
    measured = {
        "relative_entropy": e,
        "top_mass": 1 - e,
        "effective_keys": 1 + 10 * e,
        "self_mass": np.array(self_mass),
    }
    variables = {
        name: (("n_layers", "seed", "time"), np.stack([values, values])[None])
        for name, values in measured.items()
    }
    record = xr.Dataset(variables, {"n_layers": [1], "seed": [0, 1], "time": [0, 1500]})
    return list(EXPERIMENT.claims(with_settings(record, Settings())))


def test_attention_that_becomes_sparse_off_the_diagonal_confirms_every_claim() -> None:
    assert {claim.verdict for claim in claims_of([0.97, 0.2], [0.1, 0.1])} == {HOLDS}


def test_attention_that_spreads_out_refutes_every_claim_of_sparsity() -> None:
    verdicts = [claim.verdict for claim in claims_of([0.6, 0.9], [0.1, 0.1])]
    assert verdicts.count(FAILS) == 4
    assert verdicts.count(HOLDS) == 1


def test_attention_on_the_diagonal_refutes_that_most_is_off_it() -> None:
    failed = [claim.title for claim in claims_of([0.97, 0.2], [0.1, 0.8]) if claim.verdict == FAILS]
    assert len(failed) == 1
    assert "diagonal" in failed[0]


@pytest.mark.parametrize("iterations", [(0,), (10, 20), (0, 20, 10)])
def test_iterations_that_do_not_rise_from_zero_are_refused(iterations: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="iterations"):
        EXPERIMENT.run(Settings(text="sotu", iterations=iterations))
