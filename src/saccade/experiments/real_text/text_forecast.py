"""In the theorem's own model counts predict which tokens of a text gain attention first, as well as
a second sample of the text does; in an ordinary Transformer they do not.

The pairwise model of Scan and Snap is trained without noise on windows of a text. Two predictions
need no training: the first force (one pass over the counts) and decoder first (attention's force
along the decoder's own path). Then both meet what they leave out: batches, and an ordinary
Transformer under Adam, with a residual path, an MLP, heads and positions. The embedded model of
[chen2026] shows whether the stages of training come when pairs predict them. Scores are rank
correlations over the tokens of frequent queries, with intervals over samples that share no token,
or over seeds. Beside each are how far runs agree with each other and "rare words first".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Annotated as A
from typing import Any, TypeAlias

import numpy as np

from saccade.engines.randomness import checked_seeds
from saccade.engines.train_text import train_text
from saccade.experiments.real_text import forecast_stages as stages
from saccade.experiments.real_text import token_runs as runs
from saccade.experiments.real_text.every_run import CORRELATION, cut
from saccade.experiments.real_text.token_fates import Array, mean_correlation
from saccade.experiments.real_text.token_groups import Text
from saccade.experiments.real_text.token_scores import score_measure
from saccade.lab.ceiling import Ceiling
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures.fits import agreement, interval, jackknife, simultaneous
from saccade.models.transformer_config import TransformerConfig
from saccade.panels import DASHES, DOTS, LINE, RINGS, Line, Lines, with_intervals
from saccade.processes import in_processes
from saccade.theories import scan_and_snap as theory
from saccade.theories.questions import FORECAST_ORDER, FORECAST_TRANSFORMER
from saccade.theories.scan_and_snap.statements import DECODER_FIRST, FIRST_FORCE

LEAST = 20  # a token is scored if it occurs more often than this before the query
FORECAST_WINDOWS = 20_000  # that the forecast for batches is made from
EARLY = 10  # steps after which the first force and decoder first are scored
LATER = 25
EARLY_BAR = 0.85
LATER_BAR = 0.95
ACROSS_BAR = 0.9
HALF = 0.5  # of the correlation of two seeds, and a correlation that a reader would call a forecast
TRANSFORMER_SCORED = (25, 100, 200)
LAWS = {
    "first force": (FIRST_FORCE, EARLY, EARLY_BAR),
    "decoder first": (DECODER_FIRST, LATER, LATER_BAR),
}
Score: TypeAlias = Callable[[Array, Array], float]


def one_sample(
    text: Text, sample: int, n_windows: int, steps: Sequence[int], rates: dict[str, Any]
) -> dict[str, Array]:
    """Run and predictions (time, query, token) of one sample, and counts in the first one."""
    first, windows = (
        text.corpus.windows(text.window, n_windows=n_windows, sample=number)
        for number in (0, sample)
    )
    queries = first.frequent_queries[: text.n_queries].tolist()
    counted = windows.counts, windows.query, windows.next_token
    told = theory.decoder_first(
        *counted,
        steps=steps,
        queries=queries,
        with_error=False,
        **rates,
    )
    run = runs.noise_free_logits(windows, queries, save=steps, **rates)
    return {
        "run": run,
        "first force": np.broadcast_to(theory.first_force(*counted).force[queries], run.shape),
        "decoder first": told.attention_logits,
        "count": np.stack([first.token_count(query) for query in queries]),
    }


def batch_run(text: Text, batch: int, seed: int, steps: list[int], rates: dict[str, Any]) -> Array:
    """Gains (time, query, token) of the theorem's own model under SGD with batches."""
    corpus = text.corpus
    run = train_text(
        corpus,
        model=TransformerConfig.scan_and_snap(corpus.n_vocab),
        measures=score_measure(text.queries, text.window),
        steps=steps[-1],
        batch=batch,
        context=text.window + 1,
        every=[0, *steps],
        lr=rates["lr_decoder"],
        lr_attention=rates["lr_attention"],
        seed=seed,
        loss="last",
        watch=False,
        evaluate=0,
    )
    return runs.gains_of(run)[1:]


def transformer_gains(text: Text, half: int, seed: int, steps: list[int]) -> Array:
    """Gains (time, query, token) of an ordinary Transformer that reads one half of the text."""
    whole = text.corpus
    middle = len(whole.train) // 2
    read = SimpleNamespace(
        train=whole.train[middle:] if half else whole.train[:middle],
        valid=whole.valid,
        n_vocab=whole.n_vocab,
        name=f"{whole.name}, half {half}",
        hash=f"{whole.hash}-{half}",
    )
    training: dict[str, Any] = {
        "steps": steps[-1],
        "every": [0, *steps],
        "batch": 256,
    }
    run = runs.transformer_run(
        text,
        {"n_heads": 4},
        read,
        lr=1e-3,
        seed=seed,
        **training,
    )
    return runs.gains_of(run)[1:]


def table(laws: Any, of_runs: Any, score: Score) -> Array:
    """Score of each law with each run (law, run)."""
    return np.array([[score(law, run) for run in of_runs] for law in laws])


def elsewhere(scores: Array) -> float:
    """Mean score on samples other than the law's own."""
    return float(scores[~np.eye(len(scores), dtype=bool)].mean())


def share_elsewhere(law: Array, agreed: Array) -> Array:
    """Score of a law of one sample on another, over that of two runs: jackknife values (sample).

    Pairs of samples share samples, so their scores depend on each other and would make the interval
    half as wide as it should be.
    """
    return jackknife(
        lambda kept: elsewhere(law[np.ix_(kept, kept)]) / elsewhere(agreed[np.ix_(kept, kept)]),
        len(law),
    )


@experiment(
    "text-forecast",
    dynamics="predictions from counts, then training on text",
    time_unit="updates",
    caveat="More windows, which raise the ceiling; other widths, rates and texts of a Transformer; "
    "rates at which attention is as fast as the decoder.",
    full={
        "n_vocab": 2000,
        "steps": (2, 3, 5, 10, 25, 50, 100),
        "seeds": 10,
        "stage_steps": 4000,
        "adam_steps": 4000,
    },
)
def text_forecast(
    lab: Lab,
    texts: A[
        tuple[str, ...], "corpora, names or paths; batches and Transformers read the first"
    ] = (
        "wikitext-2",
        "tinystories",
        "sotu",
    ),
    n_vocab: A[int, "vocabulary size; rarer words become one token"] = 500,
    queries: A[int, "most frequent query tokens, which are scored"] = 8,
    window: A[int, "tokens before the query"] = 16,
    samples: A[int, "samples of each text; they share no token", Range(3, 1000)] = 5,
    n_windows: A[int, "windows in a sample; WikiText-2 has 113,888"] = 22_000,
    lr_decoder: A[float, "rate of Y"] = 10.0,
    lr_attention: A[float, "rate of Z"] = 1.0,
    steps: A[tuple[int, ...], "updates without noise at which runs are observed"] = (2, 3, 5),
    batches: A[tuple[int, ...], "windows per step with SGD, with one prediction each"] = (
        256,
        4096,
    ),
    batch_steps: A[tuple[int, ...], "updates with batches; the last is judged"] = (5, 10, 25, 50),
    seeds: A[int | tuple[int, ...], "random starts with batches, or a list of seeds"] = 4,
    transformer_seeds: A[int, "random starts of the Transformer on each half of the text"] = 3,
    transformer_steps: A[tuple[int, ...], "updates at which the Transformer is observed"] = (
        10,
        25,
        50,
        100,
        200,
    ),
    stage_steps: A[int, "updates of the embedded model under plain descent"] = 800,
    adam_steps: A[int, "updates of the embedded model under Adam"] = 1500,
) -> str:
    """Do the counts of a text forecast which tokens gain attention?"""
    rates: dict[str, Any] = {"lr_decoder": lr_decoder, "lr_attention": lr_attention}
    source = Text(texts[0], n_vocab, queries, window)
    starts = checked_seeds(seeds)
    times = sorted({*steps, EARLY, LATER})
    later = sorted(batch_steps)
    observed = sorted(transformer_steps)
    firsts = checked_seeds(transformer_seeds)
    lab.progress(0)

    # forecasts are made first, and then left alone
    windows = source.corpus.windows(window, n_windows=FORECAST_WINDOWS)
    predicted = theory.decoder_first(
        *(windows.counts, windows.query, windows.next_token, windows.weight),
        steps=later,
        queries=source.queries,
        with_error=False,
        **rates,
    ).attention_logits
    count = np.stack([windows.token_count(query) for query in source.queries])
    whole = source.corpus.windows(window)
    force = theory.first_force(whole.counts, whole.query, whole.next_token).force[source.queries]
    whole_count = np.stack([whole.token_count(query) for query in source.queries])
    staged = stages.stage_forecast(texts[0])

    of_samples = [
        (one_sample, Text(name, n_vocab, queries, window), sample, n_windows, times, rates)
        for name in texts
        for sample in range(samples)
    ]
    of_batches = [
        (batch_run, source, batch, seed, later, rates) for batch in batches for seed in starts
    ]
    of_halves = [
        (transformer_gains, source, half, seed, observed) for half in range(2) for seed in firsts
    ]
    of_stages = [
        (stages.stage_run, texts[0], optimiser, n_steps, seed)
        for optimiser, n_steps in {"SGD": stage_steps, "Adam": adam_steps}.items()
        for seed in starts
    ]
    jobs: list[tuple[Any, ...]] = [*of_samples, *of_batches, *of_halves, *of_stages]
    found = iter(in_processes(operator.call, jobs, lab.progress))
    of_text = {name: [next(found) for _ in range(samples)] for name in texts}
    gains = {batch: np.array([next(found) for _ in starts]) for batch in batches}
    gained = np.array([[next(found) for _ in firsts] for _ in range(2)])
    trained = {name: [next(found) for _ in starts] for name in ("SGD", "Adam")}

    main = []
    tables = {}
    panels = []
    rare = {}
    for name, several in of_text.items():
        count_of = several[0]["count"]
        score = partial(mean_correlation, members=count_of > LEAST)
        of_steps = list(zip(*(one["run"] for one in several)))
        agreed = [table(of_runs, of_runs, score) for of_runs in of_steps]
        frequency = np.array([table([count_of], of_runs, score)[0] for of_runs in of_steps])
        for law, (_, step, _) in LAWS.items():
            at = times.index(step)
            of_law = table([one[law][at] for one in several], of_steps[at], score)
            tables[name, law] = of_law, agreed[at]
            rare[name, law] = -float(frequency[at].mean())
        lines = [
            Line(times, list(map(score, several[0][law], several[0]["run"])), law, LINE, tone)
            for tone, law in enumerate(LAWS)
        ]
        top = Line(times, list(map(elsewhere, agreed)), "a run on other windows", DASHES, None)
        lines += [Line(times, frequency[:, 0], "frequency before the query", LINE, 2), top]
        panels.append(correlations(name, lines, times))

    # without noise. Bars were set after trials on the same texts, intervals before their first run
    intervals = simultaneous(
        {(*key, "own"): np.diag(scores) for key, (scores, _) in tables.items()}
        | {(*key, "other"): share_elsewhere(*pair) for key, pair in tables.items()}
    )
    for (name, law), (_, agreed_at) in tables.items():
        statement, step, bar = LAWS[law]
        shown = Ceiling("a run on other windows", elsewhere(agreed_at), limits=False)
        baseline = Ceiling("rare words first", rare[name, law], limits=False)
        case = lab.case(text=name)
        title = f"{law}: rank correlation with training, step {step}"
        own = cut(intervals[name, law, "own"], CORRELATION)
        across = f"{law} from other windows / a run on them: rank correlation, step {step}"
        other = intervals[name, law, "other"]
        main += [
            case.under(baseline, shown).after_trial_runs.at_least(statement, title, own, bar),
            case.under(shown).at_least(statement, across, other, ACROSS_BAR),
        ]

    # with batches: the bound was set before any run of this form
    score = partial(mean_correlation, members=count > LEAST)
    by_step = [
        simultaneous({batch: table([law], of[:, at], score) for batch, of in gains.items()})
        for at, law in enumerate(predicted)
    ]
    lines = []
    for tone, (batch, of_seeds) in enumerate(gains.items()):
        two = [agreement(of_time, score) for of_time in of_seeds.swapaxes(0, 1)]
        scores = [cut(of_batches[batch], CORRELATION) for of_batches in by_step]
        x = np.array(later) * 1.06 ** (tone - 0.5)
        lines += with_intervals(x, scores, f"forecast, batch {batch}", tone)
        lines.append(Line(x, two, f"two seeds, batch {batch}", RINGS, tone))
        title = "rank correlation of forecast and measured gains"
        case = lab.case(batch=batch)
        case = case.under(Ceiling("two seeds", two[-1], "batch"))
        main.append(case.at_least(FORECAST_ORDER, title, scores[-1], HALF))
    frequent = [table([count], of_time, score).mean() for of_time in of_seeds.swapaxes(0, 1)]
    lines.append(Line(later, frequent, f"frequency, batch {batch}", DASHES, None))
    with_batches = correlations(f"{texts[0]}, batches", lines, later)
    largest = f"{scores[-1].mean:.2f} (two seeds: {two[-1]:.2f})"

    # an ordinary Transformer: set before any run, the share of two seeds after a trial with two
    score = partial(mean_correlation, members=whole_count > LEAST)
    by_time = np.moveaxis(gained, 2, 0)  # time, half, seed, query, token
    laws = {
        law: np.array([np.mean([table([of], half, score)[0] for half in at], 0) for at in by_time])
        for law, of in {"first force": force, "frequency": whole_count}.items()
    }
    seeds_agree = [float(np.mean([agreement(half, score) for half in at])) for at in by_time]
    halves_agree = [elsewhere(table(at[0], at[1], score)) for at in by_time]
    above = simultaneous(
        {
            (rival, step): (laws["first force"] - other)[observed.index(step)]
            for rival, other in {"": 0.0, ", above that of frequency": laws["frequency"]}.items()
            for step in TRANSFORMER_SCORED
            if step in observed
        }
    )
    for (rival, step), uncut in above.items():
        two_seeds, two_halves = (of[observed.index(step)] for of in (seeds_agree, halves_agree))
        case = lab.case(update=step).under(
            Ceiling("two seeds", two_seeds, "seeds averaged"),
            Ceiling("two halves of the text", two_halves),
        )
        title = f"rank correlation of the first force with a Transformer{rival}"
        measured = cut(uncut, (-2.0, 2.0) if rival else CORRELATION)
        main.append(case.at_least(FORECAST_TRANSFORMER, title, measured, 0.0, strict=True))
    case = lab.case().under(Ceiling("two halves of the text", halves_agree[-1], limits=False))
    ratio = interval(laws["first force"][-1] / seeds_agree[-1])
    title = "rank correlation of the first force / that of two seeds"
    main.append(case.after_trial_runs.at_least(FORECAST_TRANSFORMER, title, ratio, HALF))
    lines = [
        Line(observed, of.mean(axis=1), law, LINE, tone, of.min(axis=1), of.max(axis=1))
        for tone, (law, of) in enumerate(laws.items())
    ]
    lines.append(Line(observed, seeds_agree, "ceiling: two seeds", DASHES, None))
    lines.append(Line(observed, halves_agree, "ceiling: two halves", DOTS, None))
    transformer = correlations(f"{texts[0]}, an ordinary Transformer", lines, observed)

    stages.claim_stages(
        lab.case(**{"trained by": "SGD"}), lab.case(**{"trained by": "Adam"}), trained, staged
    )
    lab.draw(
        *panels,
        caption="First row: how well each prediction orders the tokens that gain attention, and "
        "how well a run on other windows of the text does (dashed).",
    )
    lab.draw(
        with_batches,
        transformer,
        caption="Second row: the same against training with batches, with simultaneous 95 % "
        "intervals over seeds, and against an ordinary Transformer, with bands from the lowest to "
        "the highest seed. Rings, dashes and dots: how far runs agree with each other.",
    )
    name, law = key = texts[0], "decoder first"
    worst = min(intervals[text, law, "own"].mean for text in texts)
    return (
        f"{lab.yes_or_no(*main)}: in the theorem's own model, counts order tokens by their gains "
        f"at a rank correlation of {worst:.2f} or more. It is trained without noise for {LATER} "
        "updates on the counted sample; “rare words first” reaches "
        f"{max(rare[text, law] for text in texts):.2f}. Counts of another sample of {name} reach "
        f"{elsewhere(tables[key][0]):.2f}, a second run {elsewhere(tables[key][1]):.2f}. With "
        f"{batches[-1]} windows a batch the correlation is {largest}. For an ordinary Transformer "
        f"it is {laws['first force'][-1].mean():.2f} (two seeds: {seeds_agree[-1]:.2f})."
    )


def correlations(title: str, lines: Sequence[Line], times: Sequence[int]) -> Lines:
    y = "rank correlation with training"
    ticks = {float(time): str(time) for time in times}
    levels = {0.0: ""}
    return Lines(
        title,
        "updates",
        y,
        lines,
        "x",
        ylim=(-1, 1.05),
        levels=levels,
        ticks=ticks,
    )
