"""Laws by name: each form gives the chain it says, and what is none is one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.named_laws import (
    EqualLow,
    equal_low_chains,
    lazy_chains,
)


def test_each_form_of_a_name_gives_its_chain():
    laws = ("paper", "zipf-3", "0.6 of 4", ".7-of-5", "0.5,.3,2e-1")
    found = lazy_chains(laws, (0.8, 0.5, 0.3, 0.2, 0.1))
    assert list(found) == list(laws)
    shares = [
        (0.75, 0.19, 0.05, 0.01),
        np.array([6, 3, 2]) / 11,
        (0.6, *[0.4 / 3] * 3),
        (0.7, *[0.3 / 4] * 4),
        (0.5, 0.3, 0.2),
    ]
    for chain, law, stay in zip(found.values(), shares, (0.8, 0.5, 0.3, 0.2, 0.1), strict=True):
        np.testing.assert_allclose(chain.stationary, law, rtol=1e-12)
        np.testing.assert_allclose(chain.transition[0, 0], stay + (1 - stay) * law[0], rtol=1e-12)


def test_one_stay_stands_for_all_and_a_law_that_comes_twice_is_named_with_its_stay():
    assert list(equal_low_chains(("0.6 of 4", "0.5 of 3"), (0.7,)).values()) == [
        EqualLow(0.6, 4, 0.7),
        EqualLow(0.5, 3, 0.7),
    ]
    assert list(lazy_chains(("paper", "paper", "zipf-5"), (0.3, 0.8, 0.5))) == [
        "paper, stay 0.3",
        "paper, stay 0.8",
        "zipf-5",
    ]


@pytest.mark.parametrize(
    ("laws", "stays", "sentence"),
    [
        (("uniform",), (0.5,), "of the form"),
        (("zipf-1",), (0.5,), "from 2 to"),
        (("1.5 of 4",), (0.5,), "`high`"),
        (("0.5,0.3",), (0.5,), "sum to 1"),
        (("0.2,0.3,0.5",), (0.5,), "from frequent to rare"),
        (("0.25 of 4",), (0.5,), "not all equal"),
        (("paper", "zipf-6", "zipf-7"), (0.5, 0.3), "one value for each"),
        (("paper", "paper"), (0.5,), "twice"),
        (("paper",), (1.0,), "`stay`"),
    ],
)
def test_what_names_no_chain_is_one_sentence(laws, stays, sentence):
    with pytest.raises(InputError, match=sentence):
        lazy_chains(laws, stays)


def test_laws_of_unequal_low_tokens_are_refused_where_they_must_be_alike():
    for law in ("paper", "zipf-6", "0.2 of 5"):
        with pytest.raises(InputError, match="`laws`"):
            equal_low_chains((law,), (0.5,))
