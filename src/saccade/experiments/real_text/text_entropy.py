"""Fast SGD makes attention sparse on text; under Adam part of its entropy returns.

Four parts, each with several seeds; entropy of attention on validation text, mean over queries.
"rates" is Fig. 10 of [tian2023]: one rate for all parameters. After as many updates a higher rate
is also further on, so entropy is also compared where rate times updates is equal. "depths" is
Fig. 7: one and three layers at rate 5, 10 in the MLP; comments in the published code say that lower
rates "concentrate on the diagonal". "return" is Fig. 6 of [tian2024] at ten times its rate of
Adam, at which entropy comes back within 10,000 updates: salient components are learned first,
weaker ones later. "layers" trains ordinary Transformers by Adam: section 7 of [tian2023] suggests
that the first layer becomes sparse before the others and stays sparser.

The published models are at half their width and batch, but for "return". Gradients are clipped at
0.5 as in all the published scripts. The claims on equal rate times updates and on the size of the
fall came after the curves had been seen, and so did the number of updates of "return".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated as A
from typing import Any, Literal

import numpy as np
import xarray as xr

import saccade
from saccade.engines.randomness import checked_seeds
from saccade.engines.text_batches import fixed_windows
from saccade.engines.text_checkpoints import resumed_from
from saccade.engines.train_text import train_text
from saccade.errors import InputError
from saccade.experiments.real_text.every_run import every_run, same_answer
from saccade.lab.ceiling import Ceiling
from saccade.lab.experiment import Lab, experiment
from saccade.measures.fits import agreement, interval, simultaneous
from saccade.models.transformer_config import TransformerConfig
from saccade.panels import RINGS, Heat, Line, Lines, family, over_seeds
from saccade.processes import in_processes
from saccade.theories.condition import at_least, at_most
from saccade.theories.questions import DEPTH, ENTROPY_AT_EQUAL_PATH, JOMA_FIG_6
from saccade.theories.scan_and_snap.statements import FIG_7, FIG_10

CONTEXT = 35
EVEN = float(np.log(np.arange(1, CONTEXT + 1)).mean())  # a query sees itself and all before it
SPARSE = 0.5  # relative entropy: log of the root of n over log n, as if n keys were the root of n
DEEP: dict[str, Any] = {
    "d_model": 64,
    "d_mlp": 128,
    "context": 32,
}  # chosen with the rate from one run
FALLEN = 0.1  # nats: starts of different seeds differ by less
BOUNCE = 0.1  # rise over fall; one published curve at 0.03 is not called a bounce


@experiment(
    "text-entropy",
    dynamics="training on text",
    time_unit="updates",
    caveat="Comparing at equal validation loss: the sparsest attention is not the best one. Fewer "
    "updates with three layers, smaller batches or fewer words under Adam, a decaying rate.",
    full={
        "n_vocab": None,
        "seeds": 5,
        "steps": (2928, 1500, 58_000, 1024),
        "batch": 20,
        "width": 200,
        "adam_rate": 1e-4,
        "resumable": True,
    },
)
def text_entropy(
    lab: Lab,
    text: A[str, "corpus: a name or a path"] = "wikitext-2",
    parts: A[tuple[Literal["rates", "depths", "return", "layers"], ...], "which parts to run"] = (
        "rates",
        "depths",
        "return",
        "layers",
    ),
    n_vocab: A[int | None, "words kept, others become one token; None: all"] = 2000,
    rates: A[tuple[float, ...], "learning rates of SGD, rising"] = (1.0, 2.0, 3.0, 4.0, 5.0),
    adam_rate: A[float, "learning rate of Adam in the part 'return'"] = 1e-3,
    seeds: A[int | tuple[int, ...], "number of random starts, or a list of seeds"] = 3,
    steps: A[tuple[int, int, int, int], "updates of each part"] = (300, 1500, 10_000, 1024),
    batch: A[int, "streams of text per batch; 20 in the papers"] = 10,
    n_windows: A[int, "windows of validation text that attention is measured on"] = 64,
    width: A[int, "width of the models trained by SGD; 200 in the paper"] = 100,
    resumable: A[bool, "whether a stopped run resumes from its last checkpoint"] = False,
) -> str:
    """Does attention become sparse on text?"""
    if len(rates) < 2 or list(rates) != sorted(set(rates)):
        raise InputError(f"`rates` must rise and name at least two; got {rates!r}.")
    if min(steps) < 6:
        raise InputError(f"`steps` must be at least 6 for each part; got {steps!r}.")
    chosen = checked_seeds(seeds)
    n_words = saccade.corpus(text, n_vocab=n_vocab).n_vocab
    few = min(n_windows, 8)
    deep_words = min(n_words, 1000)
    model = TransformerConfig.wikitext(n_words, 1, width)
    sgd = {
        "order": "stream",
        "clip": 0.5,
        "batch": batch,
        "context": CONTEXT,
        "model": model,
    }
    adam = {
        "optimiser": "adam",
        "lr": adam_rate,
        "lr_mlp": adam_rate,
        "every": evenly(steps[2], 50),
    }
    adam |= {"model": replace(TransformerConfig.wikitext(n_words), dropout=0.2)}
    deep = {
        "optimiser": "adam",
        "lr": 3e-3,
        "batch": 8,
        "context": 32,
        "every": doubling(steps[3]),
    }
    tiny = TransformerConfig(deep_words, 1, positions="learned", **DEEP)
    plans: dict[str, Any] = {
        "rates": (
            {"lr": rates, "seed": chosen},
            sgd | {"every": evenly(steps[0], 10)},
        ),
        "depths": (
            {"n_layers": (1, 3), "seed": chosen[:2]},
            sgd
            | {
                "lr": 5.0,
                "lr_mlp": 10.0,
                "every": evenly(steps[1], 15),
            },
        ),
        "return": ({"seed": chosen}, sgd | adam),
        "layers": ({"n_layers": (2, 4, 6), "seed": chosen}, deep | {"model": tiny}),
    }
    runs = {}
    for part in lab.each(parts):
        axes, training = plans[part]
        words, windows = (deep_words, few) if part == "layers" else (n_vocab, n_windows)
        place = (text, words, windows, resumable)
        runs[part] = trained(lab.progress, place, axes, training)
        for name in ("entropy", "relative_entropy", "valid_loss"):
            kept = runs[part][name]
            lab.keep(f"{part}_{name}", kept.rename({dim: f"{part}_{dim}" for dim in kept.dims}))
    main = []
    found = []
    about: Any = {"ylim": (0, 1.1 * EVEN), "levels": {EVEN: "even attention"}}
    y = "entropy of attention (nats)"

    if "rates" in runs:
        entropy = runs["rates"].entropy.isel(layer=0, drop=True)  # lr, seed, time
        final = entropy.isel(time=-1, drop=True)
        level = at_equal_path(entropy)
        given = [
            at_least("seeds", len(chosen), 3),
            at_least("lowest rate", rates[0], 1),
            at_most("highest rate", rates[-1], 5),
        ]
        case, level_case = (
            lab.case(*given).under(
                Ceiling("order of rates in two seeds", agreement(values.values.T, same_order))
            )
            for values in (final, level)
        )
        main += [
            case.in_order(
                FIG_10, "mean entropy falls from each rate to the next", -final.mean("seed")
            )
        ]
        level_case.after_trial_runs.in_order(
            ENTROPY_AT_EQUAL_PATH,
            "mean entropy at equal rate × updates falls from each rate to the next",
            -level.mean("seed"),
        )
        gap = (final.isel(lr=0) - final.isel(lr=-1)).values
        fall = interval(gap)
        case = case.under(same_answer(gap > 0)).after_trial_runs
        main += [
            case.at_least(
                FIG_10,
                "fall of entropy from the lowest rate to the highest, nats",
                fall,
                0,
                strict=True,
            )
        ]
        rings = Line(np.repeat(rates, len(chosen)), final.values.ravel(), "seeds", RINGS, 1)
        lines = [rings, Line(rates, final.mean("seed"), "mean")]
        names = map("rate {:g}".format, rates)
        curves = family([entropy.time] * len(rates), entropy.mean("seed").values, list(names))
        lab.draw(
            Lines(f"after {steps[0]} updates", "learning rate", y, lines, **about),
            Lines("during training", "updates", y, curves, **about),
            caption="Entropy on validation text against the rate of SGD (rings: seeds), and over "
            "the updates, dark for high rates; where lines cross, the order depends on when one "
            "stops.",
        )
        found += [
            f"entropy falls by {fall.mean:.2f} nats [{fall.low:.2f}, {fall.high:.2f}] from the "
            "lowest rate of SGD to the highest"
        ]

    if "depths" in runs:
        end = runs["depths"].isel(time=-1, layer=0)
        case = lab.case(at_least("updates", steps[1], 1500))
        spread = (end.entropy / EVEN).values
        main += [
            every_run(
                case.after_trial_runs,
                FIG_7,
                "every run ends with relative entropy below 1/2",
                spread.ravel() < SPARSE,
                1,
            )
        ]
        every_run(
            case,
            FIG_7,
            "most of the attention is off the diagonal at the end of every run",
            end.self_mass.values.ravel() < 0.5,
            1,
        )
        places = [str(place) for place in range(CONTEXT)]
        maps = [
            Heat(f"SGD, {name}", "key", "query", values, places, places, (0, 1), "attention")
            for name, values in zip(
                ("1 layer", "3 layers"), end.lowest_map.isel(seed=0).values, strict=True
            )
        ]
        lab.draw(
            *maps,
            caption="Maps: the lowest layer in the first window of validation text after "
            f"{steps[1]} updates of SGD. Attention is sparse where a row has few bright keys.",
        )
        found += [f"at rate 5 layer 0 ends with {spread.mean():.0%} of even attention's entropy"]

    last = []
    if "return" in runs:
        entropy = runs["return"].entropy.isel(layer=0, drop=True)
        turns = np.array([turning(entropy.time.values, curve) for curve in entropy.values])
        falls, rebounds, when = turns.T
        case = lab.case(optimiser="Adam")
        sizes: Any = {"possible": (0.0, np.inf), "among": 2}
        every_run(case, JOMA_FIG_6, "fall of entropy, nats", falls, FALLEN, **sizes)
        long_enough = at_least("updates over those until the minimum", steps[2] / when.max(), 2)
        every_run(
            case.but([long_enough]),
            JOMA_FIG_6,
            "rise of entropy after its minimum / fall before it",
            rebounds,
            BOUNCE,
            **sizes,
        )
        last += [Lines("Adam, 1 layer", "updates", y, [over_seeds(entropy)], **about)]
        found += [f"under Adam {rebounds.mean():.0%} of the fall returns"]

    if "layers" in runs:
        spread = runs["layers"].relative_entropy  # n_layers, seed, layer, time
        times = np.where(spread < SPARSE, spread.time, np.inf).min(axis=-1)
        first = (times[:, :, 0] < times[:, :, 1:].min(axis=2)).ravel()  # absent layers: infinite
        chance = np.repeat(1 / spread.n_layers.values, len(chosen))
        others = spread.isel(time=-1)
        gaps = (others.isel(layer=0) - others.isel(layer=slice(1, None)).mean("layer")).values
        scores = simultaneous({"first": first - chance, "gap": gaps.ravel()})
        case = lab.case(depth="several layers")
        case.under(same_answer(first)).at_least(
            DEPTH,
            "share of runs in which the first layer is sparse first, above chance",
            scores["first"],
            0,
            strict=True,
        )
        case.under(same_answer(gaps.ravel() <= 0)).at_most(
            DEPTH, "final relative entropy: first layer - mean of the others", scores["gap"], 0
        )
        deepest = spread.isel(n_layers=-1, time=slice(1, None))
        layers = [over_seeds(deepest.sel(layer=i), f"layer {i}", 1 - i / 5) for i in range(6)]
        relative: Any = {"ylim": (0, 1.02), "levels": {SPARSE: "sparse"}}
        x = "updates"
        ratio = "entropy / entropy of even attention"
        last += [Lines("Adam, 6 layers", x, ratio, layers, "x", **relative)]
        found += [
            f"in {first.sum()} of {len(first)} models of several layers the first is sparse first"
        ]
    if last:
        lab.draw(
            *last,
            caption="Under Adam: entropy of one layer over the updates (does it turn upwards again?), "
            "and of each of six layers, dark for low ones. Bands: lowest and highest seed.",
        )
    rest = "".join(f" {one[0].upper()}{one[1:]}." for one in found[1:])
    return f"{lab.yes_or_no(*main)}: on {text}, {found[0]}.{rest}"


def trained(
    on_progress: Callable[[float], None],
    place: tuple[Any, ...],
    axes: Mapping[str, Sequence[Any]],
    training: Mapping[str, Any],
) -> xr.Dataset:
    """One run for every cell of the axes, in processes."""
    cells = [dict(zip(axes, cell, strict=True)) for cell in product(*axes.values())]
    jobs = []
    for cell in cells:
        settings = {
            "lr_mlp": cell.get("lr"),
            **training,
            **cell,
        }
        depth = settings.pop("n_layers", 1)
        jobs += [(*place, settings | {"model": replace(training["model"], n_layers=depth)})]
    runs = in_processes(train_one, jobs, on_progress)
    layers = range(max(run.sizes["layer"] for run in runs))
    placed = [
        run.reindex(layer=layers).expand_dims({name: [value] for name, value in cell.items()})
        for cell, run in zip(cells, runs, strict=True)
    ]
    order = [*axes, "layer", "time", ...]
    whole: Any = xr.combine_by_coords(
        placed, coords="minimal", compat="override", combine_attrs="drop"
    )
    return whole.transpose(*order)


def train_one(
    text: str, n_vocab: int | None, n_windows: int, resumable: bool, settings: dict[str, Any]
) -> xr.Dataset:
    """Missing from where a run diverged. A stopped one resumes from its last checkpoint."""
    corpus = saccade.corpus(text, n_vocab=n_vocab)
    windows = fixed_windows(corpus, n_windows, settings["context"]).ids

    def lowest_map(model: Any, step: int) -> dict[str, Any]:
        first = model.attention_of(windows[:1])[0, 0].numpy()
        return {"lowest_map": (("position", "key_position"), first)}

    run = train_text(
        corpus,
        steps=settings["every"][-1],
        probe=windows,
        measures=lowest_map,
        weights=False,
        checkpoints=resumed_from(resumable, text, n_vocab, n_windows, settings),
        **settings,
    )
    kept = ["entropy", "relative_entropy", "self_mass", "valid_loss", "lowest_map"]
    layers = range(settings["model"].n_layers)
    found = run[kept].isel(head=0, drop=True).assign_coords(layer=layers)
    return found.reindex(time=settings["every"])


def evenly(steps: int, n: int) -> list[int]:
    return np.unique(np.linspace(0, steps, n + 1).round().astype(int)).tolist()


def doubling(steps: int) -> list[int]:
    """0, and from 1 to the end by factors of about the root of two."""
    halvings = np.arange(0, 2 * np.log2(steps) + 1e-9)
    return [0, *np.unique(np.rint(steps / 2 ** (halvings / 2)).astype(int)).tolist()]


def same_order(one: np.ndarray, other: np.ndarray) -> float:
    """Kendall's rank correlation of two seeds: 1 if every two rates come in the same order."""
    first, second = np.triu_indices(len(one), 1)
    return float(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second])))


def at_equal_path(entropy: xr.DataArray) -> xr.DataArray:
    """Entropy (lr, seed) when rate times updates is what the lowest rate has at its end.

    If a higher rate only took the same path faster, this would not depend on the rate.
    """
    path = entropy.lr[0] * entropy.time[-1]
    found = [
        [np.interp(path / lr, entropy.time, curve) for curve in entropy.sel(lr=lr)]
        for lr in entropy.lr
    ]
    return entropy.isel(time=-1, drop=True).copy(data=np.array(found))


def turning(time: np.ndarray, entropy: np.ndarray) -> tuple[float, float, float]:
    """Fall of a curve to its minimum, rise after it over the fall, and the update of the minimum.

    From means of three neighbouring observations, the start as it is: the minimum of a noisy curve
    lies below what it stands for. A curve that never falls has no rebound: NaN.
    """
    smooth = np.convolve(entropy, np.ones(3) / 3, "valid")
    lowest = int(smooth.argmin())
    fall = entropy[0] - smooth[lowest]
    rise = smooth[-1] - smooth[lowest]
    return fall, rise / fall if fall > 0 else np.nan, time[1:-1][lowest]
