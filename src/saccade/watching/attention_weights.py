"""The weights of attention inside a PyTorch model, head by head, found by the names that common
code gives them.

| names                                             | where                                                                       |
|---------------------------------------------------|-----------------------------------------------------------------------------|
| `q_proj k_proj v_proj` and `o_proj` or `out_proj` | Llama, Mistral, OPT, GPT-J and most newer models; fewer key than query heads|
| `q k v o`, `wq wk wv wo`, `q_lin k_lin v_lin`     | T5, Llama as first published, DistilBERT                                    |
| `query key value`, and `output.dense` or `dense`  | BERT and its relatives                                                      |
| `to_q to_k to_v to_out`, `to_qkv to_out`          | x-transformers, vit-pytorch                                                 |
| `c_attn`, `c_proj`                                | GPT-2 (`Conv1D`), nanoGPT (`Linear`): queries, then keys, then values;      |
|                                                   | GPTBigCode: by head, or with one key and value for all heads                |
| `qkv proj`, `Wqkv out_proj`, `qkv_proj o_proj`    | timm, SAM, MPT, DBRX, Phi-3: queries, then keys, then values, perhaps fewer |
| `query_key_value`, `dense`                        | GPT-NeoX, BLOOM: for each head its queries, keys and values                 |
| `in_proj_weight`, `out_proj`                      | `nn.MultiheadAttention`, `nn.TransformerEncoder`                            |

The order of the rows of a fused matrix cannot be seen from its shape, so other names are not
guessed at: the user may tell them (`Names`). What looks like attention and cannot be read is said
in a sentence, with what to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor, nn

from saccade.errors import InputError, checked_count, shortened
from saccade.watching.layout import COUNTS
from saccade.watching.plain_weights import Unreadable, checked_matrix, plain_weight

_SEPARATE: tuple[Any, ...] = (  # queries, keys, values, and names that the output may have
    ("q_proj", "k_proj", "v_proj", ("o_proj", "out_proj", "dense")),
    ("q", "k", "v", ("o",)),
    ("wq", "wk", "wv", ("wo",)),
    ("q_lin", "k_lin", "v_lin", ("out_lin",)),
    ("query", "key", "value", ("dense", "out_proj", "proj")),
    ("to_q", "to_k", "to_v", ("to_out",)),
    ("Wq", "Wk", "Wv", ("Wo",)),
)
_FUSED = (  # all queries, then all keys, then all values; keys and values may have fewer heads
    ("qkv", ("proj", "projection", "out_proj", "o_proj", "out")),
    ("Wqkv", ("out_proj", "Wo")),
    ("qkv_proj", ("o_proj",)),  # not `out_proj`: CodeGen has values before keys
    ("to_qkv", ("to_out",)),
    ("in_proj", ("out_proj",)),
)
_HEAD_WIDTH = ("head_dim", "attention_head_size", "key_value_proj_dim", "head_size", "d_head")
_EXAMPLE = 'names of matrices, {"q": ..., "k": ..., "v": ..., "o": ...} or {"qkv": ..., "o": ...}, perhaps with "heads"'
_SHOWN = 6  # matrices that a message names
_INTERLEAVED = (
    "GPTNeoX",
    "Bloom",
)  # classes whose `query_key_value` is ordered by head; Falcon's and ChatGLM's are not


class HeadWeights(NamedTuple):
    """Weights of one attention module, as views. Heads of keys and values may be fewer: each serves
    a run of query heads.
    """

    query: Tensor  # (head, width of a head, width in)
    key: Tensor  # (key head, width of a head, width in)
    value: Tensor  # (key head, width of a value, width in)
    output: Tensor  # (head, width of a value, width out)


class _Matrices(NamedTuple):
    """Rows are outputs, columns inputs; rows of queries, keys and values are ordered by head."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


class Names(NamedTuple):
    """What the user calls the matrices of attention, each by its path from a module that holds them
    all: `attn.q`, say.
    """

    q: str = ""
    k: str = ""
    v: str = ""
    o: str = ""
    qkv: str = ""  # all queries, then all keys, then all values
    qkv_by_head: str = (
        ""  # queries, keys and values of the first head, then of the second, and so on
    )
    heads: int = 0  # 0: the module says how many it has

    @classmethod
    def of(cls, given: Any) -> Names:
        """From a mapping; an `InputError` if it does not name all that is needed."""
        paths = (
            {name: path for name, path in given.items() if name != "heads"}
            if isinstance(given, Mapping)
            else {}
        )
        is_whole = set(paths) in ({"q", "k", "v", "o"}, {"qkv", "o"}, {"qkv_by_head", "o"})
        if not is_whole or not all(isinstance(path, str) and path for path in paths.values()):
            raise InputError(
                f"`weights` must be true, false or {_EXAMPLE}; got {shortened(given)}."
            )
        heads = checked_count("weights['heads']", given["heads"]) if "heads" in given else 0
        return cls(**paths, heads=heads)

    @property
    def paths(self) -> list[str]:
        return [path for path in self[:-1] if path]

    @property
    def shared(self) -> str:
        """The module of attention itself, by its path from the same module: what all paths begin
        with.
        """
        parts = [path.split(".")[:-1] for path in self.paths]
        same = next(
            (n for n, at in enumerate(zip(*parts, strict=False)) if len(set(at)) > 1),
            min(map(len, parts)),
        )
        return ".".join(parts[0][:same])


def attention_weights(
    model: nn.Module, names: Names | None = None, seen: Mapping[str, int] = MappingProxyType({})
) -> tuple[dict[str, HeadWeights], list[str]]:
    """Weights by the name of their module, in the order of the model, and a sentence for each kind
    of attention not recognised.

    `seen` are numbers of heads by the modules in which attention was seen to run; a module that
    says none has that number.
    """
    found: dict[str, HeadWeights] = {}
    reasons: dict[str, list[str]] = {}
    settled: list[str] = []
    for name, module in _modules(model):
        if any(_inside(name, other) for other in settled):
            continue
        try:
            if names is not None and _holds(module, names):
                name = ".".join(part for part in (name, names.shared) if part)
                weights: HeadWeights | None = _told(module, names, _n_seen(name, seen))
            else:
                weights = _read(module, _n_seen(name, seen))
        except Unreadable as reason:
            weights = None
            reasons.setdefault(str(reason), []).append(name)
            settled.append(name)
        if weights is not None:
            found[name] = weights
            settled.append(name)
    for name, kind in _suspects(model, settled, seen):
        reasons.setdefault(f"{kind} {_advice(model.get_submodule(name))}", []).append(name)
    if not found and not reasons:
        reasons[f"no attention weights were found; it {_advice(model)}"] = [type(model).__name__]
    sentences = []
    for why, where in reasons.items():
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        sentences.append(f"{where[0] or 'the model itself'}{more}: {why}.")
    return found, sentences


def _advice(module: nn.Module) -> str:
    """What to pass, and which matrices there are to choose from."""
    matrices = [
        name.removesuffix(".weight")
        for name, parameter in module.named_parameters()
        if parameter.ndim == 2
    ]
    shown = ", ".join(matrices[:_SHOWN]) + (
        f" and {len(matrices) - _SHOWN} more" if len(matrices) > _SHOWN else ""
    )
    return f"has no weights under a name that is known: pass `weights=` {_EXAMPLE}; it holds {shown or 'no matrix'}"


def check_names(model: nn.Module, names: Names) -> None:
    """An `InputError` if no module holds all of them."""
    if not any(_holds(module, names) for _, module in _modules(model)):
        matrices = [
            name.removesuffix(".weight")
            for name, parameter in model.named_parameters()
            if parameter.ndim == 2
        ]
        raise InputError(
            f"`weights` names {', '.join(names.paths)}, but no module holds them all; the model has {', '.join(matrices[:_SHOWN])}."
        )


def _holds(module: nn.Module, names: Names) -> bool:
    return all(_place(module, path) is not None for path in names.paths)


def _place(module: nn.Module, path: str) -> nn.Module | Tensor | None:
    """The module or parameter at a path."""
    *owners, last = path.split(".")
    for name in owners:
        if (inner := module._modules.get(name)) is None:
            return None
        module = inner
    return module._modules.get(last) or module._parameters.get(last)


def _n_seen(name: str, seen: Mapping[str, int]) -> int:
    """How many heads were seen in this module or around it; 0 if none were, or several numbers."""
    counts = {
        n_heads for layer, n_heads in seen.items() if _inside(layer, name) or _inside(name, layer)
    }
    return counts.pop() if len(counts) == 1 else 0


def _told(module: nn.Module, names: Names, n_seen: int) -> HeadWeights:
    def matrix(path: str) -> Tensor:
        place = _place(module, path)
        if isinstance(place, nn.Module):
            return plain_weight(path, place)
        return checked_matrix(path, place)  # type: ignore[arg-type]

    inner, output = module.get_submodule(names.shared), matrix(names.o)
    if names.q:
        return _by_head(
            _Matrices(matrix(names.q), matrix(names.k), matrix(names.v), output),
            inner,
            n_seen,
            names.heads,
        )
    fused = matrix(names.qkv or names.qkv_by_head)
    if names.qkv:
        return _by_head(_in_turn(fused, output), inner, n_seen, names.heads)
    n_heads = names.heads or _n_heads(inner, output.shape[1], n_seen)
    return _by_head(_one_head_after_the_other(n_heads, fused, output), inner, n_seen, n_heads)


def _modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules by name, without the wrappers of `torch.compile`."""
    for name, module in model.named_modules():
        if "_orig_mod" not in module._modules:
            yield ".".join(part for part in name.split(".") if part != "_orig_mod"), module


def _suspects(
    model: nn.Module, settled: list[str], seen: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Modules with matrices in which attention was seen, and innermost ones that call themselves
    attention, which neither are, hold nor belong to one that is settled.
    """
    holders = {
        name: type(module).__name__ for name, module in _modules(model) if _holds_matrices(module)
    }
    ran = {_nearest(layer, holders) for layer in seen} - {None}
    called = {
        name: kind
        for name, kind in holders.items()
        if any(
            word in f"{name.rpartition('.')[2]} {kind}".lower() for word in ("attn", "attention")
        )
        and not any(_inside(name, other) or _inside(other, name) for other in ran if other)
    }
    called = {name: kind for name, kind in holders.items() if name in ran or name in called}
    for name, kind in called.items():
        holds_other = any(other != name and _inside(other, name) for other in called)
        if not holds_other and not any(
            _inside(name, other) or _inside(other, name) for other in settled
        ):
            yield name, kind


def _holds_matrices(module: nn.Module) -> bool:
    """And is not one itself, whatever it is called."""
    is_matrix = isinstance(module, nn.Linear | nn.Embedding) or type(module).__name__ == "Conv1D"
    return not is_matrix and any(parameter.ndim > 1 for parameter in module.parameters())


def _nearest(name: str, holders: Mapping[str, str]) -> str | None:
    """The module itself or the nearest around it that is among these."""
    while name not in holders and name:
        name = name.rpartition(".")[0]
    return name if name in holders else None


def _inside(name: str, outer: str) -> bool:
    return name == outer or outer == "" or name.startswith(f"{outer}.")


def _read(module: nn.Module, n_seen: int = 0) -> HeadWeights | None:
    """Weights by head; None if the module does not look like attention of a known kind."""
    if isinstance(module, nn.MultiheadAttention):
        return _by_head(_of_torch(module), module, n_seen)
    if _has(module, "c_attn", "c_proj"):
        return _by_head(_of_c_attn(module), module, n_seen)
    if _has(module, "query_key_value", "dense"):
        return _by_head(_interleaved(module), module, n_seen)
    inner, output = (
        module._modules.get("self", module._modules.get("attention")),
        module._modules.get("output"),
    )
    if (
        inner is not None
        and output is not None
        and _has(inner, "query", "key", "value")
        and _has(output, "dense")
    ):
        return _by_head(
            _Matrices(
                _matrix(inner, "query"),
                _matrix(inner, "key"),
                _matrix(inner, "value"),
                _matrix(output, "dense"),
            ),
            inner,
            n_seen,
        )
    for *names, outputs in _SEPARATE:
        if _has(module, *names):
            return _by_head(_separate(module, names, outputs), module, n_seen)
    for fused, outputs in _FUSED:
        output_name = next((name for name in outputs if _has(module, fused, name)), None)
        # Other layers than attention call their first matrix `in_proj`: state spaces, short
        # convolutions.
        if output_name is not None and (
            fused != "in_proj" or "att" in type(module).__name__.lower()
        ):
            return _by_head(
                _in_turn(_matrix(module, fused), _matrix(module, output_name)), module, n_seen
            )
    return None


def _has(module: nn.Module, *names: str) -> bool:
    return all(module._modules.get(name) is not None for name in names)


def _matrix(module: Any, name: str) -> Tensor:
    return plain_weight(name, module._modules[name])


def _of_torch(module: nn.MultiheadAttention) -> _Matrices:
    output = _matrix(module, "out_proj")
    if module.in_proj_weight is not None:
        return _in_turn(checked_matrix("in_proj_weight", module.in_proj_weight), output)
    query, key, value = (
        checked_matrix(name, getattr(module, name))
        for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    )
    return _Matrices(query, key, value, output)


def _in_turn(fused: Tensor, output: Tensor) -> _Matrices:
    """All queries, then all keys, then all values; as many queries as the output takes, and as many
    values as keys.
    """
    width = output.shape[1]
    n_keys, odd = divmod(fused.shape[0] - width, 2)
    if odd or not 0 < n_keys <= width:
        raise Unreadable(
            f"fused weights of shape {tuple(fused.shape)} are not queries, keys and values of an output of shape "
            f"{tuple(output.shape)}; the two may be swapped"
        )
    query, key, value = fused.split([width, n_keys, n_keys])
    return _Matrices(query, key, value, output)


def _of_c_attn(module: Any) -> _Matrices:
    fused, output = _matrix(module, "c_attn"), _matrix(module, "c_proj")
    if type(module).__name__.startswith("GPTBigCode") and not module.multi_query:
        return _one_head_after_the_other(_n_heads(module, output.shape[1]), fused, output)
    return _in_turn(fused, output)


def _interleaved(module: nn.Module) -> _Matrices:
    kind = type(module).__name__
    if not kind.startswith(_INTERLEAVED):
        raise Unreadable(f"the order of rows in query_key_value of {kind} is not known")
    fused, output = _matrix(module, "query_key_value"), _matrix(module, "dense")
    return _one_head_after_the_other(_n_heads(module, output.shape[1]), fused, output)


def _one_head_after_the_other(n_heads: int, fused: Tensor, output: Tensor) -> _Matrices:
    """Queries, keys and values of the first head, then those of the second, and so on."""
    if fused.shape[0] != 3 * output.shape[1]:
        raise Unreadable(
            f"fused weights of shape {tuple(fused.shape)} are not queries, keys and values of equal width"
        )
    by_head = fused.unflatten(0, (n_heads, 3, -1))
    query, key, value = (by_head[:, i].flatten(0, 1) for i in range(3))
    return _Matrices(query, key, value, output)


def _separate(module: nn.Module, names: list[str], outputs: tuple[str, ...]) -> _Matrices:
    output = next((name for name in outputs if _has(module, name)), None)
    if output is None:
        raise Unreadable(f"{', '.join(names)} come without any of {', '.join(outputs)}")
    query, key, value = (_matrix(module, name) for name in names)
    return _Matrices(query, key, value, _matrix(module, output))


def _by_head(weights: _Matrices, module: nn.Module, n_seen: int, told: int = 0) -> HeadWeights:
    n_heads = told or _n_heads(module, weights.query.shape[0], n_seen)
    width = max(weights.query.shape[0] // n_heads, 1)
    n_key_heads = max(weights.key.shape[0] // width, 1)
    fits = (
        weights.query.shape[0] == n_heads * width
        and weights.key.shape[0] == n_key_heads * width
        and n_heads % n_key_heads == 0
        and weights.value.shape[0] % n_key_heads == 0
    )
    if not fits or weights.output.shape[1] != n_heads * (weights.value.shape[0] // n_key_heads):
        shapes = ", ".join(str(tuple(weight.shape)) for weight in weights)
        raise Unreadable(
            f"queries, keys, values and output of shapes {shapes} do not make {n_heads} heads"
        )
    query, key, value = (
        weight.unflatten(0, (n, -1))
        for weight, n in zip(weights[:3], (n_heads, n_key_heads, n_key_heads), strict=True)
    )
    return HeadWeights(query, key, value, weights.output.T.unflatten(0, (n_heads, -1)))


def _n_heads(module: nn.Module, n_rows: int, n_seen: int = 0) -> int:
    """From the number or the width of heads that the module knows, or its configuration; else as
    many as were seen.
    """
    for owner in (module, getattr(module, "config", None)):
        for name in COUNTS:
            count = getattr(owner, name, None)
            if isinstance(count, int) and count > 0 and n_rows % count == 0:
                return count
        for name in _HEAD_WIDTH:
            width = getattr(owner, name, None)
            if isinstance(width, int) and width > 0 and n_rows % width == 0:
                return n_rows // width
    if n_seen and n_rows % n_seen == 0:
        return n_seen
    raise Unreadable(
        "it is not said how many heads there are: give the module an attribute `num_heads`, or name its matrices and "
        '"heads" in `weights=`'
    )
