"""External truth: in a two-layer attention-only model induction heads form; the timeline says which
heads and when.

Compared with a computation of its own: scores from the weights of the model in float64, on repeated
tokens of its own making.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from saccade.measures.timeline import NAMED, beyond_uniform  # noqa: E402
from saccade.watching.budget import schedule  # noqa: E402
from saccade.watching.probe import Probe, RepeatedProbe  # noqa: E402

PERIOD, SEQUENCES = 13, 16


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "induction_heads.py"
    spec = importlib.util.spec_from_file_location("induction_heads", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def maps(model, heads, tokens):
    """Attention (layer, sequence, head, query, key) from the model's weights, in NumPy."""
    weights = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}
    x = weights["embedding.weight"][tokens] + weights["position.weight"][: tokens.shape[1]]
    found = []
    for layer in range(2):
        centred = x - x.mean(-1, keepdims=True)
        normal = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5)
        normal = normal * weights[f"norms.{layer}.weight"] + weights[f"norms.{layer}.bias"]
        q, k, v = np.split(normal @ weights[f"attention.{layer}.qkv.weight"].T, 3, axis=-1)
        q, k, v = (part.reshape(*part.shape[:2], heads, -1).swapaxes(1, 2) for part in (q, k, v))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        scores = np.where(np.tri(tokens.shape[1], dtype=bool), scores, -np.inf)
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        found.append(attention)
        x = (
            x
            + (attention @ v).swapaxes(1, 2).reshape(x.shape)
            @ weights[f"attention.{layer}.out.weight"].T
        )
    return np.stack(found)


def previous_and_induction(attention, repeated, tokens):
    """(place, layer, head) beyond what uniform attention would give: previous token in the one,
    induction in the other maps, which are of these tokens.
    """
    length = attention.shape[-1]
    previous = attention[..., np.arange(1, length), np.arange(length - 1)].mean((1, 3))
    found, uniform = [], []
    for sequence, query in np.ndindex(tokens.shape):
        keys = [key + 1 for key in range(query) if tokens[sequence, key] == tokens[sequence, query]]
        if keys:
            found.append(repeated[:, sequence, :, query, keys].sum(0))
            uniform.append(len(keys) / (query + 1))
    even = np.array([np.mean(1 / np.arange(2, length + 1)), np.mean(uniform)])[:, None, None]
    return (np.stack([previous, np.mean(found, axis=0)]) - even) / (1 - even)


def test_the_timeline_names_induction_and_previous_token_heads_and_the_steps_at_which_they_appear(
    example,
):
    due, own, same, n_steps = schedule("log"), {}, {}, 240
    rng = np.random.default_rng(99)
    tokens = np.stack(
        [np.tile(rng.choice(example.N_VOCAB, PERIOD, replace=False), 2) for _ in range(SEQUENCES)]
    )
    probe = example.repeated(torch.Generator().manual_seed(1), 8)
    repeated = RepeatedProbe.of(Probe(probe))

    def on_step(step, model):
        if due(step) or step == n_steps:
            attention = maps(model, example.HEADS, tokens)
            own[step] = previous_and_induction(attention, attention, tokens)
            theirs = (
                maps(model, example.HEADS, ids.numpy()) for ids in (probe, repeated.probe.ids)
            )
            same[step] = previous_and_induction(*theirs, repeated.probe.ids.numpy())

    record = example.trained(n_steps, on_step=on_step)
    assert record.time.values.tolist() == list(own)
    measured = np.stack(
        [beyond_uniform(record, name)[0] for name in ("previous_mass", "induction_mass")], axis=1
    )
    np.testing.assert_allclose(measured, np.stack(list(same.values())), atol=1e-5)
    timeline, curves = (
        saccade.timeline(record),
        np.stack(list(own.values())),
    )  # step, place, layer, head
    for place, name in enumerate(("previous token", "induction")):
        events = {
            (event.layer, event.head): event.step for event in timeline.events if event.name == name
        }
        crossed = {
            of: list(own)[int((curves[:, place, *of] > NAMED).argmax())]
            for of in np.ndindex(2, example.HEADS)
        }
        assert set(events) == {of for of in crossed if curves[-1, place, *of] > NAMED}
        assert {layer for layer, _ in events} == {
            place
        }  # previous-token heads below, induction heads above
        assert all(
            abs(np.log2(step / crossed[of])) <= 0.45 for of, step in events.items()
        )  # two looks: other tokens, and noise
    assert timeline.sentences[-1] == "Nothing collapsed."
