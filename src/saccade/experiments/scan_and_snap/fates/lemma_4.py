"""Lemma 4 against joint descent along the modified gradient: attention follows it with the rate over K, not without.

The descent here is the lemma's premise made literal: one class a step, the decoder moved by eq. 26 at the features of that
moment, attention by its exact gradient. It keeps a whole decoder, which remembers older features; the lemma does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.experiments.errata import erratum_pair
from saccade.experiments.scan_and_snap.fates.settings import Config, row, settings
from saccade.experiments.scan_and_snap.weak_classes import N_DISTINCT, conditions_met, context_prob, one_common_token
from saccade.records.claim import Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr

_TOLERANCE = 0.1
_N_SAVED = 40

DEFINITIONS = {
    "descent_logits": ("1", "z of each class's query in joint descent along the modified gradient, one class a step"),
    "lemma_4_logits": ("1", "the same by Lemma 4, as printed and with the attention rate over the number of classes"),
}


def measure(config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    task = one_common_token(overlap=config.overlap, n_vocab=config.n_vocab)
    saved = np.unique(np.geomspace(1, config.descent_steps, _N_SAVED).astype(int))
    descents = [_descend(task, config, saved, np.random.default_rng(seed)) for seed in range(config.descent_seeds)]
    forms = [_lemma_4(task, config, saved, per_step=per_step) for per_step in (False, True)]
    axes = ("step", "class", "token_of_one")
    variables = {
        "descent_logits": (("draw", *axes), np.stack(descents)),
        "lemma_4_logits": (("form", *axes), np.stack(forms)),
    }
    return variables, {"step": saved, "form": ["as printed", "corrected"]}


def _rates(config: Config) -> tuple[float, float]:
    return config.lr_decoder, config.lr_decoder * config.descent_ratio


def _descend(
    task: saccade.SequenceClasses, config: Config, saved: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """z at the saved steps (step, class, token). Written out with nothing of saccade.theory, which it is there to test."""
    prob = context_prob(task)
    same_query = (task.query[:, None] == task.query).astype(float)
    decoder, z, path = np.zeros((prob.shape[1], task.n_vocab)), np.zeros_like(prob), []
    lr_decoder, lr_attention = _rates(config)
    for step in range(1, config.descent_steps + 1):
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


def _lemma_4(task: saccade.SequenceClasses, config: Config, saved: NDArray[np.int64], *, per_step: bool) -> NDArray[np.float64]:
    from scipy.integrate import solve_ivp

    prob = context_prob(task)
    lr_decoder, lr_attention = _rates(config)

    def velocity(t: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        feature = theory.normalised_feature(theory.limit_attention(prob, state.reshape(prob.shape)))
        other = theory.backprop_coefficients(theory.class_coupling(theory.class_overlap(feature)), n_vocab=task.n_vocab).other
        gamma = float(theory.speed(t, n_vocab=task.n_vocab, n_classes=task.n_classes, lr_decoder=lr_decoder))
        z_dot = theory.attention_logits_dot(feature, other, task.query, speed=gamma, lr_attention=lr_attention, per_step=per_step)
        return z_dot.ravel()

    path = solve_ivp(velocity, (0, saved[-1]), np.zeros(prob.size), t_eval=saved, rtol=1e-8, atol=1e-12)
    return path.y.T.reshape(-1, *prob.shape)


def claims(record: xr.Dataset) -> list[Claim]:
    config = settings(record)
    task = one_common_token(overlap=config.overlap, n_vocab=config.n_vocab)
    lr_decoder, lr_attention = _rates(config)
    rates = {"lr_decoder": lr_decoder, "lr_attention": lr_attention}
    assumptions = conditions_met(task, ("1(c)", "2 ", "T1"), n_steps=config.descent_steps, **rates)
    measured, printed, corrected = _final(record)
    moving = corrected != 0
    worst = float(np.abs(measured[moving] / corrected[moving] - 1).max())
    pair = erratum_pair(
        "0.6",
        f"z of the common token after {config.descent_steps} steps of joint descent (the sum over classes has P(n) = 1/K)",
        "[tian2023, Lemma 4], eq. 10",
        printed=printed[0, 0],
        corrected=corrected[0, 0],
        measured=measured[0, 0],
        tolerance=_TOLERANCE * abs(corrected[0, 0]),
        assumptions=assumptions,
    )
    gap = "joint descent follows the lemma with the attention rate over K: largest relative gap of any token"
    return [*pair, Claim(gap, "[tian2023, Lemma 4]", 0, worst, _TOLERANCE, assumptions)]


def _final(record: xr.Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Measured, as printed, corrected at the last step (class, token)."""
    forms = record.lemma_4_logits.isel(step=-1).transpose("form", "class", "token_of_one")
    measured = record.descent_logits.isel(step=-1).mean("draw").transpose("class", "token_of_one")
    return measured.values, forms.sel(form="as printed").values, forms.sel(form="corrected").values


def rows(record: xr.Dataset) -> list[dict[str, Any]]:
    measured, printed, corrected = _final(record)
    forms = {"as printed": printed, "rate over K": corrected}
    return [
        row(f"joint descent, Lemma 4 {form}", f"class {n + 1}, token {token}", "final z", predicted[n, token], measured[n, token])
        for form, predicted in forms.items()
        for n, token in np.argwhere(corrected != 0)
    ]


def draw(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    steps = record.step.values
    names = {0: "common token", N_DISTINCT: "top distinct, class 1"}
    for i, (token, name) in enumerate(names.items()):
        here = {"class": 0, "token_of_one": token}
        forms = record.lemma_4_logits.isel(here).transpose("form", "step")
        axes.plot(steps, forms.sel(form="as printed"), "--", color=categorical(i), lw=1.2)
        axes.plot(steps, forms.sel(form="corrected"), color=categorical(i), lw=1.2)
        axes.plot(steps, record.descent_logits.isel(here).mean("draw"), "o", ms=3.5, color=categorical(i), label=name)
    axes.axhline(0, color="grey", lw=0.6)
    axes.plot([], [], "k--", lw=1.2, label=r"Lemma 4 as printed ($\eta_Z$)")
    axes.plot([], [], "k-", lw=1.2, label=r"corrected ($\eta_Z/K$)")
    axes.set(xscale="log", xlabel="step", ylabel="attention logit z")
    axes.set_title("Lemma 4 in joint descent", loc="left", fontsize=10)
    axes.legend(loc="lower left", fontsize=8)
