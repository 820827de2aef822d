"""Is what is seen what the model does? Asked once, before anything is recorded, and answered with a number.

Three comparisons of the first look, each independent of the others: statistics from float32 weights against the same from float64;
weights times values against what the model's own kernel gave out; and, where a Transformers model can give its eager weights,
statistics from those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import InputError
from saccade.observe.attention_statistics import ProbeTokens, blocks, largest_difference, statistics
from saccade.observe.capture import AttentionCall, Capture, given_weights
from saccade.observe.probe import Probe
from saccade.observe.undisturbed import undisturbed

WORST = 1e-3  # beyond it nothing is recorded
_MOST_ENTRIES = 2**22  # of all maps together; beyond it the model is not asked for them, since it keeps them all at once


class UnfaithfulError(RuntimeError):
    """What would be recorded is not what the model computes, or nothing can be seen at all."""


@dataclass(frozen=True)
class Check:
    """Largest errors of the first look; None where a comparison was not possible."""

    n_calls: int
    statistics: float  # float32 against float64, absolute
    output: float  # weights times values against the kernel's output, over its largest entry, less what its own type rounds away
    eager: float | None  # statistics against those of the model's own eager weights, absolute

    @property
    def worst(self) -> float:
        return max(self.statistics, self.output, self.eager or 0.0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def self_check(model: nn.Module, probe: Probe, tokens: ProbeTokens | None) -> Check:
    """The comparisons on `model`; an `UnfaithfulError` if nothing is seen or an error is above `WORST`."""
    seen: list[dict[str, Tensor]] = []
    errors: list[tuple[float, float]] = []
    sizes: list[int] = []

    def listener(call: AttentionCall) -> None:
        seen.append(statistics(call, tokens))
        sizes.append(call.n_batch * call.n_heads * call.n_queries * call.n_keys)
        exact = statistics(call, tokens, torch.float64)
        made = max(call.reproduced(start, start + weights.shape[2]) for start, weights in blocks(call, torch.float32))
        errors.append((largest_difference(seen[-1], exact), _beyond(made, 4 * torch.finfo(call.dtype).eps)))

    with undisturbed(model), Capture(listener, probe.n_batch) as capture:
        probe.run(model)
    if not seen:
        hint = " What was seen: " + "; ".join(capture.unseen) + "." if capture.unseen else ""
        raise UnfaithfulError(
            "no attention was seen in this model: it calls none of scaled_dot_product_attention, flex_attention, "
            "multi_head_attention_forward, nor a softmax over keys followed by a product with values." + hint
        )
    check = Check(
        len(seen),
        max(e[0] for e in errors),
        max(e[1] for e in errors),
        _against_eager(model, probe, tokens, seen, sum(sizes) > _MOST_ENTRIES),
    )
    if not check.worst <= WORST:
        raise UnfaithfulError(
            f"what is seen of this model's attention differs from what it computes by {check.worst:.2g}, above {WORST:g} ("
            f"statistics {check.statistics:.2g}, output {check.output:.2g}, eager {check.eager}); nothing was recorded."
        )
    return check


def tried(model: nn.Module, probe: Probe) -> None:
    """Run the probe without looking: what the model raises is about the probe then, and is said so."""
    try:
        with undisturbed(model):
            probe.run(model)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or "it gave no reason"
        raise InputError(f"the model cannot be called with this probe: {type(error).__name__}, {reason}.") from error


def check_folding(model: nn.Module, probe: Probe) -> None:
    """Where sequences and heads share an axis, sequences come first: the first sequence looks in the batch as it does alone."""
    whole, alone = (_folded_rows(model, batch) for batch in (probe, probe.first()))
    for together, single in zip(whole, alone, strict=False):
        if together is None or single is None or single.numel() * probe.n_batch != together.numel():
            continue
        rows, own = together.flatten(0, 1), single.flatten(0, 1)
        assumed, other = ((part - own).abs().max() for part in (rows[: len(own)], rows[:: probe.n_batch]))
        if assumed > 10 * other + 1e-6:  # float32 rounds at 1e-7; heads that are all alike can be in any order
            raise UnfaithfulError(
                "this model folds heads and sequences into one axis with heads first, which would be mixed up; "
                "give a probe of one sequence."
            )


def _folded_rows(model: nn.Module, probe: Probe) -> list[Tensor | None]:
    """Weights of the last query (sequence, head, 1, key) in each call whose sequences and heads share an axis; None for others."""
    found: list[Tensor | None] = []

    def listener(call: AttentionCall) -> None:
        found.append(call.rows(call.n_queries - 1, call.n_queries, torch.float32) if call.folded else None)

    with undisturbed(model), Capture(listener, probe.n_batch):
        probe.run(model)
    return found


def _beyond(error: float, rounding: float) -> float:
    """What is left of an error when what the kernel's own type rounds away is taken off; NaN is infinite."""
    return math.inf if math.isnan(error) else max(0.0, error - rounding)


def _against_eager(
    model: nn.Module, probe: Probe, tokens: ProbeTokens | None, seen: list[dict[str, Tensor]], too_large: bool
) -> float | None:
    """Statistics from the weights that a Transformers model returns itself; None for models that cannot, or not for this probe."""
    if not hasattr(model, "set_attn_implementation") or not hasattr(model, "config") or too_large:
        return None
    try:
        with undisturbed(model), _eager(model):
            weights = _returned_weights(probe.run(model, output_attentions=True))
    except (TypeError, ValueError, NotImplementedError):
        return None
    if len(weights) != len(seen):
        return None
    return max(
        largest_difference(ours, statistics(given_weights("eager", w), tokens)) for ours, w in zip(seen, weights, strict=True)
    )


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _returned_weights(answer: Any) -> list[Tensor]:
    """In the order in which they were computed: an encoder's, then a decoder's own and cross attention in turn."""
    if getattr(answer, "attentions", None) is not None:
        return list(answer.attentions)
    own, cross, encoder = (getattr(answer, f"{part}_attentions", None) or () for part in ("decoder", "cross", "encoder"))
    return [*encoder, *(w for pair in zip(own, cross, strict=True) for w in pair)]
