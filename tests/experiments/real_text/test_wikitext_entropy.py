"""Entropy against the rate: a small run from end to end, and claims that see the opposite."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.errors import InputError
from saccade.experiments.real_text.wikitext_entropy import EXPERIMENT, Settings, at_equal_distance
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE, Claim
from saccade.observe.fits import interval
from tests.experiments.default_runs import record_of

SMALL = {
    "texts": ("sotu",),
    "n_vocab": 97,
    "rates": (1.0, 3.0),
    "seeds": 1,
    "steps": 5,
    "n_looks": 2,
    "batch": 3,
    "context": 11,
}


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        return record_of("wikitext-entropy", **SMALL)


def test_runs_differ_by_their_rate_alone(record: xr.Dataset) -> None:
    start, end = record.entropy.isel(time=0), record.entropy.isel(time=-1)
    assert float(start.sel(lr=1.0)[0, 0]) == float(start.sel(lr=3.0)[0, 0])
    assert float(end.sel(lr=1.0)[0, 0]) != float(end.sel(lr=3.0)[0, 0])


def test_table_and_figure_hold_every_run(record: xr.Dataset) -> None:
    rows = EXPERIMENT.rows(record)
    assert [(row["lr"], row["time"]) for row in rows] == [
        (lr, time) for lr in (1, 3) for time in (0, 2, 5)
    ]
    assert [row["entropy"] for row in rows] == pytest.approx(record.entropy.values.ravel())
    assert {row["n_seeds"] for row in rows} == {1}
    ((final, over_updates),) = EXPERIMENT.panels(record)
    assert final.lines[1].y.values == pytest.approx(record.entropy.values[0, :, 0, -1])
    assert [line.y[-1] for line in over_updates.lines] == pytest.approx(final.lines[1].y.values)
    EXPERIMENT.figure(record)


def test_a_single_seed_neither_confirms_nor_refutes(record: xr.Dataset) -> None:
    assert {claim.verdict for claim in EXPERIMENT.claims(record)} <= {OUTSIDE, CANNOT_TELL}


def test_curves_of_rate_times_updates_alone_are_equal_at_equal_distance() -> None:
    rates, steps = np.array([1.0, 2.0, 5.0]), np.arange(0, 301, 30)
    entropy = 2.5 - 0.001 * rates[:, None, None] * steps + np.array([0.0, 0.1])[:, None]
    record = xr.Dataset(
        {"entropy": (("lr", "seed", "time"), entropy)}, {"lr": rates, "seed": [0, 1], "time": steps}
    )
    np.testing.assert_allclose(at_equal_distance(record), [[2.2, 2.3]] * 3)


def claims_of(by_rate: list[float]) -> list[Claim]:
    """Three seeds a hundredth of a nat apart, one text, the end alone."""
    entropy = np.array(by_rate)[:, None] + np.array([-0.01, 0.0, 0.01])
    coords = {
        "text": ["sotu"],
        "lr": np.linspace(1, 5, len(by_rate)),
        "seed": [0, 1, 2],
        "time": [300],
    }
    return list(
        EXPERIMENT.claims(
            xr.Dataset(
                {"entropy": (("text", "lr", "seed", "time"), entropy[None, :, :, None])}, coords
            )
        )
    )


def test_entropy_that_falls_with_the_rate_confirms_every_claim() -> None:
    assert [claim.verdict for claim in claims_of([2.0, 1.5, 1.1, 0.7, 0.5])] == [HOLDS] * 5


def test_entropy_that_rises_with_the_rate_refutes_every_claim() -> None:
    assert [claim.verdict for claim in claims_of([0.5, 0.7, 1.1, 1.5, 2.0])] == [FAILS] * 5


def test_two_rates_are_enough_for_an_answer() -> None:
    """Rank correlation needs three: with two it is missing, and a missing number must not count as
    an exception.
    """
    assert [claim.verdict for claim in claims_of([2.0, 0.5])] == [HOLDS] * 4
    assert [claim.verdict for claim in claims_of([0.5, 2.0])] == [FAILS] * 4


def test_one_pair_out_of_order_refutes_the_order_but_not_the_trend() -> None:
    order, *trend, _, fall = claims_of([2.0, 1.5, 0.7, 1.1, 0.5])
    assert order.measured == 1
    assert order.verdict == FAILS
    assert [claim.verdict for claim in (*trend, fall)] == [HOLDS] * 3


def test_the_fall_of_entropy_has_its_interval_over_seeds() -> None:
    by_seed = np.array([[2.0, 2.1, 2.2], [1.0, 1.3, 1.6]])
    coords = {"text": ["sotu"], "lr": [1.0, 5.0], "seed": [0, 1, 2], "time": [300]}
    record = xr.Dataset(
        {"entropy": (("text", "lr", "seed", "time"), by_seed[None, :, :, None])}, coords
    )
    *_, fall = EXPERIMENT.claims(record)
    assert fall.measured == pytest.approx(interval(by_seed[0] - by_seed[1]))
    assert fall.measured.low < fall.measured.mean == pytest.approx(0.8)


def test_a_rate_at_which_all_seeds_diverged_is_an_exception() -> None:
    order, last, *_ = claims_of([2.0, 1.5, 1.1, 0.7, np.nan])
    assert order.measured == 1
    assert last.measured == last.relation.among
    assert last.verdict == FAILS


@pytest.mark.parametrize("rates", [(1.0,), (3.0, 1.0)])
def test_rates_that_do_not_rise_are_refused(rates: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="rates"):
        EXPERIMENT.run(Settings(texts=("sotu",), rates=rates))
