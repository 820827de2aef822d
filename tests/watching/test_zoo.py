"""A sample of `make zoo`: architectures of Transformers end as the table in the docs says, and a
defect would show.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from saccade.watching import softmax_trail  # noqa: E402
from tools import tiny_models, zoo  # noqa: E402

TABLE = Path(__file__).parents[2] / "docs" / "models.md"
pytestmark = pytest.mark.filterwarnings("ignore")  # what other people's models warn of


def outcomes():
    return dict(
        re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", TABLE.read_text("utf-8"), flags=re.MULTILINE)
    )


def test_the_table_has_no_defect_and_is_of_most_architectures():
    found = outcomes()
    assert set(found.values()) <= {"equal", "seen", "refused"}
    assert sum(outcome == "equal" for outcome in found.values()) > 400
    assert set(zoo.SAMPLE) <= set(found)


def test_every_type_that_is_not_built_has_its_reason_and_they_are_few():
    reasons = re.findall(r"^- `([^`]+)`: (.*)$", TABLE.read_text("utf-8"), flags=re.MULTILINE)
    assert (
        len(reasons)
        == int(
            re.search(r"^\| not built \| (\d+) \|", TABLE.read_text("utf-8"), flags=re.MULTILINE)[1]
        )
        < 150
    )
    assert all(len(reason) > 10 for _, reason in reasons)


ASKING = (
    "decision_transformer",
    "lxmert",
    "time_series_transformer",
    "wav2vec2-bert",
    "siglip2_vision_model",
    "qwen2_vl_vision",
)
MADE_OF_PARTS = (
    "gpt_neo",
    "xmod",
    "roc_bert",
    "bamba",
    "gemma3n_text",
    "perceiver",
    "hiera",
    "layoutlmv3",
)


@pytest.mark.parametrize("name", ASKING)
def test_a_model_is_given_what_it_asks_for_beside_text(name):
    made = tiny_models.built(name, "eager")
    assert (
        set(made.probe) - {"input_ids", "pixel_values", "input_features"}
        or "input_ids" not in made.probe
    )


@pytest.mark.parametrize("name", MADE_OF_PARTS)
def test_sizes_that_are_not_known_by_name_are_made_small_by_a_part_of_it(name):
    made = tiny_models.built(name, "eager")
    assert made.variant.by_part
    assert sum(each.numel() for each in made.model.parameters()) < tiny_models.MOST_PARAMETERS


@pytest.mark.parametrize("name", ["swin", "gpt_oss", "convnextv2", "bert"])
def test_no_parameter_of_a_tiny_model_stays_as_it_starts(name):
    model = tiny_models.built(name, "eager").model
    alike = [
        name
        for name, each in model.named_parameters()
        if each.numel() > 1 and float(each.detach().std()) < 1e-3
    ]
    assert not alike


def test_a_type_without_attention_is_told_from_its_code():
    assert zoo.tried("resnet").outcome == "no attention"
    assert zoo.tried("yoso").outcome == "refused"  # it has attention, without a softmax


def test_layers_whose_weights_a_model_leaves_out_are_compared_with_those_of_its_modules():
    made = tiny_models.built("swin", "eager")
    of_model, of_modules = zoo.reference(made)
    assert (len(of_model), len(of_modules)) == (4, 8)
    assert zoo.error_of(made, zoo.watched(made)) < zoo.TOLERANCE


def test_what_a_mask_of_minus_a_hundred_hides_is_exactly_zero_in_the_reference():
    _, of_modules = zoo.reference(tiny_models.built("swin", "eager"))
    assert any(bool((each == 0).any()) for each in of_modules)
    assert not any(bool(((each > 0) & (each < 1e-40)).any()) for each in of_modules)


@pytest.mark.parametrize("name", zoo.SAMPLE)
def test_a_type_ends_as_the_table_says(name):
    if transformers.__version__ not in TABLE.read_text("utf-8"):
        pytest.skip("the table is of another version of Transformers")
    assert zoo.tried(name).outcome == outcomes()[name]


def test_numbers_that_differ_are_told(monkeypatch):
    real = softmax_trail._call
    monkeypatch.setattr(zoo, "KERNELS", ("eager",))

    def shifted(known, used, *rest):
        call = real(known, used, *rest)
        return softmax_trail.replace(
            call, rows=lambda start, stop, dtype: call.rows(start, stop, dtype).roll(1, -1)
        )

    monkeypatch.setattr(softmax_trail, "_call", shifted)
    assert zoo.tried("gpt2").outcome == "different"


def test_an_error_that_is_no_sentence_is_told(monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("saccade.watching.observer.look", broken)
    assert zoo.tried("gpt2").outcome == "traceback"
