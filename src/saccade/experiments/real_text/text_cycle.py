"""On real text embeddings condense, every query focuses on the most frequent token, then dilutes, and a new direction opens.

Trains the one-layer model of [chen2026] with Adam on windows of 64 words and looks at how much each query attends to the most
frequent token, the out-of-vocabulary one. Measured with the quick settings, one seed:
- WikiText-2: the first direction has .999 of the embedding when attention moves; all queries go from .23 to .98 at once (step 209),
  then part (median .52 at step 2940); a second direction opens at step 2731 and s2/s1 is .22 at step 4000, where queries leave the
  token for others ("the" attends to "the" with 1.00, "continue" to itself with .23 and to the frequent token still with .69).
- TinyStories, scores not scaled: all above .99 from step 251 to 3379, then .62 to 1.00 at step 5000, where s2/s1 is .07: dilution
  has begun and the next cycle has not. On the probe all words meet at "a", not at the more frequent "the".
So "focuses anew" on the frequent token, "ends on itself" and some more are not seen in that time and are claimed to fail.

Short runs ask to which side attention first moves. The sign of the rate c changes with the vocabulary: below 0 up to 512 words of
WikiText-2, above 0 at 2000; below 0 up to 32 words of TinyStories, above 0 at 128 and 512, below again at 2000. Text as such has no
sign. Plain descent goes to the side of c wherever attention is slower than condensation (9 runs of 9 that moved; elsewhere 6 of 8),
and everywhere to the side of the drive integrated along the run (17 of 17): while the unigram law is not learnt, the drive is to
frequent tokens whatever the chain. Adam goes to the frequent token in all runs that moved, to the side of c in 6 of 17.

An independent replication's numbers (batch 512) are compared in the full setting only; the quick batch is 128, because of time.
Decided after trial runs: the batch, a share of .95 as condensed, the integrated drive as a second prediction, and that the probe's
focus may be on any word. Which claims are expected to fail was set from the quick run itself.
Runs that did not move count for neither side; at 512 words of WikiText-2 the integrated drive is large and positive, c is negative,
and plain descent did not move. About 105 s on two cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_count, checked_list
from saccade.experiments.real_text.runs import in_processes
from saccade.experiments.real_text.text_cycle_claims import cycle_claims, cycle_rows, event_rows, side_claims, side_rows
from saccade.experiments.real_text.text_cycle_runs import UNKNOWN, Training, cycle_run, side_run
from saccade.records.claim import Claim

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 105
WHAT = "Focus and Dilution, four stages"
EXPECTED = (
    "WikiText-2: {wikitext-2, share of the embedding*first moves:.1%} of the embedding in one direction when attention moves; "
    "all queries {wikitext-2, largest*:.0%} on one token, then {wikitext-2, share of queries*:.0%} of them diluted; a second "
    "direction at update {wikitext-2, step? second direction*:.0f}, a second focus in {wikitext-2, runs*focuses anew*:.0%} of "
    "runs. TinyStories: {tinystories, share of queries*:.0%} of queries diluted"
)

_DEFINITIONS = {
    "step": ("updates", "when the run was looked at, before the update of that step"),
    "on_frequent": ("1", "attention of each query on the most frequent token, of an endless context"),
    "entropy": ("nats", "entropy of that attention over all tokens"),
    "row_norm": ("1", "length of each query's embedding"),
    "singular_values": ("1", "of the embedding, largest first"),
    "query_norm": ("1", "length of the query matrix"),
    "probe_attention": ("1", "attention of each probe word on a context that holds the probe words once each"),
    "drive": ("1/time", "growth rate of queries along keys were attention off, from embedding and projection at that moment"),
    "share": ("1", "share of the most frequent token in the text"),
    "frequent": ("", "the most frequent token"),
    "query_word": ("", "the query tokens, evenly spaced in log rank"),
    "probe_word": ("", "the probe's tokens; empty: none"),
    "side": ("1", "+1: attention first moves to the most frequent token, -1: away from it; NaN: not at all"),
    "moved_at": ("updates", "first look at which some query's attention on it had moved by 0.01"),
    "largest_tilt": ("1", "attention on it less its share, mean over queries, where the largest of any query is largest"),
    "impulse": ("1", "integral of the drive until attention moves; time is rate times updates"),
    "focus_rate": ("1/time", "c of the text's pairs, at the unigram point"),
    "condensation_rate": ("1/time", "mu0 of the text's frequencies"),
    "steps": ("updates", "length of the run"),
    "text": ("", "name of the corpus"),
    "size": ("tokens", "vocabulary of a short run"),
    "optimiser": ("", "of a short run"),
}
_SIDES = ("side", "moved_at", "largest_tilt", "impulse", "focus_rate", "condensation_rate", "steps")


@dataclass(frozen=True)
class Config:
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


FULL = Config(steps=(4000, 6000), batch=512, seeds=3, looks=400, side_seeds=5, side_lr=0.25, side_steps=10_000, adam_steps=2000)
ADAM_LR = 1e-3


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    jobs = [*_cycle_jobs(config), *_side_jobs(config)]
    n_cycles = len(jobs) - len(_side_jobs(config))
    found = in_processes(_one, jobs, on_progress)
    return _record(config, found[:n_cycles], found[n_cycles:], time.perf_counter() - started)


def _one(training: Training, words: tuple[str, ...] | None) -> dict[str, Any]:
    return side_run(training) if words is None else cycle_run(training, words)


def _cycle_jobs(config: Config) -> list[tuple[Training, tuple[str, ...]]]:
    lists = (config.n_vocabs, config.scaled, config.init_scales, config.rates, config.steps, config.probes)
    if not config.texts or any(len(values) != len(config.texts) for values in lists):
        raise InputError("`texts` must name at least one text, and the lists beside it must have an entry for each.")
    sizes = {"batch": config.batch, "context": config.context, "n_looks": config.looks, "n_queries": config.queries}
    return [
        (Training(text, n_vocab, config.d_model, scaled, scale, "adam", lr, steps, **sizes, seed=seed), tuple(words))
        for text, n_vocab, scaled, scale, lr, steps, words in zip(config.texts, *lists, strict=True)
        for seed in checked_seeds(config.seeds)
    ]


def _side_jobs(config: Config) -> list[tuple[Training, None]]:
    sizes = [int(size) for size in checked_list("sizes", config.sizes, low=3)]
    of = {"batch": config.batch, "context": config.context, "n_looks": 120, "n_queries": config.queries}
    ways = {"sgd": (config.side_lr, config.side_steps), "adam": (ADAM_LR, config.adam_steps)}
    return [
        (Training(text, size, config.side_width, True, 1e-3, optimiser, lr, steps, **of, seed=seed), None)
        for text in config.texts
        for size in sizes
        for optimiser, (lr, steps) in ways.items()
        for seed in range(checked_count("side_seeds", config.side_seeds))
    ]


def _record(config: Config, cycles: list[dict[str, Any]], sides: list[dict[str, Any]], wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    seeds = checked_seeds(config.seeds)
    shape = (len(config.texts), len(config.sizes), 2, config.side_seeds)
    axes = ("text", "size", "optimiser", "side_seed")
    variables = _cycle_variables(cycles, (len(config.texts), len(seeds)))
    variables |= {name: (axes, np.reshape([side[name] for side in sides], shape)) for name in _SIDES}
    record = make_record(
        dynamics="training on text, the embedded model",
        variables=variables,
        coords={"text": list(config.texts), "size": list(config.sizes), "optimiser": ["sgd", "adam"], "seed": seeds},
        time_unit="updates",
        config={"texts": list(config.texts)},
        wall_time=wall_time,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def _cycle_variables(cycles: list[dict[str, Any]], runs: tuple[int, int]) -> dict[str, Any]:
    """Runs differ in their numbers of looks, queries and probe words; what is not there is NaN, or an empty name."""
    axes: dict[str, tuple[str, ...]] = {
        "on_frequent": ("query",),
        "entropy": ("query",),
        "row_norm": ("query",),
        "singular_values": ("rank",),
    }
    axes |= {"probe_attention": ("probe_query", "probe_key")}
    variables: dict[str, Any] = {}
    for name in ("step", "loss", "on_frequent", "entropy", "row_norm", "singular_values", "query_norm", "probe_attention", "drive"):
        padded = _padded([np.asarray(cycle[name], float) for cycle in cycles])
        variables[name] = (("text", "seed", "look", *axes.get(name, ())), padded.reshape(*runs, *padded.shape[1:]))
    firsts = cycles[:: runs[1]]
    for name, axis, key in (("query_word", "query", "query_words"), ("probe_word", "probe_query", "probe_words")):
        width = max(len(cycle[key]) for cycle in firsts)
        variables[name] = (("text", axis), [[*cycle[key], *[""] * (width - len(cycle[key]))] for cycle in firsts])
    variables["share"] = (("text",), [cycle["share"] for cycle in firsts])
    variables["frequent"] = (("text",), [cycle["frequent"] for cycle in firsts])
    return variables


def _padded(arrays: list[Any]) -> np.ndarray:
    shape = np.max([array.shape for array in arrays], axis=0)
    return np.stack(
        [
            np.pad(array, [(0, most - size) for most, size in zip(shape, array.shape, strict=True)], constant_values=np.nan)
            for array in arrays
        ]
    )


def claims(record: xr.Dataset) -> list[Claim]:
    return [*cycle_claims(record), *side_claims(record)]


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """The long runs, look by look."""
    return cycle_rows(record)


def files(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """`sides.csv`: the short runs; `events.csv`: every event of the long runs, no query for what concerns the whole model."""
    sides, events = side_rows(record), event_rows(record)
    return {"sides.csv": (list(sides[0]), sides), "events.csv": (["text", "seed", "event", "query", "step", "value"], events)}


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.real_text.text_cycle_figure import draw

    return draw(record)


def caption(record: xr.Dataset) -> str:
    from saccade.experiments.real_text.text_cycle_figure import described

    return described(record)
