"""The tensors of a checkpoint, read without running anything that is in a file.

PyTorch files are pickles, that is, programs. They are read with `weights_only=True`, which knows tensors and plain containers and
refuses everything else. Limit: no checksums are compared, so a file with a few wrong bits among its numbers is read as it is;
if they matter, the checkpoint is off the path of its neighbours (`integrity.py`).
"""

from __future__ import annotations

import contextlib
import io
import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.errors import InputError
from saccade.observe.checkpoints.files import UnreadableError, weight_files

Tensors = dict[str, Tensor]

_STATES = ("state_dict", "model_state_dict", "model", "module", "weights")  # where a training script puts the weights in its file
_PICKLES = 4  # one after the other in a file of PyTorch before 1.6: a number, a version, the system, the content


def read_tensors(path: Path) -> Tensors:
    """All tensors of a checkpoint by name, on the CPU."""
    files = weight_files(path) if path.is_dir() else [path]
    if not files:
        raise UnreadableError(f"{path.name} was left out: it holds no weights.")
    # torch.compile puts a name of its own between others.
    tensors = {name.replace("_orig_mod.", ""): tensor for file in files for name, tensor in _read(file).items()}
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise UnreadableError(f"{path.name} was left out: its tensor {name} is sparse or quantized.")
        if tensor.is_floating_point() and tensor.isnan().any():
            raise UnreadableError(f"{path.name} was left out: its tensor {name} holds values that are not numbers (NaN).")
    return tensors


def _read(file: Path) -> Tensors:
    tensors = _read_safetensors(file) if file.suffix == ".safetensors" else _state(_read_pickle(file))
    if not tensors:
        raise UnreadableError(f"{_shown(file)} was left out: it holds no tensors.")
    return tensors


def _read_safetensors(file: Path) -> Tensors:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise InputError(f"reading {file.name} needs safetensors: pip install safetensors") from None
    try:
        return load_file(file)
    except (SafetensorError, OSError, KeyError) as error:  # KeyError: a number type that PyTorch has not
        raise UnreadableError(f"{_shown(file)} was left out: it is truncated or damaged ({error}).") from None


def _read_pickle(file: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that are refused in a moment
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail in any way: KeyError, EOFError, RuntimeError, ...
        raise UnreadableError(_reason(file, str(error))) from None


def _reason(file: Path, error: str) -> str:
    """Why PyTorch did not read a file: what it is refused for, or that it is damaged."""
    told, names = re.search(r"GLOBAL (\S+)", error), _names_in(file)
    wanted = [told[1]] if told else [name for name in names if not name.startswith(("torch.", "collections."))]
    if wanted:
        return (
            f"{_shown(file)} was refused: it is a pickle that wants to use {wanted[0]}, beyond tensors and plain containers, and "
            "could run any code; nothing in it was run. If it is your own, save its weights again with safetensors."
        )
    if names and "Unsupported operand" in error:
        return f"{_shown(file)} was refused: PyTorch reads its pickle protocol only by running it; save it again."
    return f"{_shown(file)} was left out: it is truncated or damaged."


def _names_in(file: Path) -> list[str]:
    """Functions and classes that a pickle names, from its instructions, none of which is carried out; as far as it can be read."""
    names: list[str] = []
    with contextlib.suppress(Exception):  # a damaged file again
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                inside = [name for name in archive.namelist() if name.endswith("data.pkl")]
                _note_names(io.BytesIO(archive.read(inside[0])), names)
        else:
            with file.open("rb") as opened:
                for _ in range(_PICKLES):
                    _note_names(opened, names)
    return names


def _note_names(stream: Any, names: list[str]) -> None:
    texts = ["", ""]
    for instruction, argument, _ in pickletools.genops(stream):
        if instruction.name in ("GLOBAL", "INST"):
            names.append(str(argument).replace(" ", "."))
        elif instruction.name == "STACK_GLOBAL":
            names.append(".".join(texts))
        elif isinstance(argument, str):
            texts = [texts[1], argument]


def _state(content: Any) -> Tensors:
    """The tensors of what a training script has saved: the weights themselves, or a mapping that holds them."""
    if not isinstance(content, Mapping):
        return {}
    inner = [content[name] for name in _STATES if isinstance(content.get(name), Mapping)]
    holder = next((part for part in inner if any(isinstance(value, Tensor) for value in part.values())), content)
    return {str(name): value for name, value in holder.items() if isinstance(value, Tensor)}


def _shown(file: Path) -> str:
    """A file with its folder, as people name a checkpoint."""
    return f"{file.parent.name}/{file.name}"
