"""What is said of a row of checkpoints, against rows of which it is known what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from saccade.watching.checkpoints.integrity import (  # noqa: E402
    SKETCH,
    duplicates,
    fingerprint,
    missing_steps,
    path_distances,
    weight_findings,
)

N_WEIGHTS = 7919


def run(points):
    """Fingerprints by step of checkpoints with two tensors each."""
    return {
        step: fingerprint({"a.weight": point[: 97 * 53].reshape(97, 53), "b": point[97 * 53 :]})
        for step, point in points.items()
    }


def straight(steps, rng, noise=0.0):
    """Weights on a straight line, with independent scatter around it."""
    start, direction = torch.as_tensor(rng.normal(size=(2, N_WEIGHTS)))
    return {
        step: start + 0.01 * step * direction + noise * torch.as_tensor(rng.normal(size=N_WEIGHTS))
        for step in steps
    }


def walk(steps, rng):
    points = rng.normal(size=(len(steps), N_WEIGHTS)).cumsum(axis=0)
    return {step: torch.as_tensor(point) for step, point in zip(steps, points, strict=True)}


def kinds(points):
    return [(finding.kind, finding.steps) for finding in weight_findings(run(points))[0]]


def test_distances_of_sketches_are_distances_of_weights():
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(40):
        # All in one column: places that went by column would put everything into a few sums.
        one, other = torch.zeros(2, 389, 64, dtype=torch.float64)
        other[:, int(rng.integers(64))] = torch.as_tensor(rng.normal(size=389))
        moved = fingerprint({"w": other}).sketch - fingerprint({"w": one}).sketch
        errors.append(np.linalg.norm(moved) / float((other - one).norm()) - 1)
    assert np.std(errors) == pytest.approx(1 / np.sqrt(2 * SKETCH), rel=0.4)
    assert abs(np.mean(errors)) < 4 / np.sqrt(2 * SKETCH * 40)


def test_a_random_walk_is_half_its_neighbours_distance_off_the_line_and_scatter_around_a_point_is_root_three_quarters():
    rng = np.random.default_rng(1)
    assert np.nanmean(
        path_distances(list(rng.normal(size=(101, 4999)).cumsum(axis=0)))
    ) == pytest.approx(0.5, abs=0.01)
    assert np.nanmean(path_distances(list(rng.normal(size=(101, 4999))))) == pytest.approx(
        np.sqrt(3) / 2, abs=0.01
    )


@pytest.mark.parametrize("seed", range(5))
def test_no_step_of_a_sound_run_is_off_the_path(seed):
    rng = np.random.default_rng(seed)
    steps = range(0, 1300, 100)
    assert kinds(straight(steps, rng, noise=0.1)) == []
    assert kinds(walk(steps, rng)) == []
    assert kinds({step: torch.as_tensor(rng.normal(size=N_WEIGHTS)) for step in steps}) == []
    assert kinds(straight([0, *2 ** np.arange(10), *range(1000, 6000, 1000)], rng)) == []


@pytest.mark.parametrize("make", [straight, walk])
def test_a_step_of_another_run_is_off_the_path(make):
    rng = np.random.default_rng(2)
    points = make(range(0, 1300, 100), rng)
    points[700] = torch.as_tensor(5 * rng.normal(size=N_WEIGHTS))
    assert kinds(points) == [("off path", [700])]
    found, distance = weight_findings(run(points))
    assert "step 700" in found[0].sentence
    assert "steps 600 and 800" in found[0].sentence
    assert np.argmax(np.nan_to_num(distance)) == 7


@pytest.mark.parametrize("make", [straight, walk])
def test_two_steps_that_have_changed_places_are_off_the_path(make):
    points = make(range(0, 1300, 100), np.random.default_rng(3))
    points[500], points[600] = points[600], points[500]
    assert kinds(points) == [("off path", [500]), ("off path", [600])]


def test_equal_weights_are_duplicates_whatever_the_order_of_tensors_and_almost_equal_ones_are_not():
    rng = np.random.default_rng(4)
    points = straight(range(0, 70, 10), rng)
    points[50] = points[20].clone()
    points[60][3] = torch.nextafter(points[20], torch.ones(()).double())[3]
    assert ("duplicate", [20, 50]) in kinds(points)
    one = {"a": torch.ones(3), "b": torch.zeros(2)}
    assert fingerprint(one).content == fingerprint(dict(reversed(one.items()))).content
    assert (
        fingerprint(one).content
        != fingerprint({"a": torch.ones(3).bfloat16(), "b": torch.zeros(2)}).content
    )
    nearly = {"a": torch.nextafter(torch.ones(3), torch.zeros(3)), "b": torch.zeros(2)}
    assert duplicates({1: fingerprint(one), 2: fingerprint(nearly), 3: fingerprint(one)}) == [
        (1, 3)
    ]


def test_a_duplicate_does_not_make_its_neighbours_look_off_the_path():
    points = walk(range(0, 1300, 100), np.random.default_rng(5))
    points[600] = points[500].clone()
    assert kinds(points) == [("duplicate", [500, 600])]


def test_other_tensors_than_the_others_have_are_said_and_left_out_of_the_path():
    rng = np.random.default_rng(6)
    prints = run(walk(range(0, 900, 100), rng))
    prints[400] = fingerprint({"a.weight": torch.zeros(97, 53)})
    found, distance = weight_findings(prints)
    assert [(finding.kind, finding.steps) for finding in found] == [("other tensors", [400])]
    assert np.isnan(distance[4])
    assert np.isfinite(distance[[3, 5]]).all()


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        (range(0, 1000, 100), []),
        ([0, 100, 200, 400, 500], [[300]]),
        ([0, 100, 200, 500, 600, 700, 900, 1000], [[300, 400], [800]]),
        ([0, 100, 200, 400, 600, 700], [[300], [500]]),
        ([10_000, 10_100, 10_300, 10_400, 10_500], [[10_200]]),
        ([0, 100, 200, 300, 350], []),  # the end of a run
        (
            [0, *2 ** np.arange(10), *range(1000, 9000, 1000)],
            [],
        ),  # two schedules, one after the other
        ([0, 1, 2, 4, 8, 32, 64, 128, 1000, 2000, 3000], [[16], [256, 512]]),
        ([1, 3, 10, 32, 100, 1000, 3162, 10_000], [[314]]),  # 316, from a spacing of rounded steps
        ([100, 200, 300, 1000, 2000, 3000], []),
        ([1, 2, 4, 8, 16, 64, 128], [[32]]),
        ([7], []),
        ([3, 5], []),
    ],
)
def test_gaps_in_a_regular_spacing_are_missing_steps_and_a_change_of_schedule_is_not(
    steps, missing
):
    found = missing_steps([int(step) for step in steps])
    assert [finding.steps for finding in found] == missing
    assert all(str(step) in finding.sentence for finding in found for step in finding.steps)
