"""Figures on disk: whole, or as they were."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from saccade import InputError
from saccade.report.style import save_figure


def test_a_figure_that_cannot_be_written_leaves_the_one_that_was_there(tmp_path, monkeypatch):
    figure = Figure(figsize=(2, 1), layout="constrained")
    save_figure(figure, tmp_path / "figure")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"figure.svg", "figure.png"}

    def full_disk(file, **options):
        file.write(b"half a fig")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", full_disk)
    with pytest.raises(InputError, match="No space"):
        save_figure(figure, tmp_path / "figure")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
