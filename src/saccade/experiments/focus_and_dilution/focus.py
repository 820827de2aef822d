"""One number of the chain, its persistence c, decides which way attention first turns, and how fast.

Follows stage II, until attention on the frequent token is highest, on lazy chains from
anti-persistent to persistent, on general chains and on chains counted in a text: from the unigram
point with tiny attention that favours neither sign, and from small random starts, which reach that
point by themselves. The paper states it for equally frequent rare tokens, the third law here; for
the others it is ours. From a random start attention grows at |c| only where the plateau is reached
before attention moves. The flow comes no closer to that point than ε^(ρ/(ρ+c)), since attention
grows while the rest still relaxes. Not here: all modes around the point (`next_direction`).
"""

from __future__ import annotations

from typing import Annotated as A
from typing import Any, NamedTuple

import numpy as np

import saccade
from saccade.engines.randomness import checked_seeds
from saccade.errors import InputError, checked_list
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.experiments.focus_and_dilution.named_laws import FORMS, EqualLow, lazy_chains
from saccade.lab.experiment import Lab, experiment
from saccade.lab.relation import centre
from saccade.measures import fits
from saccade.models.embedded import weights_of
from saccade.panels import DOTS, POINTS, RINGS, Line, Lines, power_law
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import below
from saccade.theories.focus_and_dilution.statements import (
    ATTENTION_RATE,
    SIGN_RULE,
    THEOREM_3_5,
    UNIGRAM_POINT,
)

SMALL = 1e-3  # size of queries at which the clock of panel 2 starts
UNIGRAM = "unigram point"
RANDOM = "random"
START = 1e-5  # size of the random start, and of query and key entries put at the unigram point
TILTED = 0.15  # norm of the query matrix at which the tilt is measured: well inside stage II
APPROACHES = np.array([1e-3, 1e-5, 1e-7, 1e-9, 1e-11])  # starts whose closest approach is measured
PASSED = EqualLow(0.75, 4, 0.8)  # by these flows
# Charles Darwin, On the Origin of Species (1859), the end of its last chapter.
PARAGRAPH = (
    "It is interesting to contemplate an entangled bank, clothed with many plants of many "
    "kinds, with birds singing on the bushes, with various insects flitting about, and with "
    "worms crawling through the damp earth, and to reflect that these elaborately constructed"
    " forms, so different from each other, and dependent on each other in so complex a "
    "manner, have all been produced by laws acting around us. These laws, taken in the "
    "largest sense, being Growth with Reproduction; Inheritance which is almost implied by "
    "reproduction; Variability from the indirect and direct action of the external conditions"
    " of life, and from use and disuse; a Ratio of Increase so high as to lead to a Struggle "
    "for Life, and as a consequence to Natural Selection, entailing Divergence of Character "
    "and the Extinction of less-improved forms. Thus, from the war of nature, from famine and"
    " death, the most exalted object which we are capable of conceiving, namely, the "
    "production of the higher animals, directly follows. There is grandeur in this view of "
    "life, with its several powers, having been originally breathed into a few forms or into "
    "one; and that, whilst this planet has gone cycling on according to the fixed law of "
    "gravity, from so simple a beginning endless forms most beautiful and most wonderful have"
    " been, and are being, evolved."
)


class StageTwo(NamedTuple):
    """One flow from a small random start through stages I and II."""

    plateau_loss: float  # where it falls slowest between stage I and the onset of stage II
    rate: float  # growth rate of the queries along the direction, over the attention window
    cosine: Any  # of the logits with π πᵀ at the window's end
    misfit: float  # 1 minus the cosine of W_Q with α α̃ᵀ there, α̃ from the start
    share: float  # largest entry of Φ / |Φ| there
    rest: float  # least attention of the rarest query off token 0 along the flow


def stage_two(
    chain: saccade.MarkovChain, scale: float, seed: int
) -> tuple[StageTwo, fits.Array, fits.Array]:
    """With the queries along the direction, over time in e-folds of their growth."""
    pi = chain.stationary
    c = stages.focus_rate(chain)
    run = stages.flow_from_random(chain, scale, seed, 800)
    plateau = stages.settled(run, pi)
    path = stages.along(run, plateau)
    t = path.time
    queries = path.query_size
    linear = stages.linear_end(path)
    W0, WQ, *_ = weights_of(run)
    size = np.linalg.norm(W0, axis=(1, 2))
    half = theory.embedding_norm(stationary=pi) / 2

    # the onset of stage II: queries have three times their first norm
    norms = np.linalg.norm(WQ, axis=(1, 2))
    wait = slice(fits.first_index(size, half), fits.first_index(norms, 3 * norms[0]))
    loss = run.loss.values[wait]
    times = t[wait]
    slowest = np.argmax(np.gradient(loss, times)) if len(times) > 1 else None

    # W_Q and W_K grow alike from the start, or opposite where c is negative
    aim = path.query[0] + np.sign(c) * path.key[0]
    direction = stages.top_direction(W0[plateau])
    scores = path.scores[linear]
    found = StageTwo(
        plateau_loss=np.nan if slowest is None else float(loss[slowest]),
        rate=fits.growth_rate(t, queries, stages.attention_window(path, plateau)),
        cosine=theory.alignment(scores, np.outer(pi, pi)),
        misfit=float(1 - theory.alignment(WQ[linear], np.outer(direction, aim))),
        share=np.abs(scores).max() / np.linalg.norm(scores),
        rest=1 - run.attention.values[:, -1, 0].max(),
    )
    return found, abs(c) * (t - fits.reaching_time(t, queries, SMALL)), queries


class Turn(NamedTuple):
    """Which way attention turns, in one flow or in several."""

    c: Any  # predicted rate
    hurry: Any  # its size over the rate of condensation
    rate: Any
    sign: Any  # 1 where every query tilts to token 0, -1 where every query tilts away, else 0
    cosine: Any  # of the attention logits with π πᵀ, middle of the window


def turn(chain: saccade.MarkovChain, start: str) -> Turn:
    """From the unigram point until the linear flow's query matrix is a third larger than where the
    tilt is measured.
    """
    c = stages.focus_rate(chain)
    pi = chain.stationary
    plateau = 0
    if start == RANDOM:
        run = stages.flow_from_random(chain, START, 0, 1000)
        plateau = stages.settled(run, pi)
    else:
        point = stages.near_unigram(chain, START, seed=0)
        growth = 4 / 3 * TILTED / np.linalg.norm(point.query)
        alpha = np.eye(len(point.query))[0]
        t1 = theory.focus_onset(
            point.query, point.key, direction=alpha, rate=c, growth=float(growth)
        )
        run = saccade.flow(
            chain,
            t1=t1,
            n_times=500,
            start=point,
        ).isel(seed=0)
    path = stages.along(run, plateau)
    queries = path.query_size
    window = stages.attention_window(path, plateau)
    # half way through the window in log size neither start nor drift counts
    inside = queries[window]
    middle = np.sqrt(inside[0] * inside[-1]) if len(inside) else np.inf
    half = fits.first_index(queries, middle)
    norms = np.linalg.norm(run.query_matrix.values, axis=(1, 2))
    at = fits.reaching_time(path.time, norms, TILTED)
    tilts = run.attention.values[:, :, 0] - pi[0]
    tilt = np.array([np.interp(at, path.time, one) for one in tilts.T])
    return Turn(
        c=c,
        hurry=np.abs(c) / theory.condensation_rate(stationary=pi),
        rate=fits.growth_rate(path.time, queries, window),
        sign=int(np.all(tilt > 0)) - int(np.all(tilt < 0)),
        cosine=float(theory.alignment(path.scores[half], np.outer(pi, pi))),
    )


def chains_of_both_signs(
    zipf_stays: tuple[float, ...], n_random: int
) -> dict[str, saccade.MarkovChain]:
    """Lazy ones from anti-persistent to persistent, general ones, text."""
    make = saccade.MarkovChain
    law = make.zipf(6).stationary
    found = {f"zipf-6, stay {stay:g}": make.zipf(6, stay) for stay in zipf_stays}
    found |= {f"paper, stay {stay:g}": make.paper(stay) for stay in (-0.01, 0.3)}
    found |= {
        "two-level, stay 0.4": make.two_level(6, 0.4, 0.02, stay=0.4),
        "Metropolis": make.metropolis(law),
    }
    found |= {f"random {seed}": make.random(law, seed) for seed in range(n_random)}
    found |= {f"text, {n} words": make.from_text(PARAGRAPH, "word", n) for n in (6, 12)}
    return found | {"text, characters": make.from_text(PARAGRAPH, "character")}


def closest(scale: float) -> float:
    """Distance of a flow to the second critical point, in the direction that it condenses to."""
    chain = PASSED.chain
    start = stages.small_start(PASSED.n_vocab, scale, 1, 3)
    law = PASSED.law
    pi = chain.stationary
    ends = (start.embedding, start.projection)
    near = float(theory.arrival_time(*ends, shortfall=0.01, **law))
    relaxing = np.log(1 / scale) / theory.relaxation_rate(**law)
    times = np.append(0.0, np.linspace(near, near + 1.3 * relaxing + 10, 600))
    path = stages.accurate_flow(chain, start, times, scale)
    direction = theory.condensed_direction(*ends, stationary=pi)
    point = theory.unigram_weights(
        stationary=pi,
        direction=direction,
        d_key=3,
    )
    squares = [np.sum((one - at) ** 2, axis=(1, 2)) for one, at in zip(path, point, strict=True)]
    return float(np.sqrt(np.sum(squares, axis=0).min()))


@experiment("focus", dynamics="B: population gradient flow, embedded model", time_unit=stages.STEPS)
def focus(
    lab: Lab,
    zipf_stays: A[
        tuple[float, ...], "chance of repeating the last token, with six tokens; below 0: avoided"
    ] = (-0.07, -0.05, -0.02, 0.1, 0.3, 0.5, 0.8),
    n_random: A[int, "random chains with the same token frequencies"] = 4,
    random_starts: A[tuple[str, ...], "chains also followed from a small random start"] = (
        "zipf-6, stay -0.05",
        "zipf-6, stay 0.5",
        "text, 6 words",
    ),
    laws: A[tuple[str, ...], "token frequencies of the chains of stage II: " + FORMS] = (
        "paper",
        "zipf-6",
        "0.6 of 4",
    ),
    stays: A[tuple[float, ...], "chance of repeating the last token: each, or one for all"] = (
        0.3,
        0.5,
        0.5,
    ),
    init_scales: A[tuple[float, ...], "sizes of the random starts, at least two"] = (
        1e-3,
        1e-4,
        1e-5,
    ),
    seeds: A[int | tuple[int, ...], "number of random starts of each size, or a list of seeds"] = 3,
) -> str:
    """Does one number of the chain decide which way attention first turns, and how fast?"""
    sizes = np.sort(checked_list("init_scales", init_scales, low=1e-8, high=1e-2))[::-1]
    if len(sizes) < 2:
        raise InputError(
            "`init_scales` must list at least two sizes: "
            "how far queries have turned is compared between them."
        )
    named = chains_of_both_signs(zipf_stays, n_random)
    chains = lazy_chains(laws, stays)
    starts = checked_seeds(seeds)
    stages.checked_moving(named | chains)
    if unknown := set(random_starts) - set(named):
        raise InputError(
            f"`random_starts` must name some of the chains, {', '.join(named)}; "
            f"got {sorted(unknown)[0]!r}."
        )
    runs: list[tuple[str, str]] = [(name, UNIGRAM) for name in named]
    runs += [(name, RANDOM) for name in random_starts]
    turns = {}
    stage = []
    growth = list[Line]()
    main = []
    for one in lab.each([*runs, *chains]):
        if isinstance(one, tuple):
            turns[one] = turn(named[one[0]], one[1])
            continue
        flows = [
            [stage_two(chains[one], size, seed) for seed in starts] for size in lab.each(sizes)
        ]
        stage.append([[found for found, _, _ in row] for row in flows])
        growth.append(Line(*flows[-1][0][1:], one, tone=len(growth)))

    # which way: sign, rate and shape, on every chain
    rates = [one.c for one in turns.values()]
    ends = 1.15 * np.array([min(rates), max(rates)])
    points = [Line(ends, ends, "measured = predicted", tone=None)]
    for start in (UNIGRAM, RANDOM):
        of = Turn(*np.transpose([one for (_, begun), one in turns.items() if begun == start]))
        slower = below("attention slower than condensation", max(of.hurry), 1.0, "largest |c| / μ₀")
        given = [slower] if start == RANDOM else []
        case = lab.case(*given, start=start)
        sign = np.sign(of.c)
        points.append(Line(of.c, of.sign * of.rate, start, POINTS if len(points) < 2 else RINGS))
        main += [
            case.none(
                SIGN_RULE,
                "all queries tilt to token 0 where c > 0, away from it where c < 0",
                of.sign != sign,
            ),
            case.at_most(
                ATTENTION_RATE,
                "growth rate of queries against |c|, largest relative gap",
                np.abs(of.rate / np.abs(of.c) - 1),
                0.005,
            ),
        ]
        case.at_least(
            SIGN_RULE,
            "cosine of the logits with π πᵀ, times the sign of c",
            sign * of.cosine,
            1 - 1e-4,
        )

    # stage II from random starts: law, size of the start, seed
    by = {
        name: np.array([[[getattr(run, name) for run in row] for row in rows] for rows in stage])
        for name in StageTwo._fields
    }
    needs = []
    for place, (law, chain) in enumerate(chains.items()):
        pi = chain.stationary
        c = stages.focus_rate(chain)
        needs.append(stages.conditions(chain, ("I", "II"), float(sizes[0])))
        case = lab.case(*needs[-1], law=law)
        for seed, grown in zip(starts, by["rate"][place].T, strict=True):
            lab.keep(
                "rate",
                grown,
                "size",
                "growth rate of queries",
                law=law,
                seed=seed,
            )
        case.near(
            UNIGRAM_POINT,
            "loss on the plateau",
            by["plateau_loss"][place, 0],
            theory.unigram_loss(stationary=pi),
            within=5e-4,
        )
        case.near(
            ATTENTION_RATE,
            "growth rate of queries",
            by["rate"][place, -1],
            abs(c),
            relative=0.005,
        )
        corrected = pi[0] ** 2 / (pi @ pi)
        case.erratum(
            THEOREM_3_5,
            "largest entry of Φ / |Φ|",
            fits.furthest(by["share"][place, -1], corrected),
            number="1.5",
            printed=pi[0] ** 2,
            corrected=corrected,
            within=0.01,
        )
    # of each assumption the chain that misses it, if one does
    whole = lab.case(*[min(same, key=lambda one: one.holds) for same in zip(*needs, strict=True)])
    signs = np.sign([stages.focus_rate(chain) for chain in chains.values()])
    whole.near(
        THEOREM_3_5,
        "cosine of the attention logits with π πᵀ, times the sign of c",
        signs[:, None] * by["cosine"][:, 0],
        1,
        within=1e-4,
    )
    whole.near(
        THEOREM_3_5,
        "power of the start's size in how far W_Q is from α α̃ᵀ",
        [[fits.power(sizes, one) for one in rows.T] for rows in by["misfit"]],
        2,
        within=0.05,
    )
    whole.breaking("eq. 17: frozen embeddings").at_most(
        THEOREM_3_5,
        "attention of the rarest query off token 0, along the flow",
        by["rest"][:, 0],
        1e-6,
    )

    # how close the flow comes to the unigram point; the power is a limit
    gaps = [closest(size) for size in APPROACHES]
    rho = theory.relaxation_rate(**PASSED.law)
    power = rho / (rho + theory.two_level_focus_rate(stay=PASSED.stay, **PASSED.law))
    lab.case().erratum(
        THEOREM_3_5,
        "power of ε in the closest distance to the critical point, two smallest starts",
        fits.power(APPROACHES[-2:], gaps[-2:]),
        number="1.11",
        printed=1,
        corrected=power,
        within=0.01,
    )

    ahead = np.array([-4.5, 7.0])
    growth.append(Line(ahead, 2 * SMALL * np.exp(ahead), "slope predicted", DOTS, None))
    lab.draw(
        Lines(
            "rate and sign",
            "predicted rate c",
            "measured rate, with its sign",
            points,
            levels={0: ""},
            marks={0: ""},
        ),
        Lines(
            "attention grows like exp(c t)",
            f"c · (time since |αᵀ W_Q| = {SMALL:g})",
            "|αᵀ W_Q|",
            growth,
            "y",
            (-7, 8),
            (1e-5, 3),
        ),
        Lines(
            "closest approach to the unigram point",
            "size of the start",
            "distance",
            [
                Line(APPROACHES, gaps, "flow", POINTS),
                power_law(APPROACHES, gaps, power, f"power {power:.3f}, ρ/(ρ+c)"),
                power_law(APPROACHES, gaps, 1, "power 1, as assumed")._replace(style=DOTS),
            ],
            "xy",
        ),
        caption="Panel 1 shows the measured growth rate of attention, positive where every query "
        "turns to token 0 and negative where every query turns away; one point per chain. Panel 2 "
        "shows queries along the one direction from the smallest start, flat until the embedding "
        "has condensed. They grow with the predicted slope until dilution begins. Panel 3 shows how "
        "close flows from small starts come to the unigram point.",
    )
    away = sum(stages.focus_rate(chain) < 0 for chain in named.values())
    return (
        f"{lab.yes_or_no(*main)}: in the population flow, the sign of c predicts each query's "
        f"turn, with {main[0].measured:g} exceptions on {len(named)} chains. On {away} of them c "
        "is negative, so attention should turn away from frequent tokens. Attention grows at the "
        f"rate |c| to {100 * centre(main[1].measured):.1g}%."
    )
