"""Reading the weight of a module that is a plain matrix, and refusing those whose values are not
what the model computes with.
"""

from __future__ import annotations

from torch import Tensor, nn


class Unreadable(Exception):
    """Why weights that look familiar cannot be read: part of a sentence for the user."""


def plain_weight(name: str, module: nn.Module) -> Tensor:
    """Weight (out, in) of a linear map, with or without dropout after it, or (token, width) of an
    embedding.

    Modules with further parameters are refused: LoRA and its like add something to the weight,
    which would be left out, and asking a parametrised module for its weight may change its state.
    """
    parts = list(module.children()) if isinstance(module, nn.Sequential) else []
    if parts and all(isinstance(after, nn.Dropout | nn.Identity) for after in parts[1:]):
        module = parts[0]
    own = dict(module.named_parameters())
    transposed = type(module).__name__ == "Conv1D"  # of Transformers
    if (
        not (isinstance(module, nn.Linear | nn.Embedding) or transposed)
        or "weight" not in own
        or not own.keys() <= {"weight", "bias"}
    ):
        parameters = ", ".join(sorted(own)) or "none"
        raise Unreadable(
            f"{name} is a {type(module).__name__} with parameters {parameters}, not a plain matrix"
        )
    weight = checked_matrix(name, own["weight"])
    return weight.T if transposed else weight


def dequantised(weight: Tensor) -> Tensor:
    """As plain numbers, if it is kept in another form (torchao) and can say which it stands for."""
    try:
        weight.flatten()
    except (
        NotImplementedError
    ):  # what tensors of other kinds raise at an operation that they do not have
        return weight.dequantize()
    return weight


def checked_matrix(name: str, weight: Tensor) -> Tensor:
    """`weight` if it is a matrix of floating-point numbers. One that is spread over processes
    (FSDP) is gathered: all must ask.
    """
    try:
        weight = dequantised(weight.full_tensor() if hasattr(weight, "full_tensor") else weight)
    except NotImplementedError as error:
        raise Unreadable(
            f"{name} is a {type(weight).__name__}, which does not give its numbers"
        ) from error
    if weight.is_meta or weight.ndim != 2 or weight.numel() == 0:
        raise Unreadable(f"the values of {name} are not all in this process")
    if not weight.is_floating_point():
        raise Unreadable(
            f"{name} holds {str(weight.dtype).removeprefix('torch.')}, not floating-point numbers"
        )
    return weight
