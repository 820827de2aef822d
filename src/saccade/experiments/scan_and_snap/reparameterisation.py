"""With orthonormal embeddings, training W_Q and W_V is training Y and Z; with random ones of width
d the gap shrinks as d^-1/2.

The token-embedded model on two small classes. With orthonormal embeddings and W_Q, W_V moving, its
flow is compared with the pairwise flow; with W_K moving too, its velocity with the derived one,
extra terms included. At finite width embeddings are random: the flow then depends on their Gram
matrix alone, and its distance from the pairwise flow is measured over widths. Expect 1e-10 for the
first two, a power of -1/2 in the width for the third.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import saccade
from saccade.data.sequence_classes import SequenceClasses
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.panel import DASHES, LINE, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, cell_rows
from saccade.model.system import Seen, Solver, System
from saccade.model.token_embedded import TokenEmbedded, Weights, pair, pairwise_loss
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.open_statements import (
    FINITE_WIDTH,
    QUERY_KEY_TERMS,
    REPARAMETERISATION,
)


@dataclass(frozen=True)
class Settings:
    t1: float = 1e3
    """end of the flows, steps"""
    lr_attention: float = 1.0
    """attention rate, per step; the decoder's is 1"""
    widths: tuple[int, ...] = (100, 1000, 10000)
    """widths of random embeddings"""
    draws: int = 4
    """random embeddings at each width"""


def classes() -> SequenceClasses:
    """Two classes with one query: two common tokens, two distinct ones each; nine tokens in all."""
    weight = [[0.5, 0.5, 0.4, 0.8, 0, 0], [0.5, 0.5, 0, 0, 0.3, 0.9]]
    return SequenceClasses(np.array(weight), normalise=True, name="two-small")


class GramWeights(NamedTuple):
    decoder: Any
    attention_logits: Any
    gram: Any


class WithGram(System):
    """Y and Z of the token-embedded model with any embeddings: they enter through their Gram matrix
    S, which does not move.

    Moving W_V and W_Q moves Y by S G_Y S and Z by S G_Z S, G downhill in Y and Z; the norm of the
    embedded attention c is c.S.c.
    """

    solver = Solver(t1=1e4, n_times=60, rtol=1e-8, atol=1e-11, most_for_lsoda=4000)
    seeds = None
    loss_unit = "nats"

    def __init__(self, task: SequenceClasses, lr_attention: float) -> None:
        self.task, self.lr_attention = task, lr_attention

    def start(self, rng: np.random.Generator) -> GramWeights:
        size = self.task.n_vocab
        return GramWeights(np.zeros((size, size)), np.zeros((size, size)), np.eye(size))

    def loss(self, parameters: GramWeights) -> Any:
        return pairwise_loss(*parameters, self.task)

    def velocity(self, parameters: GramWeights) -> GramWeights:
        slope, gram = jax.grad(self.loss)(parameters), parameters.gram
        moved = (
            -gram @ slope.decoder @ gram,
            -self.lr_attention * gram @ slope.attention_logits @ gram,
        )
        return GramWeights(*moved, jnp.zeros_like(gram))

    def observe(self, parameters: GramWeights) -> dict[str, Seen]:
        row = parameters.attention_logits[self.task.query[0]]
        return {"row": Seen(("token",), row, "1", "attention logits of the query")}


def measure(settings: Settings, on_progress: Progress) -> Measured:
    task = classes()
    plain = saccade.flow(
        task, t1=settings.t1, lr_attention=settings.lr_attention, n_times=60, rtol=1e-12, atol=1e-14
    )
    rates: dict[str, Any] = {"lr_decoder": 1.0, "lr_attention": settings.lr_attention}
    values: dict[str, Any] = {"pairwise_logits": plain.attention_logits.values[:, 0]}
    for name, moves in (("free", ("query", "value")), ("factored", ("query", "key", "value"))):
        system = TokenEmbedded(task, moves=moves, **rates)
        path = saccade.flow(system, t1=settings.t1, n_times=60, rtol=1e-12, atol=1e-14)
        values[f"{name}_logits"] = path.attention_logits.values[:, 0]
        values |= {f"{name}_{key}": each for key, each in _velocities(system, path).items()}
        on_progress(0.4 if name == "free" else 0.7)
    values["distance"] = _distances(task, settings)
    coords = {
        "time": plain.time.values,
        "width": list(settings.widths),
        "seed": np.arange(settings.draws),
    }
    return Measured(values, coords)


def _velocities(system: TokenEmbedded, path: xr.Dataset) -> dict[str, Array]:
    """How Y and Z move by the chain rule, against what theory says, along the flow: largest errors
    over the largest velocity.
    """
    task, found = system.task, []

    def moved(weights: Weights) -> tuple[Any, Any, Any, Any]:
        """Velocities of Y and Z in the embedded model, and those of the pairwise model at the same
        point.
        """
        _, (decoder_dot, logits_dot) = jax.jvp(pair, (weights,), (system.velocity(weights),))
        slope = jax.grad(pairwise_loss, argnums=(0, 1))(*pair(weights), jnp.eye(task.n_vocab), task)
        return (
            decoder_dot,
            logits_dot,
            -system.lr_decoder * slope[0],
            -system.lr_attention * slope[1],
        )

    with jax.enable_x64(True):
        compiled = jax.jit(moved)
        for i in range(path.sizes["time"]):
            weights = system.parameters_of(path.isel(time=i))
            decoder_dot, logits_dot, decoder_free, logits_free = (
                np.asarray(part) for part in compiled(weights)
            )
            derived = theory.query_key_velocity(
                logits_free, weights.embedding @ weights.query, weights.embedding @ weights.key
            )
            size = max(np.abs(logits_free).max(), 1e-300)
            found.append(
                {
                    "decoder_error": np.abs(decoder_dot - decoder_free).max()
                    / np.abs(decoder_free).max(),
                    "logits_error": np.abs(logits_dot - logits_free).max() / size,
                    "derived_error": np.abs(logits_dot - derived).max() / size,
                }
            )
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def _distances(task: SequenceClasses, settings: Settings) -> Array:
    """Largest distance of attention logits from those of orthonormal embeddings at the end, over
    their largest (width, seed).
    """
    system = WithGram(task, settings.lr_attention)
    exact = saccade.flow(system, t1=settings.t1).row.values[-1]
    occurs = task.token_prob.any(axis=0)
    found = np.empty((len(settings.widths), settings.draws))
    for i, width in enumerate(settings.widths):
        for seed in range(settings.draws):
            embedding = np.random.default_rng([seed, width]).standard_normal(
                (task.n_vocab, width)
            ) / np.sqrt(width)
            begin = system.start(np.random.default_rng(0))._replace(gram=embedding @ embedding.T)
            row = saccade.flow(system, t1=settings.t1, start=begin).row.values[-1]
            # A common shift of the logits of all tokens changes nothing: softmax does not see it.
            apart = (row - exact)[occurs]
            found[i, seed] = np.abs(apart - apart.mean()).max() / np.abs(exact[occurs]).max()
    return found


def claims(record: xr.Dataset) -> Iterator[Claim]:
    free, factored = Case({"moves": "W_Q, W_V"}), Case({"moves": "W_Q, W_K, W_V"})
    titles = {
        "decoder": "velocity of Y against the pairwise model's, largest relative error",
        "logits": "velocity of Z against the pairwise model's, largest relative error",
    }
    for name, title in titles.items():
        yield free.but(against=CALCULUS).at_most(
            REPARAMETERISATION, title, record[f"free_{name}_error"].values[1:], 1e-10
        )
    gap = np.abs(record.free_logits.values - record.pairwise_logits.values).max()
    yield free.at_most(
        REPARAMETERISATION,
        "attention logits against the pairwise flow, largest difference",
        gap,
        1e-10,
        sentence="A Transformer with orthonormal embeddings moves exactly as the theory's table of token pairs.",
    )
    identity = factored.but(against=CALCULUS)
    control = identity.breaking("W_K fixed")
    yield control.at_most(
        REPARAMETERISATION, titles["logits"], record.factored_logits_error.values[1:], 1e-10
    )
    title = "velocity of Z against the derived one with both extra terms, largest relative error"
    yield identity.at_most(QUERY_KEY_TERMS, title, record.factored_derived_error.values[1:], 1e-10)
    ends = [np.abs(record[f"{name}_logits"].values[-1]).max() for name in ("free", "factored")]
    yield factored.at_least(
        QUERY_KEY_TERMS,
        "largest logit at the end over that with Z free",
        ends[1] / ends[0],
        1,
        strict=True,
    )
    apart = record.distance.mean("seed").values
    power = fits.power(record.width.values, apart)
    random = Case({"embeddings": "random"})
    yield random.near(
        FINITE_WIDTH,
        "power of the width in the distance from the pairwise flow",
        power,
        -0.5,
        within=0.1,
        sentence="With random embeddings four times the width halves the distance from the theory's table of token pairs.",
    )
    yield random.in_order(FINITE_WIDTH, "wider embeddings are closer to the pairwise flow", -apart)


def panels(record: xr.Dataset) -> Layout:
    t, top = record.time.values[1:], int(np.argmax(record.pairwise_logits.values[-1]))
    logits = [
        Line(t, record.pairwise_logits.values[1:, top], "Y and Z free", LINE, None),
        Line(t[::5], record.free_logits.values[1::5, top], "W_Q, W_V trained", RINGS, 0),
        Line(t[2::5], record.factored_logits.values[3::5, top], "W_Q, W_K, W_V trained", POINTS, 1),
    ]
    extra = [Line(t, record.factored_logits_error.values[1:], "", LINE, 1)]
    widths, apart = record.width.values, record.distance.values
    mean = apart.mean(axis=1)
    distance = [
        Line(np.repeat(widths, apart.shape[1]), apart.ravel(), "each random embedding", RINGS, 0),
        Line(widths, mean, "mean", POINTS, None),
        Line(
            widths,
            np.exp(np.log(mean * widths**0.5).mean()) / widths**0.5,
            "width to the power -1/2",
            DASHES,
            None,
        ),
    ]
    return [
        Lines(
            "orthonormal embeddings",
            "t (steps)",
            "logit of the token that gains most",
            logits,
            "x",
            xlim=(0.1, None),
        ),
        Lines(
            "what training W_K adds",
            "t (steps)",
            "extra terms over the pairwise velocity",
            extra,
            "x",
            xlim=(0.1, None),
        ),
        Lines(
            "random embeddings",
            "width d",
            "distance from the pairwise flow",
            distance,
            "xy",
            ylim=(1e-2, 1),
        ),
    ]


EXPERIMENT = Experiment(
    "reparameterisation",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: the logit of the token that gains most. With orthonormal embeddings and W_Q, W_V trained it equals that of the "
        "pairwise model; with W_K trained as well it grows further. Panel 2: size of the two terms that training W_K adds to the "
        "velocity of Z, relative to the pairwise velocity. Panel 3: distance from the pairwise flow with random embeddings of "
        "finite width."
    ),
    finding=(
        "with orthonormal embeddings the two flows agree to {attention logits against*:.1g}; with random ones of width d the gap "
        "shrinks as d^{power of the width*:.2f}"
    ),
    table=cell_rows,
    variables={
        "pairwise_logits": Variable("time token", "1", "attention logits of the pairwise flow"),
        "free_logits": Variable(
            "time token", "1", "the same of the token-embedded model, W_Q and W_V moving"
        ),
        "factored_logits": Variable("time token", "1", "the same with W_K moving as well"),
        **{
            f"{name}_{key}": Variable(
                "time", "1", f"largest error of the velocity of {of}, relative, {name}"
            )
            for name in ("free", "factored")
            for key, of in (
                ("decoder_error", "Y against the pairwise model's"),
                ("logits_error", "Z against the pairwise model's"),
                ("derived_error", "Z against the derived one"),
            )
        },
        "distance": Variable(
            "width seed",
            "1",
            "largest distance of the logits at the end from those of orthonormal embeddings",
        ),
    },
    dynamics="B: population gradient flow of the token-embedded and of the pairwise model",
    time_unit="steps of SGD",
)
