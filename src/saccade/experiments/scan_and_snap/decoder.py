"""How the decoder grows: Lemmas 3 and 5 to 12, Remark 1, Theorem 5 and Corollary 1 of Scan and Snap.

Descent along the theory's modified gradient, first on the features of Syn-Small with both classes
equally often: the height h* of a class, whether another class disturbs it, and how far it runs
ahead of the continuous h. Then with classes in random order, 100 runs: draws, heights and output
errors against their bounds, and the whole decoder against Theorem 5. Last the theory's own flow (C)
with attention held still: height and speed γ of attention until t = 10¹².

Expect heights and decoder to rounding, 0 ≤ h* - h ≤ 2 η_Y/M, at most a share δ of classes outside
any bound, and both forms of Lemma 9 within 5 % for t ≤ 0.1 t₀' and t ≥ 20 t₀. Remark 1, on plain
descent, fails for fewer classes than tokens. Lemma 8 and the peak of γ are in the table of formulas.
"""

from __future__ import annotations

from typing import Annotated as A
from typing import Any

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.errors import checked_count, checked_list
from saccade.experiments.scan_and_snap.decoder_descent import (
    descend,
    in_turn,
    output_error,
    tied_features,
)
from saccade.lab.experiment import Lab, experiment
from saccade.lab.panel import DASHES, DOTS, POINTS, RINGS, Line, Lines
from saccade.lab.settings import Range
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import at_least, met
from saccade.theory.scan_and_snap.statements import (
    COROLLARY_1,
    LEMMA_3,
    LEMMA_5,
    LEMMA_6,
    LEMMA_7,
    LEMMA_9,
    LEMMA_10,
    LEMMA_11,
    LEMMA_12,
    REMARK_1,
    STEPS_TO_ERROR,
    THEOREM_1B,
    THEOREM_5,
)

SHOWN = {50: (0.1, 2.0, 80), 1000: (0.2, 4.0, 70)}  # Fig. 8: lowest and highest rate, draws
REMARK_RATE, REMARK_DRAWS = 0.05, 400  # of plain descent
COUNTED: dict[str, Any] = {"n_vocab": 100, "n_classes": 3, "lr_decoder": 0.1}  # in random order
LONG_RUN = 10  # N >> K² read as N >= 10 K², as in theory.check_assumptions
TARGETS = np.array([0.5, 0.2, 0.1, 0.05, 0.02])  # output errors to be reached
FLOWED: dict[str, Any] = {"n_classes": 3, "lr_decoder": 1.0}  # along the flow


@experiment("decoder", dynamics="A: batch 1, decoder only; C: the theory's flow, attention still")
def decoder(
    lab: Lab,
    n_vocab: A[tuple[int, ...], Range(4, 1e6), "vocabularies of the descent in turn"] = (50, 1000),
    lr_decoder: A[tuple[float, ...], Range(1e-9, 1e3), "its decoder rates, per step"] = (
        0.1,
        0.2,
        0.5,
        1.0,
        2.0,
        4.0,
        8.0,
    ),
    draws: A[int, "times each class is drawn in turn"] = 200,
    overlap: A[float, Range(0.0, 0.99), "overlap of any two classes, but on Syn-Small"] = 0.2,
    runs: A[int, "random sequences of classes"] = 100,
    longest: A[int, Range(5, 30), "they have 2^longest steps"] = 13,
    failure_prob: A[float, Range(1e-9, 0.5), "δ, the failure probability of the bounds"] = 0.05,
    flow_vocab: A[tuple[int, ...], Range(10, 1e9), "vocabularies of the flow"] = (
        100,
        1_000,
        10_000,
        100_000,
        1_000_000,
    ),
    t1: A[float, "end of the flow, steps"] = 1e12,
    seed: A[int, "seed of the random orders"] = 0,
) -> str:
    """Does the decoder grow as Lemmas 3 to 12 and Theorem 5 say?"""
    rates = np.array(checked_list("lr_decoder", lr_decoder, low=0.0))
    parts, case = lab.each(range(3)), lab.case()

    # In turn: the height h* of a class, and its lead over the continuous h.
    next(parts)
    feature = theory.normalised_feature(saccade.SequenceClasses.syn_small().token_prob)
    feature = feature[:, feature.any(axis=0)]
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(feature)), draws))
    s, half, panels = np.arange(draws + 1), draws // 2, []
    ray_errors, moves, lowest, leads, left, ahead = [], [], [], [], [], []
    for M in lab.each(checked_list("n_vocab", n_vocab, low=4)):
        found = in_random_order(feature, order, int(M), rates)
        height, ray_error, moved = found
        each: list[dict[str, Any]] = [{"n_vocab": int(M), "lr_decoder": rate} for rate in rates]
        smooth = np.stack([theory.decoder_height(s, **one) for one in each])
        gap = height - smooth
        ray_errors.append(ray_error)
        moves.append(moved)
        lowest.append(gap.min())
        leads.append(gap / (2 * rates / M)[:, None])
        left += list((gap[:, 2 * half] / gap[:, half])[half * rates >= 5 * np.log(M)])
        reached = theory.draws_to_height(height, n_vocab=int(M), lr_decoder=rates[:, None])
        ahead.append((reached - s)[s * rates[:, None] <= np.log(M)].max())
        lab.keep("height", height, "rate draw", "own logit of class 1 over M - 1", n_vocab=int(M))
        lab.keep("continuous_height", smooth, "rate draw", "h of Lemma 6", n_vocab=int(M))
        panels.append(heights(int(M), rates, height, smooth))
    title = "largest change of a class's logits when another class is drawn"
    main = [case.at_most(LEMMA_3, title, moves, 1e-12)]
    title = "logits after s draws against (M - 1) h*(s) ζ_n, largest gap"
    main.append(case.at_most(LEMMA_5, title, ray_errors, 1e-12))
    title = "largest shortfall of h* below the continuous h"
    main.append(case.at_most(LEMMA_7, title, max(0.0, -min(lowest)), 1e-15))
    main.append(case.at_most(LEMMA_7, "largest lead h* - h, in units of 2 η_Y/M", leads, 1.0))
    late = case.but([met("some rate has learned its class by then", bool(left))])
    # Next to 1/s there is a logarithm: the lead is about ln(η_Y s)/(2 M s).
    title = "the lead decays as 1/s: at the last draw / half-way, largest"
    late.near(LEMMA_7, title, max(left, default=0.0), 0.5, within=0.1)
    close = case.at_most(
        LEMMA_7,
        "largest lead of h* over h in the first ln M/η_Y draws, in draws",
        ahead,
        1.0,
        sentence="Until it is nearly learnt, the decoder follows a smooth curve to within one "
        "training example.",
    )

    # Plain descent: Remark 1.
    sizes: dict[str, Any] = {"overlap": overlap, "lr_decoder": REMARK_RATE}
    plain, read = {}, {}
    for M, K in ((200, 4), (30, 30)):
        path = descend(
            tied := tied_features(overlap, K),
            in_turn(REMARK_DRAWS, K),
            n_vocab=M,
            lr_decoder=REMARK_RATE,
            modified=False,
        )
        *_, last = path
        plain[K] = float(np.diag(tied @ last[0]).mean())
        for printed in (True, False):
            logit = theory.remark_1_logit(REMARK_DRAWS, n_vocab=M, as_printed=printed, **sizes)
            read[K, printed] = float(logit[-1])
    exact = theory.plain_backprop(4 * REMARK_DRAWS, n_vocab=200, n_classes=4, **sizes).own_logit[0]
    # Before that both forms of Remark 1 are the same line, and no measurement could decide.
    learnt = at_least("η_Y s / ln M", REMARK_RATE * REMARK_DRAWS / np.log(200), 1.0)
    title = f"own logit under plain descent after {REMARK_DRAWS} draws of each class"
    for M, K, corrected in ((30, 30, read[30, False]), (200, 4, exact)):
        lab.case(learnt, K=K, M=M).erratum(
            REMARK_1,
            title,
            plain[K],
            number="0.3",
            printed=read[K, True],
            corrected=corrected,
            within=0.01 * plain[K],
            sentence="Remark 1 says that with overlapping classes plain descent acts like a "
            "smaller rate. Its formula is misprinted, and for fewer classes than tokens it is not "
            "true.",
        )
    title = "own logit under plain descent, as an effective rate (1 - ρ) η_Y"
    within = 0.01 * plain[4]
    few = lab.case(learnt, K=4, M=200)
    main.append(few.near(REMARK_1, title, plain[4], read[4, False], within=within))

    # In random order: draws, heights and output errors of each class, and the whole decoder.
    next(parts)
    M, K, eta_Y = COUNTED.values()
    tied, n_steps = tied_features(overlap, K), 2 ** np.arange(5, longest + 1)
    by_draw: dict[str, Any] = {"n_vocab": M, "lr_decoder": eta_Y}
    drawn = np.random.default_rng(seed).integers(K, size=(n_steps[-1], checked_count("runs", runs)))
    first_step = np.full((len(TARGETS), runs, K), np.nan)
    counts, own, errors, theorem_5, continuous = [], [], [], [], []
    for step, Y in enumerate(descend(tied, drawn, modified=True, **by_draw)):
        error = own_error(tied @ Y)
        length = error * np.sqrt(M / (M - 1))  # |ζ_n|: e_n - α_n is along ζ_n
        first_step[np.isnan(first_step) & (length <= TARGETS[:, None, None])] = step
        if step in n_steps:
            N = np.stack([(drawn[:step] == n).sum(axis=0) for n in range(K)], axis=1)
            discrete = theory.decoder_height_discrete(int(N.max()), **by_draw)[N]
            smooth = Y - from_heights(tied, theory.decoder_height(N, **by_draw), M)
            counts.append(N)
            own.append(np.einsum("nt,rtn->rn", tied, Y[..., :K]) / (M - 1))
            errors.append(error)
            theorem_5.append(np.abs(Y - from_heights(tied, discrete, M)).max())
            off = np.linalg.norm(smooth, axis=(1, 2)) / np.linalg.norm(Y, axis=(1, 2))
            continuous.append(off.max())
            lab.progress(step / n_steps[-1])
    share = np.ceil(n_steps / K)
    mean_height, delta = theory.decoder_height(share, **by_draw), failure_prob
    long_run, snapped = LONG_RUN * K**2 <= n_steps, theory.snap_time(**COUNTED) <= n_steps
    expected = {
        "draws": (counts, share),
        "height": (own, mean_height),
        "error": (errors, theory.class_error(mean_height, n_vocab=M)),
    }
    strayed = {
        name: np.abs(np.stack(values) / usual[:, None, None] - 1)
        for name, (values, usual) in expected.items()
    }
    bounds = {
        "draws": theory.draw_count_bound(n_steps, failure_prob=delta) / share,
        "height": theory.draw_spread(n_steps, failure_prob=delta) / share,
        "error": theory.error_deviation_bound(n_steps, **COUNTED, failure_prob=delta),
    }
    outside = []
    for name, kept, what, lemma in (
        ("draws", n_steps > 0, "draws further from N/K than sqrt(N/2 ln(2/δ)) + 1", LEMMA_10),
        ("height", long_run, "heights further from h(N/K) than h(N/K) Δ/(N/K)", LEMMA_11),
        ("error", ~snapped & long_run, "output errors off by more than η_Y Δ/3, N < t₀", LEMMA_12),
        (
            "error",
            snapped & long_run,
            "output errors off by more than Δ/(N/K), N ≥ t₀",
            COROLLARY_1,
        ),
    ):
        far = (strayed[name] > bounds[name][:, None, None]).mean(axis=(1, 2))[kept]
        at = lab.case(met("some N is in this range", bool(kept.any())))
        title = f"share of classes with {what}"
        outside.append(at.at_most(lemma, title, max(far, default=0.0), delta))
        lab.keep(f"{name}_strayed", strayed[name], "n_steps run class", "relative")
    lab.keep("n_steps", n_steps, "n_steps", "steps", "steps")
    title = "decoder against F (FᵀF)⁻¹ W, largest gap"
    main.append(lab.case(heights="h*(N_n)").at_most(THEOREM_5, title, theorem_5, 1e-12))
    *_, Y = descend(tied, drawn[:256, :1], modified=False, **by_draw)
    N = np.bincount(drawn[:256, 0], minlength=K)[None]
    discrete = theory.decoder_height_discrete(int(N.max()), **by_draw)[N]
    control = lab.case(heights="h*(N_n)").breaking("modified gradient (eq. 26)")
    control.at_most(THEOREM_5, title, np.abs(Y - from_heights(tied, discrete, M)), 1e-12)
    late = lab.case(met("N >> K^2", bool(long_run.any())))
    title = "decoder against F (FᵀF)⁻¹ W, largest relative gap"
    worst = max(np.array(continuous)[long_run], default=0.0)
    late.but(heights="h(N_n), continuous").at_most(THEOREM_5, title, worst, 0.01)
    ratio = theory.height_ratio_bound(n_steps, n_classes=K, failure_prob=delta)[:, None, None]
    far = (strayed["height"] > ratio).any(axis=2).mean(axis=1)[long_run]
    title = "share of runs with some θ_n above K sqrt(ln(K/δ)/N)"
    outside.append(late.at_most(THEOREM_5, title, max(far, default=0.0), delta))
    steps = first_step.mean(axis=(1, 2))
    reached = met("every class of every run reached every target", bool(np.isfinite(steps).all()))
    gaps = np.abs(steps / theory.steps_to_error(TARGETS, **COUNTED) - 1)
    title = "steps to an output error against Lemma 6, largest relative gap"
    lab.case(reached).at_most(STEPS_TO_ERROR, title, gaps, 0.03)
    title = "steps to an output error over K/(ε η_Y) ln(M/ε), largest"
    printed = K / (TARGETS * eta_Y) * np.log(M / TARGETS)
    outside.append(lab.case(reached).at_most(COROLLARY_1, title, steps / printed, 1.0))

    # The flow: height, and the speed that the decoder gives to attention.
    next(parts)
    shown, vocabularies = 1000, [int(M) for M in checked_list("flow_vocab", flow_vocab, low=10)]
    K, eta_Y = FLOWED.values()
    gaps_6: list[NDArray] = []
    forms: dict[str, list[NDArray]] = {
        "height η_Y t/(M K), t ≤ .1 t₀'": [],
        "height ln(M η_Y t/K)/M, t ≥ 20 t₀": [],
        "speed η_Y t/K, t ≤ .1 t₀'": [],
        "speed K ln(M η_Y t/K)/(η_Y t), t ≥ 20 t₀": [],
    }
    for M in lab.each(vocabularies):
        task = saccade.SequenceClasses(
            tied_features(overlap, K), n_vocab=M, normalise=True, name="tied classes"
        )
        path = saccade.reduced_flow(
            task,
            t1=t1,
            lr_decoder=eta_Y,
            lr_attention=0.0,
            n_times=600,
            rtol=1e-12,
            atol=1e-14,
            keep=(),
        )
        path = path.isel(time=path.time.values > 0)
        t, w = path.time.values, path.own_logit.values[:, 0]
        height = w / (M - 1)
        speed = w / (1 + np.exp(w - path.other_logit.values[:, 0] - np.log(M - 1)))
        by_step, by_draw = FLOWED | {"n_vocab": M}, {"n_vocab": M, "lr_decoder": eta_Y}
        scanned, frozen = theory.scan_time(**by_step), theory.snap_time(**by_step)
        early, late_t = t <= 0.1 * scanned, t >= 20 * frozen
        gaps_6.append(height / theory.decoder_height(t / K, **by_draw) - 1)
        for of, gap in zip(
            forms.values(),
            (
                (height / theory.early_decoder_height(t / K, **by_draw) - 1)[early],
                (height / theory.late_decoder_height(t / K, **by_draw) - 1)[late_t],
                (speed / theory.early_speed(t, **FLOWED) - 1)[early],
                (speed / theory.late_speed(t, **by_step) - 1)[late_t],
            ),
            strict=True,
        ):
            of.append(gap)
        if M == shown:
            i = int(np.abs(np.log(t / (100 * frozen))).argmin())
            forms_7 = [theory.late_speed(t[i], **by_step, as_printed=p) for p in (True, False)]
            ends = at_least("end of the flow over t₀", t[-1] / frozen, 90)
            lab.case(ends, M=shown).erratum(
                THEOREM_1B,
                "late speed, about 100 t₀",
                speed[i],
                number="0.7",
                printed=float(forms_7[0]),
                corrected=float(forms_7[1]),
                within=0.05 * float(forms_7[1]),
            )
            lab.keep("speed", speed, "time", "γ along the flow, M = 1000")
            lab.keep("time", t, "time", "steps of SGD", "steps")
            panels.append(speeds(t, speed, by_step))
    title = "height along the flow: largest relative gap"
    main.append(case.at_most(LEMMA_6, title, np.abs(np.concatenate(gaps_6)), 1e-8))
    for what, several in forms.items():
        gap = np.abs(np.concatenate(several))
        at = lab.case(met("the flow reaches such times", len(gap) > 0))
        title = f"{what}: largest relative gap"
        main.append(at.at_most(LEMMA_9, title, gap.max(initial=0.0), 0.05))
    next(parts, None)

    lab.draw(
        *panels,
        caption="The first panels show the height of a class after each of its draws; rates and "
        "ranges are those of Fig. 8. Dots: h*, measured while another class is learned in between "
        "(every third is drawn); lines: the continuous h of Lemma 6. Near ln M/M linear growth "
        "turns logarithmic. The next panel shows the speed γ that the decoder gives to attention; "
        "it peaks before t₀'.",
    )
    symbols = {
        "draws": ("draws (Lemma 10)", "|N_n/N̄ - 1|"),
        "height": ("height (Lemma 11, Theorem 5)", "|h(N_n)/h(N̄) - 1|"),
        "error": ("output error (Lemma 12, Corollary 1)", "relative change of 1 - α_nn"),
    }
    snap = float(theory.snap_time(**COUNTED))
    lab.draw(
        *(
            Lines(
                title,
                "N (steps)",
                y,
                [
                    Line(n_steps, bounds[name], f"bound, δ = {delta:g}", tone=None),
                    Line(n_steps, strayed[name].max(axis=(1, 2)), "largest", RINGS, i),
                    Line(
                        n_steps,
                        np.quantile(strayed[name], 1 - delta, axis=(1, 2)),
                        f"{1 - delta:.0%} stay below",
                        POINTS,
                        i,
                    ),
                ],
                "xy",
                marks={snap: "t₀"},
            )
            for i, (name, (title, y)) in enumerate(symbols.items())
        ),
        caption="The last row shows how far a class is from one with exactly N/K draws, when "
        "classes are drawn in random order. Lines: bounds that all but a share δ of the classes "
        "must stay below.",
    )
    gap = plain[4] / read[4, False] - 1
    return (
        f"{lab.yes_or_no(*main, *outside)}: under the modified gradient, logits match Lemma 5 to "
        f"{main[1].measured:.0e}. They lead the continuous flow by at most {close.measured:.2f} "
        "draws until a class is learnt. Remark 1, on plain descent, misses the logit of 4 classes "
        f"among 200 tokens by {abs(gap):.1%}."
    )


def in_random_order(
    feature: NDArray, order: NDArray[np.int64], n_vocab: int, rates: NDArray
) -> tuple[NDArray, float, float]:
    """Height of class 0 by draw (rate, draw); the largest gap of the logits from their ray, and the
    largest change of a class's logits when another one is drawn.
    """
    n_classes, n_draws = len(feature), len(order) // len(feature)
    discrete = np.stack(
        [
            theory.decoder_height_discrete(n_draws, n_vocab=n_vocab, lr_decoder=rate)
            for rate in rates
        ]
    )
    ray = (n_vocab - 1) * theory.class_directions(n_classes=n_classes, n_vocab=n_vocab)
    height, seen = np.zeros((len(rates), n_draws + 1)), np.zeros(n_classes, int)
    ray_error, moved = 0.0, 0.0
    drawn = np.tile(order[:, None], len(rates))
    path = descend(feature, drawn, n_vocab=n_vocab, lr_decoder=rates, modified=True)
    before = feature @ next(path)
    for n, Y in zip(order, path, strict=True):
        logits = feature @ Y
        seen[n] += 1
        gap = logits[:, n] - discrete[:, seen[n], None] * ray[n]
        ray_error = max(ray_error, float(np.abs(gap).max()))
        moved = max(moved, float(np.abs(np.delete(logits - before, n, axis=1)).max()))
        before = logits
        if n == 0:
            height[:, seen[0]] = logits[:, 0, 0] / (n_vocab - 1)
    return height, ray_error, moved


def own_error(logits: NDArray) -> NDArray:
    """1 - α_nn (run, class)."""
    n_runs, n_classes, n_vocab = logits.shape
    label = np.tile(np.arange(n_classes), n_runs)
    error = output_error(logits.reshape(-1, n_vocab), label)
    return error[np.arange(len(label)), label].reshape(n_runs, n_classes)


def from_heights(feature: NDArray, height: NDArray, n_vocab: int) -> NDArray:
    """The decoder of Theorem 5 (run, token, next token)."""
    n_tokens = feature.shape[1]
    whole = np.pad(feature, ((0, 0), (0, n_vocab - n_tokens)))
    return np.stack([theory.decoder_from_heights(whole, row)[:n_tokens] for row in height])


def heights(n_vocab: int, rates: NDArray, height: NDArray, smooth: NDArray) -> Lines:
    low, high, last = SHOWN.get(n_vocab, (0.0, np.inf, height.shape[1] - 1))
    s, lines = np.arange(last + 1), []
    shown = [i for i, rate in enumerate(rates) if low <= rate <= high]
    for place, i in enumerate(shown):
        shade = place / max(1, len(shown) - 1)
        lines += [
            Line(s, smooth[i, : last + 1], tone=shade),
            Line(s[::3], height[i, : last + 1 : 3], f"η_Y = {rates[i]:g}", POINTS, shade),
        ]
    knee = {float(np.log(n_vocab) / n_vocab): "ln M/M"}
    x, y = "s (draws of the class)", "height h* (dots), h (lines)"
    return Lines(f"M = {n_vocab}", x, y, lines, ylim=(0, None), levels=knee)


def speeds(times: NDArray, speed: NDArray, letters: dict[str, Any]) -> Lines:
    unit = theory.scan_time(**letters)
    t = np.geomspace(0.01, 1e4, 500) * unit
    late, early = t[t > unit], t[t < 6 * unit]
    rates = {"n_classes": letters["n_classes"], "lr_decoder": letters["lr_decoder"]}
    printed = theory.late_speed(late, **letters, as_printed=True)
    lines = [
        Line(t / unit, theory.speed(t, **letters), "exact (eq. 85)", tone=None),
        Line(early / unit, theory.early_speed(early, **rates), "early form", DASHES, 0),
        Line(late / unit, theory.late_speed(late, **letters), "late form", DASHES, 1),
        Line(late / unit, printed, "late, as printed", DOTS, 3),
        Line(times[::4] / unit, speed[::4], "along flow (C)", RINGS, 2),
    ]
    onset = float(theory.snap_time(**letters) / unit)
    marks = {1.0: "t₀'", onset: "t₀"}
    title, x = f"speed, M = {letters['n_vocab']}", "t/t₀', t₀' = K ln M/η_Y"
    return Lines(title, x, "speed γ", lines, "xy", (0.01, 1e4), (3e-4, 30), marks=marks)
