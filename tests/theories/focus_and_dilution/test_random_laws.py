"""What a stranger may ask of any chain: closed forms against a second implementation, on random
laws, sizes and widths.

The second implementation is the flow of the four matrices written from its definition,
differentiated by complex steps, which loses no digits. Laws have 3 to 12 tokens and reach from
nearly even to strongly unequal; key widths differ from widths.
"""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saccade.errors import InputError
from saccade.theories import focus_and_dilution as theory

from .chains import lazy
from .numeric import flatten, rank_one_flow, unflatten

MODULES = [f"{theory.__name__}.{module.name}" for module in pkgutil.iter_modules(theory.__path__)]
seeds = pytest.mark.parametrize("seed", range(12))


def velocities(weights, *, stationary, transition, saturated=False):
    """All four, from the definition. With `saturated`, attention never crosses between token 0 and
    the others.
    """
    (W0, WQ, WK, W1), pi, crossing = weights, stationary, np.zeros((len(stationary),) * 2, bool)
    if saturated:
        crossing[0, 1:] = crossing[1:, 0] = True
    A = np.where(crossing, 0.0, pi * np.exp((W0 @ WQ) @ (W0 @ WK).mT))
    A = A / A.sum(axis=-1, keepdims=True)
    p = np.exp(A @ W0 @ W1)
    G = pi[:, None] * (p / p.sum(axis=-1, keepdims=True) - transition)
    D, value = A.mT @ G, G @ (W0 @ W1).mT
    E = A * (value - np.sum(A * value, axis=-1, keepdims=True))
    to_query, to_key = E @ W0 @ WK, E.mT @ W0 @ WQ
    return [
        -D @ W1.mT - to_query @ WQ.mT - to_key @ WK.mT,
        -W0.mT @ to_query,
        -W0.mT @ to_key,
        -W0.mT @ D,
    ]


def jacobian(weights, **chain):
    sizes, moved, step = [matrix.size for matrix in weights], [], 1e-30
    at = flatten(weights) + 1j * step * np.eye(sum(sizes))
    for part, matrix in zip(np.split(at, np.cumsum(sizes)[:-1], axis=1), weights, strict=True):
        moved.append(part.reshape(-1, *matrix.shape))
    return (
        np.concatenate(
            [part.reshape(len(at), -1) for part in velocities(moved, **chain)], axis=1
        ).imag
        / step
    )


def rates(block):
    return np.linalg.eigvalsh((block + block.T) / 2)[::-1]


def random_law(rng, n_vocab):
    law = rng.dirichlet(np.full(n_vocab, 10 ** rng.uniform(-0.5, 1.5))) + 1e-6
    return law / law.sum()


def random_two_level(rng):
    """Mass of token 0, number of tokens."""
    n_vocab = int(rng.integers(3, 13))
    return {"high": 1 / n_vocab + (1 - 1 / n_vocab) * rng.uniform(0.05, 0.95), "n_vocab": n_vocab}


@seeds
def test_all_rates_at_both_critical_points(seed):
    """Persistent and anti-persistent chains alike."""
    rng = np.random.default_rng(seed)
    pi, width, key_width = (
        random_law(rng, int(rng.integers(3, 13))),
        int(rng.integers(1, 6)),
        int(rng.integers(1, 6)),
    )
    chain = lazy(pi, rng.uniform(0, 1) if seed % 2 else -0.9 * pi.min() / (1 - pi.min()))
    point = theory.unigram_weights(stationary=pi, direction=rng.normal(size=width), d_key=key_width)
    attention = np.repeat([False, True, True, False], [matrix.size for matrix in point])
    J, widths = jacobian(point, **chain), {"d_model": width, "d_key": key_width}
    inner, outer = (rates(J[np.ix_(inside, inside)]) for inside in (attention, ~attention))
    np.testing.assert_allclose(inner, theory.attention_spectrum(**chain, **widths), atol=1e-13)
    np.testing.assert_allclose(
        outer, theory.outer_spectrum(stationary=pi, d_model=width), atol=1e-13
    )
    at_origin = rates(jacobian([0 * matrix for matrix in point], **chain))
    np.testing.assert_allclose(
        at_origin, theory.origin_spectrum(stationary=pi, **widths), atol=1e-13
    )


@seeds
def test_two_group_points_are_critical_and_open_at_their_rate(seed):
    rng = np.random.default_rng(seed)
    n_vocab, width = int(rng.integers(3, 13)), int(rng.integers(2, 5))
    high = rng.uniform(1 / n_vocab, 0.95)
    chain = lazy(
        np.append(high, (1 - high) * random_law(rng, n_vocab - 1)), rng.uniform(0.02, 0.98)
    )
    state = theory.two_group_point(**chain, strength=rng.uniform(0.1, 9))
    weights = theory.rank_one_weights(state, direction=np.eye(width)[0], key_direction=[1.0])
    assert np.abs(flatten(velocities(weights, saturated=True, **chain))).max() < 1e-13
    opening = rates(jacobian(weights, saturated=True, **chain))[: width - 1]
    rate = np.linalg.norm(
        theory.two_group_decoder_gradient(state, **chain)
    )  # of the saturated model, whatever the signs
    np.testing.assert_allclose(opening, rate, rtol=1e-9, atol=1e-14)
    if theory.has_two_groups(state):
        assert theory.two_group_rate(state, **chain) == rate


@pytest.mark.parametrize(
    ("n_vocab", "decay", "stay"), [(20, 1.5, 0.95), (30, 1.0, 0.8), (60, 0.5, 0.99), (60, 2.5, 0.6)]
)
def test_the_two_group_point_of_many_tokens_is_critical(n_vocab, decay, stay):
    """Newton's steps from equal logits would overshoot until every probability but one is zero."""
    law = np.arange(1.0, n_vocab + 1) ** -decay
    chain = lazy(law / law.sum(), stay)
    weights = theory.rank_one_weights(
        theory.two_group_point(**chain), direction=[1.0], key_direction=[1.0]
    )
    assert np.abs(flatten(velocities(weights, saturated=True, **chain))).max() < 1e-13


@seeds
def test_degenerate_points_are_critical_and_equal_tokens_part_above_the_critical_stay_alone(seed):
    rng = np.random.default_rng(seed)
    law, stay = random_two_level(rng), rng.uniform(0.02, 0.98)
    nearness = rng.uniform(0.02, 0.98)
    point = theory.degenerate_point(
        **law, stay=stay, high_attention=law["high"] + nearness * (1 - law["high"])
    )
    weights = theory.rank_one_weights(point.state, direction=[1.0, 0.0], key_direction=[1.0, 0.0])
    chain, rate = lazy(theory.two_level_law(**law), stay), theory.parting_rate(point)
    assert np.abs(flatten(velocities(weights, **chain))).max() < 1e-12
    top = rates(jacobian(weights, **chain))
    assert (rate > 0) == (stay > theory.critical_stay(**law))
    np.testing.assert_allclose(
        top[: law["n_vocab"] - 2] if rate > 0 else top[:1], max(rate, 0.0), atol=1e-11
    )


@pytest.mark.parametrize(
    ("high", "n_vocab", "stay"), [(0.995, 5, 0.97), (0.9, 40, 0.97), (0.995, 40, 0.02)]
)
def test_a_flow_may_stall_where_attention_of_token_0_on_itself_rounds_to_one(high, n_vocab, stay):
    point = theory.stall_point(high=high, n_vocab=n_vocab, stay=stay)
    moves = theory.rank_one_velocity(
        point.state, **lazy(theory.two_level_law(high=high, n_vocab=n_vocab), stay)
    )
    assert point.high_attention == 1.0
    assert np.abs(flatten(moves)).max() < 1e-13
    assert (theory.parting_rate(point) > 0) == (stay > theory.critical_stay(high, n_vocab))


@pytest.mark.parametrize("seed", range(2))
def test_the_stall_point_is_where_the_rank_one_flow_ends(seed):
    rng = np.random.default_rng(seed)
    law = {"high": rng.uniform(0.4, 0.9), "n_vocab": int(rng.integers(3, 9))}
    stay = rng.uniform(0.2, 0.95) * theory.critical_stay(**law)
    chain = lazy(theory.two_level_law(**law), stay)
    start = theory.RankOneState(*theory.unigram_point(stationary=chain["stationary"]), 1e-5, 1e-5)
    end = rank_one_flow(start, [100 / theory.focus_rate(**chain)], **chain)[0]
    np.testing.assert_allclose(
        flatten(theory.stall_point(**law, stay=stay).state), flatten(end), atol=1e-6
    )


@pytest.mark.parametrize("seed", range(4))
def test_arrival_from_the_start_alone(seed):
    """Against the whole flow, attention and all, from starts of size 1e-3: 1e-5 if queries and keys
    are told, else 2e-4.
    """
    rng = np.random.default_rng(seed)
    law, width, key_width = random_two_level(rng), int(rng.integers(2, 7)), int(rng.integers(1, 7))
    stay, shortfall = rng.uniform(0.1, 0.9), 0.1 * (law["high"] - 1 / law["n_vocab"])
    chain = lazy(theory.two_level_law(**law), stay)
    shapes = (
        (law["n_vocab"], width),
        (width, key_width),
        (width, key_width),
        (width, law["n_vocab"]),
    )
    start = [1e-3 * rng.normal(size=shape) for shape in shapes]
    target = theory.arrival_overlap(shortfall=shortfall, **law)

    def near(_, flat):
        W0, _, _, W1 = unflatten(flat, start)
        a, b, *_ = theory.ray_parts(W0, W1, stationary=chain["stationary"])
        return a @ b - target

    near.terminal = True
    predicted = float(theory.arrival_time(start[0], start[3], shortfall=shortfall, **law))
    sharper = float(
        theory.arrival_time(
            start[0],
            start[3],
            shortfall=shortfall,
            query_0=start[1],
            key_0=start[2],
            stay=stay,
            **law,
        )
    )
    found = solve_ivp(
        lambda _, flat: flatten(velocities(unflatten(flat, start), **chain)),
        (0, 2 * predicted),
        flatten(start),
        events=near,
        method="LSODA",
        rtol=1e-10,
        atol=1e-14,
    )
    assert found.t_events[0][0] == pytest.approx(predicted, abs=2e-4)
    assert found.t_events[0][0] == pytest.approx(sharper, abs=1e-5)


def test_no_arrival_is_told_where_attention_takes_over_first():
    """The flow comes to 0.056 of the share and turns: times of 16.9 and -15591 were told for 0.03
    and 0.003.
    """
    rng, law = np.random.default_rng(0), {"high": 0.5, "n_vocab": 12}
    W0, WQ, WK, W1 = (1e-2 * rng.normal(size=shape) for shape in ((12, 6), (6, 6), (6, 6), (6, 12)))
    shares = np.array([0.003, 0.1, 0.03, 0.5]) * (0.5 - 1 / 12)
    told = theory.arrival_time(W0, W1, shortfall=shares, query_0=WQ, key_0=WK, stay=0.9, **law)
    np.testing.assert_allclose(
        told, [np.nan, 24.98, np.nan, 21.95], atol=0.15
    )  # of the flow of all four matrices


@pytest.mark.parametrize("seed", range(4))
def test_contrast_follows_its_closed_forms_whatever_the_sign_of_persistence(seed):
    rng = np.random.default_rng(seed)
    law = random_two_level(rng)
    low = (1 - law["high"]) / (law["n_vocab"] - 1)
    stay = rng.uniform(0.1, 0.9) if seed % 2 else -0.9 * low / (1 - low)
    chain, size = lazy(theory.two_level_law(**law), stay), 1e-4
    start = theory.RankOneState(
        *theory.unigram_point(stationary=chain["stationary"]), size, np.sign(stay) * size
    )
    t = 2.0 / abs(theory.focus_rate(**chain))
    end = rank_one_flow(start, [t], **chain)[0]
    contrast = theory.two_level_combination(end.gamma, high=law["high"])[0]
    grown = abs(end.query_scale * end.key_scale) - size**2
    assert contrast == pytest.approx(theory.contrast_of_strength(grown, **law), rel=1e-3)
    assert contrast == pytest.approx(
        theory.contrast_path(t, strength_0=np.sign(stay) * size**2, stay=stay, **law), rel=1e-3
    )


@seeds
def test_the_next_direction_is_the_fastest_mode_across_any_state_that_uses_one_direction(seed):
    """Across the direction in use, a state need not rest: B holds at any of them."""
    rng = np.random.default_rng(seed)
    n_vocab, key_width = int(rng.integers(3, 13)), int(rng.integers(1, 5))
    chain, (gamma, beta) = (
        lazy(random_law(rng, n_vocab), rng.uniform(0, 1)),
        rng.normal(size=(2, n_vocab)),
    )
    queries, keys, along = (
        rng.normal(size=key_width),
        rng.normal(size=key_width),
        np.array([1.0, 0.0]),
    )
    weights = [
        np.outer(gamma, along),
        np.outer(along, queries),
        np.outer(along, keys),
        np.outer(along, beta),
    ]
    across = flatten(
        [
            matrix * 0 + place
            for matrix, place in zip(
                weights, ([0, 1], [[0], [1]], [[0], [1]], [[0], [1]]), strict=True
            )
        ]
    )
    J = jacobian(weights, **chain)[np.ix_(across > 0, across > 0)]
    assert theory.next_direction(*weights, **chain).rate == pytest.approx(rates(J)[0], rel=1e-12)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_print_what_they_say(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


REFUSED = {
    "a uniform law has no unigram point": lambda: theory.unigram_point(stationary=[0.25] * 4),
    "a token that never comes": lambda: theory.outer_spectrum(
        stationary=[0.7, 0.3, 0.0], d_model=2
    ),
    "no frequent token": lambda: theory.overlap_target(high=0.25, n_vocab=4),
    "one rare token cannot part": lambda: theory.critical_stay(0.6, 2),
    "the unigram point is never reached": lambda: theory.arrival_time(
        np.ones((3, 2)), np.ones((2, 3)), high=0.6, n_vocab=3, shortfall=0.0
    ),
    "more is missing than at the start": lambda: theory.arrival_overlap(
        high=0.6, n_vocab=3, shortfall=0.3
    ),
    "a start beyond the point asked for": lambda: theory.arrival_time(
        9 * np.ones((3, 2)), np.outer([1, 1], [4, -2, -2]), high=0.6, n_vocab=3, shortfall=0.1
    ),
    "attention that cannot saturate": lambda: theory.saturated_opening_rate(
        high=0.6, n_vocab=3, stay=0.3, asymmetry=[1e-3, -1e-3]
    ),
    "attention that turns away": lambda: theory.stall_point(high=0.6, n_vocab=4, stay=-0.1),
    "attention too slow to follow": lambda: theory.stall_point(high=0.34, n_vocab=3, stay=0.5),
    "shares that are not 1 in all": lambda: theory.condensation_rate(stationary=[0.6, 0.6, 0.6]),
    "a negative share": lambda: theory.focus_rate(
        stationary=[0.9, 0.3, -0.2], transition=np.eye(3)
    ),
    "a share that is no number": lambda: theory.unigram_loss(stationary=[0.5, np.nan, 0.5]),
    "a token that never comes has no logit": lambda: theory.focus_sign(
        stationary=[0.7, 0.3, 0.0], transition=np.eye(3)
    ),
    "a table of another size": lambda: theory.focus_rate(
        stationary=[0.7, 0.3], transition=np.eye(3)
    ),
    "rows that are not 1 in all": lambda: theory.drift_response(
        stationary=[0.7, 0.3], transition=np.ones((2, 2))
    ),
    "nothing to condense to": lambda: theory.condensation_slope(stationary=[0.5, 0.5]),
    "half a token": lambda: theory.two_level_law(high=0.6, n_vocab=2.5),
    "a chain with negative probabilities": lambda: theory.two_level_focus_rate(
        high=0.6, n_vocab=4, stay=-0.5
    ),
    "a chain that never moves": lambda: theory.degenerate_point(
        high=0.6, n_vocab=4, stay=1.0, high_attention=0.9
    ),
    "a linear stage of no order": lambda: theory.linear_stage_end(
        1e-3, high=0.6, n_vocab=4, order=1
    ),
    "a start of negative size": lambda: theory.linear_stage_end(
        -1e-3, high=0.6, n_vocab=4, order=4
    ),
    "weights of another vocabulary": lambda: theory.arrival_time(
        np.ones((3, 2)), np.ones((2, 3)), high=0.6, n_vocab=4, shortfall=0.1
    ),
    "queries of another width": lambda: theory.arrival_time(
        np.ones((3, 2)),
        np.ones((2, 3)),
        high=0.6,
        n_vocab=3,
        shortfall=0.1,
        query_0=np.ones((3, 1)),
        key_0=np.ones((3, 1)),
    ),
    "queries without keys": lambda: theory.arrival_time(
        np.ones((3, 2)),
        np.ones((2, 3)),
        high=0.6,
        n_vocab=3,
        shortfall=0.1,
        query_0=np.ones((2, 1)),
    ),
    "a start without weights": lambda: theory.arrival_time(
        np.zeros((3, 2)), np.zeros((2, 3)), high=0.6, n_vocab=3, shortfall=0.1
    ),
    "a start that is no number": lambda: theory.arrival_time(
        np.full((3, 2), np.nan), np.ones((2, 3)), high=0.6, n_vocab=3, shortfall=0.1
    ),
    "an asymmetry of other tokens": lambda: theory.saturated_opening_rate(
        high=0.6, n_vocab=3, stay=0.6, asymmetry=[1e-3, 0.0, -1e-3]
    ),
    "an asymmetry that is more than nothing in all": lambda: theory.saturated_opening_rate(
        high=0.6, n_vocab=3, stay=0.6, asymmetry=[1e-3, 1e-3]
    ),
    "frequencies that depend on the start": lambda: theory.frequency_covariance(
        stationary=[0.5, 0.5], transition=np.eye(2)
    ),
    "a context without tokens": lambda: theory.frequency_spread(0, stationary=[0.7, 0.3], stay=0.5),
    "a law that the table does not keep": lambda: theory.frequency_covariance(
        stationary=[0.9, 0.1], transition=np.full((2, 2), 0.5)
    ),
    "the last of no tokens": lambda: theory.last_token_law(0, stationary=[0.7, 0.3], stay=0.5),
    "a law of more than 1 in all": lambda: theory.last_token_law(
        3, stationary=[0.7, 0.7], stay=0.5
    ),
    "powers of no chain": lambda: theory.lazy_power(2, stationary=[0.7, 0.3], stay=3.0),
    "contexts of no chain": lambda: theory.frequency_spread(5, stationary=[0.7, 0.3], stay=2.0),
    "a stretch beyond the unigram point": lambda: theory.ray_duration(
        0.1, 99.0, high=0.6, n_vocab=4
    ),
    "a stretch from below the origin": lambda: theory.ray_duration(-0.1, 0.1, high=0.6, n_vocab=4),
    "a decoder of other tokens": lambda: theory.gradient_bias(
        np.ones((3, 3)), np.ones((2, 2)), stationary=[0.5, 0.5], transition=np.full((2, 2), 0.5)
    ),
    "negative attention": lambda: theory.saturated_point(
        high=0.6, n_vocab=3, stay=0.6, strength=-1.0
    ),
    "a width of no dimension": lambda: theory.attention_spectrum(
        stationary=[0.7, 0.3], transition=0.5 * np.eye(2) + [0.35, 0.15], d_model=0, d_key=1
    ),
    "a rate where attention does not saturate": lambda: theory.two_group_rate(
        theory.two_group_point(**lazy(np.array([0.75, 0.19, 0.05, 0.01]), 0.3)),
        **lazy(np.array([0.75, 0.19, 0.05, 0.01]), 0.3),
    ),
    "a next token that is impossible": lambda: theory.two_group_point(
        stationary=[0.5, 0.5, 0.0], transition=[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]
    ),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED)
def test_what_has_no_answer_is_refused_with_a_sentence(ask):
    with pytest.raises(InputError, match=r"\.$"):
        ask()
