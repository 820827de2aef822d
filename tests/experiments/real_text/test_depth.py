"""Which layer is first: measures of known curves, speed against its definition, a small run, and
claims that see the opposite.
"""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import torch

from saccade.errors import InputError
from saccade.experiments.real_text import depth as experiment
from saccade.experiments.real_text.depth import EXPERIMENT, Settings, Speed, below_for_good
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, Claim
from saccade.model.transformer import Transformer, TransformerConfig
from tests.experiments.default_runs import record_of

TIMES = np.array(experiment.look_steps(1024))


def test_looks_go_from_one_to_the_end_by_the_root_of_two() -> None:
    ratio = TIMES[3:] / TIMES[2:-1]
    assert (TIMES[0], TIMES[1], TIMES[-1]) == (0, 1, 1024)
    assert 512 in TIMES
    assert ratio[-8:] == pytest.approx(np.full(8, 2**0.5), rel=0.02)


def test_a_curve_is_below_a_level_from_its_first_dip_on() -> None:
    curve = np.array([1.0, 0.4, 0.7, 0.3])
    assert experiment.first_below(curve, np.array([0, 2, 3, 5]), 0.5) == 2
    assert experiment.first_below(curve, np.array([0, 2, 3, 5]), 0.3) == np.inf


def test_slowed_for_good_is_after_the_last_time_that_the_speed_was_high() -> None:
    speed, times = (
        np.array([np.nan, 0.1, 2.0, 0.9, 1.1, 0.8, 0.3]),
        np.array([0, 1, 2, 3, 5, 7, 11]),
    )
    assert below_for_good(speed, times, 0.5) == 7
    assert below_for_good(speed, times, 0.1) == np.inf
    assert below_for_good(np.full(7, np.nan), times, 0.5) == np.inf


def test_drift_of_a_power_of_time_is_what_its_last_doubling_adds() -> None:
    times = TIMES.astype(float)
    assert experiment.drift(times**2, times) == pytest.approx(3 / 4)
    assert experiment.drift(np.where(times < 100, times, 100), times) == 0
    assert np.isnan(experiment.drift(np.ones(len(times)), times))


def test_slowed_is_half_way_from_the_peak_to_the_floor_that_noise_leaves() -> None:
    times = TIMES.astype(float)
    peak = np.exp(-(np.log((times + 1) / 32) ** 2))
    quiet, noisy = (experiment.slowed_for_good(level + peak, times) for level in (0.0, 0.4))
    assert quiet == pytest.approx(noisy, rel=0.5)
    assert 32 < noisy < 100
    assert experiment.floor(0.4 + 0 * times, times) == pytest.approx(0.4)


def test_a_speed_that_still_falls_at_the_end_has_not_reached_its_floor() -> None:
    times = TIMES.astype(float)
    assert experiment.slowed_for_good(np.where(times < 1000, 1.0, 0.1), times) == np.inf


def test_a_floor_above_half_the_peak_is_no_slowing() -> None:
    times = TIMES.astype(float)
    assert experiment.slowed_for_good(np.where(times < 100, 1.0, 0.7), times) == np.inf
    assert experiment.slowed_for_good(np.where(times < 100, 1.0, 0.3), times) < 200


def test_speed_is_total_variation_over_all_windows_per_log_step() -> None:
    torch.manual_seed(3)
    model = Transformer(TransformerConfig(13, 3, d_model=8, d_mlp=5, context=7, init_scale=0.5))
    ids = torch.randint(13, (5, 7))
    speed = Speed(ids)
    assert np.isnan(speed(model, 2)["speed"][1]).all()
    before = [model.attention_of(ids, layer).numpy() for layer in range(3)]
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1.5)
    found = speed(model, 8)["speed"][1]
    for layer in range(3):
        gap = np.abs(model.attention_of(ids, layer).numpy() - before[layer]).sum(axis=-1) / 2
        assert found[layer, 0] == pytest.approx(gap.mean() / np.log(9 / 3), rel=1e-5)
    assert len(set(found.ravel().tolist())) == 3


SMALL = {
    "text": "sotu",
    "n_vocab": 97,
    "layers": (1, 3),
    "d_model": 8,
    "d_mlp": 5,
    "steps": 8,
    "batch": 3,
    "context": 11,
    "seeds": 2,
}


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        return record_of("depth", **SMALL)


def test_every_layer_of_every_depth_is_measured_and_drawn(record: xr.Dataset) -> None:
    rows = EXPERIMENT.rows(record)
    assert {(row["n_layers"], row["layer"]) for row in rows} == {(1, 0), (3, 0), (3, 1), (3, 2)}
    assert [[len(panel.lines) for panel in row] for row in EXPERIMENT.panels(record)] == [
        [1, 3],
        [1, 3],
    ]
    EXPERIMENT.figure(record)
    assert np.isfinite(record["speed"].sel(n_layers=3).isel(time=slice(1, None))).all()


def test_a_short_run_becomes_neither_sparse_nor_slow(record: xr.Dataset) -> None:
    assert record["relative_entropy"].min() > 0.9
    verdicts = {claim.title: claim.verdict for claim in EXPERIMENT.claims(record)}
    assert verdicts["the first layer becomes sparse in every run"] == FAILS


def test_a_single_run_cannot_be_told_from_chance(record: xr.Dataset) -> None:
    one = record.isel(seed=[0])
    against_chance = [
        claim.verdict for claim in EXPERIMENT.claims(one) if "above chance" in claim.title
    ]
    assert set(against_chance) == {CANNOT_TELL}


def claims_of(order: list[int]) -> dict[str, Claim]:
    """Of three seeds of six layers; layer `order[i]` is the i-th to fall and to stop, and ends the
    i-th lowest.
    """
    begin = {layer: 4 * 2.0**rank for rank, layer in enumerate(order)}
    fall = np.array([1 / (1 + (TIMES / begin[layer]) ** 4) for layer in range(6)])
    spread = fall * 0.9 + 0.01 * np.array([order.index(layer) for layer in range(6)])[:, None]
    speed = np.array([np.exp(-(np.log((TIMES + 1) / begin[layer]) ** 2)) for layer in range(6)])
    speed[:, 0] = np.nan
    axes = ("n_layers", "seed", "layer", "time")
    curves = {"relative_entropy": spread, "speed": speed, "top_mass": 1 - spread}
    both = {
        name: (axes, np.stack([[values, values * 1.01, values * 0.99]]))
        for name, values in curves.items()
    }
    coords = {"n_layers": [6], "seed": [0, 1, 2], "layer": range(6), "time": TIMES}
    return {claim.title: claim for claim in EXPERIMENT.claims(xr.Dataset(both, coords))}


def test_intervals_cover_all_three_means_at_once() -> None:
    """Seeds end with gaps of g, 1.01 g and .99 g: two degrees of freedom, 7.649 standard errors for
    one interval of three.
    """
    (claim,) = [
        claim
        for title, claim in claims_of([0, 1, 2, 3, 4, 5]).items()
        if title.startswith("final relative entropy")
    ]
    gap = claim.measured.mean
    assert claim.measured.high - gap == pytest.approx(7.649 * 0.01 * abs(gap) / 3**0.5, rel=1e-4)


def test_a_first_layer_that_is_first_in_everything_confirms_every_claim() -> None:
    assert {claim.verdict for claim in claims_of([0, 1, 2, 3, 4, 5]).values()} == {HOLDS}


def test_a_first_layer_that_is_last_is_sparse_and_stops_but_not_first() -> None:
    found = claims_of([5, 4, 3, 2, 1, 0])
    failed = [title for title, claim in found.items() if claim.verdict == FAILS]
    assert len(failed) == 3
    assert all(
        "first layer is sparse first" in text
        or "slows first" in text
        or "mean of the others" in text
        for text in failed
    )


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(InputError, match="steps"):
        EXPERIMENT.run(Settings(text="sotu", steps=3))
