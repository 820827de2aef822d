"""Lemma 3 and Theorem 1: what the decoder sends back, measured on simulated decoders."""

import numpy as np
import pytest
from scipy.special import softmax

from saccade.theories.scan_and_snap import (
    backprop_coefficients,
    class_coupling,
    class_drive,
    class_overlap,
    count_deviation,
    decoder_from_heights,
    decoder_height,
    decoder_height_discrete,
    drive_from_coupling,
    equal_overlap_coupling,
    equal_overlap_eigenvalues,
    modified_decoder_dot,
    normalised_feature,
    plain_decoder_dot,
    speed_at_height,
)


def equal_overlap_feature(overlap, *, n_classes, n_vocab):
    """One common token, one distinct token per class: every two classes overlap by `overlap`."""
    feature = np.zeros((n_classes, n_vocab))
    feature[:, -1] = np.sqrt(overlap)
    feature[range(n_classes), range(n_classes)] = np.sqrt(1 - overlap)
    return feature


def random_feature(n_classes, n_vocab, *, seed):
    return normalised_feature(
        np.random.default_rng(seed).dirichlet(np.full(n_vocab, 0.2), size=n_classes)
    )


def measured_coefficients(feature, decoder):
    """Least squares of g_n = Y (e_n - alpha_n) on the features: [n, n'] is the coefficient of f_n'
    in g_n.
    """
    n_classes, n_vocab = feature.shape
    error = np.eye(n_classes, n_vocab) - softmax(feature @ decoder, axis=1)
    solution, *_ = np.linalg.lstsq(feature.T, decoder @ error.T, rcond=None)
    outside = feature.T @ solution - decoder @ error.T
    return solution.T, np.abs(outside).max()


def test_both_gradients_descend_but_only_the_modified_one_leaves_other_classes_alone():
    feature, label = random_feature(5, 37, seed=0), 3
    decoder = np.random.default_rng(1).normal(size=(37, 37))
    moved = feature @ modified_decoder_dot(decoder, feature, label=label, lr_decoder=0.4)
    expected = np.zeros((5, 37))
    expected[label] = 0.4 * (np.eye(37)[label] - softmax(feature[label] @ decoder))
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    plain = feature @ plain_decoder_dot(decoder, feature, label=label, lr_decoder=0.4)
    np.testing.assert_allclose(
        plain, (feature @ feature[label])[:, None] * expected[label], atol=1e-14
    )


def test_both_forms_of_eq_26_agree():
    feature, label = random_feature(5, 37, seed=2), 1
    decoder = np.random.default_rng(3).normal(size=(37, 37))
    coupling = class_coupling(class_overlap(feature))
    error = np.eye(37)[label] - softmax(feature[label] @ decoder)
    by_coupling = 0.4 * np.outer(feature[label] - feature.T @ coupling[:, label], error)
    exact = modified_decoder_dot(decoder, feature, label=label, lr_decoder=0.4)
    np.testing.assert_allclose(exact, by_coupling, atol=1e-13)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_theorem_1_is_exact_with_its_sign_fixed_and_two_over_vocabulary_off_as_printed(seed):
    n_classes, n_vocab = 5, 83
    feature = random_feature(n_classes, n_vocab, seed=seed)
    decoder = np.zeros((n_vocab, n_vocab))
    for _ in range(30):
        for label in range(n_classes):
            decoder += modified_decoder_dot(decoder, feature, label=label, lr_decoder=0.5)
    height = decoder_height_discrete(30, n_vocab=n_vocab, lr_decoder=0.5)[-1]
    measured, outside = measured_coefficients(feature, decoder)
    measured /= speed_at_height(height, n_vocab=n_vocab)
    coupling = class_coupling(class_overlap(feature))
    predicted = backprop_coefficients(coupling, n_vocab=n_vocab)
    off_diagonal = ~np.eye(n_classes, dtype=bool)
    assert outside < 1e-12
    np.testing.assert_allclose(np.diag(measured), predicted.own, atol=1e-11)
    np.testing.assert_allclose(-measured[off_diagonal], predicted.other[off_diagonal], atol=1e-11)
    printed = backprop_coefficients(coupling, n_vocab=n_vocab, as_printed=True).other
    np.testing.assert_allclose(
        (predicted.other - printed)[off_diagonal], 2 * n_vocab / (n_vocab - 1) ** 2, rtol=1e-9
    )


def test_theorem_1_is_exact_with_unequal_draws():
    n_vocab, feature, draws = 83, random_feature(5, 83, seed=4), np.array([17, 22, 20, 31, 10])
    decoder = decoder_from_heights(feature, decoder_height(draws, n_vocab=n_vocab, lr_decoder=0.5))
    deviation = count_deviation(draws, n_vocab=n_vocab, lr_decoder=0.5)
    predicted = backprop_coefficients(
        class_coupling(class_overlap(feature)),
        n_vocab=n_vocab,
        height_deviation=deviation.height,
        error_deviation=deviation.error,
    )
    measured, _ = measured_coefficients(feature, decoder)
    measured /= speed_at_height(
        decoder_height(20, n_vocab=n_vocab, lr_decoder=0.5), n_vocab=n_vocab
    )
    np.testing.assert_allclose(measured, np.diag(predicted.own) - predicted.other, atol=1e-11)
    assert np.abs(deviation.error).max() > 0.1


def test_coefficients_have_the_published_values():
    coupling = equal_overlap_coupling(0.05, n_classes=4)
    corrected = backprop_coefficients(coupling, n_vocab=2000)
    assert corrected.own[0] == pytest.approx(1.00744, abs=5e-6)
    assert corrected.other[0, 1] == pytest.approx(0.046248, abs=5e-7)
    printed = backprop_coefficients(coupling, n_vocab=2000, as_printed=True)
    assert printed.other[0, 1] == pytest.approx(0.045247, abs=5e-7)


def test_drive_is_positive_although_single_couplings_may_be_negative():
    # A chain of overlaps 1-2-3: classes 1 and 3 do not touch, and are coupled through 2 with the
    # opposite sign.
    overlap = np.array([[0, 0.3, 0], [0.3, 0, 0.3], [0, 0.3, 0]])
    coupling, n_vocab = class_coupling(overlap), 10**4
    other = backprop_coefficients(coupling, n_vocab=n_vocab).other
    assert other[0, 2] < 0
    drive = class_drive(overlap, other, speed=2.0)
    assert np.all(drive > 0)
    np.testing.assert_allclose(
        drive, drive_from_coupling(coupling, speed=2.0), atol=2 * 3 / n_vocab
    )


@pytest.mark.parametrize(("n_classes", "overlap"), [(2, 0.31), (5, 0.07), (11, 0.6)])
def test_equal_overlaps_have_closed_forms(n_classes, overlap):
    E = class_overlap(equal_overlap_feature(overlap, n_classes=n_classes, n_vocab=29))
    np.testing.assert_allclose(
        equal_overlap_coupling(overlap, n_classes=n_classes), class_coupling(E), atol=1e-14
    )
    spectrum = np.sort(equal_overlap_eigenvalues(overlap, n_classes=n_classes))
    np.testing.assert_allclose(spectrum, np.linalg.eigvalsh(E), atol=1e-13)
