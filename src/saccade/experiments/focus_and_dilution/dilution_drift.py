"""Attention moves embedding mass from rare tokens to frequent ones, at twice its own rate, and so
undoes its own focus.

Starts the population flow at the unigram point with tiny attention, at a tiny random start, and on
the rank-one manifold, where the reduced flow must give the same path. Expect: the embedding leaves
the stationary distribution as e^{2ct}, each token as far as predicted. A query's focus peaks when
its own embedding has fallen to about half, and is gone where that crosses zero, rarest tokens
first. Expected to fail: the narrower range of peaks; ten tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.errors import checked_count, checked_number
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.experiments.focus_and_dilution.embedded_gradients import attention_force
from saccade.experiments.focus_and_dilution.named_laws import lazy_chains
from saccade.experiments.focus_and_dilution.stage_fits import STEPS
from saccade.lab.claim import CALCULUS, FAILS, HOLDS, REPLICATION, Case, Claim
from saccade.lab.panel import DASHES, DOTS, LINE, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import (
    Experiment,
    Measured,
    Progress,
    Variable,
    cell_rows,
    grid,
    stretch,
)
from saccade.model.embedded import Weights, weights_of
from saccade.model.rank_one import RankOne
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.observe.measures import singular_values
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import Condition, met
from saccade.theory.focus_and_dilution.statements import PROPOSITION_3_6, TOKEN_DRIFT, TURNING_RULE

UNIGRAM, RANDOM, MANIFOLD = "unigram point", "random", "rank-one manifold"
STARTS = (UNIGRAM, RANDOM, MANIFOLD)
AT_TOKEN = "path token"
COMPARED: dict[str, Any] = {
    "rtol": 1e-12,
    "atol": 1e-14,
}  # of two flows whose gap must be below 1e-8; at 1e-10 it is 2e-8
VARIABLES = {
    "path_time": Variable("path sample", STEPS, "times of the path"),
    "gamma": Variable("path sample token", "1", "embedding of each token along the one direction"),
    "on_frequent": Variable("path sample token", "1", "attention of each query on token 0"),
    "strength": Variable("path sample", "1", "η: query times key along the direction"),
    "drift": Variable(
        "path sample",
        "1",
        "norm of the displacement: embedding off the stationary distribution, since the plateau",
    ),
    "rate": Variable(
        "path",
        "1/time",
        "growth rate of that norm, over the attention window; of flows that start on the plateau",
    ),
    "amplitude_gap": Variable(
        "path",
        "1",
        "largest relative gap of a token's displacement to F η / 2c, upper half of the window",
    ),
    "linear_end": Variable("path", STEPS, "when the linear regime of attention ends"),
    "stationary": Variable(AT_TOKEN, "1", "frequency of the token"),
    "displacement": Variable(
        AT_TOKEN, "1", "of the token's embedding, at the end of the linear regime"
    ),
    "displacement_predicted": Variable(AT_TOKEN, "1", "F η / 2c, at the end of the linear regime"),
    "peak_time": Variable(
        AT_TOKEN,
        STEPS,
        "when the query's attention on token 0 peaks; none for token 0, which keeps its focus",
    ),
    "gamma_at_peak": Variable(
        AT_TOKEN, "1", "the query's embedding then, over its value at the unigram point"
    ),
    "crossing_time": Variable(AT_TOKEN, STEPS, "when the query's embedding crosses zero"),
    "strength_over_predicted": Variable(AT_TOKEN, "1", "η then, over the predicted one"),
    "force_gap": Variable(
        "law",
        "1",
        "largest gap, off π, of the force on a token's embedding per unit of η at the unigram point to F",
    ),
    "force_total": Variable("law", "1", "sum of F over tokens"),
    "manifold_gap": Variable(
        "law", "1", "largest difference of a weight between full and reduced flow from one point"
    ),
    "manifold_rank": Variable(
        "law", "1", "largest second singular value of the full flow's embedding over its first"
    ),
}


@dataclass(frozen=True)
class Settings:
    laws: tuple[str, ...] = ("paper", "zipf-6")
    """token frequencies of the chains: paper, zipf-6, '0.6 of 4' (0.6 for the first of four
    tokens), or numbers: 0.5,0.3,0.2
    """
    stays: tuple[float, ...] = (0.3, 0.5)
    """chance of repeating the last token in each, or one for all"""
    longer: str = "zipf-10"
    """token frequencies of one more chain, on the rank-one manifold only, with the last of `stays`
    """
    attention_size: float = 1e-5
    """size of query and key entries put at the unigram point"""
    init_scale: float = 1e-5
    """size of the random start"""
    manifold_size: float = 1e-2
    """size of query and key on the rank-one manifold"""
    n_times: int = 2000
    """samples of each path, log-spaced"""

    @property
    def everywhere(self) -> dict[str, saccade.MarkovChain]:
        """Those that are followed from all three starts."""
        return lazy_chains(self.laws, self.stays)

    @property
    def chains(self) -> dict[str, saccade.MarkovChain]:
        return lazy_chains((self.longer,), self.stays[-1:]) | self.everywhere

    @property
    def paths(self) -> list[tuple[str, str]]:
        """Law and start."""
        found = [(law, start) for start in STARTS for law in self.everywhere]
        return found if self.longer in self.everywhere else [*found, (self.longer, MANIFOLD)]


def measure(settings: Settings, on_progress: Progress) -> Measured:
    for name in ("attention_size", "init_scale", "manifold_size"):
        checked_number(name, getattr(settings, name), low=1e-8, high=0.1)
    checked_count("n_times", settings.n_times, low=100)
    of, paths = settings.chains, settings.paths
    stages.checked_moving(of)
    found = grid(
        lambda path: numbers(followed(of[path[0]], path[1], settings)),
        stretch(on_progress, 0.0, 0.85),
        path=paths,
    )
    laws = settings.everywhere
    found |= grid(partial(_at_points, settings=settings), stretch(on_progress, 0.85, 1.0), law=laws)
    return Measured(found, {"path": [f"{law}, {start}" for law, start in paths], "law": list(laws)})


class Path(NamedTuple):
    """A flow along its direction. `plateau` is the sample at which the plateau is reached: the
    first if the flow starts there.
    """

    chain: saccade.MarkovChain
    along: stages.Along
    on_frequent: Array  # time, query
    plateau: int = 0


def followed(chain: saccade.MarkovChain, start: str, settings: Settings) -> Path:
    if start == MANIFOLD:
        return _reduced_path(chain, settings)
    if start == UNIGRAM:
        run, plateau = (
            stages.flow_from_unigram(chain, settings.attention_size, 0, settings.n_times),
            0,
        )
    else:
        run = stages.flow_from_random(chain, settings.init_scale, 0, settings.n_times)
        plateau = stages.settled(run, chain.stationary)
    return Path(chain, stages.along(run, plateau), run.attention.values[:, :, 0], plateau)


def _reduced_path(chain: saccade.MarkovChain, settings: Settings) -> Path:
    run = _reduced(chain, settings, settings.n_times)
    gamma, query, key = run.gamma.values, run.query_scale.values, run.key_scale.values
    logits = (query * key)[:, None, None] * gamma[:, :, None] * gamma[:, None]
    along = stages.Along(run.time.values, gamma, query[:, None], key[:, None], query * key, logits)
    return Path(chain, along, run.attention.values[:, :, 0])


def _manifold_time(chain: saccade.MarkovChain, settings: Settings) -> float:
    """Until, in the linear flow, query and key have size ten: dilution is long over then, and no
    new direction has opened.
    """
    return float(np.log(10 / settings.manifold_size) / abs(stages.focus_rate(chain)))


def _reduced(
    chain: saccade.MarkovChain, settings: Settings, n_times: int, **accuracy: Any
) -> xr.Dataset:
    point, size = theory.unigram_point(stationary=chain.stationary), settings.manifold_size
    start = RankOne(point.gamma, point.beta, size, size)
    return saccade.reduced_flow(
        chain, t1=_manifold_time(chain, settings), n_times=n_times, start=start, **accuracy
    )


def _at_points(chain: saccade.MarkovChain, *, settings: Settings) -> dict[str, float]:
    gap, rank = manifold_gap(chain, settings)
    return {
        "force_gap": force_gap(attention_force(chain), chain),
        "force_total": theory.mass_redistribution(
            stationary=chain.stationary, transition=chain.transition
        ).sum(),
        "manifold_gap": gap,
        "manifold_rank": rank,
    }


def force_gap(force: Array, chain: saccade.MarkovChain) -> float:
    """To F, off π only: along π, the force also holds the embedding."""
    pi, P = chain.stationary, chain.transition
    return float(
        np.abs(
            theory.off_stationary(force, stationary=pi)
            - theory.drift_direction(stationary=pi, transition=P)
        ).max()
    )


def manifold_gap(chain: saccade.MarkovChain, settings: Settings) -> tuple[float, float]:
    """Full and reduced flow from one point of the manifold, along directions that are no axes."""
    reduced = _reduced(chain, settings, n_times=200, **COMPARED)
    alpha, key_alpha = np.ones(8) / np.sqrt(8), np.arange(1.0, 9.0) / np.sqrt(204)
    gamma, beta = reduced.gamma.values, reduced.beta.values
    query, key = (
        reduced[name].values[:, None, None] * np.outer(alpha, key_alpha)
        for name in ("query_scale", "key_scale")
    )
    expected = Weights(gamma[:, :, None] * alpha, query, key, alpha[:, None] * beta[:, None, :])
    start = Weights(*(matrix[0] for matrix in expected))
    full = saccade.flow(
        chain, t1=_manifold_time(chain, settings), n_times=200, start=start, **COMPARED
    ).isel(seed=0)
    values = singular_values(full.embedding.values)
    gap = max(
        float(np.abs(one - other).max())
        for one, other in zip(weights_of(full), expected, strict=True)
    )
    return gap, float((values[:, 1] / values[:, 0]).max())


def numbers(path: Path) -> dict[str, Any]:
    """What is read off a path. Displacement and strength count from the plateau on: nothing pulls
    the embedding of a random start exactly to π.
    """
    pi, P, (t, gamma, _, _, strength, *_) = path.chain.stationary, path.chain.transition, path.along
    window, end = stages.attention_window(path.along, path.plateau), stages.linear_end(path.along)
    off = theory.off_stationary(gamma, stationary=pi)
    moved = off - off[path.plateau]
    predicted = theory.drift_displacement(
        strength - strength[path.plateau], stationary=pi, transition=P
    )
    drift = np.linalg.norm(moved, axis=1)
    return {
        "path_time": t,
        "gamma": gamma,
        "on_frequent": path.on_frequent,
        "strength": strength,
        "drift": drift,
        "rate": fits.growth_rate(t, drift, window) if path.plateau == 0 else np.nan,
        "amplitude_gap": _amplitude_gap(moved, predicted, np.abs(strength), window),
        "linear_end": t[end],
        "stationary": pi,
        "displacement": moved[end],
        "displacement_predicted": predicted[end],
        **_turns(path, end),
    }


def _amplitude_gap(
    moved: Array, predicted: Array, strength: Array, window: NDArray[np.bool_]
) -> float:
    """Where the strength is above the geometric mean of its ends in the window: there, its start no
    longer counts.
    """
    if not window.any():
        return np.nan
    upper = window & (strength >= np.sqrt(strength[window][[0, -1]].prod()))
    return float(np.abs(moved[upper] / predicted[upper] - 1).max())


def _turns(path: Path, end: int) -> dict[str, Array]:
    """When each query's attention on token 0 peaks and when its embedding crosses zero; NaN where
    it does not happen.
    """
    pi, P, (t, gamma, _, _, strength, *_) = path.chain.stationary, path.chain.transition, path.along
    tilt = np.sign(stages.focus_rate(path.chain)) * path.on_frequent
    others = range(1, path.chain.n_vocab)
    peaks = np.array([np.nan, *(fits.peak_time(t, tilt[:, i], end) for i in others)])
    crossings = np.array(
        [np.nan, *(fits.reaching_time(t[end:], -gamma[end:, i], 0.0) for i in others)]
    )
    at_peak = np.array(
        [np.interp(peak, t, values) for peak, values in zip(peaks, gamma.T, strict=True)]
    )
    return {
        "peak_time": peaks,
        "gamma_at_peak": at_peak / theory.unigram_point(stationary=pi).gamma,
        "crossing_time": crossings,
        "strength_over_predicted": np.interp(crossings, t, strength)
        / theory.crossing_strength(stationary=pi, transition=P),
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    of, made = settings.chains, (settings.laws, settings.stays, settings.longer)
    seen = met(
        "chains on which turns were first seen",
        made == (Settings.laws, Settings.stays, Settings.longer),
    )
    for law in settings.everywhere:
        at, exact = record.sel(law=law), Case({"law": law}, against=CALCULUS)
        yield exact.at_most(
            TOKEN_DRIFT,
            "force of attention on the embedding, off π, against F, largest gap",
            at.force_gap,
            1e-8,
        )
        yield exact.at_most(TOKEN_DRIFT, "sum of F over tokens", np.abs(at.force_total), 1e-14)
    for law, start in settings.paths:
        at = record.sel(path=f"{law}, {start}").isel(token=slice(of[law].n_vocab))
        case = Case({"law": law, "start": start}, stages.conditions(of[law], ("I", "II")))
        yield from _drift_claims(at, case, start, _exponent(of[law]))
        if start != UNIGRAM:
            yield from _turn_claims(at, case, [*case.given, seen], law != settings.longer, start)
    for law in settings.everywhere:
        at, case = record.sel(law=law), Case({"law": law})
        yield case.at_most(
            PROPOSITION_3_6,
            "full and reduced flow from one point, largest gap of a weight",
            at.manifold_gap,
            1e-8,
        )
        yield case.at_most(
            PROPOSITION_3_6,
            "second singular value of the embedding over the first, full flow",
            at.manifold_rank,
            1e-8,
            sentence="The full flow, started on the rank-one manifold, stays there.",
        )


def _exponent(chain: saccade.MarkovChain) -> float:
    return theory.drift_exponent(stationary=chain.stationary, transition=chain.transition)


def _drift_claims(at: xr.Dataset, case: Case, start: str, exponent: float) -> Iterator[Claim]:
    if start == UNIGRAM:
        yield case.near(
            TOKEN_DRIFT,
            "growth rate of the drift",
            at.rate,
            exponent,
            relative=0.01,
            sentence="Embeddings drift from the token frequencies twice as fast as attention grows.",
        )
    if start != MANIFOLD:
        yield case.at_most(
            TOKEN_DRIFT,
            "drift of each token against F η / 2c, largest relative gap",
            at.amplitude_gap,
            0.01,
            sentence="How far each token drifts, and which way, follows from the chain.",
        )


def _turn_claims(
    at: xr.Dataset, case: Case, given: list[Condition], usual_length: bool, start: str
) -> Iterator[Claim]:
    peak, usual = (
        "γᵢ over its value at the unigram point when the focus of query i peaks",
        case.but(given=given),
    )
    shares, crossed = _present(at.gamma_at_peak), _present(at.strength_over_predicted)
    expected = HOLDS if usual_length else FAILS  # with ten tokens the rule is coarser
    # The rule says about half. A separate program saw 0.44 to 0.51, in two digits; 0.45 to 0.51 was
    # asked before our first run, and 35 % for crossings.
    seen_before = usual.but(against=REPLICATION)
    if start == MANIFOLD and usual_length:
        yield seen_before.but(range="asked at first").between(
            TURNING_RULE, peak, shares, 0.45, 0.51, expected=FAILS
        )
    yield seen_before.but(range="seen before").between(
        TURNING_RULE, peak, shares, 0.435, 0.515, expected=expected
    )
    title = "strength η when γᵢ crosses 0, over the predicted one"
    yield usual.near(TURNING_RULE, title, crossed, 1, within=0.35, expected=expected)
    # Never crossing is latest of all.
    pi, time = at.stationary.values[1:], np.nan_to_num(at.crossing_time.values[1:], nan=np.inf)
    later = (time[:, None] > time)[pi[:, None] < pi - 1e-12]  # tokens alike have no order
    yield case.none(TURNING_RULE, "of two tokens, the rarer one crosses zero first", later)


def _present(values: xr.DataArray) -> Array:
    """Without queries that do not turn or cross; NaN if none does."""
    found = values.values[np.isfinite(values.values)]
    return found if len(found) else np.array([np.nan])


def table(record: xr.Dataset) -> list[Mapping[str, Any]]:
    """A row for each token of each path."""
    return [row for row in cell_rows(record) if np.isfinite(row["stationary"])]


def panels(record: xr.Dataset) -> Layout:
    growth, shares, turns, settings = [], [], [], EXPERIMENT.settings_of(record)
    of = settings.chains
    for i, law in enumerate(settings.everywhere):
        n, exponent, tokens = of[law].n_vocab, _exponent(of[law]), np.arange(of[law].n_vocab)
        planted, random, manifold = (
            record.sel(path=f"{law}, {start}").isel(token=slice(n)) for start in STARTS
        )
        growth += _growth_lines(
            planted, f"{law}: 2c = {exponent:.4g}, measured {float(planted.rate):.4g}", exponent, i
        )
        size = np.linalg.norm(random.displacement_predicted)
        shares += [
            Line(
                tokens + 0.12 * (2 * i - 1),
                random.displacement / size,
                f"{law}, measured",
                RINGS,
                i,
            ),
            Line(
                tokens + 0.12 * (2 * i - 1),
                random.displacement_predicted / size,
                f"{law}, predicted",
                POINTS,
                i,
            ),
        ]
        turns += _turn_lines(manifold, float(of[law].stationary[0]), i)
    return [
        Lines(
            "drift",
            "time",
            "|γ off π|, embedding off the stationary distribution",
            growth,
            "y",
            ylim=(1e-9, 1),
        ),
        Lines(
            "which tokens gain and lose",
            "token, frequent to rare",
            "displacement / its predicted norm",
            shares,
            levels={0: ""},
        ),
        Lines(
            "where focus turns"
            + (f" (dashed: {settings.laws[1]})" if len(settings.laws) == 2 else ""),
            "share of γᵢ lost since the unigram point",
            "tilt / largest tilt",
            turns,
            xlim=(-0.05, 1.3),
            ylim=(-0.7, 1.2),
            levels={0: ""},
            marks={0.5: "half", 1: "γᵢ = 0"},
        ),
    ]


def _growth_lines(at: xr.Dataset, label: str, exponent: float, tone: int) -> list[Line]:
    t, drift, end = at.path_time.values, at.drift.values, float(at.linear_end)
    late = t[(t > 0.4 * end) & (t <= end)]
    guide = 2 * np.interp(end, t, drift) * np.exp(exponent * (late - end))
    return [
        Line(t[1:], drift[1:], label, tone=tone),
        Line(late, guide, "" if tone else "slope 2c", DOTS, None),
    ]


def _turn_lines(at: xr.Dataset, share: float, place: int) -> list[Line]:
    t, found, last = at.path_time.values, [], np.nanmax([*at.crossing_time, 0]) or np.inf
    for query in range(1, at.sizes["token"]):
        tilt, until = at.on_frequent.values[:, query] - share, t <= 1.05 * last
        height, lost = (
            np.interp(at.peak_time[query], t, tilt),
            1 - at.gamma.values[:, query] / at.gamma.values[0, query],
        )
        label, tone = f"query {query}" if place else "", min(1.0, (query - 1) / 4)
        found.append(
            Line(lost[until], tilt[until] / height, label, (LINE, DASHES)[place % 2], tone)
        )
        found.append(Line([1 - at.gamma_at_peak[query]], [1.0], "", POINTS, tone))
    return found


EXPERIMENT = Experiment(
    "dilution-drift",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: how far the embedding has left the stationary distribution, from the unigram point with tiny attention; dotted:"
        " growth as e^{2ct}. Panel 2: where it goes, token by token, at the end "
        "of the linear regime, from a random start. The frequent token gains, all others lose. Panel 3: the tilt of each query to"
        " token 0 over its largest, against how much of the query's own embedding is lost, on the rank-one manifold; time runs to"
        " the right. Dots: the peak. The tilt is gone where the embedding crosses zero; query 1 of zipf-6 turns back before it "
        "does."
    ),
    finding=(
        "the embedding drifts at rate {growth rate of the drift (law paper*:.4f} (2c within 1 %), each token to within {drift of "
        "each token*[max]:.1%} of its prediction"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model; C: rank-one flow, embedded model",
    time_unit=STEPS,
    table=table,
)
