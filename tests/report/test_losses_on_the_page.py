"""Losses of all steps of a watched run on its page, and markers of the player, which stand on their
lines.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.records.store import save_record
from saccade.report.notebook import show
from saccade.report.page import write_report
from saccade.report.page_data import page_data
from saccade.report.sources import result_of_record
from saccade.report.specs_watched import watched_figures
from tests.browser import saved_rows, slide
from tests.report.watched_records import small_run, watched_record, with_losses

STILL = {"reduced_motion": "reduce"}


def known(steps):
    """A loss that falls, with a peak at step 37 and noise that is the same at every call."""
    return 4 - 0.3 * np.log1p(steps) + 0.05 * np.sin(1e4 * steps) + 2.0 * (steps == 37)


def loss_of(record):
    (figure,) = (one for one in watched_figures(record) if one["name"] == "loss")
    return figure


def dots_off_their_lines(plot):
    """Of each marker of the player, how many pixels it is away from the line of its colour, at most
    1 apart along it.
    """
    return plot.evaluate(
        """(plot) => [...plot.querySelectorAll(".chart-dot")].map((dot) => {
          const colour = dot.getAttribute("class").match(/fill-(\\d)/)[1];
          const lines = [...plot.querySelectorAll(`svg svg path.chart-stroke-${colour}`)];
          const [x, y] = [Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy"))];
          return Math.min(...lines.flatMap((line) => Array.from({ length: 4000 }, (_, at) => {
            const point = line.getPointAtLength((line.getTotalLength() * at) / 3999);
            return Math.hypot(point.x - x, point.y - y);
          })));
        })"""
    )


def test_of_a_short_run_the_page_draws_the_loss_of_every_step_and_the_player_stays_on_looks(
    visit, tmp_path
):
    record = with_losses(small_run().isel(time=slice(0, 10)), known)
    page = visit(show(record).save(tmp_path / "page.html"), **STILL)
    plot = page.locator('[data-figure="loss"]')
    plot.scroll_into_view_if_needed()
    rows = saved_rows(page, plot)
    steps, losses = (
        np.array([float(row[key]) for row in rows]) for key in ("step, updates", list(rows[0])[-1])
    )
    assert steps.tolist() == list(range(257))
    np.testing.assert_allclose(losses, known(steps), atol=1e-3)
    assert losses[steps == 37] == pytest.approx(
        known(np.array([37])), abs=1e-3
    )  # between two looks
    last = page.locator('[data-player="slider"]').get_attribute("max")
    assert last == str(record.sizes["time"] - 1)


@pytest.mark.parametrize("start, log", [(0, "zero"), (1, True)])
def test_of_a_long_run_real_losses_are_kept_the_lowest_and_highest_among_them(start, log):
    looks = np.unique(np.geomspace(1, 200_000, 17).astype(int))[: 17 - (start == 0)]
    looks = np.append(0, looks) if start == 0 else looks
    record = watched_record(len(looks), 1, 2, 5, n_rows=5).assign_coords(time=looks)
    record = with_losses(record, known)
    figure = loss_of(record)
    steps, shown = figure["time"], figure["values"][:, 0]
    np.testing.assert_array_equal(shown, known(steps))
    assert set(looks) <= set(steps)
    assert len(steps) < 850
    every = known(np.arange(looks[-1] + 1))
    for low, high in ((10, 100), (1000, 10_000), (20_000, looks[-1])):
        here = (steps >= low) & (steps <= high)
        assert shown[here].max() == pytest.approx(every[low : high + 1].max(), abs=0.02)
        assert shown[here].min() == pytest.approx(every[low : high + 1].min(), abs=0.02)
    assert np.diff(steps[steps < 40]).max() == 1  # early steps are wide apart on the axis
    assert figure["log"] == log
    assert f"{len(steps)} of {looks[-1] + 1 - start} steps" in figure["caption"]


def test_the_losses_of_a_hundred_thousand_steps_cost_a_page_little():
    looks = np.append(0, 2 ** np.arange(18))
    record = watched_record(len(looks), 1, 1, 5, n_rows=5).assign_coords(time=looks)
    sizes = [
        len("".join(page_data([result_of_record(one)], [], [])))
        for one in (record, with_losses(record, known))
    ]
    assert sizes[1] - sizes[0] < 20_000


def test_the_figure_for_print_has_the_axis_of_the_looks():
    record = with_losses(small_run().isel(time=slice(0, 10)), known)
    (ticks,) = (axes.get_xscale() for axes in record.saccade.figure("loss").axes)
    assert ticks == "symlog"


def test_markers_stand_on_their_lines_between_looks_and_at_the_end_of_a_run_that_is_over(
    visit, tmp_path
):
    dense = with_losses(small_run(), known)
    steps = ("time", np.array([0, 1, 2, 300]), dense.time.attrs)
    sparse = with_losses(
        small_run().isel(time=[0, 1, 2, -1]).assign_coords(time=steps),
        lambda steps: 1 + known(steps),
    )
    for name, record in (("dense", dense), ("sparse", sparse)):
        save_record(record, tmp_path / f"{name}.zarr")
    page = visit(
        write_report([tmp_path / "sparse.zarr", tmp_path / "dense.zarr"], tmp_path / "page.html"),
        **STILL,
    )
    for place, step in ((4, 8), (6, 32), (16, 2000)):
        slide(page, place)
        assert page.locator('[data-player="readout"]').inner_text() == str(step)
        for title in ("Entropy over log", "Loss of every step"):
            plot = page.locator("#overlay figure", has_text=title)
            off = dots_off_their_lines(plot)
            assert len(off) == 2
            assert max(off) < 1.5
    ends = (
        page.locator("#overlay figure", has_text="Entropy")
        .locator(".chart-dot")
        .evaluate_all("all => all.map((one) => Number(one.getAttribute('cx')))")
    )
    assert ends[0] < ends[1] - 20  # the sparse run was over at step 300
