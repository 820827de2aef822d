"""Is what is seen what the model does? Asked once, before anything is recorded, and answered with a
number.

Three comparisons of the first look, each independent of the others: statistics from float32 weights
against the same from float64; weights times values against what the model's own kernel gave out;
and, where a Transformers model can give its eager weights, statistics from those. The second
decides: weights that give the kernel's output are those it used. The third decides only where the
second cannot, and is asked in float32 only: in narrower types the eager kernel rounds its weights
and the fused one does not.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import InputError
from saccade.watching.attention_call import AttentionCall, given_weights
from saccade.watching.attention_statistics import largest_difference, row_blocks, statistics
from saccade.watching.capture import Capture
from saccade.watching.layout import Layout
from saccade.watching.memories import hint
from saccade.watching.probe import LayerTokens, Probe
from saccade.watching.undisturbed import undisturbed

WORST = 1e-3  # beyond it nothing is recorded
_MOST_ENTRIES = (
    2**22
)  # of all maps together; beyond it the model is not asked for them, since it keeps them all at once


class UnfaithfulError(RuntimeError):
    """What would be recorded is not what the model computes, or nothing can be seen at all."""


@dataclass(frozen=True)
class Check:
    """Largest errors of the first look; None where a comparison was not possible."""

    n_calls: int
    statistics: float  # float32 against float64, absolute
    output: (
        float | None
    )  # weights times values against the kernel's output, over its largest entry, less what its type rounds away
    eager: float | None  # statistics against those of the model's own eager weights, absolute

    @property
    def worst(self) -> float:
        return max(self.statistics, (self.eager or 0.0) if self.output is None else self.output)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def self_check(model: nn.Module, probe: Probe, tokens: LayerTokens, layout: Layout) -> Check:
    """The comparisons on `model`; an `UnfaithfulError` if nothing is seen or an error is above
    `WORST`.

    The whole probe is compared with the kernels; its first sequence in float64 and with eager
    weights, which a model keeps all at once.
    """
    alone, tokens_alone = probe.first(), tokens.first()
    first = _compared(model, alone, tokens_alone, layout, exact=True)
    whole = first if probe.n_batch == 1 else _compared(model, probe, tokens, layout, exact=False)
    _check_layout(whole, first)
    modules = dict(model.named_modules())
    half = {
        layer: layout.axes(layer, modules.get(layer.partition("#")[0]), sizes).n_heads
        for layer, sizes in layout.short.items()
        if layer in first.heads
    }
    for what, heads in (("number of sequences", whole.heads), ("length of sequences", half)):
        for layer, number in heads.items():
            if first.heads.get(layer, number) != number:
                raise UnfaithfulError(
                    f"the number of heads of `{layer}` changes with the {what}, from {first.heads[layer]} to {number}: windows or "
                    "sequences are among them. Give its module an attribute `num_heads`."
                )
    check = Check(
        len(whole.seen),
        max(whole.statistics, first.statistics),
        None if whole.output is None or first.output is None else max(whole.output, first.output),
        _against_eager(model, alone, tokens_alone, first),
    )
    if check.output is not None and math.isinf(check.output):
        raise UnfaithfulError(
            "this model's attention gives values that are not finite numbers; nothing was recorded."
        )
    if not check.worst <= WORST:
        raise UnfaithfulError(
            f"the attention that Saccade sees differs from what the model computes by {check.worst:.2g}, above {WORST:g} ("
            f"statistics {check.statistics:.2g}, output {check.output}, eager {check.eager}); nothing was recorded."
        )
    return check


@dataclass
class _Compared:
    """One run of a probe, compared. One entry in each list for each attention call."""

    n_batch: int
    seen: list[dict[str, Tensor]] = field(default_factory=list)  # statistics
    layers: list[str] = field(default_factory=list)
    last_rows: list[Tensor] = field(
        default_factory=list
    )  # weights of the last query (sequence, head, 1, key)
    sizes: list[tuple[int, int]] = field(
        default_factory=list
    )  # number of queries, of entries of the whole map
    heads: dict[str, int] = field(default_factory=dict)  # how many, by layer
    is_narrow: bool = False  # whether some call is in a type narrower than float32
    statistics: float = 0.0
    output: float | None = (
        0.0  # None: the model drops some of its weights at random, and which cannot be known
    )


def _compared(
    model: nn.Module, probe: Probe, tokens: LayerTokens, layout: Layout, *, exact: bool
) -> _Compared:
    """`exact` computes what it compares with in float64; of a whole probe that would take as much
    memory as all the rest.
    """
    found = _Compared(probe.n_batch)

    def listener(call: AttentionCall) -> None:
        known = tokens.of(call.layer, call)
        found.layers.append(call.layer)
        found.heads[call.layer] = call.n_heads
        found.seen.append(statistics(call, known))
        found.last_rows.append(call.rows(call.n_queries - 1, call.n_queries, torch.float32))
        found.sizes.append(
            (call.n_queries, call.n_batch * call.n_heads * call.n_queries * call.n_keys)
        )
        found.is_narrow |= torch.finfo(call.dtype).eps > torch.finfo(torch.float32).eps
        dtype = torch.float64 if exact else torch.promote_types(call.dtype, torch.float32)
        errors = [call.reproduced(start, stop, dtype) for start, stop in row_blocks(call)]
        # What is left of an error when what the kernel's own type rounds away is taken off; NaN
        # is infinite.
        beyond = [
            (math.inf if math.isnan(error) else max(0.0, error - (4 * torch.finfo(call.dtype).eps)))
            for error in errors
            if error is not None
        ]
        found.output = (
            None
            if found.output is None or len(beyond) < len(errors)
            else max(found.output, *beyond)
        )
        if exact:
            exactly = statistics(call, known, dtype)
            found.statistics = max(
                found.statistics,
                largest_difference(_of_weights(found.seen[-1]), _of_weights(exactly)),
            )

    with undisturbed(model), Capture(listener, model, layout) as capture:
        probe.run(model)
    if all(layer.partition("#")[0] in capture.approximate for layer in found.layers):
        hint = " What was seen: " + "; ".join(capture.unseen) + "." if capture.unseen else ""
        raise UnfaithfulError(
            "no attention was seen in this model: it calls none of scaled_dot_product_attention, flex_attention, "
            "multi_head_attention_forward, nor a softmax over keys followed by a product with values. If you write its code, call "
            "`saccade.mark_attention(weights)` in its forward pass." + hint
        )
    return found


def layout_of(model: nn.Module, probe: Probe) -> Layout:
    """Axes of the model's attention calls on one sequence, and on half of its tokens if there can
    be such a probe.
    """
    alone, half = _passed(model, probe.first()), probe.first().shortened()
    try:
        short = None if half is None else _passed(model, half)
    except Exception:  # a model may take sequences of one length only
        short = None
    if short is None:
        return Layout(alone.sizes)
    changed = {
        layer for layer, width in alone.widths.items() if short.widths.get(layer, width) != width
    }
    return Layout(alone.sizes, short.sizes, frozenset(changed))


def _passed(model: nn.Module, probe: Probe) -> Capture:
    with undisturbed(model), Capture(lambda call: None, model) as capture:
        probe.run(model)
    return capture


def tried(model: nn.Module, probe: Probe) -> None:
    """Run the probe without looking: what the model raises is about the probe then, and is said so."""
    try:
        with undisturbed(model):
            probe.run(model)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or "it gave no reason"
        told = (
            hint(model) if isinstance(error, RuntimeError) else ""
        )  # shapes that do not fit, not names
        raise InputError(
            f"the model cannot be called with this probe: {type(error).__name__}, {reason.rstrip('.')}.{told}"
        ) from error


def _check_layout(whole: _Compared, first: _Compared) -> None:
    """Sequences come before heads, and before positions: the first sequence looks in the batch as
    it does alone.
    """
    for together, single, sizes, own_sizes in zip(
        whole.last_rows, first.last_rows, whole.sizes, first.sizes, strict=False
    ):
        if own_sizes[0] == 1 < sizes[0] and len(single) == len(together) > 1:
            raise InputError(
                "the first axis of the probe holds positions, not sequences; pass `batch_axis=1`."
            )
        is_like = (
            single.numel() * whole.n_batch == together.numel()
            and single.shape[-1] == together.shape[-1]
        )
        if not is_like or whole.n_batch == 1:
            continue
        rows, own = together.flatten(0, 1), single.flatten(0, 1)
        assumed, other = (
            float((part - own).abs().max()) for part in (rows[: len(own)], rows[:: whole.n_batch])
        )
        if (
            assumed > 10 * other + 1e-6
        ):  # float32 rounds at 1e-7; heads that are all alike can be in any order
            raise UnfaithfulError(
                "this model puts heads before sequences, and the two would be mixed up; use a probe of one sequence."
            )


def _against_eager(
    model: nn.Module, probe: Probe, tokens: LayerTokens, first: _Compared
) -> float | None:
    """Statistics from the weights that a Transformers model returns itself; None for models that
    cannot, or not for this probe.
    """
    too_large = sum(entries for _, entries in first.sizes) > _MOST_ENTRIES
    if (
        not hasattr(model, "set_attn_implementation")
        or not hasattr(model, "config")
        or too_large
        or first.is_narrow
    ):
        return None
    kinds: set[str] = set()
    try:
        with undisturbed(model):  # which gives each part its own kernel back
            model.set_attn_implementation("eager")  # type: ignore[operator]
            with Capture(lambda call: kinds.add(call.kind), model):
                weights = returned_weights(probe.run(model, output_attentions=True))
    except Exception:  # a model that cannot give them; whether it runs at all was asked before
        return None
    if (
        kinds != {"softmax"}
        or len(weights) != len(first.seen)
        or not all(map(_are_weights, weights))
    ):
        return None  # the switch took no effect, or other weights came out
    calls = [given_weights("eager", w) for w in weights]
    theirs = [
        statistics(call, tokens.of(layer, call))
        for call, layer in zip(calls, first.layers, strict=True)
    ]
    pairs = [
        (_without_masks(ours), _without_masks(eager))
        for ours, eager in zip(first.seen, theirs, strict=True)
    ]
    if any(_shapes(ours) != _shapes(eager) for ours, eager in pairs):
        return None  # weights of other calls than those that were seen
    return max(largest_difference(ours, eager) for ours, eager in pairs)


def _shapes(found: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in found.items()}


def _are_weights(returned: Any) -> bool:
    """Some models return scores before the softmax under this name, or several tensors."""
    if not isinstance(returned, Tensor) or returned.ndim != 4:
        return False
    total = returned.sum(dim=-1)
    return bool(((total - 1).abs() < 0.01).logical_or(total == 0).all())


def _of_weights(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without the largest logit, which has no scale that an error could be compared with; the
    weights made from it have.
    """
    return {name: value for name, value in found.items() if name != "largest_logit"}


def _without_masks(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without what depends on which keys are visible, or on logits: of eager weights neither is
    known.
    """
    unknown = (
        "relative_entropy",
        "decile_focus",
        "uniform_mass",
        "standard_error",
        "entropy_bound",
        "entropy_slack",
    )
    return {name: value for name, value in _of_weights(found).items() if name not in unknown}


def returned_weights(answer: Any) -> list[Tensor]:
    """In the order in which they were computed: an encoder's, then a decoder's own and cross
    attention in turn.
    """
    if getattr(answer, "attentions", None) is not None:
        return list(answer.attentions)
    own, cross, encoder = (
        list(getattr(answer, f"{part}_attentions", None) or ())
        for part in ("decoder", "cross", "encoder")
    )
    pairs = zip(own, cross, strict=True) if len(own) == len(cross) else [own, cross]
    return [*encoder, *(weights for pair in pairs for weights in pair)]
