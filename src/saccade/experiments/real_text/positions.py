"""With learned or rotary positions a Transformer attends to much the same tokens as without; for others it cannot be told.

An ordinary one-layer Transformer learns text with each encoding; plain sinusoids are far larger than embeddings at the start, so
they are tried again with embeddings of equal size (`matched sinusoidal`). Two questions: do the same tokens gain attention as
without positions (rank correlation of gains; its ceiling is the agreement of two seeds), and do distinct tokens outgrow common ones
(Theorem 2, whose assumptions neither text nor Adam nor positions meet)? Whether attention freezes is not asked: at a constant rate
of Adam the noise of batches keeps it moving. Intervals are simultaneous over all claims.
Bounds: .2, set when two seeds of a trial had agreed at .3 and half of the ranks was out of reach; and more than 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from saccade.dynamics.randomness import checked_seeds
from saccade.experiments.real_text import token_fates as fates
from saccade.experiments.real_text import token_groups, token_runs
from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.experiments.real_text.token_runs import Array, Text
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable
from saccade.lab.panel import POINTS, RINGS, Layout, Line, Lines, over_seeds, with_intervals
from saccade.observe.fits import Interval, simultaneous
from saccade.theory.condition import met
from saccade.theory.questions import POSITIONS_ON_TEXT
from saccade.theory.scan_and_snap.statements import THEOREM_2B

MATCHED = 0.5**0.5 / 0.02  # times embeddings that start with a spread of .02: as large as sinusoids in root mean square
ENCODINGS: dict[str, dict[str, Any]] = {kind: {"positions": kind} for kind in ("none", "sinusoidal", "learned", "rotary", "alibi")}
ENCODINGS["matched sinusoidal"] = {"positions": "sinusoidal", "embedding_scale": MATCHED}
SAID = {"sinusoidal": "sinusoidal, larger than tokens", "matched sinusoidal": "sinusoidal, as large as tokens"}
ALIKE = 0.2  # rank correlation with the gains without positions; two seeds agree at .1 (sinusoidal) to .6 (learned, rotary)
VARIABLES = {
    "gain": Variable(
        "positions seed query token",
        "1",
        "change of the score of each token for each query over all places, from start to end, mean over heads",
    ),
    "valid_loss": Variable("positions seed time", "nats", "cross-entropy of the next token on validation text"),
    **token_groups.VARIABLES,
    **{name: Variable("positions seed time", *about) for name, about in token_runs.CURVE_DEFINITIONS.items()},
}


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

    def looked_at(self) -> Text:
        return Text(self.text, self.n_vocab, self.queries, self.window, self.n_next)


def measure(settings: Settings, on_progress: Progress) -> Measured:
    axes: dict[str, Any] = {"positions": list(ENCODINGS), "seed": checked_seeds(settings.seeds)}
    found = token_runs.followed_runs(_followed, settings, axes, on_progress)
    rates = {"lr_decoder": settings.lr, "lr_attention": settings.lr}
    return Measured(found.values, found.coords, {"assumptions": token_runs.validator(settings.looked_at(), **rates)})


def _followed(settings: Settings, kind: str, seed: int) -> dict[str, Array]:
    text = settings.looked_at()
    training = {"steps": settings.steps, "batch": settings.batch, "optimiser": "adam", "lr": settings.lr, "seed": seed}
    changes = ENCODINGS[kind] | {"n_heads": settings.heads}
    record = token_runs.scored_run(text, "ordinary", training | {"watch": False}, changes=changes)
    return {
        "time": record["time"].values,
        "gain": token_runs.gains(record)[-1],
        "valid_loss": record["valid_loss"].values,
        **token_runs.group_curves(record, text.groups()),
    }


def outgrown(record: xr.Dataset) -> xr.DataArray:
    """Log change of attention on distinct tokens less that on common ones, since the start (positions, seed, time)."""
    over: xr.DataArray = xr.apply_ufunc(np.log, record["mass_distinct"] / record["mass_common"])
    return over - over.isel(time=0)


def alike(record: xr.Dataset, kind: str) -> tuple[Array, float]:
    """Rank correlation of the gains with those without positions, seed by seed of other numbers, and its ceiling.

    Every seed is compared with all other seeds of the model without positions: the same seed shares its start.
    """
    groups = TokenGroups.of_record(record)
    own, plain = (record["gain"].sel(positions=name).transpose("seed", "query", "token").values for name in (kind, "none"))
    if len(own) == 1:  # no other seed to compare with
        return np.full(1, np.nan), np.nan
    by_seed = [
        np.mean([fates.same_gains(one, other, groups) for j, other in enumerate(plain) if j != i]) for i, one in enumerate(own)
    ]
    return np.array(by_seed), min(fates.gain_agreement(gain, groups) for gain in (own, plain))


def claims(record: xr.Dataset) -> Iterator[Claim]:
    kinds = [str(kind) for kind in record.positions.values]
    with_positions = [kind for kind in kinds if kind != "none"]
    given = [*token_runs.assumptions(record), met("no positions", False), met("plain descent", False)]
    grown = outgrown(record).isel(time=-1).transpose("positions", "seed")
    gains = {kind: alike(record, kind) for kind in with_positions}
    intervals = simultaneous(
        {("alike", kind): gains[kind][0] for kind in with_positions}
        | {("grown", kind): grown.sel(positions=kind) for kind in kinds}
    )
    for kind in kinds:
        case = Case({"positions": SAID.get(kind, kind)})
        if kind in gains:
            yield case.under(Ceiling("two seeds", gains[kind][1], "seeds averaged")).at_least(
                POSITIONS_ON_TEXT,
                "rank correlation of gains with those without positions, 100 tokens per query",
                intervals["alike", kind],
                ALIKE,
                sentence="With this encoding much the same tokens gain attention as without positions.",
            )
        yield case.but(given=given).at_least(
            THEOREM_2B,
            "log change of attention: distinct tokens - common tokens",
            intervals["grown", kind],
            0,
            strict=True,
            sentence="Attention on distinct tokens outgrows that on common ones.",
        )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    grown = outgrown(record).isel(time=-1)
    for kind in map(str, record.positions.values):
        by_seed, ceiling = alike(record, kind)
        rows.append(
            {"positions": kind, "gains as without positions": by_seed.mean(), "ceiling": ceiling}
            | {"distinct less common": float(grown.sel(positions=kind).mean())}
            | {"validation loss": float(record["valid_loss"].sel(positions=kind).isel(time=-1).mean())}
        )
    return rows


def panels(record: xr.Dataset) -> Layout:
    kinds = [str(kind) for kind in record.positions.values if kind != "none"]
    found = {kind: alike(record, kind) for kind in kinds}
    places = np.arange(len(kinds), dtype=float)
    values: list[Interval] = list(simultaneous({kind: found[kind][0] for kind in kinds}).values())
    lines = [
        *with_intervals(places, values, "with those without positions", tone=0),
        Line(places, [found[kind][1] for kind in kinds], "ceiling: two seeds", RINGS, None),
    ]
    ticks = {float(place): kind for place, kind in enumerate(kinds)}
    grown = outgrown(record).isel(time=slice(1, None))
    curves = [over_seeds(grown.sel(positions=kind), str(kind), tone=i) for i, kind in enumerate(record["positions"].values)]
    return [
        Lines(
            "which tokens gain", "", "rank correlation of gains", lines, ylim=(-0.2, 1), ticks=ticks, levels={ALIKE: "", 0.0: ""}
        ),
        Lines("distinct tokens against common", "updates", "log change, distinct less common", curves, "x", levels={0: ""}),
        _cloud(record),
    ]


def _cloud(record: xr.Dataset) -> Lines:
    """Gains of the known tokens of all queries with learned positions against those without, means over seeds."""
    groups = TokenGroups.of_record(record)
    mean = record["gain"].mean("seed").transpose("positions", "query", "token")
    plain, learned = (mean.sel(positions=kind).values[groups.known] for kind in ("none", "learned"))
    return Lines("gains of tokens", "without positions", "with learned positions", [Line(plain, learned, "", POINTS, 0)])


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
        "theorem's side. Panel 3: gains of all known tokens with learned positions and without, means over seeds."
    ),
    question="Do positions change which tokens gain attention?",
    finding=(
        "not much with learned or rotary positions: token gains correlate {*gains with*learned*:.2f} and {*gains with*rotary*:.2f} "
        "with those without positions. The correlation is {*gains with*alibi*:.2f} for ALiBi, {*gains with*larger than*:.2f} for "
        "sinusoids and {*gains with*as large as*:.2f} for sinusoids no larger than embeddings, but there seeds vary too much to "
        "decide. The log ratio of attention on distinct and common tokens changes by {log change*positions none*:.2f} without "
        "positions, {log change*learned*:.2f} with learned and {log change*rotary*:.2f} with rotary ones"
    ),
    caveat="More layers: later ones can attend to positions that earlier ones have copied.",
    variables=VARIABLES,
    dynamics="training on text",
    time_unit="updates",
    full=Settings(n_vocab=2000, queries=32, window=32, steps=10000, seeds=5),
    table=table,
)
