"""F picks the head of a small Transformer that opens first under SGD, and when; not under Adam.

Trains one-layer models of three heads on tasks made here: the label is the token at position 1,
that at position 3, or drawn at random. `saccade.watching.attention_drive` measures F during training; once F
has settled, order, time and direction of opening are forecast and compared with the run. Under Adam
it never settles in time, and the last F before a head begins to open is taken. Baselines at the
same moment: the largest gradient norm, and chance. The bound of "settled" was fixed on other tasks;
thresholds of shares and factors come from a program written independently in NumPy.
"""

from __future__ import annotations

from typing import Annotated as A
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

import saccade
from saccade.lab.ceiling import NoCeiling
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures.fits import Array, interval, reaching_time
from saccade.panels import DASHES, POINTS, Bars, Line, Lines
from saccade.theories.condition import met
from saccade.theories.rank_collapse.statements import FIRST_HEAD

N_TOKENS = 6
LENGTH = 5
N_HEADS = 3
D_HEAD = 4
N_SEQUENCES = 240
WIDTH = N_TOKENS + LENGTH
EVERY = {"SGD": 20, "Adam": 1}  # updates; under Adam a head opens within twenty
LEVEL = 0.2  # norm of W_Q at which a head counts as open
NOT_YET = 0.1  # norm below which it counts as closed: a forecast is made while all heads are
STARTS = {"large values": 0.5, "small values": 0.05}  # standard deviation of values and output
RATES = {"SGD": 0.5, "Adam": 2e-3}
SETTLED = "F has settled"
PLAIN = "plain gradient descent"
ABOUT = {
    "first": "head that opens first",
    "forecast_first": "head forecast to open first",
    "gradient_first": "head with the largest gradient of W_Q at the moment of the forecast",
    "start_first": "head forecast from step 0",
    "forecast_at": "update at which F had settled; NaN: never, and the last F is taken",
    "forecast_wait": "forecast wait of the head that opens first, updates",
    "wait": "its wait, updates",
    "query_cosine": "|cos| of the top left vector of its W_Q at opening, and u1 of the forecast",
}


@experiment(
    "first-head",
    dynamics="A: full-batch training of small Transformers, SGD and Adam",
    time_unit="updates",
    caveat="These are one-layer models on one family of tasks, full batch: larger models, several "
    "layers or mini-batches may differ.",
)
def first_head(
    lab: Lab,
    tasks: A[int, "tasks, each trained from two starts with either optimiser", Range(2, 1e4)] = 24,
    steps: A[int, "most updates", Range(40, 1e6)] = 3000,
    seed: A[int, "seed of the first task"] = 100,
) -> str:
    """Can one predict which head of a Transformer opens first, and when?"""
    for optimiser in lab.each(RATES):
        for start in lab.each(STARTS):
            found = trained(optimiser, STARTS[start], [seed + i for i in range(tasks)], steps)
            for name, values in found.items():
                lab.keep(
                    name,
                    values,
                    "task",
                    ABOUT[name],
                    optimiser=optimiser,
                    start=start,
                )
    record = lab.kept()
    sgd = record.sel(optimiser="SGD")
    adam = record.sel(optimiser="Adam")
    not_on_text = lab.case(met(SETTLED, True), met(PLAIN, True)).under(NoCeiling("not on text"))

    main = []
    shares = []
    factors = []
    for start in STARTS:
        runs = sgd.sel(start=start).dropna("task")
        case = not_on_text.but(start=start)
        late = ~np.isfinite(sgd.forecast_at.sel(start=start))
        case.none(
            FIRST_HEAD, "runs in which F settles before a head opens", late, allowed=tasks // 8
        )
        shares.append(right(runs, "forecast_first"))
        main.append(
            case.at_least(
                FIRST_HEAD,
                "share of runs whose first head is predicted (chance 1/3)",
                shares[-1],
                0.8,
            )
        )
        ratio = runs.forecast_wait / runs.wait
        factors.append(float(ratio.median()))
        main.append(
            case.between(FIRST_HEAD, "forecast wait over the wait, median", factors[-1], 0.7, 1.4)
        )
        cosine = runs.query_cosine.median()
        case.at_least(
            FIRST_HEAD, "|cos| of the queries' direction and u₁, median", float(cosine), 0.98
        )
        early = case.but([met(PLAIN, True)]).breaking(met(SETTLED, False))
        early.at_least(
            FIRST_HEAD,
            "share of runs whose first head is predicted at step 0",
            right(runs, "start_first"),
            0.8,
        )
        runs = adam.sel(start=start).dropna("task", subset=["first"])
        other = case.but([], optimiser="Adam").breaking(met(PLAIN, False))
        other.at_least(
            FIRST_HEAD,
            "share of runs whose first head is predicted (chance 1/3)",
            right(runs, "forecast_first"),
            0.8,
        )
    runs = sgd.stack(run=("start", "task")).dropna("run")
    hits = [
        (runs[name] == runs["first"]).values.astype(float)
        for name in ("forecast_first", "gradient_first")
    ]
    gain = interval(hits[0] - hits[1])
    not_on_text.but([]).at_least(
        FIRST_HEAD, "share predicted, more than by gradient norm", gain, 0.0, strict=True
    )

    waits = [
        Line(sgd.forecast_wait.sel(start=start), sgd.wait.sel(start=start), start, POINTS, tone)
        for tone, start in enumerate(STARTS)
    ]
    ends = [float(sgd.wait.min()), float(sgd.wait.max())]
    waits += [Line(ends, ends, "equal", DASHES, None)]
    ways = {
        "F": "forecast_first",
        "gradient norm": "gradient_first",
        "F at step 0": "start_first",
    }
    cells = [(optimiser, start) for optimiser in RATES for start in STARTS]
    groups = {
        way: [right(record.sel(optimiser=one, start=start), name) for one, start in cells]
        for way, name in ways.items()
    }
    x = "forecast wait (updates)"
    y = "wait (updates)"
    labels = [", ".join(cell) for cell in cells]
    chance = {1 / N_HEADS: "chance"}
    lab.draw(
        Lines("when the first head opens, SGD", x, y, waits, log="xy"),
        Bars(
            "which head opens first",
            "",
            "share of runs whose first head is predicted",
            labels,
            groups,
            ylim=(0, 1),
            levels=chance,
        ),
        caption="Panel 1: forecast and measured wait of the head that opens first, small "
        "Transformers under SGD, each forecast made when F has settled. Panel 2: how often the "
        "first head was predicted, by F, by the largest gradient norm at the same moment and by F "
        "at step 0. Under Adam a head opens before F has settled; the last F before that is drawn.",
    )
    return (
        f"{lab.yes_or_no(*main)}: under SGD, F predicts the first head in {shares[0]:.0%} of runs "
        f"with large values, {shares[1]:.0%} with small. In these small Transformers on synthetic "
        f"tasks, its advantage over the gradient norm is between {gain.low:+.0%} and "
        f"{gain.high:+.0%} of runs. Forecast waits are {factors[0]:.2f} and {factors[1]:.2f} of "
        "the true ones (medians)."
    )


def right(runs: Any, name: str) -> float:
    return float((runs[name] == runs["first"]).mean())


def small(rng: np.random.Generator, n_out: int, n_in: int, size: float) -> nn.Linear:
    layer = nn.Linear(n_in, n_out, bias=False)
    layer.weight = nn.Parameter(torch.tensor(size * rng.standard_normal((n_out, n_in))))
    return layer


class Reader(nn.Module):
    """One layer of attention that answers at the last token: tokens and places are one-hot, the
    output is the answer.
    """

    n_heads = N_HEADS

    def __init__(self, rng: np.random.Generator, values: float) -> None:
        super().__init__()
        inner = N_HEADS * D_HEAD
        self.wq = small(rng, inner, WIDTH, 1e-3)
        self.wk = small(rng, inner, WIDTH, 1e-3)
        self.wv = small(rng, inner, WIDTH, values)
        self.wo = small(rng, N_TOKENS, inner, values)

    def forward(self, x: Tensor) -> Tensor:
        parts = (self.wq(x[:, -1]), self.wk(x), self.wv(x))
        q, k, v = (part.unflatten(-1, (N_HEADS, D_HEAD)) for part in parts)
        attention = torch.softmax(torch.einsum("bhd,bthd->bht", q, k) / D_HEAD**0.5, dim=-1)
        return self.wo(torch.einsum("bht,bthd->bhd", attention, v).flatten(1))


def task(rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Inputs (sequence, position, width) and labels."""
    tokens = rng.integers(0, N_TOKENS, (N_SEQUENCES, LENGTH))
    kind = rng.random(N_SEQUENCES)
    noise = rng.integers(0, N_TOKENS, N_SEQUENCES)
    label = np.where(kind < 0.55, tokens[:, 1], np.where(kind < 0.8, tokens[:, 3], noise))
    places = np.broadcast_to(np.eye(LENGTH), (N_SEQUENCES, LENGTH, LENGTH))
    inputs = np.concatenate([np.eye(N_TOKENS)[tokens], places], axis=-1)
    return torch.tensor(inputs), torch.tensor(label)


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def trained(optimiser: str, values: float, seeds: list[int], steps: int) -> dict[str, Array]:
    """All tasks with one optimiser from one kind of start, in one stack of models."""
    rngs = [np.random.default_rng(seed) for seed in seeds]
    lr = RATES[optimiser]
    batches = [task(rng) for rng in rngs]
    models = [Reader(rng, values) for rng in rngs]
    state, _ = stack_module_state(models)
    inputs, labels = (torch.stack(parts) for parts in zip(*batches, strict=True))
    descent = getattr(torch.optim, optimiser)(list(state.values()), lr=lr)
    total = vmap(
        lambda one, x, y: nn.functional.cross_entropy(functional_call(models[0], one, (x,)), y)
    )
    runs = [Run(model, batch, lr) for model, batch in zip(models, batches, strict=True)]
    for step in range(steps + 1):
        if step % EVERY[optimiser] == 0:
            for i, run in enumerate(runs):
                run.observe(step, {name: part[i] for name, part in state.items()})
            if all(run.opening is not None for run in runs):
                break
        descent.zero_grad()
        total(state, inputs, labels).sum().backward()
        descent.step()
    found = [run.found() for run in runs]
    return {name: np.array([each[name] for each in found]) for name in ABOUT}


class Run:
    """One task: a forecast once F has settled, or the last one before a head begins to open; then
    waits for heads to open.
    """

    def __init__(self, model: Reader, batch: tuple[Tensor, Tensor], lr: float) -> None:
        self.model, self.batch, self.lr = model, batch, lr
        self.forecast: Any = None  # update, F, head with the largest gradient
        self.settled, self.at_start = False, -1
        self.norms: list[tuple[int, Array]] = []
        self.opening: Array | None = None

    def observe(self, step: int, state: dict[str, Tensor]) -> None:
        if self.opening is not None:
            return
        query = state["wq.weight"].detach().numpy().reshape(N_HEADS, D_HEAD, WIDTH)
        norms = np.linalg.norm(query, axis=(1, 2))
        self.norms.append((step, norms))
        if norms.max() >= LEVEL:
            self.opening = np.linalg.svd(query[norms.argmax()])[2][0]
        elif not self.settled and norms.max() < NOT_YET:
            self.model.load_state_dict(state)
            drive = saccade.watching.attention_drive(self.model, loss, self.batch)
            if self.forecast is None:
                self.at_start = drive.first()[1]
            else:
                at, before, _ = self.forecast
                self.settled = drive.settled(before, step - at, self.lr)
            slope = torch.autograd.grad(loss(self.model, self.batch), self.model.wq.weight)[0]
            self.forecast = step, drive, int(slope.reshape(N_HEADS, -1).norm(dim=1).argmax())

    def found(self) -> dict[str, float]:
        """The numbers of `ABOUT`; all missing if no head has opened."""
        if self.opening is None:
            return dict.fromkeys(ABOUT, np.nan)
        steps, norms = (np.array(part) for part in zip(*self.norms, strict=True))
        head, (at, drive, steepest) = int(norms[-1].argmax()), self.forecast
        return {
            "first": head,
            "forecast_first": drive.first(self.lr, LEVEL)[1],
            "gradient_first": steepest,
            "start_first": self.at_start,
            "forecast_at": at if self.settled else np.nan,
            "forecast_wait": drive.wait(self.lr, LEVEL)[0, head],
            "wait": reaching_time(steps[-2:], norms[-2:, head], LEVEL) - at,
            "query_cosine": abs(float(self.opening @ drive.query_to[0, head])),
        }
