"""Cases in which Theorem 4 is put to the test: classes and rates, the flow followed in each, and
what theory says of it.

Shared by `scan-then-snap` (the theory's own flow) and `plain-snap` (plain gradient flow). All cases
start from one set of classes and one pair of rates and vary something. Not here: how growth is
measured and predicted (`snap_growth`), and what is claimed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError, checked_number
from saccade.experiments.scan_and_snap.snap_growth import (
    FATES,
    SCANS_FIRST,
    VOCABULARY,
    SnapTheory,
    exponent,
    one_common_token,
    onset,
)
from saccade.lab.claim import Case
from saccade.lab.panel import DASHES, DOTS, POINTS, Line, Lines
from saccade.lab.protocol import Measured, Progress, Variable, grid
from saccade.observe import fits
from saccade.records.json_files import parsed_json
from saccade.theory.condition import Condition
from saccade.theory.scan_and_snap.assumptions import (
    ALIKE_DISTINCT_TOKENS,
    DISTINCT_FOR_EACH_QUERY,
    EQUAL_CLASSES,
    FAST_DECODER,
    NO_ISOLATED_CLASS,
    ONE_COMMON_TOKEN,
    ONE_QUERY,
    WEAK_OVERLAPS,
)

STEPS = "steps of SGD"
ALONG = "case sample"
VARIABLES = {
    "steps": Variable(ALONG, STEPS, "time of each sample of a case"),
    "log_growth": Variable(
        ALONG, "1", "B: integral of dz / f² of the most frequent distinct token, at every sample"
    ),
    "theory_growth": Variable(
        ALONG,
        "1",
        "B of the corrected theory: the common token falls through all classes, coupling >= 1/M",
        "log_growth",
        "corrected theory",
    ),
    "printed_growth": Variable(
        ALONG,
        "1",
        "B of Theorem 4 as printed, normalised to 0 at t = 0",
        "log_growth",
        "Theorem 4 as printed",
    ),
    "top_logit": Variable(ALONG, "1", "z of the most frequent distinct token of one class"),
    "common_logit": Variable(ALONG, "1", "z of the most frequent common token of one class"),
    "common_share": Variable(ALONG, "1", "f² of one class summed over common tokens"),
    "distinct_entropy": Variable(
        ALONG,
        "nats",
        "entropy of attention among the distinct tokens of one class, rescaled to one",
    ),
    "top_attention": Variable(
        ALONG, "1", "attention of one class on its most frequent distinct token"
    ),
    "common_attention": Variable(ALONG, "1", "attention of one class on common tokens"),
    "attention": Variable(
        f"{ALONG} own_token",
        "1",
        "attention of one class on common tokens together, and on each distinct token",
    ),
    "theory_attention": Variable(
        f"{ALONG} own_token",
        "1",
        "the same by Theorem 2 and the corrected theory's B",
        "attention",
        "corrected theory",
    ),
    "stop_reason": Variable("case", "", "why a flow ended"),
    "conditions": Variable(
        "case", "", "assumptions of the theory, each with its number and bound, as JSON"
    ),
    "factor_growth": Variable(
        ALONG,
        "1",
        "B of theory with the factor K mended and nothing else",
        "log_growth",
        "only the factor K mended",
    ),
    "entropy_lost_theory": Variable(
        "case", "nats", "predicted loss of entropy among distinct tokens by the end"
    ),
    "gain_error": Variable("case", "1", "largest relative error of Theorem 3 at the end"),
    **{name: Variable("case", "1", definition) for name, definition in FATES.items()},
    **{
        f"{name}_named": Variable("case", "", f"which they are: {definition}")
        for name, definition in FATES.items()
    },
    "token_prob": Variable(
        "class token",
        "1",
        "P(l|n) of the classes whose rates are varied, over the tokens that occur",
    ),
}
ROLES = ("base", "faster decoder", "slower decoder", "both faster", "both slower")
DECODERS = ("slower decoder", "base", "faster decoder")
BOTH = ("both slower", "base", "both faster")
ONSET = "onset of the snap lies between t0' and t0"
WITHIN = 0.05  # of theory: our tolerance for slopes, growth and entropy lost
FEWEST = 3  # samples in a window for a slope to be fitted

# Names of the validator's conditions, and two of our own. Not asked of flow (C), and not met by the
# default cases: 1(c), which the flow has built in; Assumption 2's lower bound on eigenvalues, which
# guards against a term of -1/M in beta, a misprinted sign; and a decoder rate below 1, which only
# keeps discrete steps near the continuous height. Theorem 1's M >> 100 is read as M >= 100.
FOR_THEOREM_2 = (WEAK_OVERLAPS, NO_ISOLATED_CLASS)
_SHAPE = (ONE_COMMON_TOKEN, DISTINCT_FOR_EACH_QUERY, ONE_QUERY, ALIKE_DISTINCT_TOKENS, VOCABULARY)
FOR_PLAIN = (FAST_DECODER, WEAK_OVERLAPS, EQUAL_CLASSES, *_SHAPE)
FOR_THEOREM_4 = (*FOR_PLAIN[1:], SCANS_FIRST)


_BUILT_IN = {
    "n_classes": 5,
    "common_feature": 0.2,
    "n_distinct": 4,
}  # not said in the settings, where a user's classes have others


@dataclass(frozen=True)
class CaseSettings:
    classes: str = ""
    """a CSV file with your own P(l|n): a row per class, a column per token; empty: classes that
    share one common token
    """
    n_classes: int | None = None
    """number of classes; default: 5, or those in your file"""
    common_feature: float | None = None
    """f_nl(0) of the common token, in (0, 1); classes overlap by its square; default: 0.2, or that
    in your file
    """
    n_distinct: int | None = None
    """distinct tokens per class, with probabilities that rise linearly from 0.1 to 1 before they
    are normalised; default: 4, or those of your own classes
    """
    n_vocab: int | None = None
    """size of the vocabulary; default: 1000, or the tokens in your file"""
    lr_decoder: float = 1.0
    """decoder rate, per step"""
    lr_attention: float = 100.0
    """attention rate, per step"""
    t1: float = 1e12
    """end of the flows, steps"""
    factor: float = 10.0
    """factor by which rates are scaled up and down, above 1"""
    slow_lr_attention: float = 0.001
    """a slower attention rate, per step, at which Assumption 1(c) holds for every pair of rates"""
    n_times: int = 200
    """samples of each flow, log-spaced"""


@dataclass(frozen=True)
class Setup:
    """One task at one pair of rates. `group` says what is varied beside the rates: nothing,
    attention much slower, the vocabulary, the number of classes, or an assumption that is broken;
    `role` is one of `ROLES`, or of a control what is broken.
    """

    group: str
    role: str
    task: SequenceClasses
    lr_decoder: float
    lr_attention: float
    theory: SnapTheory = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "theory", SnapTheory.of_task(self.task, self.lr_decoder, self.lr_attention)
        )

    def options(self, settings: CaseSettings) -> dict[str, Any]:
        """Of `saccade.flow` and `saccade.reduced_flow`."""
        rates = {"lr_decoder": self.lr_decoder, "lr_attention": self.lr_attention}
        return rates | {
            "t1": settings.t1,
            "n_times": settings.n_times,
            "keep": ("attention_logits",),
        }


def rate_setups(settings: CaseSettings) -> list[Setup]:
    """The base case first; rates scaled up and down, at the attention rate and at the slow one."""
    factor = checked_number("factor", settings.factor, low=1.0, open_low=True)
    eta_Y, eta_Z, slow = (
        checked_number(name, getattr(settings, name), low=0.0, open_low=True)
        for name in ("lr_decoder", "lr_attention", "slow_lr_attention")
    )
    base = _own(settings) if settings.classes else built_in(settings)
    scales = dict(
        zip(
            ROLES,
            ((1.0, 1.0), (factor, 1.0), (1 / factor, 1.0), (factor, factor), (1 / factor,) * 2),
            strict=True,
        )
    )
    return [
        Setup(group, role, base, eta_Y * decoder, rate * attention)
        for group, rate in (("rates", eta_Z), ("slow rates", slow))
        for role, (decoder, attention) in scales.items()
    ]


def built_in(settings: CaseSettings, **changed: Any) -> SequenceClasses:
    n_vocab = 1000 if settings.n_vocab is None else settings.n_vocab
    asked = {name: value for name in _BUILT_IN if (value := getattr(settings, name)) is not None}
    return one_common_token(**(_BUILT_IN | {"n_vocab": n_vocab} | asked | changed))


def _own(settings: CaseSettings) -> SequenceClasses:
    """A user's classes; unnamed tokens fill up the vocabulary to `n_vocab`. What only the built-in
    classes have is refused.
    """
    varied = ("vocabularies", "other_n_classes", "other_common_features")
    changed = [name for name in _BUILT_IN if getattr(settings, name) is not None]
    changed += [
        name
        for name in varied
        if getattr(settings, name, None) != getattr(type(settings), name, None)
    ]
    if changed:
        raise InputError(
            f"`{changed[0]}` is for the built-in classes; leave out either it or `classes`."
        )
    task = SequenceClasses.from_csv(settings.classes)
    if settings.n_vocab is None:
        return task
    if settings.n_vocab < task.n_vocab:
        raise InputError(
            f"`n_vocab` is {settings.n_vocab}, but {settings.classes} names {task.n_vocab} tokens; it must not be smaller."
        )
    unused = (f"<unused {i}>" for i in range(task.n_vocab, settings.n_vocab))
    return replace(task, n_vocab=settings.n_vocab, token_names=(*task.token_names, *unused))


def measured(
    setups: Sequence[Setup],
    follow: Callable[[Setup], Mapping[str, Any]],
    on_progress: Progress,
    own: bool,
) -> Measured:
    """What `follow` finds in every case; nothing but the reason where nothing can be said of
    growth. `own`: a user's classes.
    """
    task, found = setups[0].task, setups[0].theory.leader
    occurs, names = task.token_prob.any(axis=0), np.array(task.labels)
    values: dict[str, Any] = {"token_prob": task.token_prob[:, occurs]}
    coords: dict[str, Any] = {"class": names[task.next_token], "token": names[occurs]}
    if said := _obstacle(task, setups[0].theory, names[task.next_token]):
        return Measured(values, coords, {"obstacle": said, "left_out": json.dumps([said])})
    theories = [setup.theory for setup in setups]
    coords |= {
        name: ("case", [getattr(setup, name) for setup in setups]) for name in ("group", "role")
    }
    coords["case"] = [
        one.role if one.group in ("rates", "vocabulary", "classes") else f"{one.group}: {one.role}"
        for one in setups
    ]
    for name in ("n_classes", "n_vocab", "lr_decoder", "lr_attention", "scan_time", "snap_time"):
        coords[name] = ("case", [getattr(one, name) for one in theories])
    coords |= _bar_names(setups[0], names if own else None)
    # A user knows tokens and classes by their names, which stand in place of the numbers of classes
    # and tokens.
    whose = (
        {"token": names[found.token], "class": names[task.next_token[found.n]]}
        if own and found
        else {}
    )
    return Measured(
        values | grid(follow, on_progress, case=setups),
        coords,
        {"obstacle": "", "whose": json.dumps(whose)},
    )


def _bar_names(setup: Setup, names: NDArray[np.str_] | None) -> dict[str, Any]:
    """What the bars of attention are; `names` of a user's tokens. Distinct tokens are d1, d2, ...
    from the rarest on otherwise.
    """
    found = setup.theory.leader
    if found is None:
        return {}
    tokens = found.rarest_first
    distinct = (
        [f"d{place}" for place in range(1, len(tokens) + 1)]
        if names is None
        else names[tokens].tolist()
    )
    roles = ["common", *["distinct"] * len(distinct)]
    return {"own_token": ["common", *distinct], "own_token_role": ("own_token", roles)}


def _obstacle(task: SequenceClasses, at: SnapTheory, names: NDArray[np.str_]) -> str:
    """Why nothing at all can be said of growth; empty if something can. `names` of the classes."""
    found, said = at.leader, ""
    if at.n_classes < 2:
        said = "with a single class there is nothing to tell apart, and attention has no drive."
    elif found is None:
        said = "every token occurs in several classes, so none is distinct and none can grow."
    elif mixed := names[_mixed(task.token_prob)].tolist():
        said = f"of the classes {', '.join(mixed)} one is a mixture of the others, for which the theory's flow is not defined."
    elif not np.isfinite(at.normaliser):
        said = f"class {names[found.n]}, which has the most frequent distinct token, overlaps no other, so its drive is zero."
    elif not np.isfinite(at.snap_time):
        said = "the onset of snapping is not defined for a vocabulary of fewer than four tokens."
    return f"All claims are left out: {said}" if said else ""


def _mixed(prob: NDArray[np.float64]) -> NDArray[np.int64]:
    """Classes of which one is a mixture of the others."""
    weights = np.linalg.svd(prob @ prob.T)[0][:, np.linalg.matrix_rank(prob) :]
    return np.flatnonzero(np.abs(weights).max(axis=1, initial=0.0) > 1e-6)


def window(at: SnapTheory | Flow, t: NDArray[np.float64], side: str) -> NDArray[np.bool_]:
    """Samples on one side of the snap: scanning, t0'/3 to t0', or snapping, from t0 on."""
    return (
        (t >= at.scan_time / 3) & (t <= at.scan_time) if side == "scanning" else t >= at.snap_time
    )


class Flow:
    """One case of a record after t = 0, as plain data. `curves` are log growth along the flow, by
    corrected theory, as printed, and with the factor K alone mended; they have local exponents and,
    on either side of the snap, slopes.
    """

    def __init__(self, record: xr.Dataset, place: int) -> None:
        self.run = record.isel(case=place)
        self.group, self.role = str(self.run.group.values), str(self.run.role.values)
        self.lr_decoder, self.lr_attention = (
            float(self.run.lr_decoder),
            float(self.run.lr_attention),
        )
        self.n_classes, self.n_vocab = int(self.run.n_classes), int(self.run.n_vocab)
        self.scan_time, self.snap_time = float(self.run.scan_time), float(self.run.snap_time)
        self.whose = parsed_json(record.attrs["whose"])
        told = parsed_json(str(self.run.conditions.values))
        self.given = {
            row["name"]: Condition.of(row)
            for row in (*told["assumed"][0]["conditions"], *told["own"])
        }
        self.t, names = (
            self.run.steps.values[1:],
            [name for name in record if str(name).endswith("_growth")],
        )
        self.curves = {
            str(name).removesuffix("_growth"): self.run[name].values[1:] for name in names
        }
        self.exponents = {name: exponent(curve, self.t) for name, curve in self.curves.items()}
        self.onset = onset(self.curves["log"], self.t)
        self.inside = {side: window(self, self.t, side) for side in ("scanning", "snapping")}
        late = self.inside["snapping"]
        self.log_height = np.log(
            np.log(self.n_vocab * self.lr_decoder * self.t[late] / self.n_classes)
        )
        against = {"scanning": np.log(self.t[self.inside["scanning"]]), "snapping": self.log_height}
        self.slopes = {
            side: {name: _slope(x, curve[self.inside[side]]) for name, curve in self.curves.items()}
            for side, x in against.items()
        }
        self.entropy_lost = float(
            self.run.distinct_entropy[0] - self.run.distinct_entropy[-1]
        )  # nats

    def case(self, needs: Sequence[str], **settings: Any) -> Case:
        named = self.whose or {"K": self.n_classes, "M": self.n_vocab}
        rates = {"η_Y": self.lr_decoder, "η_Z": self.lr_attention}
        return Case(named | rates | settings, [self.given[name] for name in needs])


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return fits.slope(x, y) if len(x) >= FEWEST else np.nan


def flows_of(record: xr.Dataset) -> dict[tuple[str, str], Flow]:
    """Every case, by group and role."""
    return {
        (one.group, one.role): one
        for one in (Flow(record, place) for place in range(record.sizes.get("case", 0)))
    }


def stages(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """`stages.csv`: when each case scans, bends and has snapped, by theory."""
    names = record.case.values if "case" in record.coords else ()
    rows = (
        [
            {"case": name, "stage": stage, "from": time}
            for name, scan, snap in zip(
                names, record.scan_time.values, record.snap_time.values, strict=True
            )
            for stage, time in (
                ("scanning", 0.0),
                ("slowing", float(scan)),
                ("snapped", float(snap)),
            )
        ]
        if len(names)
        else []
    )
    return {"stages.csv": (["case", "stage", "from"], rows)}


def onset_power(flows: Mapping[tuple[str, str], Flow]) -> float:
    """Power of the decoder's rate in the onset."""
    ends = [flows["rates", role] for role in ("slower decoder", "faster decoder")]
    return fits.power([one.lr_decoder for one in ends], [one.onset for one in ends])


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Every sample of every flow, with theory beside it."""
    rows = []
    for one in flows_of(record).values():
        head = {
            "group": one.group,
            "role": one.role,
            **one.whose,
            "n_classes": one.n_classes,
            "n_vocab": one.n_vocab,
        }
        head |= {"lr_decoder": one.lr_decoder, "lr_attention": one.lr_attention}
        endings = {"log": "", "theory": "_theory", "printed": "_printed"}
        columns = {"t": one.t} | {
            f"log_growth{ending}": one.curves[name] for name, ending in endings.items()
        }
        columns |= {f"exponent{ending}": one.exponents[name] for name, ending in endings.items()}
        columns |= {
            name: one.run[name].values[1:]
            for name in ("top_logit", "common_logit", "distinct_entropy")
        }
        rows += [
            head | {name: float(values[i]) for name, values in columns.items()}
            for i in range(len(one.t))
        ]
    return rows or [
        {"left_out": sentence} for sentence in parsed_json(record.attrs["left_out"], list)
    ]


def growth_panel(flows: Mapping[tuple[str, str], Flow], title: str, *, theory: bool) -> Lines:
    lines, three = [], [flows["rates", role] for role in DECODERS]
    ends = [float(one.curves["log"][-1]) for one in three]
    top = 1.1 * max([end for end in ends if np.isfinite(end)], default=1.0)
    for i, one in enumerate(three):
        lines.append(
            Line(
                one.t[::4],
                one.curves["log"][::4],
                f"η_Y = {one.lr_decoder:g}, η_Z = {one.lr_attention:g}",
                POINTS,
                i,
            )
        )
        if theory:
            lines.append(Line(one.t, one.curves["theory"], "", tone=i))
        lines += [
            Line([one.scan_time] * 2, [0, top], "", DOTS, i),
            Line([one.snap_time] * 2, [0, top], "", DASHES, i),
        ]
    whose = (
        f" of {three[0].whose['token']} in class {three[0].whose['class']}"
        if three[0].whose
        else ""
    )
    return Lines(
        title,
        "t (steps)",
        f"log growth B = ∫ dz / f²{whose}",
        lines,
        "x",
        xlim=(1e-1, None),
        ylim=(0, top),
    )
