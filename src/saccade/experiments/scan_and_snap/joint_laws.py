"""JoMA: the MLP weights above determine attention; it goes to the strongest token first, and later
spreads out again.

Theorem 1 of JoMA along a gradient flow of both layers: exact for linear and exponential attention,
approximate for softmax. One linear neuron under a constant gradient: the erf law, and when all
attention is on one token. With a nonlinearity, in the paper's heuristic form: which component
settles first, and by how much (Theorem 4; its constant is ours). Entropy that falls and rises
again: the authors' script, on targets that were chosen to give the published entropies (`DRAWS`),
so no test of theory. Expect exact laws to solver accuracy, and each to fail once an assumption is
broken: two queries share the layer, tokens overlap, the gradient fades.
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
from saccade.lab.claim import CALCULUS, PUBLISHED, REPLICATION, SIMULATION, Case, Claim
from saccade.lab.panel import LINE, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, cell_rows
from saccade.model.joint_layer import JointLayer
from saccade.observe.fits import Array, reaching_time
from saccade.theory import joma
from saccade.theory.condition import met
from saccade.theory.joma.statements import (
    APPROACH_DELAY,
    FIG_4,
    RATES_LAW,
    THEOREM_1,
    THEOREM_2,
    THEOREM_4,
)

# The law, queries, rate of attention, correlation between embeddings of tokens; what is broken on
# purpose.
ONE_QUERY, ORTHONORMAL = "one query", "orthonormal tokens"
CASES = {
    "linear": ("linear", 1, 1.0, 0.0, ""),
    "exp": ("exp", 1, 1.0, 0.0, ""),
    "softmax": ("softmax", 1, 1.0, 0.0, ""),
    "exp, two queries": ("exp", 2, 1.0, 0.0, ONE_QUERY),
    "exp, attention at half the rate": ("exp", 1, 0.5, 0.0, ""),
    "exp, tokens overlap": ("exp", 1, 1.0, 0.3, ORTHONORMAL),
}
STATIONARY = "constant gradient"
# Ten uniform draws, to four digits; the targets of the authors' script are 1 + 3 u, sorted. Its
# seed is not known to us. Of evenly spaced targets and of seeds 0 to 11 of NumPy and of PyTorch
# only PyTorch's seed 0 (`torch.rand`) gives the published entropies, and it gives all of them: so
# these are taken to be its draws.
DRAWS = (0.4963, 0.7682, 0.0885, 0.1320, 0.3074, 0.6341, 0.4901, 0.8964, 0.4556, 0.6323)
_SELECTED = "the ten targets are those, of 25 candidates, that give the published entropies"
PUBLISHED_ENTROPY = {"at its minimum": 0.942, "at the end": 1.550}
PUBLISHED_STEP = 669
REPLICATED_LIMIT = 1.622  # nats, of an independent run; the paper does not give it
REPLICATED_RATIOS = (
    (1.5, 1.0, 8.0, 1.80),
    (2.0, 1.0, 5.0, 4.15),
)  # targets, time, ratio of logarithms of distances
VARIABLES = {
    "logits": Variable("case token", "1", "attention logits at the end of the flow, first query"),
    "from_weights": Variable("case token", "1", "the same by Theorem 1, from the weights above"),
    "drift": Variable(
        "case",
        "1",
        "largest change of what Theorem 1 conserves over that of the logits; not for softmax",
    ),
    "weight": Variable(
        "time_before token_driven", "1", "weight of each token under a constant gradient"
    ),
    "predicted_weight": Variable("time_before token_driven", "1", "the same by the erf law"),
    "before": Variable("time_before", "1", "time over the predicted time of blow-up"),
    "reached": Variable(
        "gradient",
        "1",
        "when the leading weight reaches 3, over the predicted time; missing if it does not",
    ),
    "log_distance": Variable("time_late target", "1", "ln(1/δ) of each component"),
    "predicted_log": Variable("time_late target", "1", "the same by theory, with its delay"),
    "late": Variable("time_late", "1", "time"),
    "entropy": Variable("step", "nats", "entropy of attention in the authors' script"),
    "settled": Variable(
        "component",
        "steps",
        "when a component has gone 9/10 of its way, smallest target first; missing if never",
    ),
    "final_entropy": Variable("", "nats", "entropy of attention once every component has settled"),
}


@dataclass(frozen=True)
class Settings:
    t1: float = 30.0
    """end of the flow of both layers"""
    drives: tuple[float, ...] = (0.2, 0.35, 0.5, 0.65, 0.8)
    """constant gradients on tokens, largest last"""
    targets: tuple[float, ...] = (1.0, 1.5, 2.0)
    """where components settle"""
    seed: int = 0
    """seed of contexts and weights"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    found = []
    for done, case in enumerate(CASES.values(), 1):
        found.append(_followed(*case[:4], settings))
        on_progress(0.7 * done / len(CASES))
    values: dict[str, Any] = {name: np.array([one[name] for one in found]) for name in found[0]}
    values |= _constant_gradient(settings) | _approach(settings) | _script(settings)
    coords = {
        "case": list(CASES),
        "gradient": ["constant", "fading"],
        "target": list(settings.targets),
    }
    return Measured(values, coords)


def _contexts(n_queries: int, rng: np.random.Generator) -> tuple[Array, Any, Any]:
    """Shares of nine tokens in 30 contexts of 40 tokens, classes and queries: three common tokens,
    two distinct ones a class.
    """
    prob = np.zeros((3, 9))
    prob[:, :3] = 1.0
    for n in range(3):
        prob[n, 3 + 2 * n : 5 + 2 * n] = 0.5, 1.5
    target, query = np.arange(30) % 3, np.arange(30) % n_queries
    shown = np.array([rng.multinomial(40, prob[n] / prob[n].sum()) for n in target]) / 40
    return shown, target, query


def _followed(
    kind: str, n_queries: int, rate: float, overlap: float, settings: Settings
) -> dict[str, Any]:
    rng = np.random.default_rng(settings.seed)
    counts, target, query = _contexts(n_queries, rng)
    rotation = np.linalg.qr(rng.standard_normal((9, 9)))[0]
    embedding = (
        rotation + overlap * rotation[:1]
    )  # every token gets a share of the first one's direction
    layer = JointLayer(kind, counts, target, query, embedding, lr_attention=rate)
    run = saccade.flow(layer, t1=settings.t1, seed=settings.seed)
    logits, weights = run.logits.values[:, 0], run.weights.values
    if kind == "softmax":
        ends = (joma.softmax_logits(weights[i], run.mean_attention.values[0]) for i in (-1, 0))
        return {"logits": logits[-1], "from_weights": np.subtract(*ends), "drift": np.nan}
    kept = joma.invariant(kind, logits, weights, rate_ratio=rate)
    squares = rate * np.sum(weights[-1] ** 2 - weights[0] ** 2, axis=0)
    from_weights = np.sqrt(np.maximum(1 + squares, 0)) if kind == "linear" else squares / 2
    drift = np.abs(kept - kept[0]).max() / np.abs(logits - logits[0]).max()
    return {"logits": logits[-1], "from_weights": from_weights, "drift": drift}


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


class Component(NamedTuple):
    log_distance: Any


class Settling(saccade.System):
    """The paper's nonlinear form as it is: v' = (mu - v) e^{v²/2}, in ln(1/delta), which does not
    underflow.
    """

    solver = JointLayer.solver
    seeds = None

    def __init__(self, targets: Array) -> None:
        self.targets = targets

    def start(self, rng: np.random.Generator) -> Component:
        return Component(np.zeros(len(self.targets)))

    def loss(self, parameters: Component) -> Any:
        return jnp.sum((self.targets * jnp.exp(-parameters.log_distance)) ** 2) / 2

    def velocity(self, parameters: Component) -> Component:
        return Component(jnp.exp((self.targets * -jnp.expm1(-parameters.log_distance)) ** 2 / 2))


def _constant_gradient(settings: Settings) -> dict[str, Any]:
    drives = np.sort(settings.drives)
    end, reached = joma.blow_up_time(drives[-1]), []
    runs = [
        saccade.flow(OneNeuron(drives, fades), t1=0.999 * end, n_times=1000)
        for fades in (False, True)
    ]
    for run in runs:
        time = reaching_time(run.time.values, run.parameter_weight.values[:, -1], 3.0)
        reached.append(time / joma.reach_time(3.0, drives[-1]))
    times, weight = runs[0].time.values, runs[0].parameter_weight.values
    return {
        "before": times / end,
        "weight": weight,
        "predicted_weight": joma.linear_weight(times, drives),
        "reached": reached,
    }


def _approach(settings: Settings) -> dict[str, Any]:
    targets = np.array(settings.targets)
    run = saccade.flow(Settling(targets), t1=1e4, n_times=400)
    times = run.time.values
    predicted = np.stack([joma.approach_log(times, target) for target in targets], axis=-1)
    return {
        "late": times,
        "log_distance": run.parameter_log_distance.values,
        "predicted_log": predicted,
    }


def _script(settings: Settings) -> dict[str, Any]:
    """The authors' script: 5000 steps of .02, attention softmax(v²/3) as the pace of each
    component.
    """
    targets = np.sort(1 + 3 * np.array(DRAWS))
    v, path, attention = np.full(len(targets), 0.05), [], []
    for _ in range(5000):
        pace = _softmax(v**2 / 3)
        path.append(v)
        attention.append(pace)
        v = v + 0.02 * (targets - v) * pace
    gone = np.array(path) >= 0.9 * targets
    settled = np.where(gone.any(axis=0), gone.argmax(axis=0), np.nan)
    final = saccade.measures.entropy(_softmax(targets**2 / 3))
    return {
        "entropy": saccade.measures.entropy(np.array(attention)),
        "settled": settled,
        "final_entropy": float(final),
    }


def _softmax(values: Array) -> Array:
    weight = np.exp(values - values.max())
    return weight / weight.sum()


def claims(record: xr.Dataset) -> Iterator[Claim]:
    title = "drift of the conserved quantity / change of the logits"
    for name, (kind, queries, rate, overlap, broken) in CASES.items():
        at = record.sel(case=name)
        given = [met(ONE_QUERY, queries == 1), met(ORTHONORMAL, overlap == 0)]
        case = Case({"attention": name}, given)
        if kind == "softmax":
            correlation = np.corrcoef(at.logits, at.from_weights)[0, 1]
            yield case.at_least(  # .9 was set before the first run, from a replication with .95 to .99 on other data
                THEOREM_1,
                "correlation of logits with those predicted from the weights above",
                correlation,
                0.9,
                sentence="The weights of the layer above predict where attention has moved.",
            )
        else:
            law = THEOREM_1 if rate == 1 else RATES_LAW
            yield (case.breaking(broken) if broken else case).at_most(law, title, at.drift, 1e-6)
    yield from _blow_up(record)
    yield from _settling(record)
    yield from _sparse_then_dense(record)


def _blow_up(record: xr.Dataset) -> Iterator[Claim]:
    case = Case({"gradient": "constant"}, [met(STATIONARY, True)], CALCULUS)
    gap = np.abs(record.weight - record.predicted_weight).values[record.before.values < 0.99]
    yield case.at_most(
        THEOREM_2, "weights along the flow against the erf law, largest gap", gap, 1e-5
    )
    yield case.in_order(
        THEOREM_2, "tokens with a larger drive are ahead at the end", record.weight[-1]
    )
    title = "time until the leading weight reaches 3 / predicted time"
    yield case.near(THEOREM_2, title, record.reached[0], 1, within=1e-3)
    broken = Case({"gradient": "fading"}, [met(STATIONARY, False)], CALCULUS).breaking(STATIONARY)
    yield broken.near(
        THEOREM_2, title, record.reached[1].fillna(np.inf), 1, within=1e-3
    )  # a gradient that fades never takes it there


def _settling(record: xr.Dataset) -> Iterator[Claim]:
    times, targets = record.late.values, record.target.values
    last, weak = record.log_distance.values[-1], int(np.argmin(targets))
    growth = np.exp(targets**2 / 2)
    gap = np.abs(last / last[weak] / (growth / growth[weak]) - 1)
    yield Case({"t": float(times[-1])}, against=CALCULUS).at_most(
        THEOREM_4, "ratio of ln(1/δ) against its limit, relative", gap, 0.01
    )
    near = int(np.argmin(np.abs(times - 20)))
    off = np.abs(record.log_distance.values[near] / record.predicted_log.values[near] - 1)
    yield Case({"t": 20}, against=CALCULUS).at_most(
        APPROACH_DELAY, "ln(1/δ) against the limit with its delay, relative", off, 1e-3
    )
    for strong, other, time, replicated in REPLICATED_RATIOS:
        if {strong, other} <= set(targets.tolist()):
            pair = [
                np.interp(time, times, record.log_distance.sel(target=target))
                for target in (strong, other)
            ]
            case = Case({"targets": f"{strong:g} and {other:g}", "t": time}, against=REPLICATION)
            yield case.near(
                THEOREM_4, "ratio of ln(1/δ)", pair[0] / pair[1], replicated, within=0.01
            )


def _sparse_then_dense(record: xr.Dataset) -> Iterator[Claim]:
    case, entropy = Case({"script": "the authors'"}, against=PUBLISHED), record.entropy.values
    found = {"at its minimum": entropy.min(), "at the end": entropy[-1]}
    for when, published in PUBLISHED_ENTROPY.items():
        sentence = f"Entropy of attention {when}: {found[when]:.3f} nats, {published:.3f} published; {_SELECTED}."
        title = f"entropy of attention {when}, nats"
        yield case.near(FIG_4, title, found[when], published, within=1e-3, sentence=sentence)
    step = float(entropy.argmin())
    sentence = f"Entropy of attention is lowest at step {step:.0f}, {PUBLISHED_STEP} published; {_SELECTED}."
    yield case.near(FIG_4, "step of the minimum", step, PUBLISHED_STEP, within=1, sentence=sentence)
    title = "entropy once all components have settled, nats"
    yield case.but(against=REPLICATION).near(
        FIG_4, title, record.final_entropy, REPLICATED_LIMIT, within=1e-3
    )
    known = record.settled.values[np.isfinite(record.settled.values)]
    yield case.but(against=SIMULATION).in_order(
        FIG_4, "the larger its target, the earlier a component settles", known[::-1]
    )


def panels(record: xr.Dataset) -> Layout:
    laws = [Line([-2, 3], [-2, 3], "equal", tone=None)]
    for tone, (name, case) in enumerate(CASES.items()):
        at = record.sel(case=name)
        laws.append(Line(at.from_weights, at.logits, name, RINGS if case[4] else POINTS, tone))
    few, shades = (
        record.isel(time_before=slice(None, None, 10)),
        np.linspace(0, 1, record.sizes["token_driven"]),
    )
    grown = [
        Line(few.before, few.predicted_weight[:, i], "", LINE, float(shade))
        for i, shade in enumerate(shades)
    ]
    grown += [
        Line(few.before[::4], few.weight[::4, i], "", POINTS, float(shade))
        for i, shade in enumerate(shades)
    ]
    targets, weak = record.target.values, int(np.argmin(record.target.values))
    late = np.flatnonzero(record.late.values >= 1)[::3]
    settling = []
    for tone, i in enumerate(np.flatnonzero(np.arange(len(targets)) != weak)):
        ratio, said = (
            values.values[late][:, i] / values.values[late][:, weak]
            for values in (record.log_distance, record.predicted_log)
        )
        limit = float(np.exp((targets[i] ** 2 - targets[weak] ** 2) / 2))
        name = f"μ = {targets[i]:g} over {targets[weak]:g}"
        settling.append(Line(record.late[late], ratio / limit, name, POINTS, tone))
        settling.append(Line(record.late[late], said / limit, "", LINE, tone))
    steps = np.arange(1, record.sizes["step"] + 1, 5)
    curve = [Line(steps, record.entropy[::5], "", LINE, 0)]
    published = {
        PUBLISHED_ENTROPY["at its minimum"]: "published minimum",
        REPLICATED_LIMIT: "limit",
    }
    return [
        [
            Lines(
                "logits from the layer above",
                "predicted by Theorem 1",
                "attention logits at the end",
                laws,
            ),
            Lines("constant gradient: the strongest wins", "t / time of blow-up", "weight", grown),
        ],
        [
            Lines(
                "who settles first",
                "t",
                "ratio of ln(1/δ) over its limit",
                settling,
                "x",
                ylim=(0.5, 1.1),
                levels={1: "limit"},
            ),
            Lines(
                "sparse, then dense",
                "step",
                "entropy of attention (nats)",
                curve,
                "x",
                ylim=(0, None),
                levels=published,
            ),
        ],
    ]


EXPERIMENT = Experiment(
    "joint-laws",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: attention logits after training against those predicted from the weights above them; points lie on the line "
        "where the law holds, rings are controls with an assumption broken. Panel 2: weights under a constant gradient (points) "
        "and the erf law (lines), darkest for the largest drive. Panel 3: how much closer strong components are to their targets "
        "than the weakest, relative to the limit of Theorem 4; the lines include the delay that we derive. Panel 4: entropy in the "
        "authors' script."
    ),
    finding=(
        "Theorem 1's conserved quantity drifts by {*conserved*linear):.0e} (linear) and {*conserved*exp):.0e} (exp); softmax "
        "logits correlate {correlation*:.2f} with the prediction; entropy falls to {*minimum, nats*:.3f} at step {step*:.0f} and "
        "ends at {*the end, nats*:.3f}"
    ),
    table=cell_rows,
    variables=VARIABLES,
    dynamics="B: population gradient flow",
    time_unit="steps of gradient descent at rate 1",
)
