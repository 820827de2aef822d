r"""Capture attention as a PyTorch model computes it, without hooks or edits, and with its own
kernels.

A forward pass under `Capture` goes on as usual; every function it calls is looked at on the way
(`torch.overrides`), and those that are attention are handed to a listener, one at a time and in the
order of the model:

| what the model calls                     | what is seen                                                             |
|------------------------------------------|--------------------------------------------------------------------------|
| `F.scaled_dot_product_attention`         | queries and keys; weights are computed again, some query rows at a time  |
| `flex_attention`                         | the same, with its score and mask functions                              |
| `F.multi_head_attention_forward`         | the same function, asked for the weights of some query rows              |
| softmax over keys, then a matrix product | the softmax itself (`softmax_trail.py`)                                  |
| `saccade.mark_attention(weights)`             | the weights that the author of the model says are attention              |

What might have been meant as attention and cannot be read is listed in `Capture.unseen`.
Not here: what is measured of the weights (`attention_statistics.py`), when (`recorder.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex
from torch.overrides import TorchFunctionMode

from saccade.watching.attention_call import AttentionCall, given_weights
from saccade.watching.free_memory import give_back
from saccade.watching.kernels import of_dot_product, of_flex, of_multi_head
from saccade.watching.layout import Layout, Untold
from saccade.watching.mark_attention import listening
from saccade.watching.softmax_trail import PRODUCTS, SOFTMAXES, SoftmaxTrail

_LARGE = 2**22  # bytes of weights of a call
_KERNELS = {F.scaled_dot_product_attention, F.multi_head_attention_forward, flex.flex_attention_hop}


class Capture(TorchFunctionMode):
    """Hands every attention call of the forward passes of `model` inside its block to `listener`;
    `layout` tells heads from sequences and windows.
    """

    def __init__(
        self,
        listener: Callable[[AttentionCall], None],
        model: nn.Module,
        layout: Layout | None = None,
    ) -> None:
        super().__init__()
        self.unseen: list[str] = []
        self.approximate: set[str] = (
            set()
        )  # layers whose softmaxes are not weights of queries on keys
        self.sizes: dict[str, tuple[int, ...]] = {}  # axes before tokens, by layer
        self.widths: dict[str, int] = {}  # of values

        def listen(call: AttentionCall) -> None:
            listener(call)
            if (
                call.n_bytes >= _LARGE
            ):  # a quarter of the time of a small look, which leaves no holes to speak of
                give_back()

        self._listener = torch.compiler.disable(
            listen
        )  # flex_attention is called from inside a compiled frame
        self._layout = Layout() if layout is None else layout
        self._names = LayerNames(model)
        self._trail = SoftmaxTrail()
        self._told = listening(self._note_told)

    def __enter__(self) -> Capture:
        self._told.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        super().__exit__(*details)
        self._told.__exit__(*details)
        self.unseen += self._trail.lost()
        self.unseen = list(dict.fromkeys(self.unseen))

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # PyTorch has switched the mode off in here, so whatever a handler calls is not seen again.
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if func in _KERNELS:
            self._note(
                lambda layer, owner: self._of_kernel(layer, owner, func, output, args, kwargs)
            )
        elif func in SOFTMAXES:
            self._trail.note_softmax(output, args, kwargs)
        elif func in PRODUCTS:
            if self._trail.is_attention(func, args, kwargs):
                self._note(
                    lambda layer, owner: self._of_product(layer, owner, func, output, args, kwargs)
                )
            else:
                self._trail.note_product(output, args, kwargs)
        else:
            self._trail.follow(func, output, args, kwargs)
        return output

    def _note(self, read: Callable[[str, nn.Module | None], AttentionCall | None]) -> None:
        """Hand a call over, if it can be read; if not, it is unseen, and training is not what ends
        of it.
        """
        layer, owner = self._names.running()
        try:
            call = read(layer, owner)
        except Untold as reason:
            self.unseen.append(str(reason))
        except Exception as error:
            self.unseen.append(
                f"attention in `{layer}` that cannot be read ({type(error).__name__}: {' '.join(str(error).split())})"
            )
        else:
            if call is not None:
                with (
                    torch.autocast("cpu", enabled=False),
                    torch.autocast("cuda", enabled=False),
                ):  # the user's, for the model alone
                    self._listener(replace(call, layer=layer))

    def _of_kernel(
        self, layer: str, owner: Any, func: Any, output: Any, args: tuple, kwargs: dict[str, Any]
    ) -> AttentionCall:
        first = next(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        if torch._C._functorch.is_batchedtensor(first):
            raise Untold(f"attention in `{layer}`, which runs inside `torch.vmap`")
        if func is F.multi_head_attention_forward:
            return of_multi_head(output, args, kwargs)
        if func is flex.flex_attention_hop:
            return of_flex(output, *args)
        named = ("query", "key", "value")
        query, key, value = (
            args[place] if len(args) > place else kwargs[name] for place, name in enumerate(named)
        )
        self.sizes[layer], self.widths[layer] = tuple(query.shape[:-2]), value.shape[-1]
        self._layout.check_tokens(layer, owner, query.shape[-2], key.shape[-2], value.shape[-1])
        mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
        axes = self._layout.axes(layer, owner, self.sizes[layer])
        return of_dot_product(axes, output, *args, **kwargs, left=self._trail.left_by(mask))

    def _of_product(
        self, layer: str, owner: Any, func: Any, output: Tensor, args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        found = self._trail.taken(func, output, args, kwargs)
        if found is None:
            return None
        if found.call is None:
            self.approximate.add(layer.partition("#")[0])
            return None
        self.sizes[layer], self.widths[layer] = found.sizes, found.tokens[2]
        self._layout.check_tokens(layer, owner, *found.tokens)
        return found.call(self._layout.axes(layer, owner, found.sizes))

    def _note_told(self, weights: Tensor, visible: Tensor | None) -> None:
        """Weights that the model's author hands over; the softmax they come from is not handed over
        a second time.
        """
        self._trail.settle(weights)

        def read(layer: str, owner: nn.Module | None) -> AttentionCall:
            call = given_weights("told", weights.detach())
            return (
                call
                if visible is None
                else replace(call, visible=_rows_of(visible.expand_as(weights)))
            )

        self._note(read)


def _rows_of(visible: Tensor) -> Callable[[int, int], Tensor]:
    return lambda start, stop: visible[:, :, start:stop]


class LayerNames:
    """Names of the modules that compute attention, while they do it; `#2`, ... for a further call
    of the same one.
    """

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}
        self._times: dict[str, int] = {}

    def running(self) -> tuple[str, nn.Module | None]:
        """The innermost module of the model whose code is running, and its name."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            owner = frame.f_locals.get("self")
            if isinstance(owner, nn.Module) and id(owner) in self._names:
                return self._numbered(self._names[id(owner)]), owner
            frame = frame.f_back
        return self._numbered("?"), None

    def _numbered(self, name: str) -> str:
        self._times[name] = self._times.get(name, 0) + 1
        return name if self._times[name] == 1 else f"{name}#{self._times[name]}"
