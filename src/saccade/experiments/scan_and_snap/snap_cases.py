"""The cases of scan-then-snap: which tasks and rates are followed, and what is kept of each flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import saccade
from saccade.errors import InputError, checked_number
from saccade.experiments.scan_and_snap.log_growth import fates, growth, leader, one_common_token
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    from saccade.experiments.scan_and_snap.scan_then_snap import Config

# Theorem 4's premise is checked at the constants of Fig. 3's family; C_0 far from 1, where the printed form is right by chance.
PREMISE: dict[str, Any] = {"n_vocab": 1000, "n_classes": 10, "lr_decoder": 1.0, "lr_attention": 0.5, "overlap_constant": 0.3}
PREMISE_TIMES = np.geomspace(0.1, 1e5, 61)
NU: dict[str, Any] = {
    "n_vocab": 10_000,
    "n_classes": 1,
    "lr_decoder": 5.0,
    "lr_attention": 0.5,
    "overlap_constant": 1.0,
}  # nu = 10, as Fig. 9

_MOST_UNKNOWNS_FOR_BDF = 2000  # SciPy's BDF is the fastest of its methods on the plain flow while its Jacobian is small


ROLES = ("base", "faster decoder", "slower decoder", "both faster", "both slower")


class Case(NamedTuple):
    """One task at one pair of rates. `group` says what is varied beside the rates: nothing, attention much slower, the vocabulary
    or the number of classes; `role` is one of `ROLES`."""

    group: str
    role: str
    task: saccade.SequenceClasses
    lr_decoder: float
    lr_attention: float


def cases_of(config: Config) -> list[Case]:
    """With a user's own classes only the rates vary."""
    eta_Y, eta_Z, factor = config.lr_decoder, config.lr_attention, checked_number("factor", config.factor, low=1.0, open_low=True)
    for name in ("lr_decoder", "lr_attention", "slow_lr_attention"):
        checked_number(name, getattr(config, name), low=0.0, open_low=True)
    base = saccade.SequenceClasses.from_csv(config.classes) if config.classes else _task(config)
    decoder = dict(zip(ROLES, (1.0, factor, 1 / factor, factor, 1 / factor), strict=True))
    attention = dict(zip(ROLES, (1.0, 1.0, 1.0, factor, 1 / factor), strict=True))
    varied = [
        Case(group, role, base, eta_Y * decoder[role], rate * attention[role])
        for group, rate in (("rates", eta_Z), ("slow rates", config.slow_lr_attention))
        for role in ROLES
    ]
    if config.classes:
        return varied
    if len(config.other_n_classes) != len(config.other_common_features):
        raise InputError("`other_n_classes` and `other_common_features` pair up: they must have one length.")
    varied += [Case("vocabulary", "base", _task(config, n_vocab=size), eta_Y, eta_Z) for size in config.vocabularies]
    others = zip(config.other_n_classes, config.other_common_features, strict=True)
    return varied + [Case("classes", "base", _task(config, n_classes=K, common_feature=f), eta_Y, eta_Z) for K, f in others]


def _task(config: Config, **changed: Any) -> saccade.SequenceClasses:
    names = ("n_classes", "common_feature", "n_distinct", "n_vocab")
    return one_common_token(**({name: getattr(config, name) for name in names} | changed))


def class_table(task: saccade.SequenceClasses) -> list[list[float]]:
    """P(l|n) over the tokens that occur, the leader's class first."""
    found = leader(task.token_prob)
    order = np.argsort(np.arange(task.n_classes) != (found.n if found else 0), kind="stable")
    return task.token_prob[order][:, task.token_prob.any(axis=0)].tolist()


def start_values(cases: list[Case]) -> dict[str, list[float]]:
    """What theory needs to know of each case. The normaliser is Theorem 4's: the leader's class overlaps others by 1 / rho_0^2."""
    values: dict[str, list[float]] = {name: [] for name in ("n_classes", "n_vocab", "lr_decoder", "lr_attention")}
    values |= {"normaliser": [], "concentration": []}
    for case in cases:
        prob, first = case.task.token_prob, leader(case.task.token_prob)
        feature = theory.normalised_feature(prob)
        n = first.n if first else 0
        overlap = theory.class_overlap(feature)[n].sum() / max(1, case.task.n_classes - 1)
        rho_0 = float(overlap**-0.5) if overlap > 0 else np.nan
        s = float(np.sum(feature[n, theory.distinct_tokens(prob)[n]] ** 4))
        row = (case.task.n_classes, case.task.n_vocab, case.lr_decoder, case.lr_attention, rho_0, s)
        for name, value in zip(values, row, strict=True):
            values[name].append(value)
    return values


def condition_rows(case: Case) -> list[list[Any]]:
    """The validator's answer: name, met, value, bound."""
    answer = theory.check_assumptions(
        case.task.token_prob,
        case.task.query,
        case.task.class_weight,
        n_vocab=case.task.n_vocab,
        lr_decoder=case.lr_decoder,
        lr_attention=case.lr_attention,
        n_context=np.inf,
    )
    return [[condition.name, condition.holds, condition.value, condition.bound] for condition in answer]


def measured(case: Case, config: Config) -> dict[str, np.ndarray]:
    """Both flows of a case, each value with the leading axis (B, C); missing where a flow is not followed or not defined."""
    settings: dict[str, Any] = {
        "t1": config.t1,
        "n_times": config.n_times,
        "lr_decoder": case.lr_decoder,
        "lr_attention": case.lr_attention,
        "keep": ("attention_logits",),
    }
    records: list[Any] = [None, None]
    # Where a class is a mixture of others the theory's flow is not defined, and the plain one has an optimum at a finite place: in
    # log time it then multiplies rounding by t, and its steps shrink without end.
    if np.linalg.matrix_rank(case.task.token_prob) == case.task.n_classes:
        records[1] = saccade.reduced_flow(case.task, **settings)
        if config.plain and case.group in ("rates", "slow rates"):
            small = np.count_nonzero(case.task.token_prob) * (case.task.n_classes + 1) < _MOST_UNKNOWNS_FOR_BDF
            records[0] = saccade.flow(case.task, method="BDF" if small else "auto", **settings)
    n_samples = config.n_times + 1
    values = [_values(record, n_samples) for record in records]
    times = next((record.time.values for record in records if record is not None), np.full(n_samples, np.nan))
    return {"steps": times} | {name: np.stack([value[name] for value in values]) for name in values[0]}


def _values(record: Any, n_samples: int) -> dict[str, Any]:
    series = ("log_growth", "top_logit", "common_logit", "common_share", "distinct_entropy")
    ends = ("falling_distinct", "rising_common", "out_of_order", "gain_error")
    if record is None or leader(record.token_prob.values) is None:
        return dict.fromkeys(series, np.full(n_samples, np.nan)) | dict.fromkeys(ends, np.nan) | {"stop_reason": "not followed"}
    return growth(record)._asdict() | fates(record)._asdict() | {"stop_reason": str(record.stop_reason.values)}


def measured_premise() -> dict[str, Any]:
    r"""Theorem 4's premise, $\dot B = -\dot z = \eta_Z\gamma e^{4z}/C_0$, integrated numerically, and the distance $\int\gamma$."""
    clock = {name: PREMISE[name] for name in ("n_vocab", "n_classes", "lr_decoder")}

    def premise(t: float, state: np.ndarray) -> list[float]:
        gamma = float(theory.speed(t, **clock))
        push = PREMISE["lr_attention"] * gamma * np.exp(4 * state[0]) / PREMISE["overlap_constant"]
        return [-push, push, gamma]

    path = solve_ivp(premise, (0, PREMISE_TIMES[-1]), np.zeros(3), t_eval=PREMISE_TIMES, method="LSODA", rtol=1e-11, atol=1e-14).y
    return {
        "premise_growth": (("premise_time",), path[1]),
        "premise_distance": (("premise_time",), path[2]),
        "late_crossing": ((), _late_crossing()),
    }


def _late_crossing() -> float:
    """Where `late_growth_bound` has grown by ln(2) / 4: its logarithm's term equals C_0 there."""

    def gap(log_t: float) -> float:
        return float(theory.late_growth_bound(np.exp(log_t), **NU)) - 0.25 * np.log(2)

    start = np.log(NU["n_classes"] / (NU["n_vocab"] * NU["lr_decoder"]))
    return float(np.exp(brentq(gap, start, start + 50)))
