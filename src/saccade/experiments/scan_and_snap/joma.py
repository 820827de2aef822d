"""JoMA: the weights above attention determine it; with several layers, all of them move together.

Theorem 1 of JoMA along a gradient flow of both layers: exact for linear and exponential attention,
approximate for softmax. It must fail if two queries share the layer, or if tokens overlap. Theorem
2 for one linear neuron under a constant gradient; it must fail if the gradient fades. Entropy that
falls and rises again: the authors' script, on targets chosen to give the published entropies, so
no test of theory. With two and three layers, each must find the token or node that carries the
answer. Expect that the lowest layer does not move first, and that JoMA's law holds in each.
"""

from __future__ import annotations

from typing import Annotated as A
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.engines.randomness import checked_seeds
from saccade.experiments.scan_and_snap.attention_tree import AttentionTree
from saccade.experiments.scan_and_snap.joint_layer import JointLayer
from saccade.lab.experiment import Lab, experiment
from saccade.measures.fits import Array, reaching_time
from saccade.panels import DASHES, LINE, POINTS, RINGS, Line, Lines
from saccade.theories import joma as theory
from saccade.theories.condition import met
from saccade.theories.joma.statements import (
    DEEP_LAW,
    FIG_4,
    LAYER_LAW,
    LAYER_ORDER,
    RATES_LAW,
    THEOREM_1,
    THEOREM_2,
)

ONE_QUERY = "one query"
ORTHONORMAL = "orthonormal tokens"
STATIONARY = "constant gradient"
EXPONENTIAL = "exponential attention"
KEPT = "drift of the conserved quantity / change of the logits"
# Attention, queries, its rate, correlation between embeddings of tokens; what is broken on purpose.
LAYERS = {
    "linear": ("linear", 1, 1.0, 0.0, ""),
    "exp": ("exp", 1, 1.0, 0.0, ""),
    "softmax": ("softmax", 1, 1.0, 0.0, ""),
    "exp, two queries": ("exp", 2, 1.0, 0.0, ONE_QUERY),
    "exp, attention at half the rate": ("exp", 1, 0.5, 0.0, ""),
    "exp, tokens overlap": ("exp", 1, 1.0, 0.3, ORTHONORMAL),
}
# Ten uniform draws, to four digits; the targets of the authors' script are 1 + 3 u, sorted. Its
# seed is not known to us. Of evenly spaced targets and of seeds 0 to 11 of NumPy and of PyTorch
# only PyTorch's seed 0 (`torch.rand`) gives the published entropies, and it gives all of them: so
# these are taken to be its draws.
DRAWS = (0.4963, 0.7682, 0.0885, 0.1320, 0.3074, 0.6341, 0.4901, 0.8964, 0.4556, 0.6323)


class Neuron(NamedTuple):
    weight: Any
    attention: Any


class OneNeuron(saccade.System):
    """A linear neuron on exponential attention whose output is pushed up: for ever, or less and
    less as it succeeds.
    """

    solver = JointLayer.solver
    seeds = None

    def __init__(self, drives: Array, fades: bool) -> None:
        self.drives, self.fades = drives, fades

    def start(self, rng: np.random.Generator) -> Neuron:
        return Neuron(np.zeros(len(self.drives)), np.zeros(len(self.drives)))

    def loss(self, parameters: Neuron) -> Any:
        output = jnp.sum(self.drives * jnp.exp(parameters.attention) * parameters.weight)
        return 2 * jax.nn.softplus(-output) if self.fades else -output  # of the same slope at 0


@experiment(
    "joma",
    dynamics="B: population gradient flow",
    time_unit="steps of gradient descent at rate 1",
)
def joma(
    lab: Lab,
    t1: A[float, "end of the flow of one layer"] = 30.0,
    drives: A[tuple[float, ...], "constant gradients on tokens"] = (0.2, 0.35, 0.5, 0.65, 0.8),
    seed: A[int, "seed of contexts and weights of one layer"] = 0,
    depths: A[tuple[int, ...], "layers of attention in a deep model, at most 3"] = (2, 3),
    seeds: A[int | tuple[int, ...], "starts of a deep model: a number, or a list"] = 4,
    scale: A[float, "size of the random start of a deep model"] = 0.5,
    deep_t1: A[float, "end of the flows of deep models"] = 1e4,
) -> str:
    """Do the weights above attention determine where it moves?"""
    starts = checked_seeds(seeds)
    pushes = np.sort(drives)
    trees = {depth: tree(depth, scale) for depth in depths}
    work = lab.each([*LAYERS, "one neuron", *trees, "laws"])

    # Theorem 1: attention and the layer above it.
    main = []
    laws = [Line([-2, 3], [-2, 3], "equal", tone=None)]
    for tone, (name, (kind, queries, rate, overlap, broken)) in enumerate(LAYERS.items()):
        next(work)
        rng = np.random.default_rng(seed)
        counts, target, query = contexts(queries, rng)
        rotation = np.linalg.qr(rng.standard_normal((9, 9)))[0]
        embedding = rotation + overlap * rotation[:1]  # all share the first one's direction
        layer = JointLayer(kind, counts, target, query, embedding, lr_attention=rate)
        run = saccade.flow(layer, t1=t1, seed=seed)
        logits = run.logits.values[:, 0]
        weights = run.weights.values
        given = (met(ONE_QUERY, queries == 1), met(ORTHONORMAL, overlap == 0))
        case = lab.case(*given, attention=name)
        squares = rate * np.sum(weights[-1] ** 2 - weights[0] ** 2, axis=0)
        if kind == "softmax":
            mean = run.mean_attention.values[0]
            ends = [theory.softmax_logits(weights[i], mean) for i in (-1, 0)]
            told = np.subtract(*ends)
            title = "correlation of logits with those predicted from the weights above"
            # 0.9 was set before the first run, from a replication with 0.95 to 0.99 on other data.
            correlation = np.corrcoef(logits[-1], told)[0, 1]
            main.append(case.at_least(THEOREM_1, title, correlation, 0.9))
        else:
            told = np.sqrt(np.maximum(1 + squares, 0)) if kind == "linear" else squares / 2
            kept = drift(logits, theory.invariant(kind, logits, weights, rate_ratio=rate))
            law = THEOREM_1 if rate == 1 else RATES_LAW
            claim = (case.breaking(broken) if broken else case).at_most(law, KEPT, kept, 1e-6)
            main += [] if broken else [claim]
        lab.keep("logits", logits[-1], "token", "attention logits at the end", case=name)
        lab.keep("from_weights", told, "token", "the same by Theorem 1", case=name)
        laws.append(Line(told, logits[-1], name, RINGS if broken else POINTS, tone))

    # Theorem 2: one neuron under a constant gradient, and under one that fades.
    next(work)
    end = theory.blow_up_time(pushes[-1])
    grown = []
    title = "time until the leading weight reaches 3 / predicted time"
    for gradient, fades in {"constant": False, "fading": True}.items():
        run = saccade.flow(
            OneNeuron(pushes, fades),
            t1=0.999 * end,
            n_times=1000,
        )
        t = run.time.values
        weight = run.parameter_weight.values
        reached = reaching_time(t, weight[:, -1], 3.0) / theory.reach_time(3.0, pushes[-1])
        case = lab.case(met(STATIONARY, not fades), gradient=gradient)
        if fades:  # a gradient that fades never takes it there
            reached = np.nan_to_num(reached, nan=np.inf)
            case = case.breaking(STATIONARY)
        else:
            erf = theory.linear_weight(t, pushes)
            to_erf = "weights along the flow against the erf law, largest gap"
            case.at_most(THEOREM_2, to_erf, np.abs(weight - erf)[t / end < 0.99], 1e-5)
            for i, tone in enumerate(np.linspace(0, 1, len(pushes)).tolist()):
                grown.append(Line(t[::10] / end, erf[::10, i], "", LINE, tone))
                grown.append(Line(t[::40] / end, weight[::40, i], "", POINTS, tone))
        case.near(THEOREM_2, title, reached, 1, within=1e-3)

    # Fig. 4: the authors' script, 5000 steps of 0.02.
    targets = np.sort(1 + 3 * np.array(DRAWS))
    v = np.full(len(targets), 0.05)
    path = []
    for _ in range(5000):
        path.append(v)
        v = v + 0.02 * (targets - v) * softmax(v**2 / 3)
    entropy = saccade.measures.entropy(np.array([softmax(at**2 / 3) for at in path]))
    lab.keep("entropy", entropy, "step", "entropy of attention in the authors' script", "nats")
    lab.number("entropy once settled", saccade.measures.entropy(softmax(targets**2 / 3)))
    case = lab.case(script="the authors'")
    step = int(entropy.argmin())
    low = entropy[step]
    last = entropy[-1]
    published = case.published
    published.near(FIG_4, "entropy of attention at its minimum, nats", low, 0.942, within=1e-3)
    published.near(FIG_4, "entropy of attention at the end, nats", last, 1.550, within=1e-3)
    published.near(FIG_4, "step of the minimum", step, 669, within=1)

    # Two and three layers: which turns first, and which freezes last.
    deep = []
    ratio = []
    late = []
    over = []
    for depth, model in trees.items():
        next(work)
        run = saccade.flow(model, t1=deep_t1, seeds=starts)
        t = run.time.values
        lines = []
        halves, shares = np.empty((2, depth, len(starts)))
        for level, start in np.ndindex(depth, len(starts)):
            attention = run[f"attention_{level + 1}"].values[start]
            flat = attention.reshape(len(t), -1)
            gone = np.abs(flat - flat[0]).sum(axis=-1)
            halves[level, start] = reaching_time(t, gone, gone[-1] / 2)
            moved = np.abs(np.diff(flat, axis=0)).sum(axis=-1)
            shares[level, start] = moved[t[1:] > t[-1] / 10].sum() / moved.sum()
            curve = saccade.measures.entropy(attention).reshape(len(t), -1).mean(axis=-1)
            label = "" if start else f"layer {level + 1}"
            lines.append(Line(t[1:], curve[1:] / curve[0], label, DASHES if start else LINE, level))
        ratio += (halves[:1] / halves[1:]).ravel().tolist()
        late += shares[0].tolist()
        over += (shares[:1] / shares[1:]).ravel().tolist()
        title = f"model of {depth} layers"
        y = "entropy of attention / at the start"
        deep.append(Lines(title, "time", y, lines, "x", ylim=(0, 1.05)))
    case = lab.case()
    first = np.array(ratio) < 1
    case.none(LAYER_ORDER, "the lowest layer turns before each one above", ~first)
    title = "share of its movement that the lowest layer makes in the last tenfold of time"
    case.at_most(LAYER_ORDER, title, late, 0.1)
    title = "time at which the lowest layer turns over that of one above"
    case.after_trial_runs.between(LAYER_ORDER, title, ratio, 2 / 3, 1.5)
    title = "the lowest layer freezes last: its late share of movement / that of layers above"
    case.after_trial_runs.at_least(LAYER_ORDER, title, over, 1, strict=True)

    # JoMA's law in three layers: layer 1 attends to tokens, so it holds token by token.
    next(work)
    flows = {
        kind: saccade.flow(tree(3, scale, kind=kind), t1=min(deep_t1, 100.0), seed=0)
        for kind in ("exp", "softmax")
    }
    for kind, run in flows.items():
        logits = run.parameter_attention_0.values
        weights = run.parameter_neurons_0.values
        case = lab.case(
            met(EXPONENTIAL, kind == "exp"),
            attention=kind,
            layer=1,
        )
        case = case if kind == "exp" else case.breaking(EXPONENTIAL)
        invariant = theory.invariant("exp", logits, weights)
        case.at_most(DEEP_LAW, f"{KEPT}, three layers", drift(logits, invariant), 1e-6)
    sums = []
    for place in range(3):
        logits = flows["exp"][f"parameter_attention_{place}"].values
        neurons = flows["exp"][f"parameter_neurons_{place}"].values
        invariant = theory.layer_invariant(logits, neurons)
        sums.append(drift(logits.sum(axis=-1), invariant))
    next(work, None)  # all is done
    title = "drift of Σ logits - ½ Σ weights² / change of Σ logits"
    lab.case(layers="1 to 3").at_most(LAYER_LAW, title, sums, 1e-6)

    steps = np.arange(1, len(entropy) + 1, 5)
    curve = [Line(steps, entropy[::5], "", LINE, 0)]
    x = "predicted by Theorem 1"
    y = "attention logits at the end"
    lab.draw(
        Lines("logits from the layer above", x, y, laws),
        Lines("constant gradient: the strongest wins", "t / time of blow-up", "weight", grown),
        Lines(
            "sparse, then dense",
            "step",
            "entropy of attention (nats)",
            curve,
            "x",
            ylim=(0, None),
            levels={0.942: "published minimum"},
        ),
        caption="Panel 1: attention logits after training against those predicted from the weights "
        "above them. Points lie on the line where the law holds; in the rings an assumption is "
        "broken. Panel 2: weights under a constant gradient (points) and the erf law (lines), "
        "darkest for the largest drive. Panel 3: entropy in the authors' script.",
    )
    lab.draw(
        *deep,
        caption="Last row: entropy of attention in each layer of a deep model, relative to its "
        "start. Solid: one random start; dashed: the others. The layers fall at about the same "
        "time, and the lowest moves for longest.",
    )
    return (
        f"{lab.yes_or_no()}: in one layer with one query, softmax logits correlate "
        f"{correlation:.2f} with those predicted from the weights above. In deeper models the "
        f"lowest layer turned before a layer above it in {first.sum()} of {len(first)} pairs."
    )


def contexts(
    n_queries: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.int_], NDArray[np.int_]]:
    """Shares of nine tokens in 30 contexts of 40 tokens, classes and queries: three common tokens,
    two distinct ones a class.
    """
    prob = np.hstack([np.ones((3, 3)), np.kron(np.eye(3), [0.5, 1.5])])
    target = np.arange(30) % 3
    query = np.arange(30) % n_queries
    shown = np.array([rng.multinomial(40, prob[n] / prob[n].sum()) for n in target]) / 40
    return shown, target, query


def tree(depth: int, scale: float, kind: str = "softmax") -> AttentionTree:
    """Two common tokens, and two distinct ones for each state, one of them rare."""
    shown = np.array([[0.3, 0.3, 0.1, 0.3, 0.0, 0.0], [0.3, 0.3, 0.0, 0.0, 0.1, 0.3]])
    return AttentionTree(depth, shown, scale=scale, kind=kind)


def drift(logits: Array, kept: Array) -> float:
    """Largest change of what should be conserved, over that of the logits."""
    return float(np.abs(kept - kept[0]).max() / np.abs(logits - logits[0]).max())


def softmax(values: Array) -> Array:
    weight = np.exp(values - values.max())
    return weight / weight.sum()
