"""Chains counted in tokens and text: the law is the frequency of the tokens, the table that of the
pairs of a ring.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from saccade.data.markov import MarkovChain
from saccade.data.markov_presets import MOST_TOKENS
from saccade.errors import InputError
from tests.cli.test_fuzz import JUNK, unless_refused

TEXT = """The owl sat in the old oak. The more she heard, the less she spoke; the less she spoke, the more she heard.
Why aren't we all like that old bird? "Because," said the oak, "the owl doesn't pay the rent." And the rain fell on the oak,
and on the owl, and on all of us who don't listen, until the morning came and the rain went back to the sea."""

RINGS = st.lists(st.sampled_from("abcdefg"), min_size=2, max_size=40).filter(
    lambda ring: len(set(ring)) > 1
)


def pairs_of_the_ring(tokens: list) -> Counter:
    return Counter(zip(tokens, [*tokens[1:], tokens[0]]))


@given(tokens=RINGS)
@settings(deadline=None)
def test_the_table_is_the_share_of_each_pair_and_the_law_the_share_of_each_token(tokens):
    chain = MarkovChain.from_tokens(tokens)
    count, pairs = Counter(tokens), pairs_of_the_ring(tokens)
    table = np.array([[pairs[a, b] / count[a] for b in chain.labels] for a in chain.labels])
    assert chain.transition == pytest.approx(table, rel=1e-15)
    assert chain.stationary == pytest.approx(
        np.array([count[a] / len(tokens) for a in chain.labels]), rel=1e-14
    )


@given(tokens=RINGS)
@settings(deadline=None)
def test_tokens_are_in_order_of_frequency_and_ties_in_order_of_appearance(tokens):
    count = Counter(tokens)
    assert list(MarkovChain.from_tokens(tokens).labels) == sorted(
        count, key=lambda token: (-count[token], tokens.index(token))
    )


@given(tokens=RINGS, n_vocab=st.integers(2, 8))
@settings(deadline=None)
def test_a_smaller_vocabulary_is_the_chain_of_the_text_with_the_rarest_tokens_made_one(
    tokens, n_vocab
):
    chain, whole = MarkovChain.from_tokens(tokens, n_vocab), MarkovChain.from_tokens(tokens)
    if whole.n_vocab <= n_vocab:
        assert chain.labels == whole.labels
        return
    replaced = ["<other>" if token in whole.labels[n_vocab - 1 :] else token for token in tokens]
    frequency = dict(zip(chain.labels, chain.stationary))
    assert set(chain.labels) == {*whole.labels[: n_vocab - 1], "<other>"}
    assert frequency == pytest.approx(
        {token: n / len(tokens) for token, n in Counter(replaced).items()}, rel=1e-14
    )
    assert (np.diff(chain.stationary) <= 1e-15).all()
    pairs = pairs_of_the_ring(replaced)
    joint = np.array([[pairs[a, b] for b in chain.labels] for a in chain.labels]) / len(tokens)
    assert chain.stationary[:, None] * chain.transition == pytest.approx(joint, rel=1e-13)


def same(chain: MarkovChain, other: MarkovChain) -> bool:
    return chain.labels == other.labels and np.array_equal(chain.transition, other.transition)


def test_words_are_lower_case_and_punctuation_stands_alone():
    by_hand = [
        "the",
        "owl",
        "-",
        "she",
        "doesn't",
        "pay",
        "!",
        "-",
        "said",
        ":",
        '"',
        "the",
        "rent",
        ".",
        '"',
    ]
    assert same(
        MarkovChain.from_text('The owl - SHE doesn\'t pay!\n - said: "The rent."'),
        MarkovChain.from_tokens(by_hand),
    )


def test_characters_are_lower_case_and_white_space_is_one_blank():
    assert same(
        MarkovChain.from_text("\tAb,\n\n a  C\n", unit="character"),
        MarkovChain.from_tokens(list("ab, a c")),
    )


def test_ids_and_words_make_the_same_chain():
    ids = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])
    by_id, by_name = MarkovChain.from_tokens(ids), MarkovChain.from_tokens(map(str, ids.tolist()))
    assert by_id.labels == by_name.labels == ("5", "3", "1", "4", "9", "2", "6")
    assert np.array_equal(by_id.transition, by_name.transition)


def test_a_million_words_take_less_than_five_seconds():  # of the processor: about one
    ids = (np.random.default_rng(0).zipf(1.3, 1_000_000) % 50_000).astype(str).tolist()
    start = time.process_time()
    chain = MarkovChain.from_tokens(ids, n_vocab=503)
    assert time.process_time() - start < 5
    assert chain.n_vocab == 503


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda: MarkovChain.from_text(""), "there is none"),
        (lambda: MarkovChain.from_text(" \n"), "there is none"),
        (lambda: MarkovChain.from_text("Tea tea TEA"), "there is only 'tea'"),
        (lambda: MarkovChain.from_text("tea", unit="letter"), "word, character"),
        (lambda: MarkovChain.from_text(b"some text"), "`text` must be a string"),
        (lambda: MarkovChain.from_text(TEXT, n_vocab=1), "`n_vocab`"),
        (lambda: MarkovChain.from_tokens([]), "there is none"),
        (lambda: MarkovChain.from_tokens("some text"), "from_text"),
        (lambda: MarkovChain.from_tokens([["a"], ["b"]]), "words or ids"),
        (lambda: MarkovChain.from_tokens(7), "words or ids"),
        (lambda: MarkovChain.from_tokens(range(MOST_TOKENS + 1)), "pass `n_vocab`"),
        (lambda: MarkovChain.from_tokens([1, "1", 2]), "both written '1'"),
        (
            lambda: MarkovChain.from_tokens(["a", "a", "<other>", "<other>", "b", "c"], 3),
            "both written '<other>'",
        ),
    ],
)
def test_what_is_no_text_is_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


@given(
    text=st.one_of(st.text(), JUNK),
    unit=st.sampled_from(["word", "character"]),
    n_vocab=st.one_of(st.none(), st.integers(1, 5), JUNK),
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_chain_or_an_input_error(text, unit, n_vocab):
    chain = unless_refused(lambda: MarkovChain.from_text(text, unit, n_vocab))
    if chain is None:
        return
    assume(n_vocab is not None)
    assert 2 <= chain.n_vocab <= n_vocab
