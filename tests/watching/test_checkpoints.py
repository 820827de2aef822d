"""Checkpoints of short training runs show what was seen while the runs went on."""

from __future__ import annotations

import gc
import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from saccade.errors import InputError  # noqa: E402
from saccade.records.store import load_record  # noqa: E402
from saccade.watching import checkpoints as module  # noqa: E402
from saccade.watching.checkpoints import observe_checkpoints  # noqa: E402
from saccade.watching.checkpoints.files import step_of  # noqa: E402
from saccade.watching.command import observe_command  # noqa: E402
from saccade.watching.undisturbed import undisturbed  # noqa: E402
from saccade.watching.weight_statistics import weight_statistics  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402
from tests.watching.checkpoint_runs import (  # noqa: E402
    STEPS,
    Tied,
    assert_same,
    findings,
    sentences,
    transformer,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Models this small wait for each other's threads more than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# What is seen
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "llama-grouped"])
def test_checkpoints_show_afterwards_what_was_seen_while_the_run_went_on(runs, family, tmp_path):
    folder, watched = runs[family]
    record = observe_checkpoints(folder, probe={"input_ids": zoo.ids()}, out=tmp_path / "out")
    assert set(record.data_vars) == set(watched.data_vars) | {"path_distance"}
    assert record.time.values.tolist() == list(STEPS)
    assert_same(watched, record)
    assert not np.allclose(
        record.entropy[0], record.entropy[-1], rtol=1e-6
    )  # there was something to see
    assert np.isfinite(record.qk_effective_rank).all()  # at every step
    assert findings(record, "duplicate", "missing", "off path", "left out") == []
    stored = load_record(tmp_path / "out" / "record.zarr")
    assert stored.attrs["findings"] == record.attrs["findings"]
    assert stored.checkpoint.values.tolist() == [f"checkpoint-{step}" for step in STEPS]


def test_pytorch_files_and_half_precision_are_read_like_safetensors(runs, folder):
    for step in (3, 6):
        place = folder / f"checkpoint-{step}"
        torch.save(load_file(place / "model.safetensors"), place / "pytorch_model.bin")
        (place / "model.safetensors").unlink()
        torch.save({"state": {}}, place / "optimizer.pt")
    narrow = {
        name: tensor.bfloat16()
        for name, tensor in load_file(folder / "checkpoint-9/model.safetensors").items()
    }
    save_file(narrow, folder / "checkpoint-9/model.safetensors", metadata={"format": "pt"})
    record = observe_checkpoints(folder, probe={"input_ids": zoo.ids()})
    assert_same(runs["gpt2"][1].drop_vars("moved"), record, steps=(0, 3, 6, 12))
    np.testing.assert_allclose(
        record.entropy.sel(time=9), runs["gpt2"][1].entropy.sel(time=9), rtol=1e-3
    )


@pytest.mark.parametrize("wrapped", ["plain", "nested", "lightning", "tied"])
def test_a_model_of_ones_own_is_looked_at_with_the_weights_of_each_file_and_given_back_unchanged(
    own_run, tmp_path, wrapped
):
    for step, state in own_run.items():
        if wrapped == "plain":
            torch.save(state, tmp_path / f"model_{step:04d}.pt")
        elif wrapped == "nested":
            torch.save(
                {
                    "model": {f"_orig_mod.module.{k}": v for k, v in state.items()},
                    "lr": 0.3,
                    "loss": torch.ones(()),
                },
                tmp_path / f"{step}.pth",
            )
        elif wrapped == "lightning":
            torch.save(
                {"state_dict": {f"module.net.{k}": v for k, v in state.items()}, "epoch": 7},
                tmp_path / f"epoch=7-step={step}.ckpt",
            )
        else:
            save_file(
                {k: v for k, v in state.items() if k != "head.weight"},
                tmp_path / f"step{step}.safetensors",
            )
    torch.manual_seed(5)
    model = Tied().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    record = observe_checkpoints(tmp_path, model=model, probe=zoo.ids())
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert record.time.values.tolist() == list(STEPS)
    for step in (STEPS[0], STEPS[-1]):
        model.load_state_dict(own_run[step])
        with undisturbed(model):
            x = model.body.embedding(zoo.ids())
            q, k, _ = model.body.blocks[0].heads(x)
            scores = (q @ k.mT / np.sqrt(k.shape[-1])).masked_fill(
                ~model.body.blocks[0].allowed(q, None), -torch.inf
            )
            top = scores.softmax(-1).max(-1).values.mean((0, 2))
        np.testing.assert_allclose(record.top_mass.sel(time=step)[0], top, rtol=1e-5)


def test_of_files_without_a_model_the_weights_are_looked_at(own_run, tmp_path):
    for step, state in own_run.items():
        torch.save(state, tmp_path / f"step-{step}.pt")
    record = observe_checkpoints(tmp_path)
    exact = np.linalg.svd(own_run[18]["body.embedding.weight"].double().numpy(), compute_uv=False)[
        :16
    ]
    np.testing.assert_allclose(record.embedding_singular_values.sel(time=18), exact, rtol=1e-6)
    assert "entropy" not in record
    assert "--heads" in sentences(record)
    with_heads = observe_checkpoints(tmp_path, heads=zoo.HEADS, out=tmp_path / "out")
    assert (tmp_path / "out" / "report.html").is_file()  # without attention there is a page, too
    model = Tied()
    for block in model.body.blocks:
        block.n_head = zoo.HEADS
    model.load_state_dict(own_run[18])
    for name, value in weight_statistics(model).values.items():
        np.testing.assert_allclose(with_heads[name].sel(time=18), value, rtol=1e-5, err_msg=name)


def test_the_heads_of_a_gpt2_are_found_from_names_and_shapes_alone(runs, tmp_path):
    folder, watched = runs["gpt2"]
    for step in STEPS:
        shutil.copy(
            folder / f"checkpoint-{step}" / "model.safetensors",
            tmp_path / f"bare-{step}.safetensors",
        )
    bare = observe_checkpoints(tmp_path, heads=zoo.HEADS)
    of_weights = [
        name for name in watched.data_vars if name.startswith(("qk_", "ov_", "embedding_"))
    ]
    assert len(of_weights) == 12
    assert_same(watched[of_weights], bare)


def test_one_checkpoint_is_in_memory_at_a_time(runs, monkeypatch):
    n_alive = []

    def counted(path):
        tensors = read(path)
        shape = tensors["transformer.h.0.mlp.c_fc.weight"].shape
        gc.collect()
        alive = [
            thing
            for thing in gc.get_objects()
            if issubclass(type(thing), torch.Tensor) and thing.shape == shape
        ]
        n_alive.append(len({tensor.untyped_storage().data_ptr() for tensor in alive}))
        return tensors

    read = module.read_tensors
    monkeypatch.setattr(module, "read_tensors", counted)
    observe_checkpoints(runs["gpt2"][0], probe={"input_ids": zoo.ids()})
    assert len(n_alive) == len(STEPS)
    # Two layers have such a matrix: after the first there are those just read and those that the
    # model still holds, and never more.
    assert [n - n_alive[0] for n in n_alive] == [0] + [2] * (len(STEPS) - 1)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500),
        ("model_0012.pt", 12),
        ("epoch=3-step=1000.ckpt", 1000),
        ("step100_epoch4.safetensors", 100),
        ("step1000-tokens4B", 1000),
        ("pythia-70m-iter-20", 20),
        ("global_step77", 77),
        ("gpt-70m", None),
        ("model_final_20251125_040322.pt", None),
        ("model_1200_2025-11-25T04:03.pt", 1200),
        ("checkpoint_20251125-040322_500", 500),
        ("step20001024", 20001024),
        ("best.pt", None),
        ("step-1" + 20 * "0", None),  # fits no array
    ],
)
def test_steps_are_the_numbers_in_names(name, step):
    assert step_of(name) == step


# The hub
# --------------------------------------------------------------------------------------------------------------------


def test_revisions_of_a_hub_model_are_looked_at_one_by_one(runs, monkeypatch):
    import huggingface_hub

    def fetched(model_id, *, revision, allow_patterns):
        assert model_id == "someone/some-model"
        if revision == "step7":
            raise huggingface_hub.errors.RevisionNotFoundError("404", response=_answer(404))
        return str(runs["gpt2"][0] / f"checkpoint-{revision.removeprefix('step')}")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    record = observe_checkpoints(
        "someone/some-model", revisions=["step18", "step7", "step0"], probe={"input_ids": zoo.ids()}
    )
    assert_same(runs["gpt2"][1].drop_vars("moved"), record, steps=(0, 18))
    assert findings(record, "left out") == [("left out", [7])]


def test_a_hub_that_cannot_be_reached_is_said_in_one_sentence(monkeypatch):
    import huggingface_hub

    calls = []

    def failed(*args, **kwargs):
        calls.append(args)
        raise huggingface_hub.errors.LocalEntryNotFoundError(
            "Got: ConnectError: no route to host\nand much more"
        )

    monkeypatch.setattr(huggingface_hub, "snapshot_download", failed)
    with pytest.raises(
        InputError,
        match=r"revision step1 of a/b could not be fetched from the hub \(Got: ConnectError: no route to host\)",
    ):
        observe_checkpoints("a/b", revisions=["step1", "step2", "step3"])
    assert len(calls) == 1


def _answer(status):
    from types import SimpleNamespace

    return SimpleNamespace(status_code=status, headers={}, request=None)


# The command
# ----------------------------------------------------------------------------------------------------------------


def with_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", "the", "of", "and", "to", "eyes", "words", "line", "text", "read", "look"]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]"
    ).save_pretrained(folder)


def test_the_command_writes_a_record_and_prints_it_as_a_table_or_as_json(folder, tmp_path, capsys):
    shutil.rmtree(folder / "checkpoint-9")
    assert observe_command([str(folder), "--out", str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    assert "step 9 is missing: steps 6 and 12 are 6 apart where 3 is regular." in printed
    assert "no tokenizer was found: the probe is random tokens (seed 0)" in printed
    assert printed.endswith(
        f"record: {tmp_path / 'a' / 'record.zarr'}\nreport: {tmp_path / 'a' / 'report.html'}\n"
    )
    with_tokenizer(folder)
    (tmp_path / "text.txt").write_text(
        "the eyes of the line read the words and look to the text " * 40
    )
    assert (
        observe_command(
            [
                str(folder),
                "--out",
                str(tmp_path / "b"),
                "--text",
                str(tmp_path / "text.txt"),
                "--json",
            ]
        )
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["steps"] == [0, 3, 6, 12, 15, 18]
    assert answer["findings"][0]["sentence"].startswith(
        "the probe is the beginning of the given text"
    )
    record = load_record(answer["record"])
    assert np.isfinite(record.decile_focus.sel(decile=9)).all()


def test_an_encoder_with_a_decoder_is_shown_random_tokens_on_both_sides(tmp_path):
    for step in (0, 1):
        transformer("t5", seed=step).save_pretrained(tmp_path / f"checkpoint-{step}")
    record = observe_checkpoints(tmp_path)
    assert [name.split(".")[0] for name in record.layer.values] == ["encoder"] * 2 + ["decoder"] * 4
    assert np.isfinite(record.entropy).all()


def test_without_a_text_a_tokenizer_reads_our_own_paragraph(folder):
    with_tokenizer(folder)
    record = observe_checkpoints([folder / "checkpoint-0", folder / "checkpoint-3"])
    assert "the probe is a paragraph of our own" in sentences(record)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "SOURCE folder of checkpoints"),
        (["nowhere"], "there is no folder nowhere"),
        (
            ["a folder that is not here", "--revisions", "x"],
            "neither a folder here nor the name of a model",
        ),
        (["{run}", "--revisions", "x"], "`revisions` are those of a model on the hub"),
        (["{run}", "--text", "{run}/nothing.txt"], "cannot read the text"),
        (["{run}", "--text", "{run}/checkpoint-0/config.json"], "there is no tokenizer"),
        (["{run}", "--heads", "0"], "`heads` must be a whole number"),
        (["{run}", "--head", "many"], "--heads"),
        (["{empty}"], "holds no checkpoints"),
    ],
)
def test_mistakes_in_the_call_are_answered_with_a_sentence(arguments, sentence, runs, tmp_path):
    filled = [argument.format(run=runs["gpt2"][0], empty=tmp_path) for argument in arguments]
    with pytest.raises(InputError, match=sentence):
        observe_command(filled)


def test_mistakes_of_a_python_user_are_answered_with_a_sentence(runs):
    with pytest.raises(InputError, match="`model` needs a `probe`"):
        observe_checkpoints(runs["gpt2"][0], model=Tied())
    with pytest.raises(InputError, match="`model` must be a Module"):
        observe_checkpoints(runs["gpt2"][0], model="gpt2", probe=zoo.ids())
    with pytest.raises(InputError, match="is not there"):
        observe_checkpoints([runs["gpt2"][0] / "checkpoint-4"])
    with pytest.raises(InputError, match="`source` must be a folder"):
        observe_checkpoints(5)
