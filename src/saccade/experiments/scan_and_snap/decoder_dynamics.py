"""The decoder logits of a class grow along one ray, exactly as in Lemma 5 and within 2 η_Y/M of
Lemma 6's continuous curve.

Descent along the modified gradient on the features of Syn-Small, classes in random order: the
height h* of each class, whether another class disturbs it, and how far it runs ahead of the
continuous h. Then plain descent with equal overlaps, for Remark 1. Expect h* and its ray to
rounding, 0 ≤ h* - h ≤ 2 η_Y/M, and Remark 1 to fail for K < M and, as printed, for K = M.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr

import saccade
from saccade.errors import checked_count, checked_list, checked_number
from saccade.experiments.scan_and_snap.decoder_descent import descend, in_turn, tied_features
from saccade.lab.claim import FAILS, Case, Claim
from saccade.lab.panel import POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, cell_rows
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import at_least, met
from saccade.theory.scan_and_snap.statements import LEMMA_3, LEMMA_5, LEMMA_7, REMARK_1

_SHOWN = {50: (0.1, 2.0, 80), 1000: (0.2, 4.0, 70)}  # Fig. 8: lowest and highest rate, draws
VARIABLES = {
    "height": Variable(
        "n_vocab lr_decoder draw",
        "1",
        "h*: own logit of the class over M - 1, measured after each of its draws",
    ),
    "continuous_height": Variable("n_vocab lr_decoder draw", "1", "h of Lemma 6, predicted"),
    "ray_error": Variable(
        "n_vocab lr_decoder",
        "1",
        "largest gap between the logits of any class and (M - 1) h* zeta_n",
    ),
    "disturbance": Variable(
        "n_vocab lr_decoder",
        "1",
        "largest change of a class's logits in a step that drew another class",
    ),
    "plain_logit": Variable(
        "case",
        "1",
        "logit of a class for its own next token under plain descent, mean over classes",
    ),
}


@dataclass(frozen=True)
class Settings:
    """Settings; the defaults cover Fig. 8."""

    n_vocab: tuple[int, ...] = (50, 1000)
    """vocabulary sizes"""
    lr_decoder: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
    """decoder rates, per step"""
    draws: int = 200
    """times each class is drawn"""
    remark_vocab: int = 200
    """vocabulary of the plain descent with few classes"""
    remark_classes: int = 4
    """classes of that descent"""
    remark_all: int = 30
    """vocabulary of the plain descent in which every token is a class"""
    overlap: float = 0.2
    """overlap of any two features in plain descent, in (0, 1)"""
    remark_lr: float = 0.05
    """decoder rate of plain descent, per step"""
    remark_draws: int = 400
    """times each class is drawn in plain descent"""
    seed: int = 0
    """seed of the order of draws"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    n_draws = checked_count("draws", settings.draws)
    vocabularies = [
        checked_count("n_vocab", n_vocab)
        for n_vocab in checked_list("n_vocab", settings.n_vocab, low=4)
    ]
    positive = [
        checked_number("lr_decoder", rate, low=0.0, high=1e3, open_low=True)
        for rate in settings.lr_decoder
    ]
    rates = np.array(checked_list("lr_decoder", positive, low=0.0))
    checked_number("overlap", settings.overlap, low=0.0, high=0.99)
    paths = []
    for i, n_vocab in enumerate(vocabularies):
        paths.append(_modified_descent(n_vocab, rates, n_draws, settings.seed))
        on_progress((i + 1) / (len(vocabularies) + 1))
    sizes = [
        (settings.remark_vocab, settings.remark_classes),
        (settings.remark_all, settings.remark_all),
    ]
    values: dict[str, Array] = {name: np.stack([path[name] for path in paths]) for name in paths[0]}
    coords = {"n_vocab": vocabularies, "lr_decoder": rates, "draw": np.arange(n_draws + 1)}
    coords |= {
        "case_vocab": ("case", [M for M, _ in sizes]),
        "case_classes": ("case", [K for _, K in sizes]),
    }
    return Measured(
        values | {"plain_logit": np.array([_plain_logit(M, K, settings) for M, K in sizes])}, coords
    )


def _modified_descent(n_vocab: int, rates: Array, n_draws: int, seed: int) -> dict[str, Array]:
    """Height of class 0 by draw (rate, draw), and the two errors of every rate."""
    feature = theory.normalised_feature(saccade.SequenceClasses.syn_small().token_prob)
    feature = feature[:, feature.any(axis=0)]
    n_classes = len(feature)
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(n_classes), n_draws))
    discrete = np.stack(
        [
            theory.decoder_height_discrete(n_draws, n_vocab=n_vocab, lr_decoder=rate)
            for rate in rates
        ]
    )
    ray = (n_vocab - 1) * theory.class_directions(n_classes=n_classes, n_vocab=n_vocab)
    height, seen = np.zeros((len(rates), n_draws + 1)), np.zeros(n_classes, int)
    ray_error, disturbance = np.zeros(len(rates)), np.zeros(len(rates))
    path = descend(
        feature,
        np.tile(order[:, None], len(rates)),
        n_vocab=n_vocab,
        lr_decoder=rates,
        modified=True,
    )
    before = feature @ next(path)
    for n, decoder in zip(order, path, strict=True):
        logits = feature @ decoder
        seen[n] += 1
        ray_error = np.maximum(
            ray_error, np.abs(logits[:, n] - discrete[:, seen[n], None] * ray[n]).max(axis=-1)
        )
        moved = np.abs(np.delete(logits - before, n, axis=1))
        disturbance, before = np.maximum(disturbance, moved.max(axis=(1, 2))), logits
        if n == 0:
            height[:, seen[0]] = logits[:, 0, 0] / (n_vocab - 1)
    smooth = np.stack(
        [
            theory.decoder_height(np.arange(n_draws + 1), n_vocab=n_vocab, lr_decoder=rate)
            for rate in rates
        ]
    )
    return {
        "height": height,
        "continuous_height": smooth,
        "ray_error": ray_error,
        "disturbance": disturbance,
    }


def _plain_logit(n_vocab: int, n_classes: int, settings: Settings) -> float:
    feature = tied_features(settings.overlap, n_classes)
    draws = in_turn(settings.remark_draws, n_classes)
    *_, decoder = descend(
        feature, draws, n_vocab=n_vocab, lr_decoder=settings.remark_lr, modified=False
    )
    return float(np.diag(feature @ decoder[0]).mean())


def claims(record: xr.Dataset) -> Iterator[Claim]:
    n_draws = record.sizes["draw"] - 1
    yield Case().at_most(
        LEMMA_3,
        "largest change of a class's logits when another class is drawn",
        record.disturbance,
        1e-12,
    )
    ray = Case({"draws of each class": n_draws})
    yield ray.at_most(
        LEMMA_5,
        "logits after s draws against (M - 1) h*(s) ζ_n, largest gap",
        record.ray_error,
        1e-12,
    )
    yield from _lead(record, n_draws // 2)
    yield from _remark(record)


def _lead(record: xr.Dataset, half: int) -> Iterator[Claim]:
    """How far the discrete height runs ahead of the continuous one."""
    gap, bound = record.height - record.continuous_height, 2 * record.lr_decoder / record.n_vocab
    learned = (half * record.lr_decoder >= 5 * np.log(record.n_vocab)).transpose(
        "n_vocab", "lr_decoder"
    )
    left = (gap.isel(draw=2 * half) / gap.isel(draw=half)).values[learned.values]
    case = Case()
    yield case.at_most(
        LEMMA_7,
        "largest shortfall of h* below the continuous h",
        max(0.0, -float(gap.min())),
        1e-15,
    )
    for at, of in (
        (case, 1.0),
        (case.tightened(0.15, EXPERIMENT.settings_of(record) == Settings()), 0.15),
    ):
        yield at.at_most(LEMMA_7, "largest lead h* - h, in units of 2 η_Y/M", gap / bound, of)
    late = case.but(given=[met("some rate has learned its class by then", bool(learned.any()))])
    # Beside 1/s there is a logarithm: the lead is about ln(eta_Y s)/(2 M s).
    title = f"the lead decays as 1/s: at s = {2 * half} / at {half}, largest"
    yield late.near(LEMMA_7, title, left.max(initial=0.0), 0.5, within=0.1)
    yield case.at_most(
        LEMMA_7,
        "largest lead of h* over h in the first ln M/η_Y draws, in draws",
        _draws_ahead(record),
        1.0,
        sentence="Until it is nearly learnt, the decoder follows a smooth curve to within one training example.",
    )


def _draws_ahead(record: xr.Dataset) -> float:
    ahead = [
        theory.draws_to_height(
            record.height.sel(n_vocab=M).values,
            n_vocab=M,
            lr_decoder=record.lr_decoder.values[:, None],
        )
        - record.draw.values
        for M in record.n_vocab.values.tolist()
    ]
    early = record.draw * record.lr_decoder <= np.log(record.n_vocab)
    return float(np.stack(ahead)[early.transpose("n_vocab", "lr_decoder", "draw").values].max())


def _remark(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    rate, n_draws, rho = settings.remark_lr, settings.remark_draws, settings.overlap
    (few_vocab, all_vocab), n_classes = (
        record.case_vocab.values.tolist(),
        int(record.case_classes[0]),
    )
    few, everyone = (float(value) for value in record.plain_logit)

    def remark(n_vocab: int, as_printed: bool) -> float:
        path = theory.remark_1_logit(
            n_draws, overlap=rho, n_vocab=n_vocab, lr_decoder=rate, as_printed=as_printed
        )
        return float(path[-1])

    sizes = {"overlap": rho, "n_vocab": few_vocab, "n_classes": n_classes, "lr_decoder": rate}
    exact = theory.plain_backprop(n_classes * n_draws, **sizes).own_logit[0]
    # Before that both forms of Remark 1 are the same straight line, and no measurement could tell
    # them apart.
    case = Case(
        {"rate": rate, "overlap": rho},
        [at_least("η_Y s / ln M", rate * n_draws / np.log(max(few_vocab, all_vocab)), 1.0)],
    )
    all_tokens, some = case.but(K=all_vocab, M=all_vocab), case.but(K=n_classes, M=few_vocab)
    title = f"own logit under plain descent after {n_draws} draws of each class"
    sentence = (
        "Remark 1 says that with overlapping classes plain descent acts like a smaller rate; its formula is misprinted, and for "
        "fewer classes than tokens the remark is not true."
    )
    yield all_tokens.erratum(
        REMARK_1, title, everyone, number="0.3", sentence=sentence,
        printed=remark(all_vocab, True), corrected=remark(all_vocab, False), within=0.01 * everyone,
    )  # fmt: skip
    yield some.erratum(
        REMARK_1,
        title,
        few,
        number="0.3",
        sentence=sentence,
        printed=remark(few_vocab, True),
        corrected=exact,
        within=0.01 * few,
    )
    effective = "own logit under plain descent, as an effective rate (1 - ρ) η_Y"
    yield some.near(
        REMARK_1, effective, few, remark(few_vocab, False), within=0.01 * few, expected=FAILS
    )


def panels(record: xr.Dataset) -> Layout:
    return [
        _heights(record.sel(n_vocab=n_vocab), n_vocab) for n_vocab in record.n_vocab.values.tolist()
    ]


def _heights(at: xr.Dataset, n_vocab: int) -> Lines:
    low, high, last = _SHOWN.get(n_vocab, (0.0, np.inf, int(at.draw[-1])))
    rates = [rate for rate in at.lr_decoder.values.tolist() if low <= rate <= high]
    lines = []
    for i, rate in enumerate(rates):
        shade, drawn = (
            float(i / max(1, len(rates) - 1)),
            at.sel(lr_decoder=rate).isel(draw=slice(0, last + 1)),
        )
        dots = drawn.isel(draw=slice(0, None, 3))
        lines += [
            Line(drawn.draw, drawn.continuous_height, tone=shade),
            Line(dots.draw, dots.height, f"η_Y = {rate:g}", POINTS, shade),
        ]
    knee = {float(np.log(n_vocab) / n_vocab): "ln M/M"}
    return Lines(
        f"M = {n_vocab}",
        "s (draws of the class)",
        "height h* (dots), h (lines)",
        lines,
        ylim=(0, None),
        levels=knee,
    )


EXPERIMENT = Experiment(
    "decoder-dynamics",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "The height of a class's decoder logits after each of its draws. Dots: h*, measured while another class is learned in "
        "between (every third is drawn). Lines: the continuous h of Lemma 6. At every rate the dots stay on or just above their "
        "line; near ln M/M linear growth turns logarithmic. The rates and ranges are those of Fig. 8."
    ),
    finding=(
        "simulated logits match the prediction to 1e-12; in the first ln M/η_Y draws they lead the continuous flow by at most "
        "{largest lead of h* over h in*:.2f} draws"
    ),
    table=cell_rows,
    variables=VARIABLES,
    dynamics="A: batch 1, decoder only, modified and plain gradient",
    time_unit="draws of the class",
)
