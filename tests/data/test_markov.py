"""A chain's law, entropies and samples against exact arithmetic, formulas written out and a second
sampler; errors teach.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from saccade.data.markov import MarkovChain
from saccade.data.markov_law import _BLOCK
from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError
from tests.cli.test_fuzz import JUNK, TABLES_OF_NUMBERS, unless_refused

EPS = np.finfo(float).eps
LAW = np.array([0.43, 0.29, 0.17, 0.08, 0.03])
PAPER_LAW = (0.75, 0.19, 0.05, 0.01)
CELLS = st.floats(1e-9, 1)


@st.composite
def laws(draw) -> np.ndarray:
    weight = np.array(draw(st.lists(CELLS, min_size=2, max_size=7)))
    return weight / weight.sum()


@st.composite
def tables(draw) -> np.ndarray:
    """Tables of up to seven tokens with zeros, whose tokens still all lead to each other: the ring
    is positive.
    """
    n = draw(st.integers(2, 7))
    cells = st.one_of(st.just(0.0), CELLS)
    table = np.array(
        draw(st.lists(st.lists(cells, min_size=n, max_size=n), min_size=n, max_size=n))
    )
    table[np.arange(n), (np.arange(n) + 1) % n] += draw(CELLS)
    return table / table.sum(axis=1, keepdims=True)


def exact_law(transition: np.ndarray) -> list[Fraction]:
    """The law in rational arithmetic: pi_j sum_{l != j} P_jl = sum_{i != j} pi_i P_ij for all
    tokens but the last, pi_last = 1.
    """
    P = [[Fraction(float(cell)) for cell in row] for row in transition]
    n = len(P)
    rates = [
        [P[i][j] if i != j else -sum(P[i][:i] + P[i][i + 1 :]) for i in range(n)] for j in range(n)
    ]
    rows = [[*rates[j][:-1], -rates[j][-1]] for j in range(n - 1)]
    for pivot in range(n - 1):
        chosen = next(r for r in range(pivot, n - 1) if rows[r][pivot] != 0)
        rows[pivot], rows[chosen] = rows[chosen], rows[pivot]
        rows[pivot] = [cell / rows[pivot][pivot] for cell in rows[pivot]]
        for r in range(n - 1):
            if r != pivot:
                rows[r] = [cell - rows[r][pivot] * own for cell, own in zip(rows[r], rows[pivot])]
    masses = [*(row[-1] for row in rows), Fraction(1)]
    return [mass / sum(masses) for mass in masses]


@given(table=tables())
@example(
    table=np.array([[1 - 1e-12, 1e-12, 0], [1e-15, 0, 1 - 1e-15], [0, 1, 0]])
)  # falls apart, but for 1e-15
@settings(max_examples=200, deadline=None)
def test_every_mass_of_the_stationary_law_agrees_with_rational_arithmetic(table):
    chain = MarkovChain(table)
    exact = np.array([float(mass) for mass in exact_law(chain.transition)])
    np.testing.assert_allclose(chain.stationary, exact, rtol=4 * chain.n_vocab * EPS)
    assert chain.stationary @ chain.transition == pytest.approx(chain.stationary, abs=2 * EPS)


def test_the_law_of_a_table_of_several_blocks_is_the_solution_of_the_linear_system():
    n = 2 * _BLOCK + 3
    table = np.random.default_rng(5).exponential(size=(n, n))
    chain = MarkovChain(table, normalise=True)
    system = np.vstack([(np.eye(n) - chain.transition.T)[:-1], np.ones(n)])
    np.testing.assert_allclose(chain.stationary, np.linalg.solve(system, np.eye(n)[-1]), rtol=1e-11)


@given(law=laws(), stay=st.floats(-0.5, 1, exclude_max=True))
@example(law=np.array([0.5, 0.5]), stay=-1.0)
@example(law=np.array([1 - 1e-9, 1e-9]), stay=1 - 1e-12)
@settings(deadline=None)
def test_a_lazy_chain_has_the_law_it_was_given(law, stay):
    assume(stay >= -law.min() / (1 - law.min()))
    chain = MarkovChain.lazy(law, stay)
    np.testing.assert_allclose(chain.stationary, law, rtol=4 * len(law) * EPS)
    np.testing.assert_allclose(
        chain.transition, stay * np.eye(len(law)) + (1 - stay) * law, atol=4 * EPS
    )


def test_the_presets_have_the_laws_of_their_names():
    np.testing.assert_allclose(
        MarkovChain.zipf(6).stationary, np.array([60, 30, 20, 15, 12, 10]) / 147, rtol=1e-15
    )
    np.testing.assert_allclose(MarkovChain.paper().stationary, PAPER_LAW, rtol=1e-15)
    assert MarkovChain.paper().transition[1] == pytest.approx(
        [0.525, 0.433, 0.035, 0.007], rel=1e-15
    )
    np.testing.assert_allclose(
        MarkovChain.two_level(4, 0.6, 0.01).stationary,
        [0.6, 0.4 / 3 + 0.01, 0.4 / 3, 0.4 / 3 - 0.01],
        rtol=1e-15,
    )
    assert [c.name for c in (MarkovChain.zipf(6), MarkovChain.two_level(4, 0.6))] == [
        "zipf-6",
        "two-level-4",
    ]


@given(n=st.integers(3, 13), high=st.floats(0.01, 0.99), share=st.floats(-0.99, 0.99))
@settings(deadline=None)
def test_asymmetry_moves_mass_between_low_tokens_and_leaves_the_high_one_alone(n, high, share):
    mean = (1 - high) / (n - 1)
    law = MarkovChain.two_level(n, high, share * mean).stationary
    assert law[0] == pytest.approx(high, rel=1e-14)
    assert law[1:].sum() == pytest.approx(1 - high, rel=1e-13)
    assert np.diff(law[1:]) == pytest.approx(-2 * share * mean / (n - 2), abs=1e-15)


def test_two_tokens_have_no_asymmetry():
    assert MarkovChain.two_level(2, 0.7).stationary == pytest.approx([0.7, 0.3], rel=1e-15)
    with pytest.raises(InputError, match="at least two rare tokens"):
        MarkovChain.two_level(2, 0.7, asymmetry=0.1)


def test_at_the_lowest_stay_the_rarest_token_never_repeats_and_below_it_is_refused():
    lowest = -0.01 / 0.99
    chain = MarkovChain.paper(stay=lowest)
    assert chain.transition.diagonal().argmin() == 3
    assert chain.transition[3, 3] == pytest.approx(0, abs=EPS)
    assert chain.transition.min() >= 0
    with pytest.raises(InputError, match=r"at least -0\.010101"):
        MarkovChain.paper(stay=lowest - 1e-9)


@given(law=laws(), stay=st.sampled_from([0.0, 0.3]))
@settings(deadline=None)
def test_a_metropolis_chain_is_reversible_and_accepts_as_metropolis_does(law, stay):
    chain = MarkovChain.metropolis(law, stay)
    np.testing.assert_allclose(chain.stationary, law, rtol=8 * len(law) * EPS)
    flow = chain.stationary[:, None] * chain.transition
    np.testing.assert_allclose(flow, flow.T, rtol=16 * len(law) * EPS)
    n = len(law)
    for i in range(n):
        for j in set(range(n)) - {i}:
            assert chain.transition[i, j] == pytest.approx(
                (1 - stay) * min(1, law[j] / law[i]) / (n - 1), rel=1e-14
            )


@given(law=laws(), seed=st.integers(0, 2**63 - 1))
@settings(deadline=None)
def test_a_random_chain_is_positive_and_has_the_law_it_was_given(law, seed):
    chain = MarkovChain.random(law, seed)
    joint = law[:, None] * chain.transition
    rounding = 8 * len(law) * np.finfo(float).eps  # a sum of n terms, and elimination, 4 n eps
    np.testing.assert_allclose(joint.sum(axis=0), law, rtol=rounding)
    np.testing.assert_allclose(joint.sum(axis=1), law, rtol=rounding)
    np.testing.assert_allclose(chain.stationary, law, rtol=rounding)
    assert chain.transition.min() > 0


def test_a_seed_is_one_random_chain_and_it_is_not_reversible():
    table = MarkovChain.random(LAW, 3).transition
    assert np.array_equal(table, MarkovChain.random(LAW, 3).transition)
    assert np.abs(table - MarkovChain.random(LAW, 4).transition).max() > 0.01
    flow = LAW[:, None] * table
    assert np.abs(flow - flow.T).max() > 0.01


@given(table=tables())
@settings(deadline=None)
def test_the_entropy_rate_is_the_entropy_of_two_tokens_less_that_of_one(table):
    chain = MarkovChain(table)
    pairs = (chain.stationary[:, None] * chain.transition).ravel()
    assert chain.unigram_loss == pytest.approx(stats.entropy(chain.stationary), abs=1e-14)
    assert chain.entropy_rate == pytest.approx(
        stats.entropy(pairs) - stats.entropy(chain.stationary), abs=1e-13
    )
    assert chain.entropy_rate <= chain.unigram_loss + 1e-14


def by_searching_each_row(
    chain: MarkovChain, n_sequences: int, length: int, rng: np.random.Generator
) -> np.ndarray:
    tokens = [rng.integers(chain.n_vocab, size=n_sequences)]
    cumulated = np.cumsum(chain.transition, axis=1)
    for _ in range(length - 1):
        uniform = rng.random(n_sequences)
        tokens.append(
            np.array(
                [
                    np.searchsorted(cumulated[last], u, side="right")
                    for last, u in zip(tokens[-1], uniform)
                ]
            )
        )
    return np.stack(tokens, axis=1)


@pytest.mark.parametrize("n_vocab", [2, 3, 8, 131])
def test_samples_are_those_of_searching_the_cumulated_row_of_each_token(n_vocab):
    chain = MarkovChain.random(MarkovChain.zipf(n_vocab).stationary, 1)
    drawn = chain.sample(17, 29, np.random.default_rng(n_vocab))
    assert np.array_equal(
        drawn, by_searching_each_row(chain, 17, 29, np.random.default_rng(n_vocab))
    )


class Largest(np.random.Generator):
    """Always the last uniform number below one."""

    def random(self, size):
        return np.full(size, np.nextafter(1, 0))


def test_a_step_without_a_chance_is_never_drawn():
    table = np.zeros((11, 11))
    table[0, 10], table[1:, :10] = 1, 0.1
    chain = MarkovChain(table)
    assert np.cumsum(chain.transition[1])[-1] == np.nextafter(1, 0)  # ten tenths fall short of one
    for rng in (np.random.default_rng(0), Largest(np.random.PCG64(0))):
        tokens = chain.sample(1009, 31, rng)
        assert (table[tokens[:, :-1], tokens[:, 1:]] > 0).all()


def test_a_chain_is_its_own_copy_and_cannot_be_changed():
    table = np.array([[0.5, 0.5], [0.25, 0.75]])
    chain = MarkovChain(table)
    table[0] = 0
    assert chain.transition[0, 0] == 0.5
    for array in (chain.transition, chain.stationary):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_rows_are_rescaled_when_asked_or_when_they_were_typed_with_few_decimals():
    typed = [[0.333333, 0.666667], [0.142857, 0.857142]]
    assert MarkovChain(typed).transition.sum(axis=1) == pytest.approx(1, rel=EPS)
    assert MarkovChain([[2, 6], [1e308, 1e308]], normalise=True).transition == pytest.approx(
        np.array([[0.25, 0.75], [0.5, 0.5]])
    )
    with pytest.raises(InputError, match=r"token 'b' sums to 0\.9.*normalise=True"):
        MarkovChain([[0.5, 0.5], [0.1, 0.8]], token_names=("a", "b"))


@pytest.mark.parametrize(
    "table, sentence",
    [
        ([[1.0]], "from 2 to"),
        ([[0.5, 0.5]], "square"),
        ([0.5, 0.5], "2 axes"),
        ([[1.1, -0.1], [0.5, 0.5]], "token '0' gives token '1' -0.1"),
        ([[0.0, 0.0], [0.5, 0.5]], "token '0' has none"),
        ([[np.nan, 1], [0.5, 0.5]], "finite"),
        (np.eye(3), "more than one stationary distribution: it never gets from '0' to '1'"),
        (
            [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0.2, 0.3, 0.5, 0]],
            "never gets from '0' to '2'",
        ),
        ([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.3, 0.3, 0.4]], "leaves some tokens for good.*: '2'"),
        ([[1, 1e-200, 0], [1, 0, 1e-200], [1, 0, 0]], "more than a float can hold"),
    ],
)
def test_a_table_that_is_no_chain_is_refused(table, sentence):
    with pytest.raises(InputError, match=sentence):
        MarkovChain(table)


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda: MarkovChain.lazy([0.5, 0.4], 0.5), "sums to 0.9"),
        (lambda: MarkovChain.lazy([1.0, 0.0], 0.5), "token 1 has 0"),
        (lambda: MarkovChain.lazy([1.0], 0.5), "got 1"),
        (lambda: MarkovChain.lazy([1e308, 1e308], 0.5), "sums to inf"),
        (lambda: MarkovChain.lazy([0.5, 0.5], 1), "below 1"),
        (lambda: MarkovChain.metropolis([0.6, 0.4], -0.1), "at least 0, since"),
        (lambda: MarkovChain.zipf(1), "`n`"),
        (lambda: MarkovChain.zipf(10**9), "`n`"),
        (lambda: MarkovChain.two_level(4, 1.0), "`high` must be below 1"),
        (lambda: MarkovChain.two_level(4, 0.6, 0.2), "mean frequency of a rare token, 0.133333"),
        (lambda: MarkovChain.random([0.5, 0.5], -1), "`seed`"),
        (lambda: MarkovChain.zipf(3).sample(0, 5, np.random.default_rng(0)), "`n_sequences`"),
        (
            lambda: MarkovChain.zipf(3).sample(10**9, 10**9, np.random.default_rng(0)),
            "`n_sequences`|`length`",
        ),
        (lambda: MarkovChain.zipf(3).sample(2, 5, 0), "`rng`"),
    ],
)
def test_a_preset_refuses_what_it_cannot_be(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


@given(table=TABLES_OF_NUMBERS, names=st.one_of(st.just(()), JUNK), normalise=st.booleans())
@example(table=[[5e-324, 1.0], [1.0, 5e-324]], names=(), normalise=True)
@settings(max_examples=400, deadline=None)
def test_any_table_is_a_chain_or_an_input_error(table, names, normalise):
    chain = unless_refused(lambda: MarkovChain(table, token_names=names, normalise=normalise))
    if chain is not None:
        assert_is_a_chain(chain)


ANY = st.one_of(JUNK, st.floats(), st.integers(-2, 9))
ANY_LAW = st.one_of(
    JUNK,
    st.lists(st.floats(), max_size=3),
    laws(),
    st.just([1 - 1e-200, 1e-200]),
    st.just([1.0, 5e-324]),
)


@given(law=ANY_LAW, number=ANY, other=ANY)
@settings(max_examples=300, deadline=None)
def test_any_arguments_of_a_preset_are_a_chain_or_an_input_error(law, number, other):
    for call in (
        lambda: MarkovChain.lazy(law, number),
        lambda: MarkovChain.metropolis(law, number),
        lambda: MarkovChain.random(law, number),
        lambda: MarkovChain.zipf(number, other),
        lambda: MarkovChain.two_level(number, 0.5, other),
        lambda: MarkovChain.two_level(3, number, 0.0, other),
    ):
        chain = unless_refused(call)
        if chain is not None:
            assert_is_a_chain(chain)


def assert_is_a_chain(chain: MarkovChain) -> None:
    assert chain.transition.shape == (chain.n_vocab, chain.n_vocab)
    assert len(set(chain.labels)) == chain.n_vocab
    assert chain.transition.min() >= 0
    assert chain.stationary.min() > 0
    assert chain.transition.sum(axis=1) == pytest.approx(1, rel=1e-12)
    assert chain.stationary @ chain.transition == pytest.approx(chain.stationary, abs=1e-12)
    assert 0 <= chain.entropy_rate <= chain.unigram_loss + 1e-12


def test_a_chain_and_classes_print_as_one_line():
    assert (
        repr(MarkovChain.zipf(6, stay=0.5))
        == "MarkovChain('zipf-6': 6 tokens, '0' 0.408 of the time)"
    )
    assert (
        repr(SequenceClasses.syn_small())
        == "SequenceClasses('syn-small': 2 classes over 34 tokens)"
    )
