"""The report over a folder of results: it asks the network for nothing, shows every claim, and
passes over what is not its own.
"""

from __future__ import annotations

import re

import xarray as xr
from matplotlib.figure import Figure

from saccade import load_record
from tests.cli.calls import QUICK, SHORT, called, one_sentence, strictly


def requests(page: str) -> list[str]:
    """Addresses that a browser would fetch when it opens the page."""
    attribute = r"""(?:src|href|srcset|action|data|poster)\s*=\s*["']?([^"'\s>]+)"""
    found = (
        re.findall(attribute, page)
        + re.findall(r"""url\(\s*["']?([^"')]+)""", page)
        + re.findall(r"@import\s+(\S+)", page)
    )
    return [address for address in found if not address.startswith(("#", "data:"))]


def test_the_report_asks_the_network_for_nothing(reproduced, own):
    for tag in (
        '<script src="https://x.org/a.js">',
        "<link href=http://x.org/a.css>",
        "<style>@import 'http://x'; a{}</style>",
    ):
        assert requests(tag)
    assert requests(
        '<p style="background:url(https://x.org/a.png)"><svg><use xlink:href="#a"/></svg>'
    ) == ["https://x.org/a.png"]
    for out in (reproduced[0], own[0]):
        page = (out / "report.html").read_text("utf-8")
        assert requests(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)) == []
        assert (
            "default-src 'none'" in page
        )  # what its script may do is tried in a browser, in tests/report


def tiles(page: str) -> dict[str, int]:
    """How many claims came out in which way, as the head of a page counts them; ways that no claim
    took are left out.
    """
    found = re.findall(
        r'<button type="button" class="tile [^>]*><b>(\d+)</b> ([^<]*)</button>', page
    )
    return {words: int(count) for count, words in found if count != "0"}


def test_the_report_shows_every_claim_and_figure_of_the_folder(reproduced):
    page = (reproduced[0] / "report.html").read_text("utf-8")
    claims = strictly((reproduced[0] / "first-force" / "claims.json").read_text())
    assert all(claim["title"] in page for claim in claims)
    assert page.count('<section class="result"') == 1
    controls = sum(bool(claim["breaks"]) for claim in claims)
    fail = {"controls fail, as they must": controls}
    assert tiles(page) == {"hold": len(claims) - controls} | fail
    assert "saccade reproduce first-force" in page


def damaged(own, out):
    """Two results, of which one has a flipped bit in its record."""
    from shutil import copytree

    copytree(own[0] / "quick", out / "quick")
    copytree(own[0] / "quick", out / "whole")
    chunk = out / "quick" / "record.zarr" / "drawn" / "0"
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 4
    chunk.write_bytes(bytes(content))
    return chunk.parents[1]


def test_a_damaged_record_is_named_and_the_page_is_made_of_the_others(own, tmp_path):
    record = damaged(own, tmp_path / "results")
    code, printed, err = called("report", tmp_path / "results", "--out", tmp_path / "page.html")
    assert (code, printed) == (1, f"report: {tmp_path / 'page.html'}\n")
    assert one_sentence(err)
    assert (
        f"{record.parent}: record.zarr/drawn/0 is not what was written; the page shows the rest."
        in err
    )
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count('class="card result"') == 2
    assert "record.zarr/drawn/0 is not what was written" in page


def test_a_damaged_record_is_run_again_to_the_same_numbers(own, tmp_path):
    record = damaged(own, tmp_path / "results")
    code, printed, _ = called("check", tmp_path / "results")
    assert (code, "--repair reruns it" in printed) == (1, True)
    assert printed.endswith("1 of 2 records are intact\n")
    code, printed, _ = called("check", tmp_path / "results", "--repair", "--file", QUICK)
    assert (code, "it has been run again\n2 of 2 records are intact\n" in printed) == (0, True), (
        printed
    )
    xr.testing.assert_equal(
        load_record(record), load_record(tmp_path / "results" / "whole" / "record.zarr")
    )
    about = [
        strictly((record.parent.parent / name / "about.json").read_text())
        for name in ("quick", "whole")
    ]
    assert about[0]["command"] == about[1]["command"]
    assert about[0]["settings"] == about[1]["settings"]


def test_a_damaged_record_that_does_not_say_how_it_was_made_stays_damaged(own, tmp_path):
    record = damaged(own, tmp_path / "results")
    (record.parent / "about.json").unlink()
    code, printed, _ = called("check", tmp_path / "results", "--repair", "--file", QUICK)
    assert (code, "since about.json is lost" in printed) == (1, True)


def test_leftovers_of_a_killed_process_are_not_in_the_report(own, tmp_path):
    from shutil import copytree

    from saccade.report.page import write_page

    copytree(own[0], tmp_path, dirs_exist_ok=True)
    for ending in ("unfinished", "replaced"):
        copytree(tmp_path / "quick", tmp_path / f".quick.0123abcd.{ending}")
    page = write_page(tmp_path).read_text("utf-8")
    assert page.count('<section class="result"') == 1


def test_other_folders_beside_the_results_do_no_harm(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "about.json").write_text("{}")
    (tmp_path / "yours").mkdir()
    (tmp_path / "yours" / "about.json").write_text("not JSON")
    code, printed, err = called(*SHORT, "--out", tmp_path)
    assert code in (0, 1), err
    assert "report.html" in printed


def test_the_same_figure_is_the_same_bytes(tmp_path):
    from saccade.report.style import save_figure

    for name in ("a", "b"):
        figure = Figure(figsize=(3, 2), layout="constrained")
        axes = figure.subplots()
        axes.plot([1, 2, 5], "o-")  # markers and clip paths get identifiers
        save_figure(figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
