"""A start of the pairwise model given as whole matrices, laid out in the blocks that the engines
follow.

Users know Y as (token, next token) and Z as (query, token); engines know blocks
(`token_blocks.py`). Entries that no context of the task can reach have no effect and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from saccade.data.checks import checked_numbers
from saccade.errors import InputError, checked_choice
from saccade.models.pairwise import Pairwise, Parameters, Rows
from saccade.models.reduced_pairwise import ReducedPairwise, ReducedState

NAMES = ("decoder", "attention_logits")


def pairwise_start(system: Pairwise, given: Mapping[str, Any]) -> tuple[Pairwise, Parameters]:
    """The parameters, and the system that can hold them: tokens never predicted need columns of
    their own if they differ.
    """
    task = system.classes
    decoder, logits = _matrices(given, task.n_vocab, len(np.unique(task.query)))
    rest = np.setdiff1d(np.arange(task.n_vocab), task.next_token)
    if len(rest) and np.ptp(decoder[:, rest], axis=1).any():
        system = replace(system, init="uniform")
    blocks = system.task_blocks
    return system, Parameters(
        Rows(*blocks.decoder_blocks(decoder)), Rows(*blocks.attention_blocks(logits))
    )


def reduced_start(system: ReducedPairwise, given: Mapping[str, Any]) -> ReducedState:
    """Attention logits only: the theory's flow always has the decoder of the present features."""
    if "decoder" in given:
        raise InputError(
            "`start` of the reduced flow has no `decoder`: theory makes it from features; give `attention_logits`."
        )
    task, blocks = system.task, system.task_blocks
    _, logits = _matrices(given, task.n_vocab, len(blocks.queries))
    zero = np.zeros(task.n_classes)
    return ReducedState(zero, zero, Rows(*blocks.attention_blocks(logits)))


def _matrices(
    given: Mapping[str, Any], n_vocab: int, n_queries: int
) -> tuple[np.ndarray, np.ndarray]:
    """Y and Z, zero where they are left out."""
    for name in given:
        checked_choice("matrix in `start`", name, NAMES)
    shapes = {"decoder": (n_vocab, n_vocab), "attention_logits": (n_queries, n_vocab)}
    found = []
    for name, shape in shapes.items():
        matrix = (
            checked_numbers(f"start['{name}']", given[name], n_axes=2)
            if name in given
            else np.zeros(shape)
        )
        if matrix.shape != shape:
            axes = (
                "token, next token"
                if name == "decoder"
                else "query, token; queries in the order of their ids"
            )
            raise InputError(
                f"`start['{name}']` must have the shape {shape} ({axes}); got {matrix.shape}."
            )
        found.append(matrix)
    return found[0], found[1]
