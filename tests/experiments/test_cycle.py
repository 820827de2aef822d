"""The whole cycle: its events as a file and as numbers, and settings where theory says nothing."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from saccade.cli import main
from saccade.experiments.focus_and_dilution.cycle import cycle
from saccade.lab.claim import HOLDS, UNMET

PAPER = {"stationary": (0.75, 0.19, 0.05, 0.01), "stay": 0.3, "n_chains": 0}


def test_numbers_are_the_first_of_their_events():
    found = cycle.run(cycle.settings(**PAPER, t1=500.0, n_times=300))
    for name, kind in (
        ("focus_time", "focus_peak"),
        ("dilution_time", "dilution"),
        ("new_direction_time", "new_direction"),
    ):
        times = [row["time"] for row in found.tables["events"] if row["event"] == kind]
        np.testing.assert_equal(found.extra_numbers[name], min(times, default=np.nan))
    highest = found.record.attention.isel(token=0).max()
    assert found.extra_numbers["highest_attention"] == highest


def test_other_frequencies_keep_the_order_of_stages():
    found = cycle.run(cycle.settings(**PAPER, t1=3000.0))
    (seven,) = (claim for claim in found.claims if claim.title.startswith("stages seen"))
    assert (seven.measured, seven.verdict) == (7, UNMET)  # decided for the usual frequencies only
    assert {claim.verdict for claim in found.claims if claim is not seven} == {HOLDS}


@pytest.mark.parametrize(
    "settings", [{"stationary": (0.25,) * 4}, {"init_scale": 1.0}, {"t1": 1e-6, "n_times": 3}]
)
def test_where_theory_has_nothing_to_follow_the_run_stands_alone(settings):
    found = cycle.run(cycle.settings(**{"t1": 5.0, "n_times": 150, "n_chains": 0} | settings))
    assert found.record.theory_attention.shape == found.record.attention.shape
    assert "7 of 7" not in found.answer


def test_the_command_takes_frequencies_in_any_order_and_writes_its_events(tmp_path, capsys):
    law = ["--stationary", "0.05", "0.75", "0.01", "0.19", "--stay", "0.3", "--n-chains", "0"]
    short = ["--init-scale", "1e-2", "--t1", "300", "--seed", "5", "--n-times", "400"]
    assert main(["run", "cycle", *law, *short, "--out", str(tmp_path)]) == 0
    with (tmp_path / "cycle" / "events.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # the second most frequent token turns; the most frequent is token 1
    assert {row["query"] for row in rows if row["event"] == "focus_peak"} == {"3"}
    times = [float(row["time"]) for row in rows]
    assert times == sorted(times)
    capsys.readouterr()
