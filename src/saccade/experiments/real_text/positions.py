"""Gains of tokens correlate about 0.6 with those without positions if positions are learned or
rotary; for ALiBi and sinusoids the result is inconclusive.

An ordinary one-layer Transformer learns text with each encoding. Do the same tokens gain attention
as without positions, and do distinct tokens outgrow common ones (Theorem 2, outside its
assumptions)? Then the theory of positional priors: ALiBi is such a prior, a bias on distance added
to scores, so a token counts e^b at each place, and the first force of such counts must give the
order of gains; plain counts must not (the control). Asked of the theorem's own model without noise,
and of the Transformer. Expect agreement with learned and rotary positions, and the prior's order in
the theorem's model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from saccade import laboratory
from saccade.data.text.windows import Windows
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import checked_count
from saccade.experiments.real_text import token_fates as fates
from saccade.experiments.real_text import token_groups, token_runs
from saccade.experiments.real_text.every_run import CORRELATION, cut, same_answer
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.experiments.real_text.token_runs import Array, Text
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import Case, Claim
from saccade.lab.panel import POINTS, RINGS, Layout, Line, Lines, over_seeds, with_intervals
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.model.pairwise_text import PairwiseText
from saccade.model.positions import distance_bias
from saccade.observe.fits import Interval, simultaneous
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import Condition, met
from saccade.theory.questions import POSITIONS_ON_TEXT
from saccade.theory.scan_and_snap.statements import POSITIONAL_FATES, POSITIONAL_LEMMA_4, THEOREM_2B

MATCHED = (
    0.5**0.5 / 0.02
)  # times embeddings that start with a spread of .02: as large as sinusoids in root mean square
ENCODINGS: dict[str, dict[str, Any]] = {
    kind: {"positions": kind} for kind in ("none", "sinusoidal", "learned", "rotary", "alibi")
}
ENCODINGS["matched sinusoidal"] = {"positions": "sinusoidal", "embedding_scale": MATCHED}
SAID = {
    "sinusoidal": "sinusoidal, larger than tokens",
    "matched sinusoidal": "sinusoidal, as large as tokens",
}
ALIKE = 0.2  # rank correlation with the gains without positions; two seeds agree at .1 (sinusoidal) to .6 (learned, rotary)
LR_DECODER, LR_ATTENTION = (
    10.0,
    1.0,
)  # of the theorem's own model: those of `first-force-text`, and its bound
EARLY_STEPS, EARLY_BAR = 10, 0.85
SAMPLES = (0, 1)
N_LOOKS = 12  # after the start, for the curves: a look costs as much as an update
ADDED, COUNTED = "scores of token and place add", "the prior is counted"
VARIABLES = {
    "prior_gain": Variable(
        "sample query token",
        "1",
        "attention logits of the theorem's own model after ten steps without noise, slope 1/4 a token",
    ),
    "prior_force": Variable("sample query token", "1", "first force of counts with the same prior"),
    "force": Variable("sample query token", "1", "first force of plain counts"),
    "alibi_force": Variable(
        "query token", "1", "what ALiBi adds to the first force, mean over heads and samples"
    ),
    "gain": Variable(
        "positions seed query token",
        "1",
        "change of the score of each token for each query over all places, from start to end, mean over heads",
    ),
    "valid_loss": Variable(
        "positions seed time", "nats", "cross-entropy of the next token on validation text"
    ),
    **token_groups.VARIABLES,
    **{
        name: Variable("positions seed time", *about)
        for name, about in token_runs.CURVE_DEFINITIONS.items()
    },
}


# Plain sinusoids are far larger than embeddings at the start, so they are tried again with
# embeddings of equal size (`matched sinusoidal`). Whether attention freezes is not asked: at a
# constant rate of Adam the noise of batches keeps it moving. Bounds: .2, set when two seeds of a
# trial had agreed at .3 and half of the ranks was out of reach; .85 at ten steps, that of `first-
# force-text`; and more than 0.
@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are the quick ones."""

    text: str = "wikitext-2"
    """corpus: a name or a path"""
    n_vocab: int = 500
    """vocabulary size; rarer words become one token"""
    queries: int = 8
    """most frequent query tokens"""
    window: int = 16
    """tokens before the query"""
    n_next: int = 4
    """next tokens per query that count as separate classes"""
    steps: int = 200
    """updates"""
    batch: int = 128
    """windows per step, with a prediction for every token"""
    lr: float = 3e-3
    """rate of Adam"""
    seeds: int | tuple[int, ...] = 4
    """number of seeds (0, 1, 2, ...), or a list of seeds"""
    heads: int = 4
    """attention heads; a single one would have ALiBi's flattest slope, 1/256 per token"""
    n_windows: int = 40_000
    """windows of each of the two samples of the theorem's own model"""

    def looked_at(self) -> Text:
        return Text(self.text, self.n_vocab, self.queries, self.window, self.n_next)


def measure(settings: Settings, on_progress: Progress) -> Measured:
    axes: dict[str, Any] = {"positions": list(ENCODINGS), "seed": checked_seeds(settings.seeds)}
    found = token_runs.followed_runs(_followed, settings, axes, on_progress)
    rates = {"lr_decoder": settings.lr, "lr_attention": settings.lr}
    assumptions = {"assumptions": token_runs.validator(settings.looked_at(), **rates)}
    return Measured(
        {**found.values, **_with_priors(settings)},
        {**found.coords, "sample": list(SAMPLES)},
        assumptions,
    )


def _with_priors(settings: Settings) -> dict[str, Array]:
    """The theorem's own model under a prior, and the first force with each slope of ALiBi; nearest
    place first.
    """
    biases = [
        distance_bias(settings.heads, 1, settings.window + 1)[head, 0, :-1].tolist()[::-1]
        for head in range(settings.heads)
    ]
    forces = [[_force(settings, sample, bias) for bias in (None, *biases)] for sample in SAMPLES]
    plain, by_head = np.array([one[0] for one in forces]), np.array([one[1:] for one in forces])
    return {
        "prior_gain": np.array([_prior_gain(settings, sample, biases[0]) for sample in SAMPLES]),
        "prior_force": by_head[:, 0],
        "force": plain,
        "alibi_force": (by_head - plain[:, None]).mean(axis=(0, 1)),
    }


def _windows(
    settings: Settings, sample: int, prior: list[float] | None
) -> tuple[Windows, list[int]]:
    text = settings.looked_at()
    windows = text.corpus().windows(
        text.window, n_windows=settings.n_windows, sample=sample, prior=prior
    )
    return windows, token_groups.frequent_queries(text.corpus(), text.n_queries)


def _force(settings: Settings, sample: int, prior: list[float] | None) -> Array:
    windows, queries = _windows(settings, sample, prior)
    return theory.first_force(windows.counts, windows.query, windows.next_token).force[queries]


def _prior_gain(settings: Settings, sample: int, prior: list[float]) -> Array:
    windows, queries = _windows(settings, sample, prior)
    model = PairwiseText(windows, queries=queries, lr_decoder=LR_DECODER, lr_attention=LR_ATTENTION)
    record = laboratory.train(
        model, steps=EARLY_STEPS, save=[EARLY_STEPS], keep=("attention_logits",)
    )
    return np.asarray(record["attention_logits"].transpose("time", "query", "token").values[-1])


def _followed(settings: Settings, kind: str, seed: int) -> dict[str, Array]:
    text = settings.looked_at()
    looks = np.unique(
        np.geomspace(1, checked_count("steps", settings.steps), N_LOOKS).round().astype(int)
    ).tolist()
    training: dict[str, Any] = {
        "steps": settings.steps,
        "batch": settings.batch,
        "optimiser": "adam",
        "lr": settings.lr,
        "seed": seed,
    }
    training |= {"every": [0, *looks], "watch": False}
    changes = ENCODINGS[kind] | {"n_heads": settings.heads}
    record = token_runs.scored_run(text, "ordinary", training, changes=changes)
    return {
        "time": record["time"].values,
        "gain": token_runs.gains(record)[-1],
        "valid_loss": record["valid_loss"].values,
        **token_runs.group_curves(record, text.groups()),
    }


def outgrown(record: xr.Dataset) -> xr.DataArray:
    """Log change of attention on distinct tokens less that on common ones, since the start
    (positions, seed, time).
    """
    over: xr.DataArray = xr.apply_ufunc(np.log, record["mass_distinct"] / record["mass_common"])
    return over - over.isel(time=0)


def alike(record: xr.Dataset, kind: str) -> tuple[Array, float]:
    """Rank correlation of the gains with those without positions, seed by seed of other numbers,
    and its ceiling.

    Every seed is compared with all other seeds of the model without positions: the same seed shares
    its start.
    """
    groups = TokenGroups.of_record(record)
    own, plain = (
        record["gain"].sel(positions=name).transpose("seed", "query", "token").values
        for name in (kind, "none")
    )
    if len(own) == 1:  # no other seed to compare with
        return np.full(1, np.nan), np.nan
    by_seed = [
        np.mean([fates.same_gains(one, other, groups) for j, other in enumerate(plain) if j != i])
        for i, one in enumerate(own)
    ]
    return np.array(by_seed), min(fates.gain_agreement(gain, groups) for gain in (own, plain))


def alibi_changes(record: xr.Dataset) -> tuple[Array, float]:
    """Rank correlation of what ALiBi changes in the gains of each seed with what it adds to the
    first force, and its ceiling.
    """
    groups = TokenGroups.of_record(record)
    with_bias, without = (
        record["gain"].sel(positions=kind).transpose("seed", "query", "token").values
        for kind in ("alibi", "none")
    )
    told, changes = record["alibi_force"].transpose("query", "token").values, with_bias - without
    return np.array(
        [fates.same_gains(change, told, groups) for change in changes]
    ), fates.gain_agreement(changes, groups)


def intervals_of(record: xr.Dataset) -> dict[tuple[str, str], Interval]:
    """Over seeds, simultaneous: of `alike` for each encoding, of what distinct tokens outgrow at
    the end, of `alibi_changes`.
    """
    kinds, grown = [str(kind) for kind in record.positions.values], outgrown(record).isel(time=-1)
    found = simultaneous(
        {("alike", kind): alike(record, kind)[0] for kind in kinds if kind != "none"}
        | {("grown", kind): grown.sel(positions=kind) for kind in kinds}
        | {("changed", "alibi"): alibi_changes(record)[0]}
    )
    return {
        name: each if name[0] == "grown" else cut(each, CORRELATION) for name, each in found.items()
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    kinds, intervals = [str(kind) for kind in record.positions.values], intervals_of(record)
    grown, changed_ceiling = outgrown(record).isel(time=-1), alibi_changes(record)[1]
    for kind in kinds:
        case = Case({"positions": SAID.get(kind, kind)})
        if kind != "none":
            yield case.under(
                Ceiling("two seeds", alike(record, kind)[1], "seeds averaged")
            ).at_least(
                POSITIONS_ON_TEXT,
                "rank correlation of gains with those without positions, 100 tokens per query",
                intervals["alike", kind],
                ALIKE,
                sentence="With this encoding gains of tokens correlate with those without positions.",
            )
        yield (
            case.but(given=_given(record, kind))
            .under(same_answer(grown.sel(positions=kind).values > 0))
            .at_least(
                POSITIONAL_FATES if kind == "alibi" else THEOREM_2B,
                "log change of attention: distinct tokens - common tokens",
                intervals["grown", kind],
                0,
                strict=True,
                sentence="Attention on distinct tokens outgrows that on common ones.",
            )
        )
    yield from _prior_claims(record)
    ordinary = Case({"positions": "alibi"}, _given(record, "alibi"))
    yield ordinary.under(Ceiling("two seeds", changed_ceiling, "seeds averaged")).at_least(
        POSITIONAL_LEMMA_4,
        "rank correlation of what ALiBi changes with what it adds to the first force",
        intervals["changed", "alibi"],
        0,
        strict=True,
        sentence="A bias on distance moves the attention of a Transformer where the theory of priors says.",
    )


def _given(record: xr.Dataset, kind: str) -> list[Condition]:
    """What the theorem assumes, positions included; ALiBi is a prior as its extension has it."""
    place = met(ADDED, True) if kind == "alibi" else met("no positions", kind == "none")
    return [*token_runs.assumptions(record), place, met("plain descent", False)]


def _prior_claims(record: xr.Dataset) -> Iterator[Claim]:
    """The theorem's own model with a prior: the first force of counts with it, and, as a control,
    of counts without.
    """
    groups = TokenGroups.of_record(record)
    run, told, plain = (
        record[name].transpose("sample", "query", "token").values
        for name in ("prior_gain", "prior_force", "force")
    )
    ceiling = Ceiling("two samples", fates.gain_agreement(run, groups), limits=False)
    case = Case({"model": "the theorem's own", "steps": EARLY_STEPS}, [met(ADDED, True)]).under(
        ceiling
    )
    title = "rank correlation of gains under a prior with the first force, worst sample"
    scores = [
        [fates.same_gains(one, other, groups) for one, other in zip(run, force, strict=True)]
        for force in (told, plain)
    ]
    said = "Counts with a prior in them tell where attention moves first under that prior."
    yield case.at_least(POSITIONAL_LEMMA_4, title, scores[0], EARLY_BAR, sentence=said)
    ignored = case.but(prior="left out", given=[met(ADDED, True), met(COUNTED, False)]).breaking(
        COUNTED
    )
    yield ignored.at_least(POSITIONAL_LEMMA_4, title, scores[1], EARLY_BAR)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    grown = outgrown(record).isel(time=-1)
    for kind in map(str, record.positions.values):
        by_seed, ceiling = alike(record, kind)
        rows.append(
            {"positions": kind, "gains as without positions": by_seed.mean(), "ceiling": ceiling}
            | {"distinct less common": float(grown.sel(positions=kind).mean())}
            | {
                "validation loss": float(
                    record["valid_loss"].sel(positions=kind).isel(time=-1).mean()
                )
            }
        )
    return rows


def panels(record: xr.Dataset) -> Layout:
    kinds = [str(kind) for kind in record.positions.values if kind != "none"]
    places, intervals = np.arange(len(kinds), dtype=float), intervals_of(record)
    lines = [
        *with_intervals(
            places,
            [intervals["alike", kind] for kind in kinds],
            "with those without positions",
            tone=0,
        ),
        Line(places, [alike(record, kind)[1] for kind in kinds], "ceiling: two seeds", RINGS, None),
    ]
    ticks = {float(place): kind for place, kind in enumerate(kinds)}
    grown = outgrown(record).isel(time=slice(1, None))
    curves = [
        over_seeds(grown.sel(positions=kind), str(kind), tone=i)
        for i, kind in enumerate(record["positions"].values)
    ]
    alikeness, level = "rank correlation of gains", {ALIKE: "", 0.0: ""}
    return [
        [
            Lines(
                "which tokens gain",
                "",
                alikeness,
                lines,
                ylim=(-1, 1.05),
                ticks=ticks,
                levels=level,
            ),
            Lines(
                "distinct tokens against common",
                "updates",
                "log change, distinct less common",
                curves,
                "x",
                levels={0: ""},
            ),
        ],
        [_cloud(record), _prior_cloud(record)],
    ]


def _prior_cloud(record: xr.Dataset) -> Lines:
    """Ranks of gains under a prior in the theorem's own model against those of the first force,
    tokens of the first query.
    """
    known = TokenGroups.of_record(record).known[0]
    run, told, plain = (
        rankdata(record[name].values[0, 0][known])
        for name in ("prior_gain", "prior_force", "force")
    )
    points = [
        Line(plain, run, "counts without the prior", RINGS, 1),
        Line(told, run, "counts with the prior", POINTS, 0),
    ]
    return Lines(
        "the theorem's own model under a prior",
        "rank by the first force",
        "rank by gain after ten steps",
        points,
    )


def _cloud(record: xr.Dataset) -> Lines:
    """Gains of the known tokens of all queries with learned positions against those without, means
    over seeds.
    """
    groups = TokenGroups.of_record(record)
    mean = record["gain"].mean("seed").transpose("positions", "query", "token")
    plain, learned = (mean.sel(positions=kind).values[groups.known] for kind in ("none", "learned"))
    return Lines(
        "gains of tokens",
        "without positions",
        "with learned positions",
        [Line(plain, learned, "", POINTS, 0)],
    )


EXPERIMENT = Experiment(
    "positions",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: rank correlation of what tokens gain with each encoding with what they gain without positions, over the 100 most "
        "frequent tokens of each query, with simultaneous 95 % intervals over seeds; rings: agreement of two seeds. Panel 2: log "
        "change of attention on distinct tokens less that on common ones, mean and range over seeds; above the line is the "
        "theorem's side. Panel 3: gains of all known tokens with learned positions and without, means over seeds. Panel 4: "
        "the theorem's own model under a prior, after ten steps without noise: ranks of the tokens of the most frequent query by "
        "gain and by the first force, with the prior in the counts and without."
    ),
    question="Do positions change which tokens gain attention?",
    finding=(
        "gains of tokens correlate {*gains with*learned*:.2f} with those without positions if positions are learned "
        "({*gains with*learned*:verdict}), {*gains with*rotary*:.2f} if rotary ({*gains with*rotary*:verdict}), "
        "{*gains with*alibi*:.2f} with ALiBi ({*gains with*alibi*:verdict}) and {*gains with*larger than*:.2f} with sinusoids "
        f"({{*gains with*larger than*:verdict}}); {ALIKE:g} was asked. "
        "In the theorem's own model the first force of counts with ALiBi's bias in them tells the gains under that bias at a "
        "correlation of {*under a prior*:.2f} ({*under a prior*:verdict}); for the Transformer it is {*ALiBi changes*:.2f} "
        "({*ALiBi changes*:verdict})"
    ),
    caveat="More layers: later ones can attend to positions that earlier ones have copied.",
    variables=VARIABLES,
    dynamics="training on text",
    time_unit="updates",
    full=Settings(n_vocab=2000, queries=32, window=32, steps=10000, seeds=5, n_windows=30_000),
    table=table,
)
