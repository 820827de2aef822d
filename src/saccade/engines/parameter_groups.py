"""PyTorch optimisers with a learning rate for each group of parameters.

| group       | parameters                                              | rate           |
|-------------|---------------------------------------------------------|----------------|
| `attention` | what decides where attention goes: queries, keys, Z     | `lr_attention` |
| `decoder`   | the unembedding, or Y; with tied tables the embedding   | `lr_decoder`   |
| `mlp`       | both matrices of every MLP                              | `lr_mlp`       |
| `rest`      | embedding, values, outputs, norms, learned positions    | `lr`           |

Groups of equal rate are handed over as one: each costs a call of the optimiser's in every update, a
tenth of a small model's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from saccade.models.transformer import Transformer

OPTIMISERS = ("sgd", "momentum", "adam", "adamw")


def parameter_groups(model: Transformer, rates: Mapping[str, float]) -> list[dict[str, Any]]:
    """Every parameter once, with the rate of its group, those of equal rate together; `rates` by
    the names of the groups.
    """
    parts = {
        "attention": model.attention_parameters,
        "decoder": model.decoder_parameters,
        "mlp": model.mlp_parameters,
    }
    rate_of = {id(parameter): rates[name] for name, part in parts.items() for parameter in part()}
    by_rate: dict[float, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        by_rate.setdefault(rate_of.get(id(parameter), rates["rest"]), []).append(parameter)
    return [{"params": parameters, "lr": rate} for rate, parameters in by_rate.items()]


def make_optimiser(
    name: str, model: Transformer, rates: Mapping[str, float], momentum: float, weight_decay: float
) -> torch.optim.Optimizer:
    """One of `OPTIMISERS`; `momentum` is that of "momentum", and Adam's own settings are PyTorch's
    defaults.
    """
    groups = parameter_groups(model, rates)
    if name in ("sgd", "momentum"):
        return torch.optim.SGD(
            groups,
            momentum=momentum if name == "momentum" else 0.0,
            weight_decay=weight_decay,
            fused=True,
        )
    kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return kind(groups, weight_decay=weight_decay, fused=True)
