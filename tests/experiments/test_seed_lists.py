"""Seeds by name: an experiment run for a list of seeds gives the numbers that these seeds have
among others.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import xarray as xr

from saccade import processes
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError
from saccade.experiments import EXPERIMENTS, REAL_TEXT, experiment

# Settings so small that a run takes a moment; sizes are those that leave every claim, table and
# figure something to show.
TINY = {
    "syn-small-attention": {"ratios": (1.0,), "batch": 16, "context": 11},
    "adam-subsets": {"lrs": (0.1, 0.5), "steps": 7, "batch": 16, "context": 11},
    "syn-medium-entropy": {
        "n_queries": (1,),
        "lr_attention": (0.5, 1.0),
        "ratios": (1.0,),
        "steps": 7,
        "batch": 16,
        "context": 11,
    },
    "momentum-and-start": {"steps": 3},
    "relative-gain": {"descent_steps": 3, "steps": 5, "t1": 10.0},
    "attention-fates": {
        "descent_steps": 3,
        "descent_seeds": 1,
        "lengths": (32,),
        "steps": 5,
        "t1": 10.0,
    },
    "large-steps": {"steps": 10, "held_steps": 10, "context": 31, "limits": (0.8,)},
    "layers-in-turn": {"depths": (2,), "t1": 100.0},
    "condensation": {"init_scales": (1e-2, 1e-3), "n_times": 100},
    "focus-growth": {"init_scales": (1e-2, 1e-3), "n_times": 100},
    "condensation-transition": {"init_scales": (1e-2, 1e-3, 1e-4), "d_model": 4},
    "symmetric-escape": {
        "n_vocabs": (4, 3),
        "highs": (0.75, 0.6),
        "stays": (0.8, 0.5),
        "t1": 300.0,
        "n_times": 80,
        "tokens": (3,),
        "masses": (0.6,),
    },
    "focus-dilution-adam": {
        "steps": 20,
        "saves": 10,
        "batch": 8,
        "context": 7,
        "sequences": 31,
        "t1": 5.0,
    },
    "focus-dilution-published": {
        "width": 8,
        "sequences": 60,
        "batch": 10,
        "steps": 20,
        "short": 10,
    },
    "wikitext-attention": {
        "text": "sotu",
        "n_vocab": 97,
        "layers": (1,),
        "iterations": (0, 2),
        "batch": 3,
        "context": 11,
        "n_windows": 5,
    },
    "wikitext-entropy": {
        "texts": ("sotu",),
        "n_vocab": 97,
        "rates": (1.0, 3.0),
        "steps": 2,
        "n_looks": 2,
        "batch": 3,
        "context": 11,
    },
    "sparse-then-dense": {
        "text": "sotu",
        "n_vocab": 97,
        "rates": (0.001,),
        "steps": 6,
        "n_looks": 6,
        "batch": 3,
        "context": 11,
    },
    "depth": {
        "text": "sotu",
        "n_vocab": 97,
        "layers": (1, 2),
        "d_model": 8,
        "d_mlp": 8,
        "steps": 4,
        "batch": 2,
        "context": 11,
    },
    "positions": {
        "text": "sotu",
        "n_vocab": 499,
        "queries": 3,
        "window": 11,
        "n_windows": 2000,
        "steps": 4,
        "batch": 3,
    },
    "text-cycle": {
        "texts": ("sotu",),
        "n_vocabs": (97,),
        "rates": (1e-3,),
        "steps": (4,),
        "d_model": 8,
        "batch": 4,
        "looks": 4,
        "move_sizes": (8,),
        "move_steps": (3, 3),
    },
    "text-cycle-published": {"texts": ("sotu",), "width": 8, "epochs": 1e-4},
    "forecast-transformer": {
        "text": "sotu",
        "n_vocab": 61,
        "window": 5,
        "n_windows": 300,
        "queries": 2,
        "batch": 8,
        "least_count": 2,
        "steps": (2, 25),
    },
    "forecast": {
        "text": "sotu",
        "n_vocab": 199,
        "queries": 2,
        "window": 5,
        "n_windows": 300,
        "looks": (2, 4),
        "batches": (7, 11),
        "n_words": 8,
        "d_model": 4,
        "context": 7,
        "stage_steps": 4,
        "stage_batch": 5,
        "adam_steps": 4,
    },
}


def with_seeds() -> list[str]:
    return [
        name
        for name in EXPERIMENTS
        if "seeds" in {field.name for field in dataclasses.fields(experiment(name).settings)}
    ]


def test_every_experiment_with_seeds_is_looked_at_here() -> None:
    assert set(with_seeds()) == set(TINY)


@pytest.fixture(params=TINY, scope="module")
def runs_of(request: pytest.FixtureRequest) -> tuple[str, xr.Dataset, xr.Dataset]:
    name = request.param
    if name in REAL_TEXT:
        pytest.importorskip("torch")
        pytest.importorskip("tokenizers")
    asked = experiment(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            processes, "cores", lambda: 1
        )  # starting processes would take longer than the runs
        return name, *(asked.run(asked.settings(**TINY[name], seeds=seeds)) for seeds in (2, (1,)))


def test_a_listed_seed_has_the_numbers_it_has_among_others(
    runs_of: tuple[str, xr.Dataset, xr.Dataset],
) -> None:
    _, counted, listed = runs_of
    assert counted.seed.values.tolist() == [0, 1]
    assert listed.seed.values.tolist() == [1]
    compared = [variable for variable in counted.data_vars if "seed" in counted[variable].dims]
    assert compared
    for variable in compared:
        one, other = counted[variable].sel(seed=1), listed[variable].sel(seed=1)
        assert one.dims == other.dims
        if one.dtype.kind == "f":
            known = np.isfinite(
                one.values
            )  # a run that only the first quarter of the seeds has is missing among two
            np.testing.assert_allclose(
                other.values[known], one.values[known], rtol=1e-4, atol=1e-5, err_msg=variable
            )
        else:
            assert (one.values == other.values).all()


def test_a_single_seed_can_be_claimed_tabled_and_drawn(
    runs_of: tuple[str, xr.Dataset, xr.Dataset],
) -> None:
    name, _, listed = runs_of
    asked = experiment(name)
    assert list(asked.claims(listed))
    rows = asked.rows(listed)
    assert all(row["seed"] == 1 for row in rows if "seed" in row)
    for _, (columns, more) in (asked.files(listed) if asked.files is not None else {}).items():
        assert all(set(row) <= set(columns) for row in more)
    assert asked.figure(listed).axes


@pytest.mark.parametrize("seeds", [(), (3, 3), (-1,), (0.5,)])
def test_a_list_that_names_no_seeds_is_an_error(seeds: tuple) -> None:
    asked = experiment("syn-small-attention")
    with pytest.raises(InputError, match="seeds"):
        asked.run(asked.settings(seeds=seeds))
    assert checked_seeds((7, 2)) == [7, 2]
