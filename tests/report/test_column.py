"""A figure for a paper: exactly as wide as its column, readable there, in the caller's letters, or
one sentence.
"""

from __future__ import annotations

import re

import pytest
from matplotlib import rc_context

from saccade import InputError
from saccade.report.column import FORMATS, inches, write_figure
from tests.cli.calls import called
from tests.report.test_style import no_room


def size(svg):
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2]
    return float(width), float(height)


@pytest.mark.parametrize(
    "width, points",
    [(3.3, 237.6), ("3.3in", 237.6), ("84mm", 238.11), ("8.4cm", 238.11), ("240pt", 240)],
)
def test_a_figure_is_as_wide_as_asked(results, tmp_path, width, points):
    assert inches(width) * 72 == pytest.approx(points, abs=0.01)
    svg = write_figure(results / "descent", tmp_path / "d.svg", width).read_text()
    assert size(svg)[0] == pytest.approx(points, abs=0.01)


def test_panels_go_below_each_other_and_letters_keep_their_size(results, tmp_path):
    def heights(width, *panels):
        svg = write_figure(results / "descent", tmp_path / "d.svg", width, panels).read_text()
        return size(svg)[1], set(re.findall(r"font-size: ([\d.]+)px", svg))

    tall, letters = heights(3.3)
    assert tall > 2.5 * heights(14.0)[0]
    assert letters == heights(14.0)[1]
    assert heights(3.3, 2)[0] < tall / 2


def test_the_caller_chooses_the_letters(results, tmp_path):
    with rc_context({"font.family": "DejaVu Serif", "font.size": 7}):
        svg = write_figure(results / "descent", tmp_path / "d.svg").read_text()
    assert "DejaVu Serif" in svg
    assert "font-size: 6.3px" in svg


def test_a_pdf_comes_from_the_command_line(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = called(
        "figure", str(results / "descent"), "--width", "3.3in", "--panels", "1", "3"
    )
    assert (code, out) == (0, "figure: descent.pdf\n")
    assert (tmp_path / "descent.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("form", FORMATS)
def test_only_a_figure_that_saccade_drew_is_replaced_unless_the_file_was_named(
    results, tmp_path, monkeypatch, form
):
    monkeypatch.chdir(tmp_path)
    command = ("figure", str(results / "descent"), "--format", form)
    file = tmp_path / f"descent.{form}"
    file.write_text("my own plot")
    code, _, err = called(*command)
    assert (code, file.read_text()) == (2, "my own plot")
    assert f"descent.{form} exists, and `saccade figure` did not draw it" in err
    assert called(*command, "--out", str(file))[0] == 0
    assert called(*command, "--width", "3in") == (0, f"figure: descent.{form}\n", "")


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_a_sentence_and_leaves_the_figure_that_was_there(results, tmp_path, form):
    file = write_figure(results / "descent", tmp_path / f"d.{form}")
    before = file.read_bytes()
    with no_room(4096), pytest.raises(InputError, match=r"cannot write .*too large"):
        write_figure(results / "descent", file)
    assert (file.read_bytes(), len(list(tmp_path.iterdir()))) == (before, 1)


@pytest.mark.parametrize(
    "wrong, says",
    [
        (["descent", "--width", "3.3ft"], "`width` must be a length from 1 to 40 inches"),
        (["descent", "--width", "nan"], "`width` must be a length"),
        (["descent", "--width", "1e9in"], "`width` must be a length"),
        (["descent", "--format", "doc"], "format 'doc' is not known"),
        (["descent", "--panels", "5"], "`panels` must be numbers from 1 to 4; got 5"),
        (
            ["no-such"],
            "there is no result no-such in results or results/own; `saccade reproduce NAME` makes one",
        ),
        (["."], "holds 3 results; name one of them"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(results, tmp_path, monkeypatch, wrong, says):
    monkeypatch.chdir(results)
    code, _, err = called(
        "figure",
        *wrong,
        "--out",
        str(tmp_path / f"x.{wrong[-1] if '--format' in wrong else 'pdf'}"),
    )
    assert code == 2
    assert says in err
    assert not list(tmp_path.iterdir())


def test_a_result_without_panels_has_no_figure(results, tmp_path):
    with pytest.raises(InputError, match="there is no"):
        write_figure(tmp_path / "nothing", tmp_path / "x.pdf")
