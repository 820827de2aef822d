"""The simulation that decoder experiments share, against the engine and against an independent form
of either gradient.
"""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.experiments.scan_and_snap.decoder_descent import (
    descend,
    in_turn,
    output_error,
    paired_features,
    sent_back,
    tied_features,
)
from saccade.theories import scan_and_snap as theory


def last(path):
    *_, decoder = path
    return decoder


def test_halving_the_rate_halves_the_distance_to_the_flow_of_the_engine():
    feature, n_vocab, span = tied_features(0.3, 2), 23, 6.0
    task = saccade.SequenceClasses(
        feature, next_token=np.array([4, 5]), n_vocab=n_vocab, normalise=True
    )
    path = saccade.flow(
        task, t1=2 * span, lr_attention=0.0, n_times=2, keep=("decoder",), rtol=1e-11, atol=1e-13
    )
    logits = feature @ path.decoder.values[-1][:3]

    def distance(rate):
        decoder = last(
            descend(
                feature,
                in_turn(round(span / rate), 2),
                n_vocab=n_vocab,
                lr_decoder=rate,
                modified=False,
            )
        )
        return np.abs(np.diag(feature @ decoder[0]) - logits[[0, 1], [4, 5]]).max()

    assert distance(0.05) / distance(0.025) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize(
    ("modified", "velocity"),
    [(True, theory.modified_decoder_dot), (False, theory.plain_decoder_dot)],
)
def test_every_step_is_the_gradient_of_the_paper_and_runs_do_not_mix(modified, velocity):
    feature = paired_features(np.array([[0, 0.1, 0.3], [0.1, 0, 0.2], [0.3, 0.2, 0]]))
    n_vocab, rates = 11, np.array([0.5, 2.0])
    draws = np.array([[0, 2], [1, 1], [2, 2], [0, 1], [2, 0]])
    whole = np.pad(feature, ((0, 0), (0, n_vocab - feature.shape[1])))
    decoder = last(descend(feature, draws, n_vocab=n_vocab, lr_decoder=rates, modified=modified))
    for run, rate in enumerate(rates):
        expected = np.zeros((n_vocab, n_vocab))
        for label in draws[:, run]:
            expected += velocity(expected, whole, label=label, lr_decoder=rate)
        np.testing.assert_allclose(decoder[run], expected[: feature.shape[1]], atol=1e-14)


def test_output_error_keeps_its_digits_when_the_label_is_all_but_certain():
    error = output_error(np.array([[60.0, 0.0, 0.0]]), np.array([0]))
    np.testing.assert_allclose(error, [[2 * np.exp(-60), -np.exp(-60), -np.exp(-60)]], rtol=1e-12)


def test_what_is_sent_back_is_the_decoder_times_the_error():
    rng = np.random.default_rng(0)
    feature = tied_features(0.2, 3)
    decoder = feature.T @ rng.normal(size=(3, 13))
    weights = sent_back(feature, decoder)
    g = output_error(feature @ decoder, np.arange(3)) @ decoder.T
    np.testing.assert_allclose(weights @ feature, g, atol=1e-13)


def test_features_have_the_overlaps_they_are_made_for():
    overlap = np.array([[0, 0.1, 0.3], [0.1, 0, 0.2], [0.3, 0.2, 0]])
    np.testing.assert_allclose(theory.class_overlap(paired_features(overlap)), overlap, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(paired_features(overlap), axis=1), 1)
    np.testing.assert_allclose(
        theory.class_overlap(tied_features(0.37, 5)), 0.37 * (1 - np.eye(5)), atol=1e-15
    )
