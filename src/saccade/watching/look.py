"""One look at a model: everything that is measured of it on the probe, as arrays with named axes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from saccade.watching.attention_call import AttentionCall
from saccade.watching.attention_statistics import ProbeTokens, repeated_statistics, statistics
from saccade.watching.capture import Capture
from saccade.watching.layout import Layout
from saccade.watching.probe import LayerTokens, Probe, RepeatedProbe
from saccade.watching.undisturbed import undisturbed

_NAMED_ATTENTION = re.compile("attention|attn", re.IGNORECASE)
_NAMED = 4  # modules of one class that a message names
ALL_ROWS = 128  # queries of which every row of a map is kept: a text that a page shows word by word
MAP_ROWS = 32  # query rows kept of a longer one: evenly spaced, the last among them


@dataclass
class Look:
    """Statistics of every attention call in the order of the model, and maps of chosen sequences."""

    layers: list[str] = field(
        default_factory=list
    )  # name of the module that computed it, with #2, ... for its further calls
    n_queries: list[int] = field(default_factory=list)
    statistics: list[dict[str, Tensor]] = field(default_factory=list)
    maps: list[Tensor | None] = field(
        default_factory=list
    )  # (sequence, head, map_query, key); None if sequences are folded
    unseen: list[str] = field(default_factory=list)

    @property
    def n_heads(self) -> dict[str, int]:
        """By the module that computed them."""
        return {
            layer.partition("#")[0]: len(told["entropy"])
            for layer, told in zip(self.layers, self.statistics, strict=True)
            if "entropy" in told
        }

    def leave_out(self, approximate: set[str]) -> None:
        """Layers whose softmaxes are no weights of queries on keys."""
        kept = [
            place
            for place, layer in enumerate(self.layers)
            if layer.partition("#")[0] not in approximate
        ]
        for name in ("layers", "n_queries", "statistics", "maps"):
            setattr(self, name, [getattr(self, name)[place] for place in kept])
        self.unseen += [
            f"attention in `{layer}`, which approximates it: no weights of queries on keys exist"
            for layer in sorted(approximate)
        ]

    def arrays(self, layers: list[str]) -> dict[str, np.ndarray]:
        """(layer, head, ...) in the order of `layers`; missing where one has fewer heads or keys
        than another, or was not run.
        """
        at = {layer: index for index, layer in enumerate(self.layers)}
        statistics = [self.statistics[at[layer]] if layer in at else {} for layer in layers]
        maps = [self.maps[at[layer]] if layer in at else None for layer in layers]
        names = dict.fromkeys(name for layer in self.statistics for name in layer)
        found = {name: _stacked([layer.get(name) for layer in statistics]) for name in names}
        if any(layer is not None for layer in maps):
            heads_first = [None if layer is None else layer.transpose(0, 1) for layer in maps]
            found["attention_map"] = _stacked(heads_first).transpose(2, 0, 1, 3, 4)
        return found


def look(
    model: nn.Module,
    probe: Probe,
    tokens: LayerTokens,
    sequences: list[int],
    repeated: RepeatedProbe | None = None,
    layout: Layout | None = None,
) -> Look:
    """Run the probe once, undisturbed, and measure attention as it goes by; then, if there is one,
    the repeated probe.
    """
    found = Look()

    def listener(call: AttentionCall) -> None:
        layer = call.layer
        known = tokens.of(layer, call)
        # Room for what is kept of a call's maps, taken before its blocks come: pieces kept
        # between them would leave holes in memory that no further block fits into, hundreds of
        # megabytes of them.
        kept = (
            torch.zeros(
                len(sequences),
                call.n_heads,
                len(map_rows(call.n_queries)),
                call.n_keys,
                dtype=torch.float32,
                device="cpu",
            )
            if sequences and call.n_batch == probe.n_batch
            else None
        )
        rows = map_rows(call.n_queries)

        def on_block(start: int, weights: Tensor) -> None:
            if kept is not None:
                places = [
                    place
                    for place, row in enumerate(rows)
                    if start <= row < start + weights.shape[2]
                ]
                chosen = weights[sequences][
                    :, :, [rows[place] - start for place in places], : call.n_keys
                ]
                kept[:, :, places, : chosen.shape[-1]] = chosen.to(kept)

        found.layers.append(layer)
        found.n_queries.append(call.n_queries)
        measured = statistics(call, known, on_block=on_block)
        is_told = tokens.tells_padding(layer, call)
        found.statistics.append(
            {name: value.cpu() for name, value in measured.items()} if is_told else {}
        )
        if not is_told:
            found.unseen.append(
                f"numbers of `{layer}`, in which padding cannot be distinguished from tokens; give a probe without padding"
            )
        found.maps.append(
            None if kept is None else _without_padding(kept, call, known, sequences, rows)
        )

    with undisturbed(model), Capture(listener, model, layout) as capture:
        probe.run(model)
    found.leave_out(capture.approximate)
    found.unseen += [*capture.unseen, *_blind_spots(model, found.layers)]
    if repeated is not None:
        for layer, more in _on_repeated(model, repeated, layout).items():
            if layer in found.layers:
                own = found.statistics[found.layers.index(layer)]
                for name, values in more.items():  # what only the other pass knows is added
                    known = own.get(name)
                    own[name] = (
                        values
                        if known is None or known.shape != values.shape
                        else torch.where(known.isnan(), values, known)
                    )
    return found


def _on_repeated(
    model: nn.Module, repeated: RepeatedProbe, layout: Layout | None
) -> dict[str, dict[str, Tensor]]:
    """Statistics by layer, of those that attend from every position to every one."""
    found: dict[str, dict[str, Tensor]] = {}
    probe = repeated.probe

    def listener(call: AttentionCall) -> None:
        if (call.n_batch, call.n_queries, call.n_keys) == (
            probe.n_batch,
            probe.n_positions,
            probe.n_positions,
        ):
            made = repeated_statistics(call, repeated.periods)
            found[call.layer] = {name: value.cpu() for name, value in made.items()}

    with undisturbed(model), Capture(listener, model, layout):
        probe.run(model)
    return found


def _blind_spots(model: nn.Module, layers: list[str]) -> list[str]:
    """Modules that are called attention, or are of the same class as one that was seen, and in,
    above and below which none was.
    """
    layers = [layer.partition("#")[0] for layer in layers]
    modules = dict(model.named_modules())
    seen = {type(modules[layer]) for layer in layers if layer in modules}

    def is_seen(name: str) -> bool:
        inside = f"{name}." if name else ""  # the model itself has no name, and holds all
        return any(
            layer == name or layer.startswith(inside) or name.startswith(f"{layer}.")
            for layer in layers
        )

    suspects: dict[str, list[str]] = {}
    for name, module in modules.items():
        kind = type(module)
        beside = name.rpartition(".")[0]
        is_called = _NAMED_ATTENTION.search(kind.__name__) and _may_attend(
            module, bool(beside) and is_seen(beside)
        )
        if (kind in seen or is_called) and not is_seen(name):
            suspects.setdefault(kind.__name__, []).append(name)
    return [
        f"attention in {listed(names)}, of class {kind}, which was not run or cannot be read"
        for kind, names in suspects.items()
    ]


def _may_attend(module: nn.Module, is_beside_attention: bool) -> bool:
    """Whether a module that is called attention may have some of its own: not without a forward
    pass, nor, beside attention that was seen, if it has one matrix alone, which makes no more than
    it is given: what projects the answer.
    """
    matrices = [parameter for parameter in module.parameters() if parameter.ndim > 1]
    projects = len(matrices) == 1 and matrices[0].shape[0] <= matrices[0].shape[-1]
    return type(module).forward is not nn.Module.forward and not (projects and is_beside_attention)


def listed(names: list[str]) -> str:
    """The first few of them."""
    shown = ", ".join(f"`{name}`" for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def map_rows(n_queries: int) -> list[int]:
    """Query rows of a map that are kept."""
    n_rows = n_queries if n_queries <= ALL_ROWS else MAP_ROWS
    return np.linspace(0, n_queries - 1, n_rows).round().astype(int).tolist()


def _without_padding(
    maps: Tensor,
    call: AttentionCall,
    tokens: ProbeTokens | None,
    sequences: list[int],
    rows: list[int],
) -> Tensor:
    """Maps (sequence, head, query, key) with the rows of padding missing."""
    if tokens is None or not tokens.fits(call) or not tokens.is_square(call):
        return maps
    is_token = tokens.is_token[sequences][:, rows].to(maps.device)
    return maps.masked_fill_(~is_token[:, None, :, None], torch.nan)


def _stacked(parts: list[Tensor | None]) -> np.ndarray:
    """Arrays of the same number of axes, stacked along a new first one, filled up with NaN to the
    largest.
    """
    known = [part for part in parts if part is not None]
    shape = [max(sizes) for sizes in zip(*(part.shape for part in known), strict=True)]
    whole = np.full((len(parts), *shape), np.nan, dtype=np.float32)
    for index, part in enumerate(parts):
        if part is not None:
            places: Any = (index, *(slice(size) for size in part.shape))
            whole[places] = part.numpy()
    return whole
