"""Plain descent snaps, far later than Theorem 4 says, once other classes are the likeliest wrong
answers.

Five classes that overlap strongly, with fast attention, in the plain flow (B): up to three times
the height L_s at which they should snap, and, for the strongest overlap, to t = 1e300. Asked: from
where on growth only slows, the law after that, and growth all along from the theory of fast
attention. Expect the last maximum of growth between half of L_s and L_s (a window set after a first
run), the closed form after the snap within 10 %, but not before it, and fast attention within 1 %
throughout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from saccade.data.sequence_classes import SequenceClasses
from saccade.experiments.scan_and_snap.plain_descent import (
    ALONG,
    FAST_WITHIN,
    Curve,
    Followed,
    curve,
    followed,
    memory_claim,
    widening,
)
from saccade.experiments.scan_and_snap.snap_growth import one_common_token
from saccade.lab.claim import Case, Claim
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import met
from saccade.theory.scan_and_snap.open_statements import FAST_GROWTH, PLAIN_LATE_SNAP, PLAIN_MEMORY

_LONG = 1e300  # as far as a float reaches
_SNAPPED = "plain descent has snapped"


@dataclass(frozen=True)
class Settings:
    features: tuple[float, ...] = (0.55, 0.4)
    """features of the common token, in (0, 1); classes overlap by their squares. The first are
    followed to t = 1e300
    """
    n_classes: int = 5
    """classes that share one token and one query"""
    n_distinct: int = 4
    """distinct tokens per class"""
    n_vocab: int = 1000
    """vocabulary"""
    fast: float = 10.0
    """attention rate, per step; the decoder's is 1"""
    n_times: int = 120
    """samples of the long flow, log-spaced"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    """The first overlap to the end; each up to three times L_s, evenly in the height and finely,
    since the peak is flat.
    """
    heights, seen, told = [], [], []
    for feature in settings.features:
        t, gap = widening(
            _task(feature, settings),
            settings.fast,
            t1=_time(3 * _snap_height(feature, settings), settings),
            n_times=300,
        )
        scanned = t >= _late(settings) / 100
        law = theory.fast_plain_growth(
            t[scanned], **_shape(feature, settings), lr_decoder=1.0, lr_attention=settings.fast
        )
        heights.append(np.log(settings.n_vocab * t / settings.n_classes))
        seen.append(np.gradient(gap, np.log(t)))
        told.append(np.append(np.full((~scanned).sum(), np.nan), law.rate))
        on_progress(0.5 * len(seen) / len(settings.features))
    strong = Followed("strong", _task(settings.features[0], settings), settings.fast, _LONG)
    values = followed(strong, settings.n_times, on_progress) | {
        "height": heights,
        "rate": seen,
        "expected_rate": told,
    }
    kept = {name: values[name] for name in _VARIABLES}
    return Measured(kept, {"feature": list(settings.features)})


def _shape(feature: float, settings: Settings) -> dict[str, Any]:
    return {"overlap": feature**2, "n_vocab": settings.n_vocab, "n_classes": settings.n_classes}


def _task(feature: float, settings: Settings) -> SequenceClasses:
    sizes = {
        "n_classes": settings.n_classes,
        "n_distinct": settings.n_distinct,
        "n_vocab": settings.n_vocab,
    }
    return one_common_token(common_feature=feature, **sizes)


def _snap_height(feature: float, settings: Settings) -> float:
    return theory.plain_snap_height(**_shape(feature, settings))


def _time(height: float, settings: Settings) -> float:
    return float(np.exp(height) * settings.n_classes / settings.n_vocab)


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    yield memory_claim(record, "strong, fast attention")
    title = "every token ends up on the side that theory says"
    yield Case({"case": "strong, fast attention"}).none(
        PLAIN_MEMORY, title, int(record.wrong_sign), among=_n_tokens(settings)
    )
    for feature in record.feature.values:
        case, at = _case(feature, settings), record.sel(feature=feature)
        title = "height L from which growth only slows, after the scan, over L_s"
        yield case.between(
            PLAIN_LATE_SNAP,
            title,
            _last_peak(at, settings) / _snap_height(feature, settings),
            0.5,
            1,
        )
        title = "growth per unit of ln t from the theory of fast attention, up to 3 L_s: largest relative error"
        late = at.height.values >= np.log(settings.n_vocab * _late(settings) / settings.n_classes)
        yield case.at_most(
            FAST_GROWTH,
            title,
            np.abs(at.rate / at.expected_rate - 1).values[late][:-1],
            FAST_WITHIN,
        )
    long = _long(record)
    found = np.gradient(long.gap, np.log(long.height))[1:-1]
    law = theory.late_plain_growth_rate(long.overlap[1:-1], n_classes=settings.n_classes)
    height, of = (
        long.height[1:-1] / _snap_height(settings.features[0], settings),
        np.abs(found / law - 1),
    )
    case, title = (
        _case(settings.features[0], settings),
        "growth per unit of ln L after the snap, largest relative error",
    )
    yield case.at_most(PLAIN_LATE_SNAP, title, of[height > 3], 0.1)
    scanned = long.t[1:-1] >= _late(settings) / 10
    yield case.breaking(met(_SNAPPED, False)).at_most(
        PLAIN_LATE_SNAP, title, of[scanned & (height < 1)], 0.1
    )


def _n_tokens(settings: Settings) -> int:
    return 1 + settings.n_classes * settings.n_distinct


def _case(feature: float, settings: Settings) -> Case:
    return Case({"ρ": float(f"{feature**2:.4g}"), "K": settings.n_classes, "M": settings.n_vocab})


def _late(settings: Settings) -> float:
    """100 t0: the scan is over."""
    return 100 * theory.snap_time(
        n_vocab=settings.n_vocab, n_classes=settings.n_classes, lr_decoder=1.0
    )


def _long(record: xr.Dataset) -> Curve:
    settings = EXPERIMENT.settings_of(record)
    return curve(record, settings.n_vocab, settings.n_classes)


def _last_peak(at: xr.Dataset, settings: Settings) -> float:
    """Height of the last local maximum of growth after 10 t0, when the first, at the end of the
    scan, is over; NaN without one.
    """
    height, rate = at.height.values, at.rate.values
    late = height[1:-1] >= np.log(settings.n_vocab * _late(settings) / 10 / settings.n_classes)
    peaks = np.flatnonzero(late & (rate[1:-1] > rate[:-2]) & (rate[1:-1] >= rate[2:])) + 1
    return float(height[peaks[-1]]) if len(peaks) else np.nan


def panels(record: xr.Dataset) -> Layout:
    settings, long = EXPERIMENT.settings_of(record), _long(record)
    height = _snap_height(settings.features[0], settings)
    law = theory.late_plain_growth_rate(long.overlap, n_classes=settings.n_classes) / long.height
    dense, after = record.sel(feature=settings.features[0]), long.height > height
    fine, coarse = dense.height.values > 3, long.height > float(dense.height[-1])
    lines = [
        Line(
            np.append(dense.height.values[fine][::5], long.height[coarse]),
            np.append(dense.rate.values[fine][::5], long.rate[coarse]),
            "plain flow (B)",
            POINTS,
            0,
        ),
        Line(
            dense.height.values[fine],
            dense.expected_rate.values[fine],
            "theory of fast attention",
            tone=1,
        ),
        Line(long.height[after], law[after], "after the snap, closed form", DASHES, 0),
    ]
    title, x = (
        "strong overlap: it snaps in the end",
        "L = ln(M η_Y t / K); 30 is t = 10¹⁰, 690 is 10²⁹⁷",
    )
    return [Lines(title, x, "growth per unit of ln t", lines, "xy", marks={height: "ln(M/K)/ρ"})]


_VARIABLES = {
    name: said._replace(axes=said.axes.removeprefix("case").strip())
    for name, said in ALONG.items()
    if name in ("steps", "gap", "overlap", "logit_error", "wrong_sign")
} | {
    "height": Variable("feature place", "1", "height L of the decoder, up to three times L_s"),
    "rate": Variable("feature place", "1", "growth per unit of ln t, the same"),
    "expected_rate": Variable(
        "feature place", "1", "the same by the theory of fast attention, from t0 on"
    ),
}
EXPERIMENT = Experiment(
    "late-snap",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Five classes that overlap by .3, followed to t = 1e300. Growth slows for good near the vertical line, as predicted. "
        "Dashed: closed form after the snap."
    ),
    finding=(
        "with strong overlaps plain descent snaps in the end, at {height L from which growth only slows*ρ 0.3025*:.2f} times the "
        "predicted decoder height; until then growth follows the theory of fast attention to "
        "{growth per unit of ln t from the theory*ρ 0.3025*:.1%}"
    ),
    variables=_VARIABLES,
    dynamics="B: population gradient flow",
    time_unit="steps of SGD",
)
