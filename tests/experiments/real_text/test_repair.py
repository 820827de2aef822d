"""Results on text say which settings made them: a damaged one is run again from these, to the same
numbers.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.experiments import experiment
from saccade.experiments.reproduce import reproduce
from saccade.records.schema import settings_of, settings_text
from saccade.records.store import load_record
from tests.cli.calls import called

SMALL = {"n_vocab": 20, "seeds": 1, "batch": 2, "n_windows": 2, "width": 8}
TINY = {
    "text-entropy": SMALL
    | {"parts": ("rates", "layers"), "rates": (0.1, 0.2), "steps": (6, 6, 6, 8)},
}


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("size", ["settings", "full"])
def test_settings_come_back_from_what_a_result_keeps_of_them(name, size):
    asked = experiment(name)
    settings = asked.settings() if size == "settings" else asked.full
    assert settings_of({"settings": settings_text(settings)}, asked.settings) == settings


@pytest.mark.parametrize("name", TINY)
def test_a_damaged_result_is_run_again_to_the_same_numbers(name, tmp_path):
    words = [f"w{(i * i) % 17}" for i in range(3000)]
    text = tmp_path / "text.txt"
    text.write_text(
        "\n".join(" ".join(words[i : i + 20]) for i in range(0, len(words), 20)), encoding="utf-8"
    )
    whole = reproduce(
        name, tmp_path / "out", replace(experiment(name).settings(), **TINY[name], text=str(text))
    )
    before, claims = (
        load_record(whole.folder),
        json.loads((whole.folder / "claims.json").read_text()),
    )
    chunk = next(
        path
        for path in sorted((whole.folder / "record.zarr" / "rates_valid_loss").iterdir())
        if path.name[0].isdigit()
    )
    chunk.write_bytes(chunk.read_bytes()[:-1])
    assert called("check", tmp_path / "out")[0] == 1
    code, printed, _ = called("check", tmp_path / "out", "--repair")
    assert (code, "it has been run again" in printed) == (0, True), printed
    xr.testing.assert_equal(load_record(whole.folder), before)
    assert json.loads((whole.folder / "claims.json").read_text()) == claims
