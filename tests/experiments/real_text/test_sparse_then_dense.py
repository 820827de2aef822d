"""The return of entropy: curves with known turning points, a small run from end to end, and claims
that see the opposite.
"""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.errors import InputError
from saccade.experiments.real_text.sparse_then_dense import (
    BOUNCE,
    EXPERIMENT,
    REPLICATED,
    Settings,
    _rate_said,
    bounce,
)
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE, REPLICATION, Claim
from saccade.lab.panel import RINGS
from saccade.records.schema import with_settings
from tests.experiments.default_runs import record_of

STEPS = np.linspace(0, 58_000, 117)


def curve(start: float, minimum: float, end: float, at: float = 2000.0) -> np.ndarray:
    """Down to the minimum in a straight line, flat for two looks on either side, then up."""
    turned = np.interp(
        STEPS,
        [0, at - 1000, at + 1000, STEPS[-1] - 1000, STEPS[-1]],
        [start, minimum, minimum, end, end],
    )
    return np.asarray(turned)


def test_turning_points_of_the_replication_are_read_off_its_curve() -> None:
    found = bounce(STEPS, curve(2.51, 1.55, 2.21))
    assert (found.start, found.minimum, found.end) == pytest.approx((2.51, 1.55, 2.21))
    assert found.minimum_at == pytest.approx(2000, abs=500)
    assert found.rebound == pytest.approx((2.21 - 1.55) / (2.51 - 1.55))


def test_a_curve_that_only_falls_has_no_rebound() -> None:
    assert bounce(STEPS, np.exp(-STEPS / 5000)).rebound == 0


def test_a_curve_that_only_rises_has_none_to_speak_of() -> None:
    assert np.isnan(bounce(STEPS, 1 + STEPS).rebound)


def test_noise_on_a_flat_end_is_not_a_bounce() -> None:
    noise = np.random.default_rng(0).normal(0, 0.03, len(STEPS))
    assert bounce(STEPS, 1.3 + 1.2 * np.exp(-STEPS / 500) + noise).rebound < BOUNCE


def test_the_replications_own_depths_lie_on_the_sides_of_the_bound_that_it_says() -> None:
    rebounds = {
        depth: (one.end - one.minimum) / (one.start - one.minimum)
        for depth, one in REPLICATED.items()
    }
    assert rebounds[1] > rebounds[2] > rebounds[5] > BOUNCE > (1.39 - 1.36) / (2.51 - 1.36)


def test_a_claim_says_how_far_its_rate_is_from_that_of_the_figure() -> None:
    assert [_rate_said(lr) for lr in (1e-4, 1e-3)] == ["0.0001", "0.001, 10 times the paper's"]


SMALL = {
    "text": "sotu",
    "n_vocab": 97,
    "layers": (1, 2),
    "rates": (1e-3,),
    "steps": 8,
    "n_looks": 8,
    "batch": 3,
    "context": 11,
}


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        return record_of("sparse-then-dense", **SMALL)


def test_every_layer_of_every_depth_has_a_row_and_a_curve(record: xr.Dataset) -> None:
    assert [(row["n_layers"], row["layer"]) for row in EXPERIMENT.rows(record)] == [(1, 0)] * 3 + [
        (2, 0)
    ] * 3 + [(2, 1)] * 3
    curves = [
        [line.label for line in panel.lines if line.style != RINGS]
        for (panel,) in EXPERIMENT.panels(record)
    ]
    assert curves == [["layer 0"], ["layer 0", "layer 1"]]
    EXPERIMENT.figure(record)


def test_a_return_cannot_be_asked_of_a_run_that_ends_soon_after_its_minimum() -> None:
    falling = np.interp(STEPS, [0, 40_000, 58_000], [2.51, 1.0, 1.6])
    assert verdicts(falling)["rise of entropy after its minimum / fall before it"] == OUTSIDE


def test_seeds_of_which_one_returns_cannot_tell() -> None:
    entropy = np.stack([curve(2.51, 1.55, 2.21), curve(2.51, 1.55, 1.55)])
    assert verdicts(entropy)["rise of entropy after its minimum / fall before it"] == CANNOT_TELL


def verdicts(entropy: np.ndarray) -> dict[str, str]:
    """Of one layer with curves (seed, time), or one curve that two seeds share, at settings that
    are not the replication's.
    """
    of_seeds = np.atleast_2d(entropy) if np.ndim(entropy) == 2 else np.stack([entropy, entropy])
    coords = {
        "n_layers": [1],
        "lr": [1e-3],
        "seed": range(len(of_seeds)),
        "layer": [0],
        "time": STEPS,
    }
    record = xr.Dataset(
        {"entropy": (("n_layers", "lr", "seed", "layer", "time"), of_seeds[None, None, :, None])},
        coords,
    )
    return {
        claim.title: claim.verdict for claim in EXPERIMENT.claims(with_settings(record, Settings()))
    }


def test_a_return_that_grows_holds_and_one_that_is_lost_again_does_not() -> None:
    growth = "more entropy has come back after 1/2 of the updates than 1/5, and most at the end"
    assert set(verdicts(np.interp(STEPS, [0, 2000, 58_000], [2.51, 1.5, 2.2])).values()) == {HOLDS}
    assert (
        verdicts(np.interp(STEPS, [0, 2000, 12_000, 58_000], [2.51, 1.5, 2.2, 1.8]))[growth]
        == FAILS
    )


def claims_of(entropy: np.ndarray, lr: float = 1e-4, depth: int = 1) -> list[Claim]:
    """Of one run with the replication's sizes whose layers all have this curve."""
    return replicated(np.broadcast_to(entropy, (1, depth, len(STEPS))), lr, [depth])


def replicated(entropy: np.ndarray, lr: float, depths: list[int]) -> list[Claim]:
    """Of two equal seeds of each depth (depth, layer, time) with the replication's sizes."""
    coords = {
        "n_layers": depths,
        "lr": [lr],
        "seed": [0, 1],
        "layer": range(entropy.shape[1]),
        "time": STEPS,
    }
    both = np.repeat(entropy[:, None, None], 2, axis=2)
    record = xr.Dataset({"entropy": (("n_layers", "lr", "seed", "layer", "time"), both)}, coords)
    return list(EXPERIMENT.claims(with_settings(record, EXPERIMENT.full)))


def test_the_replications_numbers_judge_its_own_curve_and_no_other_settings() -> None:
    of_replication = [
        claim for claim in claims_of(curve(2.51, 1.55, 2.21)) if claim.against == REPLICATION
    ]
    assert [claim.verdict for claim in of_replication] == [HOLDS] * 3
    assert not any("its minimum, nats" in title for title in verdicts(curve(2.51, 1.55, 2.21)))


def test_a_curve_that_stays_down_refutes_the_return_and_the_end() -> None:
    failed = [claim.title for claim in claims_of(curve(2.51, 1.55, 1.57)) if claim.verdict == FAILS]
    assert "rise of entropy after its minimum / fall before it" in failed
    assert "entropy at its end, nats" in failed


def test_a_collapse_is_seen_in_five_layers_at_the_high_rate() -> None:
    collapsed, spread = (
        claims_of(curve(2.5, 0.0, end), lr=1e-3, depth=5)[-1] for end in (0.01, 0.5)
    )
    assert (collapsed.verdict, spread.verdict) == (HOLDS, FAILS)


@pytest.mark.parametrize(("ends", "verdict"), [((2.21, 1.6), HOLDS), ((1.6, 2.21), FAILS)])
def test_a_lowest_layer_that_returns_less_in_the_deeper_model_is_what_is_expected(
    ends: tuple[float, ...], verdict: str
) -> None:
    entropy = np.stack([np.broadcast_to(curve(2.51, 1.5, end), (5, len(STEPS))) for end in ends])
    assert replicated(entropy, 1e-4, [1, 5])[-1].verdict == verdict


def test_too_few_looks_are_refused() -> None:
    with pytest.raises(InputError, match="n_looks"):
        EXPERIMENT.run(Settings(text="sotu", n_looks=3))
