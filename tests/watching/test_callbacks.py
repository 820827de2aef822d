"""Watching inside other people's training loops: Transformers' Trainer, Lightning, and two
processes of DDP.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("lightning")

import saccade  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from tests.patience import PATIENCE  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402

TEXTS = ["the eye scans the line", "then it snaps to the word that matters", "and rests"]


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "<unk>", *sorted({word for text in TEXTS for word in text.split()})]
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>"
    )


def gpt2():
    torch.manual_seed(1)
    return zoo.transformers_case("gpt2", "sdpa", None).model


def trainer_losses(tmp_path, callbacks, steps=5, checkpoint=None):
    data = [{"input_ids": row, "labels": row} for row in zoo.ids().repeat(8, 1)]
    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=steps,
        lr_scheduler_type="constant",
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no" if steps == 5 else "steps",
        save_steps=steps,
        seed=3,
    )
    trainer = transformers.Trainer(
        model=gpt2(), args=settings, train_dataset=data, callbacks=callbacks
    )
    trainer.train(resume_from_checkpoint=checkpoint)
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.filterwarnings("ignore")
def test_the_trainer_is_watched_and_not_disturbed(tmp_path, tokenizer):
    callback = saccade.TrainerCallback(
        TEXTS, tokenizer, every=1, budget=None, out=tmp_path / "watched"
    )
    assert trainer_losses(tmp_path / "a", [callback]) == trainer_losses(tmp_path / "b", [])
    record = saccade.load_record(tmp_path / "watched" / "record.zarr")
    assert record.time.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert record.loss.notnull().sum() == 5
    assert record.sizes["layer"] == 2
    assert record.entropy.notnull().all()
    settings = {"every": 1, "budget": None, "out": tmp_path / "stopped"}
    trainer_losses(tmp_path / "c", [saccade.TrainerCallback(TEXTS, tokenizer, **settings)], steps=3)
    trainer_losses(
        tmp_path / "c",
        [saccade.TrainerCallback(TEXTS, tokenizer, **settings)],
        checkpoint=str(tmp_path / "c/checkpoint-3"),
    )
    stitched = saccade.load_record(tmp_path / "stopped")
    assert json.loads(stitched.attrs["config"])["resumed"] == [3]
    for name in ("time", "entropy", "attention_map", "moved"):
        np.testing.assert_allclose(stitched[name], record[name], atol=1e-6, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family, n_layers", [("t5", 6), ("gpt2", 2)])
def test_texts_are_fitted_to_the_model(family, n_layers, tokenizer):
    model = zoo.transformers_case(family, "sdpa", None).model
    if family == "gpt2":
        model.config.max_position_embeddings = 3
    callback = saccade.TrainerCallback(TEXTS, tokenizer, budget=None)
    state = transformers.TrainerState()
    callback.on_train_begin(None, state, None, model=model)
    callback.on_step_begin(None, state, None)
    callback.on_train_end(None, state, None)
    assert callback.record.sizes["layer"] == n_layers
    if family == "gpt2":
        assert callback.record.sizes["key"] == 3


@pytest.mark.filterwarnings("ignore")
def test_lightning_is_watched(tmp_path):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = zoo.HandWritten("fused")

        def training_step(self, batch, index):
            loss = self.model(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(zoo.ids().repeat(8, 1)), batch_size=4
    )

    def trained(out, steps, checkpoint=None):
        torch.manual_seed(0)
        callback = saccade.LightningCallback(
            zoo.ids(), part="model", every=2, budget=None, out=tmp_path / out
        )
        trainer = lightning.Trainer(
            max_steps=steps,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            callbacks=[callback],
            enable_model_summary=False,
            default_root_dir=str(tmp_path),
        )
        trainer.fit(Module(), data, ckpt_path=checkpoint)
        trainer.save_checkpoint(tmp_path / "stopped.ckpt")
        return callback.record

    whole = trained("whole", 5)
    assert whole.time.values.tolist() == [0, 2, 4, 5]  # the last is what training has left
    assert (np.diff(whole.loss.values[1:3]) < 0).all()
    trained("stopped", 3)
    stitched = trained("stopped", 5, tmp_path / "stopped.ckpt")
    assert stitched.time.values.tolist() == [0, 2, 3, 4, 5]  # 3: where it was stopped
    for name in ("entropy", "attention_map"):
        np.testing.assert_allclose(
            stitched.sel(time=whole.time)[name], whole[name], atol=1e-6, err_msg=name
        )


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What two processes that train together leave: the record of a run, and what the first is told
    of weights that are spread.
    """
    folder = tmp_path_factory.mktemp("two_processes")
    code = f"""
        import os, sys, torch
        from pathlib import Path
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel
        import saccade
        from tests.watching import model_zoo as zoo
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        torch.manual_seed(0)
        model = DistributedDataParallel(zoo.HandWritten("fused"))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        with saccade.watch(model, zoo.ids(), every=1, budget=None, out={str(folder / "run")!r}) as recorder:
            for step in range(4):
                recorder.step(step)
                loss = model((zoo.ids() + rank) % zoo.N_VOCAB).square().mean()
                optimiser.zero_grad(); loss.backward(); optimiser.step()
        Path({str(folder)!r}, f"said by {{rank}}").write_text(str(saccade.timeline(recorder.record)))
        total = sum(p.double().sum() for p in model.parameters())
        sums = [torch.zeros((), dtype=torch.double) for _ in range(2)]
        dist.all_gather(sums, total.detach())
        assert sums[0] == sums[1], sums
        def trained(mesh, watched, every):
            torch.manual_seed(0)
            model = zoo.HandWritten("fused")
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
            settings = dict(every=every, out={str(folder / "spread")!r} + str(len(every)), budget=None, text=torch.arange(53))
            recorder = saccade.watch(model, zoo.ids(), **settings).__enter__() if watched else None
            for step in range(4):
                if watched:
                    recorder.step(step)
                loss = model((zoo.ids() + rank) % zoo.N_VOCAB).square().mean()
                if watched and step == 2:
                    recorder.observe(100)  # between forward and backward pass
                optimiser.zero_grad(); loss.backward()
                if watched and step == 3:
                    recorder.observe(200)  # before the update
                optimiser.step()
            if watched:
                recorder.finish()
            return {{name: value.full_tensor() for name, value in model.state_dict().items()}}

        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        bare, watched = trained(mesh, False, [0]), trained(mesh, True, [0, 1, 2, 3])
        assert all(torch.equal(bare[name], watched[name]) for name in bare)
        torch.manual_seed(0)
        whole = zoo.HandWritten("fused")
        if rank == 0:
            with saccade.watch(whole, zoo.ids(), every=[0], text=torch.arange(53), out={str(folder / "whole")!r}) as recorder:
                recorder.step(0)
        dist.barrier()
        from torch.distributed.tensor import Shard, distribute_tensor
        cut = distribute_tensor(whole.blocks[0].c_attn.weight.detach(), mesh, [Shard(0)])
        whole.blocks[0].c_attn.weight = torch.nn.Parameter(cut)
        if rank == 0:
            try:
                saccade.watch(whole, zoo.ids())
            except saccade.InputError as refusal:
                Path({str(folder / "refusal")!r}).write_text(str(refusal))
        dist.barrier()
        dist.destroy_process_group()
    """
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            "-m",
            "tests.watching.run_code",
        ],
        input=None,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"SACCADE_TEST_CODE": textwrap.dedent(code)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return folder


def test_the_record_of_every_process_but_the_first_is_empty_and_says_so(two_processes):
    first, second = (two_processes / f"said by {rank}" for rank in range(2))
    assert first.read_text().endswith("Nothing collapsed.")
    assert second.read_text().startswith("Process 1 records nothing: the record is in the first")


def test_of_two_processes_the_first_records_and_both_train_as_before(two_processes):
    assert saccade.load_record(two_processes / "run" / "record.zarr").time.values.tolist() == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_weights_that_fsdp_spreads_over_processes_are_gathered_for_a_look(two_processes):
    """Training is bit for bit as without; the weights at the end are compared in the processes
    themselves.
    """
    spread, whole = (saccade.load_record(two_processes / name) for name in ("spread4", "whole"))
    assert spread.time.values.tolist() == [0, 1, 2, 3, 4, 100, 200]
    first = spread.isel(time=0)
    for name in (
        "entropy",
        "attention_map",
        "qk_singular_values",
        "embedding_top_share",
        "distinct_mass",
    ):
        np.testing.assert_allclose(first[name], whole.isel(time=0)[name], atol=1e-6, err_msg=name)
    assert (spread.entropy.diff("time") != 0).any(("layer", "head")).sel(time=[1, 2, 3]).all()


def test_weights_that_are_spread_in_other_ways_are_refused(two_processes):
    assert "in a way that cannot be gathered" in (two_processes / "refusal").read_text()


@pytest.mark.parametrize("name", ["TrainerCallback", "LightningCallback"])
def test_records_of_callbacks_show_themselves(name):
    code = f"import saccade, xarray; saccade.{name}; xarray.Dataset.saccade"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_bad_arguments_of_callbacks_are_named(tokenizer):
    with pytest.raises(InputError, match="probe_texts"):
        saccade.TrainerCallback("one text", tokenizer)
    with pytest.raises(InputError, match="tokenizer"):
        saccade.TrainerCallback(TEXTS, None)
    with pytest.raises(InputError, match="nothing has been trained"):
        _ = saccade.LightningCallback(zoo.ids()).record
