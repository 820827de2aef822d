"""Records exported for the playground: what the file says, that the engine runs from it to the same
place, and what is refused.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.playground.export import export_record, playground_record

from .comparison import THREE
from .engine_page import followed

CHAIN = saccade.MarkovChain.zipf(5, stay=0.4)


@pytest.fixture(scope="module")
def records():
    small = saccade.models.Embedded(d_model=4, d_key=3)
    return {
        "flow": saccade.flow(
            THREE, t1=100, lr_attention=0.5, n_times=8, keep=("attention", "decoder")
        ),
        "reduced flow": saccade.reduced_flow(THREE, t1=100, n_times=8),
        "training": saccade.train(
            THREE,
            steps=20,
            momentum=0.9,
            lr_decoder=[0.5, 1.0],
            batch=np.inf,
            context=np.inf,
            seeds=[3, 4],
            dtype="float64",
        ),
        "flow of a chain": saccade.flow(CHAIN, t1=60, n_times=8, model=small, seeds=[2, 5]),
        "rank-one flow": saccade.reduced_flow(CHAIN, t1=60, n_times=8, model=small),
    }


EXPECTED = {
    "flow": ("scan-and-snap", "flow", 3),
    "reduced flow": ("scan-and-snap", "reduced", None),
    "training": ("scan-and-snap", "momentum", None),
    "flow of a chain": ("focus-and-dilution", "flow", 4),
    "rank-one flow": ("focus-and-dilution", "flow", 1),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_record_is_written_as_the_page_reads_it(records, name, tmp_path):
    model, optimiser, n_values = EXPECTED[name]
    export_record(records[name], tmp_path / "run.json")
    written = json.loads(
        (tmp_path / "run.json").read_text(),
        parse_constant=lambda text: pytest.fail(f"{text} is not JSON"),
    )
    assert (written["saccade"], written["model"]) == ("playground-record", model)
    assert written["settings"]["optimiser"] == optimiser
    rows, tokens = np.shape(written["attention"])[1:]
    assert len(written["time"]) == len(written["attention"]) == len(written["loss"])
    assert rows == (5 if model == "focus-and-dilution" else 3)
    assert tokens == len(written["tokens"])
    np.testing.assert_allclose(np.sum(written["attention"], axis=-1), 1, atol=1e-9)
    assert ("singularValues" in written) == (n_values is not None)
    if n_values:
        assert np.shape(written["singularValues"])[1] == n_values
        assert (np.diff(written["singularValues"], axis=1) <= 0).all()


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "rank-one flow"])
def test_the_engine_runs_from_the_exported_settings_to_the_exported_attention(page, records, name):
    written = playground_record(records[name])
    engine = {"scan-and-snap": "ScanAndSnap", "focus-and-dilution": "FocusAndDilution"}[
        written["model"]
    ]
    runs = followed(page, engine, written["settings"], written["time"])
    np.testing.assert_allclose(
        [run["attention"] for run in runs], written["attention"], rtol=1e-6, atol=1e-12
    )
    np.testing.assert_allclose([run["loss"] for run in runs], written["loss"], rtol=1e-6)


def test_seed_and_rate_choose_the_run(records):
    other = playground_record(records["training"], seed=4, rate=1)
    assert other["settings"]["lrDecoder"] == 1.0
    wanted = records["training"].sel(seed=4).isel(rate=1)
    np.testing.assert_allclose(other["loss"], wanted.loss.values, rtol=1e-9)
    assert (
        playground_record(records["flow of a chain"], seed=5)["settings"]["start"]
        != (playground_record(records["flow of a chain"])["settings"]["start"])
    )


def test_a_long_record_is_thinned_and_keeps_both_ends(records):
    path = records["flow"]
    long = path.isel(time=np.repeat(np.arange(9), 1000)).assign_coords(time=np.arange(9000.0))
    written = playground_record(long)
    assert len(written["time"]) <= 1000
    assert (written["time"][0], written["time"][-1]) == (0.0, 8999.0)


def test_a_run_that_diverged_ends_where_it_was_finite(records):
    path = records["flow"].copy(deep=True)
    path["loss"][5:] = np.nan
    path["attention"][5:] = np.nan
    assert len(playground_record(path)["time"]) == 5
    path["loss"][:] = np.nan
    with pytest.raises(InputError, match="nothing to show"):
        playground_record(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda records: records["flow"].drop_vars("attention"), "must hold `attention`"),
        (
            lambda records: saccade.flow(
                saccade.MarkovChain([[0.1, 0.9], [0.6, 0.4]]), t1=1, n_times=2
            ),
            None,
        ),
        (
            lambda records: saccade.flow(
                saccade.MarkovChain.random([0.5, 0.3, 0.2], seed=1), t1=1, n_times=2
            ),
            "only lazy chains",
        ),
        (
            lambda records: saccade.flow(
                THREE, t1=1, n_times=2, model=saccade.models.Pairwise(residual=True)
            ),
            "other settings of residual",
        ),
    ],
)
def test_what_the_page_cannot_run_is_refused_with_a_sentence(records, change, sentence):
    record = change(records)
    if sentence is None:  # any chain of two tokens is a lazy one
        assert playground_record(record)["settings"]["stay"] == pytest.approx(-0.5)
    else:
        with pytest.raises(InputError, match=sentence):
            playground_record(record)


def test_an_unknown_seed_or_rate_is_refused(records):
    with pytest.raises(InputError, match="`seed` must be one of the record's"):
        playground_record(records["training"], seed=7)
    with pytest.raises(InputError, match="`rate` must be from 0 to 1"):
        playground_record(records["training"], rate=2)
