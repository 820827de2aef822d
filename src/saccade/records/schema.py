"""What a record is: an `xarray.Dataset` whose variables carry unit and definition, stored with its
whole configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from saccade.errors import InputError, shortened
from saccade.later import xr
from saccade.records.json_files import json_ready, parsed_json
from saccade.records.provenance import provenance

C = TypeVar("C")
_NOT_FINITE = ("inf", "-inf", "nan")  # as text, since JSON has no such numbers

VARIABLES: dict[str, tuple[str, str]] = {
    "loss": (
        "nats",
        "of the batch about to be learned from; without batches, of the population. A cross-entropy if in nats",
    ),
    "attention": (
        "1",
        "attention over tokens of an infinitely long context, of a class or of a last token: chance of the token times exp(logit), "
        "normalised",
    ),
    "attention_logits": ("1", "Z: how much each query token seeks each context token"),
    "decoder": ("1", "Y: how much each context token speaks for each next token"),
    "own_logit": ("1", "w_nn: logit that a class gives its own next token, in the reduced flow"),
    "other_logit": ("1", "w_nj: logit that a class gives any other token, in the reduced flow"),
    "embedding": ("1", "W0: where each token lies"),
    "query_matrix": ("1", "WQ: from an embedding to what it seeks"),
    "key_matrix": ("1", "WK: from an embedding to what it is found by"),
    "projection": ("1", "W1: from an embedding to logits of the next token"),
    "gamma": ("1", "how far each token lies along the one direction of a rank-one embedding"),
    "beta": ("1", "what that direction says about the next token"),
    "query_scale": ("1", "lambda_Q: size of the rank-one query matrix"),
    "key_scale": ("1", "lambda_K: size of the rank-one key matrix"),
    "stationary": ("1", "pi: how often each token comes in the long run"),
    "transition": ("1", "P: chance of each next token given the last one"),
    "stop_reason": (
        "",
        "finished: ran to its end; diverged: left all bounds; solver failed: could not go on; values from there on are missing",
    ),
    "stop_time": ("", "time at which the run stopped"),
    "token_prob": ("1", "P(l|n): chance of each context token in each class"),
    "class_weight": ("1", "P(n): how often each class is drawn"),
    "class_query": ("token", "psi(n): the query token of each class"),
    "class_next": ("token", "the token that each class predicts"),
    "entropy": (
        "nats",
        "entropy of attention among a class's distinct tokens, rescaled to one, mean over classes",
    ),
    "common_mass": ("1", "attention on common tokens"),
    "time": (
        "",
        "time of a flow; step of an observation in training, before the update of that step",
    ),
    "seed": ("", "names the random draws of a run: start and batches"),
    "query": ("token", "query token of each row of the attention logits"),
    "n_queries": ("tokens", "query tokens of the task, each with two next tokens"),
    "ratio": ("1", "decoder rate over attention rate"),
    "lr_decoder": (
        "1/time",
        "learning rate of the decoder, eta_Y; of embedding and projection in the embedded model",
    ),
    "lr_attention": (
        "1/time",
        "learning rate of the attention logits, eta_Z; of the query and key matrices in the embedded model",
    ),
}


def make_record(
    *,
    dynamics: str,
    variables: Mapping[str, Any],
    coords: Mapping[str, Any],
    time_unit: str,
    config: Mapping[str, Any],
    wall_time: float,
    definitions: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> xr.Dataset:
    """A dataset with a definition for every variable: from `VARIABLES`, or for what is an
    experiment's own from `definitions`.
    """
    record = xr.Dataset(dict(variables), dict(coords))
    known = VARIABLES | dict(definitions)
    for name in record.variables:
        if name in known:
            unit, definition = known[str(name)]
            record[name].attrs = {
                "units": time_unit if name == "time" else unit,
                "definition": definition,
            }
        elif name in record.data_vars:
            raise KeyError(f"variable {name!r} has no definition")
    record.attrs = {
        "dynamics": dynamics,
        "config": _text(config),
        "wall_time_s": round(wall_time, 3),
    } | provenance()
    return record


def with_settings(record: xr.Dataset, config: Any) -> xr.Dataset:
    """The record with the settings of the experiment that made it, a dataclass."""
    record.attrs["settings"] = settings_text(config)
    return record


def settings_text(config: Any) -> str:
    return _text(asdict(config))


def _text(config: Mapping[str, Any]) -> str:
    return json.dumps(json_ready(config, str), allow_nan=False)


def settings_of(record: xr.Dataset | Mapping[str, Any], kind: type[C]) -> C:
    """The settings beside a record, or among its attributes, as the dataclass they were: lists are
    tuples again, "inf" a number.

    Settings that `kind` does not have, or of another type than it declares, are an `InputError`.
    """
    attributes = record.attrs if isinstance(record, xr.Dataset) else record
    if "settings" not in attributes:
        raise InputError("the record does not say which settings made it.")
    return restored_settings(parsed_json(attributes["settings"]), kind)


def restored_settings(stored: Mapping[str, Any], kind: type[C]) -> C:
    """The settings from their values, which may come from JSON."""
    hints = get_type_hints(kind)
    try:
        return kind(**{name: _restored(name, value, hints[name]) for name, value in stored.items()})
    except (KeyError, TypeError) as error:
        raise InputError(f"these are not settings of the experiment: {error}.") from None


def _restored(name: str, value: Any, hint: Any) -> Any:
    """A value as its field declares it, also from JSON."""
    value = (
        value.item() if getattr(value, "ndim", 1) == 0 else value
    )  # NumPy's numbers are plain ones
    for option in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        kinds = get_args(option)
        if get_origin(option) is tuple and isinstance(value, list | tuple):
            kinds = kinds[:1] * len(value) if kinds[-1] is Ellipsis else kinds
            if len(kinds) == len(value):
                return tuple(_restored(name, item, kind) for item, kind in zip(value, kinds))
        elif option is float and (
            value in _NOT_FINITE or (isinstance(value, int | float) and not isinstance(value, bool))
        ):
            return float(value) if isinstance(value, str) else value
        elif (option in (int, str, bool, NoneType) and type(value) is option) or (
            get_origin(option) is Literal and value in kinds
        ):
            return value
    declared = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    raise InputError(
        f"the setting `{name}` cannot be {shortened(value)}: it is declared as {declared}. "
        "Settings are numbers, texts, bools, Literal choices, and tuples of these."
    )
