"""The engines as users call them, for any system. Each record also lists which assumptions of the
theory it meets.

A system is a model on its data (`saccade.System`). Data alone will do: `SequenceClasses` and
`Windows` of a text are learnt by the pairwise model of Scan and Snap, a `MarkovChain` by the
embedded model of Focus and Dilution, a `Corpus` of text by a Transformer. Dynamics know no theory
and theory knows no dynamics; this is where a run meets the validator.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from saccade.data.markov import MarkovChain
from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.corpus import Corpus
from saccade.data.text.windows import Windows
from saccade.engines import descent, embedded_descent, window_descent  # noqa: F401  # these register their `train`
from saccade.engines import linearise as near_rest
from saccade.engines.flow import checked_parameters
from saccade.engines.flow import flow as followed
from saccade.engines.linearise import CriticalPoint, Spectrum
from saccade.engines.train import train as trained
from saccade.errors import InputError, checked_kind, shortened
from saccade.later import jax, xr
from saccade.models.embedded import Embedded
from saccade.models.pairwise import OnClasses, Pairwise
from saccade.models.pairwise_start import pairwise_start, reduced_start
from saccade.models.pairwise_text import PairwiseText
from saccade.models.rank_one import RankOneEmbedded
from saccade.models.reduced_pairwise import ReducedPairwise
from saccade.models.system import System
from saccade.records.json_files import json_ready, parsed_json
from saccade.theories import focus_and_dilution, scan_and_snap

_MOST_ENTRIES = (
    10_000_000  # of P(l|n); beyond it the validator's dense overlaps would cost more than the run
)


def train(
    system: System | SequenceClasses | Windows | MarkovChain,
    *,
    steps: int | None = None,
    optimiser: str | None = None,
    momentum: float | None = None,
    epsilon: float | None = None,
    lr_decoder: float | Sequence[float] | np.ndarray | None = None,
    lr_attention: float | Sequence[float] | np.ndarray | None = None,
    batch: float | None = None,
    context: float | None = None,
    sequences: int | None = None,
    model: Pairwise | Embedded | None = None,
    seeds: int | Sequence[int] | None = None,
    start: Any = None,
    save: str | Sequence[int] | None = None,
    keep: Sequence[str] | None = None,
    dtype: str | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> xr.Dataset:
    """(A) Train: one run per seed and, for classes, per pair of rates. Defaults are in brackets.

    | argument                     | for              | meaning [default]                                                          |
    |------------------------------|------------------|----------------------------------------------------------------------------|
    | `system`                     |                  | a `System`, `SequenceClasses`, `Windows` or a `MarkovChain`                |
    | `steps`                      | all              | updates [1000; 100 for classes and windows, 3000 for a chain]              |
    | `optimiser`                  | all              | `"sgd"` or `"adam"` [sgd; adam for a chain]                                |
    | `momentum`                   | all              | of SGD, in [0, 1) [0]                                                      |
    | `epsilon`                    | system, chain    | of Adam: gradients well below it are not rescaled [1e-8]                   |
    | `lr_decoder`, `lr_attention` | data             | rates [1; 0.001 for a chain]; classes: also lists of one length, all pairs |
    |                              |                  | on the same data. Your own system has its `rates()`                        |
    | `batch`                      | data             | sequences per step [128; 512 for a chain]; `math.inf`: the population      |
    | `context`                    | data             | tokens per context [127; 200 for a chain]; `math.inf`: infinitely many     |
    | `sequences`                  | chain            | sequences that each seed draws to learn from [20,000]                      |
    | `model`                      | data             | `Pairwise(...)` or `Embedded(...)`                                         |
    | `seeds`                      | all              | a count n for the seeds 0 .. n-1, or a list [1]                            |
    | `start`                      | system, classes  | parameters to begin from [the system's]; classes: as in `flow`             |
    | `save`                       | all              | `"log"`, `"linear"` or a list of steps ["log"]                             |
    | `keep`                       | all              | which variables the record keeps [attention for classes, else everything]  |
    | `dtype`                      | data             | `"float32"` or `"float64"` [float32]; a system: float64                    |
    | `on_progress`                | all              | called with the share of the work that is done                             |

    A Transformer on a text is trained by `saccade.train_text`.
    """
    given = {
        name: value
        for name, value in locals().items()
        if value is not None and name not in ("system", "model")
    }
    settable = isinstance(
        system, SequenceClasses | Pairwise | MarkovChain | Embedded
    )  # else rates are the system's own
    rates = {
        name: given.pop(name)
        for name in ("lr_decoder", "lr_attention")
        if not settable and name in given
    }
    bound, begin = _begun(_system(system, model, **rates), start)
    own = trained.dispatch(type(bound))
    accepted = _accepted(own, _called(system), given)
    return _with_assumptions(
        bound, own(bound, **(accepted | ({} if begin is None else {"start": begin}))), begin
    )


def flow(
    system: System | SequenceClasses | Windows | MarkovChain,
    *,
    t1: float | None = None,
    n_times: int | None = None,
    times: Sequence[float] | np.ndarray | None = None,
    lr_decoder: float | None = None,
    lr_attention: float | None = None,
    model: Pairwise | Embedded | None = None,
    seeds: int | Sequence[int] | None = None,
    seed: int | None = None,
    start: Any = None,
    method: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    keep: Sequence[str] | None = None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """(B) Population gradient flow from t = 0 to `t1`, recorded at 0 and at `n_times` log-spaced
    times, or at your own `times`.

    | argument                     | meaning [default]                                                                            |
    |------------------------------|----------------------------------------------------------------------------------------------|
    | `system`                     | a `System`, `SequenceClasses`, `Windows` of a text or a `MarkovChain`                        |
    | `t1`                         | end; a unit of time is a step of descent at rate 1 [1e4; 1e12 for classes, 5000 for a chain] |
    | `n_times`                    | samples after t = 0 [200; 1500 for a chain]                                                  |
    | `times`                      | when to record instead, increasing; `times_around(instant, until=...)` makes such a list     |
    | `lr_decoder`, `lr_attention` | rates of the built-in models [1]; your own system has its `rates()`                          |
    | `model`                      | `Pairwise(...)` for classes, `Embedded(...)` for a chain                                     |
    | `seeds`                      | a count n for the seeds 0 .. n-1, or a list; each draws its own start [1]                    |
    | `seed`                       | one run instead, without an axis for seeds [0, where the start is not random]                |
    | `start`                      | parameters to begin from instead, or one time of a record; then there is one run. Classes:   |
    |                              | `{"decoder": Y, "attention_logits": Z}`, whole matrices; what is left out is zero            |
    | `method`                     | SciPy's LSODA, BDF or Radau (with JAX's Jacobian) or DOP853 [C for the embedded model, else  |
    |                              | by the number of unknowns]                                                                   |
    | `rtol`, `atol`               | error allowed in each step, relative and absolute [1e-8, 1e-10; 1e-10, 1e-12 for a chain]    |
    | `keep`                       | which variables the record keeps in addition to the loss [all; no decoder for classes]       |
    | `on_progress`                | called with the share of the work that is done                                               |
    """
    bound, begin = _begun(
        _system(system, model, lr_decoder=lr_decoder, lr_attention=lr_attention), start
    )
    return _with_assumptions(
        bound,
        followed(
            bound,
            t1=t1,
            n_times=n_times,
            times=times,
            seeds=seeds,
            seed=seed,
            start=begin,
            method=method,
            rtol=rtol,
            atol=atol,
            keep=keep,
            on_progress=on_progress,
        ),
        begin,
    )


def reduced_flow(
    task: SequenceClasses | MarkovChain,
    *,
    t1: float | None = None,
    n_times: int | None = None,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
    model: Embedded | None = None,
    start: Any = None,
    method: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    keep: Sequence[str] | None = None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """(C) The theory's simplified flow: `flow` of `ReducedPairwise(task)` for classes, of
    `RankOneEmbedded(chain)` for a chain.

    Arguments as in `flow`. `model` is for a chain; classes have the paper's model, and start at
    zero unless `start` gives their `attention_logits`.
    """
    rates: dict[str, Any] = {"lr_decoder": lr_decoder, "lr_attention": lr_attention}
    reduced: System
    if isinstance(task, MarkovChain):
        reduced = RankOneEmbedded(
            task,
            replace(
                Embedded() if model is None else checked_kind("model", model, Embedded), **rates
            ),
        )
    elif not isinstance(task, SequenceClasses):
        raise InputError(
            f"`reduced_flow` is that of a SequenceClasses or a MarkovChain, got {shortened(task)}; `flow` follows any System."
        )
    elif model is not None:
        raise InputError(
            "`model` is for a chain: the reduced flow of classes has the paper's model."
        )
    else:
        reduced = ReducedPairwise(task, **rates)
    settings: dict[str, Any] = {
        "t1": t1,
        "n_times": n_times,
        "start": start,
        "method": method,
        "rtol": rtol,
        "atol": atol,
        "keep": keep,
    }
    return flow(reduced, **settings, on_progress=on_progress)


def critical_point(
    system: System | SequenceClasses | MarkovChain,
    *,
    near: Any,
    tolerance: float = 1e-12,
    most_steps: int = 100,
) -> CriticalPoint:
    """A critical point of the system's flow, found by Newton's method near a given point;
    `stop_reason` says if that fails.

    | argument     | meaning                                                                                            |
    |--------------|----------------------------------------------------------------------------------------------------|
    | `near`       | parameters, or one time of a record: `record.isel(time=-1)`                                        |
    | `tolerance`  | speed below which a point counts as critical; rounding alone gives about 1e-15                     |
    | `most_steps` | Newton steps before it gives up                                                                    |
    """
    bound = _system(system)
    velocity, _, setting, *_ = bound.equations()
    return near_rest.critical_point(
        velocity,
        _parameters("near", bound, near),
        setting,
        tolerance=tolerance,
        most_steps=most_steps,
    )


def linearise(
    system: System | SequenceClasses | MarkovChain,
    *,
    at: Any,
    blocks: Mapping[str, Sequence[str]] | None = None,
    tolerance: float = 1e-9,
) -> Spectrum:
    """Linearise the system's flow at a point: modes with their growth rates, and the share of each
    block in each mode.

    | argument    | meaning                                                                                                 |
    |-------------|---------------------------------------------------------------------------------------------------------|
    | `at`        | parameters, a `critical_point(...)`, or one time of a record: `record.isel(time=-1)`                     |
    | `blocks`    | groups of fields of the parameters, `{"attention": ["query", "key"]}`; default: each field is a block   |
    | `tolerance` | growth rate above which a mode counts as unstable                                                       |
    """
    bound = _system(system)
    velocity, _, setting, *_ = bound.equations()
    return near_rest.spectrum(
        velocity, _parameters("at", bound, at), setting, blocks=blocks, tolerance=tolerance
    )


def _system(given: Any, model: Any = None, **rates: float | None) -> System:
    """Data with its usual model, a system as it is; with the rates that are given."""
    wanted: dict[str, Any] = {name: rate for name, rate in rates.items() if rate is not None}
    if isinstance(given, SequenceClasses):
        return replace(
            Pairwise() if model is None else checked_kind("model", model, Pairwise),
            task=given,
            **wanted,
        )
    if isinstance(given, Windows):
        options = {} if model is None else _shared_options(checked_kind("model", model, Pairwise))
        return PairwiseText(given, **options, **wanted)
    if isinstance(given, MarkovChain):
        return replace(
            Embedded() if model is None else checked_kind("model", model, Embedded),
            chain=given,
            **wanted,
        )
    _checked_data(given, System)
    if model is not None:
        raise InputError(
            f"`model` is for data; {type(given).__name__} already is a model with its data."
        )
    if wanted and not isinstance(given, Pairwise | PairwiseText | Embedded):
        raise InputError(
            f"`{next(iter(wanted))}` is for the built-in models; {type(given).__name__} has its own `rates()`."
        )
    return replace(given, **wanted) if wanted else given


def _shared_options(model: Pairwise) -> dict[str, Any]:
    """What `PairwiseText` has of the options of `Pairwise`."""
    if model.query_key or model.init != "zero":
        raise InputError(
            "windows of a text start at zero and without the query among its keys: leave out `init` and `query_key`."
        )
    return {
        name: getattr(model, name)
        for name in ("normalise", "residual", "lr_decoder", "lr_attention")
    }


def _checked_data(given: Any, kind: type) -> Any:
    if not isinstance(given, kind):
        also = "for text, make a `saccade.corpus` and call `saccade.train_text`"
        if isinstance(given, Corpus):
            also = (
                "train on a corpus with `saccade.train_text`; its flow is that of its `windows()`"
            )
        elif isinstance(given, type):
            also = f"make one of the class first, {given.__name__}(...)"
        raise InputError(
            f"the first argument must be a System, a SequenceClasses, Windows or a MarkovChain, got {shortened(given)}; {also}."
        )
    return given


def _called(given: Any) -> str:
    return (
        "classes"
        if isinstance(given, SequenceClasses)
        else "a chain"
        if isinstance(given, MarkovChain)
        else type(given).__name__
    )


def _accepted(engine: Callable[..., Any], of: str, given: dict[str, Any]) -> dict[str, Any]:
    """Settings that this training has; those that it must have are there."""
    parameters = list(inspect.signature(engine).parameters.values())[1:]
    known = [parameter.name for parameter in parameters]
    other = [name for name in given if name not in known]
    if other:
        raise InputError(
            f"`{other[0]}` is not a setting of training {of}; it has {', '.join(known)}."
        )
    missing = [one.name for one in parameters if one.default is one.empty and one.name not in given]
    if missing:
        raise InputError(f"training {of} needs {', '.join(missing)}.")
    return given


def _parameters(name: str, system: System, given: Any) -> Any:
    """Parameters from what stands for them: a record at one time, a critical point, or parameters."""
    if isinstance(given, xr.Dataset):
        return system.parameters_of(given)
    return checked_parameters(
        name, system, given.state if isinstance(given, CriticalPoint) else given
    )


def _begun(system: System, start: Any) -> tuple[System, Any]:
    """The system, and parameters from what stands for them: a record at one time, or the whole
    matrices of the pairwise model.
    """
    if start is None:
        return system, start
    if isinstance(start, xr.Dataset):
        return system, system.parameters_of(start)
    if isinstance(start, Mapping) and isinstance(system, Pairwise):
        return pairwise_start(system, start)
    if isinstance(start, Mapping) and isinstance(system, ReducedPairwise):
        return system, reduced_start(system, start)
    return system, start


def _with_assumptions(system: System, record: xr.Dataset, start: Any = None) -> xr.Dataset:
    """Keep the validator's answer as JSON in `attrs["assumptions"]`: an entry for each pair of
    rates.
    """
    record.attrs["assumptions"] = json.dumps(json_ready(assumptions_of(system, record, start), str))
    return record


def assumptions_of(system: System, record: xr.Dataset, start: Any = None) -> list[dict[str, Any]]:
    """Conditions of the theory that the system belongs to, for each pair of rates in its record;
    `start`: one that was given.

    None of a system of one's own, which no theory here is about, and none for a task of more than
    ten million probabilities, where the validator would cost more than the run.
    """
    check = next((check for kind, check in _CONDITIONS.items() if isinstance(system, kind)), None)
    if (
        check is None
        or max(record[name].size for name in ("transition", "token_prob") if name in record)
        > _MOST_ENTRIES
    ):
        return []
    config = parsed_json(record.attrs["config"])
    if start is not None:
        config["start_scale"] = max(
            float(np.max(np.abs(part), initial=0.0)) for part in jax.tree.leaves(start)
        )
    pairs = np.atleast_2d(np.stack([record.lr_decoder, record.lr_attention], axis=-1))
    return [
        {
            "task": config["task"],
            "lr_decoder": float(lr_decoder),
            "lr_attention": float(lr_attention),
            "conditions": [
                vars(condition) | {"holds": condition.holds}
                for condition in check(record, config, float(lr_decoder), float(lr_attention))
            ],
        }
        for lr_decoder, lr_attention in pairs
    ]


def _class_conditions(
    record: xr.Dataset, config: dict[str, Any], lr_decoder: float, lr_attention: float
) -> list[Any]:
    """Assumptions 1 and 2 of Scan and Snap, and of the theorems that add to them."""
    model = config.get("model", {"init": "zero"})
    uniform = model.get("init") == "uniform"
    return scan_and_snap.check_assumptions(
        record.token_prob.values,
        record.class_query.values,
        record.class_weight.values,
        n_vocab=record.sizes["token"],
        lr_decoder=lr_decoder,
        lr_attention=max(lr_attention, sys.float_info.min),
        n_context=float(config.get("context", "inf")),
        init_scale=config.get(
            "start_scale",
            (model.get("init_scale") or record.sizes["token"] ** -0.5) if uniform else 0.0,
        ),
        n_steps=config.get("steps"),
    )


def _chain_conditions(
    record: xr.Dataset, config: dict[str, Any], lr_decoder: float, lr_attention: float
) -> list[Any]:
    """What Focus and Dilution assumes of the chain, the context and the start."""
    return focus_and_dilution.check_assumptions(
        record.stationary.values,
        record.transition.values,
        n_context=float(config.get("context", "inf")),
        init_scale=config["model"]["init_scale"],
        d_model=config["model"]["d_model"],
        phi_scale=Embedded(**config["model"]).phi_scale,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
    )


_CONDITIONS: dict[type, Callable[..., list[Any]]] = {
    OnClasses: _class_conditions,
    Embedded: _chain_conditions,
    RankOneEmbedded: _chain_conditions,
}
