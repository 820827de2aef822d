"""Theorem 2 and Corollary 2 along the theory's flow (C), where they are exact, and Lemma 4 in joint
descent. Parts of `attention-fates`.

Velocities are measured as derivatives of the recorded logits (quintic spline in ln t) and predicted
from the recorded attention through Theorem 1: the flow itself never evaluates beta, xi or gamma.
The descent is Lemma 4's premise made literal: one class a step, the decoder moved by eq. 26 at the
features of that moment, attention by its exact gradient. It keeps a whole decoder, which remembers
older features; the lemma does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline

import saccade
from saccade.experiments.scan_and_snap.weak_classes import (
    N_DISTINCT,
    class_logits,
    conditions,
    context_prob,
    feature_and_drive,
    isolated_class,
    one_common_token,
    several_common_tokens,
    travelled,
)
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.panel import DASHES, POINTS, Line, Lines
from saccade.lab.protocol import Progress, Variable, stretch
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.assumptions import NO_ISOLATED_CLASS
from saccade.theory.scan_and_snap.statements import COROLLARY_2, LEMMA_4, THEOREM_2A, THEOREM_2B

_N_TIMES = 400  # dense enough for the spline's derivative to be good to 1e-6
_FORMULA = 1e-5  # relative; the spline leaves 7e-7
_JOINT = 0.1  # relative, of joint descent against Lemma 4
_GAINS = "distinct tokens always gain attention, flow (C)"
VARIABLES = {
    "one_common": Variable(
        "time class token_of_one",
        "1",
        "z of each class along flow (C), one common token (0), two queries",
    ),
    "several_common": Variable(
        "time token_of_several",
        "1",
        "z along flow (C), one query and three common tokens (0, 1, 2)",
    ),
    "isolated": Variable(
        "time token_of_one", "1", "z of a class that overlaps no other, along flow (C)"
    ),
    "descent_logits": Variable(
        "draw step class token_of_one",
        "1",
        "z in joint descent along the modified gradient, one class a step",
    ),
    "lemma_4_logits": Variable(
        "form step class token_of_one",
        "1",
        "the same by Lemma 4, as printed and with the rate over K",
    ),
}


def tasks(settings: Any) -> dict[str, saccade.SequenceClasses]:
    sizes = {"overlap": settings.overlap, "n_vocab": settings.n_vocab}
    return {
        "one_common": one_common_token(**sizes),
        "several_common": several_common_tokens(**sizes),
        "isolated": isolated_class(**sizes),
    }


def measure(settings: Any, on_progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
    logits, times = {}, np.zeros(0)
    for i, (name, task) in enumerate(tasks(settings).items()):
        path = saccade.reduced_flow(
            task,
            t1=settings.t1,
            lr_decoder=settings.lr_decoder,
            lr_attention=settings.lr_attention,
            n_times=_N_TIMES,
            rtol=1e-10,
            atol=1e-13,
            keep=("attention_logits",),
            on_progress=stretch(on_progress, i / 3, (i + 1) / 3),
        )
        times = path.time.values[1:]
        logits[name] = class_logits(path.attention_logits.values[1:], path["query"].values, task)
    task, saved = (
        tasks(settings)["one_common"],
        np.unique(np.geomspace(1, settings.descent_steps, 40).astype(int)),
    )
    descents = [
        _descend(task, settings, saved, np.random.default_rng(seed))
        for seed in range(settings.descent_seeds)
    ]
    values = {
        "one_common": logits["one_common"],
        "several_common": logits["several_common"][:, 0],
        "isolated": logits["isolated"][:, -1],
        "descent_logits": np.stack(descents),
        "lemma_4_logits": np.stack(
            [_lemma_4(task, settings, saved, per_step=per_step) for per_step in (False, True)]
        ),
    }
    return values, {"time": times, "step": saved, "form": ["as printed", "corrected"]}


def _descend(
    task: saccade.SequenceClasses, settings: Any, saved: NDArray[np.int64], rng: np.random.Generator
) -> Array:
    """z at the saved steps (step, class, token). Written out with nothing of saccade.theory, which
    it is there to test.
    """
    prob = context_prob(task)
    same_query = (task.query[:, None] == task.query).astype(float)
    decoder, z, path = np.zeros((prob.shape[1], task.n_vocab)), np.zeros_like(prob), []
    lr_decoder, lr_attention = settings.lr_decoder, settings.lr_decoder * settings.descent_ratio
    for step in range(1, settings.descent_steps + 1):
        n = rng.integers(task.n_classes)
        weight = prob * np.exp(z)
        feature = weight / np.linalg.norm(weight, axis=1, keepdims=True)
        odds = np.exp(feature[n] @ decoder)
        error = -odds / odds.sum()
        error[task.next_token[n]] += 1
        g, f = decoder @ error, feature[n]
        decoder += lr_decoder * np.outer(np.linalg.solve(feature @ feature.T, feature)[n], error)
        z += lr_attention * np.outer(same_query[n], f * (g - f * (f @ g)))
        if step in saved:
            path.append(z.copy())
    return np.stack(path)


def _lemma_4(
    task: saccade.SequenceClasses, settings: Any, saved: NDArray[np.int64], *, per_step: bool
) -> Array:
    prob = context_prob(task)
    lr_decoder, lr_attention = settings.lr_decoder, settings.lr_decoder * settings.descent_ratio

    def velocity(t: float, state: Array) -> Array:
        feature = theory.normalised_feature(theory.limit_attention(prob, state.reshape(prob.shape)))
        other = theory.backprop_coefficients(
            theory.class_coupling(theory.class_overlap(feature)), n_vocab=task.n_vocab
        ).other
        gamma = float(
            theory.speed(t, n_vocab=task.n_vocab, n_classes=task.n_classes, lr_decoder=lr_decoder)
        )
        z_dot = theory.attention_logits_dot(
            feature, other, task.query, speed=gamma, lr_attention=lr_attention, per_step=per_step
        )
        return z_dot.ravel()

    path = solve_ivp(
        velocity, (0, saved[-1]), np.zeros(prob.size), t_eval=saved, rtol=1e-8, atol=1e-12
    )
    return path.y.T.reshape(-1, *prob.shape)


def claims(record: xr.Dataset, settings: Any) -> Iterator[Claim]:
    yield from _joint_descent(record, settings)
    yield from _one_common(record, settings)
    yield from _several_common(record, settings)
    control = Case(
        {"classes": "one overlaps no other"}, _given(settings, "isolated", (NO_ISOLATED_CLASS,))
    ).breaking(NO_ISOLATED_CLASS)
    own = tasks(settings)["isolated"].token_prob.any(axis=0)
    distinct = tasks(settings)["isolated"].token_prob[-1, own] > 0
    yield control.none(THEOREM_2A, _GAINS, _not_rising(record.isolated.values[:, distinct]))


def _not_rising(logits: Array) -> NDArray[np.bool_]:
    """Intervals in which a logit does not rise by more than the solver's own error; a missing value
    does not.
    """
    return ~(np.diff(logits, axis=0) > 1e-12)


def _given(settings: Any, name: str, kinds: tuple[str, ...], **rates: float) -> list[Any]:
    own = {
        "lr_decoder": settings.lr_decoder,
        "lr_attention": settings.lr_attention,
        "n_steps": settings.t1,
    }
    return conditions(tasks(settings)[name], kinds, **(own | rates))


def _joint_descent(record: xr.Dataset, settings: Any) -> Iterator[Claim]:
    rates = {
        "lr_attention": settings.lr_decoder * settings.descent_ratio,
        "n_steps": settings.descent_steps,
    }
    case = Case(
        {"steps": settings.descent_steps},
        _given(settings, "one_common", ("Assumption 1(c)", "Assumption 2", "Theorem 1"), **rates),
    )
    measured, printed, corrected = final_logits(record)
    moving = corrected != 0
    yield case.erratum(
        LEMMA_4, "z of the common token after joint descent", measured[0, 0],
        number="0.6", printed=printed[0, 0], corrected=corrected[0, 0], within=_JOINT * abs(corrected[0, 0]),
        sentence="The sum over classes in Lemma 4 lacks the chance P(n) = 1/K of drawing a class.",
    )  # fmt: skip
    gap = np.abs(measured[moving] / corrected[moving] - 1)
    yield case.at_most(
        LEMMA_4, "joint descent against Lemma 4 with η_Z/K, largest relative gap", gap, _JOINT
    )


def final_logits(record: xr.Dataset) -> tuple[Array, Array, Array]:
    """Measured, as printed, corrected at the last step (class, token)."""
    forms = record.lemma_4_logits.isel(step=-1).transpose("form", "class", "token_of_one")
    measured = record.descent_logits.isel(step=-1).mean("draw").transpose("class", "token_of_one")
    return measured.values, forms.sel(form="as printed").values, forms.sel(form="corrected").values


def _velocity(times: Array, logits: Array) -> Array:
    by_log_time = make_interp_spline(np.log(times), logits, k=5).derivative()(np.log(times))
    return by_log_time / times.reshape(-1, *[1] * (logits.ndim - 1))


def _one_common(record: xr.Dataset, settings: Any) -> Iterator[Claim]:
    distinct, z = (
        theory.distinct_tokens(context_prob(tasks(settings)["one_common"])),
        record.one_common.values,
    )
    gap = np.abs(
        _velocity(record.time.values, z)
        / np.where((p := _predicted_velocity(record, settings)) == 0, np.nan, p)
        - 1
    )
    weak = Case(given=_given(settings, "one_common", ("Assumption 2", "Theorem 1")))
    yield weak.none(THEOREM_2A, _GAINS, _not_rising(z[:, distinct]))
    # exact in the theory's own flow: calculus
    yield weak.but(against=CALCULUS).at_most(
        THEOREM_2A,
        "dz/dt of distinct tokens against f² ξ, largest relative gap",
        gap[:, distinct],
        _FORMULA,
    )
    single = Case(given=_given(settings, "one_common", ("Assumption 2", "Theorem 1", "Theorem 2")))
    yield single.none(
        THEOREM_2B,
        "the only common token always loses attention, flow (C)",
        _not_rising(-z[:, :, 0]),
    )
    title = "dz/dt of the common token against -Σ (1 - f²) ξ, largest gap"
    yield single.but(against=CALCULUS).at_most(THEOREM_2B, title, gap[:, :, 0], _FORMULA)


def _predicted_velocity(record: xr.Dataset, settings: Any) -> Array:
    """Theorem 2 at every recorded time: (b) for token 0, (a) for the others (0 where they are not
    the class's).
    """
    task = tasks(settings)["one_common"]
    z, prob = record.one_common.values, context_prob(task)
    feature, drive = feature_and_drive(
        record.time.values, z, prob, n_vocab=settings.n_vocab, lr_decoder=settings.lr_decoder
    )
    velocities = []
    for f, xi in zip(feature, drive, strict=True):
        velocity = theory.distinct_token_dot(f, xi, lr_attention=settings.lr_attention)
        velocity[:, 0] = theory.common_token_dot(
            f[:, 0], xi, task.query, lr_attention=settings.lr_attention
        )
        velocities.append(velocity)
    return np.stack(velocities)


def _several_common(record: xr.Dataset, settings: Any) -> Iterator[Claim]:
    z, prob = record.several_common.values, context_prob(tasks(settings)["several_common"])
    n_common = int(theory.common_tokens(prob).sum())
    common = z[:, :n_common]
    matched = np.stack(
        [
            np.roll(z[:, n_common + n * N_DISTINCT :][:, :N_DISTINCT], -n, axis=1)
            for n in range(len(prob))
        ]
    )
    gap = np.abs(
        _velocity(record.time.values, common)
        / _symmetric_velocity(record, settings, prob, n_common)
        - 1
    )
    case = Case(
        given=_given(settings, "several_common", ("Assumption 2", "Theorem 1", "Corollary 2"))
    )
    yield case.none(
        COROLLARY_2, "each of several common tokens loses attention, flow (C)", _not_rising(-common)
    )
    yield case.at_most(
        COROLLARY_2,
        "distinct tokens matched by the bijection: largest spread of their logits",
        np.ptp(matched, axis=0),
        1e-10,
    )
    misplaced = np.argsort(-common[-1]) != np.argsort(prob[0, :n_common])
    yield case.none(
        COROLLARY_2, "the more probable a common token, the further it falls", misplaced
    )
    title = "dz/dt of the common tokens against Corollary 2, largest relative gap"
    yield case.but(against=CALCULUS).at_most(COROLLARY_2, title, gap, _FORMULA)


def _symmetric_velocity(record: xr.Dataset, settings: Any, prob: Array, n_common: int) -> Array:
    gamma = theory.speed(
        record.time.values,
        n_vocab=settings.n_vocab,
        n_classes=len(prob),
        lr_decoder=settings.lr_decoder,
    )
    velocities = []
    for speed, z in zip(gamma, record.several_common.values, strict=True):
        feature = theory.normalised_feature(
            theory.limit_attention(prob, np.tile(z, (len(prob), 1)))
        )
        other = theory.backprop_coefficients(
            theory.class_coupling(theory.class_overlap(feature)), n_vocab=settings.n_vocab
        ).other
        letters = {
            "other": float(other[0, 1]),
            "n_classes": len(prob),
            "speed": float(speed),
            "lr_attention": settings.lr_attention,
        }
        velocities.append(theory.symmetric_common_token_dot(feature[0, :n_common], **letters))
    return np.stack(velocities)


def predicted_logits(record: xr.Dataset, settings: Any) -> tuple[Array, Array]:
    """What Theorem 2 and Corollary 2 make of the drives, integrated: with one common token, with
    several.
    """
    prob = context_prob(tasks(settings)["several_common"])
    several = _symmetric_velocity(record, settings, prob, int(theory.common_tokens(prob).sum()))
    return travelled(record.time.values, _predicted_velocity(record, settings)), travelled(
        record.time.values, several
    )


def panels(record: xr.Dataset, settings: Any) -> list[Lines]:
    (one, several), t, dots = (
        predicted_logits(record, settings),
        record.time.values,
        slice(None, None, 12),
    )
    names = {0: "common token", 1: "rarest distinct", N_DISTINCT: "most frequent distinct"}
    first: list[Line] = []
    for token in range(N_DISTINCT + 1):
        tone = None if token == 0 else float((token - 1) / (N_DISTINCT - 1))
        z = record.one_common.values[dots, 0, token]
        first += [
            Line(t, one[:, 0, token], tone=tone),
            Line(t[dots], z, names.get(token, ""), POINTS, tone),
        ]
    second, prob = [], context_prob(tasks(settings)["several_common"])[0]
    for token in range(several.shape[1]):
        z = record.several_common.values[dots, token]
        second += [
            Line(t, several[:, token], tone=token),
            Line(t[dots], z, f"common, P = {prob[token]:.3f}", POINTS, token),
        ]
    third: list[Line] = []
    for i, (token, name) in enumerate(
        {0: "common token", N_DISTINCT: "top distinct, class 1"}.items()
    ):
        at = record.isel({"class": 0, "token_of_one": token})
        forms, steps, said = at.lemma_4_logits.transpose("form", "step"), record.step.values, i == 0
        third += [
            Line(
                steps,
                forms.sel(form="as printed"),
                "Lemma 4 as printed (η_Z)" if said else "",
                DASHES,
                i,
            ),
            Line(steps, forms.sel(form="corrected"), "corrected (η_Z/K)" if said else "", tone=i),
            Line(steps, at.descent_logits.mean("draw"), name, POINTS, i),
        ]
    y, top = (
        "attention logit z",
        2.2 * float(record.one_common.values[:, 0].max()),
    )  # room for the legend
    return [
        Lines(
            "Theorem 2: one common token",
            "t (steps of SGD)",
            y,
            first,
            "x",
            ylim=(None, top),
            levels={0.0: ""},
        ),
        Lines(
            "Corollary 2: several common tokens",
            "t (steps of SGD)",
            y,
            second,
            "x",
            levels={0.0: ""},
        ),
        Lines("Lemma 4 in joint descent", "step", y, third, "x", levels={0.0: ""}),
    ]
