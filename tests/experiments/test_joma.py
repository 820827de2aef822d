"""Several layers: the tree's population against one drawn node by node."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from saccade.errors import InputError
from saccade.model.attention_tree import AttentionTree

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
