"""What a script does around a watched run costs no record: other folders, other devices, layers
that come and go.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import saccade  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from saccade.watching.weight_statistics import weight_statistics  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402


def test_a_script_that_changes_its_folder_while_it_trains_leaves_one_run(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with zoo.watching(every=1, budget=None, out="run") as recorder:
        for step in range(4):
            recorder.step(step)
            os.chdir(tmp_path / "elsewhere")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert saccade.load_record(tmp_path / "run").time.values.tolist() == [0, 1, 2, 3]
    assert (tmp_path / "run" / "report.html").is_file()


class Growing(nn.Module):
    """A stack of attention that a script may make longer, and lay aside in part."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(zoo.N_VOCAB, zoo.WIDTH)
        self.layers = nn.ModuleDict({"first": self.layer(), "second": self.layer()})

    def layer(self):
        return nn.MultiheadAttention(zoo.WIDTH, zoo.HEADS, batch_first=True)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers.values():
            x = x + layer(x, x, x)[0]
        return x


def test_weights_of_layers_that_come_and_go_are_kept_by_name(tmp_path):
    torch.manual_seed(0)
    model, own = Growing(), {}
    with saccade.watch(
        model, zoo.ids(), every=[0, 1, 3], budget=None, out=tmp_path / "run"
    ) as recorder:
        for step in range(4):
            if step == 1:
                model.layers["third"] = model.layer()
            if step == 3:
                del model.layers["first"]
            recorder.step(step)
            own[step] = weight_statistics(model)
            with torch.no_grad():
                next(model.parameters()).mul_(1.1)
    record = saccade.load_record(tmp_path / "run")
    assert record.weight_layer.values.tolist() == ["layers.first", "layers.second", "layers.third"]
    for step in (0, 1, 3):
        seen = record.qk_top_share.sel(time=step)
        for place, layer in enumerate(own[step].layers):
            np.testing.assert_allclose(
                seen.sel(weight_layer=layer), own[step].values["qk_top_share"][place], rtol=1e-6
            )
        assert int(seen.isnull().all("weight_head").sum()) == 3 - len(own[step].layers)


def test_a_default_device_of_the_users_is_not_that_of_what_watching_computes():
    model, probe, documents = (
        zoo.HandWritten("fused"),
        zoo.ids(),
        np.ones((zoo.BATCH, zoo.LENGTH), int),
    )
    records = []
    for device in (None, "meta"):  # stands for an accelerator: what lands there is lost
        torch.set_default_device(device)
        try:
            record = zoo.watched(model, probe, budget=None, documents=documents)
        finally:
            torch.set_default_device(None)
        records.append(record)
    for name in records[0].data_vars:
        if name != "look_seconds":
            np.testing.assert_array_equal(
                records[1][name].values, records[0][name].values, err_msg=name
            )


def test_a_probe_without_numbers_and_a_folder_that_cannot_be_named_are_refused_in_a_sentence():
    with pytest.raises(InputError, match="`meta`"):
        saccade.watch(zoo.HandWritten("fused"), zoo.ids().to("meta"))
    with pytest.raises(InputError, match="`out` must be"):
        zoo.watching(out="run\0")


def test_a_step_beyond_all_training_costs_no_record(tmp_path):
    with zoo.watching(out=tmp_path / "run") as recorder:
        recorder.step(0, 1.0)
        with pytest.warns(UserWarning, match="`step` must be"):
            recorder.step(10**30, 1.0)
        recorder.step(1, 1.0)
    assert saccade.load_record(tmp_path / "run").time.values.tolist() == [0, 1]


@pytest.mark.parametrize(
    "given", [lambda ids: ids, lambda ids: (ids,), lambda ids: {"tokens": ids}]
)
def test_a_probe_whose_tensor_is_filled_with_the_next_batch_stays_what_it_was(given):
    model, ids = zoo.HandWritten("fused"), zoo.ids()
    with saccade.watch(model, given(ids), budget=None) as recorder:
        recorder.observe(0)
        ids.zero_()
        recorder.observe(1)
    seen = recorder.record.entropy.values
    np.testing.assert_array_equal(seen[1], seen[0])


def test_neither_are_documents_nor_what_drives_attention_read_again_from_what_was_given():
    model, ids, documents = zoo.HandWritten("fused"), zoo.ids(), torch.ones_like(zoo.ids())

    def loss(model, probe):
        return model(probe).square().mean()

    with saccade.watch(model, ids, documents=documents, drive=loss, budget=None) as recorder:
        recorder.observe(0)
        ids.zero_()
        documents.zero_()
        recorder.observe(1)
    for name in ("entropy", "drive_rate"):
        seen = recorder.record[name].values
        np.testing.assert_array_equal(seen[1], seen[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings(
    "ignore:.*fork"
)  # JAX, where an earlier test has loaded it, and newer Pythons warn of it
def test_a_run_that_has_ended_goes_on_elsewhere_though_a_process_forked_meanwhile_is_alive(
    tmp_path,
):
    with zoo.watching(out=tmp_path / "run") as recorder:
        recorder.step(0)
        child = sleeping_copy()  # as workers of a loader are made
    try:
        another = os.open(
            tmp_path / "run" / "observations", os.O_RDONLY
        )  # as another process would ask
        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(another)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def sleeping_copy():
    """A forked process that does nothing, and nothing of ours after a signal."""
    child = os.fork()
    if child == 0:
        try:
            time.sleep(60)
        finally:
            os._exit(0)
    return child


class UnknownNames(nn.Module):
    """Attention whose matrices have names that nobody knows."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mixer = (
            nn.Embedding(zoo.N_VOCAB, zoo.WIDTH),
            nn.Linear(zoo.WIDTH, 3 * zoo.WIDTH),
        )

    def forward(self, tokens):
        mixed = (
            self.mixer(self.embedding(tokens))
            .unflatten(-1, (3, zoo.HEADS, -1))
            .permute(2, 0, 3, 1, 4)
        )
        return nn.functional.scaled_dot_product_attention(*mixed)


def test_what_is_not_recognised_in_weights_is_said_once(capsys):
    model = UnknownNames()
    assert weight_statistics(model).layers == []
    with saccade.watch(model, zoo.ids(), every=1, budget=None) as recorder:
        for step in range(4):
            recorder.step(step)
    said = [line for line in capsys.readouterr().err.splitlines() if "weights:" in line]
    assert said
    assert len(said) == len(set(said))
