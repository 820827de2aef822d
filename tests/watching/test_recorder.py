"""`saccade.watch` around real training loops: it sees, it writes, it stays within its budget, and
it leaves no trace.
"""

from __future__ import annotations

import json
import random
import re
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from saccade.watching.budget import Budget, schedule  # noqa: E402
from saccade.watching.self_check import UnfaithfulError  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402


class Small(nn.Module):
    """Dropout, a running statistic and a buffer that every pass writes to: all that a careless look
    would disturb.
    """

    def __init__(self):
        super().__init__()
        self.body = zoo.HandWritten("fused")
        self.norm = nn.BatchNorm1d(zoo.WIDTH)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(zoo.WIDTH, zoo.N_VOCAB)
        self.register_buffer("n_passes", torch.zeros(()))

    def forward(self, tokens):
        self.n_passes += 1
        x = self.norm(self.dropout(self.body(tokens)).flatten(0, 1)).unflatten(0, tokens.shape)
        return self.head(x)


def trained(watched, steps=9, wrap=lambda model: model):
    """Losses of a short run whose batches come from all three global generators."""
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    model = Small()
    model.norm.eval()  # a mode of its own, frozen by the user
    run = wrap(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    recorder = saccade.watch(run, zoo.ids(), every=2, budget=None) if watched else None
    if recorder:
        recorder.__enter__()
    losses = []
    for step in range(steps):
        if recorder:
            recorder.step(step, loss=losses[-1] if losses else None)
        shift = int(np.random.randint(zoo.N_VOCAB)) + random.randrange(5)  # noqa: NPY002
        batch = (torch.randint(0, zoo.N_VOCAB, (4, zoo.LENGTH)) + shift) % zoo.N_VOCAB
        loss = F.cross_entropy(run(batch)[:, :-1].flatten(0, 1), batch[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        if recorder:
            recorder.step(step)  # between backward and update: gradients must survive
        optimiser.step()
        losses.append(loss.item())
    return losses, model


def test_the_loss_curve_is_bit_identical_with_and_without_the_recorder():
    bare, watched = trained(False), trained(True)
    assert bare[0] == watched[0]
    for name, value in bare[1].state_dict().items():
        assert torch.equal(value, watched[1].state_dict()[name]), name


def test_the_record_is_a_labelled_dataset_with_definitions(tmp_path):
    model = Small()
    with saccade.watch(model, zoo.ids(), every=1, budget=None, out=tmp_path / "run") as recorder:
        for step in range(3):
            recorder.step(step, loss=1.0 / (step + 1))
    record = saccade.load_record(tmp_path / "run" / "record.zarr")
    assert record.entropy.dims == ("time", "layer", "head")
    assert record.layer.values.tolist() == ["body.blocks.0", "body.blocks.1"]
    assert record.attention_map.dims == ("time", "sequence", "layer", "head", "map_query", "key")
    np.testing.assert_allclose(record.attention_map.sum("key"), 1, atol=1e-5)
    assert all(record[name].attrs["definition"] for name in record.data_vars)
    np.testing.assert_allclose(record.loss, [1, 1 / 2, 1 / 3])
    assert json.loads(record.attrs["config"])["check"]["n_calls"] == 2
    assert record.moved.isel(time=0).isnull().all()
    assert (record.moved.isel(time=1) == 0).all()  # nothing was trained in between
    assert record.qk_effective_rank.sizes["weight_layer"] == 2


@pytest.mark.parametrize(
    "wrap",
    [lambda m: torch.compile(m, backend="eager"), nn.DataParallel],
    ids=["compiled", "data parallel"],
)
def test_a_wrapped_model_is_watched_through_its_original(wrap):
    bare, wrapped = trained(False, steps=3), trained(True, steps=3, wrap=wrap)
    np.testing.assert_allclose(bare[0], wrapped[0], rtol=1e-6)


def test_a_compiled_part_inside_a_model_is_seen():
    model = zoo.HandWritten("fused")
    model.blocks[1] = torch.compile(model.blocks[1], backend="eager")
    record = zoo.watched(model, zoo.ids())
    assert record.sizes["layer"] == 2


class NoAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return torch.softmax(self.layer(x), dim=-1)


class OwnSoftmax(nn.Module):
    """Attention by exponentials and a division: nothing that can be recognised."""

    def forward(self, x):
        scores = torch.exp(x @ x.mT)
        return scores / scores.sum(-1, keepdim=True) @ x


@pytest.mark.parametrize("model", [NoAttention(), OwnSoftmax()], ids=["none", "by exponentials"])
def test_a_model_of_which_nothing_is_seen_is_refused_loudly(model):
    with (
        pytest.raises(UnfaithfulError, match="no attention was seen"),
        saccade.watch(model, torch.randn(2, 5, 3)),
    ):
        pass


class Unused(zoo.HandWritten):
    def forward(self, tokens, mask=None):
        x = super().forward(tokens, mask)
        torch.softmax(x @ x.mT, dim=-1).sum()
        return x


def test_a_softmax_that_is_not_followed_is_named():
    with (
        saccade.watch(Unused("fused"), zoo.ids()) as recorder,
        pytest.warns(UserWarning, match="softmax over"),
    ):
        recorder.observe(0)
    assert json.loads(recorder.record.attrs["config"])["unseen"]


def test_wrong_weights_are_refused(monkeypatch):
    from saccade.watching import kernels

    true = kernels._products
    monkeypatch.setattr(kernels, "_products", lambda q, k, dtype: 1.02 * true(q, k, dtype))
    with (
        pytest.raises(UnfaithfulError, match="differs from what the model computes"),
        zoo.watching(),
    ):
        pass


def test_the_default_schedule_is_log_spaced_and_then_regular():
    due = schedule("log")
    steps = [step for step in range(100_001) if due(step)]
    assert steps[:11] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]
    assert {2**power for power in range(17)} <= set(steps)
    assert set(range(0, 100_001, 1000)) <= set(steps)
    late = np.array([step for step in steps if 8 <= step <= 1000])
    ratio = late[1:] / late[:-1]
    assert ratio.min() > 1.08
    assert ratio.max() < 1.25


@pytest.mark.parametrize(("n_steps", "look_s"), [(200, 0.03), (620, 0.1), (1500, 0.1), (1500, 0.4)])
def test_short_runs_are_looked_at_all_along_whatever_the_budget_says(n_steps, look_s, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("saccade.watching.budget.time.perf_counter", lambda: clock[0])
    budget, due, looked = Budget(0.02), schedule("log"), []
    budget.start(already=60.0)  # a slow check takes no look away
    for step in range(n_steps):
        if due(step) and budget.allows_a_look(step):
            clock[0] += look_s
            budget.took(look_s)
            looked.append(step)
        clock[0] += 0.02
    assert budget.looking <= 10
    assert len(looked) >= (30 if look_s <= 0.1 else 9)
    gaps = np.diff(np.log2([step for step in looked if step >= 4] + [n_steps]))
    assert gaps.max() < (1.1 if look_s <= 0.1 else 2)  # doublings without a look


@pytest.mark.parametrize("step_s", [0.005, 0.05, 0.5])
@pytest.mark.parametrize("n_steps", [2000, 20_000])
def test_a_run_of_two_thousand_steps_keeps_to_its_share_or_to_four_seconds(
    n_steps, step_s, monkeypatch
):
    clock = [0.0]
    monkeypatch.setattr("saccade.watching.budget.time.perf_counter", lambda: clock[0])
    budget = Budget(0.02)
    budget.start(already=0.0)
    for step in range(n_steps):
        if budget.allows_a_look(step):  # at every step that is allowed
            clock[0] += 0.1
            budget.took(0.1)
        clock[0] += step_s
    assert budget.looking <= max(4.0, 0.02 * n_steps * step_s)


def test_looks_beyond_the_budget_are_left_out_and_listed(monkeypatch, capsys):
    from saccade.watching import observer as module

    true, clock = module.look, [0.0]

    def slow(*args):
        clock[0] += 0.1
        return true(*args)

    monkeypatch.setattr("saccade.watching.budget.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(module, "look", slow)
    with zoo.watching(every=1, budget=0.1, weights=False) as recorder:
        for step in range(60):
            clock[0] += 0.02
            recorder.step(step)
    record = recorder.record
    config = json.loads(record.attrs["config"])
    assert sorted(config["thinned"] + record.time.values.tolist()) == list(range(60))
    assert len(config["thinned"]) > 10
    took = (
        float(
            re.search(
                r"observing took [\d.e-]+ s, ([\d.e+-]+) % of training time",
                capsys.readouterr().err,
            )[1]
        )
        / 100
    )
    assert took == pytest.approx(
        recorder._budget.looking / recorder._budget.training, rel=0.06
    )  # said with two digits
    assert record.time.values.tolist()[:3] == [0, 1, 2]


def test_a_budget_of_two_percent_is_kept_by_all_that_watching_costs(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("saccade.watching.budget.time.perf_counter", lambda: clock[0])
    budget = Budget(0.02)
    budget.start(already=5.0)
    for step in range(100_000):
        clock[0] += 0.01
        if budget.allows_a_look(step):
            clock[0] += 0.3
            budget.took(0.3)
    loading, check, closing = 1.0, 5.0, 0.25 * budget.looking
    assert 0.015 < (loading + check + budget.looking + closing) / budget.training <= 0.02


def test_numbers_are_forwarded_by_measure_and_layer(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    seen = []
    each = []
    logged = []

    class Run:  # as Weights & Biases has it: `step` belongs to the loop that logs by itself
        def define_metric(self, name, **settings):
            logged.append((name, settings.get("step_metric")))

        def log(self, values):
            logged.append(("log", values))

    writer = SummaryWriter(tmp_path / "board")
    model = zoo.HandWritten("fused")
    with saccade.watch(
        model, zoo.ids(), forward=[lambda step, values: seen.append((step, values)), Run(), writer]
    ) as recorder:
        recorder.observe(7)
        recorder.observe(8)
    with saccade.watch(
        model, zoo.ids(), forward=lambda step, values: each.append(values), forward_heads=True
    ) as other:
        other.observe(7)
    writer.close()
    (step, values), record = seen[0], recorder.record
    assert step == 7
    assert values["saccade_entropy/layer1"] == pytest.approx(float(record.entropy[0, 1].mean()))
    assert values["saccade_largest_logit/layer1"] == pytest.approx(
        float(record.largest_logit[0, 1].max())
    )
    assert values["saccade_qk_top_share/layer0"] == pytest.approx(
        float(record.qk_top_share[0, 0].mean())
    )
    assert values["saccade/sink_share"] == pytest.approx(float(record.sink_share[0]))
    n_groups = len({key.partition("/")[0] for key in values})
    assert len(values) <= 2 * n_groups + len(
        [key for key in values if key.startswith("saccade/")]
    )  # a curve a layer
    assert each[0]["saccade_entropy/layer1/head3"] == pytest.approx(
        float(other.record.entropy[0, 1, 3])
    )
    assert "saccade_decile_focus/layer1/head3/decile9" in each[0]
    assert logged[:2] == [("saccade/step", None), ("saccade*", "saccade/step")]
    assert logged[2] == ("log", values | {"saccade/step": 7})
    assert [what for what, _ in logged[3:]] == ["log"]
    assert list((tmp_path / "board").iterdir())


def test_bad_arguments_are_named(tmp_path):
    model = zoo.HandWritten("fused")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    for settings, word in [
        ({"every": "often"}, "every"),
        ({"every": 0}, "every"),
        ({"budget": -1}, "budget"),
        ({"maps": [99]}, "maps"),
        ({"out": tmp_path / "full"}, "not empty"),
        ({"forward": 3}, "forward"),
    ]:
        with pytest.raises(InputError, match=word):
            saccade.watch(model, zoo.ids(), **settings)
    with pytest.raises(InputError, match="probe"):
        saccade.watch(model, "text")
    with pytest.raises(InputError, match="model"):
        saccade.watch("model", zoo.ids())


class Variant(zoo.Heads):
    """One layer of attention written in a way of its own; `way` makes what is read from scores and
    values.
    """

    def __init__(self, way):
        super().__init__()
        self.way, self.embedding.max_norm = way, 1.0

    def forward(self, tokens):
        heads = self.heads(tokens)
        return self.way(heads @ heads.mT, heads)


def test_axes_of_an_einsum_are_read_from_its_equation():
    plain = Variant(lambda scores, v: scores.softmax(-1) @ v)
    turned = Variant(
        lambda scores, v: torch.einsum("bqhk,bhkd->bhqd", scores.permute(0, 2, 1, 3).softmax(-1), v)
    )
    named = Variant(lambda scores, v: torch.matmul(input=scores.softmax(-1), other=v))
    dotted = Variant(lambda scores, v: torch.einsum("...qk,...kd->...qd", scores.softmax(-1), v))
    found = []
    for model in (plain, turned, named, dotted):
        model.load_state_dict(plain.state_dict())
        record = zoo.watched(model, zoo.ids())
        found.append(record.entropy.values)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)


def test_a_gate_is_not_attention():
    gate = nn.Parameter(torch.randn(zoo.LENGTH, 5))
    gated = Variant(
        lambda scores, v: scores.softmax(-1) @ v + 0 * (scores.softmax(-1) @ gate).sum()
    )
    with pytest.warns(UserWarning, match="softmax over"):
        record = zoo.watched(gated, zoo.ids())
    assert record.sizes["layer"] == 1


def test_weights_that_a_pass_renormalises_are_put_back():
    model = Variant(lambda scores, v: scores.softmax(-1) @ v)
    before = model.embedding.weight.detach().clone()
    zoo.watched(model, zoo.ids())
    assert torch.equal(model.embedding.weight, before)


class WithFirstToken(zoo.HandWritten):
    def forward(self, tokens, mask=None):
        return super().forward(torch.cat([torch.zeros_like(tokens[:, :1]), tokens], dim=1))


def test_a_model_that_adds_a_token_keeps_its_record(tmp_path):
    zoo.watched(WithFirstToken("fused"), zoo.ids(), out=tmp_path / "run")
    assert (
        saccade.load_record(tmp_path / "run" / "record.zarr").sizes["map_query"] == zoo.LENGTH + 1
    )


def test_weights_that_are_not_numbers_are_refused():
    model = zoo.HandWritten("fused")
    nn.init.constant_(model.blocks[0].c_attn.weight, float("nan"))
    with pytest.raises(UnfaithfulError), saccade.watch(model, zoo.ids()):
        pass


@pytest.mark.parametrize("kernel", ["by_hand", "fused"])
def test_attention_under_autocast_is_watched(kernel):
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        saccade.watch(zoo.HandWritten(kernel), zoo.ids()) as recorder,
    ):
        recorder.observe(0)
        assert torch.is_autocast_enabled("cpu")
    assert recorder.check.worst < 1e-3


@pytest.mark.parametrize("most", [3, 1024])
def test_the_loss_of_every_step_is_kept_though_few_are_looked_at(most, tmp_path, monkeypatch):
    monkeypatch.setattr("saccade.watching.losses._MOST_UNREAD", most)
    sent = []
    settings = {
        "every": [0, 3, 10],
        "out": tmp_path / "run",
        "weights": False,
        "forward": lambda step, values: sent.extend(values),
    }
    with zoo.watching(**settings) as recorder:
        loss = torch.zeros(())
        for step in range(14):
            loss.fill_(step / 7)  # in place: what is kept must not change with it
            recorder.step(step, loss if step != 5 else None)
        with torch.no_grad():
            recorder._model.embedding.weight.add_(1.0)
    assert not any("step_loss" in name for name in sent)  # trackers have their own
    found = saccade.load_record(tmp_path / "run").saccade.losses()
    assert found.step.values.tolist() == [step for step in range(14) if step != 5]
    np.testing.assert_allclose(found.values * 7, found.step.values, rtol=1e-6)


def test_losses_told_with_the_last_look_or_after_the_step_of_a_look_are_kept():
    with zoo.watching(every=[0], weights=False) as recorder:
        for step in range(6):
            recorder.step(
                step, torch.tensor(1j) if step == 1 else step / 4
            )  # what is no real number costs no other loss
        recorder.observe(3)
        with torch.no_grad():
            recorder._model.embedding.weight.add_(1.0)
        recorder.finish(9.0)
    found = recorder.record.saccade.losses()
    assert found.step.values.tolist() == [0, 2, 3, 4, 5, 6]
    assert found.values.tolist() == [0, 0.5, 0.75, 1, 1.25, 9]


def test_losses_that_wait_for_a_look_are_few_numbers_however_far_apart_steps_are_and_whatever_is_given(
    monkeypatch,
):
    class Answer:
        """A model's answer, with the graph that it holds."""

    answers = []
    with zoo.watching(every=[0, 10**9], weights=False) as recorder:
        recorder.step(0, 1.0)
        for step in range(1, 40):
            answer = Answer()
            answers.append(weakref.ref(answer))
            recorder.step(step, answer)
            recorder.step(step, torch.zeros(1000))
            del answer
        assert not any(answer() for answer in answers)
        assert not recorder._losses
        monkeypatch.setattr("saccade.watching.losses._MOST_BACK", 100)
        monkeypatch.setattr("saccade.watching.losses._MOST_UNREAD", 16)
        for step in range(10**9 - 2000, 10**9 + 1):
            recorder.step(step, float(step % 7))
            assert len(recorder._losses) <= 116
    found = recorder.record.step_loss.sel(time=10**9).values
    assert found.tolist() == [(10**9 - back) % 7 for back in range(100)]


def test_a_process_that_does_not_look_keeps_no_losses(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    with zoo.watching() as recorder:
        for step in range(20):
            recorder.step(step, 1.0)
    assert not recorder._losses
