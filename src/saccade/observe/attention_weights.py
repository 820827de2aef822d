"""The weights of attention inside a PyTorch model, head by head, found by the names that common code gives them.

| names                                             | where                                                                       |
|---------------------------------------------------|-----------------------------------------------------------------------------|
| `q_proj k_proj v_proj` and `o_proj` or `out_proj` | Llama, Mistral, OPT, GPT-J and most newer models; fewer key than query heads|
| `q k v o`, `wq wk wv wo`, `q_lin k_lin v_lin`     | T5, Llama as first published, DistilBERT                                    |
| `query key value`, and `output.dense` or `dense`  | BERT and its relatives                                                      |
| `c_attn`, `c_proj`                                | GPT-2 (`Conv1D`), nanoGPT (`Linear`): queries, then keys, then values;      |
|                                                   | GPTBigCode: by head, or with one key and value for all heads                |
| `query_key_value`, `dense`                        | GPT-NeoX, BLOOM: for each head its queries, keys and values                 |
| `in_proj_weight`, `out_proj`                      | `nn.MultiheadAttention`, `nn.TransformerEncoder`                            |

The order of the rows of a fused matrix cannot be seen from its shape, so other names are not guessed at. What looks like attention
and cannot be read is said in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

from saccade.observe.plain_weights import Unreadable, checked_matrix, plain_weight

_SEPARATE: tuple[Any, ...] = (  # queries, keys, values, and names that the output may have
    ("q_proj", "k_proj", "v_proj", ("o_proj", "out_proj", "dense")),
    ("q", "k", "v", ("o",)),
    ("wq", "wk", "wv", ("wo",)),
    ("q_lin", "k_lin", "v_lin", ("out_lin",)),
    ("query", "key", "value", ("dense", "out_proj")),
)
_KNOWN = "names that are known (observe/attention_weights.py lists them)"
_HEAD_WIDTH = ("head_dim", "attention_head_size", "key_value_proj_dim", "head_size", "d_head")
_HEAD_COUNT = ("num_heads", "n_heads", "n_head", "num_attention_heads")
_INTERLEAVED = ("GPTNeoX", "Bloom")  # classes whose `query_key_value` is ordered by head; Falcon's and ChatGLM's are not


class HeadWeights(NamedTuple):
    """Weights of one attention module, as views. Heads of keys and values may be fewer: each serves a run of query heads."""

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


def attention_weights(model: nn.Module) -> tuple[dict[str, HeadWeights], list[str]]:
    """Weights by the name of their module, in the order of the model, and a sentence for each kind of attention not recognised."""
    found: dict[str, HeadWeights] = {}
    reasons: dict[str, list[str]] = {}
    settled: list[str] = []
    for name, module in _modules(model):
        if any(_inside(name, other) for other in settled):
            continue
        try:
            weights = _read(module)
        except Unreadable as reason:
            weights = None
            reasons.setdefault(str(reason), []).append(name)
            settled.append(name)
        if weights is not None:
            found[name] = weights
            settled.append(name)
    for name, kind in _suspects(model, settled):
        reasons.setdefault(f"{kind} has no weights under {_KNOWN}", []).append(name)
    if not found and not reasons:
        reasons[f"no attention weights were found under {_KNOWN}"] = [type(model).__name__]
    return found, [f"{_listed(names)}: {reason}." for reason, names in reasons.items()]


def _modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules by name, without the wrappers of `torch.compile`."""
    for name, module in model.named_modules():
        if "_orig_mod" not in module._modules:
            yield ".".join(part for part in name.split(".") if part != "_orig_mod"), module


def _suspects(model: nn.Module, settled: list[str]) -> Iterator[tuple[str, str]]:
    """Innermost modules with parameters that call themselves attention and neither are, hold nor belong to one that is settled."""
    called = [
        (name, type(module).__name__)
        for name, module in _modules(model)
        if any(word in f"{name.rpartition('.')[2]} {type(module).__name__}".lower() for word in ("attn", "attention"))
        and any(parameter.ndim > 1 for parameter in module.parameters())
    ]
    for name, kind in called:
        holds_other = any(other != name and _inside(other, name) for other, _ in called)
        if not holds_other and not any(_inside(name, other) or _inside(other, name) for other in settled):
            yield name, kind


def _inside(name: str, outer: str) -> bool:
    return name == outer or outer == "" or name.startswith(f"{outer}.")


def _listed(names: list[str]) -> str:
    first = names[0] or "the model itself"
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"


def _read(module: nn.Module) -> HeadWeights | None:
    """Weights by head; None if the module does not look like attention of a known kind."""
    if isinstance(module, nn.MultiheadAttention):
        return _by_head(_of_torch(module), module)
    if _has(module, "c_attn", "c_proj"):
        return _by_head(_of_c_attn(module), module)
    if _has(module, "query_key_value", "dense"):
        return _by_head(_interleaved(module), module)
    inner, output = module._modules.get("self", module._modules.get("attention")), module._modules.get("output")
    if inner is not None and output is not None and _has(inner, "query", "key", "value") and _has(output, "dense"):
        return _by_head(_of_bert(inner, output), inner)
    for *names, outputs in _SEPARATE:
        if _has(module, *names):
            return _by_head(_separate(module, names, outputs), module)
    return None


def _has(module: nn.Module, *names: str) -> bool:
    return all(module._modules.get(name) is not None for name in names)


def _matrix(module: Any, name: str) -> Tensor:
    return plain_weight(name, module._modules[name])


def _of_bert(inner: nn.Module, output: nn.Module) -> _Matrices:
    return _Matrices(_matrix(inner, "query"), _matrix(inner, "key"), _matrix(inner, "value"), _matrix(output, "dense"))


def _of_torch(module: nn.MultiheadAttention) -> _Matrices:
    output = _matrix(module, "out_proj")
    if module.in_proj_weight is not None:
        return _in_turn(checked_matrix("in_proj_weight", module.in_proj_weight), output)
    query, key, value = (
        checked_matrix(name, getattr(module, name)) for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    )
    return _Matrices(query, key, value, output)


def _in_turn(fused: Tensor, output: Tensor) -> _Matrices:
    """All queries, then all keys, then all values."""
    if fused.shape[0] != 3 * output.shape[1]:
        raise Unreadable(f"fused weights of shape {tuple(fused.shape)} are not queries, keys and values of equal width")
    query, key, value = fused.chunk(3)
    return _Matrices(query, key, value, output)


def _of_c_attn(module: Any) -> _Matrices:
    fused, output = _matrix(module, "c_attn"), _matrix(module, "c_proj")
    if not type(module).__name__.startswith("GPTBigCode"):
        return _in_turn(fused, output)
    if not module.multi_query:
        return _one_head_after_the_other(module, fused, output)
    width = output.shape[1]
    if fused.shape[0] != width + 2 * (width // _n_heads(module, width)):
        raise Unreadable(f"fused weights of shape {tuple(fused.shape)} are not queries, one key and one value")
    query, key, value = fused.split([width, *[(fused.shape[0] - width) // 2] * 2])
    return _Matrices(query, key, value, output)


def _interleaved(module: nn.Module) -> _Matrices:
    kind = type(module).__name__
    if not kind.startswith(_INTERLEAVED):
        raise Unreadable(f"the order of rows in query_key_value of {kind} is not known")
    return _one_head_after_the_other(module, _matrix(module, "query_key_value"), _matrix(module, "dense"))


def _one_head_after_the_other(module: nn.Module, fused: Tensor, output: Tensor) -> _Matrices:
    """Queries, keys and values of the first head, then those of the second, and so on."""
    if fused.shape[0] != 3 * output.shape[1]:
        raise Unreadable(f"fused weights of shape {tuple(fused.shape)} are not queries, keys and values of equal width")
    by_head = fused.unflatten(0, (_n_heads(module, fused.shape[0] // 3), 3, -1))
    query, key, value = (by_head[:, i].flatten(0, 1) for i in range(3))
    return _Matrices(query, key, value, output)


def _separate(module: nn.Module, names: list[str], outputs: tuple[str, ...]) -> _Matrices:
    output = next((name for name in outputs if _has(module, name)), None)
    if output is None:
        raise Unreadable(f"{', '.join(names)} come without any of {', '.join(outputs)}")
    query, key, value = (_matrix(module, name) for name in names)
    return _Matrices(query, key, value, _matrix(module, output))


def _by_head(weights: _Matrices, module: nn.Module) -> HeadWeights:
    n_heads = _n_heads(module, weights.query.shape[0])
    width = weights.query.shape[0] // n_heads
    n_key_heads = weights.key.shape[0] // width
    fits = weights.key.shape[0] == n_key_heads * width and n_heads % n_key_heads == 0 and weights.value.shape[0] % n_key_heads == 0
    if not fits or weights.output.shape[1] != n_heads * (weights.value.shape[0] // n_key_heads):
        shapes = ", ".join(str(tuple(weight.shape)) for weight in weights)
        raise Unreadable(f"queries, keys, values and output of shapes {shapes} do not make {n_heads} heads")
    query, key, value = (
        weight.unflatten(0, (n, -1)) for weight, n in zip(weights[:3], (n_heads, n_key_heads, n_key_heads), strict=True)
    )
    return HeadWeights(query, key, value, weights.output.T.unflatten(0, (n_heads, -1)))


def _n_heads(module: nn.Module, n_rows: int) -> int:
    """From the number or the width of heads that the module knows, or its configuration."""
    for owner in (module, getattr(module, "config", None)):
        for name in _HEAD_COUNT:
            count = getattr(owner, name, None)
            if isinstance(count, int) and count > 0 and n_rows % count == 0:
                return count
        for name in _HEAD_WIDTH:
            width = getattr(owner, name, None)
            if isinstance(width, int) and width > 0 and n_rows % width == 0:
                return n_rows // width
    raise Unreadable(f"it is not said how many heads there are ({', '.join(_HEAD_COUNT)}) nor how wide they are")
