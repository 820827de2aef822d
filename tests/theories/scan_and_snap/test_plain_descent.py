"""Plain descent on the decoder: the reduced equations against a simulation of eq. 7, and Remark 1
against both.
"""

import numpy as np
import pytest
from scipy.special import softmax

from saccade.theories.scan_and_snap import (
    decoder_height,
    equal_overlap_coupling,
    plain_backprop,
    remark_1_logit,
    scan_time,
    speed,
)


def simulate(n_rounds, *, overlap, n_vocab, n_classes, lr_decoder):
    """Batch-1 plain descent, classes in turn, in the coordinates Y = sum_n f_n a_n^T; returns the
    a_n and the Gram matrix.
    """
    gram = np.full((n_classes, n_classes), overlap) + (1 - overlap) * np.eye(n_classes)
    coordinates, target = np.zeros((n_classes, n_vocab)), np.eye(n_classes, n_vocab)
    for _ in range(n_rounds):
        for label in range(n_classes):
            coordinates[label] += lr_decoder * (target[label] - softmax(gram[label] @ coordinates))
    return coordinates, gram


def sent_back(coordinates, gram):
    """Coefficients of f_0 and, negated, of f_1 in g_0 = Y (e_0 - alpha_0)."""
    error = np.eye(coordinates.shape[1])[0] - softmax(gram[0] @ coordinates)
    return coordinates[0] @ error, -(coordinates[1] @ error)


@pytest.mark.parametrize(("n_classes", "overlap"), [(2, 0.31), (5, 0.1)])
@pytest.mark.parametrize("n_rounds", [60, 400])
def test_reduced_equations_match_plain_descent(n_classes, overlap, n_rounds):
    case = {"overlap": overlap, "n_vocab": 307, "n_classes": n_classes, "lr_decoder": 0.05}
    coordinates, gram = simulate(n_rounds, **case)
    predicted = plain_backprop([n_rounds * n_classes], **case)
    own, other = sent_back(coordinates, gram)
    assert predicted.own[0] == pytest.approx(own, rel=0.02)
    assert predicted.other[0] == pytest.approx(other, rel=0.02)
    assert predicted.own_logit[0] == pytest.approx((gram @ coordinates)[0, 0], rel=0.01)
    assert predicted.other_logit[0] == pytest.approx((gram @ coordinates)[0, 1], rel=0.01)


def test_halving_the_rate_halves_the_distance_to_the_reduced_equations():
    def distance(lr_decoder):
        case = {"overlap": 0.2, "n_vocab": 101, "n_classes": 3, "lr_decoder": lr_decoder}
        n_rounds = round(8 / lr_decoder)
        return (
            plain_backprop([3 * n_rounds], **case).other[0]
            - sent_back(*simulate(n_rounds, **case))[1]
        )

    assert distance(0.1) / distance(0.05) == pytest.approx(2, rel=0.1)


def test_plain_coupling_is_a_small_part_of_what_theorem_1_claims():
    case = {"n_vocab": 1000, "n_classes": 2, "lr_decoder": 0.3}
    t = scan_time(**case) * np.array([0.5, 1, 2, 10, 40])
    share = plain_backprop(t, overlap=0.31, **case).other / speed(t, **case)
    share /= equal_overlap_coupling(0.31, n_classes=2)[0, 1]
    np.testing.assert_allclose(share, [0.0107, 0.0267, 0.0517, 0.1024, 0.1542], rtol=5e-3)
    np.testing.assert_allclose(
        share, [0.010, 0.026, 0.050, 0.100, 0.151], rtol=0.07
    )  # as first published


@pytest.mark.parametrize("overlap", [0.05, 0.6])
def test_plain_coupling_starts_at_one_over_vocabulary_whatever_the_overlap(overlap):
    case = {"n_vocab": 1009, "n_classes": 3, "lr_decoder": 1.0}
    t = 1e-3
    assert plain_backprop([t], overlap=overlap, **case).other / speed(t, **case) == pytest.approx(
        1 / 1009, rel=0.01
    )


def test_plain_coupling_is_the_smallest_possible_when_every_token_is_a_class():
    t = np.geomspace(1, 1e4, 9)
    path = plain_backprop(t, overlap=0.2, n_vocab=31, n_classes=31, lr_decoder=0.5)
    np.testing.assert_allclose(path.other / path.own, 1 / 30, rtol=1e-8)


def test_remark_1_holds_as_a_rate_and_fails_as_printed_when_every_token_is_a_class():
    case = {"overlap": 0.2, "n_vocab": 30, "lr_decoder": 0.1}
    coordinates, gram = simulate(120, n_classes=30, **case)
    logit = (gram @ coordinates)[0, 0]
    assert remark_1_logit(120, **case)[-1] == pytest.approx(logit, rel=1e-3)
    assert remark_1_logit(120, **case, as_printed=True)[-1] == pytest.approx(4.13, abs=0.01)
    assert logit == pytest.approx(4.82, abs=0.01)


def test_remark_1_fails_either_way_when_few_tokens_are_classes():
    case = {"overlap": 0.2, "n_vocab": 200, "lr_decoder": 0.05}
    coordinates, gram = simulate(400, n_classes=4, **case)
    logits = (gram @ coordinates)[0]
    assert logits[0] == pytest.approx(7.774, abs=2e-3)
    assert logits[1] == pytest.approx(
        1.44, abs=5e-3
    )  # the visible effect: labels of the other classes rise
    modified = 199 * decoder_height(400, n_vocab=200, lr_decoder=0.05)
    assert modified == pytest.approx(7.764, abs=1e-3)
    assert 0.8 * modified == pytest.approx(6.211, abs=1e-3)
    assert remark_1_logit(400, **case, as_printed=True)[-1] < logits[0] - 1.5
    assert remark_1_logit(400, **case)[-1] < logits[0] - 0.2
