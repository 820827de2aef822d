"""Short training runs whose checkpoints are looked at, and how what is found in them is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from saccade.watching.recorder import watch
from tests.watching import model_zoo as zoo

STEPS = (0, 3, 6, 9, 12, 15, 18)
NOT_OF_THE_WEIGHTS = ("look_seconds", "path_distance")


def trained(model, save) -> None:
    """A few steps of descent on pairs of equal tokens; `save(step)` is called before those of
    STEPS.
    """
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    generator = torch.Generator().manual_seed(11)
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            save(step)
        tokens = torch.randint(0, zoo.N_VOCAB, (5, 8), generator=generator).repeat_interleave(
            2, dim=1
        )
        answer = model(tokens)
        logits = getattr(answer, "logits", answer)
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def transformer(family: str, seed: int = 7):
    name, settings = zoo.FAMILIES[family]
    kind = getattr(transformers, name)
    torch.manual_seed(seed)
    return kind(kind.config_class(**settings))


class Tied(torch.nn.Module):
    """A model of one's own whose unembedding is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.body = zoo.HandWritten("fused")
        self.head = torch.nn.Linear(zoo.WIDTH, zoo.N_VOCAB, bias=False)
        self.head.weight = self.body.embedding.weight

    def forward(self, tokens):
        return self.head(self.body(tokens))


def watched_runs(root: Path) -> dict[str, tuple[Path, Any]]:
    """Folders of checkpoints by family, each with the record of the same run as it was watched."""
    found = {}
    for family, shard in (("gpt2", "5GB"), ("llama-grouped", "10KB")):
        model, folder = transformer(family), root / family
        with watch(model, {"input_ids": zoo.ids()}, every=STEPS, budget=None) as recorder:

            def save(step, recorder=recorder, model=model, folder=folder, shard=shard):
                recorder.step(step)
                model.save_pretrained(folder / f"checkpoint-{step}", max_shard_size=shard)

            trained(model, save)
        found[family] = folder, recorder.record
    return found


def own_states() -> dict[int, dict[str, Any]]:
    """States by step of a model of one's own."""
    torch.manual_seed(2)
    model, states = Tied(), {}
    trained(
        model,
        lambda step: states.update(
            {step: {name: value.clone() for name, value in model.state_dict().items()}}
        ),
    )
    return states


def findings(record, *kinds: str) -> list[tuple[str, list[int]]]:
    return [
        (kind, steps) for kind, steps, _ in json.loads(record.attrs["findings"]) if kind in kinds
    ]


def sentences(record) -> str:
    return " ".join(sentence for *_, sentence in json.loads(record.attrs["findings"]))


def assert_same(one, other, steps=STEPS) -> None:
    """What was seen while the run went on, `one`, is seen in its checkpoints; a watched run looks
    at weights now and then only.
    """
    for name in one.data_vars:
        if name not in NOT_OF_THE_WEIGHTS:
            before = one[name].sel(time=list(steps)).dropna("time", how="all")
            after = other[name].sel(time=before.time)
            np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5, err_msg=name)
