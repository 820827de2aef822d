"""Products by oneDNN and dropout from whole numbers, against PyTorch's own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from saccade.models import products  # noqa: E402
from saccade.models.dropout import Dropout  # noqa: E402
from saccade.models.products import Linear, fast_products, product  # noqa: E402

N_ROWS, WIDTH, N_OUT = 23, 5, 37


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 0.0)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_is_pytorchs_up_to_rounding(dtype, tolerance, turned):
    torch.manual_seed(5)
    left, right = torch.randn(N_ROWS, WIDTH, dtype=dtype), torch.randn(WIDTH, N_OUT, dtype=dtype)
    if turned:
        left, right = (
            torch.randn(WIDTH, N_ROWS, dtype=dtype).T,
            torch.randn(N_OUT, WIDTH, dtype=dtype).T,
        )
    assert (product(left, right) - left @ right).abs().max() <= tolerance * (
        left @ right
    ).abs().max()
    assert product(left[:0], right).shape == (0, N_OUT)


def test_float32_goes_to_onednn_where_pytorch_has_it(monkeypatch):
    asked = []
    monkeypatch.setattr(
        products, "_by_onednn", lambda left, *rest: asked.append(left.dtype) or left.new_zeros(2, 2)
    )
    for dtype in (torch.float32, torch.float64):
        product(torch.ones(2, 2, dtype=dtype), torch.ones(2, 2, dtype=dtype))
    assert asked == [torch.float32]
    monkeypatch.setattr(products, "_by_onednn", None)
    assert product(torch.ones(2, 3), torch.ones(3, 2)).tolist() == [[3.0, 3.0]] * 2


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(WIDTH,), (N_ROWS, WIDTH), (3, N_ROWS, WIDTH)])
def test_a_fast_linear_map_has_the_values_and_gradients_of_pytorchs(bias, shape):
    torch.manual_seed(7)
    fast = Linear(WIDTH, N_OUT, bias=bias)
    found = []
    for way in (fast, lambda x: nn.functional.linear(x, fast.weight, fast.bias)):
        x = torch.linspace(-2, 2, torch.Size(shape).numel()).reshape(shape).requires_grad_()
        with fast_products(fast):
            value = way(x)
        found.append([value, *torch.autograd.grad(value.square().sum(), [x, *fast.parameters()])])
    assert "_LinearBackward" in names_of_nodes(found[0][0])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def names_of_nodes(value):
    """What made it, back to its leaves."""
    nodes, seen = [value.grad_fn], set()
    while nodes:
        node = nodes.pop()
        seen.add(node)
        nodes += [each for each, _ in node.next_functions if each is not None and each not in seen]
    return {type(node).__name__ for node in seen}


def test_gradients_pass_through_a_frozen_map_and_what_it_gave_may_be_changed_in_place():
    torch.manual_seed(13)
    fast, x = Linear(WIDTH, N_OUT), torch.randn(N_ROWS, WIDTH, requires_grad=True)
    fast.weight.requires_grad_(False)
    with fast_products(fast):
        found = torch.autograd.grad(fast(x).relu_().sum(), [x, fast.bias])
    expected = torch.autograd.grad(
        nn.functional.linear(x, fast.weight, fast.bias).relu().sum(), [x, fast.bias]
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
    assert not fast.is_fast


def test_a_model_with_fast_maps_is_compiled_whole():
    model = nn.Sequential(Linear(WIDTH, N_OUT), Linear(N_OUT, 2))
    x = torch.randn(N_ROWS, WIDTH)
    assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), model(x))


def test_outside_of_training_a_linear_map_can_be_differentiated_twice():
    fast, x = Linear(WIDTH, 1), torch.randn(N_ROWS, WIDTH)
    slope = torch.autograd.grad(fast(x).square().sum(), fast.weight, create_graph=True)[0]
    assert torch.autograd.grad(slope.sum(), fast.weight)[0].abs().max() > 0


@pytest.mark.parametrize("p", [0.2, 0.3, 0.9])
def test_dropout_drops_as_often_as_it_says_and_keeps_the_mean(p):
    torch.manual_seed(11)
    x = torch.ones(101, 997)
    seen = Dropout(p)(x)
    spread = (p * (1 - p) / x.numel()) ** 0.5
    assert (
        abs(float((seen == 0).float().mean()) - p) < 4 * spread + 1e-5
    )  # the probability itself is known to 1/65,536
    assert abs(float(seen.mean()) - 1) < 4 * spread / (1 - p)
    by_place = [
        float((seen.flatten()[place::4] == 0).float().mean()) for place in range(4)
    ]  # the four that share a draw
    assert max(by_place) - min(by_place) < 12 * spread
    together = ((seen.flatten()[:-1:4] == 0) & (seen.flatten()[1::4] == 0)).float().mean()
    assert abs(float(together) - p * p) < 12 * spread
    assert len(seen.unique()) == 2


def test_dropout_is_named_by_the_seed_and_absent_outside_of_training():
    x, dropout = torch.randn(7, 11), Dropout(0.4)
    masks = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masks.append(dropout(x) != 0)
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    assert dropout.eval()(x) is x
