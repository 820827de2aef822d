"""Attention that a model writes out: a softmax over keys is followed to the product with values
that uses it.

Between the two, weights may change their type or layout, lose entries to dropout, columns to a
slice (learned sinks, which take attention and give nothing), be scaled head by head (head masks) or
be mixed over heads (talking heads: what is recorded is the softmax, before the heads talk). Before
the softmax, masks that are added to scores are kept track of: they tell which keys are visible. A
softmax whose product is not with values is no attention of queries on keys: kernels that
approximate it (Nystroem), a softmax over features in front of a matrix made of keys and values
(linear attention). What no product uses is listed as lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from string import ascii_letters
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from saccade.watching.attention_call import AttentionCall, given_weights, relative_error
from saccade.watching.band import band_sizes, of_band
from saccade.watching.layout import Axes
from saccade.watching.masks import MASKED, left_by

SOFTMAXES = {torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax}
PRODUCTS = {
    torch.matmul,
    Tensor.matmul,
    Tensor.__matmul__,
    torch.bmm,
    Tensor.bmm,
    torch.einsum,
    torch.baddbmm,
    Tensor.baddbmm,
}
PRODUCTS |= {torch.mm, Tensor.mm}  # of one sequence and head: said to be unseen
# Between softmax and product these leave the weights what they are, but for their type, layout or
# dropped entries.
_PASSING = {
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
}
# These leave scores, values and contexts what they are.
_LAYOUT = _PASSING | {
    "transpose",
    "permute",
    "unsqueeze",
    "squeeze",
    "flatten",
    "unflatten",
    "expand",
    "mT",
    "T",
    "getitem",
}
_ARITHMETIC = {
    "add",
    "sub",
    "mul",
    "div",
    "masked_fill",
    "where",
    "clamp",
    "tanh",
    "cat",
    "maximum",
    "max",
}
_SAME = {
    "radd": "add",
    "iadd": "add",
    "rsub": "sub",
    "isub": "sub",
    "rmul": "mul",
    "imul": "mul",
    "truediv": "div",
    "itruediv": "div",
}
_MIXING = {
    "linear",
    "conv2d",
    "permute",
    "transpose",
}  # between the softmax and the product: heads may talk to each other
_BAND = {
    "pad",
    "view",
    "getitem",
}  # weights of near keys are laid out as those of chunks (`band.py`)
_FOLLOWED = _LAYOUT | _ARITHMETIC | _MIXING | _BAND
_MIXED = 1e-4  # largest error, over the largest weight, of used weights as a mixture of heads; float32 rounds at 1e-7
_MOST_NULL = 8  # columns that a slice may take off and be sinks


class _Fact(NamedTuple):
    """What is known of a tensor on its way."""

    of_product: bool = (
        False  # made from a product of two activations: scores, or a context of keys and values
    )
    of_attention: bool = False  # that product was weights times values
    of_parameter: bool = False  # a parameter in another layout
    visible: Tensor | None = (
        None  # of scores: keys that masks have left, with axes that broadcast to it
    )


@dataclass
class _Softmax:
    """One softmax; it holds no tensor, or none would be freed before the pass is over."""

    what: str
    of_product: bool
    is_settled: bool = False  # used by a product, or told by the author


class _Weights(NamedTuple):
    """A tensor that is a softmax, or made from one."""

    source: _Softmax
    softmax: Tensor | None = None  # None: the tensor itself
    scores: Tensor | None = None
    visible: Tensor | None = None
    factor: Tensor | float | None = None  # by which each head was scaled since
    cut: tuple[int, int] = (0, 0)  # columns taken off, at the beginning and at the end
    mixed: bool = False  # perhaps over heads
    banded: bool = False  # perhaps a band


class Found(NamedTuple):
    """A product of weights with values."""

    sizes: tuple[int, ...]  # axes before query and key
    tokens: tuple[int, int, int]  # number of queries and of keys, and the width of a value
    call: (
        Callable[[Axes], AttentionCall] | None
    )  # None: an approximation, in which no weights of queries on keys exist


class SoftmaxTrail:
    """Follows the tensors of one pass."""

    def __init__(self) -> None:
        self._weights: WeakIdKeyDictionary = WeakIdKeyDictionary()  # tensor -> _Weights
        self._facts: WeakIdKeyDictionary = WeakIdKeyDictionary()  # tensor -> _Fact
        self._flat: WeakIdKeyDictionary = (
            WeakIdKeyDictionary()
        )  # tensor of two axes that is a softmax -> what to say if it is used
        self._all: list[_Softmax] = []
        self._elsewhere: list[str] = []

    def lost(self) -> list[str]:
        """What may have been meant as attention, and was not seen as such."""
        return self._elsewhere + [each.what for each in self._all if not each.is_settled]

    def settle(self, tensor: Tensor) -> None:
        known = self._known(tensor)
        if known is not None:
            known.source.is_settled = True

    def _known(self, value: Any) -> _Weights | None:
        return self._weights.get(value) if isinstance(value, Tensor) else None

    def _fact(self, value: Any) -> _Fact:
        if isinstance(value, nn.Parameter):
            return _Fact(of_parameter=True)
        return self._facts.get(value, _Fact()) if isinstance(value, Tensor) else _Fact()

    def left_by(self, mask: Any) -> Tensor | None:
        """Keys that the parts of a mask have left, of its shape; None where it was not seen how it
        was made.
        """
        visible = self._fact(mask).visible
        return None if visible is None or visible.shape != mask.shape else visible

    def note_softmax(self, output: Tensor, args: tuple, kwargs: dict[str, Any]) -> None:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        scores: Any = args[0] if args else kwargs.get("input")
        if output.ndim >= 3 and isinstance(dim, int) and dim % output.ndim == output.ndim - 1:
            fact = self._fact(scores)
            what = f"a softmax over {tuple(output.shape)} that no matrix product with values was seen to use"
            source = _Softmax(what, fact.of_product)
            self._all.append(source)
            self._weights[output] = _Weights(source, None, scores.detach(), fact.visible)
        elif output.ndim == 2 and dim in (-1, 1):
            self._flat[output] = (
                f"a softmax over {tuple(output.shape)} times values, without axes for sequences and heads"
            )
        elif output.ndim >= 4:
            self._elsewhere.append(
                f"a softmax over axis {dim} of {tuple(output.shape)}; attention is seen over the last axis only"
            )

    def follow(self, func: Any, output: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Any other function: what is known of its arguments may hold for its result."""
        name = _plain_name(func)
        if not isinstance(output, Tensor) or name not in _FOLLOWED:
            return
        given = [value for value in _flat(args, kwargs) if isinstance(value, Tensor)]
        if given and given[0] in self._flat and name in _PASSING:
            self._flat[output] = self._flat[given[0]]
        known = next((found for value in given if (found := self._known(value)) is not None), None)
        if known is not None:
            self._pass_on(known, name, output, args, given)
        elif name in ("linear", "conv2d"):
            return
        elif name == "add":
            self._note_added(output, given)
        else:
            fact = next(
                (self._fact(value) for value in given if self._fact(value) != _Fact()), _Fact()
            )
            if fact.of_parameter and name not in _LAYOUT:
                return
            if fact.of_parameter or fact.of_product or fact.visible is not None:
                visible = None if fact.visible is None else _like(fact.visible, output, name)
                self._facts[output] = fact._replace(visible=visible)

    def _pass_on(
        self, known: _Weights, name: str, output: Tensor, args: tuple, given: list[Tensor]
    ) -> None:
        source = next(value for value in given if self._known(value) is known)
        if source is not args[0] and name != "mul":
            return
        known = known._replace(softmax=source.detach() if known.softmax is None else known.softmax)
        if name == "pad" or (known.banded and name in _BAND):
            self._weights[output] = known._replace(banded=True)
        elif name in _PASSING:
            self._weights[output] = known
        elif name in _MIXING and known.factor is None and known.cut == (0, 0):
            self._weights[output] = known._replace(mixed=True)
        elif (
            name == "getitem"
            and (cut := _columns_cut(args[1], source)) is not None
            and known.cut == (0, 0)
        ):
            self._weights[output] = known._replace(cut=cut)
        elif name == "mul" and known.factor is None:
            factor = next((value for value in args if value is not source), None)
            # It must scale all weights of a query alike.
            if isinstance(factor, int | float) or (
                isinstance(factor, Tensor)
                and factor.ndim <= output.ndim
                and (factor.ndim == 0 or factor.shape[-1] == 1)
            ):
                self._weights[output] = known._replace(factor=factor)

    def _note_added(self, output: Tensor, given: list[Tensor]) -> None:
        """A sum: of scores and a mask, perhaps."""
        facts = [self._fact(value) for value in given]
        visible = None
        if output.ndim >= 3:
            for value, fact in zip(given, facts, strict=True):
                is_candidate = value.shape != output.shape or output.ndim > 3
                left = (
                    fact.visible
                    if fact.visible is not None
                    else left_by(value.detach())
                    if is_candidate
                    else None
                )
                if left is not None:
                    visible = left.expand(output.shape) if visible is None else visible & left
        fact = _Fact(
            any(each.of_product for each in facts),
            any(each.of_attention for each in facts),
            visible=visible,
        )
        if fact.of_product or visible is not None:
            self._facts[output] = fact

    def note_product(self, output: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Of two activations: scores, or what keys and values make together."""
        operands = [value for value in _flat(args, kwargs) if isinstance(value, Tensor)]
        if (
            len(operands) == 2
            and operands[0] in self._flat
            and not self._fact(operands[1]).of_parameter
        ):
            self._elsewhere.append(self._flat[operands[0]])
        if len(operands) > 1 and all(
            value.ndim >= 3 and not self._fact(value).of_parameter for value in operands[-2:]
        ):
            added = operands[0] if len(operands) == 3 else None  # of baddbmm: a bias, or a mask
            left = None if added is None else left_by(added.detach())
            self._facts[output] = _Fact(
                True, visible=None if left is None else left.expand(output.shape)
            )

    def is_attention(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
        _, operands = _operands(func, args, kwargs)
        return len(operands) == 2 and self._place(operands) is not None

    def _place(self, operands: list[Any]) -> int | None:
        for place, operand in enumerate(operands):
            known = self._known(operand)
            if known is not None and not known.source.is_settled:
                return place
        return None

    def taken(self, func: Any, output: Tensor, args: tuple, kwargs: dict[str, Any]) -> Found | None:
        """Weights times values, if it is that. The product is kept as it is, to compare with."""
        equation, operands = _operands(func, args, kwargs)
        place = self._place(operands)
        assert place is not None
        used, values = operands[place], operands[1 - place]
        known = self._weights[used]
        if isinstance(values, nn.Parameter) or not isinstance(values, Tensor):
            return None
        if known.banded:
            return self._band(known, used.detach(), values.detach(), output)
        rule = (
            _einsum_rule(equation, used, values, place)
            if equation
            else _matmul_rule(used, values, place)
        )
        if rule is None or (known.mixed and not _is_mixture(used, known.softmax)):
            return None
        known.source.is_settled = True
        context = self._fact(values)
        self._facts[output] = _Fact(of_product=True, of_attention=True)
        if context.of_product and not (context.of_attention and known.source.of_product):
            return Found((), (0, 0, 0), None)
        *sizes, n_queries, n_keys = (used.shape[axis] for axis in rule.order)
        return Found(
            tuple(sizes),
            (n_queries, n_keys, rule.width(values)),
            lambda axes: _call(known, used.detach(), values.detach(), output.detach(), rule, axes),
        )

    def _band(self, known: _Weights, used: Tensor, values: Tensor, output: Tensor) -> Found | None:
        softmax, scores = known.softmax, known.scores
        sizes = None if softmax is None else band_sizes(softmax, used, values)
        if sizes is None or softmax is None:
            return None
        known.source.is_settled = True
        self._facts[output] = _Fact(of_product=True, of_attention=True)
        tokens = sizes[2], sizes[2], values.shape[-1]
        return Found(
            sizes[:2], tokens, lambda axes: of_band(softmax, scores, used, values, output.detach())
        )


def _call(
    known: _Weights, used: Tensor, values: Tensor, output: Tensor, rule: _Rule, axes: Axes
) -> AttentionCall:
    """Weights that the model has made itself, with sinks after the keys."""
    softmax = used if known.softmax is None else known.softmax
    shape = (
        *used.shape[:-1],
        softmax.shape[-1],
    )  # some fold sequences and heads on the way to the product
    before, after = known.cut

    def ordered(tensor: Tensor) -> Tensor:
        """(sequence, head, query, key), sinks last."""
        whole = tensor.expand(softmax.shape).reshape(shape)
        kept = slice(before, whole.shape[-1] - after)
        sinks = [whole[..., :before], whole[..., kept.stop :]]
        parts = torch.cat([whole[..., kept], *sinks], dim=-1) if before or after else whole
        return axes.of(parts.permute(rule.order))

    def reproduced(start: int, stop: int, dtype: torch.dtype) -> float:
        """All rows at once, of the first block only: the model holds them all as well."""
        if start > 0:
            return 0.0
        whole = softmax.to(dtype) if known.factor is None else softmax.to(dtype) * known.factor
        weights = (
            used.to(dtype) if known.mixed else whole.reshape(shape)[..., before : shape[-1] - after]
        )
        return relative_error(torch.einsum(rule.equation, weights, values.to(dtype)), output)

    weights = ordered(softmax)
    call = replace(
        given_weights("softmax", weights),
        reproduced=reproduced,
        dtype=output.dtype,
        n_null=before + after,
    )
    call = replace(call, n_keys=call.n_keys - call.n_null)
    if known.scores is None:
        return call
    scores, left = ordered(known.scores), None if known.visible is None else ordered(known.visible)

    def visible(start: int, stop: int) -> Tensor:
        rows = ~(scores[:, :, start:stop] <= MASKED)  # NaN is visible
        return rows if left is None else rows & left[:, :, start:stop]

    return replace(
        call, visible=visible, scores=lambda start, stop, dtype: scores[:, :, start:stop].to(dtype)
    )


def _is_mixture(used: Tensor, softmax: Tensor | None) -> bool:
    """Whether each used map (sequence, head, query, key) is a sum of the heads' softmaxes, with the
    same factors everywhere.
    """
    if softmax is None or used.ndim != 4 or used.shape != softmax.shape:
        return False
    heads, mixed = (part.detach().double().transpose(0, 1).flatten(1).T for part in (softmax, used))
    heads = torch.cat([heads, torch.ones_like(heads[:, :1])], dim=1)
    left = heads @ torch.linalg.lstsq(heads, mixed, driver="gelsd").solution - mixed
    return bool(left.abs().max() <= _MIXED * mixed.abs().max())


class _Rule(NamedTuple):
    """How weights stand in a product: the order of their axes that puts queries and keys last, and
    an equation for the whole.
    """

    order: tuple[int, ...]
    equation: str  # of einsum: weights, values -> output

    def width(self, values: Tensor) -> int:
        """Of one value: the axes that weights do not have."""
        own, _, other = self.equation.partition("->")[0].partition(",")
        if other.startswith("..."):
            return values.shape[-1]
        return math.prod(
            size for letter, size in zip(other, values.shape, strict=True) if letter not in own
        )


def _matmul_rule(weights: Tensor, values: Tensor, place: int) -> _Rule | None:
    """Weights on the left, as many axes on the right: with fewer it is a layer, not values of each
    sequence.
    """
    if place != 0 or values.ndim != weights.ndim:
        return None
    return _Rule(tuple(range(weights.ndim)), "...qk,...kd->...qd")


def _einsum_rule(equation: str, weights: Tensor, values: Tensor, place: int) -> _Rule | None:
    """Keys are the last axis and summed over; queries are in the result but not in the values.
    Heads may be missing in the values too, where all share them: then queries are the axis of as
    many places as there are keys, else the one next to the keys.
    """
    plain = equation.replace(" ", "")
    n_named = len(plain.partition("->")[0].split(",")[place].replace("...", ""))
    unused = [letter for letter in ascii_letters if letter not in plain]
    inputs, _, result = plain.replace("...", "".join(unused[: weights.ndim - n_named])).partition(
        "->"
    )
    parts = inputs.split(",")
    if len(parts) != 2 or not result or len(parts[1 - place]) != values.ndim:
        return None
    own, other = parts[place], parts[1 - place]
    keys = [letter for letter in own if letter in other and letter not in result]
    queries = [letter for letter in own if letter in result and letter not in other]
    if keys != [own[-1]] or not queries or values.ndim < 3:
        return None
    sizes = dict(zip(own, weights.shape, strict=True))
    alike = [letter for letter in queries if sizes[letter] == sizes[keys[0]]]
    query = alike[0] if len(alike) == 1 else queries[-1]
    rest = [letter for letter in own if letter not in (keys[0], query)]
    return _Rule(
        tuple(own.index(letter) for letter in (*rest, query, keys[0])), f"{own},{other}->{result}"
    )


def _operands(func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[str, list[Any]]:
    """Equation of an einsum, and what is multiplied."""
    if func is torch.einsum:
        return (
            (args[0], list(args[1] if isinstance(args[1], list | tuple) else args[1:]))
            if isinstance(args[0], str)
            else ("", [])
        )
    return "", [*args, *kwargs.values()]


@cache
def _plain_name(func: Any) -> str:
    """`add` for `add`, `add_`, `__add__`, `__radd__` and `__iadd__`; `mT` for the property."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", "")
    name = name.strip("_")
    return _SAME.get(name, name)


def _flat(args: Any, kwargs: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        found += list(value) if isinstance(value, list | tuple) else [value]
    return found


def _like(visible: Tensor, output: Tensor, name: str) -> Tensor | None:
    """What is visible, after scores were laid out anew; None where that cannot be followed."""
    if visible.shape == output.shape:
        return visible
    if (
        name in ("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze")
        and visible.numel() == output.numel()
    ):
        return visible.reshape(output.shape)
    if name == "expand":
        return visible.expand(output.shape)
    if (
        name == "cat"
        and visible.shape[:-1] == output.shape[:-1]
        and visible.shape[-1] < output.shape[-1]
    ):
        return F.pad(visible, (0, output.shape[-1] - visible.shape[-1]), value=True)  # sinks
    return None


def _columns_cut(index: Any, source: Tensor) -> tuple[int, int] | None:
    """How many columns a slice of the last axis takes off at its ends, if it does nothing else and
    they are few.
    """
    parts = index if isinstance(index, tuple) else (index,)
    whole = [part is Ellipsis or part == slice(None) for part in parts[:-1]]
    is_last = parts[:1] == (Ellipsis,) or len(parts) == source.ndim
    if (
        not is_last
        or not all(whole)
        or not isinstance(parts[-1], slice)
        or parts[-1].step not in (None, 1)
    ):
        return None
    start, stop, _ = parts[-1].indices(source.shape[-1])
    cut = start, source.shape[-1] - stop
    return cut if sum(cut) <= min(_MOST_NULL, source.shape[-1] - 1) else None
