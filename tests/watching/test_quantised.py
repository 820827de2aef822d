"""Weights that are kept in another form than numbers: what torchao puts in place of them has hardly
any operation of a tensor.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import numpy as np  # noqa: E402
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402

aten = torch.ops.aten


class Eighths(torch.Tensor):
    """A matrix kept as whole eighths. It can be multiplied with and, if `tells`, turned back into
    numbers, and nothing else.
    """

    @staticmethod
    def __new__(cls, whole, tells):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=torch.float32)

    def __init__(self, whole, tells):
        self.whole, self.tells = whole, tells

    def dequantize(self):
        if not self.tells:
            raise NotImplementedError("no way back")
        return self.whole / 8

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is nn.functional.linear:
            tokens, weight, *rest = args
            return func(tokens, weight.whole / 8, *rest, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (aten.detach.default, aten.alias.default):
            return cls(args[0].whole, args[0].tells)
        raise NotImplementedError(f"no {func}")


def model(form):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**zoo._SHARED, initializer_range=0.5)
    made = transformers.LlamaModel(config).eval()
    for name, weight in made.named_parameters():
        if name.endswith("proj.weight"):
            owner = made.get_submodule(name.removesuffix(".weight"))
            owner.weight = nn.Parameter(form((weight.detach() * 8).round()), requires_grad=False)
    return made


def watched(made):
    with saccade.watch(made, zoo.ids()) as recorder:
        recorder.step(0)
        recorder.step(1)
    return recorder.record


def test_quantised_weights_are_watched_as_what_they_stand_for():
    plain, kept = (
        watched(model(lambda whole: whole / 8)),
        watched(model(lambda whole: Eighths(whole, True))),
    )
    assert kept.time.values.tolist() == [0, 1]
    for name in ("relative_entropy", "qk_singular_values"):
        np.testing.assert_allclose(kept[name], plain[name], rtol=1e-5)


def test_attention_of_weights_that_cannot_be_turned_back_is_watched_all_the_same(capsys):
    plain, kept = (
        watched(model(lambda whole: whole / 8)),
        watched(model(lambda whole: Eighths(whole, False))),
    )
    np.testing.assert_allclose(kept.relative_entropy, plain.relative_entropy, rtol=1e-5)
    assert "qk_singular_values" not in kept
    assert "is a Eighths, which does not give its numbers" in capsys.readouterr().err
