"""The page of a run on the windows of a text begins with the words that gain attention."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.records.schema import make_record
from saccade.report.notebook import show
from saccade.report.specs import figures
from tests.browser import expect, has_text

WORDS = [f"word{place}" for place in range(11)]
QUERIES = WORDS[:3]


@pytest.fixture(scope="module")
def record():
    """Attention as softmax of logits that grow evenly, another way for each query; words 0 and 10
    change most.
    """
    rng = np.random.default_rng(3)
    slope = rng.normal(0, 0.05, (len(QUERIES), len(WORDS)))
    slope[:, [0, 10]] = [1.5, -1.0]
    share = rng.uniform(0.5, 1.5, slope.shape)
    times = np.arange(5)
    weight = share * np.exp(slope * times[:, None, None])
    return make_record(
        dynamics="A: training on all windows",
        variables={
            "attention": (("time", "query", "token"), weight / weight.sum(axis=-1, keepdims=True)),
            "loss": ("time", np.linspace(6, 5, 5)),
            "token_count": (("query", "token"), share * 1000),
        },
        coords={"time": times, "query": QUERIES, "token": WORDS},
        time_unit="updates",
        config={"task": "a-text-windows"},
        wall_time=1.0,
        definitions={
            "attention": ("1", "attention of the query on each token, mean over its windows"),
            "token_count": ("1", "how often each token occurs in the contexts of the query"),
        },
    )


def test_gains_are_attention_over_that_at_the_start_for_each_query(record):
    first = figures(record)[0]
    assert first["title"] == "Which words gain attention"
    assert first["choices"] == [{"axis": "query", "labels": QUERIES}]
    assert {"word0", "word10"} <= set(first["names"][0])
    assert len(first["names"][0]) == 8
    chosen = record.attention.sel(token=first["names"][0])
    truth = (chosen / chosen.isel(time=0)).transpose("query", "time", "token").values
    np.testing.assert_allclose(first["values"], truth, rtol=1e-12)
    assert "the 8 of 11 words" in first["caption"]


def test_a_word_that_had_no_attention_has_no_gain_and_one_moment_shows_none(record):
    none_at_first = record.copy(deep=True)
    none_at_first.attention[0, 1, 0] = 0
    first = figures(none_at_first)[0]
    assert np.isnan(first["values"][1, :, first["names"][0].index("word0")]).all()
    assert "word_gain" not in [figure["name"] for figure in figures(record.isel(time=[0]))]
    assert "word_gain" not in [
        figure["name"] for figure in figures(record.drop_vars("token_count"))
    ]


def test_the_page_says_in_sentences_what_it_shows_and_shows_it_once(visit, record, tmp_path):
    page = visit(show(record).save(tmp_path / "page.html"))
    has_text(page.locator(".asked"), "a-text-windows: training on all windows.")
    page.locator('[data-figure="loss"] .chart-save-button').first.wait_for()
    titles = page.locator(".chart-title").all_inner_texts()
    assert titles[0] == "Which words gain attention"
    assert titles.count("Loss") == 1
    said = page.locator('[data-figure="loss"] .chart-caption').inner_text()
    assert (
        said
        == "Loss of the batch about to be learned from; without batches, of the population. A cross-entropy if in nats."
    )
    before = page.locator('[data-figure="word_gain"] path.chart-line').nth(9).get_attribute("d")
    page.locator(".controls select").first.select_option(label="word2")
    expect(page.locator('[data-figure="word_gain"] path.chart-line').nth(9)).not_to_have_attribute(
        "d", before
    )
