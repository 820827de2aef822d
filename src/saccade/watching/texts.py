"""Which text a layer's attention runs over, and what of it is padding: told by what attention does,
never by names.

Texts: a second text without its last position changes the number of queries or keys that are its
own. Padding: a position that no query attends to, its own among them. A model may get its mask
under any name, or make it from the ids. A mask that leaves out every token's own position is
another thing: there seen positions do not see themselves.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from saccade.watching.attention_call import AttentionCall
from saccade.watching.attention_statistics import row_blocks
from saccade.watching.capture import Capture
from saccade.watching.layout import Layout
from saccade.watching.probe import MAIN, SECOND, LayerTokens, Probe
from saccade.watching.undisturbed import undisturbed


def texts_of(model: nn.Module, probe: Probe, layout: Layout) -> dict[str, tuple[str, str]]:
    """The texts of queries and keys by layer, of a probe whose two texts are of one length; none if
    that cannot be told.
    """
    cut = probe.with_shorter_second()
    lengths = {probe.n_positions: MAIN, probe.n_positions - 1: SECOND}
    found: dict[str, tuple[str, str]] = {}

    def listener(call: AttentionCall) -> None:
        found[call.layer] = lengths.get(call.n_queries, ""), lengths.get(call.n_keys, "")

    try:
        if cut is not None:
            with undisturbed(model), Capture(listener, model, layout):
                cut.run(model)
    except Exception:  # a model may take sequences of one length only
        return {}
    return found


def attended(
    model: nn.Module, probe: Probe, tokens: LayerTokens, layout: Layout
) -> dict[str, Tensor]:
    """Positions that are not padding (sequence, position), of each text that has some; by the names
    of layers, of all that run over neither text, if one of them has some.
    """
    seen: dict[str, Tensor] = {}

    def listener(call: AttentionCall) -> None:
        known = tokens.of(call.layer, call)
        text = known if known is not None and known.fits(call) else None
        found = _seen(call) if text is None or text.is_square(call) else None
        if found is not None:
            name = call.layer if text is None else tokens.names(call.layer, call)[0]
            seen[name] = seen[name] | found if name in seen else found

    with undisturbed(model), Capture(listener, model, layout):
        probe.run(model)
    padded = {name for name, positions in seen.items() if not bool(positions.all())}
    has_other = bool(padded - {MAIN, SECOND})
    return {
        name: each
        for name, each in seen.items()
        if name in padded or (has_other and name not in (MAIN, SECOND))
    }


def _seen(call: AttentionCall) -> Tensor | None:
    """Positions that some query attends to (sequence, position), on the processor; None if that
    does not tell.
    """
    if call.visible is None or call.n_queries != call.n_keys:
        return None
    seen, own = torch.zeros(2, call.n_batch, call.n_keys, dtype=torch.bool, device="cpu")
    for start, stop in row_blocks(call):
        rows = (
            call.visible(start, stop)[..., : call.n_keys].any(dim=1).cpu()
        )  # (sequence, query, key)
        seen[:, : rows.shape[-1]] |= rows.any(dim=1)
        itself = rows.diagonal(offset=start, dim1=1, dim2=2)
        own[:, start : start + itself.shape[-1]] |= itself
    return seen if torch.equal(seen, own) else None
