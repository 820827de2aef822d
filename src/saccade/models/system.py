r"""What a model with its data must define for every engine to work: `flow`, `train`, `linearise`,
`critical_point`, `find_events`.

Parameters are any tree of arrays; the fields of a NamedTuple (the keys of a dict) are its blocks,
which have rates of their own. An engine asks a system for nothing else, so the built-in models and
a stranger's are the same to it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saccade.errors import InputError, checked_choice, checked_kept, checked_number, shortened
from saccade.later import jax, jnp, tree

if TYPE_CHECKING:
    import xarray as xr

_TAKEN = ("time", "seed", "rate")  # axes that an engine adds
_KEPT_BY_ENGINES = (*_TAKEN, "loss", "stop_reason", "stop_time")


@tree(data_fields=["values"], meta_fields=["axes", "unit", "definition"])
@dataclass(frozen=True)
class Observable:
    """An array to be kept in a record: names of its axes, values, unit, and a sentence that says
    what it is.
    """

    axes: tuple[str, ...]
    values: Any
    unit: str = "1"
    definition: str = (
        ""  # left out by the built-in models only, whose variables `records/schema.py` defines
    )


class Solver(NamedTuple):
    """How a flow is followed unless the caller says otherwise."""

    t1: float = 1e4
    n_times: int = 200
    rtol: float = 1e-8
    atol: float = 1e-10
    # LSODA factorises its matrices without blocking: without its C code the embedded model needs 2
    # s at 224 unknowns (6 tokens) where BDF needs 3, and 48 s at 640 (32 tokens) where BDF needs
    # 27. Its error is smaller at equal tolerances.
    most_for_lsoda: int = 450


class Followed(NamedTuple):
    """A flow that compiled code has followed: states (time, unknown), losses, and how often the
    velocity or a derivative of it was evaluated.
    """

    method: str
    path: np.ndarray
    losses: np.ndarray
    n_evaluations: int


class Equations(NamedTuple):
    """Velocity and loss as functions of (parameters, setting). Another setting of the same shapes
    does not compile again.
    """

    velocity: Callable[[Any, Any], Any]
    loss: Callable[[Any, Any], Any]
    setting: Any
    batch_loss: Callable[[Any, Any, Any], Any] | None = (
        None  # of (parameters, batch, setting); None: no mini-batches
    )
    without_jax: Callable[[Any], tuple[float, Any]] | None = (
        None  # loss and velocity in NumPy, where a system is faster that way
    )
    observe: Callable[[Any, Any], Any] | None = (
        None  # `observe` of (parameters, setting), which then compiles once as well
    )
    # compiled code for the whole flow: (setting, start, times, rtol=, atol=, on_time=); None where
    # it cannot
    compiled: Callable[..., Followed | None] | None = None


class System(ABC):
    r"""A model with its data. Subclass it, define its initial parameters and its loss, and every
    solver of Saccade works on it.

    | method                          | says                                                                  | default            |
    |---------------------------------|-----------------------------------------------------------------------|--------------------|
    | `start(rng)`                    | parameters at time 0: arrays in a NamedTuple, a dict or another tree  | you write it       |
    | `loss(parameters)`              | population loss, one number, written in `jax.numpy`                   | you write it       |
    | `observe(parameters)`           | `{name: Observable(axes, values, unit, definition)}`, in `jax.numpy`        | nothing            |
    | `rates()`                       | `{block: rate}`, the learning rate of each field of the parameters    | 1 for every block  |
    | `coordinates()`                 | `{axis: names}`, such as tokens; and numbers to label a record        | none               |
    | `data()`                        | `{name: Observable(...)}`, the data that a reader of the record needs       | nothing            |
    | `batch(rng)`                    | arrays that one step of training reads, always of the same shapes     | no mini-batches    |
    | `batch_loss(parameters, batch)` | loss of a batch, in `jax.numpy`                                       | no mini-batches    |
    | `velocity(parameters)`          | how parameters move in a flow                                         | -rate x gradient   |

    ```python
    class Parameters(NamedTuple):
        x: Any
        y: Any

    class Saddle(saccade.System):
        def start(self, rng):
            return Parameters(1e-3 * rng.standard_normal(3), 1e-3 * rng.standard_normal(3))

        def loss(self, parameters):
            return jnp.sum((parameters.x * parameters.y - 1) ** 2)

        def observe(self, parameters):
            return {"product": saccade.Observable(("direction",), parameters.x * parameters.y, "1", "x times y")}

    record = saccade.flow(Saddle(), t1=100, seeds=3)
    ```

    A record also has the parameters, as `parameter_x` and `parameter_y`, so that a solver can start
    from any of its times. For a loss in nats say `loss_unit = "nats"` in the class; otherwise
    figures name no unit. Attributes are constants of the compiled code: it is compiled again if one
    is replaced, not if an array is changed in place.
    """

    solver: Solver = Solver()
    seeds: int | None = (
        1  # how many runs without `seeds`; None: a start that is not random, one run without an axis for seeds
    )
    keep: Sequence[str] | None = None  # what a record keeps without `keep`; None: everything
    time_unit: str = "steps of gradient descent at rate 1"
    loss_unit: str = ""  # "nats" for a cross-entropy

    @abstractmethod
    def start(self, rng: np.random.Generator) -> Any:
        """Parameters at time 0."""

    @abstractmethod
    def loss(self, parameters: Any) -> Any:
        """Population loss, one number."""

    def observe(self, parameters: Any) -> Mapping[str, Observable]:
        """What a record keeps of these parameters."""
        return {}

    def rates(self) -> Mapping[str, float]:
        """Learning rate of each block; 1 for those that are left out."""
        return {}

    def coordinates(self) -> Mapping[str, Any]:
        """Names along axes, and numbers that a record is found by."""
        return {}

    def data(self) -> Mapping[str, Observable]:
        """The data itself, so that a record can be read without the code that made it."""
        return {}

    def batch(self, rng: np.random.Generator) -> Any:
        """What one step of training reads."""
        raise InputError(f"{type(self).__name__} has no mini-batches: it defines no `batch`.")

    def batch_loss(self, parameters: Any, batch: Any) -> Any:
        """Loss of one batch."""
        raise InputError(
            f"{type(self).__name__} has no loss of a mini-batch: it defines no `batch_loss`."
        )

    def velocity(self, parameters: Any) -> Any:
        """Downhill, each block at its rate."""
        slope = jax.grad(self.loss)(parameters)
        return jax.tree.map(lambda rate, part: -rate * part, rates_by_leaf(self, parameters), slope)

    def equations(self) -> Equations:
        """Velocity and loss for compiled code; the same functions as long as no attribute has been
        replaced.
        """
        attributes = {name: value for name, value in vars(self).items() if name != "_equations"}
        known = vars(self).get("_equations")
        if (
            known is None
            or known[0].keys() != attributes.keys()
            or any(known[0][name] is not attributes[name] for name in attributes)
        ):
            frozen = copy.copy(self)  # later changes of this object are another system
            _check_number("loss", frozen, _shapes("loss", frozen, frozen.loss))
            vars(self)["_equations"] = known = attributes, _equations_of(frozen)
        return known[1]

    def config(self) -> dict[str, Any]:
        """Settings for the record: the name, and attributes that are numbers or text."""
        plain = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, bool | int | float | str)
        }
        return {"task": type(self).__name__, "model": plain, "rates": dict(self.rates())}

    def label(self, dynamics: str) -> str:
        """What made the record, "A: mini-batch training" say, of which system."""
        return f"{dynamics}, {type(self).__name__}"

    def observable(self) -> tuple[str, ...]:
        """Names that `keep` may list."""
        seen = _shapes("observe", self, self._all_seen)
        _check_record(self, seen)
        return tuple(seen)

    def kept(self, keep: Sequence[str] | None) -> tuple[str, ...]:
        """What a record keeps, checked before the work: by default what the system says."""
        possible = self.observable()
        wanted = (possible if self.keep is None else self.keep) if keep is None else keep
        checked_kept(wanted, possible)
        return tuple(wanted)

    def observe_path(self, path: Any, keep: Sequence[str]) -> Mapping[str, Observable]:
        """What is seen of parameters with a leading axis of times: parameters as they are, all else
        by compiled code.
        """
        plain = {name: seen for name, seen in _parameters_seen(path, leading=1) if name in keep}
        if set(keep) <= set(plain):
            return plain
        with jax.enable_x64(True):  # float32 stays what it is
            seen = (
                self._seen_one_by_one(path)
                if self.equations().observe
                else jax.jit(jax.vmap(self._all_seen))(path)
            )
            return {name: jax.tree.map(np.asarray, {**plain, **seen}[name]) for name in keep}

    def _seen_one_by_one(self, path: Any) -> Mapping[str, Observable]:
        """By code that is shared by flows with other data and other numbers of samples."""
        equations = self.equations()
        setting, observe = equations.setting, equations.observe
        samples = [
            compiled(observe)(jax.tree.map(lambda part, i=i: part[i], path), setting)
            for i in range(len(jax.tree.leaves(path)[0]))
        ]
        return jax.tree.map(lambda *parts: np.stack(parts), *samples)

    def parameters_of(self, record: xr.Dataset) -> Any:
        """The parameters at one time of a record of this system."""
        leaves, structure = jax.tree_util.tree_flatten_with_path(
            self.start(np.random.default_rng(0))
        )
        names = [f"parameter_{leaf_name(path)}" for path, _ in leaves]
        values = kept_values(record, names, [np.shape(leaf) for _, leaf in leaves])
        return jax.tree.unflatten(structure, values)

    def _all_seen(self, parameters: Any) -> dict[str, Observable]:
        """Parameters, then what `observe` gives, checked."""
        own, seen = dict(_parameters_seen(parameters)), self.observe(parameters)
        return own | _checked_seen("observe", seen, (*_KEPT_BY_ENGINES, *own))


class SettledSystem(System):
    """A system whose velocity and loss are functions of (parameters, setting), shared by all of its
    kind: they compile once.
    """

    @abstractmethod
    def equations(self) -> Equations: ...

    def loss(self, parameters: Any) -> Any:
        equations = self.equations()
        return equations.loss(parameters, equations.setting)

    def velocity(self, parameters: Any) -> Any:
        equations = self.equations()
        return equations.velocity(parameters, equations.setting)

    def observable(self) -> tuple[str, ...]:
        return tuple(self.keep or ())

    def observe(self, parameters: Any) -> Mapping[str, Observable]:
        return self.observe_path(parameters, self.observable())


def rates_by_leaf(system: System, parameters: Any) -> Any:
    """A tree like the parameters with the rate of every array."""
    blocks = list(
        dict.fromkeys(
            leaf_name(path[:1]) for path, _ in jax.tree_util.tree_flatten_with_path(parameters)[0]
        )
    )
    rates = {
        checked_choice("block of `rates()`", name, blocks): rate
        for name, rate in system.rates().items()
    }
    checked = {
        name: checked_number(f"rates()['{name}']", rate, low=0.0, high=1e30)
        for name, rate in rates.items()
    }
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: checked.get(leaf_name(path[:1]), 1.0), parameters
    )


def downhill(loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The velocity of gradient descent on `loss(parameters, setting)`; `setting.rates` is a tree
    like the parameters.
    """

    def velocity(parameters: Any, setting: Any) -> Any:
        return jax.tree.map(
            lambda rate, slope: -rate * slope, setting.rates, jax.grad(loss)(parameters, setting)
        )

    return velocity


def leaf_name(path: tuple[Any, ...]) -> str:
    """`decoder_own` for `.decoder.own`; the first part names the block."""
    return jax.tree_util.keystr(path, simple=True, separator="_") or "parameters"


def kept_values(
    record: xr.Dataset, names: Sequence[str], shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    """Variables of one time of one run."""
    run = record.isel(seed=0) if record.sizes.get("seed") == 1 else record
    missing = [name for name in names if name not in run]
    if missing:
        raise InputError(
            f"the record does not contain {', '.join(missing)}: make it with keep={list(names)}."
        )
    left = [str(axis) for axis in _TAKEN if any(axis in run[name].dims for name in names)]
    if left:
        picked = ", ".join(f"{axis}={'-1' if axis == 'time' else '0'}" for axis in left)
        raise InputError(f"parameters belong to one time and one run: take record.isel({picked}).")
    values = [np.asarray(run[name].values, dtype=np.float64) for name in names]
    if [value.shape for value in values] != list(shapes):
        raise InputError(
            f"the record is of another system: its arrays have the shapes {[value.shape for value in values]}."
        )
    return values


def _equations_of(system: System) -> Equations:
    return Equations(
        velocity=lambda parameters, _: system.velocity(parameters),
        loss=lambda parameters, _: system.loss(parameters),
        setting=None,
        batch_loss=None
        if type(system).batch is System.batch
        else lambda parameters, batch, _: system.batch_loss(parameters, batch),
    )


def check_batch_loss(system: System, batch: Any) -> None:
    """As the loss is checked, with a batch that is not known before the step."""
    _check_number("batch_loss", system, _shapes("batch_loss", system, system.batch_loss, batch))


def _check_number(method: str, system: System, given: Any) -> None:
    if getattr(given, "shape", None) != ():
        shape = getattr(given, "shape", type(given).__name__)
        raise InputError(
            f"`{method}` of {type(system).__name__} must give one number; it gives {shape}. Take the sum or the mean."
        )


def _shapes(method: str, system: System, function: Callable[..., Any], *more: Any) -> Any:
    """Shapes of what a method gives at the start; mistakes that JAX would report in its own words,
    from inside a compiled call.
    """
    start, name = _checked_start(system), type(system).__name__
    try:
        with jax.enable_x64(True):
            return jax.eval_shape(lambda *given: function(*given), start, *more)
    except InputError:
        raise
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        why = str(error).splitlines()[0]
        raise InputError(
            f"`{method}` of {name} must be written in `jax.numpy`, with no NumPy or `if` on what it is given: {why}"
        ) from error
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        kind = (
            f"{type(error).__name__}: " if isinstance(error, LookupError) else ""
        )  # which say no more than the key
        why = kind + str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"`{method}` of {name} fails for the parameters that `start` gives: {why}."
        ) from error


def _checked_start(system: System) -> Any:
    start, name = system.start(np.random.default_rng(0)), type(system).__name__
    leaves = jax.tree_util.tree_flatten_with_path(start)[0]
    if not leaves:
        raise InputError(f"`start` of {name} gives no parameters: {shortened(start)}.")
    for path, leaf in leaves:
        kind = np.asarray(leaf).dtype
        if kind.kind in "OUSVMm" or not jnp.issubdtype(kind, jnp.floating):
            raise InputError(
                f"`start` of {name}: `{leaf_name(path)}` holds {kind}; parameters must be real numbers, such as 0.0."
            )
        if not np.isfinite(leaf).all():
            raise InputError(f"`start` of {name}: `{leaf_name(path)}` must be finite.")
    return start


def _check_record(system: System, seen: Mapping[str, Observable]) -> None:
    """Data and names fit what is seen, before anything is computed: a record could not hold them
    otherwise.
    """
    data = _checked_seen("data", system.data(), (*_KEPT_BY_ENGINES, *seen), defined=True)
    every = (*seen.values(), *data.values())
    sizes = {
        axis: size
        for one in every
        for axis, size in zip(one.axes, np.shape(one.values), strict=True)
    }
    names = system.coordinates()
    if not isinstance(names, Mapping):
        raise InputError(f"`coordinates` must give {{axis: names}}; got {shortened(names)}.")
    for axis, given in names.items():
        _check_free("coordinates", axis, (*_KEPT_BY_ENGINES, *seen, *data))
        if axis in sizes and np.shape(given) != (sizes[axis],):
            raise InputError(
                f"`coordinates`: axis {axis!r} needs {sizes[axis]} names; got {shortened(given)}."
            )


def _check_free(method: str, name: Any, taken: Sequence[str]) -> None:
    if name in taken:
        raise InputError(
            f"`{method}` must not use the name {name!r}: every record has one already."
        )


@lru_cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(function)


def _parameters_seen(parameters: Any, leading: int = 0) -> Iterator[tuple[str, Observable]]:
    for path, leaf in jax.tree_util.tree_flatten_with_path(parameters)[0]:
        name = leaf_name(path)
        axes = tuple(f"{name}_{axis}" for axis in range(jnp.ndim(leaf) - leading))
        yield f"parameter_{name}", Observable(axes, leaf, "1", f"{name}, a parameter of the system")


def _checked_seen(
    method: str, given: Any, taken: Sequence[str], defined: bool = False
) -> dict[str, Observable]:
    """What a method gives by name; `defined`: sentences may stand elsewhere, in
    `records/schema.py`.
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"`{method}` must give {{name: Observable(axes, values, unit, definition)}}; got {shortened(given)}."
        )
    for name in given:
        _check_free(method, name, taken)
    return {name: _checked_one(method, name, seen, defined) for name, seen in given.items()}


def _checked_one(method: str, name: str, seen: Any, defined: bool) -> Observable:
    if not isinstance(seen, Observable):
        raise InputError(
            f"`{method}` must give a `Observable(axes, values, unit, definition)` for {name!r}; got {type(seen).__name__}."
        )
    axes = (seen.axes,) if isinstance(seen.axes, str) else tuple(seen.axes)
    if len(axes) != jnp.ndim(seen.values) or set(axes) & set(_TAKEN):
        raise InputError(
            f"`{method}`: {name!r} has the axes {axes} and the shape {jnp.shape(seen.values)}; "
            "it needs a name for each axis, other than time, seed and rate, which are added by the solvers."
        )
    if not seen.definition and not defined:
        raise InputError(
            f"`{method}`: {name!r} needs a `definition`, a sentence that says what it is."
        )
    return Observable(axes, seen.values, seen.unit, seen.definition)
