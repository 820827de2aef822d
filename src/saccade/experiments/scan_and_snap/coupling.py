"""How strongly learning one class pushes down the feature of another.

Under the theory's modified gradient: descent with every class drawn equally often on classes that
meet Assumption 2, then g = Y (e_n - α_n) by least squares on the features. Theorem 1 with its sign
fixed must be exact, and every drive positive. Under the plain gradient of real training: the same
for equal overlaps, then the plain flow (B) with attention at rest, for four classes with unequal
overlaps and for classes that overlap strongly.

Expect plain descent to couple classes by 1/M at first, whatever they share, then more if they
overlap, and in the end by one to two times Theorem 1's E'. Lemmas 13 to 17 are in the table of
formulas.
"""

from __future__ import annotations

from typing import Annotated as A
from typing import Any

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError, checked_list
from saccade.experiments.scan_and_snap.decoder_descent import (
    SentBack,
    descend,
    in_turn,
    paired_features,
    sent_back,
    tied_features,
)
from saccade.lab.experiment import Lab, experiment
from saccade.lab.panel import POINTS, Line, Lines
from saccade.lab.settings import Range
from saccade.observe import fits
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import met
from saccade.theory.scan_and_snap.open_statements import UNEQUAL_COUPLING
from saccade.theory.scan_and_snap.statements import PLAIN_COUPLING, THEOREM_1, THEOREM_1A

PLAIN_VOCAB, PLAIN_CLASSES, PLAIN_RATE = 1000, 2, 0.1  # of descent with equal overlaps
UNEQUAL_VOCAB = 400
LONG = 1e300  # end of the flow with strong overlaps: as far as a float reaches


@experiment("coupling", dynamics="A: batch 1, decoder only; B: plain flow, attention at rest")
def coupling(
    lab: Lab,
    overlaps: A[
        tuple[float, ...], "overlaps f_n·f_n' of the pairs 12, 13, ..., 23, ...: see Assumption 2"
    ] = (0.145, 0.15, 0.155),
    n_vocab: A[int, "vocabulary of these classes"] = 2000,
    lr_decoder: A[float, Range(1e-9, 1e3), "decoder rate of these classes, per step"] = 0.5,
    plain_overlap: A[float, Range(1e-9, 0.99), "overlap of both classes of plain descent"] = 0.31,
    looks: A[tuple[float, ...], "times of measurement in units of t₀' = K ln M/η_Y"] = (
        0.1,
        0.2,
        0.5,
        1.0,
        2.0,
        5.0,
        10.0,
        20.0,
        40.0,
    ),
    t1: A[float, "end of the plain flow of four unequal classes, steps"] = 1e12,
    strong_feature: A[
        float, Range(1e-9, 0.99), "common feature of strongly overlapping classes"
    ] = (0.55),
) -> str:
    """Does learning one class push the others down as strongly as Theorem 1 says?"""
    at = np.array(sorted(checked_list("looks", looks, low=1e-9, high=1e4)))
    feature, tied = paired_features(overlap_matrix(overlaps)), tied_features(plain_overlap, 2)
    if n_vocab <= len(feature):
        raise InputError(f"`n_vocab` must be above the {len(feature)} classes; got {n_vocab}.")

    # Theorem 1, exactly and up to its terms of order 1/M, for the modified gradient.
    rounds, letters = rounds_at(at, n_vocab, lr_decoder), {"n_vocab": n_vocab}
    seen = looked(feature, rounds, lr_decoder=lr_decoder, modified=True, **letters)
    speed = discrete_speed(rounds, n_vocab, lr_decoder)
    weights = np.stack([back.weights for back in seen]) / speed[:, None, None]
    off = ~np.eye(len(feature), dtype=bool)
    own, other = np.diagonal(weights, axis1=1, axis2=2), np.where(off, -weights, 0.0)
    overlap = theory.class_overlap(feature)
    E1 = theory.class_coupling(overlap)  # E'
    exact = theory.backprop_coefficients(E1, n_vocab=n_vocab)
    printed = theory.backprop_coefficients(E1, n_vocab=n_vocab, as_printed=True)
    case = lab.case(M=n_vocab)
    residual = [back.residual for back in seen]
    title = "g_n lies in the span of the features, largest relative residual"
    case.at_most(THEOREM_1, title, residual, 1e-12)
    case.at_most(THEOREM_1, "ι_n, largest gap", np.abs(own - exact.own), 1e-10)
    title = "β_nn' with its sign fixed, largest gap"
    main = [case.at_most(THEOREM_1, title, np.abs(other - exact.other), 1e-10)]
    beta = mean_other(other.mean(axis=0))
    case.erratum(
        THEOREM_1,
        "mean β_nn', sign of the q_0 (1 + θ) term",
        beta,
        number="0.8",
        printed=mean_other(printed.other),
        corrected=mean_other(exact.other),
        within=1e-10,
    )
    case.erratum(
        THEOREM_1,
        "mean β_nn' against E'_nn', sign of E' in the notation",
        beta,
        number="0.9",
        printed=mean_other(theory.class_coupling(overlap, as_printed=True)),
        corrected=mean_other(E1),
        within=3 / n_vocab,
    )
    conditions = theory.check_assumptions(
        feature / feature.sum(axis=1, keepdims=True),
        np.zeros(len(feature), int),
        np.full(len(feature), 1 / len(feature)),
        lr_decoder=lr_decoder,
        lr_attention=lr_decoder,
        n_context=np.inf,
        **letters,
    )
    needed = [one for one in conditions if one.name.startswith(("Assumption 2", "Theorem 1"))]
    weak, order = case.but(given=needed), 3 / n_vocab
    drive = np.array([theory.class_drive(overlap, one) for one in other])
    gaps = {
        "ι_n against 1 - E'_nn": (THEOREM_1, own - (1 - np.diag(E1))),
        "β_nn' against E'_nn'": (THEOREM_1, (other - E1)[:, off]),
        "ξ_n/γ against -E'_nn": (THEOREM_1A, drive - theory.drive_from_coupling(E1)),
    }
    for what, (statement, gap) in gaps.items():
        main.append(weak.at_most(statement, f"{what}, largest gap", np.abs(gap), order))
    main.append(weak.none(THEOREM_1A, "every drive ξ_n is positive, at all times", ~(drive > 0)))

    # Equal overlaps: the modified and the plain gradient side by side.
    rounds = rounds_at(at, PLAIN_VOCAB, PLAIN_RATE)
    letters = {"n_vocab": PLAIN_VOCAB, "lr_decoder": PLAIN_RATE}
    speed = discrete_speed(rounds, PLAIN_VOCAB, PLAIN_RATE)
    modified, plain = (
        np.array(
            [mean_other(-back.weights) for back in looked(tied, rounds, **letters, modified=m)]
        )
        / speed
        for m in (True, False)
    )
    letters["n_classes"] = PLAIN_CLASSES
    predicted = plain_beta(PLAIN_CLASSES * np.array(rounds), plain_overlap, letters)
    theorem = float(theory.equal_overlap_coupling(plain_overlap, n_classes=PLAIN_CLASSES)[0, 1])
    case = lab.case(M=PLAIN_VOCAB, overlaps="equal")
    title = "β along the modified gradient against E', largest gap"
    main.append(case.at_most(THEOREM_1, title, np.abs(modified - theorem), 3 / PLAIN_VOCAB))
    title = "β along the plain gradient against our equations, largest relative gap"
    case.at_most(PLAIN_COUPLING, title, np.abs(plain / predicted - 1), 0.1)
    title = f"β along the plain gradient over E', largest to {at[-1]:g} t₀'"
    share = case.at_most(PLAIN_COUPLING, title, plain / theorem, 0.2)
    for i in sorted({int(np.abs(np.log(at)).argmin()), len(at) - 1}):
        case.but(**{"t/t₀'": float(at[i])}).erratum(
            THEOREM_1,
            "β along the plain gradient: Theorem 1's E' or our equations",
            plain[i],
            number="0.2",
            printed=theorem,
            corrected=predicted[i],
            within=0.1 * predicted[i],
        )
    for name, values in {"modified": modified, "plain": plain}.items():
        about = "β: minus the weight of another class's feature in g_n, over γ"
        lab.keep("coupling", values, "look", about, gradient=name)
    lab.keep("look", at, "look", "time over t₀'")

    # Plain flow: every pair of four unequal classes, and classes that overlap strongly.
    task = unequal_classes(UNEQUAL_VOCAB)
    t, found = coupling_of_flow(task, t1, 30)
    overlap, pairs = overlap_of(task), ~np.eye(task.n_classes, dtype=bool)
    back = theory.plain_coupling(
        t, overlap=overlap, class_weight=task.class_weight, n_vocab=UNEQUAL_VOCAB, lr_decoder=1.0
    )
    found, ours = found[:, pairs], (back.other / back.own[:, :, None])[:, pairs]
    height = np.log(UNEQUAL_VOCAB * t / task.n_classes)
    closed = theory.early_plain_coupling(height[:, None], overlap[pairs], n_vocab=UNEQUAL_VOCAB)
    paper = theory.class_coupling(overlap)[pairs]
    case, error = lab.case(classes="unequal"), np.abs(found / closed - 1)
    title = "coupling of a pair from the decoder's own equation, largest relative error"
    case.at_most(UNEQUAL_COUPLING, title, np.abs(found / ours - 1), 1e-4)
    early = (t >= 100) & (height * overlap[pairs].max() < np.log(UNEQUAL_VOCAB / 4) / 2)
    title = "coupling of a pair from its overlap alone, early: largest relative error"
    case.at_most(UNEQUAL_COUPLING, title, error[early], 0.2)
    late = case.breaking(met("other classes are a small part of the error", False))
    late.at_most(UNEQUAL_COUPLING, title, error[-1], 0.2)
    ranks = [fits.rank_correlation(row, overlap[pairs]) for row in found[early]]
    title = "similar classes couple more: smallest rank correlation, early"
    case.at_least(UNEQUAL_COUPLING, title, ranks, 0.95)
    title = "coupling of a pair at the end / Theorem 1's E'"
    main.append(case.near(PLAIN_COUPLING, title, found[-1] / paper, 1, within=0.5))
    distinct = np.linspace(0.1, 1.0, 4)
    distinct *= np.sqrt(1 - strong_feature**2) / np.linalg.norm(distinct)
    prob = np.hstack([np.full((5, 1), strong_feature), np.kron(np.eye(5), distinct)])
    strong = SequenceClasses(prob, n_vocab=1000, normalise=True, name="one-common-5")
    final = float(coupling_of_flow(strong, LONG, 2)[1][-1, 0, 1])
    case = lab.case(classes="strong", t=LONG)
    limit = theory.late_plain_coupling(overlap_of(strong))[0, 1]
    case.near(
        UNEQUAL_COUPLING, "coupling at the end / a class's own term", final, limit, relative=0.1
    )
    ratio = final / theory.class_coupling(overlap_of(strong))[0, 1]
    title = "coupling at the end / Theorem 1's E'"
    most = case.at_least(UNEQUAL_COUPLING, title, ratio, 1, strict=True)
    lab.keep("pair_coupling", found, "time pair", "β/ι of each pair along the plain flow")
    lab.keep("time", t, "time", "steps of SGD", "steps")

    fine = np.geomspace(at[0] / 1.5, at[-1] * 1.5, 200)
    curve = plain_beta(fine * theory.scan_time(**letters), plain_overlap, letters)
    equal = [
        Line(fine, np.full_like(fine, theorem), "Theorem 1: E'_nn'"),
        Line(at, modified, "modified gradient (eq. 26)", POINTS),
        Line(fine, curve, "our equations for plain descent", tone=1),
        Line(at, plain, "plain gradient (eq. 7)", POINTS, 1),
    ]
    rows = []
    for tone, i in enumerate(np.unique(np.round(overlap[pairs], 2), return_index=True)[1]):
        label = f"overlap {overlap[pairs][i]:.2f}"
        rows += [
            Line(t, ours[:, i] / paper[i], tone=tone),
            Line(t[::2], (found[:, i] / paper[i])[::2], label, POINTS, tone),
        ]
    lab.draw(
        Lines(
            f"equal overlaps of {plain_overlap:g}",
            "t/t₀', t₀' = K ln M/η_Y",
            "coupling β_nn'",
            equal,
            "xy",
            ylim=(0.2 / PLAIN_VOCAB, None),
            levels={1 / PLAIN_VOCAB: "1/M"},
        ),
        Lines(
            "unequal classes under plain descent",
            "t (steps)",
            "coupling over Theorem 1's",
            rows,
            "x",
            xlim=(1, None),
            ylim=(0, None),
            levels={1.0: "Theorem 1"},
        ),
        caption="Panel 1 shows how strongly learning one class pushes down the feature of another. "
        "Theorem 1 holds for the modified gradient, for which it is proved. Plain descent starts at "
        "1/M, whatever the overlap. Panel 2 shows one pair of each overlap among four unequal "
        "classes. Points: measured; lines: theory.",
    )
    return (
        f"{lab.yes_or_no(*main)}: under the modified gradient, Theorem 1's coefficients are exact "
        f"to {main[0].measured:.0e} once a sign is corrected. Plain descent couples classes of "
        f"overlap {plain_overlap:g} at most {share.measured:.2g} times as strongly, up to t = "
        f"{at[-1]:g} t₀'. With strong overlaps its coupling ends at {most.measured:.2f} times "
        "Theorem 1's."
    )


def overlap_matrix(pairs: tuple[float, ...]) -> NDArray:
    """E from its entries above the diagonal."""
    n_classes = round((1 + np.sqrt(1 + 8 * len(pairs))) / 2)
    if n_classes < 2 or n_classes * (n_classes - 1) // 2 != len(pairs):
        raise InputError(
            "`overlaps` must hold one number for every pair of classes: 1, 3, 6, 10, ...; "
            f"got {len(pairs)}."
        )
    overlap = np.zeros((n_classes, n_classes))
    overlap[np.triu_indices(n_classes, 1)] = pairs
    overlap += overlap.T
    if overlap.min() < 0 or overlap.sum(axis=1).max() >= 1:
        raise InputError(
            "`overlaps` must not be negative, and those of a class with all others must sum to "
            f"less than 1; got {pairs}."
        )
    return overlap


def rounds_at(looks: NDArray, n_vocab: int, lr_decoder: float) -> list[int]:
    """Draws of each class at those multiples of t₀', at least one."""
    rounds = [max(1, round(look * np.log(n_vocab) / lr_decoder)) for look in looks]
    if len(set(rounds)) < len(rounds):
        raise InputError(
            f"`looks` must fall on different draws; they are draws {rounds} at rate {lr_decoder:g}. "
            "Lower the rate."
        )
    return rounds


def looked(feature: NDArray, rounds: list[int], **options: Any) -> list[SentBack]:
    """What is sent back after each number of rounds, in which every class is drawn once."""
    path = descend(feature, in_turn(rounds[-1], len(feature)), **options)
    steps = [len(feature) * draws for draws in rounds]
    return [sent_back(feature, decoder[0]) for step, decoder in enumerate(path) if step in steps]


def discrete_speed(rounds: list[int], n_vocab: int, lr_decoder: float) -> NDArray:
    """γ at the discrete height h*, the unit of ι and β."""
    height = theory.decoder_height_discrete(rounds[-1], n_vocab=n_vocab, lr_decoder=lr_decoder)
    return theory.speed_at_height(height[rounds], n_vocab=n_vocab)


def plain_beta(steps: NDArray, overlap: float, letters: dict[str, Any]) -> NDArray:
    """β of plain descent by our equations, in units of γ."""
    back = theory.plain_backprop(steps, overlap=overlap, **letters)
    return back.other / theory.speed(steps, **letters)


def mean_other(matrix: NDArray) -> float:
    """Mean of the entries off the diagonal."""
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())


def unequal_classes(n_vocab: int) -> SequenceClasses:
    """Four classes with one query: a token common to all, one shared by each pair of neighbours,
    and three distinct ones each.
    """
    weight = np.zeros((4, 16))
    weight[:, 0] = 0.15
    for pair, shared in enumerate((0.36, 0.26, 0.18)):
        weight[pair : pair + 2, 1 + pair] = shared
    for n in range(4):
        weight[n, 4 + 3 * n : 7 + 3 * n] = (0.3, 0.5, 0.8)
    return SequenceClasses(weight, n_vocab=n_vocab, normalise=True, name="unequal-4")


def overlap_of(task: SequenceClasses) -> NDArray:
    return theory.class_overlap(theory.normalised_feature(task.token_prob))


def coupling_of_flow(task: SequenceClasses, t1: float, n_times: int) -> tuple[NDArray, NDArray]:
    """Times, and β_nn' / ι_n (time, class, class): g_n = Y (e_n - α_n) of the flow's decoder, with
    attention at rest, split over the features.
    """
    path = saccade.flow(task, t1=t1, lr_attention=1e-12, n_times=n_times, keep=("decoder",))
    feature = theory.normalised_feature(task.token_prob)
    own, found = (np.arange(task.n_classes), task.next_token), []
    for decoder in path.decoder.values[1:]:
        logits = feature @ decoder
        wrong = np.exp(logits - logits[own][:, None])  # α_n over α_nn
        wrong[own] = 0.0
        error = -wrong
        error[own] = wrong.sum(axis=1)
        split = np.linalg.lstsq(feature.T, decoder @ error.T, rcond=None)[0].T  # (n, k): f_k in g_n
        found.append(-split / np.diag(split)[:, None])
    return path.time.values[1:], np.array(found)
