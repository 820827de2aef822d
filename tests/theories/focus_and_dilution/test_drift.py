"""Stage III: the drift of the embedding against the rank-one flow that it is the first order of."""

import numpy as np
import pytest
from scipy.signal import find_peaks

from saccade.theories.focus_and_dilution import (
    RankOneState,
    contrast_force,
    contrast_of_strength,
    contrast_path,
    crossing_strength,
    drift_direction,
    drift_displacement,
    drift_exponent,
    drift_response,
    focus_rate,
    mass_redistribution,
    off_stationary,
    peak_strength,
    rank_one_attention,
    rank_one_velocity,
    two_level_combination,
    two_level_drift,
    two_level_focus_rate,
    unigram_point,
)

from .chains import CHAINS, two_level
from .numeric import rank_one_flow

chains = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
RATES = [{}, {"phi_scale": 0.3}, {"lr_attention": 4.0}, {"lr_decoder": 2.0, "lr_attention": 3.0}]


def plateau(chain, scale):
    """The unigram point with attention along the growing mode."""
    gamma, beta = unigram_point(stationary=chain["stationary"])
    return RankOneState(gamma, beta, scale, float(np.sign(focus_rate(**chain))) * scale)


@chains
def test_force_of_attention_only_redistributes(chain):
    force = mass_redistribution(**chain)
    assert np.sum(force) == pytest.approx(0, abs=1e-15)
    assert np.abs(force).max() > 1e-4
    gamma = unigram_point(stationary=chain["stationary"]).gamma
    assert gamma @ force == pytest.approx(3 * focus_rate(**chain), rel=1e-12)


@chains
@pytest.mark.parametrize("phi_scale", [1.0, 0.3])
def test_force_is_the_velocity_of_the_embedding_per_strength_away_from_the_law(chain, phi_scale):
    state = plateau(chain, 1e-4)
    velocity = rank_one_velocity(state, **chain, phi_scale=phi_scale).gamma
    strength = phi_scale * state.query_scale * state.key_scale
    measured = off_stationary(velocity, stationary=chain["stationary"]) / strength
    np.testing.assert_allclose(measured, drift_direction(**chain), rtol=1e-6, atol=1e-8)


@chains
@pytest.mark.parametrize("rates", RATES)
def test_drift_is_the_predicted_one_component_by_component(chain, rates):
    ratio = rates.get("lr_attention", 1.0) / rates.get("lr_decoder", 1.0)
    phi_scale = rates.get("phi_scale", 1.0)
    rate = abs(
        focus_rate(**chain, phi_scale=phi_scale, lr_attention=rates.get("lr_attention", 1.0))
    )
    state = rank_one_flow(plateau(chain, 1e-5), [6 / rate], **chain, **rates)[0]
    strength = phi_scale * state.query_scale * state.key_scale
    predicted = drift_displacement(strength, **chain, phi_scale=phi_scale, rate_ratio=ratio)
    measured = off_stationary(state.gamma, stationary=chain["stationary"])
    np.testing.assert_allclose(measured, predicted, rtol=0.01, atol=1e-3 * np.abs(predicted).max())


@chains
def test_drift_grows_at_twice_the_focus_rate(chain):
    rate = focus_rate(**chain)
    times = np.array([6.0, 7.0]) / abs(rate)
    states = rank_one_flow(plateau(chain, 1e-5), times, **chain)
    size = [
        np.linalg.norm(off_stationary(state.gamma, stationary=chain["stationary"]))
        for state in states
    ]
    exponent = np.log(size[1] / size[0]) / (times[1] - times[0])
    assert exponent == pytest.approx(drift_exponent(**chain), rel=0.01)
    assert drift_exponent(**chain) == pytest.approx(2 * abs(rate), rel=1e-14)


def test_from_five_tokens_on_the_frequent_token_may_lose_too():
    """Equal rare tokens; erratum 1.7."""
    falling = {
        n_vocab
        for n_vocab in (2, 3, 4, 5, 6, 10, 30)
        for excess in np.linspace(0.05, 0.95, 19)
        for stay in (0.01, 0.1, 0.5, 0.9)
        for high in [1 / n_vocab + excess * (1 - 1 / n_vocab)]
        if drift_response(**two_level(high, n_vocab, stay)).gamma[0] < 0
    }
    assert falling == {5, 6, 10, 30}


@pytest.mark.parametrize("chain", ["paper", "zipf"])
def test_the_most_frequent_token_gains_and_the_rarer_a_token_the_sooner_it_crosses(chain):
    crossing = crossing_strength(**CHAINS[chain])
    assert np.isinf(crossing[0])
    assert drift_displacement(1.0, **CHAINS[chain])[0] > 0
    assert (np.diff(crossing[crossing < np.inf]) < 0).all()
    assert crossing[-1] > 0


def test_an_anti_persistent_chain_dilutes_at_negative_strength():
    crossing = crossing_strength(**CHAINS["anti-persistent"])
    np.testing.assert_array_equal(np.isfinite(crossing), [False, *[True] * 5])
    assert (crossing < 0).all()


@pytest.mark.parametrize("scaled", [{}, {"phi_scale": 0.3, "rate_ratio": 4.0}])
def test_embedding_of_first_order_is_zero_at_the_crossing_and_halved_at_the_peak(scaled):
    chain = CHAINS["zipf"]
    gamma = unigram_point(stationary=chain["stationary"]).gamma
    crossing, peak = crossing_strength(**chain, **scaled), peak_strength(**chain, **scaled)
    for token in np.flatnonzero(np.isfinite(crossing)):
        moved = (
            gamma[token]
            + drift_displacement(np.array([peak[token], crossing[token]]), **chain, **scaled)[
                :, token
            ]
        )
        np.testing.assert_allclose(moved, [gamma[token] / 2, 0], atol=1e-14)
        strengths = peak[token] * np.array([0.99, 1.0, 1.01])
        focus = strengths * (
            gamma[token] + drift_displacement(strengths, **chain, **scaled)[:, token]
        )
        assert np.argmax(focus) == 1


@pytest.fixture(scope="module", params=["paper", "zipf"])
def turning(request):
    """Strength, embedding relative to the plateau and attention on token 0, along the rank-one flow
    through its first turn.
    """
    chain = CHAINS[request.param]
    path = rank_one_flow(
        plateau(chain, 1e-4), np.linspace(0, 60 / focus_rate(**chain), 20_000), **chain
    )
    return {
        "chain": chain,
        "strength": np.array([state.query_scale * state.key_scale for state in path]),
        "share": np.array([state.gamma for state in path])
        / unigram_point(stationary=chain["stationary"]).gamma,
        "attention": np.array(
            [rank_one_attention(state, stationary=chain["stationary"])[:, 0] for state in path]
        ),
    }


def test_attention_on_token_0_turns_when_the_embedding_of_the_query_has_lost_about_half(turning):
    predicted = peak_strength(**turning["chain"])
    for query in range(1, len(predicted)):
        first = find_peaks(turning["attention"][:, query])[0][0]
        assert 0.435 < turning["share"][first, query] < 0.515  # .44 to .51
        assert 0.855 < turning["strength"][first] / predicted[query] < 1.415


def test_focus_is_gone_near_the_predicted_crossing(turning):
    predicted, caught = crossing_strength(**turning["chain"]), []
    for query in range(1, len(predicted)):
        below = np.flatnonzero(turning["share"][:, query] < 0)
        if len(below):
            assert 0.735 < turning["strength"][below[0]] / predicted[query] < 1.155
        else:
            caught.append(query)
    assert caught == {4: [], 6: [1]}[len(predicted)]


@pytest.mark.parametrize("turning", ["zipf"], indirect=True)
def test_first_focus_of_the_rank_one_flow_is_that_of_the_whole_flow(turning):
    peaks = [
        turning["attention"][find_peaks(turning["attention"][:, q])[0][0], q] for q in range(1, 6)
    ]
    np.testing.assert_allclose(
        peaks, [0.511, 0.452, 0.434, 0.426, 0.422], atol=0.001
    )  # by another program, from random weights


@chains
def test_response_is_how_far_the_flow_has_moved_for_each_unit_of_strength(chain):
    scale, growth = 1e-5, 30.0
    start = plateau(chain, scale)
    (end,) = rank_one_flow(start, [np.log(growth) / abs(focus_rate(**chain))], **chain)
    response, strength = (
        drift_response(**chain),
        scale**2 * (growth**2 - 1) * np.sign(focus_rate(**chain)),
    )
    assert (end.gamma - start.gamma) / strength == pytest.approx(
        response.gamma, rel=0.03, abs=0.03 * np.abs(response.gamma).max()
    )
    assert (end.beta - start.beta) / strength == pytest.approx(
        response.beta, rel=0.03, abs=0.03 * np.abs(response.beta).max()
    )


@chains
def test_response_off_the_law_is_the_drift(chain):
    off = off_stationary(drift_response(**chain).gamma, stationary=chain["stationary"])
    assert off == pytest.approx(drift_displacement(1.0, **chain), abs=1e-12)


@pytest.mark.parametrize("high, n_vocab, stay", [(0.6, 4, 0.5), (0.9, 10, 0.3)])
def test_equal_low_tokens_follow_the_papers_equations(high, n_vocab, stay):
    chain, law = two_level(high, n_vocab, stay), {"high": high, "n_vocab": n_vocab}
    gamma, beta = (
        np.append(one, np.full(n_vocab - 1, other)) for one, other in ((1.3, 0.2), (0.7, -0.4))
    )
    found = rank_one_velocity(RankOneState(gamma, beta, 0.8, 0.8), **chain).gamma[:2]
    assert two_level_drift(1.3, 0.2, 1.1, 0.64, stay=stay, **law) == pytest.approx(found, rel=1e-13)
    c = two_level_focus_rate(stay=stay, **law)
    assert contrast_force(stay=stay, **law) / (2 * c) == pytest.approx(
        float(contrast_of_strength(1.0, **law))
    )
    t, strength_0 = np.array([0.0, 1.0, 10.0]), 1e-6
    grown = strength_0 * np.expm1(2 * c * t)
    assert contrast_path(t, strength_0=strength_0, stay=stay, **law) == pytest.approx(
        contrast_of_strength(grown, **law)
    )
    assert two_level_combination(drift_response(**chain).gamma, high=high) == pytest.approx(
        float(contrast_of_strength(1.0, **law))
    )
