"""Attention between groups of tokens, against sums written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.measures.groups import attention_between

N_TIMES, N_SEQUENCES, N_LAYERS, N_HEADS, LENGTH = 2, 3, 2, 5, 7
GROUPS = {"left": [0, 2, 3], "right": [4, 5], "both": [2, 4]}


def record() -> xr.Dataset:
    """Causal maps; the last sequence is padded, and head 3 of layer 1 maps `right` to `left` from
    the second observation on.
    """
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(N_TIMES, N_SEQUENCES, N_LAYERS, N_HEADS, LENGTH, LENGTH))
    scores[1, :, 1, 3, 4:6, [0, 2, 3]] += 9
    raised = np.exp(scores) * np.tri(LENGTH)
    maps = raised / raised.sum(-1, keepdims=True)
    maps[:, 2, :, :, 5:] = np.nan
    axes = ("time", "sequence", "layer", "head", "map_query", "key")
    return xr.Dataset(
        {"attention_map": (axes, maps)}, coords={"time": [0, 9], "map_query": np.arange(LENGTH)}
    )


def test_attention_between_groups_is_the_mean_over_their_queries():
    made, maps = record(), record().attention_map.values
    found = attention_between(made, GROUPS)
    assert found.attention.dims == ("time", "layer", "head", "of", "on")
    for of, queries in GROUPS.items():
        for on, keys in GROUPS.items():
            rows = [
                maps[1, s, 1, 4, q] for s in range(N_SEQUENCES) for q in queries if s < 2 or q < 5
            ]
            expected = np.mean([sum(row[k] for k in keys) for row in rows])
            even = np.mean([sum(row[k] > 0 for k in keys) / (row > 0).sum() for row in rows])
            here = found.isel(time=1, layer=1, head=4).sel(of=of, on=on)
            np.testing.assert_allclose([here.attention, here.uniform], [expected, even], rtol=1e-12)


def test_the_head_that_maps_one_group_to_another_is_singled_out():
    found = attention_between(record(), GROUPS)
    beyond = (found.attention - found.uniform).sel(time=9, of="right", on="left")
    assert np.unravel_index(beyond.values.argmax(), beyond.shape) == (1, 3)
    assert float(beyond.max()) > 0.3 > float(np.sort(beyond.values.ravel())[-2])


def test_masks_may_differ_between_sequences():
    mask = np.zeros((N_SEQUENCES, LENGTH), bool)
    mask[:, [4, 5]] = True
    same = attention_between(record(), {"right": mask, "left": [0, 2, 3]})
    xr.testing.assert_allclose(
        same,
        attention_between(record(), {"right": [4, 5], "left": [0, 2, 3]}),
    )
    mask[1] = False
    other = attention_between(record(), {"right": mask, "left": [0, 2, 3]})
    assert (abs(other.attention - same.attention).sel(of="right", on="left") > 1e-6).all()


@pytest.mark.parametrize(
    "groups",
    [{"left": [LENGTH]}, {"left": []}, {"left": "all"}, {"left": [True]}, {}, [0], {"left": [0.5]}],
)
def test_what_is_no_group_is_named(groups):
    with pytest.raises(InputError, match="groups"):
        attention_between(record(), groups)


def test_rows_that_were_not_kept_are_said():
    some = record().isel(map_query=[0, 6])
    with pytest.raises(
        InputError, match="no row of the maps that were kept belongs to a token of `right`"
    ):
        attention_between(some, GROUPS)
    with pytest.raises(InputError, match="must hold attention maps"):
        attention_between(xr.Dataset(), GROUPS)
