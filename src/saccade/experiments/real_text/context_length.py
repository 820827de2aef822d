"""Windows of text approach the limit of infinite contexts more slowly than independent draws, which
do so as 1/√T.

Takes windows of T tokens before frequent pairs (query m, next token n) from disjoint parts of the
text, and as many independent draws from P(l|m,n). Four distances to infinite contexts: of the token
shares, of attention and of the gradient of Z early in training, and of what the theorem's own model
has learned. For independent draws Lemmas 2 and 18 of [tian2023] give the power -1/2 of T. What is
learned is a mean over many windows: its noise falls as T^-1/2, the bias of a nonlinear gradient as
1/T (ours). Expect these powers for draws only: text has topics and bursts. So the data model itself
fails on text, and the lemmas that assume it are outside their assumptions; their numbers are shown
with simultaneous intervals over parts of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.corpus import Corpus, corpus
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.errors import InputError, checked_count, checked_list, checked_number
from saccade.experiments.real_text import finite_contexts as finite
from saccade.experiments.real_text.every_run import same_answer
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import FAILS, Case, Claim
from saccade.lab.panel import DASHES, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, grid
from saccade.model.pairwise import Pairwise
from saccade.model.token_blocks import TokenBlocks
from saccade.observe.fits import Interval, interval, power, simultaneous
from saccade.observe.measures import cosine
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import Condition, at_least, at_most
from saccade.theory.scan_and_snap.statements import DATA_MODEL, LEMMA_2, LEMMA_18

Array = NDArray[np.float64]
SOURCES = {"independent": "independent draws", "text": "windows of text"}
DISTANCES = {
    "shares": "shares of tokens",
    "attention": "attention early in training",
    "gradient": "gradient of Z early in training",
    "learned": "what is learned from windows",
}
_WITHIN = 0.05  # how near to the power -1/2, as in `long-contexts`
_WORTH = 0.9  # draws: tokens that are worth as many may be called independent
_CELL = "length source part class"
VARIABLES = {
    "shares": Variable(
        _CELL,
        "1",
        "distance of token shares to P(l|m,n), root mean square, over that of one independent draw",
    ),
    "attention": Variable(
        _CELL,
        "1",
        "distance of attention to that in infinite contexts, root mean square, over its length; early",
    ),
    "gradient": Variable(
        _CELL,
        "1",
        "distance of the gradient of Z to its limit, over the spread of one independent draw; early",
    ),
    "spread": Variable(
        "length class",
        "1",
        "spread of one independent draw's gradient over the gradient's length in the limit; early",
    ),
    "learned": Variable(
        _CELL,
        "1",
        "total variation between attention learned from windows and in the limit, over how far it moved",
    ),
    "direction": Variable(
        _CELL,
        "1",
        "cosine of the change of attention learned from windows with that learned in the limit",
    ),
    "exceeded": Variable(
        _CELL,
        "1",
        "share of windows in which a token's share is outside Hoeffding's bound, worst token",
    ),
    "mean_share": Variable(
        "length part class token", "1", "mean shares of tokens in the windows of text"
    ),
    "moved": Variable(
        "length class",
        "1",
        "total variation between attention at the start and after training in the limit",
    ),
    "overlap": Variable("length", "1", "cosine of P(l|m,n) of two classes, mean over pairs"),
    "class_query": Variable("class", "token", "the query of each class"),
}


# Claims were written before any distance was measured. After a first run "early" became 20 updates
# instead of 200, and the gradient's distance is divided by the spread of one draw and judged on
# text only where it is linear in the shares. Windows may cross the ends of articles.
@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are the quick ones."""

    text: str = "wikitext-2"
    """corpus: a name or a path"""
    n_vocab: int | None = None
    """words kept; all others become one token; None: keep all"""
    n_tokens: int = 1000
    """context tokens kept, the most frequent ones; others are skipped"""
    lengths: tuple[int, ...] = (32, 128, 512, 1024)
    """tokens before the query, at least two lengths"""
    queries: int = 4
    """most frequent query tokens"""
    n_next: int = 3
    """next tokens per query"""
    n_windows: int = 100
    """windows of each class in each part of the text"""
    parts: int = 5
    """disjoint parts of the text, for the intervals"""
    early: int = 20
    """updates in the limit after which attention and gradient are compared"""
    steps: int = 200
    """updates after which what was learned is compared"""
    batch: int = 8
    """windows of each class per update"""
    lr_decoder: float = 10.0
    """rate of Y"""
    lr_attention: float = 1.0
    """rate of Z"""
    failure_prob: float = 0.05
    """delta, the failure probability of Hoeffding's bound"""
    seed: int = 0
    """seed of the windows and draws"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    text = corpus(settings.text, n_vocab=settings.n_vocab)
    lengths = _checked(settings, len(text.train))
    n_queries = checked_count("queries", settings.queries)
    queries = [token for token in text.vocabulary[: n_queries + 1] if token != UNKNOWN][:n_queries]
    classes = text.classes(
        queries, window=max(lengths), n_next=settings.n_next, n_tokens=settings.n_tokens
    )
    found = grid(_Parts(settings, text, classes).at_length, on_progress, length=lengths)
    pairs = zip(classes.query, classes.next_token, strict=True)
    coords = {
        "source": list(SOURCES),
        "length": lengths,
        "class": [
            f"{classes.labels[query]} {classes.labels[following]}" for query, following in pairs
        ],
        "token": list(classes.labels),
    }
    return Measured(found | {"class_query": classes.query}, coords)


def _checked(settings: Settings, n_tokens: int) -> list[int]:
    """The lengths."""
    lengths = [
        checked_count("lengths", length)
        for length in checked_list("lengths", settings.lengths, low=1)
    ]
    if len(lengths) < 2 or sorted(set(lengths)) != lengths:
        raise InputError(
            f"`lengths` must be two or more, each longer than the last; got {settings.lengths}."
        )
    if checked_count("parts", settings.parts) * (lengths[-1] + 2) > n_tokens:
        raise InputError(
            f"the text has {n_tokens} tokens, too few for {settings.parts} parts of more than {lengths[-1]} each."
        )
    for name in ("n_windows", "early", "steps", "batch"):
        checked_count(name, getattr(settings, name))
    for name in ("lr_decoder", "lr_attention"):
        checked_number(name, getattr(settings, name), low=0.0, high=1e6)
    checked_number("failure_prob", settings.failure_prob, low=0.0, high=1.0, open_low=True)
    return lengths


class _Parts:
    """What all lengths share: classes, where their sequences end in each part, and Y and Z early in
    training in the limit.
    """

    def __init__(self, settings: Settings, text: Corpus, classes: SequenceClasses) -> None:
        self.settings, self.text, self.classes = settings, text, classes
        self.rates = (settings.lr_decoder, settings.lr_attention)
        self.rng = np.random.default_rng(settings.seed)
        self.blocks = Pairwise().blocks(classes)
        self.early = finite.in_the_limit(settings.early, classes, self.blocks, self.rates)
        self.places = [self._places(part) for part in range(settings.parts)]

    def _places(self, part: int) -> finite.Places:
        return finite.drawn_places(
            self.text,
            self.classes,
            between=finite.part_of_text(len(self.text.train), part, self.settings.parts),
            longest=max(self.settings.lengths),
            n_windows=self.settings.n_windows,
            rng=self.rng,
        )

    def at_length(self, length: int) -> dict[str, Array]:
        """All distances at one length (source, part, ...), and what belongs to the length alone."""
        law, settings = finite.law_at(self.text, self.classes, length), self.settings
        blocks = finite.with_law(self.blocks, law)
        limit = finite.limit_attention(
            finite.in_the_limit(settings.steps, self.classes, blocks, self.rates), blocks
        )
        parts, shares, spread = [], [], finite.gradient_spread(self.early, blocks, self.rng)
        for places in self.places:
            real = finite.window_counts(self.text, self.classes, blocks, places, length)
            drawn = finite.independent_counts(blocks, real, self.rng)
            picks = self.rng.integers(
                settings.n_windows, size=(settings.steps, self.classes.n_classes, settings.batch)
            )
            parts.append(
                [self._distances(counts, picks, blocks, limit) for counts in (drawn, real)]
            )
            shares.append(blocks.by_token((real / real.sum(axis=1, keepdims=True)).mean(axis=2)))
        both = {
            name: np.stack([[one[name] for one in pair] for pair in parts], axis=1)
            for name in parts[0][0]
        }
        both["gradient"] /= spread
        return both | {
            "mean_share": np.stack(shares),
            "moved": np.abs(limit - blocks.token_prob).sum(axis=1) / 2,
            "spread": spread / finite.gradient_size(self.early, blocks),
            "overlap": np.array(_overlap(law)),
        }

    def _distances(
        self, counts: Array, picks: NDArray[np.integer], blocks: TokenBlocks, limit: Array
    ) -> dict[str, Array]:
        learned = finite.limit_attention(
            finite.descended(counts, picks, self.classes, blocks, self.rates), blocks
        )
        gap = np.abs(counts / counts.sum(axis=1, keepdims=True) - blocks.token_prob[:, :, None])
        bound = theory.frequency_bound(
            counts.sum(axis=1, keepdims=True), failure_prob=self.settings.failure_prob
        )
        return {
            "shares": finite.share_error(counts, blocks),
            "attention": finite.attention_error(counts, self.early, blocks),
            "gradient": finite.gradient_error(counts, self.early, blocks),
            "learned": np.abs(learned - limit).sum(axis=1)
            / np.abs(limit - blocks.token_prob).sum(axis=1),
            "direction": cosine(learned - blocks.token_prob, limit - blocks.token_prob),
            "exceeded": (gap > bound).mean(axis=2).max(axis=1),
        }


def _overlap(law: Array) -> float:
    feature = law / np.linalg.norm(law, axis=1, keepdims=True)
    return (
        float((feature @ feature.T)[np.triu_indices(len(law), 1)].mean())
        if len(law) > 1
        else np.nan
    )


def curves(record: xr.Dataset, name: str, source: str) -> Array:
    """A distance by part and length, geometric mean over classes."""
    return np.exp(
        np.log(record[name].sel(source=source).transpose("class", "part", "length").values).mean(
            axis=0
        )
    )


def powers(record: xr.Dataset, name: str, source: str) -> Array:
    """p in distance ~ T^p, by part."""
    return np.array(
        [power(record["length"].values, curve) for curve in curves(record, name, source)]
    )


def worth(record: xr.Dataset) -> Array:
    """How many independent draws are as near to P(l|m,n) as one token of text, by part and length."""
    return (curves(record, "shares", "independent") / curves(record, "shares", "text")) ** 2


def contrast(record: xr.Dataset) -> Array:
    r"""How much the next tokens of one query differ in what stands before them, by length: 0 = not
    at all.

    Mean over pairs (n, n') of a query and over pairs of different parts a, b of $(q_{an} - q_{an'})
    \cdot (q_{bn} - q_{bn'})$, over the mean of $q_{an} \cdot q_{bn}$, and its root. Different parts
    share no noise of counts. A mean below zero has the root of its size, with the sign.
    """
    share, query = (
        record["mean_share"].transpose("length", "part", "class", "token").values,
        record["class_query"].values,
    )
    differences = [
        share[:, :, n] - share[:, :, k]
        for n in range(len(query))
        for k in range(n)
        if query[n] == query[k]
    ]
    if not differences:
        return np.full(len(share), np.nan)
    ratio = _across(np.stack(differences, axis=2)) / _across(share)
    return np.sign(ratio) * np.sqrt(np.abs(ratio))


def _across(values: Array) -> Array:
    """Mean product of different parts (length, part, case, token) -> (length)."""
    n_parts = values.shape[1]
    whole, own = (values.sum(axis=1) ** 2).sum(axis=-1), (values**2).sum(axis=(1, -1))
    return (
        ((whole - own) / (n_parts * (n_parts - 1))).mean(axis=-1)
        if n_parts > 1
        else np.full(len(values), np.nan)
    )


def claims(record: xr.Dataset) -> Iterator[Claim]:
    """On text the lemmas are judged under their own assumption, that one token of text is worth one
    draw.
    """
    delta, of_text = EXPERIMENT.settings_of(record).failure_prob, _over_parts(record)
    for source, contexts in SOURCES.items():
        given = (
            [
                at_least(
                    "independent tokens",
                    of_text["worth"].mean,
                    _WORTH,
                    "draws that a token is worth",
                )
            ]
            if source == "text"
            else []
        )
        case, by_part = (
            Case({"contexts": contexts}, given=given),
            {name: powers(record, name, source) for name in DISTANCES},
        )
        found = (
            of_text
            if source == "text"
            else {name: values.mean() for name, values in by_part.items()}
        )
        for name in ("shares", "attention", "gradient"):
            named = case.but(
                given=[*given, _linear(record)] if (name, source) == ("gradient", "text") else given
            )
            yield named.under(_same_in_parts(np.abs(by_part[name] + 0.5) <= _WITHIN)).near(
                LEMMA_18 if name == "shares" else LEMMA_2,
                f"power of T in the distance to the limit, {DISTANCES[name]}",
                found[name],
                -0.5,
                within=_WITHIN,
                sentence="Four times as many tokens halve the distance to an infinite context.",
            )
        learned = by_part["learned"]
        yield case.under(
            _same_in_parts((learned >= -1 - _WITHIN) & (learned <= -0.5 + _WITHIN))
        ).between(
            LEMMA_2,
            f"power of T in the distance to the limit, {DISTANCES['learned']}",
            found["learned"],
            -1 - _WITHIN,
            -0.5 + _WITHIN,
            sentence="What is learned is a mean over many windows: its noise falls as T^-1/2 and its bias as 1/T.",
        )
        exceeded = record["exceeded"].sel(source=source).transpose("part", ...)
        yield case.under(_same_in_parts(exceeded.max(["length", "class"]).values <= delta)).at_most(
            LEMMA_18,
            "share of windows outside Hoeffding's bound, worst token, class and length",
            exceeded.mean("part"),
            delta,
            sentence=f"A token's share is further from its mean than the bound in at most a share δ = {delta:g} of windows.",
        )
    independent = _same_in_parts(np.abs(worth(record)[:, -1] - 1) <= 1 - _WORTH)
    yield (
        Case({"T": int(record["length"].max())})
        .under(independent)
        .near(
            DATA_MODEL,
            "independent draws that one token of text is worth",
            of_text["worth"],
            1,
            within=1 - _WORTH,
            sentence="If the tokens of a context were independent, one token of text would be worth one draw.",
            expected=FAILS,
        )
    )


def _same_in_parts(answers: Any) -> Ceiling:
    """Shown only: what is judged is a mean over the parts."""
    return same_answer(answers, of="parts")


def _over_parts(record: xr.Dataset) -> dict[str, Interval]:
    """Powers on text, and what one of its tokens is worth in the longest windows: simultaneous
    intervals over disjoint parts.
    """
    return simultaneous(
        {name: powers(record, name, "text") for name in DISTANCES} | {"worth": worth(record)[:, -1]}
    )


def _linear(record: xr.Dataset) -> Condition:
    """Where the gradient is linear in the shares, independent draws are as far in both, each in its
    own unit.

    They may differ by a factor that, at one end of the lengths, shifts a power by its tolerance.
    """
    factor = _WITHIN * np.log(record["length"].values[-1] / record["length"].values[0])
    ratio = (
        curves(record, "gradient", "independent") / curves(record, "shares", "independent")
    ).mean(axis=0)
    return at_most(
        "the gradient is linear in the shares",
        np.abs(np.log(ratio)).max(),
        factor,
        "|ln ratio| of their distances",
    )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Every distance at every length and its power, with intervals over parts; then what one token
    is worth, and the contrast.
    """
    rows = []
    for source in SOURCES:
        at = record.sel(source=source)
        for name in DISTANCES:
            rows += _rows(record, source, name, curves(record, name, source).T)
            rows.append(
                {
                    "source": source,
                    "measure": f"power of T, {name}",
                    **interval(powers(record, name, source))._asdict(),
                }
            )
        rows += _rows(
            record,
            source,
            "direction",
            at["direction"].mean("class").transpose("length", "part").values,
        )
        rows += _rows(
            record,
            source,
            "exceeded",
            at["exceeded"].max("class").transpose("length", "part").values,
        )
    rows += _rows(record, "text", "worth", worth(record).T)
    plain = {"contrast": contrast(record), "overlap": record["overlap"].values}
    plain |= {name: record[name].mean("class").values for name in ("moved", "spread")}
    return rows + [
        row
        for name, values in plain.items()
        for row in _rows(record, "text", name, values[:, None])
    ]


def _rows(record: xr.Dataset, source: str, measure: str, by_length: Array) -> list[dict[str, Any]]:
    lengths = record["length"].values.tolist()
    return [
        {"source": source, "measure": measure, "length": length} | interval(by_part)._asdict()
        for length, by_part in zip(lengths, by_length, strict=True)
    ]


def panels(record: xr.Dataset) -> Layout:
    ticks = {float(length): str(length) for length in record["length"].values}
    return [
        Lines(
            title,
            "T (tokens before the query)",
            "distance to infinite contexts",
            _lines(record, name),
            "xy",
            ticks=ticks,
        )
        for name, title in DISTANCES.items()
    ]


def _lines(record: xr.Dataset, name: str) -> list[Line]:
    length, lines = record["length"].values, []
    for tone, source in enumerate(SOURCES):
        by_part, power = curves(record, name, source), interval(powers(record, name, source))
        spread = f" ± {power.half_width:.2f}" if np.isfinite(power.half_width) else ""
        middle, low, high = (
            np.exp(np.log(by_part).mean(axis=0)),
            by_part.min(axis=0),
            by_part.max(axis=0),
        )
        lines.append(
            Line(
                length,
                middle,
                f"{source}: power {power.mean:.2f}{spread}",
                tone=tone,
                low=low,
                high=high,
            )
        )
    return [
        *lines,
        Line(length, lines[0].y[0] * np.sqrt(length[0] / length), "power -1/2", DASHES, None),
    ]


EXPERIMENT = Experiment(
    "context-length",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Distance to infinite contexts against the length of the context, for windows of text and as many independent draws from "
        "the same frequencies, mean over classes; bands are the lowest and highest part of the text. Dashed: power -1/2 from the "
        "first independent point. How far text lies above independent draws says how many tokens of text are worth one draw. "
        "Last panel: the distance of what was learned, in units of how far attention moved."
    ),
    question="How long must a context be to count as long?",
    finding=(
        "the distance to the infinite-context limit falls as T^{*shares of tokens*windows of text*:.2f} on text and as T^{*shares "
        "of tokens*independent draws*:.2f} for independent draws; in windows of 1024, a token of text is worth {independent draws "
        "that*:.2f} independent draws"
    ),
    caveat="A text without topics and bursts: independent draws get as close with far fewer tokens.",
    variables=VARIABLES,
    dynamics="A and the limit of infinite context, one-layer model of the theorem",
    time_unit="updates",
    full=Settings(
        lengths=(32, 64, 128, 256, 512, 1024),
        queries=8,
        n_next=4,
        n_windows=200,
        parts=10,
        steps=1000,
    ),
    table=table,
)
