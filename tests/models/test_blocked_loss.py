"""The loss in blocks against PyTorch's on whole logits, and against finite differences."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from saccade.models import blocked_loss  # noqa: E402
from saccade.models.blocked_loss import blocked_cross_entropy  # noqa: E402

N_ROWS, WIDTH, N_VOCAB = 23, 5, 37


@pytest.fixture(
    params=[1, 4 * N_VOCAB, 8 * N_VOCAB, 2**23],
    ids=["row by row", "even blocks", "a shorter last block", "one block"],
)
def block_size(request, monkeypatch):
    monkeypatch.setattr(blocked_loss, "ENTRIES_PER_BLOCK", request.param)


def inputs(dtype, scale=1.0, with_bias=True):
    torch.manual_seed(3)
    hidden = torch.randn(N_ROWS, WIDTH, dtype=dtype) * scale
    parts = [hidden, torch.randn(N_VOCAB, WIDTH, dtype=dtype)] + (
        [torch.randn(N_VOCAB, dtype=dtype)] if with_bias else []
    )
    return [part.requires_grad_() for part in parts], torch.randint(0, N_VOCAB, (N_ROWS,))


@pytest.mark.usefixtures("block_size")
@pytest.mark.parametrize("with_bias", [True, False])
def test_gradients_equal_finite_differences(with_bias):
    parts, targets = inputs(torch.float64, with_bias=with_bias)

    def loss(hidden, weight, bias=None):
        return 3 * blocked_cross_entropy(hidden, weight, bias, targets)

    assert torch.autograd.gradcheck(loss, parts)


@pytest.mark.usefixtures("block_size")
@pytest.mark.parametrize("scale", [1.0, 100.0], ids=["ordinary", "probabilities that underflow"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-13)])
def test_loss_and_gradients_equal_those_of_whole_logits(dtype, tolerance, scale):
    parts, targets = inputs(dtype, scale)
    results = []
    for loss in (
        blocked_cross_entropy(*parts, targets),
        F.cross_entropy(F.linear(*parts), targets),
    ):
        results.append([loss.detach(), *torch.autograd.grad(loss, parts)])
    for ours, theirs in zip(*results, strict=True):
        assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


def test_a_second_backward_pass_gives_the_same_gradients():
    parts, targets = inputs(torch.float64)
    loss = blocked_cross_entropy(*parts, targets)
    first, second = (torch.autograd.grad(2 * loss, parts, retain_graph=True) for _ in range(2))
    for ours, again in zip(first, second, strict=True):
        assert torch.equal(ours, again)


def test_only_what_is_asked_for_gets_a_gradient():
    (hidden, weight, bias), targets = inputs(torch.float64)
    weight.requires_grad_(False)
    blocked_cross_entropy(hidden, weight, bias, targets).backward()
    assert weight.grad is None
    assert hidden.grad is not None
    with torch.no_grad():
        assert not blocked_cross_entropy(hidden, weight, bias, targets).requires_grad


def test_logits_are_never_there_as_a_whole(monkeypatch):
    """The largest tensor that is made has as many entries as a block, the weight or the hidden
    states.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    monkeypatch.setattr(blocked_loss, "ENTRIES_PER_BLOCK", 4 * N_VOCAB)
    largest = 0

    class Largest(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            made = func(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor):
                largest = max(largest, made.numel())
            return made

    parts, targets = inputs(torch.float32)
    with Largest():
        blocked_cross_entropy(*parts, targets).backward()
    assert largest == max(4 * N_VOCAB, N_VOCAB * WIDTH) < N_ROWS * N_VOCAB


@pytest.mark.parametrize(
    ("room", "rows"), [(1, 1), (4, 4), (8, 8), (9, 8), (22, 12), (23, 23), (1000, 23)]
)
def test_blocks_are_few_and_even(monkeypatch, room, rows):
    """23 rows in as few blocks as fit, all of about one height: 8 + 8 + 7 where nine rows would
    fit, 12 + 11 where 22 would.
    """
    monkeypatch.setattr(blocked_loss, "ENTRIES_PER_BLOCK", room * N_VOCAB + N_VOCAB - 1)
    assert blocked_loss._rows_per_block(N_ROWS, N_VOCAB) == rows
