"""Stages of the embedded model on a text: forecast from its pairs, trained, and compared.

Runs are of W0, WQ, WK, W1 of [chen2026] on windows of the text in a small vocabulary. A score is a
number for each seed: times, rates, and the first move of attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr

import saccade
from saccade.data.markov import MarkovChain
from saccade.engines.train_text import train_text
from saccade.experiments.real_text.every_run import every_run, every_run_near
from saccade.forecasting.score import TURN, exponential_rate, in_time
from saccade.lab.case import Case
from saccade.measures.events import CONDENSED, GROWN, LEARNT
from saccade.measures.fits import first_time
from saccade.measures.turning_points import VISIBLE, local_noise, peaks, smoothed, thresholds
from saccade.models.embedded import Embedded, Weights, composite
from saccade.models.transformer import Transformer
from saccade.models.transformer_config import TransformerConfig
from saccade.theories.questions import FORECAST_ADAM, FORECAST_STAGES

D_MODEL = 64
INIT_SCALE = 1e-3
CONTEXT = 64
N_WORDS = 64  # rarer words become one token
STAGE_LR = 0.25
ADAM_LR = 1e-3
N_OBSERVATIONS = 200
FACTOR = 2.0  # a time was forecast if it is right to within this factor; set before any run
EVENTS = {
    "condensed_time": "embeddings lie along one direction",
    "plateau_time": "token frequencies are learnt",
    "focus_onset": "query matrices have begun to grow",
}
RATES = {
    "condensation": ("condensation rate, measured / predicted", 0.1),
    "focus": ("rate of focus, measured / closed form", 0.25),
    "focus of the flow": ("rate of focus, measured / flow over the same updates", 0.25),
}


def stage_forecast(name: str) -> xr.Dataset:
    text = saccade.corpus(name, n_vocab=N_WORDS)
    model = Embedded(
        d_model=D_MODEL,
        d_key=D_MODEL,
        init_scale=INIT_SCALE,
        scaled=True,
    )
    chain = text.chain(text.n_vocab)
    rates: dict[str, Any] = {"lr_decoder": STAGE_LR, "lr_attention": STAGE_LR}
    return saccade.forecast(
        chain,
        model=model,
        context=CONTEXT,
        **rates,
    )


def stage_run(name: str, optimiser: str, steps: int, seed: int) -> xr.Dataset:
    """What the stages are read off, at every observation: see `StageMeasures`."""
    text = saccade.corpus(name, n_vocab=N_WORDS)
    times = np.linspace(0, steps, min(N_OBSERVATIONS, steps + 1)).round().astype(int)
    return train_text(
        text,
        model=TransformerConfig.focus_and_dilution(text.n_vocab, D_MODEL, INIT_SCALE),
        measures=StageMeasures(text.chain(text.n_vocab)),
        steps=steps,
        context=CONTEXT,
        every=np.unique(times).tolist(),
        loss="last",
        watch=False,
        evaluate=0,
        batch=128,
        optimiser=optimiser.lower(),
        lr=ADAM_LR if optimiser == "Adam" else STAGE_LR,
        seed=seed,
    )


@dataclass(frozen=True)
class StageMeasures:
    """Read off the weights, without sampling: contexts are infinite and pairs come as often as in
    the text.
    """

    chain: MarkovChain

    def __call__(self, model: Transformer, step: int) -> dict[str, Any]:
        share, pairs = map(torch.tensor, (self.chain.stationary, self.chain.transition))
        embedding, query, _, _ = weights = weights_of(model)
        decoder, attention_logits = composite(weights, model.config.d_model**-0.5)
        attention = torch.softmax(attention_logits + torch.log(share), dim=-1)
        # NumPy's eigh would start threads while other runs go on
        squares, directions = torch.linalg.eigh(embedding.T @ embedding)
        loss = -(share[:, None] * pairs * torch.log_softmax(attention @ decoder, dim=-1)).sum()
        numbers = {
            "top_share": squares[-1] / squares.sum(),
            "embedding_norm": torch.linalg.norm(embedding),
            "query_norm": torch.linalg.norm(query),
            "query_scale": torch.linalg.norm(directions[:, -1] @ query),
            "population_loss": loss,
        }
        on_frequent = attention[:, int(share.argmax())].numpy()
        return {"on_frequent": ("word", on_frequent)} | {
            name: float(value) for name, value in numbers.items()
        }


def weights_of(model: Transformer) -> Weights:
    """The four matrices as `models/embedded.py` has them, in float64; PyTorch keeps the transposes
    of the last three.
    """
    attention: Any = model.blocks[0].attention
    kept = (
        model.embedding.weight,
        attention.q_proj.weight.T,
        attention.k_proj.weight.T,
        model.unembedding.weight.T,
    )
    return Weights(*(matrix.detach().double() for matrix in kept))


def stage_scores(run: xr.Dataset, stages: xr.Dataset) -> dict[str, float]:
    """Of one run: rates over the predicted ones, events in time (1 or 0), the side to which
    attention on the most frequent token first moves visibly, mean over queries, and when.
    """
    time = run.time.values
    loss = run.population_loss.values
    query = run.query_norm.values
    share = stages.frequency.values
    unigram = float(-(share * np.log(share)).sum())
    times = {
        "condensed_time": first_time(time, run.top_share.values >= CONDENSED),
        "plateau_time": first_time(time, loss <= unigram + (1 - LEARNT) * (loss[0] - unigram)),
        "focus_onset": first_time(time, query >= GROWN * query[0]),
    }
    told = {
        f"{name} in time": float(in_time(np.median(stages[name]), measured, factor=FACTOR))
        for name, measured in times.items()
    }
    tilt = run.on_frequent.transpose("time", "word").values - share.max()
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    path = np.exp(np.interp(time, stages.stage_time, np.log(stages.query_path.values)))
    embedding, scale, flow = (
        exponential_rate(time, size)
        for size in (run.embedding_norm.values, run.query_scale.values, path)
    )
    return told | {
        "condensed_time": times["condensed_time"],
        "condensation": embedding / float(stages.condensation_rate),
        "focus": scale / abs(float(stages.focus_rate)),
        "focus of the flow": scale / flow,
        "side": float(np.sign(tilt[moved.argmax()].mean())) if moved.any() else 0.0,
        "moved_at": first_time(time, moved),
        "diluted": turns_back(tilt[np.isfinite(query)]),
    }


def turns_back(curves: np.ndarray) -> float:
    """Whether any curve (time, word) turns back after it rose visibly: it stands out from the noise
    of batches (`measures/turning_points.py`) and loses a tenth of its height, as in a forecast.
    """
    noise = local_noise(curves)
    return float(
        any(
            top.value > VISIBLE and top.prominence >= TURN * top.value
            for height, least in zip(smoothed(curves, noise).T, thresholds(noise, None).T)
            for top in peaks(height, least)
        )
    )


def claim_stages(
    sgd: Case, adam: Case, trained: Mapping[str, Sequence[xr.Dataset]], forecast: xr.Dataset
) -> None:
    """Times, signs and the order of stages: right in every seed. Rates: the interval is within a
    tenth for condensation, which starts from nothing, and a quarter for focus.
    """
    found, under_adam = (
        {key: np.array([one[key] for one in of_seeds]) for key in of_seeds[0]}
        for of_seeds in (
            [stage_scores(run, forecast) for run in trained[kind]] for kind in ("SGD", "Adam")
        )
    )
    for key, (title, within) in RATES.items():
        every_run_near(sgd, FORECAST_STAGES, title, found[key], 1, within=within)
    came = {
        f"{what} when predicted (factor {FACTOR:g})": found[f"{key} in time"] == 1
        for key, what in EVENTS.items()
    }
    came["attention first moves the predicted way"] = found["side"] == float(forecast.focus_sign)
    for title, of_seeds in came.items():
        every_run(sgd, FORECAST_STAGES, f"{title}, in every run", of_seeds, 1)
    came = {
        "one direction before attention moves": under_adam["condensed_time"]
        < under_adam["moved_at"],
        "attention first turns to the most frequent token": under_adam["side"] > 0,
        "dilution after focus": under_adam["diluted"] == 1,
    }
    for title, of_seeds in came.items():
        every_run(adam, FORECAST_ADAM, f"{title}, in every run", of_seeds, 1)
