"""With orthonormal embeddings, training W_Q and W_V is training Y and Z; with random ones it is not.

The token-embedded model on two small classes. With orthonormal embeddings and W_Q, W_V moving, its
flow is compared with the pairwise flow. In a control W_K moves too, which adds two terms. Random
embeddings enter through their Gram matrix alone: the distance from the pairwise flow is measured
over widths d. Expect the same flow to 1e-10, and a distance that shrinks as d^-1/2.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated as A
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import saccade
from saccade.data.sequence_classes import SequenceClasses
from saccade.lab.experiment import Lab, experiment
from saccade.measures import fits
from saccade.models.system import Observable, Solver, System
from saccade.models.token_embedded import TokenEmbedded, pairwise_loss
from saccade.panels import DASHES, LINE, POINTS, RINGS, Line, Lines
from saccade.theories.scan_and_snap.open_statements import (
    FINITE_WIDTH,
    QUERY_KEY_TERMS,
    REPARAMETERISATION,
)


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

    solver = Solver(
        t1=1e4,
        n_times=60,
        rtol=1e-8,
        atol=1e-11,
        most_for_lsoda=4000,
    )
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
        slope = jax.grad(self.loss)(parameters)
        gram = parameters.gram
        decoder_dot = -gram @ slope.decoder @ gram
        logits_dot = -self.lr_attention * gram @ slope.attention_logits @ gram
        return GramWeights(decoder_dot, logits_dot, jnp.zeros_like(gram))

    def observe(self, parameters: GramWeights) -> dict[str, Observable]:
        row = parameters.attention_logits[self.task.query[0]]
        return {"row": Observable(("token",), row, "1", "attention logits of the query")}


@experiment(
    "reparameterisation",
    dynamics="B: population gradient flow of the token-embedded and of the pairwise model",
    time_unit="steps of SGD",
)
def reparameterisation(
    lab: Lab,
    t1: A[float, "end of the flows, steps"] = 1e3,
    lr_attention: A[float, "attention rate, per step; the decoder's is 1"] = 1.0,
    widths: A[tuple[int, ...], "widths of random embeddings"] = (100, 1000, 10000),
    draws: A[int, "random embeddings at each width"] = 4,
) -> str:
    """Does training W_Q and W_V move attention as training its logits directly does?"""
    task = two_small_classes()
    embedded = {
        "W_Q, W_V": TokenEmbedded(task, lr_attention=lr_attention),
        "W_Q, W_K, W_V": TokenEmbedded(
            task, moves=("query", "key", "value"), lr_attention=lr_attention
        ),
    }
    cells = [(width, seed) for width in widths for seed in range(draws)]
    work = lab.each(["Y, Z", *embedded, *cells])

    # Orthonormal embeddings: the flow of Y and Z, unless W_K moves.
    precise = partial(
        saccade.flow,
        t1=t1,
        n_times=60,
        rtol=1e-12,
        atol=1e-14,
    )
    next(work)
    pairwise = precise(task, lr_attention=lr_attention)
    t = pairwise.time.values
    logits = {"Y, Z": pairwise.attention_logits.values[:, 0]}
    for moves, system in embedded.items():
        next(work)
        logits[moves] = precise(system).attention_logits.values[:, 0]
    for moves, path in logits.items():
        about = "attention logits of the query in the flow"
        lab.keep("attention_logits", path, "sample token", about, moves=moves)
    title = "attention logits against the pairwise flow, largest difference"
    free, factored = (lab.case(moves=moves) for moves in embedded)
    apart = [np.abs(logits[moves] - logits["Y, Z"]).max() for moves in embedded]
    main = [free.at_most(REPARAMETERISATION, title, apart[0], 1e-10)]
    factored.breaking("W_K fixed").at_most(REPARAMETERISATION, title, apart[1], 1e-10)
    ends = [np.abs(logits[moves][-1]).max() for moves in embedded]
    title = "largest logit at the end over that with Z free"
    factored.at_least(QUERY_KEY_TERMS, title, ends[1] / ends[0], 1, strict=True)

    # Random embeddings of finite width.
    with_gram = WithGram(task, lr_attention)
    occurs = task.token_prob.any(axis=0)
    exact = saccade.flow(with_gram, t1=t1).row.values[-1]
    distance = np.empty((len(widths), draws))
    for place, (width, seed) in zip(np.ndindex(*distance.shape), work, strict=True):
        drawn = np.random.default_rng([seed, width]).standard_normal((task.n_vocab, width))
        embedding = drawn / np.sqrt(width)
        start = with_gram.start(np.random.default_rng(0))._replace(gram=embedding @ embedding.T)
        row = saccade.flow(with_gram, t1=t1, start=start).row.values[-1]
        # A common shift of the logits of all tokens changes nothing: softmax does not see it.
        gap = (row - exact)[occurs]
        distance[place] = np.abs(gap - gap.mean()).max() / np.abs(exact[occurs]).max()
    lab.keep("distance", distance, "width seed", "largest difference of logits at the end")
    mean = distance.mean(axis=1)
    random = lab.case(embeddings="random")
    power = fits.power(widths, mean)
    title = "power of the width in the distance from the pairwise flow"
    random.near(FINITE_WIDTH, title, power, -0.5, within=0.1)
    title = "wider embeddings are closer to the pairwise flow"
    random.in_order(FINITE_WIDTH, title, -mean)

    most = int(np.argmax(logits["Y, Z"][-1]))
    parts = (slice(1, None), slice(1, None, 5), slice(3, None, 5))
    styles = zip(logits.items(), (LINE, RINGS, POINTS), (None, 0, 1), parts, strict=True)
    curves = [
        Line(t[part], path[part, most], f"{moves} trained", style, tone)
        for (moves, path), style, tone, part in styles
    ]
    every = np.repeat(widths, draws)
    fitted = np.exp(np.log(mean * np.sqrt(widths)).mean()) / np.sqrt(widths)
    spread = [
        Line(every, distance.ravel(), "each random embedding", RINGS, 0),
        Line(widths, mean, "mean", POINTS, None),
        Line(widths, fitted, "width to the power -1/2", DASHES, None),
    ]
    y = "distance from the pairwise flow"
    lab.draw(
        Lines(
            "orthonormal embeddings",
            "t (steps)",
            "logit of the token that gains most",
            curves,
            "x",
            xlim=(0.1, None),
        ),
        Lines("random embeddings", "width d", y, spread, "xy", ylim=(1e-2, 1)),
        caption="Panel 1: the logit of the token that gains most. With orthonormal embeddings and "
        "W_Q, W_V trained it equals that of the pairwise model; with W_K trained as well it grows "
        "further. Panel 2: distance from the pairwise flow with random embeddings of finite width.",
    )
    return (
        f"{lab.yes_or_no(*main)}: on two small classes, with orthonormal embeddings and W_K fixed, "
        f"the two flows differ by {apart[0]:.1g} at most. With random embeddings of width d the "
        f"distance goes as d to the power {power:.2f}."
    )


def two_small_classes() -> SequenceClasses:
    """Two classes with one query: two common tokens, two distinct ones each; nine tokens in all."""
    weight = [[0.5, 0.5, 0.4, 0.8, 0, 0], [0.5, 0.5, 0, 0, 0.3, 0.9]]
    return SequenceClasses(np.array(weight), normalise=True, name="two-small")
