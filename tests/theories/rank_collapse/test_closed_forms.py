"""Closed forms of the third theory against direct numerics: integration, differences, a matrix
exponential, sums over the data.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from saccade.data.labelled_sequences import LabelledSequences, anchor_sequences
from saccade.models.attention_classifier import AttentionClassifier, Weights
from saccade.theories import rank_collapse as theory

RNG = np.random.default_rng(5)
FACTORS = RNG.standard_normal(3), RNG.standard_normal((3, 5)), RNG.standard_normal(5)
TASKS = [(0.9, 0.9, 0.5), (0.95, 0.7, 0.5), (0.9, 0.6, 0.7), (0.3, 0.2, 0.4)]


def drift(quantity, h=1e-6):
    """Time derivative along the cubic flow by central differences."""
    steps = theory.slopes(*FACTORS)
    ahead, behind = (
        [part + sign * h * step for part, step in zip(FACTORS, steps, strict=True)]
        for sign in (1, -1)
    )
    return (quantity(*ahead) - quantity(*behind)) / (2 * h)


@pytest.mark.parametrize("which", [0, 1])
def test_both_matrix_laws_are_conserved_entry_by_entry(which):
    assert np.abs(drift(lambda *factors: theory.conserved(*factors)[which])).max() < 1e-8


def test_angles_are_the_cosines_of_definition_5_vector_by_vector():
    def cosine(one, other):
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other)

    (w, A, b), b_dot = FACTORS, theory.slopes(*FACTORS).readout
    found, rows = theory.angles(*FACTORS), w[:, None] * A
    np.testing.assert_allclose(
        found.rows, [[cosine(one, other) for other in rows] for one in rows], rtol=1e-12
    )
    np.testing.assert_allclose(
        found.velocity_rows, [cosine(row, b_dot) for row in rows], rtol=1e-12
    )
    np.testing.assert_allclose(found.readout_rows, [cosine(row, b) for row in rows], rtol=1e-12)
    assert found.readout_velocity == pytest.approx(cosine(b, b_dot), rel=1e-12)


def test_the_energy_grows_with_the_square_of_the_speed():
    w_dot, A_dot, b_dot = theory.slopes(*FACTORS)
    assert drift(theory.factor_energy) == pytest.approx(
        (w_dot**2).sum() + (A_dot**2).sum() + (b_dot**2).sum(), rel=1e-8
    )


def test_the_degeneracy_of_a_start_is_a_constant_of_motion():
    assert abs(drift(theory.degeneracy)) < 1e-6
    w, _, b = FACTORS
    D = (w**2).sum() - (b**2).sum()
    K1, K2 = theory.conserved(*FACTORS)
    constant = (D**2 + np.trace(K1 @ K1) - np.trace(K2 @ K2)) / 2
    assert theory.degeneracy(*FACTORS) == pytest.approx(
        constant - (D**2 if D > 0 else 0), rel=1e-12
    )


@pytest.mark.parametrize("scales", [(0.612, 0.610, 0.672), (1.3, 0.4, 0.9), (2.0, 1.1, 0.2)])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_blow_up_time_is_that_of_the_integrated_flow(scales, sign):
    def stretched(tau, y):
        x, z = y[:3], np.linalg.norm(y[:3])
        return [x[1] * x[2] / z, x[0] * x[2] / z, x[0] * x[1] / z, 1 / z]

    start = [*np.array(scales) * [1, sign, 1], 0.0]
    found = solve_ivp(stretched, (0, 60), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    measured = found[3] + np.cbrt(found[:3].prod()) ** -1
    assert theory.blow_up_time(*scales, positive=sign > 0) == pytest.approx(measured, rel=1e-9)


def test_a_tie_of_the_two_smallest_never_blows_up_with_negative_energy():
    assert theory.blow_up_time(0.5, 0.5, 1.0, positive=False) == np.inf


def test_the_condition_is_met_by_factors_of_rank_one_and_not_by_others():
    a, c = np.array([1.0, -2.0, 0.5]), np.array([0.3, -1.0])
    assert theory.condensation_condition(a, np.outer(a, c), c)
    assert not theory.condensation_condition(a, -np.outer(a, c), c)
    assert not theory.condensation_condition(*FACTORS)


def test_pairs_agree_from_the_size_that_the_conserved_matrices_tell():
    """Rows and columns of factors with given conserved matrices, at sizes just below and just
    above.
    """
    rng = np.random.default_rng(11)
    (a, c), K = rng.standard_normal((2, 6)), rng.standard_normal((2, 6, 6))
    K1, K2 = K[0] + K[0].T, K[1] + K[1].T
    size = theory.condition_size(K1, K2, a, c)
    for factor, agree in ((0.999, False), (1.001, True)):
        R = factor * size
        rows, columns = (
            R**2 * np.outer(a, a) - K1,
            R**2 * np.outer(c, c) + K2,
        )  # A Aᵀ and Aᵀ A by the two laws
        assert ((np.outer(a, a) * rows > 0).all() and (np.outer(c, c) * columns > 0).all()) == agree


def test_the_solution_of_stage_two_is_the_exponential_of_its_block_matrix():
    F, Q, K = RNG.standard_normal((3, 5, 5))
    whole = expm(0.7 * np.block([[np.zeros((5, 5)), F], [F.T, np.zeros((5, 5))]])) @ np.concatenate(
        [Q, K]
    )
    query, key = theory.stage_two(0.7, F, Q, K)
    np.testing.assert_allclose(np.concatenate([query, key]), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("task", TASKS)
def test_the_two_clue_task_is_as_its_closed_forms_say(task):
    data, told = LabelledSequences.two_clue(*task), theory.TwoClue(*task)
    given = data.tokens, data.label, data.weight
    pull = (data.weight * data.label) @ data.tokens.mean(axis=1)
    np.testing.assert_allclose(pull, told.pull(0) * np.eye(5)[0], atol=1e-15)
    assert told.slope == pytest.approx(np.linalg.norm(pull), rel=1e-14)
    for beta in (0.0, 0.7, told.beta_star):
        along = beta * np.eye(5)[0]
        assert theory.uniform_loss(along, *given) == pytest.approx(
            told.uniform_loss(beta), rel=1e-14
        )
        assert told.pull(beta) == pytest.approx(
            -(told.uniform_loss(beta + 1e-6) - told.uniform_loss(beta - 1e-6)) / 2e-6, abs=1e-9
        )
        np.testing.assert_allclose(
            theory.attention_drive(along, *given), told.drive(beta), atol=1e-16
        )
    star = theory.uniform_optimum(*given)
    np.testing.assert_allclose(star, told.beta_star * np.eye(5)[0], atol=1e-12)
    assert theory.uniform_loss(star, *given) == pytest.approx(told.plateau, rel=1e-14)
    assert told.uniform_loss(told.beta_at(0.95)) == pytest.approx(0.95, rel=1e-12)


def test_clues_that_are_mostly_wrong_escape_when_those_that_are_mostly_right_do():
    wrong, right = theory.TwoClue(0.3, 0.2, 0.4), theory.TwoClue(0.7, 0.8, 0.4)
    assert wrong.beta_at(0.98) == pytest.approx(-right.beta_at(0.98), rel=1e-12)
    assert wrong.escape_offset(0.98) == pytest.approx(right.escape_offset(0.98), rel=1e-9)


def test_the_escape_offset_is_that_of_the_integrated_ray():
    task, level, small = theory.TwoClue(), 0.9, 1e-3
    r1 = task.beta_at(level) ** (1 / 3)
    ray = solve_ivp(
        lambda r, t: [1 / (task.pull(r**3) * r**2)],
        (small, r1),
        [-1 / (task.slope * small)],
        rtol=1e-12,
        atol=1e-12,
    )
    assert task.escape_offset(level) == pytest.approx(ray.y[0, -1], abs=1e-5)


def test_the_drive_is_minus_the_slope_of_the_loss_along_the_logits():
    data, beta = (
        LabelledSequences.noisy_teacher(7, (1.0, 0.5, 2.0), length=5, seed=2),
        np.array([0.3, -0.4, 0.2]),
    )
    F = theory.attention_drive(beta, data.tokens, data.label, data.weight)
    for i, j in ((0, 1), (2, 2), (1, 0)):
        losses = []
        for step in (1e-6, -1e-6):
            logits = step * data.tokens[:, -1, i, None] * data.tokens[:, :, j] / np.sqrt(3)
            attention = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            output = np.einsum("ns,nsd,d->n", attention, data.tokens, beta)
            losses.append(data.weight @ np.exp(-data.label * output))
        assert F[i, j] == pytest.approx(-(losses[0] - losses[1]) / 2e-6, abs=1e-9)


def test_labels_without_noise_are_separable_and_noisy_ones_are_not():
    clean, noisy = (
        LabelledSequences.noisy_teacher(40, (1.0, 1.0), noise=noise, seed=1) for noise in (0.0, 2.0)
    )
    assert theory.is_separable(*clean.given)
    assert not theory.is_separable(*noisy.given)


def test_clues_that_are_never_wrong_leave_no_plateau_though_half_the_sequences_tell_nothing():
    assert theory.is_separable(*LabelledSequences.two_clue(1.0, 1.0).given)
    assert not theory.is_separable(*LabelledSequences.two_clue(1.0, 0.9).given)
    assert not theory.is_separable(
        *LabelledSequences.two_clue(0.9, 0.1).given
    )  # the mean token tells nothing


def test_anchor_sequences_have_one_anchor_and_the_target_of_equation_60():
    drawn = anchor_sequences(200, seed=3)
    assert ((drawn.tokens < 5).sum(axis=1) == 1).all()
    assert (drawn.place < 9).all()
    assert set(drawn.anchor) == {1, 2, 3, 4}
    for tokens, target in zip(drawn.tokens.tolist(), drawn.target.tolist(), strict=True):
        place = next(i for i, token in enumerate(tokens) if token < 5)
        assert target == tokens[place + 1] + tokens[place] % 2


def test_rotary_drives_are_slopes_of_the_loss_and_sum_to_the_drive_without_angles():
    """Against the velocity of queries in the model itself, with two pairs of key coordinates."""
    data, angles = LabelledSequences.noisy_teacher(7, (1.0, 0.5, 2.0), length=5, seed=2), (0.7, 1.9)
    given, beta = (data.tokens, data.label, data.weight), np.array([0.3, -0.4, 0.2])
    np.testing.assert_allclose(
        theory.rotary_drive(beta, *given, [0.0])[0],
        theory.attention_drive(beta, *given),
        atol=1e-15,
    )
    system = AttentionClassifier(data, d_key=4, angles=angles)
    outer = np.outer(beta, [1.0, 0, 0]), np.diag([1.0, 0, 0]), np.array([1.0, 0, 0])
    keys = RNG.standard_normal((3, 4))
    moved = system.downhill(Weights(*outer, np.zeros((3, 4)), keys))[0].query
    told = np.einsum(
        "cde,ec->dc", theory.rotary_drive(beta, *given, angles), keys[:, ::2] + 1j * keys[:, 1::2]
    )
    np.testing.assert_allclose(moved[:, ::2] + 1j * moved[:, 1::2], told, atol=1e-15)


def test_the_residual_of_a_complex_direction_is_that_of_its_two_real_columns():
    u, z = RNG.standard_normal(5) + 1j * RNG.standard_normal(5), 0.3 - 1.1j
    values = np.linalg.svd(np.stack([(z * u).real, (z * u).imag]))[1]
    assert theory.rotary_residual(u / np.linalg.norm(u)) == pytest.approx(
        values[1] / values[0], rel=1e-12
    )


def test_the_anchor_task_for_one_output_has_one_vector_for_each_token_and_labels_by_the_target():
    data, drawn = LabelledSequences.anchor(30, 3, seed=5), anchor_sequences(30, seed=5)
    first = {token: data.tokens[drawn.tokens == token][0] for token in np.unique(drawn.tokens)}
    np.testing.assert_array_equal(
        data.tokens, np.array([[first[token] for token in row] for row in drawn.tokens])
    )
    assert (drawn.target[data.label > 0].min()) > drawn.target[data.label < 0].max()
    assert abs(data.label.sum()) <= 2
