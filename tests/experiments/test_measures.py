"""Headline numbers: the same as in the table or the claims, under names that say which cell they
belong to.
"""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from saccade.experiments import experiment
from saccade.experiments.focus_and_dilution import focus_dilution_cycle
from saccade.lab.protocol import by_cell
from saccade.records.events import Event


def run(name: str, **settings) -> tuple:
    asked = experiment(name)
    record = asked.run(asked.settings(**settings))
    return asked, record, asked.headlines(record)


def test_cells_are_named_by_the_axes_that_have_several_and_diverged_runs_do_not_count() -> None:
    values = np.array([[[1.0, np.nan]], [[2.0, 4.0]], [[np.nan, np.nan]]])
    found = by_cell({"loss": values}, {"ratio": [1.0, 10.0, 0.5], "law": ["paper"]})
    assert list(found) == ["loss, ratio 1", "loss, ratio 10", "loss, ratio 0.5"]
    np.testing.assert_equal(list(found.values()), [1.0, 3.0, np.nan])
    assert by_cell({"loss": values[:1]}, {"ratio": [1.0], "law": ["paper"]}) == {"loss": 1.0}


@pytest.fixture(scope="module")
def cycle() -> tuple:
    return run(
        "focus-dilution-cycle", stationary=(0.75, 0.19, 0.05, 0.01), stay=0.3, t1=500.0, n_times=300
    )


def test_the_cycle_has_the_first_of_its_events(
    cycle: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, record, found = cycle
    rows = asked.files(record)["events.csv"][1]
    for name, kind in (
        ("focus_time", "focus_peak"),
        ("dilution_time", "dilution"),
        ("new_direction_time", "new_direction"),
    ):
        times = [row["time"] for row in rows if row["event"] == kind]
        np.testing.assert_equal(found[name], min(times, default=np.nan))
    table = asked.table(record)
    assert found["highest_attention"] == max(
        row[f"attention_on_frequent_{query}"] for row in table for query in range(4)
    )
    np.testing.assert_allclose(found["excess_loss"], table[-1]["excess_loss"])
    peaks = [Event("focus_peak", query, 10.0 + query, 0.9, 0.1, "") for query in (2, 1)]
    monkeypatch.setattr(
        focus_dilution_cycle,
        "events_of",
        lambda record: [*peaks, Event("new_direction", None, 3.0, 2.0, 0.1, "")],
    )
    again = asked.headlines(record)
    assert (again["focus_time"], again["new_direction_time"], again["n_directions"]) == (
        11.0,
        3.0,
        2.0,
    )
    assert np.isnan(again["dilution_time"])


def test_every_measure_is_a_number(cycle: tuple) -> None:
    _, record, found = cycle
    assert isinstance(record, xr.Dataset)
    assert all(type(value) is float for value in found.values())
