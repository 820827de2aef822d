"""Training runs of the Transformer of [tian2023]'s WikiText figures: which runs, what is kept of
each, one record of them all.

The papers measure attention on validation text; so do we, on evenly spaced windows of it, without
dropout. Their code takes -sum a ln(a + 1e-8) for the entropy of a row. We take -sum a ln a: the two
differ by at most 1e-8 for each key. Not here: what an experiment varies and what it claims.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from saccade.data.text.corpus import corpus
from saccade.dynamics.training import train_text
from saccade.dynamics.training_batches import fixed_windows
from saccade.dynamics.training_checkpoints import resumed_from
from saccade.lab.protocol import Progress
from saccade.model.transformer import Transformer
from saccade.model.transformer_config import TransformerConfig
from saccade.processes import in_processes
from saccade.records.schema import make_record

WATCHED = (
    "entropy",
    "top_mass",
    "effective_keys",
    "self_mass",
    "previous_mass",
    "sink_mass",
)  # what the recorder measures
CLIP = 0.5  # largest length of the gradient, in all the published scripts


@dataclass(frozen=True)
class TextRun:
    """One run. `n_vocab` None: all words. `looks`: the steps at which attention is measured, the
    last one the end.

    `ffn_ratio` is the rate of the two linear maps of the MLP over that of all other parameters.
    `resumable`: it goes on where it was stopped.
    """

    text: str
    n_vocab: int | None
    lr: float
    looks: tuple[int, ...]
    seed: int
    n_layers: int = 1
    optimiser: str = "sgd"
    ffn_ratio: float = 1.0
    dropout: float = 0.3
    batch: int = 20
    context: int = 35
    n_windows: int = 64
    width: int = 200
    resumable: bool = False


def text_runs(
    settings: Any,
    looks: Sequence[int],
    axes: Mapping[str, Sequence[Any]],
    on_progress: Progress,
    **others: Any,
) -> xr.Dataset:
    """The record of a run for each combination of `axes`, which give fields of `TextRun` their
    values.

    Of the fields that neither `axes` nor `others` name, those that the settings of an experiment
    have come from there.
    """
    shared = {
        field.name: getattr(settings, field.name)
        for field in fields(TextRun)
        if hasattr(settings, field.name)
    }
    shared |= others | {"looks": tuple(looks)}
    jobs = [
        (TextRun(**shared | dict(zip(axes, cell, strict=True))),)
        for cell in product(*axes.values())
    ]
    return recorded(trained, jobs, axes, on_progress)


def trained(run: TextRun) -> xr.Dataset:
    """What is seen at the run's looks: loss, validation loss and attention by layer; missing from
    where a run diverged.
    """
    text = corpus(run.text, n_vocab=run.n_vocab)
    windows = fixed_windows(text, run.n_windows, run.context).ids
    seen = train_text(
        text,
        model=replace(
            TransformerConfig.wikitext(text.n_vocab, run.n_layers, run.width), dropout=run.dropout
        ),
        steps=run.looks[-1],
        batch=run.batch,
        context=run.context,
        order="stream",
        optimiser=run.optimiser,
        lr=run.lr,
        lr_mlp=run.ffn_ratio * run.lr,
        clip=CLIP,
        seed=run.seed,
        every=run.looks,
        probe=windows,
        measures=lambda model, step: {"lowest_map": _lowest_map(model, windows[:1])},
        weights=False,
        checkpoints=resumed_from(run.resumable, run),
    )
    kept = seen[["loss", "valid_loss", "stop_reason", "lowest_map", *WATCHED]].isel(head=0)
    kept["relative_entropy"] = kept.entropy / even_entropy(run.context)
    kept.relative_entropy.attrs = {
        "units": "1",
        "definition": "entropy over that of even attention: 0 = all on one key, 1 = even",
    }
    return kept.reindex(time=list(run.looks)).assign_coords(layer=range(run.n_layers))


def even_entropy(n_context: int) -> float:
    """Mean over queries of the entropy of even attention: a query sees itself and all before it.

    Ours is a ratio of means over all queries. A mean of each query's own ratio would need its
    number of keys, and where attention is this sharp weights that underflow cannot be told from
    masked ones.
    """
    return float(np.log(np.arange(1, n_context + 1)).mean())


def _lowest_map(
    model: Transformer, window: Tensor
) -> tuple[tuple[str, str], np.ndarray, dict[str, str]]:
    """All rows; the recorder keeps some."""
    about = {
        "units": "1",
        "definition": "attention of the lowest layer in the first validation window: a row sums to one",
    }
    return ("position", "key_position"), model.attention_of(window)[0, 0].numpy(), about


def recorded(
    run: Callable[..., xr.Dataset],
    jobs: Sequence[tuple[Any, ...]],
    axes: Mapping[str, Sequence[Any]],
    on_progress: Progress,
) -> xr.Dataset:
    """`run(*job)` for every job as one record with `axes` (name -> values), of which the last
    changes fastest.
    """
    started = time.perf_counter()
    runs = stacked(in_processes(run, jobs, on_progress), axes)
    about = {
        str(name): (values.attrs["units"], values.attrs["definition"])
        for name, values in runs.data_vars.items()
    }
    return make_record(
        dynamics="training on text",
        variables={str(name): values.variable for name, values in runs.data_vars.items()},
        coords={str(name): (values.dims, values.values) for name, values in runs.coords.items()},
        time_unit="updates",
        config={},
        wall_time=time.perf_counter() - started,
        definitions=about | {"lr": ("1/time", "learning rate of all parameters")},
    )


def stacked(runs: Sequence[xr.Dataset], axes: Mapping[str, Sequence[Any]]) -> xr.Dataset:
    """Runs, the last of `axes` (name -> values) changing fastest, as one dataset with these axes.
    Layers a run lacks are NaN.
    """
    for name, values in reversed(list(axes.items())):
        groups = [runs[start : start + len(values)] for start in range(0, len(runs), len(values))]
        runs = [
            xr.concat(
                group, name, join="outer", data_vars="all", coords="minimal", compat="override"
            )
            for group in groups
        ]
        runs = [group.assign_coords({name: list(values)}) for group in runs]
    return runs[0]


def rows(means: xr.Dataset, *axes: str) -> list[dict[str, Any]]:
    """A row of a table for each place on the axes, with every variable."""
    return (
        means.drop_vars(set(means.coords) - set(axes))
        .to_dataframe(dim_order=list(axes))
        .reset_index()
        .to_dict("records")
    )
