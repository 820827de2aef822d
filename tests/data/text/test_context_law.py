"""Contexts are counted as by hand; classes with known distinct and common tokens are found again in
their own text.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.context_law import ContextLaw
from saccade.data.text.corpus import corpus
from saccade.errors import InputError

WINDOW = 13


def corpus_of(words, tmp_path, name="text"):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "train.txt").write_text(" ".join(words))
    (folder / "valid.txt").write_text(" ".join(words[:7]))
    return corpus(folder, cache=tmp_path / "cache")


def text_of(task: SequenceClasses, n: int, rng) -> list[str]:
    """Sequences of the task, one after the other: WINDOW context tokens, the query, the next token."""
    words = []
    for which in rng.choice(task.n_classes, n, p=task.class_weight):
        context = rng.choice(task.n_vocab, WINDOW, p=task.token_prob[which])
        words += [f"t{token}" for token in (*context, task.query[which], task.next_token[which])]
    return words


def test_contexts_are_counted_as_by_hand_around_the_ring(tmp_path):
    words = [f"v{word}" for word in np.random.default_rng(5).zipf(1.7, 1009) % 17]
    found = corpus_of(words, tmp_path)
    query = found.vocabulary[1]
    law = found.context_law(query, window=7, n_next=3)
    n = len(words)
    count: Counter = Counter()
    for i, word in enumerate(words):
        if word == query:
            count.update((words[(i + 1) % n], words[(i - back) % n]) for back in range(1, 8))
    for row, following in enumerate(law.next_tokens):
        by_hand = [count[found.vocabulary[following], word] for word in found.vocabulary]
        assert law.count[row].tolist() == by_hand
    follow = Counter(words[(i + 1) % n] for i, word in enumerate(words) if word == query)
    assert law.next_share == pytest.approx(
        np.array(sorted(follow.values())[::-1][:3]) / words.count(query)
    )
    assert law.context.sum(axis=1) == pytest.approx(np.ones(3))


def test_distinct_and_common_tokens_of_known_classes_are_found_in_their_text(tmp_path):
    task = SequenceClasses.syn_medium(1)
    found = corpus_of(text_of(task, 3001, np.random.default_rng(3)), tmp_path)
    law = found.context_law(f"t{task.query[0]}", window=WINDOW, n_next=2)
    order = [
        next(n for n in range(2) if found.vocabulary[token] == f"t{task.next_token[n]}")
        for token in law.next_tokens
    ]
    ids = [found.id_of(f"t{token}") for token in range(task.query[0])]
    known = slice(0, task.query[0])
    assert (law.distinct()[:, ids] == task.distinct[order, known]).all()
    assert (law.common()[ids] == task.common[known]).all()
    error = np.abs(law.context[:, ids] - task.token_prob[order, known])
    assert error.max() < 5 * np.sqrt(
        0.1 / (1500 * WINDOW)
    )  # five standard errors of a share of a tenth


def test_shuffled_text_has_hardly_any_distinct_tokens(tmp_path):
    """Without order nothing is distinct. By two standard errors of a share of one half, less than 1
    in 40 would be by chance.
    """
    rng = np.random.default_rng(7)
    words = [f"v{word}" for word in np.minimum(rng.zipf(1.3, 60_013), 997)]
    found = corpus_of(words, tmp_path)
    law = found.context_law(1, window=WINDOW, n_next=5)
    seen = law.count.sum(axis=0) > 0
    assert law.distinct()[:, seen].any(axis=0).mean() < 1 / 40
    assert law.common()[:3].all()


def test_a_token_is_never_both_and_distinct_for_one_next_token_only():
    rng = np.random.default_rng(11)
    count = rng.negative_binomial(0.5, 0.02, (5, 997)) + 1
    law = ContextLaw(0, 3, np.arange(5), np.full(5, 0.2), count)
    assert law.distinct(errors=0).sum(axis=0).max() == 1
    assert not (law.distinct(errors=0).any(axis=0) & law.common(factor=1.5, errors=0)).any()
    assert law.distinct().sum() < law.distinct(errors=0).sum()
    assert (law.concentration.max(axis=0)[law.distinct(errors=0).any(axis=0)] > 0.5).all()


def test_a_token_seen_with_one_next_token_only_is_distinct_from_six_times_on():
    """Two standard errors of counts c and 0, each of variance count + 1: c/2 > sqrt(c + 2)."""
    count = np.array([[5, 6, 989], [0, 0, 1000]])
    law = ContextLaw(0, 3, np.arange(2), np.full(2, 0.5), count)
    assert law.distinct(errors=2).tolist() == [[False, True, False], [False, False, False]]


def test_classes_are_pairs_with_their_context_law(tmp_path):
    task = SequenceClasses.syn_medium(3)
    found = corpus_of(text_of(task, 2003, np.random.default_rng(13)), tmp_path)
    queries = [f"t{query}" for query in task.query[::2]]
    classes = found.classes(queries, window=WINDOW, n_next=2, n_tokens=70)
    named = {
        (classes.labels[q], classes.labels[n]) for q, n in zip(classes.query, classes.next_token)
    }
    assert named == {(f"t{q}", f"t{n}") for q, n in zip(task.query, task.next_token)}
    pairs = Counter(zip(task.query, task.next_token))
    assert len(pairs) == classes.n_classes
    for i, token in enumerate(classes.next_token):
        n = next(n for n in range(6) if f"t{task.next_token[n]}" == classes.labels[token])
        mine = [classes.token_prob[i, classes.labels.index(f"t{token}")] for token in range(10)]
        assert mine == pytest.approx(task.token_prob[n, :10], rel=0.2)
    assert classes.class_weight == pytest.approx(np.ones(6) / 6, rel=0.2)


def test_sharp_classes_have_exactly_the_distinct_and_common_tokens(tmp_path):
    task = SequenceClasses.syn_medium(1)
    found = corpus_of(text_of(task, 3001, np.random.default_rng(3)), tmp_path)
    classes = found.classes([f"t{task.query[0]}"], window=WINDOW, n_next=2, sharp=True)
    assert classes.common.sum() == 10
    assert classes.distinct.sum(axis=1).tolist() == [10, 10]


def test_a_next_token_belongs_to_the_query_it_follows_most(tmp_path):
    words = (["a", "n", "x"] * 5 + ["b", "n", "y"] * 3 + ["b", "k", "z"] * 2 + ["a", "l", "u"]) * 3
    classes = corpus_of(words, tmp_path).classes(["a", "b"], window=5, n_next=2)
    named = [
        (classes.labels[q], classes.labels[n]) for q, n in zip(classes.query, classes.next_token)
    ]
    assert named == [("a", "n"), ("a", "l"), ("b", "k")]


def test_impossible_questions_are_refused(tmp_path):
    found = corpus_of(["a", "b", "c", "b"] * 5, tmp_path)
    with pytest.raises(InputError, match="does not occur in the training text"):
        found.context_law("<unk>", window=3)
    with pytest.raises(InputError, match="none twice"):
        found.classes(["a", "a"])
    with pytest.raises(InputError, match="`window`"):
        found.context_law("a", window=0)
    with pytest.raises(InputError, match="nothing is left to follow"):
        found.classes(["a", "c"], window=3)
    with pytest.raises(InputError, match="not a token"):
        found.classes(["q"])
