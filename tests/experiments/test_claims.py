"""A check that cannot fail is not a check: generic tests over every claim of every question.

The first two change a claim, which is data. The last changes what the engines return, and so tests
all that lies between a run and its verdict: it finds a claim that no wrong engine could refute.
"""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import replace

import numpy as np
import pytest

import saccade
from saccade.experiments import experiment
from saccade.lab.claim import FAILS, HOLDS, UNMET
from saccade.lab.relation import centre
from saccade.measures.fits import Interval
from tests.experiments.small import SMALL

EVERY = pytest.mark.parametrize("name", SMALL)
# Quick enough for every run of the tests; the others take minutes.
QUICK = ("dilution", "next-direction", "symmetric-escape", "cycle")
ENGINES = ("flow", "reduced_flow", "train")


@functools.cache
def result(name):
    asked = experiment(name)
    return asked.run(asked.settings(**SMALL[name]))


def decided(claims):
    return [claim for claim in claims if claim.verdict in (HOLDS, FAILS)]


def measuring(claim, value):
    is_interval = isinstance(claim.measured, Interval)
    measured = Interval(value, value, value) if is_interval else value
    return replace(claim, measured=measured, ceilings=())


def beyond(claim):
    """The nearest number that the relation does not allow."""
    low, high = claim.relation.bounds
    edge, sign = (high, 1) if np.isfinite(high) else (low, -1)
    return edge + sign * max(1e-9, 1e-3 * abs(edge))


@EVERY
def test_a_claim_fails_just_beyond_its_bound(name):
    for claim in decided(result(name).claims):
        if claim.verdict == HOLDS:
            assert measuring(claim, beyond(claim)).verdict == FAILS, claim.label


@EVERY
def test_a_missing_number_or_an_unmet_assumption_never_holds(name):
    for claim in result(name).claims:
        assert measuring(claim, np.nan).verdict != HOLDS, claim.label
        for place, condition in enumerate(claim.given):
            unmet = replace(condition, value=np.nan)
            given = [*claim.given[:place], unmet, *claim.given[place + 1 :]]
            if not claim.breaks:
                assert replace(claim, given=given).verdict == UNMET, claim.label


def powered(power):
    """Attention whose logits are multiplied by a power."""

    def change(attention):
        raised = (attention.where(attention > 0) ** power).fillna(0)
        return raised / raised.sum(attention.dims[-1])

    return change


def as_at_first(values):
    if "time" not in values.dims:
        return values
    return values.isel(time=0).broadcast_like(values).transpose(*values.dims)


def mirrored(values):
    return values.copy(data=values.values[..., ::-1])


def tampering(of_attention, of_others):
    def tampered(run):
        numbers = {name: one for name, one in run.data_vars.items() if one.dtype.kind == "f"}
        change = {"attention": of_attention}
        return run.assign({k: change.get(k, of_others)(v) for k, v in numbers.items() if v.ndim})

    return tampered


def noisy(values):
    return values * np.random.default_rng(0).uniform(0.2, 1.8, values.shape)


WRONG = {  # those that refute most come first, since the rest are then not run
    "noise": tampering(noisy, noisy),
    "the wrong way": tampering(powered(-1.0), lambda values: -values),
    "a third too fast": tampering(powered(1.3), lambda values: 1.3 * values),
    "a clock three times too slow": lambda run: run.assign_coords(time=3 * run.time),
    "does not move": tampering(as_at_first, as_at_first),
    "tokens mixed up": tampering(mirrored, mirrored),
}


# Claims that these wrong engines leave alone: ratios that no scaling of a run changes, and numbers
# that an experiment takes from another engine than `flow`, `reduced_flow` and `train`.
NOT_OF_A_FLOW: dict[str, tuple[str, ...]] = {
    "next-direction": ("s₂ / s₁ of the embedding, equal rare tokens",),
    "symmetric-escape": ("s₂ / s₁ at the end (d 3, π₁ 0.6, λ 0.5)",),
    "cycle": ("embedding directions beyond one fewer than tokens",),
}


def noticed(right, found):
    """A known failure is far from its bound: of it only the number must change."""
    if found is None or found.verdict != right.verdict:
        return True
    close = np.isclose(centre(found.measured), centre(right.measured), rtol=0.01)
    return right.verdict == FAILS and not close


@pytest.mark.parametrize("name", QUICK)
def test_every_claim_is_refuted_by_some_wrong_engine(name, monkeypatch):
    """A claim that no wrong engine changes depends on no simulation: it is a formula."""
    asked = experiment(name)
    left = {claim.label: claim for claim in decided(result(name).claims) if not claim.breaks}
    source = inspect.getsource(inspect.getmodule(asked.function))
    # One engine at a time: a ratio of two would not change.
    used = [one for one in ENGINES if re.search(rf"saccade\.{one}\b", source)]
    wrong = [(one, tamper) for one in used for tamper in WRONG]
    for engine, tamper in wrong:
        if not left:
            break
        right_engine = getattr(saccade, engine)
        with monkeypatch.context() as patched, np.errstate(all="ignore"):
            patched.setattr(saccade, engine, lambda *a, **k: WRONG[tamper](right_engine(*a, **k)))  # noqa: B023
            try:
                found = asked.run(asked.settings(**SMALL[name])).claims
            except Exception:  # impossible numbers end it: no claim was made, so none was refuted
                continue
        now = {claim.label: claim for claim in found}
        left = {label: one for label, one in left.items() if not noticed(one, now.get(label))}
    assert [label for label in left if label not in NOT_OF_A_FLOW.get(name, ())] == []
