"""The validator: which published settings meet the assumptions, and by how much they miss."""

import numpy as np
import pytest

from saccade.theories.scan_and_snap import (
    backprop_coefficients,
    check_assumptions,
    class_coupling,
    class_drive,
    class_overlap,
    normalised_feature,
)


def equal_overlap_classes(overlap, *, n_classes):
    """One common and one distinct token per class, P chosen so that features overlap by `overlap`
    at Z = 0.
    """
    prob = np.zeros((n_classes, n_classes + 1))
    prob[:, -1] = np.sqrt(overlap)
    prob[range(n_classes), range(n_classes)] = np.sqrt(1 - overlap)
    return prob / prob.sum(axis=1, keepdims=True)


def syn(n_classes):
    """Ten common tokens of weight 1, ten distinct per class from 0.1 to 1: Syn-Small and
    Syn-Medium.
    """
    prob = np.zeros((n_classes, 10 + 10 * n_classes))
    prob[:, :10] = 1
    for n in range(n_classes):
        prob[n, 10 + 10 * n : 20 + 10 * n] = np.linspace(0.1, 1, 10)
    return prob / prob.sum(axis=1, keepdims=True)


def check(token_prob, *, query=None, class_weight=None, **changed):
    n_classes = len(token_prob)
    query = np.full(n_classes, 3) if query is None else query
    weight = np.full(n_classes, 1 / n_classes) if class_weight is None else class_weight
    settings = {
        "n_vocab": 10**4,
        "lr_decoder": 0.5,
        "lr_attention": 0.005,
        "n_context": np.inf,
        "n_steps": 10**6,
    } | changed
    return {c.name: c for c in check_assumptions(token_prob, query, weight, **settings)}


def failing(conditions):
    return {name for name, condition in conditions.items() if not condition.holds}


def test_a_task_built_to_the_assumptions_meets_all_of_them():
    assert failing(check(equal_overlap_classes(0.3, n_classes=2))) == set()


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"n_context": 5}, "Assumption 1(b), long contexts"),
        ({"lr_attention": 0.4}, "Assumption 1(c), decoder faster than attention"),
        ({"init_scale": 0.1}, "Theorem 1, start at zero"),
        ({"lr_decoder": 1.0}, "Theorem 1, small steps of the decoder"),
        ({"lr_decoder": 1e-4, "lr_attention": 1e-6}, "Theorem 1, decoder not too slow"),
        ({"class_weight": np.array([0.6, 0.4])}, "Theorem 1, classes equally frequent"),
        ({"n_steps": 30}, "Theorem 1, long run"),
        ({"query": np.array([3, 4])}, "Corollary 2(1), one query"),
    ],
)
def test_breaking_one_assumption_fails_that_condition_alone(changed, broken):
    assert failing(check(equal_overlap_classes(0.3, n_classes=2), **changed)) == {broken}


def test_length_of_the_run_is_left_out_when_unknown():
    assert "Theorem 1, long run" not in check(equal_overlap_classes(0.3, n_classes=2), n_steps=None)


@pytest.mark.parametrize(("n_classes", "threshold"), [(2, 144), (10, 291_600)])
def test_equal_overlaps_fit_between_the_eigenvalue_bounds_only_in_a_large_vocabulary(
    n_classes, threshold
):
    largest = 1 / (n_classes * (n_classes - 1)) * (1 - 1e-6)
    token_prob = equal_overlap_classes(largest, n_classes=n_classes)
    spectrum = {"Assumption 2, classes overlap little", "Assumption 2, no tiny overlaps"}
    assert not failing(check(token_prob, n_vocab=int(threshold * 1.01))) & spectrum
    assert failing(check(token_prob, n_vocab=int(threshold * 0.99))) & spectrum == {
        "Assumption 2, no tiny overlaps"
    }


@pytest.mark.parametrize(
    ("n_classes", "n_vocab", "largest"),
    [(2, 34, 0.72), (6, 79, 3.61), (10, 125, 6.50), (20, 240, 13.72)],
)
def test_no_published_synthetic_experiment_meets_assumption_2(n_classes, n_vocab, largest):
    conditions = check(syn(n_classes), n_vocab=n_vocab)
    assert conditions["Assumption 2, classes overlap little"].value == pytest.approx(
        largest, abs=0.006
    )
    assert {
        "Assumption 2, large vocabulary",
        "Assumption 2, classes overlap little",
        "Assumption 2, no large overlap",
    } <= failing(conditions)


def test_syn_small_misses_both_eigenvalue_bounds_by_the_published_numbers():
    conditions = check(syn(2), n_vocab=34)
    assert conditions["Assumption 2, no large overlap"].value == pytest.approx(0.722, abs=5e-4)
    assert conditions["Assumption 2, classes overlap little"].bound == 0.5
    assert conditions["Assumption 2, no tiny overlaps"].bound == pytest.approx(1.03, abs=2e-3)
    assert not conditions["Assumption 2, no tiny overlaps"].holds


@pytest.mark.parametrize(("n_context", "holds"), [(31, False), (127, False), (511, True)])
def test_syn_small_shows_its_rarest_token_often_enough_only_from_a_context_of_512(n_context, holds):
    assert check(syn(2), n_context=n_context)["Assumption 1(b), long contexts"].holds == holds


def test_an_isolated_class_breaks_assumption_2_and_has_no_drive():
    token_prob = np.zeros((3, 6))
    token_prob[0, :2], token_prob[1, 1:3], token_prob[2, 4:] = 0.5, 0.5, 0.5
    conditions = check(token_prob)
    assert conditions["Assumption 2, no isolated class"].value == 1
    assert conditions["Assumption 2, no tiny overlaps"].value == pytest.approx(0, abs=1e-15)
    overlap = class_overlap(normalised_feature(token_prob))
    drive = class_drive(overlap, backprop_coefficients(class_coupling(overlap), n_vocab=1000).other)
    assert drive[2] == 0
    assert drive[:2].min() > 0.1


def test_symmetry_of_corollary_2_is_recognised_whatever_the_order_of_tokens():
    token_prob = np.zeros((3, 11))
    token_prob[:, [4, 9]] = 0.2, 0.1
    token_prob[0, [0, 1]], token_prob[1, [3, 2]], token_prob[2, [10, 5]] = [[0.3, 0.4]] * 3
    broken = failing(check(token_prob))
    assert "Theorem 2(b), one common token" in broken
    assert not any(name.startswith("C2") for name in broken)
    token_prob[0, [0, 1]] = 0.35
    assert "Corollary 2(2), distinct tokens alike in all classes" in failing(check(token_prob))
    token_prob[0, [1, 4]] += 0.1, -0.1
    assert "Corollary 2(3), common tokens alike in all classes" in failing(check(token_prob))


def test_a_query_whose_classes_have_no_distinct_token_is_named():
    token_prob = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert (
        check(token_prob, query=np.array([3, 4]))[
            "Theorem 2(b), distinct tokens for every query"
        ].value
        == 1
    )
    assert check(token_prob, query=np.array([3, 3]))[
        "Theorem 2(b), distinct tokens for every query"
    ].holds
