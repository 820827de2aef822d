"""Training runs of the model of [tian2023]'s WikiText figures: which runs, and what is kept of each.

The papers measure attention on validation text; so do we, on evenly spaced windows of it, without dropout. Their code takes
-sum a ln(a + 1e-8) for the entropy of a row. We take -sum a ln a: the two differ by at most 1e-8 for each key.
Not here: what an experiment varies and what it claims.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.observe.fits import interval

if TYPE_CHECKING:
    import xarray as xr

SHAPE = ("entropy", "relative_entropy", "top_mass", "effective_keys")  # how spread out attention is
PLACES = ("self_mass", "previous_mass", "sink_mass")  # where it lies
WATCHED = ("entropy", "top_mass", "effective_keys", *PLACES)  # of these, what the recorder measures
CLIP = 0.5  # largest length of the gradient, in all the published scripts
FFN_RATIO = 2.0  # rate of the two linear maps of the MLP over the others', in the notebook of Fig. 7


@dataclass(frozen=True)
class TextRun:
    """One run. `n_vocab` None: all words. `looks`: the steps at which attention is measured, the last one the end."""

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


def trained(run: TextRun) -> xr.Dataset:
    """What is seen at the run's looks: loss, validation loss and attention by layer; missing from where a run diverged."""
    from saccade.data.text.corpus import corpus
    from saccade.dynamics.training import train_text
    from saccade.dynamics.training_batches import fixed_windows
    from saccade.model.transformer_config import TransformerConfig

    text = corpus(run.text, n_vocab=run.n_vocab)
    windows = fixed_windows(text, run.n_windows, run.context).ids
    seen = train_text(
        text,
        model=replace(TransformerConfig.wikitext(text.n_vocab, run.n_layers), dropout=run.dropout),
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
    )
    kept = seen[["loss", "valid_loss", "stop_reason", "lowest_map", *WATCHED]].isel(head=0)
    kept["relative_entropy"] = kept.entropy / even_entropy(run.context)
    kept.relative_entropy.attrs = {"units": "1", "definition": "entropy over that of even attention: 0 = all on one key, 1 = even"}
    return kept.reindex(time=list(run.looks)).assign_coords(layer=range(run.n_layers))


def even_entropy(n_context: int) -> float:
    """Mean over queries of the entropy of even attention: a query sees itself and all before it.

    Ours is a ratio of means over all queries. A mean of each query's own ratio would need its number of keys, and where attention
    is this sharp weights that underflow cannot be told from masked ones.
    """
    return float(np.log(np.arange(1, n_context + 1)).mean())


def _lowest_map(model: Any, window: Any) -> tuple[tuple[str, str], Any, dict[str, str]]:
    """All rows; the recorder keeps some."""
    about = {"units": "1", "definition": "attention of the lowest layer in the first validation window: a row sums to one"}
    return ("position", "key_position"), model.attention_of(window)[0, 0].numpy(), about


def stacked(runs: Sequence[xr.Dataset], axes: Mapping[str, Sequence[Any]]) -> xr.Dataset:
    """Runs, the last of `axes` (name -> values) changing fastest, as one dataset with these axes. Layers a run lacks are NaN."""
    import xarray as xr

    for name, values in reversed(list(axes.items())):
        groups = [runs[start : start + len(values)] for start in range(0, len(runs), len(values))]
        runs = [xr.concat(group, name, join="outer", data_vars="all", coords="minimal", compat="override") for group in groups]
        runs = [group.assign_coords({name: list(values)}) for group in runs]
    return runs[0]


def as_record(runs: xr.Dataset, config: Any, wall_time: float) -> xr.Dataset:
    """The runs of an experiment with its settings beside them."""
    from saccade.records.schema import make_record, with_settings

    attributes = {str(name): runs[name].attrs for name in runs.data_vars}
    record = make_record(
        dynamics="training on text",
        variables={str(name): (runs[name].dims, runs[name].values) for name in runs.data_vars},
        coords={str(name): (coord.dims, coord.values) for name, coord in runs.coords.items()},
        time_unit="updates",
        config=asdict(config),
        wall_time=wall_time,
        definitions={name: (about["units"], about["definition"]) for name, about in attributes.items()},
    )
    return with_settings(record, config)


def settings(record: xr.Dataset) -> dict[str, Any]:
    """The fields of the experiment's `Config`."""
    return dict(json.loads(record.attrs["settings"]))


def with_interval(name: str, values: Any) -> dict[str, float | None]:
    """Mean over seeds and the 95 % interval's half width, as columns of a table; no width for a single seed."""
    mean, low, high = interval(values)
    return {name: mean, f"{name}_half_width": (high - low) / 2 if high == high else None}
