"""Models that checkpoints are loaded into: one's own, or one that Transformers builds from the
`config.json` beside the weights.

Code that comes with a checkpoint is run only if `trust_remote_code` is said. A configuration of a
model far larger than the weights is refused: it is built once without numbers, counting, and given
up when it gets too large. Models built here compute in float32, whatever their weights were saved
in: on a CPU narrower types are slow or missing, and widening is exact.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from saccade.errors import InputError, checked_kind, shortened
from saccade.records.expansion import check_expansion
from saccade.records.json_files import read_json
from saccade.watching.checkpoints.files import UnreadableError, listed
from saccade.watching.checkpoints.tensors import Tensors
from saccade.watching.undisturbed import unwrapped

_COUNTS = (
    "layer",
    "num_labels",
    "attention_types",
    "dense_replace",
    "num_blocks",
    "out_indices",
)  # in names of settings
_MOST_LAYERS = 10_000
_ANY_PARTS, _PARTS_OF_A_TENSOR = 10_000, 16  # modules, parameters and buffers of a model
_REGISTRATIONS = (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    register_module_buffer_registration_hook,
)


class OwnModel:
    """The user's module. Its weights are replaced by those of the checkpoints, and put back at the
    end.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = unwrapped(checked_kind("model", model, nn.Module))
        self._before = copy.deepcopy(self.model.state_dict())

    def load(self, tensors: Tensors, name: str) -> None:
        own = {
            key: value
            for key, value in self.model.state_dict().items()
            if isinstance(value, Tensor)
        }
        fitted = _without_shared_prefix(tensors, own)
        present = {
            own[key].data_ptr() for key in fitted if key in own
        }  # a tied weight may be saved under one of its names only
        _refuse(
            name,
            missing=(
                key for key in own if key not in fitted and own[key].data_ptr() not in present
            ),
            unknown=(key for key in fitted if key not in own),
            misshapen=(key for key in fitted if key in own and fitted[key].shape != own[key].shape),
        )
        self.model.load_state_dict(fitted, strict=False)

    def put_back(self) -> None:
        self.model.load_state_dict(self._before)


class ConfiguredModel:
    """A Transformers model built from a folder's configuration, for weights such as `tensors`."""

    def __init__(self, folder: Path, trust_remote_code: bool, tensors: Tensors) -> None:
        self.config = _config(folder, trust_remote_code)
        with _counted(tensors, folder):
            try:
                self._kind = _model_class(self.config, folder, trust_remote_code)
            except (InputError, UnreadableError):
                raise
            except Exception as error:
                raise InputError(_unusable(folder, error)) from None
            try:
                with torch.device("meta"):
                    self._kind(copy.deepcopy(self.config))
            except UnreadableError:
                raise
            except Exception:  # what else is wrong with it `load` will say
                pass
        self._model: Any = None
        self.unused: set[str] = set()  # names of tensors that the model has no place for

    @property
    def model(self) -> nn.Module:
        if self._model is None:
            raise RuntimeError("nothing has been loaded yet")
        return self._model

    def load(self, tensors: Tensors, name: str) -> None:
        """Through Transformers' own loading: it knows old names, tied weights and weights that it
        keeps in another form.
        """
        # Said, not left to config.json, which may name a kernel that would be fetched and run.
        kernel = "sdpa" if getattr(self._kind, "_supports_sdpa", False) else "eager"
        wanted = {
            key.removeprefix("module."): tensor for key, tensor in tensors.items()
        }  # DistributedDataParallel puts it first
        settings = {
            "config": copy.deepcopy(self.config),
            "dtype": torch.float32,
            "attn_implementation": kernel,
        }
        try:
            with quiet_transformers():
                loaded, info = self._kind.from_pretrained(
                    None,
                    state_dict=wanted,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                    **settings,
                )
        except Exception as error:
            raise UnreadableError(
                f"{name} was left out: {self._kind.__name__} cannot load it ({_first_line(error)})."
            ) from None
        # What the model does not find it draws at random. Weights that it has no use for do no
        # harm.
        misshapen = (key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"])
        _refuse(
            name,
            missing=info["missing_keys"],
            unknown=info["unexpected_keys"] if info["missing_keys"] else (),
            misshapen=misshapen,
        )
        self.unused |= set(info["unexpected_keys"])
        if self._model is None:
            self._model = loaded
        else:
            self._model.load_state_dict(loaded.state_dict(), assign=True)
            self._model.tie_weights()  # one parameter again, measured once

    def put_back(self) -> None:
        """Nothing to put back: the model is ours."""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without Transformers' bars and reports: what matters in them is said in a sentence of our
    own.
    """
    from transformers.utils import logging

    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


@contextmanager
def _counted(tensors: Tensors, folder: Path) -> Iterator[None]:
    """While a model is built: give up once it has far more parts or numbers than there are weights
    for.
    """
    n_bytes, n_parts = 0, 0
    n_stored = sum(tensor.nbytes for tensor in tensors.values())

    def count(module: nn.Module, name: str, part: Any) -> None:
        nonlocal n_bytes, n_parts
        n_parts += 1
        n_bytes += part.numel() * part.element_size() if isinstance(part, Tensor) else 0
        if n_parts > _ANY_PARTS + _PARTS_OF_A_TENSOR * len(tensors):
            raise UnreadableError(
                f"{folder.name} was refused: its config.json is of a model with far more parts than it has tensors."
            )
        try:
            check_expansion(
                f"the config.json of {folder.name}, with its weights,", n_bytes, n_stored
            )
        except InputError as error:
            raise UnreadableError(str(error)) from None

    with ExitStack() as hooks:
        for register in _REGISTRATIONS:
            hooks.callback(register(count).remove)
        yield


def needed_transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise InputError(
            "building a model from config.json needs Transformers: pip install transformers"
        ) from None
    return transformers


def _config(folder: Path, trust_remote_code: bool) -> Any:
    transformers = needed_transformers()
    try:
        stored = read_json(folder / "config.json")
    except InputError:
        raise InputError(
            f"{folder / 'config.json'} cannot be read; it is truncated or damaged."
        ) from None
    _check_counts(stored, folder)
    try:
        with quiet_transformers():
            return transformers.AutoConfig.from_pretrained(
                folder, trust_remote_code=trust_remote_code, local_files_only=True
            )
    except Exception as error:  # what a wrong value raises depends on the model, and on the version
        if "auto_map" in stored and not trust_remote_code:
            raise InputError(_needs_code(folder)) from None
        raise InputError(_unusable(folder, error)) from None


def _unusable(folder: Path, error: Exception) -> str:
    return f"Transformers cannot use {folder / 'config.json'}: {_first_line(error)}"


def _check_counts(stored: Any, folder: Path, name: str = "") -> None:
    """Refuse numbers, of layers say, that configurations of some models would make lists of before
    a model is built.
    """
    if isinstance(stored, dict | list):
        for inner, value in (
            stored.items() if isinstance(stored, dict) else ((name, value) for value in stored)
        ):
            _check_counts(value, folder, inner)
    elif (
        isinstance(stored, int)
        and stored > _MOST_LAYERS
        and any(count in name for count in _COUNTS)
    ):
        raise InputError(
            f"{folder / 'config.json'} says `{name}`: {shortened(stored)}; no model of more than {_MOST_LAYERS:,} is built."
        )


def _model_class(config: Any, folder: Path, trust_remote_code: bool) -> Any:
    """The class that the configuration names; if it names none that is known, the usual one for its
    kind.
    """
    transformers = needed_transformers()
    for name in config.architectures or ():
        kind = getattr(transformers, name, None)
        if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel):
            return kind
    own_code = {
        name: place
        for name, place in (getattr(config, "auto_map", None) or {}).items()
        if name.startswith("AutoModel")
    }
    if own_code:
        if not trust_remote_code:
            raise InputError(_needs_code(folder))
        from transformers.dynamic_module_utils import get_class_from_dynamic_module

        return get_class_from_dynamic_module(
            own_code.get("AutoModelForCausalLM") or next(iter(own_code.values())), folder
        )
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoModel):
        try:
            with torch.device("meta"):
                return type(auto.from_config(config))
        except ValueError:
            continue
    raise InputError(
        f"Transformers has no model for {folder / 'config.json'} (model type {config.model_type!r})."
    )


def _needs_code(folder: Path) -> str:
    return (
        f"the model of {folder} needs Python code that came with it, which is not run unless you say so: read the code, "
        "then give --trust-remote-code (in Python: trust_remote_code=True)."
    )


def _refuse(
    name: str, *, missing: Iterable[str], unknown: Iterable[str], misshapen: Iterable[str]
) -> None:
    """Raise if tensors do not fit the model, and say which."""
    kinds = {
        "without": sorted(missing),
        "with unknown": sorted(unknown),
        "with another shape of": sorted(misshapen),
    }
    wrong = [f"{how} {listed(keys)}" for how, keys in kinds.items() if keys]
    if wrong:
        raise UnreadableError(
            f"{name} was left out: its tensors do not fit the model, {'; '.join(wrong)}."
        )


def _without_shared_prefix(tensors: Tensors, own: Mapping[str, Tensor]) -> Tensors:
    """Training frameworks put names of their own before all others, "module." or "model." say; left
    off if the rest then fits.
    """
    rest = tensors
    while not any(name in own for name in rest):
        if len({name.partition(".")[0] for name in rest}) != 1 or not all(
            "." in name for name in rest
        ):
            return tensors
        rest = {name.partition(".")[2]: tensor for name, tensor in rest.items()}
    return rest


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
