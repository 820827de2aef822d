"""On text embeddings condense, all queries focus on the most frequent token, then dilute, and a new direction opens.

Trains the one-layer model of [chen2026] with Adam on windows of 64 words and watches how much each query attends to the most
frequent token; short runs ask to which side of its share attention first moves. Expect the first four stages on WikiText-2; a
second focus is not seen, and TinyStories gets as far as the focus. The sign of c changes with the vocabulary: plain descent first
moves to the side of c, Adam always to the frequent token.
Times within 20 % and values within 0.1 of an independent replication were asked for before any run; its batch of 512 is that of the
full setting only. Set after trial runs: the quick batch, a share of .95 as condensed, the integrated drive as a second prediction,
and that the probe may focus on any word. Which claims are expected to fail was set from the quick run itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_count, checked_list
from saccade.experiments.real_text.text_cycle_runs import CURVES, Array, Training, cycle_run, first_move, side_run
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE, REPLICATION, Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable, padded
from saccade.lab.panel import DOTS, POINTS, RINGS, Heat, Layout, Line, Lines, Panel
from saccade.observe.events import OPEN, find_events
from saccade.observe.measures import entropy, top_share
from saccade.processes import in_processes
from saccade.records.events import Event
from saccade.theory.condition import Condition, at_least, equal, met
from saccade.theory.focus_and_dilution.statements import ADAM_FOCUS, DRIVE, FIG_3, SIGN_RULE
from saccade.theory.questions import CYCLE_ON_TEXT

_LOOK, _SHORT = "text seed look", "text size optimiser side_seed"
SIDES = {
    "side": Variable(_SHORT, "1", "+1: attention first moves to the most frequent token, -1: away from it; NaN: not at all"),
    "moved_at": Variable(_SHORT, "updates", "first look at which some query's attention on it had moved by 0.01"),
    "largest_tilt": Variable(_SHORT, "1", "attention on it less its share, mean over queries, where that of any query is largest"),
    "impulse": Variable(_SHORT, "1", "integral of the drive until attention moves; time is rate times updates"),
    "focus_rate": Variable(_SHORT, "1/time", "c of the text's pairs, at the unigram point"),
    "condensation_rate": Variable(_SHORT, "1/time", "mu0 of the text's frequencies"),
    "steps": Variable(_SHORT, "updates", "length of the run"),
}
VARIABLES = SIDES | {
    "step": Variable(_LOOK, "updates", "when the run was looked at, before the update of that step"),
    "loss": Variable(_LOOK, "nats", "cross-entropy of the next token, of the batch about to be learned from"),
    "on_frequent": Variable(f"{_LOOK} query", "1", "attention of each query on the most frequent token, of an endless context"),
    "entropy": Variable(f"{_LOOK} query", "nats", "entropy of that attention over all tokens"),
    "row_norm": Variable(f"{_LOOK} query", "1", "length of each query's embedding"),
    "singular_values": Variable(f"{_LOOK} rank", "1", "of the embedding, largest first"),
    "query_norm": Variable(_LOOK, "1", "length of the query matrix"),
    "probe_attention": Variable(f"{_LOOK} probe_query probe_key", "1", "attention among the probe words, once each in a context"),
    "drive": Variable(_LOOK, "1/time", "growth rate of queries along keys were attention off, at that embedding and projection"),
    "share": Variable("text", "1", "share of the most frequent token in the text"),
    "frequent": Variable("text", "", "the most frequent token"),
    "query_word": Variable("text query", "", "the query tokens, evenly spaced in log rank"),
    "probe_word": Variable("text probe_query", "", "the probe's tokens; empty: none"),
}
ADAM_LR = 1e-3
FOCUSED = 0.9  # attention that counts as all of it: of ten parts one is left
WHOLE = 0.99  # the same in the replication


@dataclass(frozen=True)
class Settings:
    """Settings; lists of the first block have an entry for each text. The defaults are the quick ones."""

    texts: tuple[str, ...] = ("wikitext-2", "tinystories")
    """corpora: names or paths"""
    n_vocabs: tuple[int, ...] = (2000, 512)
    """tokens; rarer words are one, which keeps its frequency"""
    rates: tuple[float, ...] = (1e-3, 3e-4)
    """Adam's learning rate"""
    init_scales: tuple[float, ...] = (1e-3, 1e-2)
    """standard deviation of every entry at the start"""
    scaled: tuple[bool, ...] = (True, False)
    """whether scores are divided by the root of the width"""
    steps: tuple[int, ...] = (4000, 5000)
    """updates"""
    probes: tuple[tuple[str, ...], ...] = ((UNKNOWN, "the", ",", "been", "continue"), ("the", ",", "a", "full", "been"))
    """words of the heat-maps; those that a text does not have are left out"""
    d_model: int = 64
    """width"""
    batch: int = 128
    """windows a step"""
    context: int = 64
    """tokens a window"""
    seeds: int | tuple[int, ...] = 1
    """number of long runs of each text (seeds 0, 1, 2, ...), or a list of seeds"""
    looks: int = 240
    """states looked at, evenly spaced in log time"""
    queries: int = 8
    """query tokens, from the most frequent to the rarest"""
    sizes: tuple[int, ...] = (8, 32, 128, 512, 2000)
    """vocabularies of the short runs, in which the first move of attention is looked at"""
    side_width: int = 16
    """width of the short runs"""
    side_seeds: int = 2
    """short runs of each text, vocabulary and optimiser"""
    side_lr: float = 0.5
    """rate of plain descent in them; Adam has 1e-3"""
    side_steps: int = 2500
    """most updates of plain descent in them; usually theory asks for fewer"""
    adam_steps: int = 500
    """updates of Adam in them"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    seeds, long, short = checked_seeds(settings.seeds), _long_jobs(settings), _short_jobs(settings)
    found = in_processes(_one, [*long, *short], on_progress)
    cycles, sides = found[: len(long)], found[len(long) :]
    firsts = cycles[:: len(seeds)]
    values: dict[str, Any] = {}
    for name in ("step", *CURVES):  # runs differ in looks, queries and probe words: what is not there is NaN, or an empty name
        whole = padded([cycle[name] for cycle in cycles])
        values[name] = whole.reshape(len(settings.texts), len(seeds), *whole.shape[1:])
    for name in ("query_word", "probe_word"):
        width = max(len(cycle[name]) for cycle in firsts)
        values[name] = [[*cycle[name], *[""] * (width - len(cycle[name]))] for cycle in firsts]
    values |= {name: [cycle[name] for cycle in firsts] for name in ("share", "frequent")}
    shape = (len(settings.texts), len(settings.sizes), 2, settings.side_seeds)
    values |= {name: np.reshape([side[name] for side in sides], shape) for name in SIDES}
    coords = {"text": list(settings.texts), "size": list(settings.sizes), "optimiser": ["sgd", "adam"], "seed": seeds}
    return Measured(values, coords)


def _one(training: Training, words: tuple[str, ...] | None) -> dict[str, Any]:
    return side_run(training) if words is None else cycle_run(training, words)


def _long_jobs(settings: Settings) -> list[tuple[Training, tuple[str, ...]]]:
    lists = (settings.n_vocabs, settings.scaled, settings.init_scales, settings.rates, settings.steps, settings.probes)
    if not settings.texts or any(len(values) != len(settings.texts) for values in lists):
        raise InputError("`texts` must name at least one text, and the other lists of runs must have an entry for each.")
    sizes = {"batch": settings.batch, "context": settings.context, "n_looks": settings.looks, "n_queries": settings.queries}
    return [
        (Training(text, n_vocab, settings.d_model, scaled, scale, "adam", lr, steps, **sizes, seed=seed), tuple(words))
        for text, n_vocab, scaled, scale, lr, steps, words in zip(settings.texts, *lists, strict=True)
        for seed in checked_seeds(settings.seeds)
    ]


def _short_jobs(settings: Settings) -> list[tuple[Training, None]]:
    sizes = [int(size) for size in checked_list("sizes", settings.sizes, low=3)]
    of = {"batch": settings.batch, "context": settings.context, "n_looks": 120, "n_queries": settings.queries}
    ways = {"sgd": (settings.side_lr, settings.side_steps), "adam": (ADAM_LR, settings.adam_steps)}
    return [
        (Training(text, size, settings.side_width, True, 1e-3, optimiser, lr, steps, **of, seed=seed), None)
        for text in settings.texts
        for size in sizes
        for optimiser, (lr, steps) in ways.items()
        for seed in range(checked_count("side_seeds", settings.side_seeds))
    ]


class Cycle(NamedTuple):
    """One long run, without what is missing."""

    step: Array
    on_frequent: Array
    values: Array
    query_norm: Array
    loss: Array
    probe: Array

    @property
    def joint(self) -> Array:
        """Attention that every query has on the frequent token at the same time: the least of them."""
        return self.on_frequent.min(axis=1)

    @property
    def ratio(self) -> Array:
        return self.values[:, 1] / self.values[:, 0]

    def events(self) -> list[Event]:
        return find_events(
            self.step,
            attention_on_frequent=self.on_frequent,
            embedding_singular_values=self.values,
            query_norm=self.query_norm,
            loss=self.loss,
        )

    def probe_focus(self) -> tuple[int, int]:
        """The look and the word at which all probe words attend most to one word at once."""
        together = self.probe.min(axis=1)
        look, word = np.unravel_index(int(together.argmax()), together.shape)
        return int(look), int(word)

    def stage_looks(self) -> dict[str, int]:
        """Where the probe is drawn; dilution is where its attention is most spread after the joint focus."""
        focus, _ = self.probe_focus()
        spread = focus + int(entropy(self.probe[focus:]).mean(axis=1).argmax())
        return {"start": 0, "focus": focus, "dilution": spread, "end": len(self.step) - 1}


def cycle_of(record: xr.Dataset, text: str, seed: int = 0) -> Cycle:
    run = record.sel(text=text).isel(seed=seed)
    looks = np.isfinite(run.singular_values.values[:, 0])  # none after the end, or after a run diverged
    queries, probe = run.query_word.values != "", run.probe_word.values != ""
    return Cycle(
        run.step.values[looks],
        run.on_frequent.values[looks][:, queries],
        run.singular_values.values[looks],
        run.query_norm.values[looks],
        run.loss.values[looks],
        run.probe_attention.values[looks][:, probe][:, :, probe],
    )


STAGES = {  # title, at least
    "condensation": ("share of the embedding's first direction when attention first moves", 0.95),
    "focus": ("largest joint attention of all queries on the most frequent token", FOCUSED),
    "dilution": ("share of queries whose attention on it then falls below half its height", 1),
    "direction": ("share of runs in which a second direction opens, after the joint focus", 1),
    "focus again": ("share of runs in which a query focuses again after a direction opened", 1),
    "probe": ("largest joint attention of all probe words on one word", FOCUSED),
    "probe on the frequent": ("share of runs in which that is the probe's most frequent word", 1),
    "probe gives up": ("share of probe words that then give up half of it", 1),
    "probe on itself": ("share of runs in which the rarest probe word ends on itself most of all", 1),
}
NOT_SEEN = {  # which the paper has, and the quick runs have not
    "wikitext-2": {"focus again", "probe gives up", "probe on itself"},
    "tinystories": {"dilution", "direction", "focus again", "probe on the frequent", "probe gives up", "probe on itself"},
}


def claims(record: xr.Dataset) -> Iterator[Claim]:
    for text in map(str, record.text.values):
        at, runs = record.sel(text=text), [cycle_of(record, text, seed) for seed in range(record.sizes["seed"])]
        found, probe = [stages(run, at.share.item()) for run in runs], " ".join(filter(None, at.probe_word.values))
        for stage, (title, bound) in STAGES.items():
            case, statement = Case({"text": text}), CYCLE_ON_TEXT
            if stage.startswith("probe"):
                case, statement = case.but(probe=probe), FIG_3
            expected = FAILS if stage in NOT_SEEN.get(text, ()) else HOLDS
            yield case.at_least(statement, title, np.mean([one[stage] for one in found]), bound, expected=expected)
        if text in REPLICATED:
            yield from _replicated(text, runs, EXPERIMENT.settings_of(record))
    yield from _sides(record)


def stages(run: Cycle, share: float) -> dict[str, float]:
    """How far one run came in each of `STAGES`."""
    moved, focus, events = first_move(run.on_frequent - share), int(run.joint.argmax()), run.events()
    opened = [event.time for event in events if event.name == "new_direction" and event.value == 2]
    look, word = run.probe_focus()
    return {
        "condensation": np.nan if moved is None else top_share(run.values)[moved],
        "focus": run.joint.max(),
        "dilution": _fallen(run.on_frequent, focus),
        "direction": bool(opened) and opened[0] > run.step[focus],
        "focus again": any(event.name == "next_cycle" for event in events),
        "probe": run.probe[look, :, word].min(),
        "probe on the frequent": word == 0,
        "probe gives up": _fallen(run.probe[:, :, word], look),
        "probe on itself": run.probe[-1, -1].argmax() == len(run.probe[-1]) - 1,
    }


def _fallen(curves: Array, peak: int) -> float:
    """Share of curves that fall below half of what they have at the place `peak` later."""
    return float(np.mean(curves[peak:].min(axis=0) < curves[peak] / 2))


def _first(run: Cycle, is_there: NDArray[np.bool_]) -> float:
    return float(run.step[is_there.argmax()]) if is_there.any() else np.nan


def _left(run: Cycle) -> float:
    """The first look after the last at which all were on the token."""
    above = np.flatnonzero(run.joint >= WHOLE)
    return float(run.step[above[-1] + 1]) if len(above) and above[-1] + 1 < len(run.step) else np.nan


REPLICATED: dict[str, dict[str, Any]] = {
    "wikitext-2": {"n_vocabs": 2000, "rates": 1e-3, "init_scales": 1e-3, "scaled": True},
    "tinystories": {"n_vocabs": 512, "rates": 3e-4, "init_scales": 1e-2, "scaled": False},
}
REPLICATED_SIZES = {"d_model": 64, "batch": 512, "context": 64}
# (what, step, value): medians over queries; where the replication gave a range of queries, its middle.
REPLICATED_VALUES = {
    "wikitext-2": [
        ("share", 40, 0.996), ("growth", 40, 1.0), ("attention", 100, 0.25), ("attention", 136, 0.67), ("attention", 185, 1.0),
        ("attention", 1000, 1.0), ("attention", 1170, 0.99), ("attention", 1590, 0.615), ("attention", 2940, 0.325),
        ("ratio", 2160, 0.056), ("ratio", 2940, 0.106), ("ratio", 4000, 0.305),
    ],
    "tinystories": [("attention", 240, 1.0), ("attention", 2280, 1.0), ("ratio", 6000, 0.29)],
}  # fmt: skip
REPLICATED_TIMES = {
    "wikitext-2": {"reached": 185, "left": 1170, "opened": 2940},
    "tinystories": {"reached": 240, "left": 3150},
}
_SERIES: dict[str, tuple[str, Callable[[Cycle], Array]]] = {
    "share": ("share of the embedding's first direction", lambda run: top_share(run.values)),
    "growth": ("|W_Q| over its start", lambda run: run.query_norm / run.query_norm[0]),
    "attention": ("attention on the most frequent token, median over queries", lambda run: np.median(run.on_frequent, axis=1)),
    "ratio": ("second singular value of the embedding over the first", lambda run: run.ratio),
}
_TIMES: dict[str, tuple[str, Callable[[Cycle], float]]] = {
    "reached": (
        f"step at which every query is above {WHOLE} on the most frequent token",
        lambda run: _first(run, run.joint >= WHOLE),
    ),
    "left": (f"step at which the first query is below {WHOLE} again", _left),
    "opened": (
        f"step at which the second direction is open, s2 / s1 above {OPEN}",
        lambda run: _first(run, (run.step > run.step[run.joint.argmax()]) & (run.ratio >= OPEN)),
    ),
}


def _replicated(text: str, runs: Sequence[Cycle], settings: Settings) -> Iterator[Claim]:
    same, last = _same_settings(text, settings), float(runs[0].step[-1])
    case = Case({"text": text}, against=REPLICATION)
    for name, step, value in REPLICATED_VALUES[text]:
        title, series = _SERIES[name]
        found = np.mean([np.interp(step, run.step, series(run)) for run in runs]) if step <= last else np.nan
        given, within = [*same, at_least("updates", last, step)], 0.01 if name == "share" else 0.1
        yield case.but(given=given, step=step).near(CYCLE_ON_TEXT, title, found, value, within=within)
    for name, step in REPLICATED_TIMES[text].items():
        title, time_of = _TIMES[name]
        found, given = np.mean([time_of(run) for run in runs]), [*same, at_least("updates", last, step)]
        yield case.but(given=given).near(CYCLE_ON_TEXT, title, found, step, relative=0.2)


def _same_settings(text: str, settings: Settings) -> list[Condition]:
    place = settings.texts.index(text)
    of_text = [equal(name, getattr(settings, name)[place], value) for name, value in REPLICATED[text].items()]
    return of_text + [equal(name, getattr(settings, name), value) for name, value in REPLICATED_SIZES.items()]


_SLOWER = "attention slower than condensation"


def _sides(record: xr.Dataset) -> Iterator[Claim]:
    sgd, adam = record.sel(optimiser="sgd"), record.sel(optimiser="adam")
    slow, every = np.abs(sgd.focus_rate) < sgd.condensation_rate, sgd.focus_rate.notnull()
    sign, to_c, fast = np.sign(sgd.focus_rate), "first move of attention is to the side of c", [met(_SLOWER, False)]
    negative = float((sgd.focus_rate.isel(side_seed=0) < 0).mean())
    plain, by_adam = Case({"optimiser": "plain descent"}), Case({"optimiser": "Adam"})
    yield Case().at_least(
        SIGN_RULE,
        "share of texts and vocabularies with c < 0",
        negative,
        1,
        sentence="Counted for few words, text has a negative c; does it for all vocabularies?",
        expected=FAILS,
    )
    yield _agreeing(plain.but(runs=_SLOWER), SIGN_RULE, to_c, sgd.side, sign, slow)
    yield _agreeing(plain.but(given=fast, runs="the others"), SIGN_RULE, to_c, sgd.side, sign, ~slow, OUTSIDE)
    pushed = np.sign(sgd.impulse)
    yield _agreeing(plain, DRIVE, "first move of attention is to the side of the integrated drive", sgd.side, pushed, every)
    yield _agreeing(by_adam, SIGN_RULE, to_c, adam.side, sign, every, FAILS)
    yield _agreeing(by_adam, ADAM_FOCUS, "first move of attention is to the most frequent token", adam.side, 1.0, every)


def _agreeing(case: Case, statement: Any, title: str, side: Any, wanted: Any, chosen: Any, expected: str = HOLDS) -> Claim:
    """Of the chosen runs whose attention moved, the share that went to the wanted side; NaN if none moved."""
    moved = chosen & side.notnull()
    share = float(((side == wanted) & moved).sum() / moved.sum()) if moved.any() else np.nan
    case = case.but(moved=f"{int(moved.sum())} of {int(chosen.sum())}")
    return case.at_least(statement, title, share, 0.9, sentence="Share of the runs that moved.", expected=expected)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """The long runs, look by look."""
    return [
        named
        | {"step": int(step), "loss": run.loss[i], "top_share": top_share(run.values[i]), "second_over_first": run.ratio[i]}
        | {"query_norm": run.query_norm[i], "least_attention": run.joint[i], "largest_attention": run.on_frequent[i].max()}
        for named, run in _long_runs(record)
        for i, step in enumerate(run.step)
    ]


def files(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """`sides.csv`: the short runs; `events.csv`: every event of the long runs, no query for what concerns the whole model."""
    events = []
    for named, run in _long_runs(record):
        words = record.query_word.sel(text=named["text"]).values
        for event in run.events():
            word = "" if event.query is None else str(words[event.query])
            events.append(named | {"event": event.name, "query": word, "step": event.time, "value": event.value})
    sides = record[[*SIDES]].to_dataframe().reset_index().to_dict("records")
    return {"sides.csv": (list(sides[0]), sides), "events.csv": (["text", "seed", "event", "query", "step", "value"], events)}


def _long_runs(record: xr.Dataset) -> Iterator[tuple[dict[str, Any], Cycle]]:
    for text in map(str, record.text.values):
        for place, seed in enumerate(record.seed.values):
            yield {"text": text, "seed": int(seed)}, cycle_of(record, text, place)


def panels(record: xr.Dataset) -> Layout:
    """Two rows for each text: attention, directions, rates and sides; then the probe at four moments."""
    rows: list[list[Panel]] = []
    for text in map(str, record.text.values):
        at, run = record.sel(text=text), cycle_of(record, text)
        rows.append([_attention(run, at), _directions(run, at), _rates(at), _first_moves(at)])
        words = [str(word) for word in at.probe_word.values if word]
        rows.append(
            [
                Heat(f"{text}: {stage}, step {run.step[look]:.0f}", "attended word", "query", run.probe[look], words, words, (0, 1))
                for stage, look in run.stage_looks().items()
            ]
        )
    return rows


def _attention(run: Cycle, at: xr.Dataset) -> Lines:
    words = [str(word) for word in at.query_word.values if word]
    lines = [Line(run.step[1:], run.on_frequent[1:, i], word, tone=i / max(len(words) - 1, 1)) for i, word in enumerate(words)]
    title, y = f"{at.text.item()}: focus, then dilution", f"attention on {at.frequent.item()!r}"
    return Lines(title, "updates", y, lines, "x", ylim=(0, 1.03), levels={at.share.item(): "its share"})


def _directions(run: Cycle, at: xr.Dataset) -> Lines:
    spread = at.entropy.isel(seed=0).values[: len(run.step), : run.on_frequent.shape[1]].mean(axis=1)
    curves = {
        "share of the embedding's first direction": top_share(run.values),
        "second singular value / first": run.ratio,
        "entropy of attention / its start": spread / spread[0],
        "|W_Q| / its largest": run.query_norm / run.query_norm.max(),
    }
    lines = [Line(run.step[1:], curve[1:], label, tone=tone) for tone, (label, curve) in enumerate(curves.items())]
    return Lines("directions, entropy and size", "updates", "share or ratio", lines, "x", ylim=(0, 1.03))


def _rates(at: xr.Dataset) -> Lines:
    sizes, first = at["size"].values, at.sel(optimiser="sgd").isel(side_seed=0)
    c = first.focus_rate.values
    lines = [
        Line(sizes, np.where(c > 0, c, np.nan), "c > 0: to the frequent token", POINTS, 0),
        Line(sizes, np.where(c < 0, -c, np.nan), "c < 0: away from it", RINGS, 1),
        Line(sizes, first.condensation_rate.values, "rate of condensation, μ0", tone=None),
    ]
    return Lines("what the chain predicts", "vocabulary (tokens)", "|c| (1/time)", lines, "xy")


def _first_moves(at: xr.Dataset) -> Lines:
    sizes, lines = at["size"].values, []
    for tone, (optimiser, label, shift) in enumerate((("sgd", "plain descent", 0.9), ("adam", "Adam", 1.1))):
        side = at.side.sel(optimiser=optimiser).fillna(0).transpose("size", "side_seed").values
        places = sizes[:, None] * shift * 1.08 ** np.arange(side.shape[1])
        lines.append(Line(places.ravel(), side.ravel(), label, POINTS, tone))
    c = at.focus_rate.sel(optimiser="sgd").isel(side_seed=0).values
    lines.append(Line(sizes, np.sign(c), "sign of c", DOTS, None))
    levels = {1.0: "to the frequent token", 0.0: "did not move", -1.0: "away from it"}
    return Lines("the side of the first move", "vocabulary (tokens)", "side", lines, "x", ylim=(-1.3, 1.3), levels=levels)


def caption(record: xr.Dataset) -> str:
    names = " and ".join(f"{text} (most frequent token: {record.frequent.sel(text=text).item()!r})" for text in record.text.values)
    return (
        f"Eight panels for each text: {names}. First, attention of queries, dark for rare ones, on the most frequent token in an "
        "endless context: all go to it, then they part. The embedding has one direction until a second opens; the entropy of "
        "attention falls, rises and falls. The rate c of theory for each vocabulary: where it is above μ0, attention is faster "
        "than condensation and the sign rule does not apply. To which side attention first moved in short runs: the rule asks for "
        "the sign of c. Maps: attention of each probe word on a context of all of them once, most frequent first: at the "
        "start, where all are most on one word, where attention is most spread after that, and at the end."
    )


EXPERIMENT = Experiment(
    "text-cycle",
    Settings,
    measure,
    claims,
    panels,
    caption=caption,
    finding=(
        "WikiText-2: {*first moves (text wikitext-2*:.1%} of the embedding in one direction when attention moves; all queries "
        "{*all queries*(text wikitext-2*:.0%} on one token, then {*share of queries*(text wikitext-2*:.0%} of them diluted; "
        "a second direction at update {step*second direction*:.0f}, a second focus in {*focuses again*(text wikitext-2*:.0%} of "
        "runs. TinyStories: {*share of queries*(text tinystories*:.0%} of queries diluted"
    ),
    variables=VARIABLES,
    dynamics="training on text, the embedded model",
    time_unit="updates",
    full=Settings(
        steps=(4000, 6000), batch=512, seeds=3, looks=400, side_seeds=5, side_lr=0.25, side_steps=10_000, adam_steps=2000
    ),
    table=table,
    files=files,
)
