"""Training on text: against a plain loop, resumed to the same bits, and honest about runs that
diverge.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from saccade.engines import train_text as training  # noqa: E402
from saccade.engines.parameter_groups import parameter_groups  # noqa: E402
from saccade.engines.randomness import Purpose, generator  # noqa: E402
from saccade.engines.text_batches import Windows  # noqa: E402
from saccade.engines.train_text import train_text  # noqa: E402
from saccade.errors import InputError  # noqa: E402
from saccade.models.transformer import Transformer, TransformerConfig  # noqa: E402
from saccade.records.checksums import seal  # noqa: E402
from saccade.records.store import damaged_records  # noqa: E402
from tests.engines.text_runs import BATCH, CONTEXT, CORPUS, N_VOCAB, SETTINGS, SMALL, ArrayCorpus  # noqa: E402
from tests.models.test_products import names_of_nodes  # noqa: E402

STEPS = 13
QUIET = {"watch": False, "evaluate": 0}


def weights_of(model: Transformer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def trained(**changes):
    """The record of a run, and its weights at every look."""
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def measures(model, step):
        seen[step] = weights_of(model)
        return {}

    record = train_text(
        CORPUS, **(SETTINGS | QUIET | {"steps": STEPS, "measures": measures} | changes)
    )
    return record, seen


@torch.enable_grad()
def curvature(model: Transformer) -> float:
    """How the squared slope of a loss changes with a matrix."""
    weight = model.unembedding.weight
    value = model(torch.arange(CONTEXT)[None] % N_VOCAB).square().mean()
    slope = torch.autograd.grad(value, weight, create_graph=True)[0]
    return float(torch.autograd.grad(slope.square().sum(), weight)[0].norm())


def test_steps_take_the_fast_products_and_what_is_measured_can_be_differentiated_twice(monkeypatch):
    losses, asked, found = [], training.next_token_loss, []
    monkeypatch.setattr(
        training, "next_token_loss", lambda *given: losses.append(asked(*given)) or losses[-1]
    )

    def measures(model, step):
        found.append((curvature(model), weights_of(model)))
        return {}

    trained(every=[0], measures=measures)
    assert "_LinearBackward" in names_of_nodes(losses[0])
    plain = Transformer(SMALL)
    for measured, weights in found:
        plain.load_state_dict(weights)
        assert measured == pytest.approx(curvature(plain.eval()), rel=1e-5)


def same_bits(ours, theirs) -> bool:
    return all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("loss", ["all", "last"])
def test_it_is_a_plain_loop_with_whole_logits_and_a_rate_for_each_group(optimiser, loss):
    model = replace(SMALL, dropout=0.0)
    rates = {"lr": 0.03, "lr_attention": 0.11, "lr_decoder": 0.007, "lr_mlp": 0.05}
    more = {
        "weight_decay": 0.01,
        "clip": 0.5,
        "optimiser": optimiser,
        "loss": loss,
        "momentum": 0.7,
    }
    record, seen = trained(model=model, **rates, **more)
    torch.manual_seed(int(generator(3, Purpose.INITIALISATION).integers(2**62)))
    plain = Transformer(model)
    groups: dict[float, list] = {rate: [] for rate in rates.values()}
    for name, parameter in plain.named_parameters():
        rate = (
            0.11
            if "q_proj" in name or "k_proj" in name
            else 0.007
            if "unembedding" in name
            else 0.05
            if ".mlp." in name
            else 0.03
        )
        groups[rate].append(parameter)
    kinds = {
        "sgd": torch.optim.SGD,
        "momentum": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    settings = {"momentum": 0.7} if optimiser == "momentum" else {}
    stepper = kinds[optimiser](
        [{"params": part, "lr": rate} for rate, part in groups.items()],
        weight_decay=0.01,
        **settings,
    )
    losses = []
    for step in range(STEPS + 1):
        (ids, following), _ = Windows(CORPUS, BATCH, CONTEXT, "random", 3).at(step)
        logits = plain(ids)
        kept = slice(-1, None) if loss == "last" else slice(None)
        value = F.cross_entropy(logits[:, kept].flatten(0, 1), following[:, kept].flatten())
        losses.append(value.item())
        if step < STEPS:
            stepper.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            stepper.step()
    np.testing.assert_allclose(record["loss"], np.array(losses)[record["time"]], rtol=2e-5)
    for name, value in seen[STEPS].items():
        torch.testing.assert_close(value, plain.state_dict()[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "changes", [{"optimiser": "adam"}, {"optimiser": "momentum", "order": "stream"}], ids=str
)
def test_a_killed_run_goes_on_to_the_same_bits(changes, tmp_path):
    """With dropout: from every checkpoint, weights and record are those of the run that was never
    stopped.
    """
    whole, bits = trained(**changes)

    class Killed(Exception):
        pass

    def killed_at(step):
        def measures(model, now):
            if now == step:
                raise Killed
            return {}

        return measures

    for step in (1, 5, STEPS):
        with pytest.raises(Killed):
            trained(checkpoints=tmp_path, measures=killed_at(step), **changes)
        assert len(list(tmp_path.glob("checkpoint-*/state.pt"))) == 1
    resumed, again = trained(checkpoints=tmp_path, **changes)
    assert min(again) > 1
    assert all(same_bits(again[step], bits[step]) for step in again)
    np.testing.assert_array_equal(resumed["time"], whole["time"])
    np.testing.assert_array_equal(resumed["loss"], whole["loss"])
    assert resumed["stop_reason"] == "finished"


def test_a_finished_run_is_read_not_trained_again(tmp_path):
    first, _ = trained(checkpoints=tmp_path)
    again, seen = trained(checkpoints=tmp_path)
    assert seen == {}
    np.testing.assert_array_equal(again["loss"], first["loss"])


def test_looking_changes_no_bit_of_a_run():
    bits = []
    for looking in (QUIET, {"watch": True, "evaluate": 7, "every": 1}):
        _, seen = trained(**looking)
        bits.append(seen[STEPS])
    assert same_bits(*bits)


def test_the_users_generators_and_threads_stay_as_they_were():
    torch.manual_seed(11)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    trained()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_what_was_seen_is_one_record_along_time(capfd):
    def measures(model, step):
        assert not model.training
        assert not torch.is_grad_enabled()
        return {
            "step_twice": 2.0 * step,
            "table": (("row", "column"), np.full((2, 3), step), {"units": "updates"}),
        }

    record, _ = trained(watch=True, evaluate=5, measures=measures, every=[0, 4, 9])
    assert record["time"].values.tolist() == [0, 4, 9, STEPS]
    assert record.sizes["layer"] == record.sizes["head"] == 2
    assert record["entropy"].notnull().all()
    assert record["table"].dims == ("time", "row", "column")
    assert record["table"].attrs["units"] == "updates"
    np.testing.assert_array_equal(record["step_twice"], [0, 8, 18, 26])
    assert record["valid_loss"][0] == pytest.approx(np.log(N_VOCAB), rel=0.01)
    assert record["valid_loss"][-1] < record["valid_loss"][0]
    config = json.loads(record.attrs["config"])
    assert (config["corpus_hash"], config["seed"], config["rates"]["attention"]) == ("0", 3, 0.05)
    assert config["watching"]["check"]["output"] < 1e-6
    assert capfd.readouterr() == ("", "")


def test_a_watched_run_that_was_killed_has_the_attention_of_the_whole_run(tmp_path):
    looking = {"watch": True, "evaluate": 5, "weights": False, "every": 1}
    whole, _ = trained(**looking)
    trained(checkpoints=tmp_path, steps=6, **looking)
    resumed, _ = trained(checkpoints=tmp_path, **looking)
    for name in set(whole.data_vars) - {"look_seconds"}:
        np.testing.assert_array_equal(resumed[name], whole[name], err_msg=name)


def test_looks_beyond_the_budget_are_missing_and_all_else_is_there():
    record, _ = trained(watch=True, budget=0.0, every=1)
    assert record.sizes["time"] == STEPS + 1
    assert record["entropy"].isnull().all(("layer", "head")).values.tolist() == [False] * 3 + [
        True
    ] * (STEPS - 2)
    assert record["loss"].notnull().all()


def test_a_run_that_diverges_stops_and_says_so():
    model = replace(SMALL, norm="none", dropout=0.0)
    record, seen = trained(model=model, lr=1e5, optimiser="sgd", steps=50, every=1, watch=True)
    assert record["stop_reason"] == "diverged"
    stop = int(record["stop_time"])
    assert stop == record["time"][-1] == max(seen) + 1 < 50
    assert record["loss"].isnull().values.tolist() == [False] * stop + [True]
    assert record["entropy"].isel(time=-1).isnull().all()


def test_a_run_that_starts_beyond_all_numbers_has_a_record_too():
    record, _ = trained(
        model=replace(SMALL, norm="none", init_scale=1e6, n_layers=3),
        optimiser="sgd",
        lr=1.0,
        watch=True,
    )
    assert (str(record["stop_reason"].values), int(record["stop_time"])) == ("diverged", 0)


def test_groups_of_equal_rate_are_one_call_of_the_optimiser():
    model, rates = (
        Transformer(TransformerConfig.wikitext(11)),
        {"rest": 0.1, "attention": 0.1, "decoder": 0.1, "mlp": 0.1},
    )
    (together,) = parameter_groups(model, rates)
    assert len(together["params"]) == len(list(model.parameters()))
    apart = {
        group["lr"]: len(group["params"])
        for group in parameter_groups(model, rates | {"attention": 0.2, "mlp": 0.3})
    }
    assert apart == {
        0.1: len(together["params"]) - 8,
        0.2: 4,
        0.3: 4,
    }  # matrices and biases of queries and keys, of the MLP


def test_the_papers_model_learns_attention_by_its_own_rate_alone():
    """A rate of zero leaves Z where it is, and Y moves."""
    model = TransformerConfig.scan_and_snap(N_VOCAB)
    _, seen = trained(model=model, loss="last", lr=1.0, lr_attention=0.0, optimiser="sgd")
    assert seen[STEPS]["pairwise_attention.scores.weight"].count_nonzero() == 0
    assert seen[STEPS]["unembedding.weight"].abs().max() > 1e-3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": -1}, "steps"),
        ({"optimiser": "sdg"}, "sgd"),
        ({"order": "streams"}, "stream"),
        ({"loss": "first"}, "loss"),
        ({"lr": float("nan")}, "lr"),
        ({"lr_mlp": -1.0}, "lr_mlp"),
        ({"clip": 0.0}, "clip"),
        ({"every": "lag"}, "log"),
        ({"every": 0}, "every"),
        ({"every": [99]}, "every"),
        ({"context": CONTEXT + 1}, "longer"),
        ({"model": replace(SMALL, n_vocab=N_VOCAB - 1)}, "tokens"),
        ({"context": 5000, "model": replace(SMALL, context=5000)}, "fewer"),
        ({"probe": [[N_VOCAB]], "watch": True}, "probe"),
        ({"probe": [[1, 2], [3]]}, "probe"),
        ({"optimiser": "momentum", "momentum": 1.0}, "momentum"),
        ({"measures": lambda model, step: {"x": np.zeros(step)}}, "one shape"),
    ],
)
def test_settings_that_make_no_run_get_a_sentence(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        trained(**changes)


def test_a_damaged_checkpoint_is_still_damaged_after_the_next_is_saved(tmp_path):
    trained(checkpoints=tmp_path, steps=2)
    weights = next(tmp_path.glob("checkpoint-*/state.pt")).with_name("model.safetensors")
    whole = weights.read_bytes()
    trained(checkpoints=tmp_path, steps=4)
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    trained(checkpoints=tmp_path, steps=6)
    assert "model.safetensors" in str(damaged_records(tmp_path)[0])


def test_checkpoints_of_another_run_and_damaged_ones_get_a_sentence(tmp_path):
    trained(checkpoints=tmp_path, steps=2)
    with pytest.raises(InputError, match="another run: its `rates`"):
        trained(checkpoints=tmp_path, lr=0.1)
    with pytest.raises(InputError, match="another run: its `corpus_hash`"):
        train_text(ArrayCorpus(hash="1"), **SETTINGS, **QUIET, steps=2, checkpoints=tmp_path)
    with pytest.raises(InputError, match="already holds a run"):
        trained(checkpoints=tmp_path, resume=False)
    with pytest.raises(InputError, match="another run: its `probe`"):
        trained(checkpoints=tmp_path, probe=[[1, 2, 3]])
    with pytest.raises(InputError, match="a run of 2 steps, more than `steps`"):
        trained(checkpoints=tmp_path, steps=1)
    assert damaged_records(tmp_path)[0] == {}  # also those that are not the newest any more
    newest = next(tmp_path.glob("checkpoint-*/state.pt"))
    weights = newest.with_name("model.safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=r"model\.safetensors is not what was written"):
        trained(checkpoints=tmp_path)
    weights.write_bytes(whole)
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be read"):
        trained(checkpoints=tmp_path)
    torch.save({"step": 2, "optimiser": bytearray(10)}, newest)  # which could be of any size
    seal(newest.parent)
    with pytest.raises(InputError, match=r"wants to use .*bytearray"):
        trained(checkpoints=tmp_path)
    with pytest.raises(InputError, match="is a file"):
        trained(checkpoints=newest)
