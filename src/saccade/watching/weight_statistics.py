r"""How many directions the weights of a model use: spectra of embedding and unembedding, and of
every head's QK and OV circuits.

| circuit | matrix          | what it does                                             |
|---------|-----------------|----------------------------------------------------------|
| QK      | $W_Q^h W_K^{hT}$| which token is sought by which, before scaling by width  |
| OV      | $W_V^h W_O^h$   | what is written if a token is attended to                |

Both are d_model x d_model of rank d_head. They are never formed: with $W_Q = Q_1 R_1$ and $W_K =
Q_2 R_2$ the singular values are those of $R_1 R_2^T$, d_head x d_head. Everything is computed in
float64 on the CPU, one module at a time. Not included: biases, gains of normalisation before or
inside attention, rotations by position (QK is that of distance zero). Not here: where the weights
are found (`attention_weights.py`, `embedding_weights.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from saccade.measures import effective_rank, singular_values, top_share
from saccade.watching.attention_weights import Names, attention_weights
from saccade.watching.embedding_weights import embedding_weights
from saccade.watching.undisturbed import unwrapped

TOP = 16  # singular values that are kept
_ROWS_PER_BLOCK = 2048  # of an embedding at a time

Array = NDArray[np.float64]

_OF = {
    "embedding": "the token embedding",
    "unembedding": "the map from the last layer to token logits",
    "qk": "W_Q W_K^T of a head, before scaling",
    "ov": "W_V W_O of a head",
}
_MEASURES = {
    "singular_values": f"the {TOP} largest singular values, largest first: at least 0, 0 = the direction is not used; of",
    "top_share": "s_1^2 over the sum of s^2: 1 = rank one, 1/n = n equal directions, missing if all are 0; of",
    "effective_rank": "exp of the entropy of s^2 / sum s^2: 1 = rank one, n = n equal directions, missing if all are 0; of",
    "stable_rank": "sum of s^2 over s_1^2: 1 = rank one, n = n equal directions, missing if all are 0; of",
}
# name -> (unit, definition with range and extremes)
DEFINITIONS: dict[str, tuple[str, str]] = {
    f"{part}_{measure}": ("1", f"{definition} {what}")
    for part, what in _OF.items()
    for measure, definition in _MEASURES.items()
}


class WeightStatistics(NamedTuple):
    """What was found, and in sentences what was not."""

    values: dict[str, Array]  # by the names of `DEFINITIONS`
    axes: dict[str, tuple[str, ...]]  # of each of them
    unrecognised: list[str]
    layers: list[str]  # along the axis `weight_layer`


@torch.no_grad()
def weight_statistics(
    model: nn.Module, names: Names | None = None, seen: Mapping[str, int] = MappingProxyType({})
) -> WeightStatistics:
    """Statistics of all weights that are recognised, and of attention whose matrices have these
    names; `seen` are numbers of heads by the modules in which attention was seen.

    Axes `weight_layer` and `weight_head` go with heads; they are not those of attention statistics,
    as a module may be called more than once. Missing where a module has fewer heads, or narrower
    ones, than another.
    """
    inner = unwrapped(model)
    embeddings, unrecognised = embedding_weights(inner)
    heads, unread = attention_weights(inner, names, seen)
    values: dict[str, Array] = {}
    spectra = {id(weight): _spectrum(weight) for weight in embeddings.values()}  # tied weights once
    for part, weight in embeddings.items():
        values |= _named(part, _measures(spectra[id(weight)]))
    products = {
        "qk": [(each.query, each.key) for each in heads.values()],
        "ov": [(each.output, each.value) for each in heads.values()],
    }
    for part, pairs in products.items():
        values |= _named(part, _stacked([_measures(_product_spectrum(*pair)) for pair in pairs]))
    axes: dict[str, tuple[str, ...]] = {}
    for name in values:
        of_heads = ("weight_layer", "weight_head") if name.startswith(("qk_", "ov_")) else ()
        axes[name] = (*of_heads, "rank") if name.endswith("singular_values") else of_heads
    return WeightStatistics(values, axes, unrecognised + unread, list(heads))


def _product_spectrum(left: Tensor, right: Tensor) -> Array:
    """Singular values of left^T right for each head; factors (head, inner width, width), right
    heads serving runs of left ones.
    """
    triangles = [torch.linalg.qr(_doubles(factor).mT, mode="r").R for factor in (left, right)]
    right_triangle = triangles[1].repeat_interleave(len(left) // len(right), dim=0)
    return singular_values((triangles[0] @ right_triangle.mT).numpy())


def _spectrum(weight: Tensor) -> Array:
    """Singular values of a tall matrix, from its Gram matrix.

    Some take the QR factorisation (1), some the Gram matrix (2). We do (2), several times as fast:
    it loses singular values below 1e-8 of the largest, which the shares and ranks cannot see, for
    they weigh by squares.
    """
    gram = torch.zeros(weight.shape[1], weight.shape[1], dtype=torch.float64, device="cpu")
    for block in weight.split(_ROWS_PER_BLOCK):
        rows = _doubles(block)
        gram.addmm_(rows.mT, rows)
    if not gram.isfinite().all():
        return np.full(len(gram), np.nan)
    return torch.linalg.eigvalsh(gram).flip(0).clamp_min(0).sqrt().numpy()[: min(weight.shape)]


def _doubles(weight: Tensor) -> Tensor:
    return weight.detach().to("cpu", torch.float64)


def _measures(spectrum: Array) -> dict[str, Array]:
    with np.errstate(divide="ignore", invalid="ignore"):
        share = top_share(spectrum)
        measured = {
            "top_share": share,
            "effective_rank": effective_rank(spectrum),
            "stable_rank": 1 / share,
        }
    n_missing = max(TOP - spectrum.shape[-1], 0)
    padded = np.pad(
        spectrum[..., :TOP],
        [(0, 0)] * (spectrum.ndim - 1) + [(0, n_missing)],
        constant_values=np.nan,
    )
    return {"singular_values": padded, **measured}


def _stacked(layers: list[dict[str, Array]]) -> dict[str, Array]:
    """Layers one after the other, filled up to the most heads."""
    if not layers:
        return {}
    n_heads = max(len(layer["top_share"]) for layer in layers)

    def filled(array: Array) -> Array:
        return np.pad(
            array, [(0, n_heads - len(array))] + [(0, 0)] * (array.ndim - 1), constant_values=np.nan
        )

    return {name: np.stack([filled(layer[name]) for layer in layers]) for name in layers[0]}


def _named(part: str, measures: dict[str, Any]) -> dict[str, Array]:
    return {f"{part}_{name}": np.asarray(value) for name, value in measures.items()}
