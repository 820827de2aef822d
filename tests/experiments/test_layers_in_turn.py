"""Several layers: every verdict as expected, and every claim able to fail; the tree's population
against one drawn node by node.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.layers_in_turn import EXPERIMENT
from saccade.lab.claim import FAILS
from saccade.model.attention_tree import AttentionTree
from tests.experiments.default_runs import record_of

LAW = np.array([[0.5, 0.3, 0.2, 0.0], [0.5, 0.0, 0.1, 0.4]])


@pytest.fixture(scope="module")
def record():
    return record_of("layers-in-turn")


def failing(record):
    return [
        claim.title
        for claim in EXPERIMENT.claims(record)
        if claim.verdict == FAILS and not claim.breaks
    ]


def test_layers_turn_together_and_the_lowest_obeys_the_joint_law(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert [claim.breaks for claim in claims if claim.breaks] == ["exponential attention"]
    assert len(EXPERIMENT.figure(record).axes) == 2


def test_layers_that_turn_far_apart_do_not_freeze_or_do_not_fall_are_seen(record):
    known = len(failing(record))
    assert (
        len(failing(record.assign(turned=record.turned * xr_like(record.turned, [0.1, 1, 1])))) == 2
    )  # lowest first: apart
    assert len(failing(record.assign(still_moving=record.still_moving + 0.5))) == known + 2
    assert len(failing(record.assign(entropy=1 + 0 * record.entropy))) == known + 2


def xr_like(array, by_layer):
    return array.copy(data=np.broadcast_to(by_layer, array.shape))


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
