"""The tensors of a checkpoint, read without running anything that is in a file.

PyTorch files are pickles, that is, programs. They are read with `weights_only=True`, which knows
tensors and plain containers and refuses everything else. A file that would take far more memory
than it has bytes is refused before it does. Checksums are compared where a folder has them, as the
checkpoints of `saccade.train` do. Limit: elsewhere a file with a few wrong bits among its numbers
is read as it is; if they matter, the checkpoint is off the path of its neighbours (`integrity.py`).
"""

from __future__ import annotations

import io
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.errors import InputError, shortened
from saccade.records.checksums import file_hash, listed
from saccade.records.expansion import check_archive, check_expansion
from saccade.watching.checkpoints.files import UnreadableError, weight_files

Tensors = dict[str, Tensor]

_STATES = (
    "state_dict",
    "model_state_dict",
    "model",
    "module",
    "weights",
)  # where a training script puts the weights in its file
_ALLOCATES = (
    "bytearray",
    "encode",
)  # PyTorch allows them, and they make any number of bytes from a few
_MOST_HEADER = (
    2**24
)  # bytes of a list of tensors, also of one that is a pickle: some hundred thousand
_MOST_INSTRUCTIONS = 2**21  # of pickles: each may make a container of 200 bytes
_MOST_PARTS = 64  # in the name of a tensor
_PICKLES = 5  # one after the other in a file of PyTorch before 1.6: a number, a version, the system, the content, what is stored


def read_tensors(path: Path) -> Tensors:
    """All tensors of a checkpoint by name, on the CPU."""
    files = weight_files(path) if path.is_dir() else [path]
    if not files:
        raise UnreadableError(f"{path.name} was left out: it holds no weights.")
    # Files whose folder lists their checksums are what was written.
    for each in files:
        try:
            written = listed(each.parent).get(each.name)
            changed = written is not None and file_hash(each) != written
        except (OSError, InputError):  # no list, or one that is not ours
            continue
        if changed:
            raise UnreadableError(f"{_shown(each)} was left out: it is not what was written.")
    # torch.compile puts a name of its own between others.
    tensors = {
        name.replace("_orig_mod.", ""): tensor
        for file in files
        for name, tensor in _read(file).items()
    }
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.isnan().any():
            raise UnreadableError(
                f"{path.name} was left out: its tensor {name} holds values that are not numbers (NaN)."
            )
    return tensors


def _read(file: Path) -> Tensors:
    if not file.is_file():  # a pipe would be waited for
        raise UnreadableError(f"{_shown(file)} was left out: it is not a regular file.")
    try:
        tensors = (
            _read_safetensors(file) if file.suffix == ".safetensors" else _state(read_pickle(file))
        )
        check_expansion(
            _shown(file),
            sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()),
            file.stat().st_size,
        )
    except InputError as error:
        raise UnreadableError(str(error)) from None
    except ModuleNotFoundError as error:
        raise InputError(
            f"reading {file.name} needs {error.name}: pip install {error.name}"
        ) from None
    if not tensors:
        raise UnreadableError(f"{_shown(file)} was left out: it holds no tensors.")
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise UnreadableError(
                f"{_shown(file)} was left out: its tensor {shortened(name)} is sparse, quantized or without numbers."
            )
        if name.count(".") > _MOST_PARTS:
            raise UnreadableError(
                f"{_shown(file)} was left out: its tensor {shortened(name)} is in parts of parts without end."
            )
    return tensors


def _read_safetensors(file: Path) -> Tensors:
    """The format cannot claim more numbers than the file has; but each of very many empty tensors
    takes memory.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with file.open("rb") as opened:
        n_header = int.from_bytes(opened.read(8), "little")
    if _MOST_HEADER < n_header <= file.stat().st_size:
        raise UnreadableError(
            f"{_shown(file)} was refused: its list of tensors has {n_header:,} bytes; {_MOST_HEADER:,} are read."
        )
    try:
        return load_file(file)
    except (
        SafetensorError,
        OSError,
        KeyError,
    ) as error:  # KeyError: a number type that PyTorch has not
        raise UnreadableError(
            f"{_shown(file)} was left out: it is truncated or damaged ({error})."
        ) from None


def read_pickle(file: Path) -> Any:
    """What a file of PyTorch holds, on the CPU; an `UnreadableError` if it would run anything, or
    take memory without end.
    """
    if _is_zip(file):
        try:
            check_archive(_shown(file), file)
        except zipfile.BadZipFile:  # PyTorch might find its way in it all the same, to any size
            raise UnreadableError(_damaged(file)) from None
    for name in _names_in(file):
        if name.endswith(_ALLOCATES):
            raise UnreadableError(_refused(file, name))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that are refused in a moment
            return torch.load(file, map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # a damaged file can fail in any way: KeyError, EOFError, RuntimeError, ...
        raise UnreadableError(_reason(file, str(error))) from None


def _reason(file: Path, error: str) -> str:
    """Why PyTorch did not read a file: what it is refused for, or that it is damaged."""
    told, names = re.search(r"GLOBAL (\S+)", error), _names_in(file)
    wanted = (
        [told[1]]
        if told
        else [name for name in names if not name.startswith(("torch.", "collections."))]
    )
    if wanted:
        return _refused(file, wanted[0])
    if names and "Unsupported operand" in error:
        return f"{_shown(file)} was refused: PyTorch reads its pickle protocol only by running it; save it again."
    return _damaged(file)


def _damaged(file: Path) -> str:
    return f"{_shown(file)} was left out: it is truncated or damaged."


def _refused(file: Path, wanted: str) -> str:
    return (
        f"{_shown(file)} was refused: it is a pickle that wants to use {wanted}, beyond tensors and plain containers, and "
        "could run any code; nothing in it was run. If it is your own, save its weights again with safetensors."
    )


def _is_zip(file: Path) -> bool:
    """As PyTorch tells it."""
    with file.open("rb") as opened:
        return opened.read(4) == b"PK\3\4"


def _names_in(file: Path) -> list[str]:
    """Functions and classes that a pickle names, from its instructions, none of which is carried
    out; as far as it can be read.
    """
    names, texts = [], ["", ""]
    try:
        for number, (instruction, argument, _) in enumerate(_instructions(file)):
            if number > _MOST_INSTRUCTIONS:
                raise UnreadableError(
                    f"{_shown(file)} was refused: its pickle has more than {_MOST_INSTRUCTIONS:,} instructions."
                )
            if instruction.name in ("GLOBAL", "INST"):
                names.append(str(argument).replace(" ", "."))
            elif instruction.name == "STACK_GLOBAL":
                names.append(".".join(texts))
            elif isinstance(argument, str):
                texts = [texts[1], argument]
    except UnreadableError:
        raise
    except Exception:  # a damaged file again
        pass
    return names


def _instructions(file: Path) -> Iterator[Any]:
    """Of all pickles that PyTorch may read; in an archive it asks neither for capitals nor which of
    two is meant.
    """
    if not _is_zip(file):
        with file.open("rb") as opened:
            for _ in range(_PICKLES):
                yield from pickletools.genops(opened)
        return
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.lower().endswith("data.pkl"):
                if member.file_size > _MOST_HEADER:
                    raise UnreadableError(
                        f"{_shown(file)} was refused: {member.filename} has more than {_MOST_HEADER:,} bytes."
                    )
                yield from pickletools.genops(io.BytesIO(archive.read(member)))


def _state(content: Any) -> Tensors:
    """The tensors of what a training script has saved: the weights themselves, or a mapping that
    holds them.
    """
    if not isinstance(content, Mapping):
        return {}
    inner = [content[name] for name in _STATES if isinstance(content.get(name), Mapping)]
    holder = next(
        (part for part in inner if any(isinstance(value, Tensor) for value in part.values())),
        content,
    )
    return {str(name): value for name, value in holder.items() if isinstance(value, Tensor)}


def _shown(file: Path) -> str:
    """A file with its folder, as people name a checkpoint."""
    return f"{file.parent.name}/{file.name}"
