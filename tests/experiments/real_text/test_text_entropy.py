"""Entropy on text: measures against explicit formulas on the same start, curves with known turning
points, and a small run.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.data.text.corpus import corpus  # noqa: E402
from saccade.engines.randomness import Purpose, generator  # noqa: E402
from saccade.engines.text_batches import fixed_windows  # noqa: E402
from saccade.experiments import experiment  # noqa: E402
from saccade.experiments.real_text import text_entropy as asked  # noqa: E402
from saccade.lab.claim import INCONCLUSIVE, UNMET  # noqa: E402
from saccade.models.transformer import Transformer, TransformerConfig  # noqa: E402

PLACE = ("sotu", 97, 5, False)
MODEL = TransformerConfig.wikitext(97)
TRAINING = {
    "model": MODEL,
    "order": "stream",
    "optimiser": "adam",
    "lr": 1e-3,
    "seed": 3,
    "batch": 2,
    "context": 11,
    "every": [0, 2, 4],
}


def test_entropy_diagonal_mass_and_map_are_those_of_explicit_weights():
    start = asked.train_one(*PLACE, TRAINING | {"every": [0]}).isel(time=0, layer=0)
    torch.manual_seed(int(generator(3, Purpose.INITIALISATION).integers(2**62)))
    model = Transformer(MODEL).eval()
    with torch.no_grad():
        x = model.embedded(fixed_windows(corpus("sotu", n_vocab=97), 5, 11).ids)
        part = model.blocks[0].attention
        scores = part.q_proj(x) @ part.k_proj(x).transpose(1, 2) / math.sqrt(200)
        hidden = torch.ones(11, 11, dtype=torch.bool).triu(1)
        attention = scores.masked_fill(hidden, -math.inf).softmax(-1).double().numpy()
    # the published code adds 1e-8 within the logarithm
    as_coded = -(attention * np.log(attention + 1e-8)).sum(-1).mean()
    assert float(start.entropy) == pytest.approx(as_coded, abs=1e-5)  # single precision
    diagonal = np.trace(attention, axis1=1, axis2=2).mean() / 11
    assert float(start.self_mass) == pytest.approx(diagonal, abs=1e-5)
    np.testing.assert_allclose(start.lowest_map, attention[0], atol=1e-5)


def test_observations_after_a_run_stopped_are_missing(monkeypatch):
    train = asked.train_text
    monkeypatch.setattr(
        asked, "train_text", lambda *given, **settings: train(*given, **settings).isel(time=[0, 1])
    )
    kept = asked.train_one(*PLACE, TRAINING)
    assert np.isfinite(kept.entropy.isel(time=[0, 1])).all()
    assert np.isnan(kept.entropy.isel(time=2)).all()


def test_a_resumed_run_comes_to_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain = asked.train_one(*PLACE, TRAINING)
    for _ in range(2):
        again = asked.train_one(*PLACE[:-1], True, TRAINING)
        np.testing.assert_array_equal(again.entropy, plain.entropy)
    folders = list((tmp_path / "saccade" / "training").iterdir())
    assert len(folders) == 1
    asked.train_one(*PLACE[:-1], True, TRAINING | {"seed": 4})
    assert len(list(folders[0].parent.iterdir())) == 2


def test_curves_of_rate_times_updates_alone_are_equal_at_an_equal_path():
    rates, steps = np.array([1.0, 2.0, 5.0]), np.arange(0, 301, 30)
    entropy = 2.5 - 0.001 * rates[:, None, None] * steps + np.array([0.0, 0.1])[:, None]
    coords = {"lr": rates, "seed": [0, 1], "time": steps}
    found = asked.at_equal_path(xr.DataArray(entropy, coords, ("lr", "seed", "time")))
    np.testing.assert_allclose(found, [[2.2, 2.3]] * 3)


STEPS = np.linspace(0, 58_000, 117)


def test_a_curve_that_falls_and_rises_turns_where_it_is_lowest():
    places = [0, 1000, 3000, 57_000, 58_000]
    curve = np.interp(STEPS, places, [2.51, 1.55, 1.55, 2.21, 2.21])
    fall, rebound, at = asked.turning(STEPS, curve)
    assert (fall, rebound) == pytest.approx((2.51 - 1.55, (2.21 - 1.55) / (2.51 - 1.55)))
    assert at == pytest.approx(2000, abs=500)


def test_a_curve_that_only_falls_or_only_rises_has_no_rebound():
    assert asked.turning(STEPS, np.exp(-STEPS / 5000))[1] == 0
    assert np.isnan(asked.turning(STEPS, 1 + STEPS)[1])


def test_noise_on_a_flat_end_is_not_a_rebound():
    noise = np.random.default_rng(0).normal(0, 0.03, len(STEPS))
    assert asked.turning(STEPS, 1.3 + 1.2 * np.exp(-STEPS / 500) + noise)[1] < asked.BOUNCE


SMALL = {"text": "sotu", "n_vocab": 97, "rates": (1.0, 3.0), "seeds": 1, "batch": 3}


def test_a_single_seed_neither_confirms_nor_refutes_and_claims_have_ceilings(
    monkeypatch,
):
    monkeypatch.setattr("saccade.processes.cores", lambda: 1)  # processes would take longer
    settings = experiment("text-entropy").settings(**SMALL, steps=(6, 6, 8, 8), n_windows=4)
    found = experiment("text-entropy").run(settings)
    assert not [claim.label for claim in found.claims if not claim.ceilings]
    of_rates = [claim for claim in found.claims if "10" in claim.statement.number]
    assert {claim.verdict for claim in of_rates} <= {UNMET, INCONCLUSIVE}
    layers = found.record.layers_relative_entropy.sel(layers_n_layers=2).isel(layers_time=-1)
    assert np.isfinite(layers).values.ravel().tolist() == [True, True] + [False] * 4
