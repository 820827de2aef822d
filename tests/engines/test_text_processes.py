"""The same run in two processes as in one: `torchrun` over gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no distributed training", allow_module_level=True)

from safetensors.torch import load_file  # noqa: E402

from saccade.engines.train_text import train_text  # noqa: E402
from tests.engines.text_runs import CORPUS, SETTINGS, SMALL  # noqa: E402

STEPS = 17
RUN = SETTINGS | {"model": replace(SMALL, dropout=0.0), "steps": STEPS, "evaluate": 3, "clip": 0.5}
DIVERGING = RUN | {
    "model": replace(SMALL, dropout=0.0, norm="none"),
    "optimiser": "sgd",
    "lr": 1e6,
    "clip": None,
    "watch": False,
}
SCRIPT = """
import json, os, sys
from pathlib import Path
from tests.engines.test_text_processes import CORPUS, DIVERGING, RUN, train_text
folder = Path(sys.argv[1])
looks = []
record = train_text(CORPUS, **RUN, checkpoints=folder / "together", measures=lambda model, step: looks.append(step) or {})
stopped = train_text(CORPUS, **DIVERGING)
answer = {"loss": record["loss"].values.tolist(), "looks": len(looks), "watched": "entropy" in record,
          "stop": str(stopped["stop_reason"].values)}
(folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(answer))
"""


def in_two_processes(folder: Path) -> list[dict]:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'src'}", "OMP_NUM_THREADS": "1"}
    script = folder / "run.py"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(script),
        str(folder),
    ]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_learn_what_one_does_and_stop_together_and_only_the_first_looks_and_writes(
    tmp_path,
):
    alone = train_text(CORPUS, **RUN, checkpoints=tmp_path / "alone")
    first, second = in_two_processes(tmp_path)
    np.testing.assert_allclose(first["loss"], alone["loss"], rtol=1e-4)
    assert second["loss"] == first["loss"]
    assert (first["looks"], second["looks"]) == (alone.sizes["time"], 0)
    assert (first["watched"], second["watched"]) == (True, False)
    assert (first["stop"], second["stop"]) == ("diverged", "diverged")
    ours, theirs = (
        load_file(next((tmp_path / name).glob(f"*{STEPS}/model.safetensors")))
        for name in ("together", "alone")
    )
    for name, weights in theirs.items():
        torch.testing.assert_close(ours[name], weights, rtol=1e-3, atol=1e-4)
