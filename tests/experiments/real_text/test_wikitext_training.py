"""What is kept of a run, against explicit formulas on the same start."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.data.text.corpus import corpus  # noqa: E402
from saccade.dynamics.randomness import Purpose, generator  # noqa: E402
from saccade.dynamics.training_batches import fixed_windows  # noqa: E402
from saccade.experiments.real_text import wikitext_training as training  # noqa: E402
from saccade.model.transformer import Transformer, TransformerConfig  # noqa: E402

RUN = training.TextRun(
    "sotu", 97, lr=5.0, looks=(0,), seed=3, batch=2, context=11, n_windows=5, dropout=0.3
)


@pytest.fixture(scope="module")
def at_start() -> tuple[xr.Dataset, np.ndarray]:
    """What a run of no updates kept, and attention (window, query, key) from the same start by
    softmax of explicit products.
    """
    kept = training.trained(RUN).isel(time=0, layer=0)
    torch.manual_seed(int(generator(RUN.seed, Purpose.INITIALISATION).integers(2**62)))
    model = Transformer(TransformerConfig.wikitext(97)).eval()
    text = corpus("sotu", n_vocab=97)
    with torch.no_grad():
        x = model.embedded(fixed_windows(text, RUN.n_windows, RUN.context).ids)
        part = model.blocks[0].attention
        scores = part.q_proj(x) @ part.k_proj(x).transpose(1, 2) / math.sqrt(200)
        hidden = torch.ones(11, 11, dtype=torch.bool).triu(1)
        return kept, scores.masked_fill(hidden, -math.inf).softmax(-1).double().numpy()


def test_entropy_is_the_papers_as_coded_to_what_its_epsilon_adds(
    at_start: tuple[xr.Dataset, np.ndarray],
) -> None:
    kept, attention = at_start
    as_coded = -(attention * np.log(attention + 1e-8)).sum(-1).mean()
    assert float(kept.entropy) == pytest.approx(as_coded, abs=1e-5)  # single precision


def test_relative_entropy_is_one_for_even_attention_and_compares_with_it(
    at_start: tuple[xr.Dataset, np.ndarray],
) -> None:
    kept, attention = at_start
    even = np.tril(np.ones((11, 11))) / np.arange(1, 12)[:, None]
    entropies = [-(a * np.log(a + 1e-300)).sum(-1).mean() for a in (attention, even)]
    assert float(kept.relative_entropy) == pytest.approx(entropies[0] / entropies[1], abs=1e-5)


def test_diagonal_mass_and_keys_that_matter_are_those_of_the_explicit_weights(
    at_start: tuple[xr.Dataset, np.ndarray],
) -> None:
    kept, attention = at_start
    assert float(kept.self_mass) == pytest.approx(
        np.trace(attention, axis1=1, axis2=2).mean() / 11, abs=1e-5
    )
    assert float(kept.effective_keys) == pytest.approx(
        (1 / (attention**2).sum(-1)).mean(), rel=1e-4
    )
    assert float(kept.top_mass) == pytest.approx(attention.max(-1).mean(), abs=1e-5)


def test_the_map_is_that_of_the_first_validation_window(
    at_start: tuple[xr.Dataset, np.ndarray],
) -> None:
    kept, attention = at_start
    np.testing.assert_allclose(kept.lowest_map, attention[0], atol=1e-5)


def test_looks_after_a_run_stopped_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.train_text
    monkeypatch.setattr(
        training,
        "train_text",
        lambda *given, **settings: whole(*given, **settings).isel(time=[0, 1]),
    )
    kept = training.trained(replace(RUN, looks=(0, 1, 2)))
    assert np.isfinite(kept.entropy.isel(time=[0, 1])).all()
    assert np.isnan(kept.entropy.isel(time=2)).all()


def test_stacked_runs_stand_where_their_axes_say_and_lacking_layers_are_missing() -> None:
    def one(depth: int, lr: float, seed: int) -> xr.Dataset:
        values = 100.0 * depth + 10.0 * lr + seed + np.zeros(depth)
        return xr.Dataset({"value": ("layer", values)}, {"layer": range(depth)})

    axes = {"n_layers": (1, 3), "lr": (2.0, 5.0), "seed": (0, 1, 2)}
    runs = [
        one(depth, lr, seed)
        for depth in axes["n_layers"]
        for lr in axes["lr"]
        for seed in axes["seed"]
    ]
    whole = training.stacked(runs, axes).value
    assert float(whole.sel(n_layers=3, lr=5.0, seed=1, layer=2)) == 351
    assert float(whole.sel(n_layers=1, lr=2.0, seed=2, layer=0)) == 122
    assert np.isnan(whole.sel(n_layers=1, layer=[1, 2])).all()
