"""Plain descent couples classes by 1/M at first, then more if they overlap; in the end by one to
two times Theorem 1's E'.

The coupling of every pair of classes is read off the decoder of the plain flow (B) with attention
at rest, for four classes with unequal overlaps and for classes that overlap strongly, and compared
with the decoder's own equation and its closed forms, early and late
(`theory/scan_and_snap/pair_coupling.py`). Expect the equation to four digits, the closed forms
within 20 and 10 %, and Theorem 1 off by more than half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr

import saccade
from saccade.data.sequence_classes import SequenceClasses
from saccade.experiments.scan_and_snap.snap_growth import one_common_token
from saccade.lab.claim import FAILS, Case, Claim
from saccade.lab.panel import POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.observe.fits import Array, rank_correlation
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import met
from saccade.theory.scan_and_snap.open_statements import UNEQUAL_COUPLING
from saccade.theory.scan_and_snap.statements import PLAIN_COUPLING

_CLOSED = 0.2  # of the closed forms of plain descent
_LONG = 1e300  # end of the flow with strong overlaps: as far as a float reaches


@dataclass(frozen=True)
class Settings:
    n_vocab: int = 400
    """vocabulary of four classes with unequal overlaps"""
    t1: float = 1e12
    """end of the flow of the four classes, steps"""
    strong_feature: float = 0.55
    """feature of the common token of five classes that overlap strongly, followed to t = 1e300"""
    strong_vocab: int = 1000
    """vocabulary of these five classes"""


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


def measure(settings: Settings, on_progress: Progress) -> Measured:
    """Coupling of every ordered pair with attention at rest: of unequal classes over time, of
    strong ones in the end.
    """
    task = unequal_classes(settings.n_vocab)
    strong = one_common_token(
        n_classes=5,
        n_distinct=4,
        common_feature=settings.strong_feature,
        n_vocab=settings.strong_vocab,
    )
    t, found = _measured_coupling(task, settings.t1, 30)
    overlap, pairs = _overlaps(task), ~np.eye(task.n_classes, dtype=bool)
    exact = theory.plain_coupling(
        t, overlap=overlap, class_weight=task.class_weight, n_vocab=task.n_vocab, lr_decoder=1.0
    )
    height = np.log(task.n_vocab * t / task.n_classes)[:, None]
    on_progress(0.5)
    values = {
        "coupling_steps": t,
        "pair_overlap": overlap[pairs],
        "coupling": found[:, pairs],
        "exact_coupling": (exact.other / exact.own[:, :, None])[:, pairs],
        "early_coupling": theory.early_plain_coupling(height, overlap[pairs], n_vocab=task.n_vocab),
        "paper_coupling": theory.class_coupling(overlap)[pairs],
        "final_coupling": _measured_coupling(strong, _LONG, 2)[1][-1, 0, 1],
        "late_coupling": theory.late_plain_coupling(_overlaps(strong))[0, 1],
        "strong_paper_coupling": theory.class_coupling(_overlaps(strong))[0, 1],
    }
    return Measured(values, {})


def _overlaps(task: SequenceClasses) -> Array:
    return theory.class_overlap(theory.normalised_feature(task.token_prob))


def _measured_coupling(task: SequenceClasses, t1: float, n_times: int) -> tuple[Array, Array]:
    """Times, and beta_nn' / iota_n (time, class, class): g_n = Y (e_n - alpha_n) of the flow's
    decoder, split over the features.
    """
    path = saccade.flow(task, t1=t1, lr_attention=1e-12, n_times=n_times, keep=("decoder",))
    feature, own = (
        theory.normalised_feature(task.token_prob),
        (np.arange(task.n_classes), task.next_token),
    )
    found = []
    for decoder in path.decoder.values[1:]:
        logits = feature @ decoder
        wrong = np.exp(logits - logits[own][:, None])  # alpha_n over alpha_nn
        wrong[own] = 0.0
        error = -wrong
        error[own] = wrong.sum(axis=1)
        shares = np.linalg.lstsq(feature.T, decoder @ error.T, rcond=None)[
            0
        ].T  # (n, k): how much of f_k is in g_n
        found.append(-shares / np.diag(shares)[:, None])
    return path.time.values[1:], np.array(found)


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings, unequal = EXPERIMENT.settings_of(record), Case({"classes": "unequal"})
    found, exact, t = (
        record.coupling.values,
        record.exact_coupling.values,
        record.coupling_steps.values,
    )
    title = "coupling of a pair from the decoder's own equation, largest relative error"
    yield unequal.at_most(UNEQUAL_COUPLING, title, np.abs(found / exact - 1), 1e-4)
    height, largest = np.log(settings.n_vocab * t / 4), float(record.pair_overlap.max())
    early = (t >= 100) & (height * largest < np.log(settings.n_vocab / 4) / 2)
    title = "coupling of a pair from its overlap alone, early: largest relative error"
    yield unequal.at_most(
        UNEQUAL_COUPLING, title, np.abs(found / record.early_coupling.values - 1)[early], _CLOSED
    )
    late = unequal.breaking(met("other classes are a small part of the error", False))
    yield late.at_most(
        UNEQUAL_COUPLING, title, np.abs(found / record.early_coupling.values - 1)[-1], _CLOSED
    )
    title = "similar classes couple more: smallest rank correlation, early"
    order = [rank_correlation(row, record.pair_overlap.values) for row in found[early]]
    yield unequal.at_least(UNEQUAL_COUPLING, title, order, 0.95)
    title = "coupling of a pair at the end / Theorem 1's E'"
    yield unequal.near(
        PLAIN_COUPLING,
        title,
        found[-1] / record.paper_coupling.values,
        1,
        within=0.5,
        expected=FAILS,
    )
    strong = Case({"classes": "strong", "t": _LONG})
    final, limit = float(record.final_coupling), float(record.late_coupling)
    yield strong.near(
        UNEQUAL_COUPLING, "coupling at the end / a class's own term", final, limit, relative=0.1
    )
    title = "coupling at the end / Theorem 1's E'"
    yield strong.at_least(
        UNEQUAL_COUPLING, title, final / float(record.strong_paper_coupling), 1, strict=True
    )


def panels(record: xr.Dataset) -> Layout:
    lines, t, overlap = [], record.coupling_steps.values, record.pair_overlap.values
    for tone, i in enumerate(
        np.unique(np.round(overlap, 2), return_index=True)[1]
    ):  # one pair of each overlap
        share, paper = record.coupling.values[:, i], record.paper_coupling.values[i]
        lines += [
            Line(
                t,
                record.exact_coupling.values[:, i] / paper,
                "" if tone else "theory of plain descent",
                tone=tone,
            ),
            Line(t[::2], (share / paper)[::2], f"overlap {overlap[i]:.2f}", POINTS, tone),
        ]
    title, y = "unequal classes: how strongly pairs couple", "coupling over Theorem 1's"
    return [
        Lines(
            title,
            "t (steps)",
            y,
            lines,
            "x",
            xlim=(1, None),
            ylim=(0, None),
            levels={1.0: "Theorem 1"},
        )
    ]


EXPERIMENT = Experiment(
    "plain-coupling",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Coupling of pairs among four classes with unequal overlaps, relative to Theorem 1; points: decoder of the flow, lines: "
        "theory of plain descent."
    ),
    finding=(
        "our equation for plain descent gives the coupling of every pair of classes to "
        "{coupling of a pair from the decoder*:.1g}; with strong overlaps the coupling ends at "
        "{coupling at the end / Theorem 1*:.2f} times Theorem 1's"
    ),
    variables={
        "coupling_steps": Variable(
            "coupling_place", "steps of SGD", "time of each measured coupling"
        ),
        "pair_overlap": Variable(
            "pair", "1", "overlap of each ordered pair of the unequal classes"
        ),
        "coupling": Variable(
            "coupling_place pair",
            "1",
            "β/ι of each pair, from the decoder of the flow with attention at rest",
        ),
        "exact_coupling": Variable(
            "coupling_place pair", "1", "the same from the equation of the decoder"
        ),
        "early_coupling": Variable(
            "coupling_place pair", "1", "the same from the overlap alone, early"
        ),
        "paper_coupling": Variable("pair", "1", "E' of each pair, Theorem 1's coupling"),
        "final_coupling": Variable(
            "", "1", "β/ι of strongly overlapping classes at t = 1e300, attention at rest"
        ),
        "late_coupling": Variable("", "1", "the same by the limit of plain descent"),
        "strong_paper_coupling": Variable("", "1", "E' of the strongly overlapping classes"),
    },
    dynamics="B: population gradient flow",
    time_unit="steps of SGD",
)
