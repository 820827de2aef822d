"""Checkpoints that are damaged, dangerous, or not of one run: each said in a sentence, and the
others looked at all the same.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from saccade.errors import InputError  # noqa: E402
from saccade.watching.checkpoints import observe_checkpoints  # noqa: E402
from saccade.watching.checkpoints.files import UnreadableError  # noqa: E402
from saccade.watching.checkpoints.tensors import read_tensors  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402
from tests.watching.checkpoint_runs import Tied, assert_same, findings, sentences, transformer  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Models this small wait for each other's threads more than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_duplicate_a_missing_step_and_a_step_of_another_run_are_said(folder):
    probe = {"input_ids": zoo.ids()}
    shutil.rmtree(folder / "checkpoint-12")
    assert findings(
        observe_checkpoints(folder, probe=probe), "missing", "off path", "duplicate"
    ) == [("missing", [12])]
    transformer("gpt2", seed=8).save_pretrained(folder / "checkpoint-9")
    record = observe_checkpoints(folder, probe=probe)
    assert findings(record, "missing", "off path", "duplicate") == [
        ("missing", [12]),
        ("off path", [9]),
    ]
    assert float(record.path_distance.sel(time=9)) > 2 * float(
        record.path_distance.drop_sel(time=9).max()
    )
    shutil.copytree(folder / "checkpoint-6", folder / "checkpoint-12")
    found = findings(observe_checkpoints(folder, probe=probe), "missing", "duplicate")
    assert found == [("duplicate", [6, 12])]


def test_any_bit_of_the_directory_of_a_file_of_pytorch_that_flips_is_a_sentence_or_does_no_harm(
    tmp_path,
):
    """In the entry of the pickle; another entry may lead to other numbers, and PyTorch compares no
    checksums.
    """
    file = tmp_path / "step-1.pt"
    torch.save({"w": torch.arange(7.0)}, file)
    content = file.read_bytes()
    begins = content.index(b"PK\1\2")
    n_refused = 0
    for place in range(begins, content.index(b"PK\1\2", begins + 1)):
        for bit in range(8):
            file.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
            )
            try:
                assert read_tensors(file)["w"].tolist() == list(range(7))
            except UnreadableError:
                n_refused += 1
    assert n_refused > 100


@pytest.mark.parametrize(
    "told",
    [
        {"n_embd": [1, 2]},
        {"n_embd": 0},
        {"n_head": "x"},
        {"n_head": 0},
        {"vocab_size": -1},
        {"n_positions": -1},
        {"architectures": [3]},
    ],
    ids=str,
)
def test_a_configuration_with_a_value_that_is_none_is_a_sentence(tmp_path, told):
    config = {
        "model_type": "gpt2",
        "n_layer": 1,
        "n_head": 2,
        "n_embd": 4,
        "vocab_size": 5,
        "n_positions": 8,
    }
    (tmp_path / "config.json").write_text(json.dumps(config | told))
    save_file(
        {"wte.weight": torch.zeros(5, 4)}, tmp_path / "model.safetensors", metadata={"format": "pt"}
    )
    with pytest.raises(InputError, match=r"config\.json|was left out"):
        observe_checkpoints(tmp_path)


def test_damaged_checkpoints_are_left_out_with_a_sentence_and_the_others_kept(folder):
    def cut(file, n):
        file.write_bytes(file.read_bytes()[:n])

    cut(folder / "checkpoint-3/model.safetensors", 1000)
    cut(folder / "checkpoint-6/model.safetensors", 0)
    torch.save(
        load_file(folder / "checkpoint-9/model.safetensors"),
        folder / "checkpoint-9/pytorch_model.bin",
    )
    (folder / "checkpoint-9/model.safetensors").unlink()
    cut(folder / "checkpoint-9/pytorch_model.bin", 20_000)
    (folder / "checkpoint-12/model.safetensors").unlink()
    tensors = load_file(folder / "checkpoint-15/model.safetensors")
    tensors["transformer.wte.weight"][3, 5] = torch.nan
    save_file(tensors, folder / "checkpoint-15/model.safetensors", metadata={"format": "pt"})
    record = observe_checkpoints(folder, probe={"input_ids": zoo.ids()})
    assert record.time.values.tolist() == [0, 18]
    assert findings(record, "left out", "missing") == [
        ("left out", [step]) for step in (3, 6, 9, 12, 15)
    ]
    said = sentences(record)
    assert said.count("truncated or damaged") == 3
    assert "checkpoint-12 was left out: it holds no weights" in said
    assert (
        "checkpoint-15 was left out: its tensor transformer.wte.weight holds values that are not numbers"
        in said
    )
    with pytest.raises(
        InputError, match=r"no checkpoint of .* can be read.* checkpoint-6/model.safetensors"
    ):
        observe_checkpoints([folder / "checkpoint-6", folder / "checkpoint-12"])


def test_a_missing_shard_leaves_its_checkpoint_out(runs, tmp_path):
    folder = Path(shutil.copytree(runs["llama-grouped"][0], tmp_path / "run"))
    shard = sorted((folder / "checkpoint-6").glob("model-00002-of-*"))[0]
    shard.unlink()
    index = folder / "checkpoint-9/model.safetensors.index.json"
    index.write_text(index.read_text()[:100])
    record = observe_checkpoints(folder, probe={"input_ids": zoo.ids()})
    assert findings(record, "left out") == [("left out", [6]), ("left out", [9])]
    assert shard.name in sentences(record)


@pytest.mark.parametrize("how", ["zip", "new zip", "legacy", "bare pickle", "old pickle"])
@pytest.mark.parametrize("call", [os.system, exec, open])
def test_a_pickle_that_wants_to_execute_code_is_refused_and_not_executed(
    own_run, tmp_path, how, call
):
    target = tmp_path / "executed"
    arguments = {
        os.system: (f"touch {target}",),
        exec: (f"import pathlib; pathlib.Path({str(target)!r}).touch()",),
        open: (str(target), "w"),
    }[call]

    class Payload:
        def __reduce__(self):
            return call, arguments

    content = own_run[3] | {"extra": Payload()}
    if how in ("zip", "new zip", "legacy"):
        protocol = 4 if how == "new zip" else 2
        torch.save(
            content,
            tmp_path / "step3.pt",
            pickle_protocol=protocol,
            _use_new_zipfile_serialization=how != "legacy",
        )
    else:
        (tmp_path / "step3.pt").write_bytes(
            pickle.dumps({"extra": Payload()}, protocol=4 if how == "bare pickle" else 0)
        )
    torch.save(own_run[0], tmp_path / "step0.pt")
    record = observe_checkpoints(tmp_path)
    assert not target.exists()
    assert record.time.values.tolist() == [0]
    assert f"{tmp_path.name}/step3.pt was refused: it is a pickle" in sentences(record)
    assert call.__name__ in sentences(record)
    made = pickle.Unpickler(io.BytesIO(pickle.dumps(Payload()))).load()
    assert target.exists()  # the payload is a real one
    if call is open:
        made.close()


def test_weights_that_do_not_fit_the_model_are_named(own_run, tmp_path):
    for step, state in own_run.items():
        torch.save(state, tmp_path / f"step{step}.pt")
    torch.save(
        {k: v for k, v in own_run[3].items() if "blocks.1" not in k} | {"new": torch.ones(2)},
        tmp_path / "step3.pt",
    )
    torch.save(
        own_run[6] | {"body.blocks.0.c_proj.weight": torch.ones(3, 5)}, tmp_path / "step6.pt"
    )
    record = observe_checkpoints(tmp_path, model=Tied(), probe=zoo.ids())
    assert record.time.values.tolist() == [0, 9, 12, 15, 18]
    assert (
        "step3.pt was left out: its tensors do not fit the model, without body.blocks.1.c_attn.bias"
        in sentences(record)
    )
    assert "with unknown new" in sentences(record)
    assert "with another shape of body.blocks.0.c_proj.weight" in sentences(record)
    assert ("other tensors", [3]) not in findings(record, "other tensors")  # it was not looked at


def test_a_transformer_is_never_looked_at_with_weights_drawn_at_random(folder):
    tensors = load_file(folder / "checkpoint-3/model.safetensors")
    lost = tensors.pop("transformer.h.1.attn.c_attn.weight")
    save_file(tensors, folder / "checkpoint-3/model.safetensors", metadata={"format": "pt"})
    wrong = load_file(folder / "checkpoint-6/model.safetensors") | {
        "transformer.h.1.attn.c_attn.weight": lost.T.contiguous()
    }
    save_file(wrong, folder / "checkpoint-6/model.safetensors", metadata={"format": "pt"})
    record = observe_checkpoints(folder, probe={"input_ids": zoo.ids()})
    assert findings(record, "left out") == [("left out", [3]), ("left out", [6])]
    assert sentences(record).count("transformer.h.1.attn.c_attn.weight") == 2


def test_a_configuration_that_changes_on_the_way_is_said(folder):
    place = folder / "checkpoint-9/config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"n_head": 2}))
    record = observe_checkpoints(folder, probe={"input_ids": zoo.ids()})
    assert findings(record, "other config") == [("other config", [9])]
    assert "n_head" in sentences(record)


def test_code_beside_a_checkpoint_is_run_only_if_it_is_trusted_by_name(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = tmp_path / "run"
    shutil.copytree(runs["gpt2"][0] / "checkpoint-0", folder / "checkpoint-0")
    place = folder / "checkpoint-0"
    config = json.loads((place / "config.json").read_text())
    own = {
        "model_type": "own-gpt",
        "architectures": ["OwnModel"],
        "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    }
    (place / "config.json").write_text(json.dumps(config | own))
    (place / "own.py").write_text(
        "from transformers import GPT2Config, GPT2LMHeadModel\n"
        f"open({str(tmp_path / 'executed')!r}, 'w').close()\n"
        "class OwnConfig(GPT2Config):\n    model_type = 'own-gpt'\n"
        "class OwnModel(GPT2LMHeadModel):\n    config_class = OwnConfig\n"
    )
    with pytest.raises(InputError, match="--trust-remote-code"):
        observe_checkpoints(folder)
    assert not (tmp_path / "executed").exists()
    record = observe_checkpoints(folder, probe={"input_ids": zoo.ids()}, trust_remote_code=True)
    assert (tmp_path / "executed").exists()
    assert_same(runs["gpt2"][1].drop_vars("moved"), record, steps=[0])
