"""The second half of `forecast`: the stages of the embedded model, forecast from the pairs of a
text, trained and scored.

Runs are of W0, WQ, WK, W1 of [chen2026] on windows of the text in a small vocabulary. A score is
for each seed: times, rates and the first move of attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from saccade.data.markov import MarkovChain
from saccade.data.text.corpus import corpus
from saccade.dynamics.training import train_text
from saccade.experiments.real_text.every_run import every_run, every_run_near
from saccade.forecasting.forecast import forecast
from saccade.forecasting.score import TURN, exponential_rate, in_time
from saccade.lab.claim import FAILS, HOLDS, Case, Claim
from saccade.lab.panel import DASHES, LINE, POINTS, Line, Lines
from saccade.model.embedded import Embedded, Weights, composite
from saccade.model.transformer import Transformer
from saccade.model.transformer_config import TransformerConfig
from saccade.observe.events import CONDENSED, GROWN, LEARNT
from saccade.observe.fits import Interval, first_time, interval
from saccade.observe.turning_points import VISIBLE, local_noise, peaks, smoothed, thresholds
from saccade.theory.questions import FORECAST_ADAM, FORECAST_STAGES

Array = NDArray[np.float64]
OPTIMISERS = ("sgd", "adam")
SEEN = (
    "on_frequent",
    "top_share",
    "embedding_norm",
    "query_norm",
    "query_scale",
    "population_loss",
)  # of an embedded run
UNWATCHED: dict[str, Any] = {"loss": "last", "watch": False, "evaluate": 0}
_STAGE_LOOKS = 200  # of an embedded run, evenly spaced
FACTOR = 2.0  # a time was forecast if it is right to within this factor; set before any run
EVENTS = {
    "condensed_time": "embeddings lie along one direction",
    "plateau_time": "token frequencies are learnt",
    "focus_onset": "query matrices have begun to grow",
}
TURNS = {
    "told": "predicted and measured, time within a factor of 2",
    "wrong time": "predicted and measured, time not within a factor of 2",
    "missed": "measured, not predicted",
    "false alarm": "predicted, not measured",
    "neither": "neither predicted nor measured",
}
_FROM_STAGES = (
    "condensation_rate",
    "focus_rate",
    *EVENTS,
    "turn_time",
    "turn_height",
    "on_frequent",
    "query_path",
)


def embedded_run(settings: Any, optimiser: str, seed: int) -> dict[str, Array]:
    """What the stages are read off, at every look: see `StageMeasures`."""
    text, looks = corpus(settings.text, n_vocab=settings.n_words), stage_looks(settings, optimiser)
    record = train_text(
        text,
        model=TransformerConfig.focus_and_dilution(
            text.n_vocab, settings.d_model, settings.init_scale
        ),
        measures=StageMeasures(text.chain(text.n_vocab)),
        steps=looks[-1],
        batch=settings.stage_batch,
        context=settings.context,
        every=looks,
        optimiser=optimiser,
        lr=settings.stage_lr if optimiser == "sgd" else settings.adam_lr,
        seed=seed,
        **UNWATCHED,
    )
    return {name: record[name].values for name in SEEN}


@dataclass(frozen=True)
class StageMeasures:
    """Read off the weights at every look, without sampling: contexts are endless and pairs come as
    often as in the text.
    """

    chain: MarkovChain

    def __call__(self, model: Transformer, step: int) -> dict[str, Any]:
        share, pairs = (
            torch.from_numpy(np.array(values))
            for values in (self.chain.stationary, self.chain.transition)
        )
        embedding, query, _, _ = weights = weights_of(model)
        decoder, attention_logits = composite(weights, model.config.d_model**-0.5)
        attention = torch.softmax(attention_logits + torch.log(share), dim=-1)
        squares, directions = torch.linalg.eigh(
            embedding.T @ embedding
        )  # NumPy's would start threads while other runs go on
        seen = {
            "top_share": squares[-1] / squares.sum(),
            "embedding_norm": torch.linalg.norm(embedding),
            "query_norm": torch.linalg.norm(query),
            "query_scale": torch.linalg.norm(directions[:, -1] @ query),
            "population_loss": -(
                share[:, None] * pairs * torch.log_softmax(attention @ decoder, dim=-1)
            ).sum(),
        }
        on_frequent = attention[:, int(share.argmax())].numpy()
        return {
            "on_frequent": ("word", on_frequent),
            **{name: float(value) for name, value in seen.items()},
        }


def weights_of(model: Transformer) -> Weights:
    """The four matrices as `model/embedded.py` has them, in float64; PyTorch keeps the transposes
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


def stage_forecast(settings: Any) -> xr.Dataset:
    text, rate = corpus(settings.text, n_vocab=settings.n_words), settings.stage_lr
    model = Embedded(
        d_model=settings.d_model,
        d_key=settings.d_model,
        init_scale=settings.init_scale,
        scaled=True,
    )
    return forecast(
        text.chain(text.n_vocab),
        model=model,
        context=settings.context,
        lr_decoder=rate,
        lr_attention=rate,
    )


def stage_looks(settings: Any, optimiser: str) -> list[int]:
    steps = settings.stage_steps if optimiser == "sgd" else settings.adam_steps
    return np.unique(
        np.linspace(0, steps, min(_STAGE_LOOKS, steps + 1)).round().astype(int)
    ).tolist()


def stage_values(
    settings: Any, stages: xr.Dataset, found: list[dict[str, Array]]
) -> dict[str, Any]:
    """`found`: seeds of SGD, then of Adam."""
    looks = [np.array(stage_looks(settings, optimiser), float) for optimiser in OPTIMISERS]
    n_looks, share = max(map(len, looks)), stages["frequency"].values
    runs = {name: np.stack([_padded(run[name], n_looks) for run in found]) for name in SEEN}
    return {
        **{f"predicted_{name}": stages[name].values for name in _FROM_STAGES},
        **{
            name: values.reshape(len(OPTIMISERS), -1, *values.shape[1:])
            for name, values in runs.items()
        },
        "look_step": np.stack([_padded(steps, n_looks) for steps in looks]),
        "predicted_sign": float(stages["focus_sign"]),
        "word_share": share,
        "unigram_loss": float(-(share * np.log(share)).sum()),
    }


def _padded(values: Array, length: int) -> Array:
    """The same with NaN for looks that this run does not have, or did not get to."""
    return np.concatenate([values, np.full((length - len(values), *values.shape[1:]), np.nan)])


def stage_scores(record: xr.Dataset, optimiser: str) -> dict[str, Array]:
    """By seed: times of `EVENTS` and whether they were forecast, rates over the predicted ones, the
    first move of attention.
    """
    share, runs = float(record["word_share"].max()), _runs(record, optimiser)
    each = [
        event_times(run, float(record["unigram_loss"])) | first_move(run, share) for run in runs
    ]
    found = {name: np.array([one[name] for one in each]) for name in each[0]}
    told = {
        f"{name} told": in_time(predicted_time(record, name), found[name], factor=FACTOR)
        for name in EVENTS
    }
    embedding, query = (
        np.array([exponential_rate(run["look_step"].values, run[name].values) for run in runs])
        for name in ("embedding_norm", "query_scale")
    )
    return {
        **found,
        **told,
        "condensation ratio": embedding / float(record["predicted_condensation_rate"]),
        "focus ratio": query / abs(float(record["predicted_focus_rate"])),
        "flow ratio": query / _flow_rate(record, runs[0]["look_step"].values),
        "sign told": (found["side"] == float(record["predicted_sign"])).astype(float),
        "diluted": np.array(
            [float(np.isfinite(turn_times(run, share, 1.0)).any()) for run in runs]
        ),
    }


def _runs(record: xr.Dataset, optimiser: str) -> list[xr.Dataset]:
    return [record.sel(optimiser=optimiser).isel(seed=seed) for seed in range(record.sizes["seed"])]


def event_times(run: xr.Dataset, unigram_loss: float) -> dict[str, float]:
    """Times of `EVENTS` in one run (axis: look), as the forecast defines them; NaN for what does
    not come.
    """
    time, loss, query = (
        run["look_step"].values,
        run["population_loss"].values,
        run["query_norm"].values,
    )
    return {
        "condensed_time": first_time(time, run["top_share"].values >= CONDENSED),
        "plateau_time": first_time(
            time, loss <= unigram_loss + (1 - LEARNT) * (loss[0] - unigram_loss)
        ),
        "focus_onset": first_time(time, query >= GROWN * query[0]),
    }


def predicted_time(record: xr.Dataset, name: str) -> float:
    """The middle one of the forecast's random starts."""
    return float(np.median(record[f"predicted_{name}"].values))


def first_move(run: xr.Dataset, share: float) -> dict[str, float]:
    """To which side of its share attention on the most frequent token first moves visibly, mean
    over queries, and when.
    """
    tilt = run["on_frequent"].transpose("look", "word").values - share
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    side = float(np.sign(tilt[moved.argmax()].mean())) if moved.any() else 0.0
    return {"side": side, "moved_at": first_time(run["look_step"].values, moved)}


def _flow_rate(record: xr.Dataset, looks: Array) -> float:
    """Growth rate of the rank-one flow from the first start, as that of a run is taken: at the same
    looks, to the same end.
    """
    known = looks[np.isfinite(looks)]
    path = np.exp(
        np.interp(known, record["stage_time"].values, np.log(record["predicted_query_path"].values))
    )
    return exponential_rate(known, path)


def turn_times(run: xr.Dataset, share: float, sign: float) -> Array:
    """When each query's attention on it first turns back after it went to the side `sign` (word);
    NaN if it does not.

    A turn stands out from the noise of batches (`observe/turning_points.py`) and loses a tenth of
    its height, as in a forecast.
    """
    known = np.isfinite(run["look_step"].values) & np.isfinite(run["query_norm"].values)
    time, curves = (
        run["look_step"].values[known],
        sign * (run["on_frequent"].transpose("look", "word").values[known] - share),
    )
    noise = local_noise(curves)
    return np.array(
        [
            _turn(time, *pair)
            for pair in zip(smoothed(curves, noise).T, thresholds(noise, None).T, strict=True)
        ]
    )


def _turn(time: Array, height: Array, threshold: Array) -> float:
    turns = (
        top
        for top in peaks(height, threshold)
        if top.value > VISIBLE and top.prominence >= TURN * top.value
    )
    return next((float(time[top.place]) for top in turns), float("nan"))


def turn_counts(record: xr.Dataset, optimiser: str) -> dict[str, Array]:
    """Queries of each kind of `TURNS`, by seed. What is predicted for after the run, or too little
    to see, is not predicted.
    """
    share, sign, runs = (
        float(record["word_share"].max()),
        float(record["predicted_sign"]),
        _runs(record, optimiser),
    )
    guess = np.median(record["predicted_turn_time"].values, axis=0)
    seen = np.abs(np.median(record["predicted_turn_height"].values, axis=0)) > VISIBLE
    guess = np.where(seen & (guess <= np.nanmax(runs[0]["look_step"].values)), guess, np.nan)
    kinds = [turn_kinds(guess, turn_times(run, share, sign)) for run in runs]
    return {name: np.array([float((found == name).sum()) for found in kinds]) for name in TURNS}


def turn_kinds(guess: Array, truth: Array) -> NDArray[np.str_]:
    """Which of `TURNS` each pair of times is."""
    told, predicted, measured = (
        in_time(guess, truth, factor=FACTOR) == 1,
        np.isfinite(guess),
        np.isfinite(truth),
    )
    conditions = [told, predicted & measured, measured, predicted]
    return np.select(conditions, ["told", "wrong time", "missed", "false alarm"], default="neither")


_RATES = {
    "condensation ratio": ("condensation rate, measured / predicted", 0.1, HOLDS),
    "focus ratio": ("rate of focus, measured / closed form", 0.25, FAILS),
    "flow ratio": ("rate of focus, measured / flow over the same updates", 0.25, HOLDS),
}


def stage_claims(record: xr.Dataset) -> Iterator[Claim]:
    found, case = stage_scores(record, "sgd"), Case({"trained by": "SGD"})
    for name, (title, within, expected) in _RATES.items():
        yield every_run_near(
            case, FORECAST_STAGES, title, found[name], 1, within=within, expected=expected
        )
    for name, what in EVENTS.items():
        title = f"{what} when predicted (factor {FACTOR:g}), in every run"
        yield every_run(case, FORECAST_STAGES, title, found[f"{name} told"] == 1, 1)
    yield every_run(
        case,
        FORECAST_STAGES,
        "attention first moves the predicted way, in every run",
        found["sign told"] == 1,
        1,
    )
    found, case = stage_scores(record, "adam"), Case({"trained by": "Adam"})
    for title, told, expected in (
        (
            "one direction before attention moves, in every run",
            found["condensed_time"] < found["moved_at"],
            HOLDS,
        ),
        (
            "attention first turns to the most frequent token, in every run",
            found["side"] > 0,
            HOLDS,
        ),
        ("dilution after focus, in every run", found["diluted"] == 1, FAILS),
    ):
        yield every_run(case, FORECAST_ADAM, title, told, 1, expected=expected)


def stage_table(record: xr.Dataset) -> Iterator[dict[str, Any]]:
    found = stage_scores(record, "sgd")
    by_seed = {title: found[name] for name, (title, _, _) in _RATES.items()}
    by_seed |= {
        f"{what} when predicted (factor 2)": found[f"{name} told"] for name, what in EVENTS.items()
    }
    by_seed |= {
        f"queries that turn back: {TURNS[kind]}": n
        for kind, n in turn_counts(record, "sgd").items()
    }
    yield from (
        score_row("sgd", "forecast", said, interval(values)) for said, values in by_seed.items()
    )
    sides = {
        "forecast": float(record["predicted_sign"]),
        "follows frequency": 1.0,
        "nothing changes": 0.0,
    }
    for optimiser in OPTIMISERS:
        moved = stage_scores(record, optimiser)["side"]
        for forecaster, side in sides.items():
            yield score_row(
                optimiser,
                forecaster,
                "attention first moves to the side predicted",
                interval(moved == side),
            )


def score_row(way: str, forecaster: str, measure: str, found: Interval) -> dict[str, Any]:
    return {"trained on": way, "forecaster": forecaster, "measure": measure, **found._asdict()}


def stage_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    guess = {name: predicted_time(record, name) for name in EVENTS}
    guess |= {"moved_at": np.nan, "side": float(record["predicted_sign"])}
    return [
        {
            "optimiser": optimiser,
            "what": name,
            "predicted": predicted,
            "seed": int(seed),
            "measured": float(value),
        }
        for optimiser in OPTIMISERS
        for found in [stage_scores(record, optimiser)]
        for name, predicted in guess.items()
        for seed, value in zip(record["seed"].values, found[name], strict=True)
    ]


def events_panel(record: xr.Dataset) -> Lines:
    """Measured times of every seed against the predicted ones; the band is a factor of two."""
    found, guess = (
        stage_scores(record, "sgd"),
        {name: predicted_time(record, name) for name in EVENTS},
    )
    lines = [
        Line(guess[name], found[name], what, POINTS, tone)
        for tone, (name, what) in enumerate(EVENTS.items())
    ]
    reach = 1.5 * float(
        np.nanmax([*guess.values(), *np.concatenate([found[name] for name in EVENTS])])
    )
    ends = np.array([0.0, reach])
    band = Line(ends, ends, "to a factor of 2", LINE, None, ends / 2, ends * 2)
    return Lines(
        "stages on text, SGD",
        "update predicted",
        "update measured",
        [*lines, band],
        ylim=(0, reach),
    )


def attention_panel(record: xr.Dataset, optimiser: str, n_queries: int = 5) -> Lines:
    """Attention on the most frequent token, first seed, queries that move most; dashed: the
    forecast, which is one for SGD.
    """
    run, share, lines = (
        record.sel(optimiser=optimiser).isel(seed=0),
        float(record["word_share"].max()),
        [],
    )
    curves, words = run["on_frequent"].transpose("look", "word").values, record["word"].values
    moved = np.abs(np.nan_to_num(curves) - share).max(axis=0)
    inside = record["stage_time"].values <= np.nanmax(run["look_step"].values)
    for tone, i in enumerate(np.argsort(-moved, kind="stable")[:n_queries]):
        lines.append(Line(run["look_step"], curves[:, i], f"query {words[i]}", LINE, tone))
        if optimiser == "sgd":
            guess = record["predicted_on_frequent"].values[inside, i]
            lines.append(Line(record["stage_time"].values[inside], guess, "", DASHES, tone))
    title = "text, SGD (dashed: forecast)" if optimiser == "sgd" else "text, Adam"
    frequent = words[int(record["word_share"].values.argmax())]
    return Lines(
        title,
        "updates",
        f"attention on {frequent}",
        lines,
        ylim=(0, 1),
        levels={share: "its share"},
    )
