"""One layer: what JoMA conserves. Several: the tree's population, drawn node by node."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.experiments.scan_and_snap.attention_tree import AttentionTree
from saccade.experiments.scan_and_snap.joint_layer import JointLayer
from saccade.experiments.scan_and_snap.joma import contexts, drift
from saccade.theories import joma

LAW = np.array([[0.5, 0.3, 0.2, 0.0], [0.5, 0.0, 0.1, 0.4]])


def test_the_loss_of_a_tree_is_the_mean_over_its_hidden_states():
    """Two layers, node by node: the first of three children has the root's state, the others any."""
    tree = AttentionTree(2, LAW)
    at = jax.tree.map(lambda part: part + 0.3, tree.start(np.random.default_rng(1)))
    share = np.exp(at.attention[0]) * LAW
    lowest = np.tanh(share / share.sum(axis=1, keepdims=True) @ at.neurons[0].T)
    weight = np.exp(at.attention[1]) / np.exp(at.attention[1]).sum()
    losses = []
    for states in np.ndindex(2, 2, 2):
        out = np.tanh((weight @ lowest[list(states)]) @ at.neurons[1].T) @ at.decoder
        losses.append(np.log1p(np.exp(-out if states[0] else out)))
    with jax.enable_x64(True):
        np.testing.assert_allclose(tree.loss(at), np.mean(losses), rtol=1e-12)


def test_a_fourth_layer_is_refused():
    with pytest.raises(InputError, match="must be 1 to 3"):
        AttentionTree(4, LAW)


@pytest.mark.parametrize(("queries", "conserved"), [(1, True), (2, False)])
def test_the_layer_above_fixes_exponential_attention_if_one_query_has_it_alone(queries, conserved):
    counts, target, query = contexts(queries, np.random.default_rng(0))
    run = saccade.flow(JointLayer("exp", counts, target, query, np.eye(9)), t1=10.0, seed=0)
    logits = run.logits.values[:, 0]
    assert (drift(logits, joma.invariant("exp", logits, run.weights.values)) < 1e-6) == conserved
