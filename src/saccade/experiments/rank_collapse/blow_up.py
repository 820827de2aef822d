"""Every random start blows up in finite time and condenses by itself; on the rank-one manifold the time is Carlson's integral.

Follows the cubic flow of three factors from random starts of several widths, from starts of rank one, from degenerate ones and from
ones of small energy, to sizes of a million and beyond. Expect: both matrix laws to 1e-10, T* = R_F to 1e-9, no violated bound,
Assumption 1 met by every start and never lost, but only at sizes of about width^1.8. Tolerances are those set down before the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

import saccade
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable, padded
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.lab.settings import Range
from saccade.observe.fits import Array, power
from saccade.theory import rank_collapse as theory
from saccade.theory.rank_collapse import statements as stated

SIZES = (1e2, 1e3, 1e4)  # at which the approach to the asymptotics is read
LARGE = 1e6  # size that counts as blown up
PAPER_SIZE = 640**0.85  # one over the paper's initial scale: where its network leaves the cubic flow, up to a factor of order one
GRID = np.geomspace(1, 1e5, 60)  # sizes at which the share that meets Assumption 1 is drawn

VARIABLES = {
    "energy_0": Variable("width start", "1", "w A b at the start"),
    "time": Variable("width start", "1", "when the start is infinite, in the flow's own time"),
    "last_size": Variable("width start", "1", "size of the weights at the end of the run"),
    "first_law": Variable("width start", "1", "largest drift of an entry of w w^T - A A^T, over the size squared"),
    "second_law": Variable("width start", "1", "the same of A^T A - b b^T"),
    "power_error": Variable("width start", "1", "largest relative error of eq. 16"),
    "below_bound": Variable("width start", "1", "samples below the bounds of eqs. 11 and 12, of a million parts"),
    "met_at_start": Variable("width start", "1", "1 if Assumption 1 is met at the start"),
    "met_size": Variable("width start", "1", "size at which Assumption 1 is first met; NaN: never"),
    "lost": Variable("width start", "1", "1 if it is not met at a later sample"),
    "approach": Variable("width start size", "1", "E' / E^(4/3) at some sizes"),
    "speed_ratio": Variable("width start size", "1", "|b'| / |w|^2 there"),
    "alignment": Variable("width start", "1", "smallest cosine between weighted rows w_i A_i, at the end"),
    "velocity_alignment": Variable("width start", "1", "smallest cosine of b' and a weighted row, at the end"),
    "readout_side": Variable("width start", "1", "smallest cosine of b and a weighted row since Assumption 1 is met"),
    "velocity_side": Variable("width start", "1", "smallest cosine of b and b' since then"),
    "pair_law": Variable("width start", "1", "largest drift of w_1 w_2 - A_1 A_2, the root of eq. 27, over the size squared"),
    "remaining": Variable("width start size", "1", "E^(1/3) (T* - t) there"),
    "row_share": Variable("width start", "1", "share of pairs of rows w_i A_i on one side, at the end"),
    "column_share": Variable("width start", "1", "the same of columns w_i A^i, as printed"),
    "share": Variable("width grid", "1", "share of the starts that meet Assumption 1 at a size"),
    "rank_one_time": Variable("case", "1", "blow-up time of a start of rank one"),
    "rank_one_predicted": Variable("case", "1", "the same by Carlson's integral"),
    "degenerate_value": Variable("degenerate", "1", "the expression of eq. 10 over the fourth power of the size"),
    "degenerate_size": Variable("degenerate", "1", "size at the end, of degenerate starts with negative energy"),
    "small_energy": Variable("small", "1", "energy of starts that differ only in it"),
    "small_constant": Variable("small", "1", "C that eq. 39 needs at t = 0"),
    "curve_time": Variable("curve sample", "1", "time before the blow-up, second width"),
    "curve_root": Variable("curve sample", "1", "E^(-1/3) with the sign of E"),
}


@dataclass(frozen=True)
class Settings:
    widths: Annotated[tuple[int, ...], Range(2, 64)] = (2, 4, 8, 16, 32)
    """widths of the factors"""
    starts: Annotated[tuple[int, ...], Range(2, 1e4)] = (60, 40, 24, 10, 5)
    """number of random starts of each width"""
    seed: int = 0
    """seed of the random starts"""
    tau: Annotated[float, Range(14, 40)] = 17.0
    """how long to follow them, in units in which they grow like e^tau"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    if len(settings.widths) != len(settings.starts) or len(settings.widths) < 2:
        raise saccade.InputError("`widths` and `starts` must have one value for each ensemble, at least two.")
    found = []
    for done, (width, n) in enumerate(zip(settings.widths, settings.starts, strict=True), 1):
        found.append(_ensemble(saccade.CubicFlow.random(n, width, settings.seed), settings.tau))
        on_progress(0.8 * done / len(settings.widths))
    curves = {name: [each.pop(name) for each in found][1] for name in ("curve_time", "curve_root")}
    values = {name: padded([each[name] for each in found]) for name in found[0]} | curves
    values |= _rank_one(settings) | _degenerate(settings) | _small_energy(settings)
    return Measured(values, {"width": list(settings.widths), "size": list(SIZES), "grid": GRID})


def _run(system: saccade.CubicFlow, tau: float) -> tuple[Array, Array, Array, Array, Array, Array]:
    """w, A, b, t, E and R, each (time, start, ...)."""
    run = saccade.flow(system, times=np.arange(0.1, tau, 0.1), method="DOP853")
    w, A, b, t = (run[f"parameter_{part}"].values for part in ("along", "hidden", "readout", "clock"))
    return w, A, b, t, run["energy"].values, run["size"].values


def _end(t: Array, E: Array) -> Array:
    """T*: what is left of it at size R is E^(-1/3), to a share of R^-2."""
    return t[-1] + np.cbrt(E[-1]) ** -1


def _ensemble(system: saccade.CubicFlow, tau: float) -> dict[str, Any]:
    w, A, b, t, E, R = _run(system, tau)
    starts, end = np.arange(E.shape[1]), _end(t, E)
    w_dot, A_dot, b_dot = theory.slopes(w, A, b)
    E_dot = np.sum([theory.factor_energy(*each) for each in ((w_dot, A, b), (w, A_dot, b), (w, A, b_dot))], axis=0)
    squares = np.sum(w_dot**2, -1) + np.sum(b_dot**2, -1) + np.sum(w**2, -1) * np.sum(b**2, -1)
    drifts = [np.abs(law - law[0]) / R[..., None, None] ** 2 for law in theory.conserved(w, A, b)]
    met = theory.condensation_condition(w, A, b)
    first = met.argmax(axis=0)
    since = np.arange(len(t))[:, None] >= first
    rows = w[..., :, None] * A
    between_rows = _cosines(rows)
    at = [np.argmax(size <= R, axis=0) for size in SIZES]
    bounds = np.stack([theory.energy_bound(t[:, s], float(E[0, s])) for s in starts], axis=1)
    return {
        "energy_0": E[0],
        "time": end,
        "last_size": R[-1],
        "first_law": drifts[0].max(axis=(0, 2, 3)),
        "second_law": drifts[1].max(axis=(0, 2, 3)),
        "pair_law": drifts[0][..., 0, 1].max(axis=0),
        "power_error": np.abs(E_dot / squares - 1).max(axis=0),
        "below_bound": (bounds - 1e-6 * np.abs(bounds) > E).sum(axis=0).astype(float),
        "met_at_start": met[0].astype(float),
        "met_size": np.where(met.any(axis=0), R[first, starts], np.nan),
        "lost": (since & ~met).any(axis=0).astype(float),
        "approach": np.stack([E_dot[i, starts] / np.cbrt(E[i, starts]) ** 4 for i in at], axis=-1),
        "speed_ratio": np.stack([_norm(b_dot)[i, starts] / _norm(w)[i, starts] ** 2 for i in at], axis=-1),
        "alignment": between_rows[-1].min(axis=(-2, -1)),
        "velocity_alignment": _cosine(b_dot[-1, :, None], rows[-1]).min(axis=-1),
        "readout_side": _least(_cosine(b[:, :, None], rows).min(axis=-1), since),
        "velocity_side": _least(_cosine(b, b_dot), since),
        "remaining": np.stack([np.cbrt(E[i, starts]) * (end - t[i, starts]) for i in at], axis=-1),
        "row_share": (between_rows[-1] > 0).mean(axis=(-2, -1)),
        "column_share": (_cosines(w[-1][..., :, None] * np.swapaxes(A[-1], -1, -2)) > 0).mean(axis=(-2, -1)),
        "share": np.array([_at_size(met, R, size) for size in GRID]),
        "curve_time": (end - t).T,
        "curve_root": (1 / np.cbrt(E)).T,
    }


def _norm(vectors: Array) -> Array:
    return np.linalg.norm(vectors, axis=-1)


def _cosine(one: Array, other: Array) -> Array:
    return np.sum(one * other, axis=-1) / (_norm(one) * _norm(other))


def _cosines(rows: Array) -> Array:
    """Between all rows."""
    unit = rows / _norm(rows)[..., None]
    return unit @ np.swapaxes(unit, -1, -2)


def _least(values: Array, inside: Any) -> Array:
    return np.where(inside, values, np.inf).min(axis=0)


def _at_size(met: Any, R: Array, size: float) -> float:
    """Share of starts that meet the assumption when they have this size; a start that is larger at once counts as it starts."""
    return float(met[np.argmax(size <= R, axis=0), np.arange(R.shape[1])].mean())


def _rank_one(settings: Settings) -> dict[str, Array]:
    """Six starts of rank one and width three, each with positive and with negative energy."""
    rng = np.random.default_rng(settings.seed)
    scales, sign = rng.uniform(0.3, 2.0, (6, 3)).repeat(2, axis=0), np.tile([1.0, -1.0], 6)
    a, c = (part / _norm(part)[:, None] for part in rng.standard_normal((2, 12, 3)))
    x, y, z = scales.T
    w, A, b = x[:, None] * a, (sign * y)[:, None, None] * a[:, :, None] * c[:, None], z[:, None] * c
    _, _, _, t, E, _ = _run(saccade.CubicFlow(w, A, b), settings.tau + 8)  # what is close to a tie takes its time
    predicted = [theory.blow_up_time(*each, positive=s > 0) for each, s in zip(scales, sign, strict=True)]
    return {"rank_one_time": _end(t, E), "rank_one_predicted": np.array(predicted)}


def _degenerate(settings: Settings) -> dict[str, Array]:
    """Starts that violate Definition 4 to rounding, with negative energy; width three."""
    rng = np.random.default_rng(settings.seed + 1)
    found: list[tuple[Array, Array, Array]] = []
    while len(found) < 20:
        w, A, b = rng.standard_normal(3), rng.standard_normal((3, 3)), rng.standard_normal(3)

        def eq_10(scale: float, w: Array = w, A: Array = A, b: Array = b) -> float:
            return float(theory.degeneracy(w, A, scale * b))

        if eq_10(0.05) * eq_10(20.0) < 0:
            b = brentq(eq_10, 0.05, 20.0, xtol=1e-15, rtol=1e-15) * b
            found.append((w, A, -np.sign(theory.factor_energy(w, A, b)) * b))
    w, A, b = (np.array(part) for part in zip(*found, strict=True))
    *_, R = _run(saccade.CubicFlow(w, A, b), settings.tau + 8)
    return {"degenerate_value": np.abs(theory.degeneracy(w, A, b)) / R[0] ** 4, "degenerate_size": R[-1]}


def _small_energy(settings: Settings) -> dict[str, Any]:
    """One start whose readout is turned until its energy is small."""
    rng, energies = np.random.default_rng(settings.seed + 2), 10.0 ** -np.arange(3, 10, 2)
    w, A, b = rng.standard_normal(4), rng.standard_normal((4, 4)), rng.standard_normal(4)
    pull = A.T @ w
    turned = np.array([b - pull * (b @ pull - energy) / (pull @ pull) for energy in energies])
    n = len(energies)
    _, _, _, t, E, _ = _run(saccade.CubicFlow(np.tile(w, (n, 1)), np.tile(A, (n, 1, 1)), turned), settings.tau)
    return {"small_energy": energies, "small_constant": energies ** (-1 / 3) / _end(t, E)}


def claims(record: xr.Dataset) -> Iterator[Claim]:
    every = record.stack(every=("width", "start")).dropna("every", subset=["time"])
    widths, n = record.width.values, every.sizes["every"]
    case = Case({"starts": n})
    yield from _of_laws(every, case)
    yield from _of_blow_up(record, every, case)
    yield from _of_condensation(record, every, case)
    largest = record.isel(width=-1).dropna("start", subset=["time"])
    wide = Case({"width": int(widths[-1]), "R": LARGE})
    forms: Any = {"number": "3.11", "printed": float(largest.column_share.mean()), "corrected": 1.0, "within": 0.01}
    sentence = "As printed it would be near one half for ever."
    yield wide.erratum(
        stated.FIG_2, "share of pairs on one side, by rows", float(largest.row_share.mean()), sentence=sentence, **forms
    )


def _of_laws(every: xr.Dataset, case: Case) -> Iterator[Claim]:
    bound, title = 1e-10, "drift of {} over the squared size, largest entry"
    yield case.at_most(stated.MATRIX_LAWS, title.format("w wᵀ - A Aᵀ"), every.first_law, bound)
    yield case.at_most(stated.MATRIX_LAWS, title.format("Aᵀ A - b bᵀ"), every.second_law, bound)
    both = np.maximum(every.first_law, every.second_law)
    yield case.at_most(stated.PROPOSITION_2, "drift of the printed diagonals, over the squared size", both, bound)
    yield case.at_most(stated.PROPOSITION_5, title.format("w₁ w₂ - ⟨A₁, A₂⟩, the root of eq. 27,"), every.pair_law, bound)


def _of_blow_up(record: xr.Dataset, every: xr.Dataset, case: Case) -> Iterator[Claim]:
    yield case.none(stated.THEOREM_1, "random starts that reach a size of a million", every.last_size < LARGE)
    yield case.none(stated.THEOREM_1, "starts below the bounds of eqs. 11 and 12 at any sample", every.below_bound > 0)
    positive = every.isel(every=np.flatnonzero(every.energy_0 > 0))
    share = positive.time * np.cbrt(positive.energy_0)
    yield Case({"starts": share.size}).at_most(stated.THEOREM_1, "T* over the bound E(0)^(-1/3)", share, 1.0)
    yield case.but(against=CALCULUS).at_most(stated.THEOREM_1, "error of eq. 16, relative", every.power_error, 1e-13)
    gap = np.abs(record.rank_one_time / record.rank_one_predicted - 1)
    yield Case({"starts": gap.size}).at_most(stated.BLOW_UP_TIME, "T* against Carlson's integral, both signs of E", gap, 1e-9)
    narrow = record.isel(size=0, width=slice(0, 2))  # wide ones are still far from their asymptotics at R = 100
    yield case.but(R=SIZES[0]).near(
        stated.SELF_SIMILAR, "E' / E^(4/3), median of the two least widths", narrow.approach.median(), 3.0, relative=1e-4
    )
    left = record.remaining.isel(size=-1)
    # bound 11 from any time on says at most 1; the largest start may miss it by what rounding leaves of T* - t
    yield case.but(R=SIZES[-1]).between(stated.SELF_SIMILAR, "E^(1/3) (T* - t)", left.values[left.notnull()], 1 - 1e-6, 1 + 1e-9)
    ratio = record.speed_ratio.stack(every=("width", "start")).dropna("every")
    decay = power(record["size"].values, np.abs(ratio - 1).median("every").values)
    yield case.near(stated.PROPOSITION_5, "power of R in |b'| / |w|² - 1", decay, -2.0, within=0.1)
    n = record.sizes["degenerate"]
    given = {"width": 3, "starts": n}
    yield Case(given).at_most(
        stated.DEFINITION_4, "eq. 10 over the size to the fourth, degenerate starts", record.degenerate_value, 1e-12
    )
    forms: Any = {"number": "3.4", "printed": 0.0, "corrected": 1.0, "within": 0.0}
    blown = float((record.degenerate_size > LARGE).mean())
    yield Case(given).erratum(stated.DEFINITION_4, "degenerate starts of negative energy that blow up, share", blown, **forms)
    grown = power(record.small_energy, record.small_constant)
    forms = {"number": "3.7", "printed": 0.0, "corrected": -1 / 3, "within": 0.02}
    yield Case({"width": 4}).erratum(stated.PROPOSITION_8, "power of E(0) in the C that eq. 39 needs at t = 0", grown, **forms)
    needed = 1 / record.remaining.isel(size=slice(1, None)).min("size")
    yield case.but(R=f"from {SIZES[1]:g} on").at_most(
        stated.PROPOSITION_8, "C that eq. 39 needs", needed.values[needed.notnull()], 4 / 3
    )


def _of_condensation(record: xr.Dataset, every: xr.Dataset, case: Case) -> Iterator[Claim]:
    yield case.none(stated.ASSUMPTION_1, "starts that meet it before they blow up", np.isnan(every.met_size))
    yield case.none(stated.PROPOSITION_4, "starts that lose it again", every.lost > 0)
    inside = float(every.met_at_start.mean())
    forms: Any = {"number": "3.5", "printed": inside, "corrected": 1.0, "within": 0.0}
    condensed = float((every.alignment > 0.99).mean())
    yield case.erratum(stated.THEOREM_2, "starts whose weighted rows are parallel in the end, share", condensed, **forms)
    medians = record.met_size.median("start")
    yield Case({"widths": record.sizes["width"]}).near(
        stated.CONDITION_SIZE, "power of the width in the median size", power(record.width, medians), 1.8, within=0.3
    )
    yield case.at_least(stated.DEFINITION_5, "cos ξ of two weighted rows at the end, smallest", every.alignment, 0.99)
    yield case.at_least(stated.COROLLARY_1, "cos ψ of b' and a weighted row at the end, smallest", every.velocity_alignment, 0.99)
    yield case.at_least(stated.PROPOSITION_6, "cos φ since Assumption 1 is met, smallest", every.readout_side, 0.0, strict=True)
    yield case.at_least(stated.PROPOSITION_7, "cos ζ since Assumption 1 is met, smallest", every.velocity_side, 0.0, strict=True)


def panels(record: xr.Dataset) -> Layout:
    return [_roots(record), _times(record), _shares(record)]


def _roots(record: xr.Dataset) -> Lines:
    width = int(record.width[1])
    runs = range(min(40, int(record.curve_time.notnull().any("sample").sum())))
    lines = []
    for tone, sign, name in ((0, 1, "E(0) > 0"), (1, -1, "E(0) < 0")):
        chosen = [i for i in runs if sign * record.curve_root.values[i, 0] > 0]
        for i in chosen:
            root = record.curve_root.values[i].copy()
            root[:-1][np.diff(np.sign(root)) != 0] = np.nan  # through infinity
            lines.append(Line(-record.curve_time.values[i], root, name if i == chosen[0] else "", tone=tone))
    lines.append(Line([-2.0, 0.0], [2.0, 0.0], "slope -1", DASHES, None))
    return Lines(f"every start ends on one line, width {width}", "t - T*", "E^(-1/3)", lines, xlim=(-2, 0), ylim=(-4, 4))


def _times(record: xr.Dataset) -> Lines:
    x, y = record.rank_one_predicted.values, record.rank_one_time.values
    ends = np.array([x.min(), x.max()])
    lines = [
        Line(ends, ends, "equal", DASHES, None),
        Line(x[::2], y[::2], "E > 0", POINTS, 0),
        Line(x[1::2], y[1::2], "E < 0", POINTS, 1),
    ]
    return Lines("blow-up time, starts of rank one", "Carlson's R_F", "measured", lines, log="xy")


def _shares(record: xr.Dataset) -> Lines:
    n = record.sizes["width"]
    lines = [Line(record.grid, record.share.isel(width=i), f"d = {int(d)}", tone=i / (n - 1)) for i, d in enumerate(record.width)]
    marks = {PAPER_SIZE: "1/ε of the paper (d = 640)"}
    return Lines("Assumption 1 is met late", "size R", "share of starts", lines, log="x", ylim=(0, 1), marks=marks)


EXPERIMENT = Experiment(
    "blow-up",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: the cube root of the energy, inverted, of random starts against the time that is left; each falls onto the line "
        "of slope -1, those that begin with negative energy (orange) through infinity. Panel 2: blow-up times of starts of rank "
        "one against Carlson's elliptic integral. Panel 3: at what size of the weights a start meets Assumption 1; wide networks "
        "leave the cubic flow long before."
    ),
    finding=(
        "every random start blows up; T* of a start of rank one is Carlson's integral to {T* against*:.0e}; both conservation "
        "laws are matrix laws; Assumption 1 is always met in the end, at sizes of width^{power of the width*:.1f}"
    ),
    variables=VARIABLES,
    dynamics="C: the cubic flow of three factors, stage I of the theory",
    time_unit="units of the flow's own time",
)
