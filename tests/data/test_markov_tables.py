"""A chain from a CSV file is that of the array it spells out; files that are no such table are
refused.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from saccade.data.markov import MarkovChain
from saccade.errors import InputError
from tests.cli.test_fuzz import unless_refused

TABLE = np.array([[0.5, 0.3, 0.2], [0.125, 0.125, 0.75], [0.9, 0.1, 0]])
BY_HAND = MarkovChain(TABLE, token_names=("sun", "rain", "fog"))


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "weather.csv"


@pytest.mark.parametrize(
    "text",
    [
        "sun,rain,fog\n0.5,0.3,0.2\n0.125,0.125,0.75\n0.9,0.1,0\n",
        ",sun,rain,fog\nsun,0.5,0.3,0.2\nrain,0.125,0.125,0.75\nfog,0.9,0.1,\n",
        "\ufefftoken, sun ,rain,fog\r\nfog,0.9,0.1,0\r\n\r\nsun,0.5,.3,2e-1\r\n rain,0.125,0.125,0.75",
    ],
)
def test_a_csv_file_is_the_array_it_spells_out_with_or_without_names_of_rows_in_any_order(
    csv_file, text
):
    csv_file.write_text(text, encoding="utf-8", newline="")
    chain = MarkovChain.from_csv(csv_file)
    assert chain.labels == BY_HAND.labels
    assert np.array_equal(chain.transition, BY_HAND.transition)
    assert chain.name == "weather"


def test_counts_make_a_chain_when_rows_are_rescaled(csv_file):
    csv_file.write_text("a,b\n1,3\n2,2\n")
    assert np.array_equal(
        MarkovChain.from_csv(str(csv_file), normalise=True).transition, [[0.25, 0.75], [0.5, 0.5]]
    )
    with pytest.raises(InputError, match="normalise=True"):
        MarkovChain.from_csv(csv_file)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "is empty"),
        ("a,b\n1,0\n0,1\n0,1\n", "square; this one has 2 columns and 3 rows"),
        (",b\n0.5,0.5\n0.5,0.5\n", "square"),
        ("a,b\n0.5\n0.5,0.5\n", "as many cells as the header, 2"),
        ("a,a\n0.5,0.5\n0.5,0.5\n", "different name; the header is a, a"),
        ("a,\n0.5,0.5\n0.5,0.5\n", "different name"),
        ("a,b\n0.5,0.5\n0.5,half\n", "from 'b' to 'b', 'half' is not a number"),
        (",a,b\na,0.5,0.5\nc,0.5,0.5\n", "no row is named 'b'"),
        (",a,b\na,0.5,0.5\na,0.5,0.5\n", "no row is named 'b'"),
        ("0.5,0.3,0.2\n0.1,0.2,0.7\n0.4,0.1,0.5\n", "needs a header"),
        ("a,b\nnan,0.5\n0.5,0.5\n", "finite"),
        ("a,b\n1,0\n0,1\n", "never gets from 'a' to 'b'"),
        ('a,b\n"0.5,0.5\n', "not a CSV file"),
    ],
)
def test_a_file_that_is_no_table_is_refused(csv_file, text, sentence):
    csv_file.write_text(text)
    with pytest.raises(InputError, match=sentence):
        MarkovChain.from_csv(csv_file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        MarkovChain.from_csv(tmp_path / "none.csv")


CELL = st.sampled_from(["a", "b", "0.5", "1", "", " ", '"', "nan", "é", "\0", "-1", "1e999"])
TEXT = st.lists(st.lists(CELL, max_size=3).map(",".join), max_size=4).map("\n".join)


@given(
    content=st.one_of(
        st.binary(), TEXT.map(str.encode), TEXT.map(lambda text: b"a,b\n" + text.encode())
    ),
    normalise=st.booleans(),
)
@example(content=b"a", normalise=False)
@example(content=b"a,b\n0.5,0.5\n\xff,1", normalise=False)
@settings(max_examples=400, deadline=None)
def test_any_file_is_a_chain_or_an_input_error(csv_file, content, normalise):
    csv_file.write_bytes(content)
    chain = unless_refused(lambda: MarkovChain.from_csv(csv_file, normalise=normalise))
    assert chain is None or chain.n_vocab in (2, 3)
