"""Figures on disk: whole, or as they were."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from saccade import InputError
from saccade.panels import Bars, Line, Lines, specs
from saccade.report.drawn import draw_panels
from saccade.report.style import save_figure

_BARS = Bars("bars", "place", "height", ["first", "second"], {"a": [1.0, 2.0], "b": [3.0, 1.0]})


@contextmanager
def no_room(n_bytes: int) -> Iterator[None]:
    """No file can become longer, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_figure_that_cannot_be_written_leaves_the_one_that_was_there(tmp_path):
    figure = Figure(figsize=(2, 1), layout="constrained")
    save_figure(figure, tmp_path / "figure")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"figure.svg", "figure.png"}
    with no_room(100), pytest.raises(InputError, match="cannot write"):
        save_figure(figure, tmp_path / "figure")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_ticks_that_are_placed_once_are_where_matplotlib_puts_them(tmp_path):
    lines = [Line([1, 10, 3000], [0.2, 5, 40], "one"), Line([2, 200], [0.3, 7], "other")]
    panels = [
        Lines("powers", "t", "growth", lines, "xy"),
        Lines("plain", "t", "growth", lines),
        _BARS,
    ]
    save_figure(
        draw_panels(specs(panels), 6.0, 2.5), tmp_path / "ours"
    )  # so small that the layout leaves room for fewer ticks
    plain = draw_panels(specs(panels), 6.0, 2.5)
    plain.get_layout_engine().execute(plain)
    plain.set_layout_engine(None)
    with rc_context({"svg.hashsalt": "saccade"}):
        plain.savefig(tmp_path / "plain.svg", metadata={"Date": None})
    plain.savefig(tmp_path / "plain.png", dpi=150)
    for kind in ("svg", "png"):
        assert (tmp_path / f"ours.{kind}").read_bytes() == (tmp_path / f"plain.{kind}").read_bytes()
