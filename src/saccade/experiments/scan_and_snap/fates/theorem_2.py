"""Theorem 2 and Corollary 2 along the theory's flow (C), where they are exact.

Velocities are measured as derivatives of the recorded logits (quintic spline in ln t) and predicted from the recorded
attention through Theorem 1: the flow itself never evaluates beta, xi or gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.experiments.progress import stretch
from saccade.experiments.scan_and_snap.fates.settings import Config, row, settings
from saccade.experiments.scan_and_snap.weak_classes import (
    N_DISTINCT,
    class_logits,
    conditions_met,
    context_prob,
    feature_and_drive,
    one_common_token,
    several_common_tokens,
    travelled,
)
from saccade.records.claim import Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr

_N_TIMES = 400  # dense enough for the spline's derivative to be good to 1e-6
_FORMULA = 1e-5  # relative; the spline leaves 7e-7

DEFINITIONS = {
    "one_common": ("1", "z of each class's query along flow (C), three classes with one common token (token 0) and two queries"),
    "several_common": ("1", "z along flow (C), three classes with one query and three common tokens (tokens 0, 1, 2)"),
}


def measure(config: Config, on_progress: Callable[[float], None]) -> tuple[dict[str, Any], dict[str, Any]]:
    tasks = _tasks(config)
    logits, times = {}, np.zeros(0)
    for i, (name, task) in enumerate(tasks.items()):
        path = saccade.reduced_flow(
            task,
            t1=config.t1,
            lr_decoder=config.lr_decoder,
            lr_attention=config.lr_attention,
            n_times=_N_TIMES,
            rtol=1e-10,
            atol=1e-13,
            keep=("attention_logits",),
            on_progress=stretch(on_progress, i / len(tasks), (i + 1) / len(tasks)),
        )
        times = path.time.values[1:]
        logits[name] = class_logits(path.attention_logits.values[1:], path["query"].values, task)
    variables = {
        "one_common": (("time", "class", "token_of_one"), logits["one_common"]),
        "several_common": (("time", "token_of_several"), logits["several_common"][:, 0]),
    }
    return variables, {"time": times}


def _tasks(config: Config) -> dict[str, saccade.SequenceClasses]:
    return {
        "one_common": one_common_token(overlap=config.overlap, n_vocab=config.n_vocab),
        "several_common": several_common_tokens(overlap=config.overlap, n_vocab=config.n_vocab),
    }


def _velocity(times: NDArray[np.float64], logits: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.interpolate import make_interp_spline

    by_log_time = make_interp_spline(np.log(times), logits, k=5).derivative()(np.log(times))
    return by_log_time / times.reshape(-1, *[1] * (logits.ndim - 1))


def claims(record: xr.Dataset) -> list[Claim]:
    return _theorem_claims(record, settings(record)) + _corollary_claims(record, settings(record))


def _conditions(config: Config, name: str, kinds: tuple[str, ...]) -> dict[str, bool]:
    rates = {"lr_decoder": config.lr_decoder, "lr_attention": config.lr_attention}
    return conditions_met(_tasks(config)[name], kinds, n_steps=config.t1, **rates)


def _theorem_claims(record: xr.Dataset, config: Config) -> list[Claim]:
    prob = context_prob(_tasks(config)["one_common"])
    distinct, z = theory.distinct_tokens(prob), record.one_common.values
    measured, predicted = _velocity(record.time.values, z), _predicted_velocity(record, config)
    kinds = {"(a)": ("2 ", "T1"), "(b)": ("2 ", "T1", "T2")}
    own, shared = z[:, distinct], z[:, :, 0]
    wrong = {"(a)": np.diff(own, axis=0) <= 0, "(b)": np.diff(shared, axis=0) >= 0}
    gap = {
        "(a)": measured[:, distinct] / predicted[:, distinct] - 1,
        "(b)": measured[:, :, 0] / predicted[:, :, 0] - 1,
    }
    fate = {
        "(a)": "distinct tokens gain attention logit all the time",
        "(b)": "the only common token loses attention logit all the time",
    }
    formula = {"(a)": "f^2 xi of a distinct token", "(b)": "-sum over classes of (1 - f^2) xi of the common token"}
    found = []
    for part in fate:
        source, assumptions = f"[tian2023, Theorem 2{part}]", _conditions(config, "one_common", kinds[part])
        count = f"{fate[part]}, flow (C): exceptions among {wrong[part].size} intervals"
        error = f"{formula[part]} against the slope of z, flow (C): largest relative error"
        found += [
            Claim(count, source, 0, int(wrong[part].sum()), 0, assumptions),
            Claim(error, source, 0, float(np.abs(gap[part]).max()), _FORMULA, assumptions),
        ]
    return found


def _predicted_velocity(record: xr.Dataset, config: Config) -> NDArray[np.float64]:
    """Theorem 2 at every recorded time: (b) for token 0, (a) for the others (0 where they are not the class's)."""
    task = _tasks(config)["one_common"]
    z, prob = record.one_common.values, context_prob(task)
    feature, drive = feature_and_drive(record.time.values, z, prob, n_vocab=config.n_vocab, lr_decoder=config.lr_decoder)
    velocities = []
    for f, xi in zip(feature, drive, strict=True):
        velocity = theory.distinct_token_dot(f, xi, lr_attention=config.lr_attention)
        velocity[:, 0] = theory.common_token_dot(f[:, 0], xi, task.query, lr_attention=config.lr_attention)
        velocities.append(velocity)
    return np.stack(velocities)


def _corollary_claims(record: xr.Dataset, config: Config) -> list[Claim]:
    assumptions = _conditions(config, "several_common", ("2 ", "T1", "C2"))
    z, prob = record.several_common.values, context_prob(_tasks(config)["several_common"])
    n_common = int(theory.common_tokens(prob).sum())
    common = z[:, :n_common]
    rising = np.diff(common, axis=0) >= 0
    matched = np.stack([np.roll(z[:, n_common + n * N_DISTINCT :][:, :N_DISTINCT], -n, axis=1) for n in range(len(prob))])
    spread = float(np.ptp(matched, axis=0).max())
    misplaced = int(np.sum(np.argsort(-common[-1]) != np.argsort(prob[0, :n_common])))
    error = float(np.abs(_velocity(record.time.values, common) / _symmetric_velocity(record, config, prob, n_common) - 1).max())
    intervals = f"exceptions among {rising.size} intervals"
    checks = (
        (f"several common tokens all lose attention logit, flow (C): {intervals}", int(rising.sum()), 0.0),
        ("distinct tokens that the bijection matches have equal logits: largest spread", spread, 1e-10),
        ("the more probable a common token, the further it falls: tokens out of that order", misplaced, 0.0),
        ("closed form of the common tokens' velocity against the slope of z: largest relative error", error, _FORMULA),
    )
    return [Claim(statement, "[tian2023, Corollary 2]", 0, value, tolerance, assumptions) for statement, value, tolerance in checks]


def _symmetric_velocity(record: xr.Dataset, config: Config, prob: NDArray[np.float64], n_common: int) -> NDArray[np.float64]:
    gamma = theory.speed(record.time.values, n_vocab=config.n_vocab, n_classes=len(prob), lr_decoder=config.lr_decoder)
    velocities = []
    for speed, z in zip(gamma, record.several_common.values, strict=True):
        feature = theory.normalised_feature(theory.limit_attention(prob, np.tile(z, (len(prob), 1))))
        coupling = theory.class_coupling(theory.class_overlap(feature))
        other = theory.backprop_coefficients(coupling, n_vocab=config.n_vocab).other[0, 1]
        velocities.append(
            theory.symmetric_common_token_dot(
                feature[0, :n_common],
                other=float(other),
                n_classes=len(prob),
                speed=float(speed),
                lr_attention=config.lr_attention,
            )
        )
    return np.stack(velocities)


def _predicted_logits(record: xr.Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    config = settings(record)
    prob = context_prob(_tasks(config)["several_common"])
    n_common = int(theory.common_tokens(prob).sum())
    velocities = _predicted_velocity(record, config), _symmetric_velocity(record, config, prob, n_common)
    one, several = (travelled(record.time.values, velocity) for velocity in velocities)
    return one, several


def rows(record: xr.Dataset) -> list[dict[str, Any]]:
    one, several = _predicted_logits(record)
    prob = context_prob(_tasks(settings(record))["one_common"])
    end = f"z at t = {settings(record).t1:g}"
    found = [
        row("flow (C), one common token", f"class {n + 1}, token {token}", end, one[-1, n, token], z[token])
        for n, z in enumerate(record.one_common.values[-1])
        for token in np.flatnonzero(prob[n])
    ]
    measured = record.several_common.values[-1]
    return found + [
        row("flow (C), several common tokens", f"token {token}", end, predicted, measured[token])
        for token, predicted in enumerate(several[-1])
    ]


def draw(axes: Any, other_axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical, sequential

    one, several = _predicted_logits(record)
    times, dots = record.time.values, slice(None, None, 12)
    for token in range(N_DISTINCT + 1):
        color = "black" if token == 0 else sequential(token - 1, N_DISTINCT)
        label = {0: "common token", 1: "rarest distinct", N_DISTINCT: "most frequent distinct"}.get(token)
        axes.plot(times, one[:, 0, token], color=color, lw=1.2)
        axes.plot(times[dots], record.one_common.values[dots, 0, token], "o", ms=3.5, color=color, label=label)
    for token in range(several.shape[1]):
        prob = context_prob(_tasks(settings(record))["several_common"])[0, token]
        other_axes.plot(times, several[:, token], color=categorical(token), lw=1.2)
        dotted = record.several_common.values[dots, token]
        other_axes.plot(times[dots], dotted, "o", ms=3.5, color=categorical(token), label=f"common, P = {prob:.3f}")
    axes.set_title("Theorem 2: one common token", loc="left", fontsize=10)
    other_axes.set_title("Corollary 2: several common tokens", loc="left", fontsize=10)
    for panel in (axes, other_axes):
        panel.axhline(0, color="grey", lw=0.6)
        panel.set(xscale="log", xlabel="t (steps of SGD)", ylabel="attention logit z")
        panel.legend(loc="lower left", fontsize=8)
