"""What `saccade.timeline` says of heads whose states are known, with noise that is known too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.errors import InputError
from saccade.measures.timeline import COLLAPSED, EVEN, NAMED, STATES, timeline

STEPS = [0, *(2**power for power in range(11))]
MEASURES = [
    "relative_entropy",
    "sink_mass",
    "previous_mass",
    "induction_mass",
    "duplicate_mass",
    "self_mass",
]
PLACES = MEASURES[1:]


def record(**heads: Any) -> xr.Dataset:
    """A layer in which each head has given curves; entropy .7 and nothing on any place if not said
    otherwise.
    """
    names = list(heads)
    axes = ("time", "layer", "head")
    variables = {}
    for measure in (*MEASURES, "moved"):
        default = {"relative_entropy": 0.7, "moved": 0.2}.get(measure, 0.05)
        curves = [np.broadcast_to(heads[name].get(measure, default), len(STEPS)) for name in names]
        variables[measure] = (axes, np.stack(curves, -1)[:, None].astype(float))
    shape = len(STEPS), 1, len(names)
    variables["uniform_mass"] = ((*axes, "place"), np.full((*shape, len(PLACES)), 0.05))
    errors = np.stack(
        [np.broadcast_to(heads[name].get("error", 0.0), len(STEPS)) for name in names], -1
    )[:, None, :, None]
    variables["standard_error"] = (
        (*axes, "measure"),
        np.broadcast_to(errors, (*shape, len(MEASURES))).astype(float),
    )
    return xr.Dataset(
        variables, {"time": STEPS, "layer": ["attn"], "place": PLACES, "measure": MEASURES}
    )


def rising(low: float, high: float, at: int) -> np.ndarray:
    return np.where(np.array(STEPS) >= at, high, low)


@pytest.mark.parametrize(
    ("curves", "state"),
    [
        ({"relative_entropy": 0.99}, "uniform"),
        ({"relative_entropy": 0.7}, "uneven"),
        ({"relative_entropy": 0.4}, "focused"),
        ({"relative_entropy": 0.01}, "collapsed"),
        ({"relative_entropy": 0.01, "previous_mass": 0.97}, "previous token"),
        ({"sink_mass": 0.5, "relative_entropy": 0.97}, "first token"),
        ({"sink_mass": 0.4, "induction_mass": 0.6}, "induction"),
        ({"self_mass": 0.77, "relative_entropy": 0.2}, "own token"),
        ({"duplicate_mass": 0.6, "induction_mass": 0.4}, "duplicate"),
        ({"sink_mass": NAMED + 0.01}, "uneven"),  # uniform attention gives .05 of it already
    ],
)
def test_a_head_is_in_the_state_that_its_numbers_say(curves, state):
    assert set(timeline(record(head=curves)).state(0, 0)) == {state}


def test_sentences_say_what_became_of_each_head_and_when():
    sharp = {
        "previous_mass": rising(0.1, 0.52, 128),
        "moved": np.where(np.array(STEPS) < 512, 0.3, 0.0),
    }
    found = saccade.timeline(record(a={}, b=sharp, c={"relative_entropy": rising(0.9, 0.01, 512)}))
    assert found.sentences == [
        "Attn head 1 became a previous-token head at step 128 (.52 of its attention), froze at about step 230.",
        "Attn head 2 collapsed to one key at step 512.",
        "Of the other 1, at the end: 1 uneven; none frozen.",
        "1 of 3 collapsed.",
    ]
    assert str(found) == "\n".join(found.sentences)
    (became,) = (event for event in found.events if event.name == "previous token")
    assert (became.layer, became.head, became.step, became.before, became.value) == (
        0,
        1,
        128,
        64,
        0.52,
    )
    first, *_ = saccade.timeline(record(a={}, b={"relative_entropy": 0.99})).sentences
    assert first.startswith("No head attends to one place. At the end: ")
    assert saccade.timeline(record(a={})).sentences[-1] == "Nothing collapsed."


def test_a_head_that_changes_and_one_that_was_there_from_the_start():
    turned = {
        "sink_mass": np.where(np.array(STEPS) < 64, 0.8, 0.05),
        "induction_mass": rising(0.05, 0.9, 256),
    }
    first = saccade.timeline(record(head=turned)).sentences[0]
    assert first == (
        "Attn head 0 is a first-token sink from its first observation (.80 of its attention), no longer so at step 64, "
        "became an induction head at step 256 (.90 of its attention)."
    )


def test_noise_makes_no_events():
    """A head whose share lies at the level and jumps by its standard error changes its state once
    at most.
    """
    rng = np.random.default_rng(3)
    level, error = NAMED * 0.95 + 0.05, 0.04
    wobbling = [level + error * rng.standard_normal(len(STEPS)) for _ in range(200)]
    known = timeline(
        record(
            **{
                f"h{i}": {"previous_mass": curve, "error": error}
                for i, curve in enumerate(wobbling)
            }
        )
    )
    blind = timeline(
        record(**{f"h{i}": {"previous_mass": curve} for i, curve in enumerate(wobbling)})
    )
    assert len(known.events) < 60
    assert len(blind.events) > 600
    clear = timeline(
        record(head={"previous_mass": rising(0.05, level + 3 * error, 64), "error": error})
    )
    assert [event.step for event in clear.events] == [64]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_head_on_a_place_that_was_not_measured_is_neither_named_nor_collapsed(place, is_dropped):
    sharp = {"relative_entropy": 0.0, place: 1.0}
    known = timeline(record(a=sharp, b={}))
    unknown = record(a=sharp | {place: np.nan}, b={place: np.nan} if is_dropped else {})
    found = timeline(unknown.drop_vars(place) if is_dropped else unknown)
    name = known.state(0, 0)[0]
    where = "Not measured" if is_dropped else "Not measured in 1 of 2 heads"
    assert known.sentences[0].startswith("Attn head 0 ")
    assert set(found.state(0, 0)) == {"focused"}
    assert found.sentences == [
        f"{where}: attention on {name}. Heads that attend there have no name.",
        "At the end: 1 focused on few keys, 1 uneven; none frozen.",
        "1 of 2 had one key for each query; whether they collapsed is not known.",
    ]


@pytest.mark.parametrize("gap", [slice(5, 6), slice(5, None)])
def test_where_a_place_is_not_measured_for_a_while_no_head_leaves_it(gap):
    mass = np.full(len(STEPS), 0.9)
    mass[gap] = np.nan
    found = timeline(record(a={"previous_mass": mass, "relative_entropy": 0.01}, b={}))
    assert found.state(0, 0)[5] == ""
    assert [event.name for event in found.events] == ["previous token"]
    assert "At some observations not every place was measured in 1 of 2 heads." in found.sentences
    assert not any("diverged" in said or "no longer" in said for said in found.sentences)


def test_one_sequence_is_said_to_tell_no_noise():
    alone = record(head={"error": np.nan})
    assert (
        timeline(alone).sentences[-1]
        == "The probe has one sequence, so the noise is unknown and every crossing counts."
    )


def test_heads_that_a_layer_has_not_are_missing_and_other_records_are_refused():
    some = record(a={}, b={"relative_entropy": np.nan})
    assert set(timeline(some).states[:, 0, 1]) == {-1}
    assert not any(event.head == 1 for event in timeline(some).events)
    for other in (xr.Dataset({"loss": ("time", [1.0])}), 3):
        with pytest.raises(InputError, match="watched model"):
            timeline(other)  # type: ignore[arg-type]


def test_levels_are_in_order_and_states_have_names():
    assert 0 < COLLAPSED < 0.5 < EVEN < 1
    assert len(set(STATES)) == 9


def test_where_nothing_moved_and_where_numbers_end_it_is_said():
    still = {"moved": 0.0, "relative_entropy": 0.99}
    assert "2 uniform; none has moved." in timeline(record(a=still, b=still)).sentences[0]
    assert "none frozen." in timeline(record(a={}, b=still)).sentences[0]
    lost = {"relative_entropy": np.where(np.array(STEPS) < 256, 0.7, np.nan)}
    assert (
        timeline(record(a=lost, b={}))
        .sentences[0]
        .startswith("From step 256 on 1 of 2 heads are missing")
    )
    assert (
        timeline(record(a=lost))
        .sentences[0]
        .endswith("not a number in any head: the run has diverged.")
    )
    unknown = timeline(record(a=lost | {"moved": np.nan})).sentences
    assert not any("none has moved" in sentence for sentence in unknown)


def test_where_movement_is_not_known_no_head_is_said_to_stand_still():
    unknown = timeline(record(a={"moved": np.nan}, b={"moved": np.nan})).sentences
    assert "2 uneven; movement is not known." in unknown[0]
    assert "movement is not known" in timeline(record(a={}).drop_vars("moved")).sentences[0]


def test_only_heads_with_numbers_at_the_end_are_counted_there():
    lost = {"relative_entropy": np.where(np.array(STEPS) < 256, 0.7, np.nan)}
    missing, others, _ = timeline(record(a=lost, b={"relative_entropy": 0.99}, c={})).sentences
    assert missing.startswith("From step 256 on 1 of 3 heads are missing")
    assert others.endswith("At the end: 1 uniform, 1 uneven; none frozen.")
    assert not any("At the end" in sentence for sentence in timeline(record(a=lost)).sentences)


def test_attention_of_the_model_itself_has_a_name_in_sentences():
    alone = record(a={"sink_mass": 0.9}).assign_coords(layer=[""])
    assert timeline(alone).sentences[0].startswith("The model head 0 is a first-token sink")
    twice = xr.concat([alone, alone.assign_coords(layer=["#2"])], "layer")
    assert timeline(twice).layers == ["the model", "the model#2"]


def test_a_probe_of_several_sequences_without_entropy_is_not_said_to_have_one():
    """Every query sees one key: it has no relative entropy, and the scatter of other measures is
    known.
    """
    single = record(
        a={"relative_entropy": np.nan, "error": 0.01}, b={"relative_entropy": np.nan, "error": 0.01}
    )
    single.standard_error.loc[{"measure": "relative_entropy"}] = np.nan
    assert not any("one sequence" in sentence for sentence in timeline(single).sentences)
    assert not any(
        "one sequence" in sentence
        for sentence in timeline(record(a=dict.fromkeys(MEASURES, np.nan))).sentences
    )


def test_a_head_that_comes_back_to_a_state_is_said_to_be_in_it_again():
    steps = np.array(STEPS)
    flickering = {
        "relative_entropy": np.where((steps == 8) | (steps > 31), 0.8, 0.99),
        "previous_mass": rising(0.05, 0.9, 256),
    }
    assert timeline(record(head=flickering)).sentences[0] == (
        "Attn head 0 became uniform again at step 16, no longer so at step 32, became a previous-token head at step 256 "
        "(.90 of its attention)."
    )
    sink = {"sink_mass": np.where((steps == 8) | (steps == 64), 0.05, 0.9)}
    assert timeline(record(head=sink)).sentences[0] == (
        "Attn head 0 is a first-token sink from its first observation (.90 of its attention), no longer so at step 8, became a "
        "first-token sink again at step 16 (.90 of its attention), no longer so at step 64, became a first-token sink again at "
        "step 128 (.90 of its attention)."
    )


def test_a_head_on_its_own_token_is_named():
    found = timeline(record(a={"self_mass": rising(0.05, 0.77, 16)}, b={"self_mass": 0.9}))
    assert found.sentences[:2] == [
        "Attn head 1 looks at its own token from its first observation (.90 of its attention).",
        "Attn head 0 turned to its own token at step 16 (.77 of its attention).",
    ]


def test_a_head_that_is_not_there_is_named_in_a_sentence():
    with pytest.raises(InputError, match=r"1 layers of up to 2 heads, counted from 0; got 9, 0\."):
        timeline(record(a={}, b={})).state(9, 0)


def test_a_timeline_may_be_asked_of_a_folder(tmp_path):
    saccade.save_record(record(a={}), tmp_path / "run-a" / "record.zarr")
    assert timeline(str(tmp_path / "run-a")).sentences == timeline(record(a={})).sentences
    for ask in (timeline, saccade.load_record):
        with pytest.raises(
            InputError, match="nope is not a record that can be read: there is no such folder"
        ):
            ask(tmp_path / "nope")
