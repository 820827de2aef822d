"""Critical points, spectra and growth rates, against flows whose answers are known in closed form."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saccade
from saccade.engines.linearise import critical_point, is_symmetric, jacobian, spectrum
from saccade.errors import InputError
from saccade.models import embedded
from saccade.models.embedded import Setting, Weights, weights_of
from saccade.theories import focus_and_dilution as theory

BLOCKS = {"embedding": ["embedding"], "projection": ["projection"], "attention": ["query", "key"]}


class Pair(NamedTuple):
    """Five parameters in two fields of different shapes."""

    corner: Any  # scalar
    table: Any  # 2 x 2


def linear(state: Pair, matrix: Any) -> Pair:
    moved = matrix @ jnp.concatenate([jnp.reshape(state.corner, 1), state.table.ravel()])
    return Pair(moved[0], moved[1:].reshape(2, 2))


def hyperbola(state: Pair, target: Any) -> Pair:
    """Gradient flow of (xy - target)^2 / 2 in the corner x and one entry y of the table; the other
    entries shrink.
    """
    x, y = state.corner, state.table[0, 0]
    gap = x * y - target
    return Pair(-gap * y, -state.table.at[0, 0].set(gap * x))


def nowhere_at_rest(state: Pair, floor: Any) -> Pair:
    return Pair(state.corner**2 + floor, -state.table)


def unbounded(state: Pair, setting: Any) -> Pair:
    return Pair(jnp.log(state.corner), state.table)


@pytest.fixture(scope="module")
def chain():
    return saccade.MarkovChain.zipf(5, stay=0.4)


def setting_of(chain, **changed):
    return Setting(chain.stationary, chain.transition, 1.0, 1.0, 1.0)._replace(**changed)


def unigram(chain, d_model=7, d_key=3):
    direction = np.random.default_rng(2).normal(size=d_model)
    return Weights(
        *theory.unigram_weights(stationary=chain.stationary, direction=direction, d_key=d_key)
    )


def test_the_spectrum_of_a_linear_flow_is_that_of_its_matrix():
    matrix = np.random.default_rng(0).normal(size=(5, 5))
    found = spectrum(linear, Pair(0.0, np.zeros((2, 2))), matrix)
    wanted = np.linalg.eigvals(matrix)
    np.testing.assert_allclose(
        found.eigenvalues, wanted[np.argsort(-wanted.real, kind="stable")], atol=1e-13
    )
    np.testing.assert_allclose(
        matrix @ found.eigenvectors, found.eigenvectors * found.eigenvalues, atol=1e-13
    )
    np.testing.assert_allclose(found.block_eigenvalues["corner"], matrix[0, 0])
    np.testing.assert_allclose(
        np.sort_complex(found.block_eigenvalues["table"]),
        np.sort_complex(np.linalg.eigvals(matrix[1:, 1:])),
    )


def test_the_unstable_subspace_of_a_rotating_flow_is_invariant_and_holds_all_that_grows():
    turning = np.array(
        [
            [0.2, -3, 0, 0, 0],
            [3, 0.2, 0, 0, 0],
            [0, 0, 0.1, 0, 0],
            [0, 0, 0, -1, 0],
            [0, 0, 0, 0, -2],
        ]
    )
    base = np.random.default_rng(1).normal(size=(5, 5))
    matrix = base @ turning @ np.linalg.inv(base)
    found = spectrum(linear, Pair(0.0, np.zeros((2, 2))), matrix)
    np.testing.assert_allclose(found.growth_rates, [0.2, 0.2, 0.1], atol=1e-12)
    basis = found.unstable_subspace
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(basis @ (basis.T @ matrix @ basis), matrix @ basis, atol=1e-11)


def test_shares_of_all_blocks_add_up_to_one():
    matrix = np.random.default_rng(3).normal(size=(5, 5))
    found = spectrum(linear, Pair(0.0, np.zeros((2, 2))), matrix)
    np.testing.assert_allclose(found.shares["corner"] + found.shares["table"], 1)
    np.testing.assert_allclose(found.shares["corner"], np.abs(found.eigenvectors[0]) ** 2)


def test_newton_enters_a_continuum_of_critical_points_near_by():
    start = Pair(1.3, np.array([[2.1, 0.3], [-0.2, 0.1]]))
    found = critical_point(hyperbola, start, 2.0)
    assert found.converged
    assert found.stop_reason == "converged"
    assert found.residual < 1e-12
    assert found.state.corner * found.state.table[0, 0] == pytest.approx(2.0, abs=1e-12)
    assert (
        np.hypot(found.state.corner - 1.3, found.state.table[0, 0] - 2.1) < 0.4
    )  # the hyperbola passes at 0.29
    np.testing.assert_allclose(found.state.table.ravel()[1:], 0, atol=1e-12)
    assert found.n_steps < 10  # quadratic convergence, the flat direction notwithstanding


def test_a_search_that_cannot_succeed_says_why():
    start = Pair(0.7, np.ones((2, 2)))
    stuck = critical_point(nowhere_at_rest, start, 1.0)
    assert not stuck.converged
    assert stuck.residual == pytest.approx(1.0, rel=1e-3)  # the floor: the best there is
    assert stuck.stop_reason.startswith(("stuck", "gave up"))
    assert (
        critical_point(nowhere_at_rest, start, 1.0, most_steps=2).stop_reason
        == "gave up after 2 steps"
    )
    assert (
        critical_point(unbounded, start._replace(corner=-1.0), 0.0).stop_reason
        == "the velocity is not finite"
    )


def test_the_plateau_of_a_flow_leads_to_the_unigram_point(chain):
    run = saccade.flow(chain, t1=150, n_times=300).isel(seed=0)
    near = int(np.argmax(run.loss.values < chain.unigram_loss + 1e-3))
    found = critical_point(
        embedded.velocity, Weights(*(matrix[near] for matrix in weights_of(run))), setting_of(chain)
    )
    assert found.converged
    logits = (
        chain.stationary @ found.state.embedding @ found.state.projection
    )  # with attention off, those of every query
    np.testing.assert_allclose(
        logits - logits.mean(), theory.centred_log(stationary=chain.stationary), atol=1e-4
    )
    with jax.enable_x64(True):
        assert abs(float(embedded.loss(found.state, setting_of(chain))) - chain.unigram_loss) < 1e-9


@pytest.mark.parametrize("lr_attention", [1.0, 3.0])
def test_only_attention_grows_at_the_unigram_point_once_for_each_key_dimension(chain, lr_attention):
    weights, setting = (
        unigram(chain, d_key=3),
        setting_of(chain, lr_attention=lr_attention, phi_scale=0.5),
    )
    found = spectrum(embedded.velocity, weights, setting, blocks=BLOCKS)
    c = theory.focus_rate(
        stationary=chain.stationary,
        transition=chain.transition,
        phi_scale=0.5,
        lr_attention=lr_attention,
    )
    assert found.n_unstable == 3
    np.testing.assert_allclose(found.growth_rates, c, rtol=1e-9)
    np.testing.assert_allclose(found.shares["attention"][:3], 1, atol=1e-12)
    np.testing.assert_allclose(
        found.block_eigenvalues["attention"][[0, 1, 2, -3, -2, -1]].real,
        [c, c, c, -c, -c, -c],
        rtol=1e-9,
    )
    for outer in ("embedding", "projection"):
        assert found.block_eigenvalues[outer].real.max() < 1e-12


def test_one_rate_makes_the_jacobian_symmetric_and_two_do_not(chain):
    rng = np.random.default_rng(4)
    weights = Weights(*(rng.normal(size=matrix.shape) for matrix in unigram(chain)))
    assert is_symmetric(jacobian(embedded.velocity, weights, setting_of(chain)))
    assert not is_symmetric(
        jacobian(embedded.velocity, weights, setting_of(chain, lr_attention=2.0))
    )


def test_float32_callers_get_float64_answers(chain):
    assert jacobian(embedded.velocity, unigram(chain), setting_of(chain)).dtype == np.float64


def test_a_block_of_an_unknown_field_is_named(chain):
    with pytest.raises(InputError, match="quary"):
        spectrum(
            embedded.velocity, unigram(chain), setting_of(chain), blocks={"attention": ["quary"]}
        )


def test_fields_of_a_dict_are_blocks_too():
    found = spectrum(
        lambda state, setting: {"x": 2 * state["x"], "y": -state["y"]},
        {"x": np.ones(2), "y": np.ones(3)},
        None,
    )
    np.testing.assert_allclose(found.shares["x"], [1, 1, 0, 0, 0])
    np.testing.assert_allclose(found.block_eigenvalues["y"], [-1, -1, -1])


def test_a_spectrum_prints_its_growing_modes_with_rates_and_blocks_and_no_arrays():
    matrix = np.diag([2.0, 0.5, -1.0])

    def velocity(state, setting):
        return dict(zip(state, matrix @ jnp.stack(list(state.values())), strict=True))

    told = repr(spectrum(velocity, {"a": 0.0, "b": 0.0, "c": 0.0}, None))
    assert told == "Spectrum: 2 of 3 modes grow\n  rate 2: a 100 %\n  rate 0.5: b 100 %"


def test_a_critical_point_prints_how_the_search_ended():
    found = critical_point(lambda state, setting: -state, np.ones(3), None)
    assert repr(found).startswith(
        f"CriticalPoint: converged ({found.n_steps} Newton steps); the speed there is "
    )
    assert "[" not in repr(found)
