"""Tensors without the code that they belong to, as modules that `weight_statistics` can read: the
names are all that is known.

What a matrix does is told by its name. How many heads it is made of is not told by anything:
without `n_heads` only embeddings are read, and the rest is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

_EMBEDDING = ("emb", "wte", "wpe", "shared")  # in the last part of names
_NOT_EMBEDDING = ("embed_out", "unembed")


class BareWeights(nn.Module):
    """A part of a model of which only the parameters are known, and how many heads it has if it is
    attention.
    """

    def __init__(self, n_heads: int | None) -> None:
        super().__init__()
        if n_heads is not None:
            self.num_heads = n_heads


class Conv1D(nn.Module):
    """A linear map that keeps its matrix as (in, out), named as in Transformers' GPT-2."""


def bare_weights(tensors: Mapping[str, Tensor], n_heads: int | None = None) -> BareWeights:
    """A tree of modules that hold the tensors under their names."""
    root = BareWeights(n_heads)
    by_owner: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        owner, _, last = name.rpartition(".")
        by_owner.setdefault(owner, {})[last] = tensor
    for owner, own in by_owner.items():
        module = _placed(root, owner, _empty(owner, own, tensors), n_heads)
        for name, tensor in own.items():
            if tensor.is_floating_point():
                module._parameters[name] = nn.Parameter(tensor, requires_grad=False)
    return root


def _empty(
    owner: str, own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> nn.Module | None:
    """A module of the kind that the names speak of; None if they speak of none."""
    if not own.keys() <= {"weight", "bias"} or "weight" not in own or own["weight"].ndim != 2:
        return None
    last = owner.lower().rpartition(".")[2]
    rows, columns = own["weight"].shape
    if any(word in last for word in _EMBEDDING) and not any(
        word in last for word in _NOT_EMBEDDING
    ):
        return nn.Embedding(rows, columns, device="meta")
    # GPT-2 and nanoGPT share their names, but not which way round their matrices are; the fused one
    # is three times as wide as high.
    fused = tensors.get(f"{owner.rpartition('.')[0]}.c_attn.weight")
    if last in ("c_attn", "c_proj") and fused is not None and fused.shape[1] == 3 * fused.shape[0]:
        return Conv1D()
    return nn.Linear(columns, rows, bias=False, device="meta")


def _placed(
    root: BareWeights, path: str, module: nn.Module | None, n_heads: int | None
) -> nn.Module:
    """The module at a path, with all that is above it: the one that is there, the given one, or an
    empty part.
    """
    here: nn.Module = root
    names = path.split(".") if path else []
    for depth, name in enumerate(names, 1):
        new = module if module is not None and depth == len(names) else BareWeights(n_heads)
        # Not `add_module`, which refuses names that methods have, such as "type".
        here = here._modules.setdefault(name, new) or new
    return here
