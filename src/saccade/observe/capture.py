r"""Capture attention as a PyTorch model computes it, without hooks or edits, and with its own kernels.

A forward pass under `Capture` goes on as usual; every function it calls is looked at on the way (`torch.overrides`), and those
that are attention are handed to a listener, one at a time and in the order of the model:

| what the model calls                     | what is seen                                                             |
|------------------------------------------|--------------------------------------------------------------------------|
| `F.scaled_dot_product_attention`         | queries and keys; weights are computed again, some query rows at a time  |
| `flex_attention`                         | the same, with its score and mask functions                              |
| `F.multi_head_attention_forward`         | the same function, asked for the weights of some query rows              |
| softmax over keys, then a matrix product | the softmax itself                                                       |

A softmax that is not multiplied by values is not attention: it is listed in `Capture.unseen` if it might have been meant as such.
Not here: what is measured of the weights (`attention_statistics.py`), when (`recorder.py`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from string import ascii_letters
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from saccade.observe.free_memory import give_back

_SOFTMAX = {torch.softmax, F.softmax, Tensor.softmax}
_PRODUCT = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum}
# What is added to the score of a masked key is at or below it: -1e4, -1e9, the least number of a type, -inf. A bias by distance
# (ALiBi) is above it up to 20,000 tokens.
_MASKED = -9999.0
_LEAST_BIAS = -99.0  # a weight of e^-99 is none
# Between softmax and product these leave the weights what they are, but for their type, layout or dropped entries.
_PASSING = (
    "dropout",
    "to",
    "type_as",
    "type",
    "float",
    "half",
    "bfloat16",
    "view",
    "reshape",
    "contiguous",
    "masked_fill",
    "clone",
)


@dataclass(frozen=True)
class AttentionCall:
    """One attention computation of the model. Axes of weights: batch, head, query, key; a row sums to one, or is zero if it sees
    no key.
    """

    kind: str
    n_batch: int
    n_heads: int
    n_queries: int
    n_keys: int
    rows: Callable[[int, int, torch.dtype], Tensor]  # weights of query rows start to stop, computed in that type
    # Relative error of those rows times the values, against the output; None if weights were dropped at random in between.
    reproduced: Callable[[int, int, torch.dtype], float | None]
    dtype: torch.dtype = torch.float64  # of the model's output: what it may round away
    visible: Callable[[int, int], Tensor] | None = None  # keys that the mask leaves to query rows start to stop; None: not known
    scores: Callable[[int, int, torch.dtype], Tensor] | None = (
        None  # what the softmax takes: masked keys far below; None: not known
    )
    from_scores: bool = False  # `rows` is nothing but the softmax of `scores`

    def weights_and_scores(self, start: int, stop: int, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Of query rows start to stop, with products of queries and keys taken once."""
        scores = None if self.scores is None else self.scores(start, stop, dtype)
        if scores is None or not self.from_scores:
            return self.rows(start, stop, dtype), scores
        return _softmax(scores), scores


class Capture(TorchFunctionMode):
    """Hands every attention call of the forward passes inside its block to `listener`; `n_batch` tells heads from sequences where
    a model folds them into one axis.
    """

    def __init__(self, listener: Callable[[AttentionCall], None], n_batch: int) -> None:
        super().__init__()
        self.unseen: list[str] = []

        def listen(call: AttentionCall) -> None:
            listener(call)
            give_back()

        self._listener = torch.compiler.disable(listen)  # flex_attention is called from inside a compiled frame
        self._n_batch = n_batch
        self._weights: WeakIdKeyDictionary = WeakIdKeyDictionary()  # tensors made from a softmax -> that softmax
        self._scores: WeakIdKeyDictionary = WeakIdKeyDictionary()  # softmaxes -> what they were taken of
        self._waiting: WeakIdKeyDictionary = WeakIdKeyDictionary()  # softmaxes that no product has used yet -> what they are
        self._lost: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        # PyTorch has switched the mode off in here, so whatever a handler calls is not seen again.
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            self._hand_over(_of_dot_product(self._n_batch, output, *args, **kwargs))
        elif func is F.multi_head_attention_forward:
            self._hand_over(_of_multi_head(output, args, kwargs))
        elif func is flex.flex_attention_hop:
            self._hand_over(_of_flex(output, *args))
        elif func in _SOFTMAX:
            self._note_softmax(output, args, kwargs)
        elif func in _PRODUCT:
            self._note_product(func, output, args, kwargs)
        elif getattr(func, "__name__", "") in _PASSING:
            self._pass_on(output, args)
        return output

    def _hand_over(self, call: AttentionCall) -> None:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):  # the user's, meant for the model alone
            self._listener(call)

    def __exit__(self, *details: Any) -> None:
        super().__exit__(*details)
        self.unseen += self._lost
        self.unseen += [what for what in self._waiting.values() if what not in self.unseen]

    def _note_softmax(self, output: Tensor, args: tuple, kwargs: dict[str, Any]) -> None:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if output.ndim >= 3 and isinstance(dim, int) and dim % output.ndim == output.ndim - 1:
            self._weights[output] = output
            self._scores[output] = args[0].detach() if args else None
            self._waiting[output] = f"a softmax over {tuple(output.shape)} that no matrix product with values was seen to use"
        elif output.ndim >= 4:
            self._lost.append(f"a softmax over axis {dim} of {tuple(output.shape)}; attention is seen over the last axis only")

    def _pass_on(self, output: Any, args: tuple) -> None:
        weights = self._weights.get(args[0]) if args and isinstance(args[0], Tensor) else None
        if weights is not None and isinstance(output, Tensor):
            self._weights[output] = weights

    def _note_product(self, func: Any, output: Tensor, args: tuple, kwargs: dict[str, Any]) -> None:
        """Weights times values. The product is kept as it is, to compare with: what lies between softmax and product may matter."""
        if func is torch.einsum:
            equation, operands = args[0], list(args[1] if isinstance(args[1], list | tuple) else args[1:])
        else:
            equation, operands = "", [*args, *kwargs.values()]
        place = next((i for i, operand in enumerate(operands) if self._is_waiting(operand)), None)
        if place is None or len(operands) != 2:
            return
        softmax, values = self._weights[operands[place]], operands[1 - place]
        weights = softmax.detach().reshape(operands[place].shape)  # some fold sequences and heads on the way to the product
        rule = _einsum_rule(equation, weights, values, place) if equation else _matmul_rule(weights, values, place)
        if rule is not None:
            self._waiting.pop(softmax, None)
            scores = self._scores.pop(softmax, None)
            scores = None if scores is None else scores.reshape(weights.shape)
            self._hand_over(_of_softmax(weights, scores, values, output, rule, self._n_batch))

    def _is_waiting(self, operand: Any) -> bool:
        return isinstance(operand, Tensor) and operand in self._weights and self._weights[operand] in self._waiting


class _Rule(NamedTuple):
    """How weights stand in a product: the order of their axes that puts queries and keys last, and an equation for the whole."""

    order: tuple[int, ...]
    equation: str  # of einsum: weights, values -> output


def _matmul_rule(weights: Tensor, values: Tensor, place: int) -> _Rule | None:
    """Weights on the left, as many axes on the right: with fewer it is a layer, not values of each sequence."""
    if place != 0 or values.ndim != weights.ndim:
        return None
    return _Rule(tuple(range(weights.ndim)), "...qk,...kd->...qd")


def _einsum_rule(equation: str, weights: Tensor, values: Tensor, place: int) -> _Rule | None:
    """Keys are summed over, queries are in the result but not in the values; anything else is not attention."""
    plain = equation.replace(" ", "")
    n_named = len(plain.partition("->")[0].split(",")[place].replace("...", ""))
    unused = [letter for letter in ascii_letters if letter not in plain]
    inputs, _, result = plain.replace("...", "".join(unused[: weights.ndim - n_named])).partition("->")
    parts = inputs.split(",")
    if len(parts) != 2 or not result or len(parts[1 - place]) != values.ndim:
        return None
    own, other = parts[place], parts[1 - place]
    keys = [letter for letter in own if letter in other and letter not in result]
    queries = [letter for letter in own if letter in result and letter not in other]
    if len(keys) != 1 or len(queries) != 1:
        return None
    rest = [letter for letter in own if letter not in (keys[0], queries[0])]
    return _Rule(tuple(own.index(letter) for letter in (*rest, queries[0], keys[0])), f"{own},{other}->{result}")


def given_weights(kind: str, weights: Tensor) -> AttentionCall:
    """Weights (batch, head, query, key) that are there as a whole; there is nothing to compute again, and nothing to compare."""
    n_batch, n_heads, n_queries, n_keys = weights.shape

    def rows(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return weights[:, :, start:stop].to(dtype)

    return AttentionCall(kind, n_batch, n_heads, n_queries, n_keys, rows, lambda start, stop, dtype: 0.0)


def _of_softmax(weights: Tensor, scores: Tensor | None, values: Tensor, output: Tensor, rule: _Rule, n_batch: int) -> AttentionCall:
    """Weights that the model has made itself; (sequence x head, query, key) if it folds the two."""

    def four_axes(tensor: Tensor) -> Tensor:
        ordered = tensor.permute(rule.order)
        return (_unfolded(ordered, n_batch) if ordered.ndim == 3 else ordered).flatten(1, -3)

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return four_axes(cast(Tensor, scores))[:, :, start:stop].to(dtype)

    def reproduced(start: int, stop: int, dtype: torch.dtype) -> float:
        """All rows at once, of the first block only: the model holds them all as well."""
        if start > 0:
            return 0.0
        made = torch.einsum(rule.equation, weights.to(dtype), values.detach().to(dtype))
        return _relative_error(made, output.detach())

    call = given_weights("softmax", four_axes(weights))
    return replace(call, reproduced=reproduced, dtype=output.dtype, scores=None if scores is None else scored)


def _of_dot_product(
    n_batch: int,
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AttentionCall:
    q, k, v, made = (_four_axes(tensor.detach(), n_batch) for tensor in (query, key, value, output))
    mask = None if attn_mask is None else _four_axes(_with_axes_of(query, attn_mask.detach()), n_batch)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale

    masked = _MASKED if mask is None or mask.dtype == torch.bool else _masked_level(mask)

    def of_mask(start: int, stop: int) -> Tensor | None:
        return mask if mask is None or mask.shape[2] == 1 else mask[:, :, start:stop]

    def visible(start: int, stop: int) -> Tensor:
        rows, keys = torch.arange(start, stop, device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)
        allowed, part = (rows >= keys)[None, None] | (not is_causal), of_mask(start, stop)
        return allowed if part is None else allowed & (part if part.dtype == torch.bool else part > masked)

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        scores, part = factor * _products(q[:, :, start:stop], k, dtype), of_mask(start, stop)
        if part is not None and part.dtype != torch.bool:
            return scores + part
        return scores.masked_fill(~visible(start, stop), -math.inf)

    kind = "scaled_dot_product_attention"
    return replace(_from_scores(kind, q, k, v, made, scored, dropout_p), visible=visible)


def _masked_level(mask: Tensor) -> float:
    """What is added to the score of a masked key is at or below it. Some add -100 (windows that are shifted): a mask with no number
    but 0 and one so low hides keys, a bias by distance has many.
    """
    least = float(mask.min())
    is_mask = _MASKED < least <= _LEAST_BIAS and bool(((mask == 0) | (mask == least)).all())
    return least / 2 if is_mask else _MASKED


def _of_flex(output: Any, *args: Any) -> AttentionCall:
    query, key, value, score_mod, block_mask, scale, *rest = args
    score_buffers, mask_buffers = rest[1:3] if len(rest) >= 3 else ((), ())
    q, k = query.detach(), key.detach()
    score_of, mask_of = _over_indices(score_mod, True, score_buffers), _over_indices(block_mask[-1], False, mask_buffers)
    batch, heads, keys = (torch.arange(n, device=q.device) for n in (len(q), q.shape[1], k.shape[2]))

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        scores = scale * _products(q[:, :, start:stop], k, dtype)
        places = batch, heads, torch.arange(start, stop, device=q.device), keys
        return score_of(scores, *places).masked_fill(~mask_of(*places), -math.inf)

    def visible(start: int, stop: int) -> Tensor:
        places = batch, heads, torch.arange(start, stop, device=q.device), keys
        return mask_of(*places) & (score_of(torch.zeros([len(axis) for axis in places], device=q.device), *places) > _MASKED)

    made = output[0] if isinstance(output, tuple) else output
    return replace(_from_scores("flex_attention", q, k, value.detach(), made.detach(), scored, 0.0), visible=visible)


def _over_indices(function: Callable, with_score: bool, buffers: tuple) -> Callable:
    """A function of one (score and) place, batch, head, query, key, made a function of all places at once."""
    for axis in (3, 2, 1, 0):
        places = tuple(0 if i == axis else None for i in range(4))
        function = torch.vmap(function, in_dims=((0,) if with_score else ()) + places + (None,) * len(buffers))
    return lambda *places: function(*places, *buffers)


def _of_multi_head(output: Any, args: tuple, kwargs: dict[str, Any]) -> AttentionCall:
    """PyTorch's own function tells the weights, if it is asked for those of some query rows only."""
    given = _MULTI_HEAD.bind(*args, **kwargs)
    given.apply_defaults()
    call = given.arguments
    query, mask = call["query"].detach(), call["attn_mask"]
    n_queries, n_batch = query.shape[0], query.shape[1] if query.ndim == 3 else 1

    def asked(start: int, stop: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        part = None if mask is None else mask[..., start:stop, :]
        changed = {"query": query[start:stop], "attn_mask": part, "need_weights": True, "average_attn_weights": False}
        quiet = {"is_causal": False, "training": False, "dropout_p": 0.0}
        settings = {name: _in_type(value, dtype) for name, value in (call | changed | quiet).items()}
        made, asked_for = F.multi_head_attention_forward(**settings)
        weights = cast(Tensor, asked_for)
        return made, weights if weights.ndim == 4 else weights[None]

    def rows(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return asked(start, stop, dtype)[1].detach().nan_to_num(0.0)

    def reproduced(start: int, stop: int, dtype: torch.dtype) -> float | None:
        dropped = call["training"] and call["dropout_p"] > 0
        return None if dropped else _relative_error(asked(start, stop, dtype)[0], output[0][start:stop])

    n_keys = rows(0, 1, torch.float32).shape[-1]
    kind, scores = "multi_head_attention_forward", _multi_head_scores(call)
    return AttentionCall(kind, n_batch, int(call["num_heads"]), n_queries, n_keys, rows, reproduced, output[0].dtype, scores=scores)


def _multi_head_scores(call: dict[str, Any]) -> Callable[[int, int, torch.dtype], Tensor] | None:
    """Scores of PyTorch's own function, which gives weights only; None where keys are added to those it is given."""
    added = ("bias_k", "bias_v", "static_k", "static_v")
    query, key, n_heads = call["query"].detach(), call["key"].detach(), int(call["num_heads"])
    if any(call[name] is not None for name in added) or call["add_zero_attn"] or query.ndim != 3:
        return None
    separate, width = call["use_separate_proj_weight"], query.shape[-1]
    packed, bias = call["in_proj_weight"], call["in_proj_bias"]
    of_query, of_key = (call["q_proj_weight"], call["k_proj_weight"]) if separate else (packed[:width], packed[width : 2 * width])
    biases = (None, None) if bias is None else (bias[:width], bias[width : 2 * width])

    def by_head(tokens: Tensor, weight: Tensor, shift: Tensor | None, dtype: torch.dtype) -> Tensor:
        made = F.linear(tokens.to(dtype), weight.detach().to(dtype), None if shift is None else shift.detach().to(dtype))
        return made.unflatten(-1, (n_heads, -1)).permute(1, 2, 0, 3)  # sequence, head, token, width

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        q, k = by_head(query[start:stop], of_query, biases[0], dtype), by_head(key, of_key, biases[1], dtype)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if call["attn_mask"] is not None:
            part = call["attn_mask"].detach()[..., start:stop, :]
            part = part.unflatten(0, (-1, n_heads)) if part.ndim == 3 else part
            scores = _with_mask(scores, part)
        padding = call["key_padding_mask"]
        return scores if padding is None else _with_mask(scores, padding.detach()[:, None, None])

    return scored


def _with_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """As this function means it: what is true is left out, numbers are added."""
    return scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask


_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def _in_type(value: Any, dtype: torch.dtype) -> Any:
    return value.detach().to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def _from_scores(
    kind: str, q: Tensor, k: Tensor, v: Tensor, made: Tensor, scored: Callable[[int, int, torch.dtype], Tensor], dropout: float
) -> AttentionCall:
    def rows(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return _softmax(scored(start, stop, dtype))

    def reproduced(start: int, stop: int, dtype: torch.dtype) -> float | None:
        if dropout > 0:
            return None
        grouped = rows(start, stop, dtype).unflatten(1, (v.shape[1], -1)) @ v.to(dtype).unsqueeze(2)
        return _relative_error(grouped.flatten(1, 2), made[:, :, start:stop])

    sizes = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    return AttentionCall(kind, *sizes, rows, reproduced, made.dtype, scores=scored, from_scores=True)


def _softmax(scores: Tensor) -> Tensor:
    """A row that sees no key is NaN after the softmax; the kernels give it no weight at all."""
    return torch.softmax(scores, dim=-1).nan_to_num(0.0)


def _products(q: Tensor, k: Tensor, dtype: torch.dtype) -> Tensor:
    """q . k for every head; heads that share a key (grouped or single) read the same one."""
    grouped = q.to(dtype).unflatten(1, (k.shape[1], -1)) @ k.to(dtype).unsqueeze(2).mT
    return grouped.flatten(1, 2)


def _four_axes(tensor: Tensor, n_batch: int) -> Tensor:
    """(batch, head, token, width): a missing axis is one sequence or head, a single one both folded, further ones more heads."""
    if tensor.ndim == 3:
        return _unfolded(tensor, n_batch)
    return tensor[None, None] if tensor.ndim == 2 else tensor.flatten(1, -3)


def _unfolded(tensor: Tensor, n_batch: int) -> Tensor:
    """(sequence x head, ...) as (sequence, head, ...): sequences are taken to come first, which `self_check.py` tests."""
    n_heads = len(tensor) // n_batch if len(tensor) % n_batch == 0 else 1
    return tensor.unflatten(0, (-1, n_heads))


def _with_axes_of(query: Tensor, mask: Tensor) -> Tensor:
    """A mask with all leading axes of the queries: PyTorch broadcasts it from the right."""
    return mask[(None,) * (query.ndim - mask.ndim)].expand(*query.shape[:-2], *mask.shape[-2:])


def _relative_error(ours: Tensor, made: Tensor) -> float:
    size = made.abs().max().double().clamp_min(torch.finfo(torch.float64).tiny)
    return float((ours.double() - made.double()).abs().max() / size)
